"""The plan of a dispatcher, against a model that looks at everything each time."""

from __future__ import annotations

import errno
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from grain.dispatcher.plan import Plan, TaskAttempt
from grain.queue.arrays import task_numbers
from grain.queue.book import Book, Entry
from grain.queue.errors import NoSuchJob
from grain.queue.records import ArraySpec, Dependency, Job, JobUpdate, Wish
from grain.queue.states import (
    Run,
    Standing,
    State,
    StateCounts,
    asked_of,
    dependency_state,
    dependency_states,
    task_state,
)

if TYPE_CHECKING:
    from grain.queue.records import How, Until

TIMES = (0.0, 10.0, 20.0)


class Model:
    """All jobs with all their attempts and all wishes, looked at one by one.

    Attributes:
        handed: attempts that were handed out, and have not begun.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.runs: dict[tuple[int, int | None], list[Run]] = {}
        self.wishes: list[Wish] = []
        self.handed: list[TaskAttempt] = []

    def tasks(self, number: int) -> list[int | None]:
        array = self.jobs[number].array
        return [None] if array is None else list(task_numbers(array))

    def all_tasks(self) -> list[tuple[int, int | None]]:
        return [(number, task) for number in self.jobs for task in self.tasks(number)]

    def running(self) -> list[TaskAttempt]:
        return [
            TaskAttempt(*key, len(runs))
            for key, runs in self.runs.items()
            if runs and not runs[-1].how
        ]

    def standing(self, number: int, task: int | None, now: float = 0.0, **more: Any) -> Standing:
        asked = asked_of(self.jobs[number], number, task, self.wishes)
        return task_state(
            self.jobs[number], self.runs.get((number, task), []), asked, now=now, **more
        )

    def state(self, number: int, task: int | None) -> State | None:
        return self.standing(number, task).state if task in self.tasks(number) else None

    def tally(self, number: int) -> StateCounts:
        counts = Counter(self.standing(number, task).state for task in self.tasks(number))
        return StateCounts(*(counts[one] for one in get_args(State)))

    def read(self) -> tuple[Book, Plan]:
        """Return a book and a plan, as a dispatcher makes them when it begins."""
        book = Book(cast("Any", None))
        for number, job in self.jobs.items():
            entry = book.entries[number] = Entry(number, job)
            for (of, task), runs in self.runs.items():
                if of == number:
                    entry.set_runs(task, list(runs))
            for wish in self.wishes:
                if names(wish, number):
                    entry.add_wish(wish)
            book.next_job = number + 1
        plan = Plan(book)
        for entry in book.entries.values():
            plan.add(entry)
        return book, plan

    def began(self, number: int, task: int | None) -> float | None:
        """Return when the last task of a job began, or the one."""
        of = self.tasks(number) if task is None else [task]
        runs = [self.runs.get((number, one)) for one in of]
        return None if not all(runs) else max((of[0].began for of in runs if of), default=0.0)

    def ready(self, now: float) -> list[TaskAttempt]:
        """Return all attempts that may be handed out, if none of them is."""
        found = []
        for number, task in self.all_tasks():
            states = dependency_states(
                self.jobs[number].after, self.tally, lambda other: partial(self.state, other), task,
                self.began, now,
            )  # fmt: skip
            dependency = dependency_state(states, enough=self.jobs[number].after_any)
            out = [one for one in (*self.running(), *self.handed) if one.number == number]
            standing = self.standing(number, task, now, dependency=dependency, running=len(out))
            start = TaskAttempt(number, task, standing.attempt)
            if standing.state == "PENDING" and not standing.reason and start not in out:
                found.append(start)
        return found

    def unwanted(self, number: int) -> dict[int | None, int]:
        """Return the tasks of a job that wait, were not handed out, and are cancelled."""
        handed = [one.task for one in self.handed if one.number == number]
        return {
            task: standing.attempt
            for task in self.tasks(number)
            if task not in handed
            and asked_of(self.jobs[number], number, task, self.wishes).cancelled is not None
            and (standing := self.standing(number, task)).state == "PENDING"
        }

    def awaited(self) -> set[TaskAttempt]:
        """Return the attempts that were handed out and for whose begin a job waits."""
        awaited = {
            other
            for number, job in self.jobs.items()
            for dependency in job.after
            if dependency.until == "begun" and not self.tally(number).is_final
            for other in dependency.jobs
        }
        return {start for start in self.handed if start.number in awaited}


def names(wish: Wish, number: int) -> bool:
    return any(first <= number <= last for first, last in wish.jobs)


ASKS: tuple[Any, ...] = (
    "hold", "release", "release", "cancel", "again", "again", "update", "update",
)  # fmt: skip
UNTIL: tuple[Until, ...] = ("ok", "fail", "any", "begun", "each")
# Most jobs succeed: otherwise most of those that wait for others never begin.
ENDS: tuple[tuple[How, int], ...] = (
    ("exit", 0), ("exit", 0), ("exit", 0), ("exit", 0), ("exit", 0), ("exit", 0), ("exit", 1),
    ("signal", 0), ("timeout", 0), ("cancelled", 0), ("returned", 0), ("lost", 0),
)  # fmt: skip


class Walk:
    """A book and a plan, and a model of both, through whatever may happen."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.model = Model()
        self.now = 0.0
        self.book, self.plan = self.model.read()
        # What an update has taken back: the plan may look again then, in vain.
        self._in_vain: list[float] = []

    def submit(self) -> None:
        model, chance = self.model, self.chance
        number = len(model.jobs) + 1
        if number > 5:
            return
        array = ArraySpec(ranges=((0, 2, 1),), at_once=chance.choice((0, 0, 1, 2)))
        job = Job(
            name="a", at=0.0, host="h", user="u", directory="/",
            priority=chance.choice((0, 0, 1)),
            retries=chance.choice((0, 1)),
            requeue=chance.random() < 0.9,
            held=chance.random() < 0.1,
            not_before=chance.choice((0.0,) * 6 + TIMES),
            array=chance.choice((None, array, array)),
            after=tuple(
                self.dependency(which)
                for which in chance.choice(((), (1,), (1,), (2,), (1, 1)))
                if model.jobs
            ),
            after_any=chance.random() < 0.3,
        )  # fmt: skip
        model.jobs[number] = job
        self.book.entries[number] = Entry(number, job)
        self.book.next_job = number + 1
        self.plan.add(self.book.entries[number])

    def dependency(self, most: int) -> Dependency:
        """Return a dependency on so many jobs, or on one task of the only one."""
        known, chance = list(self.model.jobs), self.chance
        jobs = tuple(chance.sample(known, min(len(known), most)))
        until = chance.choice(UNTIL)
        delay = chance.choice((0.0, 10.0)) if until == "begun" else 0.0
        task = None
        if len(jobs) == 1 and until != "each" and chance.random() < 0.4:
            task = chance.choice(self.model.tasks(jobs[0]))
        return Dependency(jobs=jobs, until=until, task=task, delay=delay)

    def start(self) -> None:
        self._start(self.chance.randint(1, 3))

    def start_all(self) -> None:
        self._start(1000)

    def _start(self, room: int) -> None:
        model = self.model
        starts = self.plan.starts(self.now, lambda _: room)
        assert len(starts) <= room
        for start in starts:
            may = model.ready(self.now)
            assert start in may
            # The most urgent job first, then the oldest.
            best = min((-model.jobs[one.number].priority, one.number) for one in may)
            assert (-model.jobs[start.number].priority, start.number) == best
            model.handed.append(start)
        if len(starts) < room:
            assert not model.ready(self.now)

    def begin(self) -> None:
        """Have attempts begin that were handed out."""
        handed = self.model.handed
        for start in self.chance.sample(handed, self.chance.randint(0, len(handed))):
            handed.remove(start)
            self._set(start, Run(start.attempt, self.now))

    def begin_elsewhere(self) -> None:
        """Have an attempt begin that the dispatcher before handed out, whatever was asked since."""
        model = self.model
        waiting = [
            TaskAttempt(number, task, standing.attempt)
            for number, task in model.all_tasks()
            if (standing := model.standing(number, task)).state == "PENDING"
        ]
        if waiting:
            start = self.chance.choice(waiting)
            if start in model.handed:
                model.handed.remove(start)
            self._set(start, Run(start.attempt, self.now))

    def _set(self, start: TaskAttempt, run: Run) -> None:
        """Have another attempt, or an end of the last one, in the book."""
        runs = self.model.runs.setdefault((start.number, start.task), [])
        runs[start.attempt - 1 :] = [run]
        self.book.entries[start.number].set_runs(start.task, list(runs))
        self.plan.note(start.number, start.task)

    def end(self) -> None:
        if running := self.model.running():
            start = self.chance.choice(running)
            how, status = self.chance.choice(ENDS)
            began = self.model.runs[start.number, start.task][-1].began
            self._set(start, Run(start.attempt, began, how=how, status=status, ended=1.0))

    def give_back(self) -> None:
        """Have an attempt come back that was handed out, or one that came back before."""
        model = self.model
        if not model.jobs:
            return
        old = TaskAttempt(*self.chance.choice(model.all_tasks()), self.chance.randint(1, 3))
        start = self.chance.choice([*model.handed, old])
        # Whoever gives it back has looked whether it has begun.
        if len(model.runs.get((start.number, start.task), ())) < start.attempt:
            self.plan.give_back(start)
            if start in model.handed:
                model.handed.remove(start)

    def look(self) -> None:
        """Have files read in which nothing is new."""
        if self.model.runs:
            self.plan.note(*self.chance.choice(list(self.model.runs)))

    def wish(self) -> None:
        model, chance = self.model, self.chance
        if not model.jobs:
            return
        number, task = chance.choice(model.all_tasks())
        what = chance.choice(ASKS)
        runs = model.runs.get((number, task), [])
        if what == "again" and (not runs or not runs[-1].how):
            return
        whole = task is None or what == "update" or (what != "again" and chance.random() < 0.5)
        wish = Wish(
            what=what,
            jobs=((number, number),),
            tasks=() if whole or task is None else ((task, task),),
            attempt=len(runs) + 1,
            only_failed=chance.random() < 0.3,
            update=self.update(number) if what == "update" else None,
        )
        if wish.update is not None:
            self._in_vain += self._times(model.jobs[number])
            model.jobs[number] = wish.update.applied(model.jobs[number])
        model.wishes.append(wish)
        self.book.entries[number].add_wish(wish)
        stops = self.plan.wish(wish)
        under_way = [*model.running(), *model.handed]
        wanted = [one for one in under_way if what == "cancel" and wish.concerns(*one[:2])]
        assert sorted(wanted) == sorted(stops)
        recalled = what in ("hold", "update")
        again = [one for one in model.handed if recalled and wish.concerns(*one[:2])]
        assert Counter(again) == Counter(self.plan.take_recalls())

    def update(self, number: int) -> JobUpdate:
        """Return other properties of a job, which waits only for jobs before it."""
        after = [self.dependency(1) for _ in range(self.chance.randint(0, 2))]
        earlier = tuple(one for one in after if max(one.jobs) < number)
        return JobUpdate(
            priority=self.chance.choice((None, 0, 1, 2)),
            after=self.chance.choice((None, earlier)),
            after_any=self.chance.random() < 0.3,
        )

    def cancel(self) -> None:
        """Have cancellations become final."""
        for number, unwanted in self.plan.to_cancel().items():
            for task, attempt in unwanted.items():
                run = Run(attempt, 0.0, how="cancelled", ended=1.0)
                self._set(TaskAttempt(number, task, attempt), run)

    def restart(self) -> None:
        self.model.handed.clear()
        self.book, self.plan = self.model.read()

    def wait(self) -> None:
        self.now = max(self.now, self.chance.choice(TIMES))

    def check(self) -> None:
        """Check what the plan says without a decision."""
        model = self.model
        assert Counter([*model.running(), *model.handed]) == Counter(self.plan.active())
        assert Counter(model.awaited()) == Counter(self.plan.awaited())
        unwanted = {number: tasks for number in model.jobs if (tasks := model.unwanted(number))}
        assert unwanted == self.plan.to_cancel()
        later = [time for job in model.jobs.values() for time in self._times(job)]
        soon = self.plan.next_time()
        assert soon is None or soon <= self.now or soon in (*later, *self._in_vain)

    def _times(self, job: Job) -> list[float]:
        """Return when a job may begin that waits for a time, of its own or after others."""
        return [
            job.not_before,
            *(
                at + dependency.delay
                for dependency in job.after
                for other in dependency.jobs
                if (at := self.model.began(other, dependency.task)) is not None
            ),
        ]


