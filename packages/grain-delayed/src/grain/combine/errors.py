"""Errors of the structured frontend."""


class CombineError(Exception):
    """Base of the errors of this package."""


class WaitGroupClosed(CombineError, RuntimeError):
    """A task was submitted to a waitgroup after its block had ended."""


class ResultsNotReady(CombineError, RuntimeError):
    """The results of a waitgroup were read before its block had ended, or after it failed."""
