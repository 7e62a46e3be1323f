"""Resources of the whole cluster: licences that tasks on any worker use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.head.scheduler.cluster import ClusterPool
from grain.head.scheduler.explain import why_never
from grain.resource import Cores, Either, GPUs, Licences, Resource, resource_kind
from grain_testkit.scheduler_harness import Cluster

if TYPE_CHECKING:
    from typing_extensions import Self


def pool(*parts: int, **named: int) -> ClusterPool:
    return ClusterPool({"Licences": Licences(*parts, **named)})


def cluster(*workers: Resource, licences: int, max_overtakes: int | None = None) -> Cluster:
    return Cluster(*workers, max_overtakes=max_overtakes, cluster=pool(licences))


def used(one: Cluster, name: str = "") -> int:
    return one.scheduler.cluster.usage()["Licences"][name][0]


def test_tasks_on_all_workers_together_use_no_more_than_there_are() -> None:
    of = cluster(Cores(4), Cores(4), licences=3)
    tasks = of.submit_many(*[Cores(1) & Licences(1)] * 5)

    assert tasks[:3] == of.running
    assert 3 == used(of)
    of.finish(tasks[1])
    assert [tasks[0], tasks[2], tasks[3]] == of.running


def test_a_task_gets_its_licences_with_what_it_got_of_its_worker() -> None:
    of = cluster(Cores(4), licences=3)
    task = of.submit(Cores(2) & Licences(2))

    assert Cores([0, 1]) & Licences(2) == of.starts[task].allocation
    assert "with CPU_Cores([0-1]) & Licences(2)" in of.why(task).reasons[0]


def test_a_task_that_waits_for_a_licence_holds_back_no_one_who_needs_none() -> None:
    of = cluster(Cores(2), licences=1, max_overtakes=1)
    of.submit(Cores(1) & Licences(1))
    waits = of.submit(Cores(1) & Licences(1))
    others = []
    for _ in range(10):  # however often it is passed over
        others.append(of.submit(Cores(1)))
        assert others[-1] in of.running
        assert of.reservation(waits) is None
        of.finish(others[-1])

    assert [waits] == of.waiting


def test_what_becomes_free_is_kept_for_the_oldest_task_that_needs_several() -> None:
    of = cluster(Cores(8), licences=3)
    first = of.submit_many(*[Cores(1) & Licences(1)] * 3)
    several = of.submit(Cores(2) & Licences(2))
    younger = of.submit(Cores(1) & Licences(1))
    plain = of.submit(Cores(1))

    assert plain in of.running
    of.finish(first[0])
    assert [several, younger] == of.waiting
    of.finish(first[1])
    assert [younger] == of.waiting


def test_a_sort_of_licences_that_is_used_up_holds_back_no_task_of_another_sort() -> None:
    of = Cluster(Cores(8), cluster=pool(vasp=2, orca=1))
    of.submit(Cores(1) & Licences(vasp=1))
    several = of.submit(Cores(1) & Licences(vasp=2))
    other = of.submit(Cores(1) & Licences(orca=1))

    assert [several] == of.waiting
    assert other in of.running


def test_a_task_that_waits_only_for_a_worker_keeps_no_licence() -> None:
    of = cluster(Cores(4), licences=1)
    of.submit(Cores(3))
    wide = of.submit(Cores(4) & Licences(1))
    small = of.submit(Cores(1) & Licences(1))

    assert small in of.running
    assert [wide] == of.waiting


def test_a_task_with_a_reserved_worker_has_its_licence_kept_too() -> None:
    of = cluster(Cores(4), licences=1, max_overtakes=1)
    long = of.submit(Cores(3))
    wide = of.submit(Cores(4) & Licences(1))
    small = of.submit(Cores(1))  # overtakes it once
    younger = of.submit(Licences(1))

    assert (0, math.inf) == of.reservation(wide)
    assert [wide, younger] == of.waiting
    of.finish(small, long)
    assert [wide] == of.running


def test_a_worker_that_was_reserved_serves_others_while_the_licence_is_away() -> None:
    of = cluster(Cores(4), licences=1, max_overtakes=1)
    of.submit(Cores(3))
    wide = of.submit(Cores(4) & Licences(1))
    of.submit(Cores(1))
    assert of.reservation(wide) is not None
    of.scheduler.cluster.set_total("Licences", Licences(0))
    of.settle()

    assert of.reservation(wide) is None
    of.scheduler.cluster.set_total("Licences", Licences(1))
    of.settle()
    assert of.reservation(wide) is not None


def test_a_due_task_gets_a_worker_and_the_licence_before_younger_ones_once_there_is_one() -> None:
    of = cluster(Cores(4), licences=1, max_overtakes=1)
    long = of.submit(Cores(3))
    wide = of.submit(Cores(4) & Licences(1))
    small = of.submit(Cores(1))  # overtakes it once
    of.scheduler.cluster.set_total("Licences", Licences(0))
    of.settle()
    younger = of.submit(Licences(1))
    of.scheduler.cluster.set_total("Licences", Licences(1))
    of.settle()

    assert (0, math.inf) == of.reservation(wide)
    assert [wide, younger] == of.waiting
    of.finish(long, small)
    assert [wide] == of.running


def test_a_licence_is_free_for_others_when_the_reserved_worker_of_its_task_has_gone() -> None:
    of = cluster(Cores(4), Cores(1), licences=1, max_overtakes=1)
    of.submit(Cores(3))
    wide = of.submit(Cores(4) & Licences(1))
    of.submit_many(Cores(1), Cores(1))
    younger = of.submit(Licences(1))
    assert [wide, younger] == of.waiting
    of.drain(0)

    assert [wide] == of.waiting


def test_a_licence_is_free_for_others_when_the_task_is_cancelled_that_gathered_several() -> None:
    of = cluster(Cores(8), licences=3)
    of.submit_many(*[Cores(1) & Licences(1)] * 2)
    several = of.submit(Cores(1) & Licences(2))
    younger = of.submit(Licences(1))
    assert [several, younger] == of.waiting
    of.cancel(several)

    assert younger in of.running


def test_a_worker_is_reserved_only_for_the_first_of_several_tasks_with_licences() -> None:
    of = cluster(Cores(4), Cores(4), licences=2, max_overtakes=1)
    of.submit_many(Cores(3), Cores(3))
    wide = of.submit_many(*[Cores(4) & Licences(1)] * 2)
    for _ in range(3):
        of.submit(Cores(1))

    assert 1 == len(of.scheduler.tasks[wide[0]].queue.reservations)


def test_a_gang_gathers_what_all_of_its_members_need() -> None:
    of = Cluster(cluster=pool(5))
    for _ in range(2):
        of.join(Cores(4), group="a")
    of.submit_many(*[Cores(1) & Licences(1)] * 2)
    gang = of.submit(2 * (Cores(1) & Licences(2)))
    younger = of.submit(Cores(1) & Licences(1))

    assert [gang, younger] == of.waiting


def test_every_member_of_a_gang_takes_its_own() -> None:
    of = Cluster(cluster=pool(5))
    for _ in range(4):
        of.join(Cores(4), group="a")
    gang = of.submit(3 * (Cores(4) & Licences(2)))
    assert [gang] == of.waiting
    of.cancel(gang)
    gang = of.submit(2 * (Cores(4) & Licences(2)))

    assert 4 == used(of)
    start = of.starts[gang]
    assert Licences(2) == start.allocation.get(Licences)
    assert [Licences(2)] == [seat[2].get(Licences) for seat in start.seats]
    one = of.submit(Licences(4))
    of.finish(gang)
    assert [one] == of.waiting
    of.finish(start.seats[0][1])
    assert one in of.running


def test_an_alternative_without_a_licence_is_taken_while_there_is_none() -> None:
    of = cluster(Cores(16), Cores(4), licences=1)
    request = Licences(1) & Cores(4) | Cores(16)
    first, second = of.submit_many(request, request)

    assert Licences(1) == of.starts[first].allocation.get(Licences)
    assert of.starts[second].allocation.get(Licences) is None


def test_a_preferred_alternative_is_waited_for_also_if_it_waits_for_a_licence() -> None:
    of = cluster(Cores(16), licences=1)
    held = of.submit(Licences(1))
    waits = of.submit(Either(Licences(1) & Cores(4), Cores(8), prefer=10))

    assert [waits] == of.waiting
    assert 10.0 == of.scheduler.next_time
    of.wait(10)
    assert Cores(8) == Cores(of.starts[waits].allocation.N)
    of.finish(held)
    never = of.submit(Either(Licences(2) & Cores(4), Cores(8), prefer=10))
    assert never in of.running  # there will never be two


def test_a_lost_worker_and_a_run_that_ended_free_what_they_used() -> None:
    of = cluster(Cores(1), Cores(1), licences=2)
    first, second = of.submit_many(*[Cores(1) & Licences(1)] * 2)
    of.finish(first)
    assert 1 == used(of)
    worker = of.where(second)
    assert worker is not None
    of.leave(worker)  # it starts again on the other
    assert 1 == used(of)
    of.finish(second)
    assert 0 == used(of)


def test_a_new_scheduler_hands_out_none_until_it_is_open_and_what_was_reported_counts() -> None:
    licences = pool(2)
    licences.shut(60.0)
    of = Cluster(Cores(8), cluster=licences)
    waits = of.submit_many(*[Cores(1) & Licences(1)] * 2)
    plain = of.submit(Cores(1))
    assert [plain] == of.running
    [why] = [one for one in of.why(waits[0]).reasons if "Licences" in one and "waits" in one]
    assert (
        "it waits for Licences(1): this scheduler has just started, and hands out none for another "
        "60 s, in which workers report what their tasks use already"
    ) == why
    queue = of.scheduler.queue(Cores(1) & Licences(1))
    of.scheduler.on_adopted(100, queue, 0, Cores([5]) & Licences(1), 0, 0.0)
    licences.open()
    of.settle()

    assert [waits[0], plain, 100] == of.running
    of.finish(100)
    assert waits[1] in of.running


def test_more_in_use_than_there_is_counts_until_enough_has_ended() -> None:
    of = cluster(Cores(8), licences=2)
    queue = of.scheduler.queue(Cores(1) & Licences(1))
    for k in range(3):
        of.scheduler.on_adopted(100 + k, queue, 0, Cores([k]) & Licences(1), k, 0.0)
    waits = of.submit(Cores(1) & Licences(1))
    assert 3 == used(of)
    of.finish(100)
    assert [waits] == of.waiting
    of.finish(101)
    assert waits in of.running


def test_a_number_that_shrinks_takes_nothing_from_runs() -> None:
    of = cluster(Cores(8), licences=2)
    first, second = of.submit_many(*[Cores(1) & Licences(1)] * 2)
    of.scheduler.cluster.set_total("Licences", Licences(1))
    waits = of.submit(Cores(1) & Licences(1))
    of.finish(first)
    assert [second] == of.running
    of.finish(second)
    assert [waits] == of.running


@resource_kind("ClusterDisks")
class Disks(Resource):
    """A kind of one's own with identities."""

    def __init__(self, names: int | list[str]) -> None:
        self.names = sorted(map(str, range(names)) if isinstance(names, int) else names)

    def _request(self, res: Self) -> bool:
        return len(res.names) <= len(self.names)

    def _alloc(self, res: Self) -> Self:
        taken, self.names = self.names[: len(res.names)], self.names[len(res.names) :]
        return type(self)(taken)

    def _dealloc(self, res: Self) -> None:
        self.names = sorted(self.names + res.names)

    def _reclaim(self, res: Self) -> None:
        if not set(res.names) <= set(self.names):
            raise ValueError("in use")
        self.names = [name for name in self.names if name not in res.names]

    def _repr(self) -> str:
        return f"Disks({self.names})"

    def _stat(self) -> tuple[int, int]:
        return len(self.names), max(len(self.names), 2)