STEPS = {
    Walk.submit: 4, Walk.start: 6, Walk.start_all: 3, Walk.begin: 8, Walk.begin_elsewhere: 2,
    Walk.end: 16, Walk.give_back: 2, Walk.look: 2, Walk.wish: 2, Walk.cancel: 2, Walk.restart: 1,
    Walk.wait: 1,
}  # fmt: skip
"""What may happen, and how often."""


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=150, deadline=None, phases=[Phase.generate])
@given(drawn=st.randoms(use_true_random=True))
def test_what_may_begin_is_what_a_full_look_finds(part: int, drawn: Random) -> None:
    chance = Random(f"{part} {drawn.random()}")  # each part draws the same
    walk = Walk(chance)
    for step in chance.choices(list(STEPS), list(STEPS.values()), k=80):
        step(walk)
        walk.check()
    walk.start_all()


def test_a_kind_of_request_without_room_leaves_the_others_alone() -> None:
    job = Job(name="opt", at=0.0, host="h", user="ann", directory="/")
    jobs = [
        msgspec.structs.replace(job, request={"GPUs": 1}, priority=2),
        msgspec.structs.replace(job, request={"Cores": 1}),
        msgspec.structs.replace(job, request={"Cores": 2}, priority=1),
        msgspec.structs.replace(job, request={"Cores": 1}, priority=1),
    ]
    model = Model()
    model.jobs = dict(enumerate(jobs, 1))
    _, plan = model.read()
    none = plan.kind(1)
    starts = plan.starts(0.0, lambda kind: 0 if kind == none else 2)
    assert [one.number for one in starts] == [3, 4, 2]
    assert [one.number for one in plan.starts(0.0, lambda _: 1)] == [1]


