"""The queue for programs that submit many jobs: without a process for each, as commands need."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.jobs.dispatcher import wake_dispatcher
from grain.cli.queue import shell
from grain.cli.queue.explaining import STATES, outputs
from grain.cli.queue.fitting import blocks_of
from grain.cli.queue.opening import open_queue
from grain.cli.queue.rows import block_text, end_text
from grain.cli.queue.submission import SubmittedFrom, passed_on
from grain.files.processes import user_and_host
from grain.queue.book import Book
from grain.queue.records import Wish
from grain.queue.selectors import number_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from grain.queue.folder import Queue
    from grain.queue.records import Job
    from grain.queue.states import Standing


class UnfitJobs(NamedTuple):
    """Jobs that wait, ask for the same, and fit no worker that is here.

    Attributes:
        job: the number of the oldest of them.
        request: what they ask for, as in `grain.queue.records.Job`.
        timeout: their time limit.
        why: the reasons, worker by worker; or that no worker is here.
    """

    job: int
    request: dict[str, object]
    timeout: float
    why: str


def ending(standing: Standing) -> str:
    """Return how a job has ended, as the end of a sentence: ``has failed: exit status 3``."""
    words = STATES[standing.state]
    end = end_text(standing.run) if standing.run is not None else ""
    return f"{words}: {end}" if end else words


class QueueClient:
    """A queue, for a program that submits jobs and waits for their ends.

    It does what `grain submit`, `grain wait` and `grain cancel` do. Jobs are numbers here, and none
    is an array. All calls block: for some milliseconds, and longer on a network's file system. Any
    thread may call; two calls never run at the same time. Nothing stays open, so there is nothing
    to close, and jobs do not need the program that has submitted them.

    Args:
        queue: the queue; `open` has it by its name.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._book = Book.read(queue)
        # Once, as asking for the umask changes it for a moment, in all threads.
        self._here = SubmittedFrom.here()
        self._lock = threading.RLock()

    @classmethod
    def open(cls, name: str | None = None) -> QueueClient:
        """Return the queue of a name, or the default one; make it if it is not there.

        Raises:
            QueueError: it cannot be used, or this process's directory was removed.
            OSError: a file cannot be read.
        """
        return cls(open_queue(name, make=True))

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._queue.name

    def submit(self, name: str, **fields: Any) -> int:
        """Submit a job, and return its number: from now on it is a promise.

        It runs in this process's directory and with its environment, as a job of `grain submit`
        does. No dispatcher is started, see `wake`.

        Args:
            name: the job's.
            fields: more of `grain.queue.records.Job`: ``script`` or ``command``, ``request`` ...

        Raises:
            BadInput: a field makes no sense.
            CannotWrite: no job was submitted, and no number was given.
            NotSynced: it was submitted, but may be lost if the host crashes now.
        """
        with self._lock:
            now = {"at": time.time(), "environment": passed_on(shell.variables())}
            return self._queue.submit(self._here.job(name, **{**now, **fields}))

    def wake(self) -> str:
        """Start a dispatcher if none runs; return why that is not possible, as a sentence.

        Until one runs, no job begins. One that was killed while jobs wait is not started again by
        itself, so call this now and then.
        """
        with self._lock:
            try:
                return wake_dispatcher(self._queue, None)
            except OSError as error:
                return f"the dispatcher cannot be looked for: {error}"

    def ended(self, numbers: Iterable[int]) -> dict[int, Standing]:
        """Read what is new in the queue; return the states of those jobs that have ended.

        The cost hardly depends on how many jobs are asked for.

        Raises:
            QueueError, OSError: a file cannot be read for now.
        """
        with self._lock:
            self._book.refresh()
            entries = {number: self._book.entries.get(number) for number in numbers}
            return {
                number: entry.standing(None, 0.0)
                for number, entry in entries.items()
                if entry is not None and entry.is_final
            }

    def blocked(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the jobs that never begin: others did not end as they ask, or they fit nowhere.

        Each comes with the reason, as of the last look. `ended` does not return these jobs: they
        can still begin if a user runs the other job again, or brings a larger worker.
        """
        with self._lock:
            blocks = blocks_of(self._book)
            entries = {number: self._book.entries.get(number) for number in numbers}
            return {
                number: block_text(self._book, entry, block)
                for number, entry in entries.items()
                if entry is not None and (block := blocks.of(entry)) is not None
            }

    def unfinished(self, directory: str) -> Iterator[tuple[int, Job]]:
        """Yield the jobs in a directory that have not ended, with their numbers.

        Args:
            directory: that in which they run, as they were submitted.

        Yields:
            Jobs without script, command and environment.
        """
        with self._lock:
            self._book.refresh()
            entries = self._book.open_entries()
        for entry in entries:
            if entry.job.directory == directory and entry.job.array is None:
                yield entry.number, entry.job

    def standing(self, number: int) -> Standing:
        """Read how it stands with a job now.

        Raises:
            KeyError: there is no such job, as of the last look.
            QueueError, OSError: its files cannot be read.
        """
        with self._lock:
            self._book.read_task(number, None)
            return self._book.standing(number, None, time.time())

    def outputs(self, number: int) -> list[Path]:
        """Return the files to which a job prints; it may not have begun.

        Raises:
            QueueError, OSError: it cannot be read.
        """
        with self._lock:
            return outputs(self._queue.job(number), number, None, "")

    def is_to_end(self, number: int) -> bool:
        """Return True if the cancellation of a job was asked for."""
        with self._lock:
            return self._book.entries[number].asked(None).cancelled is not None

    def cancel(self, numbers: Iterable[int], why: str = "", *, running: bool = True) -> list[int]:
        """Cancel jobs; return those that waited, and never begin from now on.

        Args:
            numbers: of jobs; those that have ended stay as they are.
            why: the reason, for lists.
            running: True to have those end, too, that run. Their workers end them within seconds;
                this does not wait for it.

        Raises:
            QueueError, OSError: only some were cancelled: call it again.
        """
        with self._lock:
            self._book.refresh()
            entries = self._book.entries
            meant = [number for number in numbers if not entries[number].is_final]
            if not meant:
                return []
            if running:
                self._wish(meant, why)
            for number in meant:
                self._book.cancel(number, lambda _: True, by=user_and_host(), why=why)
            self._book.refresh()
            over = [
                number
                for number in meant
                if entries[number].standing(None, 0.0).state == "CANCELLED"
            ]
            if over and not running:
                # So that the dispatcher looks at them. Before, it would end what begins meanwhile.
                self._wish(over, why)
            return over

    def unfit(self) -> list[UnfitJobs]:
        """Ask the scheduler which jobs wait that no worker could run that is here.

        Returns:
            A job for each kind of request; none if no scheduler answers.
        """
        from grain.cli.query import NoScheduler, ask_state
        from grain.cli.queue.tickets import with_jobs
        from grain.config import ConfigError, load

        try:
            state = with_jobs(ask_state(load()))
        except (NoScheduler, ConfigError, OSError):
            return []
        found = []
        for queue in state.queues:
            number = queue.oldest.removeprefix(f"{self._queue.name}:")
            if queue.never and number.isdecimal():
                with self._lock:
                    entry = self._book.entries.get(int(number))
                if entry is not None:
                    job = entry.job
                    found.append(UnfitJobs(int(number), job.request, job.timeout, queue.never))
        return found

    def _wish(self, numbers: Iterable[int], why: str) -> None:
        self._queue.wish(
            Wish(
                what="cancel",
                jobs=number_ranges(numbers),
                by=user_and_host(),
                at=time.time(),
                why=why,
            )
        )