def test_a_kind_of_ones_own_may_be_of_the_whole_cluster() -> None:
    of = Cluster(Cores(8), cluster=ClusterPool({"ClusterDisks": Disks(["a", "b"])}))
    first, second, third = of.submit_many(*[Cores(1) & Disks(1)] * 3)

    assert {"a", "b"} == {of.starts[task].allocation.names[0] for task in (first, second)}
    of.finish(second)
    assert ["b"] == of.starts[third].allocation.names
    queue = of.scheduler.queue(Cores(1) & Disks(1))
    of.scheduler.on_adopted(100, queue, 0, Cores([7]) & Disks(["b"]), 0, 0.0)  # in use twice
    waits = of.submit(Cores(1) & Disks(1))
    of.finish(first)
    assert [waits] == of.waiting
    of.finish(third)
    assert waits in of.running


def test_a_request_says_why_it_waits_and_why_it_never_can() -> None:
    of = Cluster(Cores(8), cluster=pool(vasp=2))
    running = of.submit(Cores(1) & Licences(vasp=2))
    waits = of.submit(Cores(1) & Licences(vasp=1))
    never = of.submit(Cores(1) & Licences(vasp=3))

    assert running in of.running
    assert "it waits for Licences(vasp=1): 2 of 2 vasp in use" in of.why(waits).reasons
    text = "the whole cluster has Licences(vasp=2), asked for Licences(vasp=3)"
    assert f"never, {text}" in of.why(never).reasons
    assert text == why_never(of.scheduler, Cores(1) & Licences(vasp=3), 0.0)
    assert why_never(of.scheduler, Cores(1) & Licences(vasp=1), 0.0) is None


