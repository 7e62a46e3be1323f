"""The messages between the process of the root and those of the seats."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from grain.edge.channel import Heartbeat
from grain.edge.messages import Codec, Message

SILENCE = 20.0
"""Seconds without a beat after which a member is lost. With 5 s there was no false alarm at a load
of 20 on two cores, but a network may be away for longer than that."""

JOIN = 3
"""Times that silence until all members must have joined: they begin one after the other."""

LEAD = 2 * JOIN
"""Times that silence until the root must have connected: it first waits so long for the invitations
of all, and then for all to join."""

NO_ROOT = 3
"""The status of the process of a seat to which no root has connected."""

UNWATCHED = 5
"""The status of a process that has ended itself with a program that no other could end."""

OUTPUT = 64 * 1024
"""The most bytes of a program's output in one message; of one that reports only its end, the last
ones."""


class ProgramOrder(msgspec.Struct, frozen=True, array_like=True):
    """A program to start, as the payload of a `SpawnProgram`.

    Attributes:
        argv: the program and its arguments.
        environment: that of the process which asks for it. What is a member's own in it has no
            effect.
        cwd: the directory in which it starts.
        changes: to the environment, which win over all; None removes a variable.
        stdout: the file for its output; None to report the end of it.
        timeout: seconds after which it is ended.
        grace, threads, memory_signs: those of `grain.worker.external.run_external`.
        enforce: likewise; None for what holds on the member by default.
        warn: how the program is warned, and how many seconds before the end; None if it is not.
        streams: True to pass on all output as it is written, by `ProgramOutput`.
        reads: True for one that ``streams`` and reads what comes by `ProgramInput`; else it reads
            nothing.
    """

    argv: tuple[bytes, ...]
    environment: tuple[tuple[bytes, bytes], ...]
    cwd: bytes
    changes: tuple[tuple[bytes, bytes | None], ...] = ()
    stdout: bytes | None = None
    timeout: float | None = None
    grace: float = 1.0
    threads: int | None = None
    streams: bool = False
    enforce: bool | None = None
    memory_signs: tuple[str, ...] = ()
    warn: tuple[tuple[bytes, str] | int, float] | None = None
    reads: bool = False


class RankOrder(msgspec.Struct, frozen=True):
    """A rank that srun has started, as its stand-in asks for it at the door of its member.

    Attributes:
        call: the number of the call that it belongs to.
        words: the program and its arguments.
        cwd: the directory in which it starts.
        enforce: as of `ProgramOrder`.
    """

    call: int
    words: tuple[str, ...]
    cwd: str
    enforce: bool | None = None


class RemoteOrder(msgspec.Struct, frozen=True):
    """A program on a member, as ``rsh`` asks for it at the root.

    Attributes:
        host: the member, such as m1.
        words: quoted for a shell, to which ssh would pass them.
        environment: that of the process which asks for it.
        cwd: the directory in which it starts.
        daemon: True for one of a launcher, and not for a program of the user.
        call: the number of the call that the launcher belongs to.
        reads: as of `ProgramOrder`.
    """

    host: str
    words: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    daemon: bool = True
    call: int = 0
    reads: bool = False


class SpawnProgram(Message, frozen=True):
    """An order to start a program; the payload is a `ProgramOrder`.

    Attributes:
        number: of the program, for the messages below.
    """

    max_payload: ClassVar[int] = 16 * 1024**2
    number: int


class EndProgram(Message, frozen=True):
    """An order to end a program, and all that it has started; without effect if it has ended."""

    number: int


class WarnProgram(Message, frozen=True):
    """An order to warn a program, as its `ProgramOrder` says; without effect if it has ended.

    Attributes:
        worker: True before the end of a worker, and not before a time limit.
    """

    number: int
    worker: bool


class ProgramInput(Message, frozen=True):
    """A piece of a program's standard input, as the payload; an empty one is its end.

    The next one waits until this one is in the program's pipe, so what is on the way is bounded.
    """

    max_payload: ClassVar[int] = OUTPUT
    number: int


class ProgramOutput(Message, frozen=True):
    """A piece of a program's output, as the payload; the next one waits for an `OutputTaken`.

    So a reader that stands still holds up the program, and nothing else. What is left at the
    program's end comes at once.

    Attributes:
        number: of the program.
        stream: 1 for stdout, 2 for stderr. 0: its last `ProgramInput` has been taken, or, without
            a payload, it reads no more; nothing waits for that.
    """

    max_payload: ClassVar[int] = OUTPUT
    number: int
    stream: int


class OutputTaken(Message, frozen=True):
    """A report that the reader has taken a `ProgramOutput`; arguments as there."""

    number: int
    stream: int


class ProgramExited(Message, frozen=True):
    """A report that nothing of a program is left.

    The payload is a pickled `grain.worker.external.Completed`, or an `ExternalError`: words and
    paths in these need not be text. Only the members of one task read it.
    """

    max_payload: ClassVar[int] = 16 * 1024**2
    number: int


class MemberPlace(Message, frozen=True):
    """A report of where a member is, the first one.

    Attributes:
        job, node: as Slurm calls them; empty if it is in no job of Slurm.
        door: the name at which it accepts ranks, see `grain.worker.gang.door`.
    """

    job: str
    node: str
    door: str


class EndCall(Message, frozen=True):
    """An order to end all ranks of a call that came by the door; no more are accepted.

    Attributes:
        failed: True to be told if the worker of the member is being ended, as the call has failed.
    """

    call: int
    failed: bool = False


class CallEnded(Message, frozen=True):
    """A report that nothing of such a call is left.

    Attributes:
        ends: True if the worker of the member is being ended: the call has not failed by itself.
    """

    call: int
    ends: bool = False


class CallUsed(Message, frozen=True):
    """A report of what the ranks of such a call have used, before its `CallEnded`, if it had any.

    The payload is pickled: a `grain.eventlog.usage.Usage`, and the error of a rank that ended for
    want of memory, or None.
    """

    max_payload: ClassVar[int] = 16 * 1024**2
    call: int


class MemberEnds(Message, frozen=True):
    """A report of when the worker of the member ends, as often as that changes.

    Attributes:
        left: seconds until its runs are cancelled; None while that is open.
        now: True if programs are to be warned now.
    """

    left: float | None
    now: bool


def heartbeat(silence: float) -> Heartbeat:
    """Return the times of a channel between members that is lost after so many seconds."""
    return Heartbeat(interval=silence / 10, suspect=silence / 2, lost=silence)


CODEC = Codec(
    SpawnProgram, EndProgram, WarnProgram, ProgramInput, ProgramOutput, OutputTaken, ProgramExited,
    MemberPlace, EndCall, CallUsed, CallEnded, MemberEnds,
)  # fmt: skip
"""The codec of both sides."""
