"""A task of the queue as a row: of lists, of tables, and of commands that speak Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.queue.book import Entry
    from grain.queue.states import Run, Standing


class TaskRow:
    """A task of an array, or a job without an array, as it stands.

    Args:
        entry: its job.
        task: its number; None for a job without an array.
        standing: its state in the queue.
        now: Unix seconds.
        never: why it never begins, in a few words; "" if it may, or has.
    """

    def __init__(
        self, entry: Entry, task: int | None, standing: Standing, now: float, never: str = ""
    ) -> None:
        self.entry = entry
        self.job = entry.job_of(task)
        self.number = entry.number
        self.task = task
        self.standing = standing
        self.now = now
        self.never = never

    @property
    def name(self) -> str:
        """The name by which commands know it, as ``12_3``."""
        return task_name(self.number, self.task)

    @property
    def run(self) -> Run | None:
        """The attempt that runs or was the last one; None if it never began."""
        run = self.standing.run
        return None if run is None or never_began(run) else run

    @property
    def seconds(self) -> float | None:
        """The seconds for which that attempt runs, or ran."""
        if self.run is None:
            return None
        return self.run.elapsed if self.run.how else max(self.now - self.run.began, 0.0)


def task_name(number: int, task: int | None) -> str:
    """Return the name of a task, as ``12_3``; that of a job that is not an array is its number."""
    return str(number) if task is None else f"{number}_{task}"


def never_began(run: Run) -> bool:
    """Return True for an attempt that was cancelled before it began."""
    return run.how == "cancelled" and not run.worker
