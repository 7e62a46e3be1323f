"""The tasks that a command shows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.queue.fitting import blocks_of
from grain.cli.slurm.reading import dispatcher_runs
from grain.cli.slurm_words.facts import SlurmStep, SlurmTask
from grain.cli.slurm_words.numbers import Meant, meant
from grain.cli.slurm_words.states import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grain.cli.slurm.here import Here
    from grain.queue.book import Blocks, Book, Entry

MIN_JOB_AGE = 300.0
"""Seconds for which ``squeue`` and ``scontrol`` know a job that has ended."""


class Listing(NamedTuple):
    """The book of a queue, as commands list it.

    Attributes:
        book: the book; None if nothing was ever submitted.
        now: Unix seconds.
        here: the process.
    """

    book: Book | None
    now: float
    here: Here

    @classmethod
    def of(cls, book: Book | None, here: Here) -> Listing:
        """Return the listing of a book, as of now."""
        return cls(book, time.time(), here)

    @property
    def newest(self) -> int:
        """The number of the last job."""
        return self.book.next_job - 1 if self.book else 0

    def meant(self, word: str) -> Meant:
        """Return what a word means; see `grain.cli.slurm_words.numbers.meant`."""
        return meant(word, self.newest)

    def recent(self) -> Iterator[Entry]:
        """Yield the jobs that have not ended, or within `MIN_JOB_AGE`."""
        for entry in self.book.entries.values() if self.book else ():
            if not entry.is_final or entry.ended > self.now - MIN_JOB_AGE:
                yield entry

    def entry(self, number: int) -> Entry | None:
        """Return a job, also one that is packed; None if there is none, or it was removed."""
        if self.book is None or not 0 < number < self.book.next_job:
            return None
        return self.book.find(number)

    def steps(self, facts: SlurmTask) -> list[SlurmStep]:
        """Return what srun has started in the last attempt of a task, by the numbers."""
        return self.all_steps(facts)[1:]

    def all_steps(self, facts: SlurmTask) -> list[SlurmStep]:
        """Return the script of the last attempt of a task, and what srun has started in it."""
        from grain.queue.notes.steps import SCRIPT, steps_of

        if facts.run is None or self.book is None:
            return []
        noted = steps_of(self.book.queue, facts.number, facts.task, facts.run.attempt)
        script = next((one for one in noted if one.step == SCRIPT), None)
        return [
            SlurmStep.of_script(facts, facts.run, script),
            *(SlurmStep.of_srun(facts, one) for one in noted if one.step != SCRIPT),
        ]

    def running_steps(self, tasks: Iterable[SlurmTask], wanted: Sequence[Meant]) -> list[SlurmStep]:
        """Return the steps that run, of tasks, the script last.

        Args:
            wanted: the steps that are meant; empty for all.
        """
        return [
            step
            for facts in tasks
            if facts.run is not None and facts.state in OPEN
            for script, *steps in [self.all_steps(facts)]
            for step in (*steps, script)
            if not step.ended and (not wanted or any(step.is_meant(one) for one in wanted))
        ]

    def tasks(
        self,
        entries: Iterable[Entry],
        chosen: Callable[[int, int | None], bool] = lambda *_: True,
    ) -> list[SlurmTask]:
        """Return the facts of tasks, in the order of their numbers."""
        book = self.book
        if book is None:
            return []
        found = []
        dispatched: bool | None = None
        blocks: Blocks | None = None
        form = self.here.environment.get("SLURM_TIME_FORMAT", "")
        uid = os.getuid()
        for entry in entries:
            for task in entry.task_numbers():
                if not chosen(entry.number, task):
                    continue
                standing = entry.standing(task, self.now, book.dependency(entry, task))
                if standing.state == "PENDING" and dispatched is None:
                    dispatched = dispatcher_runs(book.queue)
                    blocks = blocks_of(book, env=self.here.environment)
                block = None
                if standing.state == "PENDING" and blocks is not None:
                    block = blocks.of_task(entry, task)
                found.append(
                    SlurmTask(
                        entry, task, standing, self.now, queue=book.queue.name, uid=uid,
                        dispatched=dispatched is not False, form=form,
                        block=block,
                    )
                )  # fmt: skip
        return found
