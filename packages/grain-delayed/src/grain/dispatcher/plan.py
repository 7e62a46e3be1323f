"""`Plan`: which attempt of which job is handed to the scheduler next. No I/O of its own.

The book (`grain.queue.book`) has what the files of the queue say. A plan remembers who waits for
what, so that a decision costs the same with ten jobs in the queue as with 100,000.

A job is *open* while one of its tasks may be started at once, as far as is known. A job that turns
out to be blocked leaves the open ones, and what may unblock it brings it back: the end of a job on
which it depends, a wish, its begin time, or the end of one of its tasks where the array has a
limit.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from grain.queue.records import KILL
from grain.queue.states import Run, next_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.queue.book import Book, Entry
    from grain.queue.records import Job, Wish


_AGAIN = 60.0  # seconds until files are read again that could not be read
_KINDS = 100  # kinds of requests that are told apart


class TaskAttempt(NamedTuple):
    """An attempt to hand to the scheduler."""

    number: int
    task: int | None
    attempt: int


class Plan:
    """The jobs of a queue that have not ended, and what they wait for.

    Args:
        book: whoever changes it says so here, before the next decision.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._jobs: dict[int, _Turn] = {}
        # By kind of request; then by priority and by number. A job is in it once, see
        # `_Turn.is_open`.
        self._open: dict[str, list[tuple[int, int]]] = {}
        self._at: list[tuple[float, int]] = []
        # The jobs that wait for one, by its number: all of them, and those that may begin before it
        # has ended, as they wait for its begin, task by task, or for one of its tasks.
        self._dependents: defaultdict[int, set[int]] = defaultdict(set)
        self._until_begun: defaultdict[int, set[int]] = defaultdict(set)
        self._by_task: defaultdict[int, set[int]] = defaultdict(set)
        self._of_one: defaultdict[int, set[int]] = defaultdict(set)
        # Attempts that were handed over and have not begun as far as is known, and may not as they
        # are: their task is held, or updated.
        self._recalls: list[TaskAttempt] = []
        # Jobs with tasks that may wait and cannot end by their deadline any more; whoever has
        # cancelled them takes the job out.
        self.overdue: set[int] = set()
        # Tasks to be cancelled, as they can never begin; None for all of a job.
        self._invalid: list[tuple[int, int | None]] = []
        # Jobs of which a task may wait that is cancelled: by a wish, or since its attempt came to
        # nothing after the wish.
        self._cancelled: set[int] = set()

    @property
    def has_jobs(self) -> bool:
        """True if there is a job that has not ended."""
        return bool(self._jobs)

    def active(self) -> Iterator[TaskAttempt]:
        """Yield all attempts that were handed to the scheduler, or run, and have not ended."""
        for number, turn in self._jobs.items():
            for task, attempt in turn.active.items():
                yield TaskAttempt(number, task, attempt)

    def awaited(self) -> list[TaskAttempt]:
        """Return the active attempts for whose begin another job waits."""
        return [
            TaskAttempt(number, task, attempt)
            for number in self._until_begun
            if number in self._jobs
            for task, attempt in self._jobs[number].active.items()
            if len(self._book.entries[number].runs.get(task, ())) < attempt
        ]

    def unwanted(self) -> list[TaskAttempt]:
        """Return the active attempts that are to end, as of all wishes so far."""
        found = []
        for start in self.active():
            asked = self._book.entries[start.number].asked(start.task)
            if asked.cancelled is not None or start.attempt < asked.granted:
                found.append(start)
        return found

    # ---- what has changed in the book

    def add(self, entry: Entry) -> None:
        """Handle a job that has come, or that has ended and is to run again."""
        if entry.is_final or entry.number in self._jobs:
            return
        turn = self._jobs[entry.number] = _Turn(entry, self._kind_of(entry.job))
        self._note_dependencies(turn)
        self._note_deadline(turn)
        if any(wish.what == "cancel" for wish in entry.wishes):
            self._cancelled.add(entry.number)
        self._reopen(turn)

    def _note_dependencies(self, turn: _Turn) -> None:
        for dependency in turn.job.after:
            for other in dependency.jobs:
                self._dependents[other].add(turn.entry.number)
                if dependency.until == "begun":
                    self._until_begun[other].add(turn.entry.number)
                elif dependency.until == "each":
                    self._by_task[other].add(turn.entry.number)
                elif dependency.task is not None:
                    self._of_one[other].add(turn.entry.number)

    def _note_deadline(self, turn: _Turn) -> None:
        if turn.job.deadline:
            heapq.heappush(self._at, (turn.job.latest_begin, turn.entry.number))

    def wish(self, wish: Wish) -> list[TaskAttempt]:
        """Handle a wish; return the attempts that are under way and are to end."""
        stops = []
        for first, last in wish.jobs:
            for number in range(first, min(last, self._book.next_job - 1) + 1):
                if number in self._book.entries:
                    self.add(self._book.entries[number])
                turn = self._jobs.get(number)
                if turn is None:
                    continue
                if turn.job is not turn.entry.job:
                    self._update(turn)
                turn.look_again()
                self._reopen(turn)
                self._recalls += [
                    TaskAttempt(number, task, attempt)
                    for task, attempt in turn.active.items()
                    if wish.recalls(number, task) and len(turn.entry.runs.get(task, ())) < attempt
                ]
                if wish.what == "cancel":
                    self._cancelled.add(number)
                stops += [
                    TaskAttempt(number, task, attempt)
                    for task, attempt in turn.active.items()
                    if wish.ends(number, task, attempt)
                ]
        return stops

    def _update(self, turn: _Turn) -> None:
        """Take a job up as its wishes have made it: its place, its kind and what it waits for."""
        if turn.is_open:
            jobs = self._open[turn.kind]
            jobs.remove(turn.place)
            heapq.heapify(jobs)
            turn.is_open = False
        self._forget_dependencies(turn)
        turn.job, turn.kind = turn.entry.job, self._kind_of(turn.entry.job)
        self._note_dependencies(turn)
        self._note_deadline(turn)

    def take_recalls(self) -> list[TaskAttempt]:
        """Return attempts that were handed over and may not begin as they are."""
        found, self._recalls = self._recalls, []
        return found

    def note(self, number: int, task: int | None) -> None:
        """Record that the attempts of a task have changed."""
        turn = self._jobs.get(number)
        if turn is None:
            return
        turn.note(task)
        self._note_waiting(turn, task)
        if turn.entry.is_final:
            self._forget(turn)
            for dependent in self._dependents.get(number, ()):
                self._reopen(self._jobs[dependent])
            return
        # An array of 100,000 tasks comes here as often: only what may begin now is looked at.
        self._open_again(turn)
        for waiting in (self._until_begun, self._of_one):
            for dependent in waiting.get(number, ()):
                self._reopen(self._jobs[dependent])
        for dependent in self._by_task.get(number, ()):
            self._reopen_task(self._jobs[dependent], task)

    def give_back(self, start: TaskAttempt) -> None:
        """Take an attempt back that was handed over and has not begun."""
        turn = self._jobs.get(start.number)
        if turn is not None and turn.active.get(start.task) == start.attempt:
            del turn.active[start.task]
            turn.put_back(start.task)
            self._note_waiting(turn, start.task)
            self._open_again(turn)

    def goes_on(self, start: TaskAttempt) -> bool:
        """Return True if another attempt follows if this one, which is under way, fails."""
        entry = self._book.entries[start.number]
        runs = [run for run in entry.runs.get(start.task, ()) if run.attempt < start.attempt]
        failed = Run(start.attempt, 0.0, how="exit", status=1)
        asked = entry.asked(start.task)
        return asked.cancelled is None and next_attempt(entry.job, [*runs, failed], asked) > 0

    # ---- decisions

    def kind(self, number: int) -> str:
        """Return the kind of request of a job that has not ended; some rare ones have one kind."""
        return self._jobs[number].kind

    def starts(self, now: float, room: Callable[[str], int]) -> list[TaskAttempt]:
        """Return attempts to hand to the scheduler, the most urgent first; they are active then.

        Args:
            now: Unix seconds.
            room: returns how many of a kind of request, at most.
        """
        while self._at and self._at[0][0] <= now:
            number = heapq.heappop(self._at)[1]
            if number in self._jobs:
                self._reopen(self._jobs[number])
                if self._jobs[number].job.latest_begin <= now:
                    self.overdue.add(number)  # also if its tasks wait at the scheduler
        starts: list[TaskAttempt] = []
        left = {kind: room(kind) for kind, jobs in self._open.items() if jobs}
        while firsts := [(self._open[kind][0], kind) for kind in left if left[kind] > 0]:
            (_, number), kind = min(firsts)
            turn = self._jobs.get(number)
            start = None if turn is None else self._next_of(turn, now)
            if start is not None:
                starts.append(start)
                left[kind] -= 1
                continue
            heapq.heappop(self._open[kind])
            if turn is not None:
                turn.is_open = False
            if not self._open[kind]:
                del left[kind]
        return starts

    def next_time(self) -> float | None:
        """Return when the next job may begin that waits for its time, in Unix seconds."""
        return self._at[0][0] if self._at else None

    def to_cancel(self) -> dict[int, dict[int | None, int]]:
        """Return by job the tasks that wait and are not wanted any more, with their attempts.

        A task is among them until the book says that it is cancelled.
        """
        found = {number: self._unwanted(number) for number in self._cancelled}
        found = {number: tasks for number, tasks in found.items() if tasks}
        self._cancelled = set(found)
        return found

    def _unwanted(self, number: int) -> dict[int | None, int]:
        turn = self._jobs.get(number)
        if turn is None:
            return {}
        entry = turn.entry
        return {
            task: attempt
            for task in turn.waiting()
            if entry.asked(task).cancelled is not None
            # A later wish may have taken back that it runs once more.
            and (attempt := next_attempt(entry.job, entry.runs.get(task, ()), entry.asked(task)))
        }

    # ----

    def _next_of(self, turn: _Turn, now: float) -> TaskAttempt | None:
        """Return the next attempt of a job; None if it has none now."""
        entry = turn.entry
        for task in turn.candidates():
            try:
                dependency = self._book.dependency(entry, task, now)
            except OSError:  # it is on a job that was packed
                turn.put_back(task)
                heapq.heappush(self._at, (now + _AGAIN, entry.number))
                return None
            standing = entry.standing(task, now, dependency, len(turn.active))
            if standing.state != "PENDING":
                continue
            if standing.reason != "held" and entry.job_of(task).latest_begin <= now:
                self.overdue.add(entry.number)
                turn.put_back(task)
                return None
            if not standing.reason:
                turn.active[task] = standing.attempt
                return TaskAttempt(entry.number, task, standing.attempt)
            if standing.reason == "never" and KILL in entry.job.options:
                self._invalid.append((entry.number, task if turn.is_mixed else None))
            if turn.is_mixed and standing.reason in ("held", "cancel", "dependency", "never"):
                turn.park(task)
                continue
            # All tasks of the job wait for the same.
            turn.put_back(task)
            if standing.reason == "begin time":
                heapq.heappush(self._at, (entry.job.not_before, entry.number))
            elif standing.reason == "dependency":
                self._await_delay(turn, now)
            return None
        if turn.is_mixed:
            self._await_delay(turn, now)  # that of parked tasks
        return None

    def _await_delay(self, turn: _Turn, now: float) -> None:
        """Look at a job again when the next delay of its dependencies is over."""
        end = self._book.delayed_until(turn.entry, now)
        # An array comes here with each of its tasks that ends.
        if end and end != turn.delayed_until:
            turn.delayed_until = end
            heapq.heappush(self._at, (end, turn.entry.number))

    def take_invalid(self) -> list[tuple[int, int | None]]:
        """Return the tasks that are to be cancelled, as they can never begin; None for all."""
        found, self._invalid = self._invalid, []
        return found

    def _note_waiting(self, turn: _Turn, task: int | None) -> None:
        """Note that a task may wait again; if it is cancelled, its wish has come before."""
        if task in turn.active or turn.entry.asked(task).cancelled is None:
            return
        if turn.entry.standing(task, 0.0).state == "PENDING":
            self._cancelled.add(turn.entry.number)

    def _reopen(self, turn: _Turn) -> None:
        turn.unpark()
        self._open_again(turn)

    def _reopen_task(self, turn: _Turn, task: int | None) -> None:
        if turn.unpark_one(task):
            self._open_again(turn)

    def _open_again(self, turn: _Turn) -> None:
        if not turn.is_open:
            turn.is_open = True
            jobs = self._open.setdefault(turn.kind, [])
            heapq.heappush(jobs, turn.place)

    def _kind_of(self, job: Job) -> str:
        kind = repr((sorted(job.request.items()), job.timeout))
        return kind if kind in self._open or len(self._open) < _KINDS else ""

    def _forget(self, turn: _Turn) -> None:
        del self._jobs[turn.entry.number]
        self._forget_dependencies(turn)

    def _forget_dependencies(self, turn: _Turn) -> None:
        number = turn.entry.number
        for dependency in turn.job.after:
            for other in dependency.jobs:
                for waiting in (
                    self._dependents, self._until_begun, self._by_task, self._of_one,
                ):  # fmt: skip
                    if other in waiting:
                        waiting[other].discard(number)
                        if not waiting[other]:
                            del waiting[other]


