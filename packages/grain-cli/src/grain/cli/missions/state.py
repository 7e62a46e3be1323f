"""The state of a start, by its files and the processes of this host; without I/O."""

from __future__ import annotations

import enum
import signal
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.mission_records import STARTING
from grain.resource.figures import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.mission_records import End, StartRecord

SILENCE = 300.0
"""Seconds without a sign of life after which a start on another host counts as lost.

A keeper touches its file every 30 s, and NFS shows the times of files late.
"""


class Phase(enum.Enum):
    """The phase of a start, in the words of `grain history`."""

    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    KILLED = "killed"

    @property
    def alive(self) -> bool:
        """True if the program runs, as far as this host knows."""
        return self in (Phase.STARTING, Phase.RUNNING)


class State(NamedTuple):
    """State of a start, as far as this host knows it.

    Attributes:
        detail: the rest of a sentence about it: ``it ...``.
        certain: False if it is judged only by missing signs of life: it may run all the same.
    """

    phase: Phase
    detail: str
    certain: bool = True


def judge(
    record: StartRecord,
    *,
    host: str,
    kernel: str,
    now: Callable[[], float],
    began: Callable[[int], int | None],
) -> State:
    """Return the state of a start.

    Args:
        kernel: the boot id and the process namespace of this host, as `Process.kernel` has them.
        now: returns the time by the clock of the folder's file system, in Unix seconds.
        began: returns the start of a process of this host; None if it is dead.
    """
    if record.end is not None:
        if record.end.status and record.cancelled is not None:
            return State(Phase.INTERRUPTED, f"was cancelled by {record.cancelled.by}")
        return _ended(record.end)
    process = record.process
    if process is None:
        if now() - record.made < STARTING:
            return State(Phase.STARTING, "is about to begin")
        return State(Phase.KILLED, "never began: its keeper was killed, or its host went down")
    if process.kernel == kernel:
        if began(process.pid) == process.began:
            return State(Phase.RUNNING, f"runs on {process.host}")
        if began(process.keeper) == process.keeper_began:
            return State(Phase.RUNNING, f"is ending on {process.host}")
        return State(Phase.KILLED, f"was killed on {process.host}, or that host was rebooted")
    silent = now() - record.alive
    if silent < SILENCE:
        return State(Phase.RUNNING, f"runs on {process.host}")
    if process.host == host and _boot(process.kernel) != _boot(kernel):
        return State(Phase.KILLED, f"was killed as {host} was rebooted")
    return State(
        Phase.KILLED,
        f"has given no sign of life for {int(silent)} s: it was killed or stopped on "
        f"{process.host}, or that host was rebooted or hangs",
        certain=False,
    )


def _boot(kernel: str) -> str:
    return kernel.partition("/")[0]


def _ended(end: End) -> State:
    # A shell, and a mission that ends in good order after a signal, add 128 to its number.
    number = -end.status if end.status < 0 else end.status - 128
    if end.status == 0:
        return State(Phase.DONE, "is done")
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        return State(Phase.INTERRUPTED, f"was ended by {signal_name(number)}")
    if end.status < 0:
        return State(Phase.KILLED, f"was killed by {signal_name(number)}")
    return State(Phase.FAILED, f"failed with exit status {end.status}")
