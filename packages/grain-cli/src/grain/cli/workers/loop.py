"""The loop of `grain scale N`, and what it has in common with that of `grain scale --auto`."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from grain.cli.batch import BatchError, is_mark, open_system, submitted_names
from grain.cli.query import PATIENCE, state_if_any
from grain.cli.scaling.pool import JobPool, proven_after
from grain.cli.workers.jobs import joined, own_jobs, report_ended
from grain.cli.workers.submission import job_words, submit_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.cli.batch import JobRecord
    from grain.config import Config
    from grain.edge.questions import StateAnswer

BY, POOL = "scale", "gnaw"
"""The marks in the records of these jobs: a user's `grain scale` submitted them, or that of a
scheduler, which cancels the waiting jobs when it leaves."""

LOCAL, BATCH = 2.0, 15.0
"""Seconds between two looks at processes of this machine, and between two at a batch system."""


class ScaleLoop(ABC):
    """A loop that SIGINT, SIGTERM and SIGHUP end; the step that has begun is completed first.

    Under ``nohup``, which ignores SIGHUP, the loop goes on when its terminal is closed.

    Args:
        options: further options for the batch system.
        report: takes a sentence, the number of jobs that are alive, and the number of workers that
            there are to be, or the largest.
        parent: the pid of the process with which it ends; None if it ends by signals only.
    """

    def __init__(
        self,
        config: Config,
        options: tuple[str, ...],
        report: Callable[[str, int, int], None],
        parent: int | None,
    ) -> None:
        self.config = config
        self.options = options
        self.by = BY if parent is None else POOL
        self.names: dict[str, str] = {}  # of the workers, by the ids of their jobs
        self._report_to = report
        self._parent = parent
        self._troubles: dict[str, str] = {}
        self._over = False
        # A pipe and not a `threading.Event`: a handler that sets an event blocks without end if the
        # signal arrives while this thread holds the event's lock.
        self._ending, self._end = os.pipe()

    def run(self) -> None:
        """Keep workers until a signal or the parent's end; workers and jobs stay."""
        os.set_blocking(self._end, False)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)
        own = [job for job in own_jobs(self.config) if job.record.by in {BY, POOL} and job.counts]
        self.adopt([job.record for job in own])
        while not self._over and self._parent in {None, os.getppid()}:
            self.step()
            seconds = LOCAL if self.config.system == "local" else BATCH
            select.select([self._ending], [], [], seconds)
        self.report("ending; workers and jobs stay, `grain drain` ends them")

    def _on_signal(self, *_: object) -> None:
        self._over = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._end, b"!")

    @abstractmethod
    def adopt(self, records: list[JobRecord]) -> None:
        """Count the jobs that an earlier `grain scale` left behind."""

    @abstractmethod
    def step(self) -> None:
        """Look at everything once, and do what is to be done."""

    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Return the two numbers of a report."""

    def report(self, text: str) -> None:
        """Report what has happened."""
        self._report_to(text, *self.counts())

    def complain(self, about: str, text: str) -> None:
        """Report trouble once, as long as it stays the same."""
        if self._troubles.get(about) != text:
            self.report(text)
        self._troubles[about] = text

    def forget_trouble(self, about: str) -> None:
        """Note that it is over: if it comes back, it is reported again."""
        self._troubles.pop(about, None)


class PoolLoop(ScaleLoop):
    """The loop of `grain scale N`: queries, submits and waits, as a `JobPool` decides.

    Args:
        count: the number of workers.
    """

    def __init__(
        self,
        config: Config,
        options: tuple[str, ...],
        report: Callable[[str, int, int], None],
        parent: int | None,
        *,
        count: int,
    ) -> None:
        super().__init__(config, options, report, parent)
        self._count = count
        self._pool = JobPool(count, proven_after(config.worker.script.walltime))
        self._asked = -math.inf  # when the scheduler was asked for workers that leave

    def counts(self) -> tuple[int, int]:
        """Return the number of jobs that count, and that of the workers that there are to be."""
        return self._pool.counted, self._count

    def adopt(self, records: list[JobRecord]) -> None:
        """Count the jobs that an earlier `grain scale` left behind."""
        self._count_in(records)
        self.report(f"{len(records)} jobs are left from before" if records else "beginning")

    def step(self) -> None:
        """Look at everything once, and do what is to be done."""
        if self._look():
            self._look_at_workers()
            self._submit()

    def _count_in(self, records: list[JobRecord]) -> None:
        """Count jobs; the end of a job that was never submitted is not a failure."""
        self._pool.submitted([one.id for one in records], time.monotonic())
        for one in records:
            self.names[one.id] = one.name
            if is_mark(one.id):
                self._pool.excuse(one.id)

    def _look(self) -> bool:
        """Query the states of the jobs; return True if the batch system answered."""
        asked = self._pool.jobs
        try:
            states = joined(open_system(self.config).states(asked), self._workers)
        except BatchError as error:
            self.complain("", str(error))
            return False
        self.forget_trouble("")
        report_ended(self.config, states, self.names, self._workers)
        now = time.monotonic()
        failed = self._pool.look(states, now)
        ended = len(asked) - len(self._pool.jobs)
        pause = f"nothing is submitted for {self._pool.pause(now):.0f} s"
        for one in [one for one in failed if one in self._pool.stuck]:
            why = states[one].reason or "the batch system does not say why"
            self.report(f"{one} would never start ({why}) and is cancelled; {pause}")
            failed.remove(one)
        if failed:
            self.report(
                f"{len(failed)} failed at once ({', '.join(failed)}), see `grain logs`; {pause}"
            )
        try:
            open_system(self.config).cancel(self._pool.stuck)
        except BatchError as error:
            self.complain("", str(error))
        if ended > len(failed):
            self.report(f"{ended - len(failed)} ended")
        return True

    def _look_at_workers(self) -> None:
        """Ask the scheduler, now and then, which workers take no more tasks.

        Their time ends, mostly: their successors are to be there by then. So the scheduler learns
        that this process goes on, also while all of its jobs wait.
        """
        now = time.monotonic()
        if not self._pool.jobs or now < self._asked + BATCH:
            return
        state = self._state()
        if state is None:
            return
        self._asked = now
        serving = serving_jobs((one.name, one.state != "draining") for one in state.workers)
        named = {one: self.names.get(one, "") for one in self._pool.jobs}
        self._pool.look_at_workers(
            {one: serving[name] for one, name in named.items() if name in serving}
        )

    def _workers(self) -> list[str]:
        """Return the names of the workers with the scheduler; none if there is no scheduler."""
        state = self._state()
        return [] if state is None else [worker.name for worker in state.workers]

    def _state(self) -> StateAnswer | None:
        """Return the scheduler's answer; None if there is no scheduler."""
        return state_if_any(self.config, patience=PATIENCE, scales=True)

    def _submit(self) -> None:
        wanted = self._pool.wanted(time.monotonic())
        if not wanted:
            return
        try:
            for record in submit_workers(
                *(self.config, wanted, self.options),
                by=self.by,
                sharing=self._count,
                note=lambda text: self.complain("", text),
            ):
                self._count_in([record])
                if is_mark(record.id):
                    continue  # the error that follows says so
                self.report(f"{record.name} is {job_words(record)}, output in {record.log_file}")
        except (BatchError, OSError) as error:
            self._pool.refused(time.monotonic())
            self.complain("", str(error))


def serving_jobs(workers: Iterable[tuple[str, bool]]) -> dict[str, bool]:
    """Return the names of the jobs with a worker, each with True while one of them takes tasks.

    Args:
        workers: the name of each that is with the scheduler, and True if it takes tasks.

    >>> serving_jobs([("w1", False), ("w2.0", False), ("w2.1", True)])["w2"]
    True
    """
    serving: dict[str, bool] = {}
    for worker, takes in workers:
        for name in submitted_names([worker]):
            serving[name] = serving.get(name, False) or takes
    return serving
