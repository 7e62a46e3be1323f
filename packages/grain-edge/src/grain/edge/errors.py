"""The errors between two processes of Grain; each message says what to do about it.

Every class is an `EdgeError`. The families say who can act:

- `AddressError`: the address is not one; change the configuration.
- `MeetingError`: the meeting file, its directory or the filesystem below is not fit for use. Each
  kind is a class of its own; its sentence names the path and the remedy.
- `DialError`: no head could be reached; `tried` lists every attempt with its outcome.
- `ChannelError`: an open channel failed. `RemoteProtocolError` blames the peer,
  `LocalProtocolError` the caller, `ChannelBroken` the path between.

A channel that the peer ended on purpose raises `trio.EndOfChannel`, and a channel that was closed
on this side `trio.ClosedResourceError`, as trio's own channels do.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio


class EdgeError(Exception):
    """Anything that `grain.edge` raises for reasons outside the program.

    Attributes:
        final: trying again, or by another route, cannot help.
    """

    final: bool = False


class AddressError(EdgeError, ValueError):
    """An address that is not `edge://`, `tcp://` or `unix://` in a form that Grain reads."""

    final = True


class MeetingError(EdgeError):
    """The meeting file or what it lies on cannot be used as it is."""


class MeetingTaken(MeetingError):
    """A living head serves this meeting already.

    Args:
        pid: the process id of the head on its host; 0 if that cannot be seen.
        epoch: number of its leadership; 0 at a Unix socket, which has none.
        why: how it was seen to live.
        stopped: True if its process does not run, as after Ctrl-Z.
    """

    def __init__(
        self, path: str, host: str, pid: int, epoch: int, why: str, *, stopped: bool = False
    ) -> None:
        number = f"epoch {epoch}; " if epoch else ""
        remedy = f"Join it, end it there (kill {pid}), or choose another address."
        if stopped:
            remedy = (
                f"It is stopped, as by Ctrl-Z or `kill -STOP`: let it go on there "
                f"(kill -CONT {pid}) and join it, end it (kill -KILL {pid}; nothing is lost), or "
                "choose another address."
            )
        super().__init__(
            f"{path}: process {pid} on {host} serves this meeting ({number}{why}). {remedy}"
        )
        self.host = host
        self.pid = pid
        self.epoch = epoch


class Superseded(MeetingError):
    """A head with a higher epoch has taken the meeting over; this one must stop serving.

    Args:
        mine: the lower epoch; 0 at a Unix socket, which has none.
        epoch: the higher epoch; 0 likewise.
    """

    def __init__(self, path: str, mine: int = 0, epoch: int = 0) -> None:
        what = "this head steps down, as another one has put its socket there"
        if epoch:
            what = f"epoch {mine} steps down, as epoch {epoch} was claimed"
        super().__init__(
            f"{path}: {what}. "
            "Nothing to do if you started another one; its peers move by themselves."
        )
        self.epoch = epoch


class NoEdgeFile(MeetingError):
    """There is no meeting file (yet): no head has ever served at this address."""


class StaleEdgeFile(MeetingError):
    """The meeting file names a head that has ended or does not answer."""


class TornEdgeFile(MeetingError):
    """The meeting file is incomplete, or its checksum is wrong, and stays so."""


class NotAnEdgeFile(MeetingError):
    """The path holds something else than a meeting file."""

    final = True


class OtherVersion(MeetingError):
    """The meeting file was written by an incompatible version of Grain."""

    final = True


class NotABridge(MeetingError):
    """Something else than a bridge answers where one is to be."""


class NotListed(MeetingError):
    """A bridge serves only the meetings that its operator has listed, and not this one."""


class ForeignFile(MeetingError):
    """A file or directory belongs to another user."""

    final = True


class ExposedFile(MeetingError):
    """A file or directory that must be private lets other users in."""

    final = True


class LinkedFile(MeetingError):
    """A symbolic link, hard link or special file where a plain one must be."""

    final = True


class CannotServe(MeetingError):
    """This host cannot serve at the address: the host named there is another one, or unknown."""


class FilesystemFull(MeetingError):
    """No space or quota is left."""


class FilesystemReadOnly(MeetingError):
    """The filesystem or the directory does not let us write."""


class FilesystemHung(MeetingError):
    """The filesystem did not answer in time."""


class FilesystemFailed(MeetingError):
    """The filesystem refused for another reason; the operating system's words are in the text."""


@dataclass(frozen=True)
class Attempt:
    """A route to a head that was tried.

    Attributes:
        transport: "meeting", "unix", "tcp", "relay", "reverse" or "files".
        target: the address tried, for display: a path, or host and port.
        outcome: "ok", or why the attempt failed.
        unusable: True if the meeting itself cannot be used; False also if it names no living head.
    """

    transport: str
    target: str
    outcome: str
    seconds: float
    unusable: bool = False

    @property
    def ok(self) -> bool:
        """True if the attempt succeeded."""
        return self.outcome == "ok"

    def __str__(self) -> str:
        return f"{self.transport:8} {self.target}: {self.outcome} ({self.seconds:.1f} s)"


class DialError(EdgeError):
    """No head could be reached.

    Attributes:
        tried: every attempt in order, with its outcome.
    """

    def __init__(self, text: str, tried: tuple[Attempt, ...]) -> None:
        lines = [text, *(f"  {attempt}" for attempt in tried)]
        super().__init__("\n".join(lines))
        self.tried = tried


class NotAuthenticated(EdgeError):
    """The peer could not prove that it belongs to this meeting (or to this user)."""


class ChannelError(EdgeError):
    """An open channel failed."""


class ChannelBroken(ChannelError, trio.BrokenResourceError):
    """The connection was lost: reset, ended without a goodbye, or silent for too long.

    Attributes:
        ended: the kernel at the other end, or a device on the way, has closed or reset it: its
            process has ended, or learns of it at once.
    """

    def __init__(self, why: str = "", *, ended: bool = False) -> None:
        super().__init__(why)
        self.ended = ended


class LocalProtocolError(ChannelError):
    """The caller asked for something that the protocol does not allow; nothing was sent."""


class RemoteProtocolError(ChannelError):
    """The peer sent something that the protocol does not allow; only its channel is closed."""


class Refused(ChannelError):
    """The peer answered the greeting with a refusal; its reason is the text."""


class NotAdmitted(Refused):
    """The head wants no more of our kind at present; its reason is the text."""

    final = True


class NotServed(Refused):
    """The head serves us no more: what we sent makes no sense to it; its reason is the text."""

    final = True


class VersionMismatch(Refused):
    """Both ends speak, but not the same protocol; the text names both versions."""

    final = True