def test_a_number_that_a_command_tells_is_not_made_up_in_messages() -> None:
    total, most = Licences(orca=2, vasp=0), Licences(orca=2, vasp=10**9)
    of = Cluster(Cores(8), cluster=ClusterPool({"Licences": total}, {"Licences": most}))
    of.scheduler.cluster.notes["Licences"] = {"orca": "orca: a", "vasp": "vasp: b"}
    waits = of.submit(Cores(1) & Licences(vasp=1))

    assert "it waits for Licences(vasp=1): 0 of 0 vasp in use, vasp: b" in of.why(waits).reasons
    text = "the whole cluster has Licences(orca=2, vasp), asked for Licences(nix=1)"
    assert text == why_never(of.scheduler, Cores(1) & Licences(nix=1), 0.0)
    plain = {"Licences": Licences(0)}, {"Licences": Licences(10**9)}
    of = Cluster(Cores(8), cluster=ClusterPool(*plain))
    text = "the whole cluster has Licences, asked for Licences(nix=1)"
    assert text == why_never(of.scheduler, Cores(1) & Licences(nix=1), 0.0)


def test_a_kind_that_neither_a_worker_nor_the_scheduler_has_is_named() -> None:
    of = Cluster(Cores(8))
    why = why_never(of.scheduler, Cores(1) & Licences(1), 0.0)

    assert (
        "neither a worker here nor the scheduler has Licences, see [head.res] in grain.toml; "
        "w0: it has no Licences at all"
    ) == why


