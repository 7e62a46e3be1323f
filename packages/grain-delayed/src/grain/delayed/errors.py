"""Errors of the delayed frontend."""


class DelayedError(Exception):
    """Base of the errors of this package."""


class NotInMission(DelayedError, RuntimeError):
    """A delayed function was called, or a delayed object awaited, where no mission runs."""


class MissionCancelled(DelayedError):
    """A user has cancelled the mission with `grain cancel`; the text says who."""


class CacheError(DelayedError):
    """The result cache cannot be used as it is; the sentence says what to change."""
