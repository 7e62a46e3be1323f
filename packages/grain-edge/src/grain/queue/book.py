"""The book of a queue: the jobs that are not packed, what happened to them, and what was asked.

A dispatcher keeps one up to date and writes it to the file ``view`` now and then. A command that
lists jobs begins with the view and reads what is newer; without a view, it reads all files.
"""

from __future__ import annotations

import heapq
import time
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.files.forms import form_of
from grain.queue.arrays import count_tasks, has_task, task_numbers
from grain.queue.errors import Damaged, NoSuchJob, QueueError
from grain.queue.folder import is_unreadable, parse_receipt, receipt_name
from grain.queue.records import (
    UNREADABLE,
    Begun,
    Dependency,
    Job,
    Until,
    Wish,
    encode_record,
)
from grain.queue.states import (
    Asked,
    DependencyState,
    Run,
    Standing,
    State,
    StateCounts,
    asked_of,
    dependency_state,
    dependency_states,
    run_of,
    task_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from grain.queue.folder import Queue

VIEW = "view"
_RULES = 1  # grows when the same fields of a view come to mean something else
_FEW = 100  # tasks of a wish that is found by these


class ListedJob(msgspec.Struct, array_like=True, gc=False):
    """A job in a view.

    Attributes:
        number: its number.
        job: without script, environment and command, which a list does not need.
        counts: the number of its tasks in each state.
        runs: the attempts of each task that has begun.
    """

    number: int
    job: Job
    counts: StateCounts
    runs: list[tuple[int | None, list[Run]]]


class QueueView(msgspec.Struct, omit_defaults=True):
    """The content of the file ``view``.

    Attributes:
        version: its form, see `view_version`; one of another is not read.
        next_job: the first job that it does not know.
        next_wish: the first wish that it does not know.
        jobs: those that are not packed.
        wishes: those that may be for them, in their order.
        tickets: attempts that the scheduler has: job, task, attempt, and the number of the task in
            the queue's mission.
    """

    version: int
    next_job: int
    next_wish: int
    jobs: list[ListedJob]
    wishes: list[Wish]
    tickets: list[tuple[int, int | None, int, int]] = []


def view_version() -> int:
    """Return the version of views that this Grain writes and reads: it follows from the fields."""
    return form_of(QueueView, _RULES)


class _Tickets(msgspec.Struct):
    """A part of a view, which is read fast however many jobs the view has."""

    version: int
    tickets: list[tuple[int, int | None, int, int]] = []


def read_tickets(queue: Queue) -> dict[tuple[int, int | None, int], int]:
    """Return the attempts that the scheduler has, as of the view, and the numbers of their tasks.

    Raises:
        OSError: the view cannot be read.
    """
    with suppress(*UNREADABLE):  # one of another version
        content = queue.files.read(VIEW)
        if content is not None:
            view = msgspec.json.decode(content, type=_Tickets)
            if view.version == view_version():
                return {(number, task, attempt): one for number, task, attempt, one in view.tickets}
    return {}


class Cancelled(NamedTuple):
    """The effect of a cancellation on a job.

    Attributes:
        waited: the number of tasks that waited, and never begin.
        ran: the number of those that run, and are ended within seconds.
    """

    waited: int
    ran: int


class Entry:
    """A job in the book.

    Attributes:
        number: its number.
        job: without script, environment and command; with what wishes for all of it have replaced.
        runs: all attempts of each task that has begun, from 1 without gaps; the task of a job that
            is not an array is None.
        wishes: those for it, in their order.
        counts: the number of tasks in each state.
    """

    __slots__ = (
        "_asked", "_of_few", "_of_many", "_sorted", "counts", "job", "number", "runs", "tasks",
        "wishes",
    )  # fmt: skip

    def __init__(self, number: int, job: Job, counts: StateCounts | None = None) -> None:
        self.number = number
        self.job = job
        self.runs: dict[int | None, list[Run]] = {}
        self.wishes: list[Wish] = []
        self.tasks = 1 if job.array is None else count_tasks(job.array)
        self.counts = counts or StateCounts(pending=self.tasks)
        self._asked: Asked | None = None
        # The wishes with their places: those for a few tasks by these tasks, and all others. An
        # array may have thousands of tasks, and as many wishes for single ones. Most jobs have no
        # wish, and there may be very many jobs.
        self._sorted = 0
        self._of_few: dict[int, list[tuple[int, Wish]]] | None = None
        self._of_many: list[tuple[int, Wish]] | None = None

    @property
    def is_final(self) -> bool:
        """True if all tasks have ended."""
        return self.counts.is_final

    @property
    def ended(self) -> float:
        """The time at which the last attempt ended, in Unix seconds; 0 if none has."""
        return max((runs[-1].ended for runs in self.runs.values() if runs), default=0.0)

    @property
    def running(self) -> int:
        """The number of tasks that run."""
        return self.counts.running

    @property
    def has_begun(self) -> bool:
        """True if every task has begun, or has ended without."""
        return len(self.runs) == self.tasks

    def has_task(self, task: int | None) -> bool:
        """Return True for a task of the job."""
        if task is None or self.job.array is None:
            return task is None and self.job.array is None
        return has_task(self.job.array, task)

    def task_numbers(self) -> Iterator[int | None]:
        """Yield the tasks, ascending; None for a job that is not an array."""
        if self.job.array is None:
            yield None
        else:
            yield from task_numbers(self.job.array)

    def job_of(self, task: int | None) -> Job:
        """Return the job as it is for a task, which may have a time limit of its own."""
        timeout = self.asked(task).timeout if self.wishes else None
        if timeout is None or timeout == self.job.timeout:
            return self.job
        return msgspec.structs.replace(self.job, timeout=timeout)

    def asked(self, task: int | None) -> Asked:
        """Return what was asked of a task."""
        if self._sorted < len(self.wishes):
            self._sort_wishes()
        of_many = self._of_many or ()
        own = () if task is None or self._of_few is None else self._of_few.get(task, ())
        if own or any(wish.tasks for _, wish in of_many):
            wishes = heapq.merge(of_many, own, key=itemgetter(0))
            return asked_of(self.job, self.number, task, (wish for _, wish in wishes))
        if self._asked is None:
            self._asked = asked_of(self.job, self.number, task, (wish for _, wish in of_many))
        return self._asked

    def _sort_wishes(self) -> None:
        few = self._of_few = {} if self._of_few is None else self._of_few
        many = self._of_many = [] if self._of_many is None else self._of_many
        for place in range(self._sorted, len(self.wishes)):
            wish = self.wishes[place]
            if wish.tasks and sum(last - first + 1 for first, last in wish.tasks) <= _FEW:
                for first, last in wish.tasks:
                    for task in range(first, last + 1):
                        few.setdefault(task, []).append((place, wish))
            else:
                many.append((place, wish))
                self._asked = None
        self._sorted = len(self.wishes)

    def set_runs(self, task: int | None, runs: list[Run]) -> None:
        """Set the attempts of a task."""
        # The counts follow the change: an array may have 100,000 tasks.
        before = self.standing(task, 0.0).state if task in self.runs else "PENDING"
        self.runs[task] = runs
        after = self.standing(task, 0.0).state
        if after != before:
            self.counts = self.counts.moved(before, after)

    def add_wish(self, wish: Wish) -> None:
        """Add a wish that is for the job."""
        # The counts follow the changes: to count all tasks of an array again would take too long.
        before: dict[int | None, State] = {}
        if wish.what == "again":  # others leave the state of a task as it is
            before = {task: self.standing(task, 0.0).state for task in self.runs}
        self.wishes.append(wish)
        self.update(wish)
        for task, state in before.items():
            after = self.standing(task, 0.0).state
            if after != state:
                self.counts = self.counts.moved(state, after)

    def update(self, wish: Wish) -> None:
        """Replace the properties of the job that a wish for all of it replaces."""
        if wish.update is not None and not wish.tasks:
            self.job = wish.update.applied(self.job)

    def standing(
        self,
        task: int | None,
        now: float,
        dependency: DependencyState = "met",
        running: int | None = None,
    ) -> Standing:
        """Return the state of a task; see `states.task_state`."""
        return task_state(
            self.job,
            self.runs.get(task, ()),
            self.asked(task),
            now=now,
            dependency=dependency,
            running=self.running if running is None else running,
        )


class Book:
    """The jobs of a queue that are not packed.

    Attributes:
        queue: the queue.
        entries: the jobs by their numbers, ascending.
        next_job: the first job that it does not know.
        next_wish: the first wish that it does not know.
        tickets: the attempts that the scheduler has, as of the view, with the numbers of their
            tasks in the queue's mission; whoever writes a view sets it.
        damaged: a sentence on each packed file that was asked for and cannot be read.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.entries: dict[int, Entry] = {}
        self.next_job = 1
        self.next_wish = 1
        self.tickets: dict[tuple[int, int | None, int], int] = {}
        self.damaged: dict[str, None] = {}
        self._wishes: list[Wish] = []
        self._open: set[int] = set()
        self._seen: dict[int, set[str]] = {}
        self._packed: dict[int, StateCounts | None] = {}

    @classmethod
    def read(cls, queue: Queue) -> Book:
        """Return the book of a queue as it is now, from its view and what is newer.

        Raises:
            QueueError: a file cannot be understood.
            OSError: a file cannot be read.
        """
        book = cls(queue)
        with suppress(*UNREADABLE, OSError):  # of another version, or not whole
            content = queue.files.read(VIEW)
            if content is not None:
                book._fill(msgspec.json.decode(content, type=QueueView))
        book.refresh()
        return book

    def write_view(self) -> None:
        """Write the view, with `tickets`.

        Raises:
            CannotWrite: the view is as it was.
        """
        # Wishes for packed jobs only have no effect any more, so the view need not have them.
        first = min(self.entries, default=self.next_job)
        view = QueueView(
            version=view_version(),
            next_job=self.next_job,
            next_wish=self.next_wish,
            jobs=[
                ListedJob(entry.number, entry.job, entry.counts, list(entry.runs.items()))
                for entry in self.entries.values()
            ],
            wishes=[wish for wish in self._wishes if any(last >= first for _, last in wish.jobs)],
            tickets=[(*attempt, ticket) for attempt, ticket in self.tickets.items()],
        )
        self.queue.files.replace(VIEW, encode_record(view))

    def refresh(self, *, safe: bool = False) -> None:
        """Read what is newer: jobs, wishes, and receipts of jobs that have not ended.

        Args:
            safe: True for a dispatcher, which acts on what it reads: receipts are on the disk then.

        Raises:
            NotSynced: with `safe`, the disk did not confirm it.
            QueueError: a file cannot be understood.
            OSError: a file cannot be read.
        """
        # Jobs first: the receipt of a job that is not known here is passed over.
        self.read_new()
        for bucket in sorted({self.queue.buckets.of(number) for number in self._open}):
            self._read_receipts(bucket, safe=safe)

    def read_new(self) -> None:
        """Read new jobs and new wishes only, which is fast.

        Raises:
            QueueError: a file cannot be understood.
            OSError: a file cannot be read.
        """
        self._read_jobs()
        for number, wish in self.queue.wishes_from(self.next_wish):
            self.next_wish = number + 1
            self._add_wish(wish)
        self.damaged |= self.queue.jobs.damaged | self.queue.wishes.damaged

    def read_task(self, number: int, task: int | None) -> Standing:
        """Read the receipts of one task, and return its state.

        Raises:
            KeyError: the job is not in the book.
            QueueError: a file cannot be understood.
            OSError: a file cannot be read.
        """
        entry = self.entries[number]
        # One after the other by name, as a list may be old.
        attempts = self.queue.attempts(number, task)
        if attempts:
            entry.set_runs(task, [run_of(*attempt) for attempt in attempts])
            self._note(entry)
        return entry.standing(task, 0.0)

    def find(self, number: int) -> Entry | None:
        """Return a job, also one that is packed; None if it was removed, or its pack is damaged.

        Raises:
            NoSuchJob: the number is not given, as far as is known.
        """
        if number in self.entries:
            return self.entries[number]
        if not 0 < number < self.next_job:
            raise NoSuchJob(f"there is no job {number}")
        return self._packed_entry(number)

    def packed(self, number: int) -> Entry:
        """Return a packed job, which has ended.

        Raises:
            NoSuchJob: it was removed.
            QueueError, OSError: it cannot be read.
        """
        entry = Entry(number, self.queue.job(number))
        for task in entry.task_numbers():
            attempts = self.queue.attempts(number, task)
            entry.set_runs(task, [run_of(*attempt) for attempt in attempts])
        return entry

    def open_entries(self) -> list[Entry]:
        """Return the jobs that have not ended, ascending."""
        return [self.entries[number] for number in sorted(self._open)]

    def standing(self, number: int, task: int | None, now: float) -> Standing:
        """Return the state of a task of a job that is not packed.

        Args:
            number: the job's.
            task: that of the task; None if the job is not an array.
            now: Unix seconds.

        Raises:
            KeyError: the job is not in the book.
        """
        entry = self.entries[number]
        return entry.standing(task, now, self.dependency(entry, task, now))

    def counts(self, number: int) -> StateCounts | None:
        """Return the number of tasks in each state, also of a packed job; None if it was removed.

        Raises:
            NoSuchJob: the number is not given, as far as is known.
        """
        if number in self.entries:
            return self.entries[number].counts
        if not 0 < number < self.next_job:
            raise NoSuchJob(f"there is no job {number}")
        if number not in self._packed:
            entry = self._packed_entry(number)
            # Once: what is packed never changes.
            self._packed[number] = None if entry is None else entry.counts
        return self._packed[number]

    def dependency(
        self, entry: Entry, task: int | None, now: float | None = None
    ) -> DependencyState:
        """Return how it stands with what a task waits for, at a time in Unix seconds."""
        if not entry.job.after:
            return "met"
        states = self.dependencies(entry, task, now)
        return dependency_state(states, enough=entry.job.after_any)

    def dependencies(
        self, entry: Entry, task: int | None, now: float | None = None
    ) -> Iterator[tuple[Dependency, int, DependencyState]]:
        """Yield how it stands with each job that a task waits for."""
        now = time.time() if now is None else now
        return dependency_states(
            entry.job.after, self.counts, self._states_of, task, self._begun, now
        )

    def delayed_until(self, entry: Entry, now: float) -> float:
        """Return the next time at which a delay after the begin of another job ends; 0 for none."""
        ends = [
            at + dependency.delay
            for dependency in entry.job.after
            if dependency.delay
            for number in dependency.jobs
            if (at := self._begun(number, dependency.task)) is not None
        ]
        return min((end for end in ends if end > now), default=0.0)

    def cancel(
        self, number: int, chosen: Callable[[int | None], bool], *, by: str, why: str = ""
    ) -> Cancelled:
        """Cancel tasks that wait; those that run end if a wish for that was made before.

        Args:
            number: the job's.
            chosen: returns True for a task that is cancelled.
            by: the user, and the host.
            why: the reason.

        Raises:
            CannotWrite: none was cancelled, or only some: call it again.
            NotSynced: they may wait again after a crash of the host.
        """
        from _socket import gethostname  # that of the module socket, which takes its time

        now = time.time()
        waiting, running = [], 0
        for task in self.entries[number].task_numbers():
            if not chosen(task):
                continue
            standing = self.standing(number, task, now)
            if standing.state == "PENDING":
                waiting.append((task, standing.attempt))
            running += standing.state == "RUNNING"
        begun = Begun(at=now, host=gethostname(), cancelled=by, why=why)
        # A worker may begin one of them at any moment: the link decides, and not what was read.
        made = set(self.queue.cancel_waiting(number, waiting, begun) if waiting else ())
        for task, attempt in set(waiting) - made:
            # Another process was there first: a worker has begun it, or the dispatcher, which has
            # seen the wish, has cancelled it.
            other = self.queue.begun(number, task, attempt)
            if other is not None and other.cancelled:
                made.add((task, attempt))
        return Cancelled(len(made), running + len(waiting) - len(made))

    def forget(self, bucket: int) -> None:
        """Remove the jobs of a bucket that was packed from the book."""
        for number in self.queue.buckets.numbers(bucket):
            self.entries.pop(number, None)
            self._open.discard(number)
        self._seen.pop(bucket, None)

    def wishes(self) -> list[Wish]:
        """Return all wishes that may be for jobs in the book, in their order."""
        return list(self._wishes)

    def _fill(self, view: QueueView) -> None:
        if view.version != view_version():
            return
        for listed in view.jobs:
            number, job = listed.number, listed.job
            if is_unreadable(job):  # by whoever wrote the view, and perhaps not by us
                _, job = next(self.queue.jobs_from(number), (number, job))
            same = is_unreadable(job) == is_unreadable(listed.job)
            # To the writer, a job that it could not read was one task on hold.
            counts = listed.counts if same else None
            entry = self.entries[number] = Entry(number, _bare(job), counts)
            entry.runs = dict(listed.runs)
        self.next_job = view.next_job
        self.next_wish = view.next_wish
        self.tickets = {
            (number, task, attempt): ticket for number, task, attempt, ticket in view.tickets
        }
        self._wishes = view.wishes
        for wish in view.wishes:
            for entry in self._entries_of(wish):
                entry.wishes.append(wish)  # the counts are those after it
                entry.update(wish)
        self._open = {number for number, entry in self.entries.items() if not entry.is_final}

    def _read_jobs(self) -> None:
        number = self.next_job
        # Buckets that are packed long since are not in the book.
        buckets = self.queue.buckets
        while self.queue.is_packed(number):
            number = buckets.numbers(buckets.of(number)).stop
        for found, job in self.queue.jobs_from(number):
            entry = self.entries[found] = Entry(found, _bare(job))
            self._open.add(found)
            self.next_job = number = found + 1
            # Jobs are read before wishes, so a wish may be here whose job came in between.
            for wish in self._wishes:
                if any(first <= found <= last for first, last in wish.jobs):
                    entry.add_wish(wish)
        self.next_job = number

    def _add_wish(self, wish: Wish) -> None:
        if wish.what == "signal":
            return
        self._wishes.append(wish)
        for entry in self._entries_of(wish):
            entry.add_wish(wish)
            self._note(entry)

    def _entries_of(self, wish: Wish) -> Iterator[Entry]:
        for first, last in wish.jobs:
            for number in range(max(first, 1), min(last, self.next_job - 1) + 1):
                entry = self.entries.get(number)
                if entry is not None:
                    yield entry

    def _read_receipts(self, bucket: int, *, safe: bool) -> None:
        names = self.queue.receipt_names(bucket)
        seen = self._seen.setdefault(bucket, set())
        new = [name for name in names if name not in seen]
        changed: dict[tuple[int, int | None], None] = {}
        for name in new:
            receipt = parse_receipt(name)
            if receipt is not None:
                changed[receipt.job, receipt.task] = None
        # After the list, and before anything follows from it: else a crash of the host could take
        # back a receipt, but not what was done because of it.
        if safe:
            self.queue.settle(bucket)
        seen.update(new)
        for number in self.queue.buckets.numbers(bucket):
            # A list may be old, so the end of what runs is looked for by its name.
            entry = self.entries.get(number)
            if entry is not None and entry.running:
                for task, runs in entry.runs.items():
                    if runs and not runs[-1].how:
                        changed[number, task] = None
        for number, task in changed:
            entry = self.entries.get(number)
            if entry is not None and entry.has_task(task):
                self._read_runs(entry, task, seen)

    def _read_runs(self, entry: Entry, task: int | None, seen: Collection[str]) -> None:
        before = entry.runs.get(task, [])
        runs = list(before)
        while True:
            if runs and not runs[-1].how:
                begun = self.queue.begun(entry.number, task, len(runs))
                ended = self.queue.ended(entry.number, task, len(runs))
                if begun is None or ended is None:
                    break
                runs[-1] = run_of(len(runs), begun, ended)
            if runs and receipt_name(entry.number, task, len(runs) + 1, "begun") not in seen:
                break
            begun = self.queue.begun(entry.number, task, len(runs) + 1)
            if begun is None:
                break
            runs.append(run_of(len(runs) + 1, begun, None))
        if runs != before:
            entry.set_runs(task, runs)
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        if entry.is_final:
            self._open.discard(entry.number)
        else:
            self._open.add(entry.number)

    def _states_of(self, number: int) -> Callable[[int | None], State | None]:
        entry = self.entries.get(number)
        if entry is None and 0 < number < self.next_job:
            entry = self._packed_entry(number)

        def state(task: int | None) -> State | None:
            if entry is None or not entry.has_task(task):
                return None
            return entry.standing(task, 0.0).state

        return state

    def _begun(self, number: int, task: int | None) -> float | None:
        entry = self.entries.get(number)
        # It is packed or removed, so it began long ago.
        if entry is None:
            return 0.0
        runs = entry.runs if task is None else {task: entry.runs.get(task, [])}
        if not all(runs.values()) or (task is None and not entry.has_begun):
            return None
        return max((of[0].began for of in runs.values()), default=0.0)

    def _packed_entry(self, number: int) -> Entry | None:
        try:
            return self.packed(number)
        except Damaged as error:
            self.damaged[str(error)] = None
        except QueueError:  # removed, or not readable
            pass
        return None


class Block(NamedTuple):
    """The reason for which a task never begins.

    Attributes:
        job: a job that did not end as wanted; with `why` one that fits no worker, perhaps its own.
        until: the end that was wanted.
        by_way_of: jobs that wait, each for the next one, between the task and that job.
        why: why that job fits no worker; "" for one that did not end as wanted.
    """

    job: int
    until: Until
    by_way_of: tuple[int, ...] = ()
    why: str = ""


class Blocks:
    """The tasks that never begin, for a book as it is now; after a change, make a new one.

    A job that is on hold is not blocked: whoever has it on hold will release it. But if what it
    waits for has failed, or it fits no worker, that does not help either.

    Args:
        unfit: returns why a job fits no worker, whatever others do; "" if it may fit one.
    """

    def __init__(self, book: Book, unfit: Callable[[Job], str] = lambda _: "") -> None:
        self._book = book
        self._unfit = unfit
        self._known: dict[tuple[int, int | None], Block | None] = {}
        self._prepared: set[int] = set()

    def of(self, entry: Entry, chosen: Callable[[int | None], bool] | None = None) -> Block | None:
        """Return why no task of a job begins any more; None if one may, or runs, or none waits.

        Args:
            chosen: returns True for a task that counts; None for all.
        """
        self._prepare(entry)
        return self._find(entry, chosen)

    def of_task(self, entry: Entry, task: int | None) -> Block | None:
        """Return why a task that waits never begins; None if it may."""
        self._prepare(entry)
        return self._of_task(entry, task)

    def _prepare(self, entry: Entry) -> None:
        # A job waits for smaller numbers. A chain may be longer than Python's stack is deep.
        if entry.number in self._prepared:
            return
        above, left = {entry.number: entry}, [entry]
        while left:
            for other in self._waits_for(left.pop()):
                if other.number not in above:
                    above[other.number] = other
                    left.append(other)
        self._prepared |= above.keys()
        del above[entry.number]
        for number in sorted(above):
            self._find(above[number])

    def _find(
        self, entry: Entry, chosen: Callable[[int | None], bool] | None = None
    ) -> Block | None:
        if entry.is_final or (entry.running and chosen is None):
            return None
        if not entry.job.after and not self._unfit(entry.job):
            return None
        one_by_one = any(dependency.until == "each" for dependency in entry.job.after)
        found = None
        for task in entry.task_numbers():
            if chosen is not None and not chosen(task):
                continue
            state = entry.standing(task, 0.0).state if task in entry.runs else "PENDING"
            if state == "PENDING":
                found = self._of_task(entry, task)
            if state == "RUNNING" or (state == "PENDING" and found is None):
                return None
            if found is not None and not one_by_one and not entry.running:
                break  # all others wait for the same
        return found

    def _of_task(self, entry: Entry, task: int | None) -> Block | None:
        key = entry.number, task
        if key not in self._known:
            self._known[key] = self._look(entry, task)
        return self._known[key]

    def _look(self, entry: Entry, task: int | None) -> Block | None:
        if entry.asked(task).cancelled is not None:
            return None  # a cancellation ends it
        if why := self._unfit(entry.job):
            return Block(entry.number, "begun", why=why)
        found: list[Block | None] = []
        for dependency in entry.job.after:
            block = self._of_dependency(entry, dependency, task)
            if block is not None and not entry.job.after_any:
                return block
            found.append(block)
        # Where one dependency is enough, all of them have to be blocked.
        return found[0] if found and all(found) else None

    def _of_dependency(
        self, entry: Entry, dependency: Dependency, task: int | None
    ) -> Block | None:
        """Return why a dependency of a task is never met; None if it may be."""
        waits = []
        for of, number, state in self._book.dependencies(entry, task):
            if of is dependency and state == "never":
                return Block(number, dependency.until)
            if of is dependency and state == "waits":
                waits.append(number)
        one = task if dependency.until == "each" else dependency.task
        for number in waits:
            other = self._book.entries.get(number)
            # A job waits for smaller numbers. A damaged file that says otherwise must not lead in a
            # circle.
            if other is None or number >= entry.number:
                continue
            if one is None and dependency.until != "each":
                block = self._find(other)
            elif other.standing(one, 0.0).state == "PENDING":
                block = self._of_task(other, one)
            else:
                continue
            if block is not None:
                return block._replace(by_way_of=(number, *block.by_way_of))
        return None

    def _waits_for(self, entry: Entry) -> list[Entry]:
        entries = self._book.entries
        return [
            entries[number]
            for dependency in entry.job.after
            for number in dependency.jobs
            if number in entries and number < entry.number and not entries[number].is_final
        ]


def _bare(job: Job) -> Job:
    """Return a job without what a list does not need."""
    command = job.command[:1] if not job.name else ()
    return msgspec.structs.replace(job, script="", environment={}, command=command)
