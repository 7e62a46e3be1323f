"""Errors of the processes of a pool."""

from __future__ import annotations

from grain.worker.errors import TaskletError, signal_name

__all__ = ["BrokenSubprocessError", "SubprocessMemoryError"]


class BrokenSubprocessError(TaskletError):
    """The process of a call ended before the call did, or the pool was closed.

    The next call gets another process. The error can be pickled.

    Attributes:
        function: the name of the function that was called.
        reason: what happened, in words.
        returncode: the exit code, or the negative number of the signal that ended the process;
            None if that is unknown.
        signal: the name of that signal, as ``SIGSEGV``, or None.
        stderr_tail: the last lines that the process wrote to stderr during the call; after a
            segmentation fault the stack of Python is among them.
        host: the name of the machine.
    """

    def __init__(
        self, function: str, reason: str, returncode: int | None, stderr_tail: str, host: str
    ) -> None:
        super().__init__(function, reason, returncode, stderr_tail, host)  # as pickle wants it
        self.function = function
        self.reason = reason
        self.returncode = returncode
        self.signal = signal_name(returncode)
        self.stderr_tail = stderr_tail
        self.host = host

    def __str__(self) -> str:
        lines = [f"{self.function}: its process {self.reason}", f"  on host {self.host}"]
        if self.stderr_tail:
            lines.append("  the last lines of stderr:")
            lines += [f"    {line}" for line in self.stderr_tail.splitlines()]
        return "\n".join(lines)


class SubprocessMemoryError(BrokenSubprocessError, MemoryError):
    """The process of a call was killed for want of memory, or ended as it had more than its amount.

    The evidence is that of a program, see `grain.worker.processes.out_of_memory`, and stands in the
    reason. In a task of a group that learns its memory, the call is repeated with more.
    """
