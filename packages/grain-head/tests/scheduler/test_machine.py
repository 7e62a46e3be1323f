"""Random events against the invariants, and against a scheduler that is too simple to be wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from grain.head.scheduler.places import LONGEST, WHOLE, RunPlace
from grain.resource import (
    ZERO,
    Capacity,
    Cores,
    Either,
    Gang,
    GPUs,
    Host,
    Memory,
    Resource,
    Supply,
    Token,
    WTime,
    gang,
    resource_kind,
)
from grain_testkit.scheduler_harness import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.head.scheduler.state import Start, Task

_NOWHERE = (math.inf, math.inf)


@resource_kind("MachineLicences")
class Licences(Resource):
    """A custom kind: a pool that is counted, written with nothing but the five methods."""

    def __init__(self, n: int) -> None:
        self.n = n

    def _request(self, res: Licences) -> bool:
        return res.n <= self.n

    def _alloc(self, res: Licences) -> Licences:
        self.n -= res.n
        return Licences(res.n)

    def _dealloc(self, res: Licences) -> None:
        self.n += res.n

    def _repr(self) -> str:
        return f"Licences({self.n})"

    def _stat(self) -> tuple[int, int]:
        return (self.n, max(self.n, 1))


def joined(parts: Sequence[Resource | None]) -> Resource:
    whole = ZERO
    for part in parts:
        if part is not None:
            whole = whole & part
    return whole


def maybe(*parts: Resource) -> st.SearchStrategy[Resource | None]:
    return st.sampled_from([None, None, *parts])


workers = st.tuples(
    st.sampled_from([Cores(1), Cores(4), Cores(8), Cores([3, 5, 6])]),
    maybe(Memory(8), Memory(16)),
    maybe(GPUs(2), GPUs(2)),
    maybe(Token("fast")),
    maybe(Capacity(3)),
    maybe(Licences(2)),
    maybe(Host("n1"), Host("n2")),
    maybe(WTime(T=30), WTime(T=100)),
).map(joined)

# The first that a failing example shrinks to is the simplest.
requests = st.tuples(
    st.sampled_from(
        [Cores(1), None, Cores(2), Cores(4), Cores(8), Cores(0.5), Cores(0.25), Cores("all")]
    ),
    maybe(Memory(2), Memory(5), Memory(7.5)),
    maybe(GPUs(1), GPUs(0.5), GPUs(0.3)),
    maybe(Token("fast")),
    maybe(Capacity(2)),
    maybe(Licences(1)),
    maybe(Host(["n1", "n2"]), Host("n1", others=True)),
    maybe(WTime(T=10), WTime(T=40, softT=20), WTime(group="g"), WTime(T=60, group="h")),
).map(joined)

untimed = st.sampled_from(
    [
        Cores(1),
        Cores(2),
        Cores(4),
        Cores(8),
        Cores(1) & Memory(3),
        Cores(0.25),
        Cores(0.6),
        Cores("all"),
        GPUs(1),
        GPUs(0.5) & Cores(1),
        GPUs(0.3),
    ]
)


def with_alternatives(of: st.SearchStrategy[Resource]) -> st.SearchStrategy[Resource]:
    """Return plain requests, and as often one of two or three of them, with a wait or without."""
    prefers = st.sampled_from([0, 0, 6, 25])
    several = st.lists(of.filter(lambda one: one != ZERO), min_size=2, max_size=3, unique=True)
    return st.one_of(of, st.builds(lambda some, p: Either(*some, prefer=p), several, prefers))


choices = with_alternatives(
    st.sampled_from(
        [Cores(1), Cores(2), Cores(4), GPUs(1), GPUs(1) & Cores(1), GPUs(3), Cores(1) & Memory(3)]
    )
)


def with_gangs(of: st.SearchStrategy[Resource]) -> st.SearchStrategy[Resource]:
    """Return plain requests, and as often such for several workers at once."""
    return st.one_of(
        of,
        st.builds(
            gang,
            st.sampled_from([2, 2, 3, 1]),
            of.filter(lambda one: one != ZERO),
            same=st.sampled_from(["group", "group", "job"]),
        ),
    )


class Model:
    """A model that decides from nothing which tasks start where: each in order, on the best worker.

    It is taken before a decision, and looks only at what waits and what is free.
    """

    def __init__(self, cluster: Cluster, since: dict[int, float]) -> None:
        self.now = cluster.now
        self.since = since
        self.ends = {w.id: w.end for w in cluster.scheduler.workers.values() if not w.draining}
        for worker in cluster.scheduler.workers.values():
            worker.give_back()
        self.interpreters = {
            worker: cluster.scheduler.workers[worker].shape.interpreter for worker in self.ends
        }
        self.common = {
            w: {same: cluster.scheduler.workers[w].in_common(same) for same in ("group", "job")}
            for w in self.ends
        }
        self.free = {w: Supply(cluster.scheduler.workers[w].supply.free) for w in self.ends}
        waiting = [task for task in cluster.scheduler.tasks.values() if task.worker is None]
        self.waiting = sorted(waiting, key=lambda task: (-task.queue.priority, task.age))
        self.totals = {w: cluster.scheduler.workers[w].supply.total for w in self.ends}
        for worker in cluster.scheduler.workers.values():  # also of those that drain
            self.totals[worker.id] = worker.supply.total
            self.interpreters[worker.id] = worker.shape.interpreter

    def starts(self, actual: dict[int, Start]) -> list[int]:
        """The tasks that start; where workers are equally good, the actual choice is followed."""
        tasks = []
        stuck = set()
        for task in self.waiting:
            if task.queue in stuck:
                continue  # what asks for the same goes one after the other
            stuck.add(task.queue)
            for request in self.choices(task):
                if request.count > 1:
                    if self.has_room_for_all(task, request):
                        assert task.id in actual, f"{task} could have started"
                        tasks.append(task.id)
                        self.take_members(task, request, actual[task.id])
                        stuck.discard(task.queue)
                        break
                    continue
                ranks = {worker: self.rank(task, request, worker) for worker in self.free}
                best = min(ranks.values(), default=_NOWHERE)
                if best != _NOWHERE:
                    assert task.id in actual, f"{task} could have started"
                    tasks.append(task.id)
                    start = actual[task.id]
                    assert ranks[start.worker] == best, f"{task} fits better elsewhere"
                    assert self.is_made_of(start.allocation, request), f"{task} took another"
                    self.free[start.worker].reclaim(start.allocation)
                    stuck.discard(task.queue)
                    break
        return tasks

    def has_room_for_all(self, task: Task, request: Resource) -> bool:
        """Return True if enough workers that have in common what they must can be members."""
        assert isinstance(request, Gang)
        able = [
            self.common[worker][request.same]
            for worker in self.free
            if self.rank(task, request.member, worker) != _NOWHERE
        ]
        return any(able.count(one) >= request.count for one in able)

    def take_members(self, task: Task, request: Resource, start: Start) -> None:
        """Follow the choice of members, each of which must have had room."""
        assert isinstance(request, Gang)
        members = [(start.worker, start.allocation)]
        members += [(worker, allocation) for worker, _, allocation in start.seats]
        assert len({worker for worker, _ in members}) == request.count
        assert len({self.common[worker][request.same] for worker, _ in members}) == 1
        for worker, allocation in members:
            assert self.rank(task, request.member, worker) != _NOWHERE
            assert self.is_made_of(allocation, request.member)
            self.free[worker].alloc(allocation)

    def choices(self, task: Task) -> Sequence[Resource]:
        """Return the alternatives that a task takes now, in their order."""
        request, interpreter = task.queue.request, task.queue.interpreter
        alternatives = request.alternatives()
        possible = any(
            total.request(alternatives[0]) and interpreter in ("", self.interpreters[worker])
            for worker, total in self.totals.items()
        )
        waits = isinstance(request, Either) and request.prefer > self.now - self.since[task.id]
        return alternatives[:1] if possible and waits else alternatives

    def is_made_of(self, allocation: Resource, request: Resource) -> bool:
        """Return True if an allocation is that of a request, but for what a worker implies."""
        implied = allocation.parts().keys() - request.parts().keys()
        return implied <= {"Capacity"} and all(
            getattr(part, "is_all", False) or part.ask() == allocation.parts()[kind].ask()
            for kind, part in request.parts().items()
        )

    def rank(self, task: Task, request: Resource, worker: int) -> tuple[float, float]:
        """Return how well an alternative of a task fits a worker: smaller is better."""
        queue, end, free = task.queue, self.ends[worker], self.free[worker]
        if queue.interpreter not in ("", self.interpreters[worker]):
            return _NOWHERE
        if end <= self.now or not free.free.request(request):
            return _NOWHERE
        return (free.slack(request), -end)


class Machine(RuleBasedStateMachine):
    """Any events in any order; `Cluster` checks every invariant after each."""

    requests = requests
    # Of workers, and of tasks that do not need any.
    interpreters: st.SearchStrategy[str] = st.sampled_from(["", "", "Python 3.11", "Python 3.12"])
    bounds: st.SearchStrategy[int] = st.sampled_from([0, 1, 3, 64])
    most_workers = 4

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.cluster = Cluster(max_overtakes=data.draw(self.bounds))
        self.join(data.draw(workers), data.draw(self.interpreters))

    @rule(
        total=workers,
        interpreter=interpreters,
        group=st.sampled_from(["", "", "", "other"]),
        job=st.sampled_from(["", "1", "1", "2"]),
    )
    def join(self, total: Resource, interpreter: str, group: str = "", job: str = "") -> None:
        if len(self.cluster.scheduler.workers) < self.most_workers:
            self.cluster.join(total, interpreter, group, job)

    @rule(
        data=st.data(),
        priority=st.sampled_from([0, 0, 0, 1]),
        n=st.integers(1, 4),
        interpreter=interpreters,
    )
    def submit(self, data: st.DataObject, priority: int, n: int, interpreter: str) -> None:
        asked = [data.draw(self.requests) for _ in range(n)]
        self.cluster.submit_many(*asked, priority=priority, interpreter=interpreter)

    @precondition(lambda self: self.cluster.running)
    @rule(data=st.data(), n=st.integers(1, 2))
    def finish(self, data: st.DataObject, n: int) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.cluster.running), max_size=n, unique=True))
        self.cluster.finish(*chosen)

    @precondition(lambda self: self.cluster.scheduler.tasks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.cluster.cancel(data.draw(st.sampled_from(sorted(self.cluster.scheduler.tasks))))

    @precondition(lambda self: self.cluster.scheduler.workers)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        self.cluster.drain(data.draw(st.sampled_from(sorted(self.cluster.scheduler.workers))))

    @precondition(lambda self: self.cluster.scheduler.workers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.cluster.scheduler.workers)))
        held = self.cluster.scheduler.workers[worker].tasks
        expected = sorted(task for task in held if task >= 0)
        again = self.cluster.leave(worker)
        assert sorted(again) == expected

    @rule(seconds=st.sampled_from([1, 5, 11, 20]))
    def wait(self, seconds: int) -> None:
        self.cluster.wait(seconds)


class ComparedCluster(Cluster):
    """A cluster that compares each decision with the simple model."""

    since: dict[int, float]

    def settle(self) -> list[Start]:
        before = getattr(self, "since", {})
        self.since = {task: before.get(task, self.now) for task in self.waiting}
        model = Model(self, self.since)
        starts = super().settle()
        expected = model.starts({start.task: start for start in starts})
        assert [start.task for start in starts] == expected
        self.since = {task: self.since[task] for task in self.waiting}
        return starts


class ComparedMachine(Machine):
    """Without reservations, which tasks start, in which order and where, is what the model says."""

    requests = untimed
    bounds = st.just(1 << 30)

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.cluster = ComparedCluster(max_overtakes=data.draw(self.bounds))
        self.join(data.draw(workers), data.draw(self.interpreters))


class MachineWithAlternatives(Machine):
    """The same events, where tasks may take one of several requests."""

    requests = with_alternatives(requests)


class ComparedMachineWithAlternatives(ComparedMachine):
    """Which alternative a task takes, and when it takes it, is what the model says."""

    requests = choices


class MachineWithGangs(Machine):
    """The same events, where tasks may ask for several workers, also as alternatives."""

    requests = with_alternatives(with_gangs(requests))
    most_workers = 7


class MachineWithFailures(MachineWithGangs):
    """The same events, where tasks avoid places, and places are set aside."""

    @precondition(lambda self: self.cluster.scheduler.workers)
    @rule(data=st.data(), n=st.integers(1, 3))
    def submit_again(self, data: st.DataObject, n: int) -> None:
        here = st.sampled_from(sorted(self.cluster.scheduler.workers))
        place = st.builds(RunPlace, here, st.sampled_from([WHOLE, 0, 1]))
        avoid = tuple(data.draw(st.lists(place, max_size=3, unique=True)))
        self.cluster.submit_many(*[data.draw(self.requests) for _ in range(n)], avoid=avoid)

    @precondition(lambda self: self.cluster.running)
    @rule(data=st.data(), n=st.sampled_from([1, 10]))
    def fail(self, data: st.DataObject, n: int) -> None:
        task = data.draw(st.sampled_from(self.cluster.running))
        for _ in range(n):
            self.cluster.scheduler.on_outcome(task, "f", self.cluster.now, failed=True)
        if task >= 0:
            self.cluster.end(task, failed=True)

    @precondition(lambda self: self.cluster.running)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        running = [task for task in self.cluster.running if task >= 0]
        if running:
            self.cluster.end(data.draw(st.sampled_from(running)))

    @rule()
    def wait_for_long(self) -> None:
        self.cluster.wait(LONGEST)


class ComparedMachineWithGangs(ComparedMachine):
    """Which gangs start, and that their members had room, is what the model says."""

    requests = with_gangs(untimed)
    most_workers = 7


@pytest.mark.parametrize(
    "machine",
    [
        Machine,
        ComparedMachine,
        MachineWithAlternatives,
        ComparedMachineWithAlternatives,
        MachineWithGangs,
        ComparedMachineWithGangs,
        MachineWithFailures,
    ],
)
def test_any_events_in_any_order(machine: Any) -> None:
    """After any events every invariant holds, and nothing waits that could start."""
    quick = settings(
        max_examples=25,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=quick)  # type: ignore[no-untyped-call,unused-ignore]