class _Turn:
    """A job of the plan, and whose turn it is among its tasks.

    Attributes:
        entry: the job in the book.
        job: the job as the plan has taken it up.
        kind: of its request.
        active: the tasks that were handed to the scheduler, or run, with their attempts.
        is_open: True while it is among the open jobs of the plan.
        delayed_until: when a delay of its dependencies ends, after which it is looked at again.
    """

    def __init__(self, entry: Entry, kind: str) -> None:
        self.entry = entry
        self.job = entry.job
        self.kind = kind
        self.active = {task: len(of) for task, of in entry.runs.items() if not of[-1].how}
        self.is_open = False
        self.delayed_until = 0.0
        self._again: OrderedDict[int | None, None] = OrderedDict()
        # Those that ran before are in `_again`, if they may run once more.
        self._fresh = (task for task in entry.task_numbers() if task not in entry.runs)
        self._parked: dict[int | None, None] = {}
        self.look_again()

    @property
    def place(self) -> tuple[int, int]:
        """Its place among open jobs: the smallest one is first."""
        return -self.job.priority, self.entry.number

    @property
    def is_mixed(self) -> bool:
        """True if its tasks may wait for different things."""
        return any(wish.tasks for wish in self.entry.wishes) or any(
            dependency.until == "each" for dependency in self.entry.job.after
        )

    def candidates(self) -> Iterator[int | None]:
        """Yield and take the tasks that may begin: those that ran before go first."""
        while self._again:
            yield self._again.popitem(last=False)[0]
        # Not `yield from`, which would end `_fresh` together with this iterator.
        for task in self._fresh:  # noqa: UP028
            yield task

    def put_back(self, task: int | None) -> None:
        """Give back a candidate, which will be the next one."""
        self._again[task] = None
        self._again.move_to_end(task, last=False)

    def park(self, task: int | None) -> None:
        """Set a candidate aside until something changes."""
        self._parked[task] = None

    def unpark(self) -> None:
        """Make the parked tasks candidates again."""
        self._again.update(self._parked)
        self._parked.clear()

    def unpark_one(self, task: int | None) -> bool:
        """Make a task a candidate again if it is parked; return True if it was."""
        if task not in self._parked:
            return False
        del self._parked[task]
        self._again[task] = None
        return True

    def look_again(self) -> None:
        """Look for tasks that have ended, and are to run once more."""
        self.unpark()
        for task in self.entry.runs:
            if task not in self.active:
                self._add_if_pending(task)

    def waiting(self) -> list[int | None]:
        """Return the tasks that were not handed to the scheduler and have not ended."""
        fresh = list(self._fresh)
        self._fresh = (task for task in fresh if task not in self.entry.runs)
        return list(chain(self._again, self._parked, fresh))

    def note(self, task: int | None) -> None:
        """Record that the attempts of a task have changed."""
        runs = self.entry.runs[task]
        if self.active.get(task, 0) > len(runs):
            return  # the next attempt was handed over, and has not begun
        self.active.pop(task, None)
        if not runs[-1].how:
            self.active[task] = len(runs)
        else:
            self._add_if_pending(task)

    def _add_if_pending(self, task: int | None) -> None:
        if self.entry.standing(task, 0.0).state == "PENDING":
            self._again[task] = None
