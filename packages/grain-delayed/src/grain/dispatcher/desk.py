"""`Desk`: what a dispatcher reads from the files of the queue, and writes to them.

All calls block, so they run in a thread, one after the other.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections import defaultdict
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from grain.dispatcher.halting import halting
from grain.dispatcher.plan import Plan, TaskAttempt
from grain.files.batch_jobs import WorkerJob
from grain.files.processes import marked
from grain.queue.book import Book
from grain.queue.dispatchers import SIGN_EVERY, Dispatchers, fate_of, this_dispatcher
from grain.queue.errors import QueueError
from grain.queue.packing import keep_house
from grain.queue.records import DEADLINE, KILL, Begun, Ended, Wish
from grain.queue.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grain.queue.folder import Queue
    from grain.queue.records import UnmetRequest
    from grain.queue.states import Run, Standing

_log = logging.getLogger("grain.dispatcher")

GONE = 60.0
"""Seconds for which the process of a run must be gone before the run is lost: its guards end what
it has started within less."""

SOON = 3.0
"""The same where nothing is left of all that the run has started: a process that just begins may be
missed by one look."""

DOUBT = 120.0
"""Seconds for which no executor knows a run, until its batch system is asked."""

_OVERDUE = "as it could not end in time"
_VIEW_SHARE = 20  # times the seconds that a view took to write, until the next one
_REFRESH = 30.0  # seconds between two looks at all receipts
_CRASHES = 10_000  # that are kept, of the last ones
_HOUSE = 3600.0  # seconds between two times at which old files are packed


class Adopted(NamedTuple):
    """An attempt that was under way when this dispatcher began.

    Attributes:
        ticket: the number of its task in the queue's mission.
    """

    start: TaskAttempt
    ticket: int


class News(NamedTuple):
    """Jobs, wishes and more that have come since the last look.

    Attributes:
        stops: attempts under way that are cancelled.
        recalls: attempts that have not begun, and may not as they were handed over.
        in_charge: False if another dispatcher has taken over, or the folder was removed.
        busy: True if there are jobs that have not ended.
    """

    stops: list[TaskAttempt]
    recalls: list[TaskAttempt]
    in_charge: bool
    busy: bool


class Desk:
    """The files of a queue, as its dispatcher uses them.

    Args:
        clock: returns seconds, which only move on.
        address: that of the scheduler.

    Attributes:
        book: what they say.
        plan: what follows.
        me: this dispatcher.
        number: of this dispatcher.
    """

    def __init__(
        self, queue: Queue, clock: Callable[[], float] = time.monotonic, address: str = ""
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._dispatchers = Dispatchers(queue.files)
        self.me = this_dispatcher(address)
        # Before it takes charge, as the dispatcher before ends then: if the files cannot be read,
        # that one goes on.
        self.book = Book.read(queue)
        self.number = self._dispatchers.take_charge(self.me)
        # A further look passes over jobs that have ended as of what was read before it.
        for bucket in {queue.buckets.of(number) for number in self.book.entries}:
            queue.settle(bucket)
        self.book.refresh(safe=True)
        self.plan = Plan(self.book)
        # Jobs whose failures are to be counted.
        self._counted: set[int] = set()
        self._settle_jobs(entry.number for entry in self.book.open_entries())
        for entry in self.book.open_entries():
            self.plan.add(entry)
            self._counted.add(entry.number)
        self._signed = self._refreshed = self._kept = self._clock()
        self._view_due = 0.0
        self._changed = True
        # When the process of a run was first found to be gone.
        self._gone: dict[TaskAttempt, float] = {}
        # The runs of which only their batch systems may know more, and since when that is so.
        self._doubts: dict[TaskAttempt, tuple[float, WorkerJob]] = {}
        self._told: dict[TaskAttempt, str] = {}
        # How runs have crashed, by ticket and run.
        self._crashes: dict[tuple[int, tuple[int, int]], str] = {}
        # What the plan knows of the book, and what is to be done for it: whatever fails between
        # the two is done with the next look.
        self._next_job = self.book.next_job
        self._wishes = len(self.book.wishes())
        # What wishes before have ended may still be under way: the dispatcher of then, and the
        # worker, may have died before they saw them.
        self._stops = self.plan.unwanted()

    def adopted(self) -> list[Adopted]:
        """Return the attempts that are under way, by ascending tickets."""
        found = []
        for start in self.plan.active():
            begun = self._queue.begun(*start)
            found.append(Adopted(start, 0 if begun is None else begun.ticket))
        return sorted(found, key=lambda one: one.ticket)

    def look(self) -> News:
        """Handle new jobs and new wishes, and make cancellations of what waits final.

        Raises:
            OSError, grain.queue.errors.QueueError: the files cannot be read or written for now;
                what was not read, or not done, comes the next time.
        """
        now = self._clock()
        if now >= self._signed + SIGN_EVERY:
            self._signed = now
            self._dispatchers.give_sign(self.number)
        try:
            self.book.read_new()
        finally:
            self._take_in()
        self._halt()
        self._end_invalid()
        self._end_overdue()
        self._cancel()
        for start in self.plan.awaited():
            self.read(start)
        if now >= self._refreshed + _REFRESH:
            # Receipts of which no executor has told: of runs that are away, of cancellations.
            self._refreshed = now
            active = list(self.plan.active())
            self.book.refresh(safe=True)
            for start in active:
                entry = self.book.entries[start.number]
                runs: Sequence[Run] = entry.runs.get(start.task, ())
                # Those that wait at the scheduler have no receipt.
                if len(runs) >= start.attempt and not self._may_run_elsewhere(start, runs[-1]):
                    self.plan.note(start.number, start.task)
                    self._counted.add(start.number)
            self._halt()
        if now >= self._kept + _HOUSE:
            self._kept = now
            try:
                keep_house(self.book)
            except (OSError, QueueError) as error:
                _log.warning("old files of the queue stay for now: %s", error)
        if self._changed and now >= self._view_due:
            self._changed = False
            with suppress(OSError, QueueError):  # a full disk; lists read all files then
                self.book.write_view()
            ended = self._clock()
            self._view_due = ended + max(1.0, _VIEW_SHARE * (ended - now))
        in_charge = self._is_in_charge()
        stops, self._stops = self._stops, []
        # By name, as a run that is called back after its program began would be lost. One that
        # begins from now on sees the wish by itself.
        recalls = [one for one in self.plan.take_recalls() if not self.has_begun(one)]
        return News(stops, recalls, in_charge, self.plan.has_jobs)

    def _may_run_elsewhere(self, start: TaskAttempt, run: Run) -> bool:
        """Return True if another worker of an attempt that was handed back may not have ended it.

        The scheduler knows: the call ends when nothing of the attempt runs any more.
        """
        return run.how == "returned" and bool(run.others) and start in self.book.tickets

    def leave(self) -> None:
        """Note that this dispatcher ends, so that commands on all hosts know."""
        self._dispatchers.say_farewell(self.number)

    def has_outlived_successor(self) -> bool:
        """Return True if another dispatcher has taken over and died, so none serves the queue.

        One that a user has ended said farewell, and the queue stays without a dispatcher.

        Raises:
            OSError: the files cannot be read.
        """
        return (
            self._dispatchers.is_there(self.number, self.me)
            and not self._dispatchers.is_in_charge(self.number)
            and self._dispatchers.is_missing()
        )

    def _is_in_charge(self) -> bool:
        # If it is not there, the folder was removed, and perhaps made again.
        there = self._dispatchers.is_there(self.number, self.me)
        return there and self._dispatchers.is_in_charge(self.number)

    def _take_in(self) -> None:
        """Tell the plan what is new in the book."""
        self._settle_jobs(range(self._next_job, self.book.next_job))
        for number in range(self._next_job, self.book.next_job):
            if number in self.book.entries:
                self.plan.add(self.book.entries[number])
            self._next_job = number + 1
            self._changed = True
        for wish in self.book.wishes()[self._wishes :]:
            self._stops += self.plan.wish(wish)
            self._wishes += 1
            self._changed = True

    def read(self, start: TaskAttempt) -> bool:
        """Read how it stands with an attempt that was handed over; return True if it has ended.

        Raises:
            OSError, grain.queue.errors.QueueError: its files cannot be read for now.
        """
        return self._settled({start: self.book.read_task(start.number, start.task)})[start]

    def read_all(self, starts: Iterable[TaskAttempt]) -> dict[TaskAttempt, bool]:
        """Read as `read` does, with one sync for many; what cannot be read is left out.

        Raises:
            grain.queue.errors.NotSynced: the disk did not confirm what was read.
        """
        found = {}
        for start in starts:
            try:
                found[start] = self.book.read_task(start.number, start.task)
            except (OSError, QueueError) as error:
                _log.warning("the receipts of job %d cannot be read: %s", start.number, error)
        return self._settled(found)

    def _settled(self, found: Mapping[TaskAttempt, Standing]) -> dict[TaskAttempt, bool]:
        self._changed = True
        noted = [one for one in found if one.task in self.book.entries[one.number].runs]
        for bucket in {self._queue.buckets.of(one.number) for one in noted}:
            self._queue.settle(bucket)
        for one in noted:
            self.plan.note(one.number, one.task)
            self._counted.add(one.number)
        self._halt()
        over = dict.fromkeys(found, False)
        for one in noted:
            over[one] = found[one].state in FINAL or found[one].attempt > one.attempt
        return over

    def _halt(self) -> None:
        """Cancel the rest of arrays with as many failures as were allowed.

        No task of them begins after that.
        """
        for number in list(self._counted):  # what fails before its turn is left for the next time
            entry = self.book.entries.get(number)
            wish = None if entry is None else halting(entry)
            if wish is not None:
                self._queue.wish(wish)
                self.book.read_new()
                self._take_in()
            self._counted.discard(number)

    def _settle_jobs(self, numbers: Iterable[int]) -> None:
        """Have jobs on the disk, once for all their attempts, which need not sync them again."""
        for bucket in {self._queue.buckets.of(number) for number in numbers}:
            self._queue.settle_jobs(bucket)

    def _end_invalid(self) -> None:
        """Cancel what wants to be cancelled if it can never begin."""
        for number, task in self.plan.take_invalid():
            entry = self.book.entries[number]
            if entry.asked(task or next(entry.task_numbers())).cancelled is None:
                self._queue.wish(
                    Wish(
                        what="cancel",
                        jobs=((number, number),),
                        tasks=() if task is None else ((task, task),),
                        by=f"--{KILL}",
                        at=time.time(),
                        why="as it could never begin",
                    )
                )
                self.book.read_new()
                self._take_in()

    def _end_overdue(self) -> None:
        """Cancel what waits and cannot end by its deadline any more.

        Whatever a worker has begun in time goes on: of two receipts of a begin only one is made.
        """
        for number in list(self.plan.overdue):
            now = time.time()
            if (entry := self.book.entries.get(number)) is None:
                self.plan.overdue.discard(number)
                continue
            waiting = {
                TaskAttempt(number, task, standing.attempt)
                for task in entry.task_numbers()
                if entry.job_of(task).latest_begin <= now
                and (standing := entry.standing(task, now)).state == "PENDING"
                and standing.reason not in ("held", "cancel")
            }
            begun = Begun(at=now, host=socket.gethostname(), cancelled=DEADLINE, why=_OVERDUE)
            handed = waiting.intersection(self.plan.active())
            made = self._queue.cancel_waiting(number, [one[1:] for one in waiting], begun)
            self._stops += [one for one in handed if one[1:] in made]
            self._settled({one: self.book.read_task(number, one.task) for one in waiting})
            self.plan.overdue.discard(number)

    def give_back(self, start: TaskAttempt) -> None:
        """Let an attempt be tried again that was handed over and has not begun."""
        self.plan.give_back(start)

    def note_tickets(self) -> None:
        """Have a view written soon, as the tickets of the book have changed."""
        self._changed = True

    def note_unmet(self, unmet: Iterable[UnmetRequest]) -> None:
        """Tell commands all requests of jobs that no worker which is here can meet."""
        self._dispatchers.note_unmet(self.number, unmet)

    def has_begun(self, start: TaskAttempt) -> bool:
        """Return True if an attempt has begun, or never will."""
        return self._queue.begun(*start) is not None

    def refuse(self, start: TaskAttempt, message: str) -> None:
        """Note for good that an attempt cannot begin."""
        now = time.time()
        mine = Begun(at=now, host=socket.gethostname())
        if self._queue.begin(*start, mine):
            self._queue.end(*start, Ended(how="start", at=now, status=127, message=message))
        self.read(start)

    def end_lost(self, starts: Iterable[TaskAttempt]) -> list[TaskAttempt]:
        """Look at attempts that no executor knows; return those that have ended.

        One is lost if its process is known to be gone, see `grain.queue.dispatchers.fate_of`,
        `note_death` and `note_crash`.

        Raises:
            OSError, grain.queue.errors.QueueError: it cannot be noted that one is lost.
        """
        over = self.read_all(starts)
        left = cache(_is_left)  # runs of one worker have one mark
        ends = [start for start, ended in over.items() if ended or self._end_if_lost(start, left)]
        for start in ends:
            for known in (self._gone, self._doubts, self._told):
                known.pop(start, None)
        return ends

    def in_doubt(self) -> dict[TaskAttempt, WorkerJob]:
        """Return the runs of which only their batch systems may know more, for some minutes."""
        before = self._clock() - DOUBT
        return {start: job for start, (since, job) in self._doubts.items() if since <= before}

    def note_death(self, start: TaskAttempt, why: str) -> None:
        """Note how it is known that the process of a run is gone, as its batch job is over."""
        self._told[start] = why

    def note_crash(self, ticket: int, run: tuple[int, int], how: str) -> None:
        """Note how a run has crashed, as its worker reports it when nothing is left of it."""
        self._crashes[ticket, run] = how
        if len(self._crashes) > _CRASHES:
            del self._crashes[next(iter(self._crashes))]

    def has_crashed(self, start: TaskAttempt) -> bool:
        """Return True if the run has crashed that has begun an attempt."""
        begun = self._queue.begun(*start)
        return begun is not None and (begun.ticket, begun.run) in self._crashes

    def _end_if_lost(self, start: TaskAttempt, is_left: Callable[[str], bool]) -> bool:
        begun = self._queue.begun(*start)
        if begun is None:
            return False
        # Another run of the same task may crash, which has found the attempt taken.
        if crash := self._crashes.get((begun.ticket, begun.run), ""):
            return self._end_as_lost(start, crash)
        now = self._clock()
        why = self._told.get(start, "") or _death(begun)
        if not why:
            self._gone.pop(start, None)
            if begun.batch_job and fate_of(begun) == "unknown":
                job = WorkerJob(begun.batch_system, begun.batch_job, begun.host)
                self._doubts.setdefault(start, (now, job))
            return False
        gone = now - self._gone.setdefault(start, now)
        if gone < SOON or (gone < GONE and _may_be_left(begun, is_left)):
            return False
        return self._end_as_lost(start, why)

    def _end_as_lost(self, start: TaskAttempt, why: str) -> bool:
        self._queue.end(*start, Ended(how="lost", at=time.time(), message=why))
        return self.read(start)

    def _cancel(self) -> None:
        """Make the cancellations of all that waits final."""
        failed: OSError | QueueError | None = None
        for number, waiting in self.plan.to_cancel().items():
            try:
                self._cancel_waiting(number, waiting)
            except (OSError, QueueError) as error:  # one job does not hold up the others
                failed = failed or error
        if failed is not None:
            raise failed

    def _cancel_waiting(self, number: int, waiting: Mapping[int | None, int]) -> None:
        entry = self.book.entries[number]
        by_wish: defaultdict[Wish | None, list[tuple[int | None, int]]] = defaultdict(list)
        for task, attempt in waiting.items():
            by_wish[entry.asked(task).cancelled].append((task, attempt))
        for wish, tasks in by_wish.items():
            assert wish is not None  # as they are unwanted
            begun = Begun(
                at=time.time(),
                host=socket.gethostname(),
                cancelled=wish.by or "a user",
                why=wish.why,
            )
            self._queue.cancel_waiting(number, tasks, begun)
        # Those that another one has cancelled, or begun, are read again, too.
        self._settled(
            {
                TaskAttempt(number, *one): self.book.read_task(number, one[0])
                for one in waiting.items()
            }
        )


def next_pause(plan: Plan, most: float) -> float:
    """Return the seconds until there may be something to start, at most so many."""
    at = plan.next_time()
    return min(most, max((math.inf if at is None else at) - time.time(), 0.0))


def _may_be_left(begun: Begun, is_left: Callable[[str], bool]) -> bool:
    """Return True if processes may be left of a run whose own process is gone."""
    fate = fate_of(begun)
    if begun.others or fate == "unknown":
        return True  # on hosts that cannot be seen from here
    return fate == "gone" and (not begun.mark or is_left(begun.mark))


def _is_left(mark: str) -> bool:
    return bool(marked(mark.encode()))


def _death(begun: Begun) -> str:
    """Return how it is known that the process of a run is gone; "" if it is not known."""
    match fate_of(begun):
        case "gone":
            return f"the process of its worker on {begun.host} is gone"
        case "rebooted":
            return f"{begun.host} was started again meanwhile"
        case _:
            return ""