def test_what_cannot_end_by_its_deadline_is_overdue_also_when_it_was_handed_over() -> None:
    job = Job(name="opt", at=0.0, host="h", user="ann", directory="/", deadline=100.0)
    model = Model()
    limits = {1: 0.0, 2: 30.0, 3: 30.0, 4: 0.0}
    model.jobs = {one: msgspec.structs.replace(job, timeout=limit) for one, limit in limits.items()}
    model.jobs[4] = msgspec.structs.replace(model.jobs[4], held=True)
    book, plan = model.read()
    assert (100.0 - 60.0, 100.0 - 30.0) == (model.jobs[1].latest_begin, model.jobs[2].latest_begin)
    assert 40.0 == plan.next_time()
    assert [1, 2] == [one.number for one in plan.starts(39.0, lambda _: 1)]
    assert set() == plan.overdue
    plan.starts(40.0, lambda _: 0)
    assert {1, 4} == plan.overdue
    plan.overdue.clear()
    assert [] == plan.starts(70.0, lambda _: 5)
    assert {2, 3} == plan.overdue
    plan.overdue.clear()
    wish = Wish(what="release", jobs=((4, 4),))
    book.entries[4].add_wish(wish)
    plan.wish(wish)
    assert [] == plan.starts(70.0, lambda _: 5)
    assert 4 in plan.overdue


