"""Errors of executors."""


class ExecutorError(Exception):
    """Base of the errors of executors."""


class ExecutorClosed(ExecutorError, RuntimeError):
    """The executor is not running: not entered yet, or left already."""


class Cancelled(ExecutorError):
    """The outcome of a task that was cancelled, for whoever still waits for it."""
