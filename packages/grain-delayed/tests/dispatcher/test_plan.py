"""The plan of a dispatcher, against a model that looks at everything each time."""

from __future__ import annotations

import errno
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from grain.dispatcher.plan import Plan, TaskAttempt
from grain.queue.arrays import task_numbers
from grain.queue.book import Book, Entry
from grain.queue.errors import NoSuchJob
from grain.queue.records import ArraySpec, Dependency, Job, Wish
from grain.queue.states import (
    Run,
    State,
    StateCounts,
    asked_of,
    dependency_state,
    task_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = (0.0, 10.0, 20.0)


class Model:
    """All jobs with all their attempts and all wishes, looked at one by one."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.runs: dict[tuple[int, int | None], list[Run]] = {}
        self.wishes: list[Wish] = []

    def tasks(self, number: int) -> list[int | None]:
        array = self.jobs[number].array
        return [None] if array is None else list(task_numbers(array))

    def all_tasks(self) -> list[tuple[int, int | None]]:
        return [(number, task) for number in self.jobs for task in self.tasks(number)]

    def running(self, number: int) -> int:
        return sum(
            bool(runs) and not runs[-1].how for (of, _), runs in self.runs.items() if of == number
        )

    def state(self, number: int, task: int | None) -> State | None:
        if task not in self.tasks(number):
            return None
        job, runs = self.jobs[number], self.runs.get((number, task), [])
        asked = asked_of(job, number, task, self.wishes)
        return task_state(job, runs, asked, now=0.0).state

    def tally(self, number: int) -> StateCounts | None:
        states = (self.state(number, task) for task in self.tasks(number))
        counts = Counter(one for one in states if one is not None)
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

    def ready(self, now: float) -> list[TaskAttempt]:
        """Return all attempts that may begin, if none of them did."""
        found = []
        for number, task in self.all_tasks():
            job, runs = self.jobs[number], self.runs.get((number, task), [])

            def of_task(other: int) -> Callable[[int | None], State | None]:
                return partial(self.state, other)

            standing = task_state(
                job,
                runs,
                asked_of(job, number, task, self.wishes),
                now=now,
                dependency=dependency_state(
                    job.after, self.tally, of_task, task,
                    has_begun=lambda other: all(
                        self.runs.get((other, one)) for one in self.tasks(other)
                    ),
                ),
                running=self.running(number),
            )  # fmt: skip
            if standing.state == "PENDING" and not standing.reason:
                found.append(TaskAttempt(number, task, standing.attempt))
        return found


def names(wish: Wish, number: int) -> bool:
    return any(first <= number <= last for first, last in wish.jobs)


JOBS = st.builds(
    Job,
    name=st.just("a"),
    at=st.just(0.0),
    host=st.just("h"),
    user=st.just("u"),
    directory=st.just("/"),
    priority=st.integers(0, 1),
    retries=st.integers(0, 1),
    requeue=st.booleans(),
    held=st.booleans(),
    not_before=st.sampled_from(TIMES),
    array=st.none() | st.builds(ArraySpec, ranges=st.just(((0, 3, 1),)), at_once=st.integers(0, 2)),
)
UNTIL = st.sampled_from(["ok", "fail", "any", "begun", "each"])
WAYS = st.sampled_from(["exit", "signal", "timeout", "cancelled", "returned", "lost"])
ASKS = st.sampled_from(["hold", "release", "cancel", "again"])


class Walk:
    """A book and a plan, and a model of both, through whatever may happen."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.model = Model()
        self.now = 0.0
        self.book, self.plan = self.model.read()

    def submit(self) -> None:
        model = self.model
        number = len(model.jobs) + 1
        if number > 4:
            return
        job = self.draw(JOBS)
        if model.jobs and self.draw(st.booleans()):
            before = self.draw(st.sampled_from(list(model.jobs)))
            after = (Dependency(jobs=(before,), until=self.draw(UNTIL)),)
            job = msgspec.structs.replace(job, after=after)
        model.jobs[number] = job
        self.book.entries[number] = Entry(number, job)
        self.book.next_job = number + 1
        self.plan.add(self.book.entries[number])

    def start(self) -> None:
        model = self.model
        room = self.draw(st.integers(1, 3))
        starts = self.plan.starts(self.now, lambda _: room)
        for start in starts:
            may = model.ready(self.now)
            assert start in may
            # The most urgent job first, then the oldest.
            best = min((-model.jobs[one.number].priority, one.number) for one in may)
            assert (-model.jobs[start.number].priority, start.number) == best
            runs = model.runs.setdefault((start.number, start.task), [])
            runs.append(Run(start.attempt, self.now))
        for number, task, _ in starts:
            self.book.entries[number].set_runs(task, list(model.runs[number, task]))
            self.plan.note(number, task)
        if len(starts) < room:
            assert not model.ready(self.now)

    def end(self) -> None:
        active = [key for key, runs in self.model.runs.items() if not runs[-1].how]
        if not active:
            return
        number, task = self.draw(st.sampled_from(active))
        runs = self.model.runs[number, task]
        status, how = self.draw(st.integers(0, 1)), self.draw(WAYS)
        runs[-1] = Run(runs[-1].attempt, 0.0, how=how, status=status, ended=1.0)
        self.book.entries[number].set_runs(task, list(runs))
        self.plan.note(number, task)

    def wish(self) -> None:
        if not self.model.jobs:
            return
        number, task = self.draw(st.sampled_from(self.model.all_tasks()))
        what = self.draw(ASKS)
        runs = self.model.runs.get((number, task), [])
        if what == "again" and (not runs or not runs[-1].how):
            return
        whole = task is None or (what != "again" and self.draw(st.booleans()))
        wish = Wish(
            what=what,
            jobs=((number, number),),
            tasks=() if whole or task is None else ((task, task),),
            attempt=len(runs) + 1,
            only_failed=self.draw(st.booleans()),
        )
        self.model.wishes.append(wish)
        self.book.entries[number].add_wish(wish)
        self.plan.wish(wish)

    def restart(self) -> None:
        self.book, self.plan = self.model.read()

    def wait(self) -> None:
        self.now = max(self.now, self.draw(st.sampled_from(TIMES)))


@settings(max_examples=300, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_what_may_begin_is_what_a_full_look_finds(data: st.DataObject) -> None:
    walk = Walk(data.draw)
    steps = [walk.submit, walk.start, walk.end, walk.wish, walk.restart, walk.wait]
    for step in data.draw(st.lists(st.integers(0, len(steps) - 1), min_size=1, max_size=25)):
        steps[step]()


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