def test_a_job_that_is_updated_waits_among_those_of_its_new_kind() -> None:
    job = Job(name="opt", at=0.0, host="h", user="ann", directory="/", timeout=60.0)
    model = Model()
    model.jobs = {1: job, 2: job}
    book, plan = model.read()
    wish = Wish(what="update", jobs=((1, 1),), update=JobUpdate(timeout=90.0, priority=-1))
    book.entries[1].add_wish(wish)
    plan.wish(wish)
    assert plan.kind(1) != plan.kind(2)
    assert [2] == [one.number for one in plan.starts(0.0, lambda kind: int(kind == plan.kind(2)))]
    assert [1] == [one.number for one in plan.starts(0.0, lambda _: 5)]


def test_a_job_waits_while_that_on_which_it_depends_cannot_be_read() -> None:
    job = Job(name="opt", at=0.0, host="h", user="ann", directory="/")
    model = Model()
    model.jobs = {7: msgspec.structs.replace(job, after=(Dependency(jobs=(1,), until="any"),))}
    book, plan = model.read()
    readable = False

    class Files:
        """The files of a queue in which job 1 is packed, and was removed."""

        def job(self, number: int) -> Job:
            raise NoSuchJob(f"{number}") if readable else OSError(errno.EIO, "an error")

    book.queue = cast("Any", Files())
    assert plan.starts(0.0, lambda _: 1) == []
    readable = True
    assert plan.starts(100.0, lambda _: 1) == [TaskAttempt(7, None, 1)]
