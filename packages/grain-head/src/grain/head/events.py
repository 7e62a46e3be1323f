"""The events of an executor, as types, and its counts; listeners show them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.resource import Resource
    from grain.worker.messages import BlockingCode


class Event(msgspec.Struct, frozen=True):
    """The base of all events."""


class WorkerJoined(Event, frozen=True):
    """A worker offers its resources."""

    name: str
    total: Resource


class WorkerCleaning(Event, frozen=True):
    """A worker is about to leave, and ends what is left on it."""

    name: str


class WorkerLeft(Event, frozen=True):
    """A worker is gone, and nothing of its runs is left behind."""

    name: str


class WorkersLost(Event, frozen=True):
    """Workers that had run tasks of the mission are lost: they died, or nothing comes from them.

    Attributes:
        tasks: how many tasks were on them, and run again.
        silent: the seconds since there was the last sign of the first of them.
        why: how the job of one of them has ended, as its batch system says; empty if not known.
    """

    names: tuple[str, ...]
    tasks: int
    silent: float
    why: str = ""


class WorkersStopped(Event, frozen=True):
    """Workers have left in good order, and have ended runs of the mission before their time.

    Attributes:
        tasks: how many tasks ran on them, and begin again.
        why: why the first of them was to leave, as the worker says; empty if it does not.
    """

    names: tuple[str, ...]
    tasks: int
    why: str


class NeverStarts(Event, frozen=True):
    """No worker that is here could ever run a task with this request; it waits for another.

    Attributes:
        why: what each worker lacks.
        larger: True if each has too little in all, so that more workers like them do not help.
        cluster: True if the whole cluster has too little, so that no worker helps.
    """

    request: Resource
    why: str
    larger: bool = False
    cluster: bool = False


class NoWorkers(NeverStarts, frozen=True):
    """No worker is here at all; tasks wait for the first."""


class CanStart(Event, frozen=True):
    """A worker is here that can run tasks with a request that `NeverStarts` has reported."""

    request: Resource


class OtherSoftware(Event, frozen=True):
    """A worker has another Python than the mission, or NumPy of another major version.

    By the first it runs no tasks whose functions travel by value; by the second one side may not
    load the arrays of the other.

    Attributes:
        worker: its name; workers of the same versions that come later are not reported.
        theirs: what it has, as in "Python 3.12" and "NumPy 2.1.0".
        numpy: True if it is about NumPy.
    """

    worker: str
    host: str
    theirs: str
    ours: str
    numpy: bool = False


class TaskBlocks(Event, frozen=True):
    """A task blocks the event loop of its worker, and with it the other tasks there."""

    worker: str
    code: BlockingCode


class TasksPrinted(Event, frozen=True):
    """Tasks have printed lines on a worker, and the mission wants them.

    Attributes:
        worker: the name of the worker.
        text: whole lines, each with the task at its beginning.
        lost: the number of lines that were left out before these, as there were too many.
    """

    worker: str
    text: str
    lost: int = 0


class SchedulerAway(Event, frozen=True):
    """The shared scheduler cannot be reached; what runs and waits goes on."""

    why: str


class SchedulerBack(Event, frozen=True):
    """The shared scheduler, or its successor, is reached again."""


class SchedulerTrouble(Event, frozen=True):
    """The shared scheduler serves, but something keeps it from working as it should.

    Attributes:
        what: where, as a directory, or a place that is set aside.
        why: the end of a sentence; empty when it is over.
        aside: True for a place where tasks fail that succeed elsewhere.
    """

    what: str
    why: str
    aside: bool = False


class LastTasksAway(Event, frozen=True):
    """All tasks that have not ended are on workers that the shared scheduler does not reach.

    Attributes:
        worker: the name of one of these workers.
        workers: how many there are.
        seconds: until the scheduler gives the last of them up, and starts the tasks elsewhere.
    """

    tasks: int
    worker: str
    host: str
    workers: int
    seconds: float


class RunsEnded(Event, frozen=True):
    """The scheduler has ended runs of this mission, which was away for too long; they run again.

    Attributes:
        away: for how many seconds the mission was away.
        stopped: for how many of them its event loop did not run; 0 if it did.
    """

    runs: int
    away: float
    stopped: float


class CancelRequested(Event, frozen=True):
    """A user has cancelled the mission from outside: it is to end, as by Ctrl-C."""

    by: str


class TaskFailed(Event, frozen=True):
    """A task has ended with an exception, which its caller is about to get.

    Attributes:
        task: its number.
        error: the exception.
        worker: where it ran; empty if it did not, or if there is one worker only.
        call: returns its function and its arguments, shortened.
    """

    task: int
    error: BaseException
    worker: str
    call: Callable[[], str]


class TaskOutlived(Event, frozen=True):
    """A task still ran when the time of its worker was over; it starts again from its beginning.

    One task of each function is reported, and one more if only the second of them had most of the
    time of its worker.

    Attributes:
        task: as ``grain why`` takes it.
        function: the name of its function.
        ran: the seconds for which it had run.
        life: those of its worker, from its start to its end.
        most: True if it had most of them, so that no other worker like it will do either.
    """

    task: str
    function: str
    ran: float
    life: float
    most: bool


class MembersApart(Event, frozen=True):
    """A task on several workers has not begun: two did not reach each other, or one has died.

    Each reason is reported once.

    Attributes:
        task: as ``grain why`` takes it.
        function: the name of its function.
        why: a clause with both workers and their hosts.
    """

    task: str
    function: str
    why: str


class RunsLeft(Event, frozen=True):
    """The scheduler cannot be reached at the end of a mission, and is yet to end its runs.

    Attributes:
        tasks: the number of tasks whose end was not reported.
    """

    tasks: int


class HostingFailed(Event, frozen=True):
    """Other workers cannot join at this address: the mission has its local worker only."""

    address: str
    why: str


class Remark(Event, frozen=True):
    """A sentence on what may surprise the user, once."""

    text: str


# A dataclass, unlike the events, for `dataclasses.replace`.
@dataclass(frozen=True)
class Statistics:
    """The counts of an executor.

    Attributes:
        queued: tasks that wait for room.
        running: tasks that run.
        done: tasks that ended with a value.
        failed: tasks that ended with an exception.
        cancelled: tasks that were cancelled.
        results_waiting: results that were not taken from the result queue yet.
        stuck: those of the queued tasks whose request no worker here can ever meet.
        stuck_task: one of them, as ``grain why`` takes it; empty if there is none.
        not_begun: those of the cancelled tasks that never ran.
        given: cores that tasks were given, those of others, too.
        cores: cores of all workers; 0 where that is not known.
        computing: on how many of the given cores something was computed lately; None where that is
            not known.
        absent: True if tasks are stuck as no worker is here at all.
        cached: those of the done tasks whose results were found in the result cache.
        others: True if tasks had cores while none of this executor ran, at the last look.
    """

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    results_waiting: int
    stuck: int = 0
    stuck_task: str = ""
    not_begun: int = 0
    given: float = 0
    cores: float = 0
    absent: bool = False
    cached: int = 0
    computing: float | None = None
    others: bool = False


_SPANS = 32  # points in time that are kept at most, and half as many at least
_LATELY = 60.0  # seconds that are lately, at least
_ENOUGH = 10  # ends from which a rate follows
_MISSING = 30.0  # ends that a mean foretells, and that do not come if it holds no more


class Pace:
    """The rate at which tasks end, from looks at how many have ended. Pure.

    Times are in seconds, by any one clock.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._at = 0.0
        self._ended = 0
        # How many tasks had ended at points in time that are evenly spread, and when the next one
        # is due.
        self._points: deque[tuple[float, int]] = deque()
        self._spread = _LATELY / _SPANS * 2
        self._due = 0.0

    def look(self, at: float, ended: int, *, idle: bool = False) -> None:
        """Look at a point in time, which is not before the last one.

        Args:
            ended: how many tasks have ended, in all.
            idle: True while there was no task yet: the time until the first one does not count.
        """
        if self._began is None or (idle and not ended):
            self._began = at
            self._points.clear()
            self._due = at
        self._at, self._ended = at, ended
        if at < self._due:
            return
        self._points.append((at, ended))
        if len(self._points) > _SPANS:  # every second one stays
            self._points = deque(list(self._points)[::2])
            self._spread *= 2
        self._due = at + self._spread

    @property
    def rate(self) -> float:
        """The number of tasks that end in a second, at the last look.

        On average since the first one came; or over the last quarter of that time, which is a
        minute at least, where enough have ended in it: workers come and go, and what began slowly
        need not go on so. Enough are also few, or none, where the average foretells many: it is no
        longer true.
        """
        if self._began is None or self._at <= self._began:
            return 0.0
        since = self._at - self._began
        mean = self._ended / since
        before = [point for point in self._points if point[0] <= self._at - max(since / 4, _LATELY)]
        if before:
            at, ended = before[-1]
            count, seconds = self._ended - ended, self._at - at
            if count >= _ENOUGH or mean * seconds >= _MISSING:
                return count / seconds
        return mean
