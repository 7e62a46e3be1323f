"""The errors of a queue; each message says what to do about it."""

from __future__ import annotations

import errno


class QueueError(Exception):
    """The base of these errors."""


class Unusable(QueueError):
    """A folder cannot be used as a queue: another version, another user's, or no hard links."""


class CannotWrite(QueueError):
    """A file of the queue could not be written; what it was for has not happened.

    Attributes:
        errno: that of the operation that failed.
    """

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.errno = number

    @property
    def passing(self) -> bool:
        """True if it may succeed when it is tried again later, as after a full disk."""
        return self.errno in _PASSING


class NotSynced(CannotWrite):
    """A file was made, but the disk did not confirm it: it may be gone after a crash of the host.

    Others may have seen it. An attempt that begins so must be ended as ``"returned"``; it is
    not run.

    Attributes:
        name: the file, relative to the folder of the queue.
    """

    def __init__(self, text: str, number: int, name: str) -> None:
        super().__init__(text, number)
        self.name = name


class Uncertain(CannotWrite):
    """A file may have been made or not: the process slept until its own copy had been removed.

    So it cannot tell whether a name that is there is its own.
    """


class NoSuchJob(QueueError):
    """A number has not been given, or the job was removed long after its end."""


class Damaged(QueueError):
    """A packed file cannot be read; the jobs in it have ended."""


class Settled(QueueError):
    """A job ended long ago and was packed, so nothing can be asked of it any more."""


class BadInput(QueueError):
    """An array, a selector, or a pattern is not written as it should be."""


_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
)
