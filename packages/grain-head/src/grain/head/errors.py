"""Errors of executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.figures import second

if TYPE_CHECKING:
    from grain.head.messages import Crash


class ExecutorError(Exception):
    """Base of the errors of executors."""


class ExecutorClosed(ExecutorError, RuntimeError):
    """The executor does not run: it was not entered yet, or was left already."""


class TaskCrashed(ExecutorError):
    """A task that was given up because its process or its worker died again and again.

    Attributes:
        crashes: the crashes, with worker, reason and time of each.
    """

    def __init__(self, message: str, crashes: tuple[Crash, ...] = ()) -> None:
        super().__init__(message, crashes)
        self.crashes = crashes

    def __str__(self) -> str:
        lines = [str(self.args[0])]
        for crash in self.crashes:
            at = second(crash.at)
            lines.append(f"  {at} on {crash.worker}: {crash.how}")
        return "\n".join(lines)


class TaskOutlivesWorkers(ExecutorError):
    """A task that was given up because it still ran when the time of each of its workers was over.

    Attributes:
        runs: those runs, with worker and seconds of each.
    """

    def __init__(self, message: str, runs: tuple[Crash, ...] = ()) -> None:
        super().__init__(message, runs)
        self.runs = runs

    def __str__(self) -> str:
        lines = [str(self.args[0])]
        for run in self.runs:
            at = second(run.at)
            ran = "" if run.outlived is None else f" after {run.outlived.ran:.0f} s"
            lines.append(f"  {at} on {run.worker}: {run.how}{ran}")
        return "\n".join(lines)


class BadMessage(ExecutorError, ValueError):
    """A message of a peer makes no sense; the peer is dropped."""


class Unreachable(ExecutorError, ConnectionError):
    """No scheduler could be reached or started."""


class MissionReplaced(ExecutorError):
    """A later process of a lasting mission has taken the place of this one."""


class TaskCancelled(ExecutorError):
    """The outcome of a task that was cancelled."""
