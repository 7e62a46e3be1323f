"""The errors of looking for logs and reading them; each message says what to do about it."""

from __future__ import annotations


class LogError(Exception):
    """The base of these errors."""


class NotALog(LogError):
    """A file or a folder is not an event log."""


class NewerLog(LogError):
    """A log has a version of the format that this Grain does not know yet."""

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text)
        self.version = version


class NoSuchLog(LogError):
    """No log has this name or id."""


class AmbiguousLog(LogError):
    """Several missions have names or ids that begin like this.

    Attributes:
        candidates: the names of the folders of some of them, newest first.
    """

    def __init__(self, text: str, candidates: tuple[str, ...]) -> None:
        super().__init__(text)
        self.candidates = candidates


class SeveralRun(AmbiguousLog):
    """Several missions of one name run."""
