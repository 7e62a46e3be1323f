"""Errors that a worker adds to those of the tasklets themselves."""


class TaskletError(Exception):
    """Base of the errors of tasks that are not the tasklet's own exceptions."""


class TaskletAborted(TaskletError):
    """A tasklet raised what would end the whole process, such as `SystemExit`."""