def test_a_task_that_can_never_have_enough_keeps_nothing_from_younger_ones() -> None:
    of = cluster(Cores(8), licences=2)
    of.submit(Cores(1) & Licences(3))
    younger = of.submit_many(*[Cores(1) & Licences(1)] * 2)

    assert younger == of.running


# ---- against a scheduler that is too simple to be wrong

REQUESTS = [
    Cores(1),
    Cores(3),
    Cores(1) & Licences(a=1),
    Cores(2) & Licences(a=2),
    Licences(b=1),
    Cores(1) & Licences(a=1, b=1),
    Cores(4) & Licences(a=3),
    Licences(a=2) & Cores(1) | Cores(3),
    GPUs(1) | Licences(b=1) & Cores(1),
    2 * (Cores(1) & Licences(a=1)),
]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, len(REQUESTS) - 1)),
        st.tuples(st.just("finish"), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("total"), st.integers(0, 4)),
        st.tuples(st.just("leave"), st.integers(0, 2)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("overtakes", [1, None])
@given(events=EVENTS)
def test_whatever_happens_no_more_is_handed_out_than_there_is(
    overtakes: int | None, events: list[tuple[str, int]]
) -> None:
    """And no task waits that could start: `check_scheduler`, after each event."""
    of = Cluster(max_overtakes=overtakes, cluster=pool(a=3, b=1))
    here = [of.join(Cores(4), group="g"), of.join(Cores(3) & GPUs(1), group="g")]
    there = {"a": 3, "b": 1}
    for event, number in events:
        before = {name: used(of, name) for name in "ab"}
        if event == "submit":
            of.submit(REQUESTS[number], priority=number % 2)
        elif event == "finish":
            running = [task.id for task in of.scheduler.tasks.values() if task.worker is not None]
            if running:
                of.finish(running[number % len(running)])
        elif event == "cancel" and of.waiting:
            of.cancel(of.waiting[number % len(of.waiting)])
        elif event == "total":
            there["a"] = number
            of.scheduler.cluster.set_total("Licences", Licences(there))
            of.settle()
        elif event == "leave" and here:
            of.leave(here.pop(number % len(here)))
            here.append(of.join(Cores(4), group="g"))
        for name in "ab":
            more = used(of, name) > before[name]
            assert used(of, name) <= there[name] or not more
        _check_decision(of, there)


def _check_decision(of: Cluster, there: dict[str, int]) -> None:
    """Check by brute force which waiting tasks are held back for want of a licence.

    In the order of service, each task takes of what is free what is kept for it; one that could
    start by licences, and waits for a worker without a reservation, takes nothing.
    """
    left = {name: there[name] - used(of, name) for name in there}
    for _, _, queue in of.scheduler.in_order_of_service:
        ways = [
            (one, {n: c * one.count for n, c in part.counts.items()})
            for one in queue.alternatives
            if (part := one.request.get(Licences)) is not None and isinstance(part, Licences)
        ]
        short = [one for one, need in ways if any(left[n] < c for n, c in need.items() if c)]
        assert queue.closed == sum(one.bit for one in short)
        most = {"a": there["a"], "b": there["b"]}
        kept = [need for one, need in ways if any(r.by is one for r in queue.reservations)]
        if not kept and len(short) == len(queue.alternatives):
            kept = [need for _, need in ways if all(most[n] >= c for n, c in need.items())]
        for name, count in (kept[0] if kept else {}).items():
            left[name] -= count
