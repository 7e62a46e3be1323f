"""Prefetch: which tasks the hub sends ahead, behind which runs, and how they end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from grain.head.hub.tasks.prefetch import PREFETCH_SECONDS, SLOWED
from grain.head.messages import Crashed, Request, Resolved, Retract, Started, Submit, Synced
from grain.resource import Cores
from grain.worker.agent.chains import PATIENCE
from grain.worker.messages import (
    ArrivedCount,
    Draining,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Lease,
    RegisterWorker,
    Revoke,
    RunEnded,
)
from grain_testkit.hub_harness import F, HubHarness, held


class BriefRuns(HubHarness):
    """A hub that has had brief runs: one worker with two cores, and a mission."""

    def __init__(self) -> None:
        super().__init__()
        self.w = self.worker("w")
        self.m = self.mission()
        self.send(self.m, Synced())
        self.number = 0
        for _ in range(40):
            self.submit(self.m, self.next())
            self.end(*self.leases())
        self.mail.clear()

    def next(self) -> int:
        self.number += 1
        return self.number

    def add(self, count: int) -> None:
        """Submit tasks together."""
        tasks = [self.next() for _ in range(count)]
        self.send(self.m, *[Submit(task, 0, F) for task in tasks], payload=b"")

    def leases(self) -> list[Lease]:
        return self.sent(self.w, Lease)

    def end(self, *leases: Lease, status: Any = "value") -> None:
        self.send(self.w, *[self.ended(lease, status) for lease in leases], payload=b"")

    def end_all(self, *leases: Lease) -> None:
        """End these runs, and then all that follow them."""
        while leases:
            self.end(*leases)
            leases = tuple(self.leases())


@pytest.fixture
def harness() -> BriefRuns:
    return BriefRuns()


def test_brief_tasks_take_the_place_of_others_with_their_resources(harness: BriefRuns) -> None:
    """No other task gets these meanwhile."""
    harness.add(6)
    one, two, *ahead = harness.leases()

    assert [0, 0] == [one.chain, two.chain]
    assert {one.attempt[1], two.attempt[1]} == {lease.chain for lease in ahead}
    for lease in ahead:
        head = one if lease.chain == one.attempt[1] else two
        assert head.res == lease.res
    started = harness.sent(harness.m, Started)
    assert 2 + len(ahead) == sum(len(message.tasks) for message in started)
    # The mission learns behind which task each of them waits.
    behind = {t: b for m in started if m.behind for t, b in zip(m.tasks, m.behind, strict=True)}
    for head in (one, two):
        chain = [head, *(lease for lease in ahead if lease.chain == head.attempt[1])]
        tasks = [lease.task for lease in chain]
        assert all(behind.pop(after) == before for before, after in pairwise(tasks))
    assert not behind

    harness.end_all(one, two, *ahead)
    assert 6 == len(harness.sent(harness.m, Resolved))
    assert {} == harness.hub.scheduler.tasks
    assert 0 == harness.hub.prefetch.in_chains


def test_the_last_tasks_are_not_sent_ahead(harness: BriefRuns) -> None:
    """Another worker may be free for them sooner."""
    harness.add(3)

    assert 2 == len(harness.leases())


def test_nothing_is_sent_ahead_after_a_run_that_took_long(harness: BriefRuns) -> None:
    harness.add(1)
    (lease,) = harness.leases()
    harness.now += 5.0
    harness.end(lease)
    harness.add(20)

    assert 2 == len(harness.leases())


def test_ends_that_are_reported_together_are_no_sign_of_brief_runs(harness: BriefRuns) -> None:
    """A head that is late gets many at a time: all runs but the first seem to take no time."""
    for _ in range(60):
        harness.submit(harness.m, harness.next())
        harness.end(*harness.leases())
    harness.add(300)
    leases = harness.leases()
    assert 2 + 2 * 64 == len(leases)
    harness.now += 0.9  # 14 ms for each of them
    harness.end(*leases)

    assert [0, 0] == [lease.chain for lease in harness.leases()[:2]]
    assert 2 == harness.hub.prefetch.in_chains


@pytest.mark.parametrize(
    ("took", "work", "depth"),
    [
        (0.0038, None, 5),  # 20 ms in all, as the head sees it
        (0.0038, 0.0009, 22),  # 20 ms as the worker measured it
        (0.019, 0.0, 10),  # 200 ms as the head sees it
        (0.3, 0.0, 0),
    ],
)
def test_runs_count_by_the_time_that_their_worker_measured_up_to_a_limit(
    harness: BriefRuns, took: float, work: float | None, depth: int
) -> None:
    """A busy worker keeps runs waiting for a CPU, and large payloads take time elsewhere."""
    report = b"" if work is None else work
    for _ in range(100):
        harness.add(1)
        (lease,) = harness.leases()
        harness.now += took
        harness.send(harness.w, harness.ended(lease, report=report), payload=b"")
    harness.add(300)

    assert 2 + 2 * depth == len(harness.leases())


def test_what_is_sent_ahead_does_not_come_back_for_having_waited() -> None:
    """It may wait for somewhat longer than expected."""
    assert PATIENCE > 2 * SLOWED * PREFETCH_SECONDS


def test_a_run_that_seemed_long_to_the_head_was_long(harness: BriefRuns) -> None:
    """Whatever its worker says: others have to prove again that they are brief."""
    for took in (1.0, *[0.0] * 10):
        harness.add(1)
        (lease,) = harness.leases()
        harness.now += took
        harness.send(harness.w, harness.ended(lease, report=0.0), payload=b"")
    harness.add(20)

    assert 2 == len(harness.leases())


def test_nothing_is_sent_ahead_while_a_task_of_another_request_waits(harness: BriefRuns) -> None:
    harness.send(harness.m, Request(1, {"Cores": 2}))
    one = harness.next(), harness.next()
    harness.send(harness.m, *[Submit(task, 0, F) for task in one], payload=b"")
    running = harness.leases()
    harness.send(harness.m, Submit(harness.next(), 1, F), payload=b"")
    harness.add(20)
    assert [] == harness.leases()

    harness.end(*running)
    assert [{"Cores": 2}] == [lease.res for lease in harness.leases()]


def test_a_chain_is_not_endless(harness: BriefRuns) -> None:
    """Even where runs take no time at all by a coarse clock."""
    for _ in range(200):
        harness.submit(harness.m, harness.next())
        harness.end(*harness.leases())
    harness.add(400)

    assert 2 + 2 * 64 == len(harness.leases())


def test_a_chain_is_filled_up_when_half_of_it_has_begun(harness: BriefRuns) -> None:
    """So an end that is reported by itself wakes no process for one lease more."""
    for _ in range(200):
        harness.submit(harness.m, harness.next())
        harness.end(*harness.leases())
    harness.add(1000)
    one, _, *ahead = harness.leases()
    chain = [one, *(lease for lease in ahead if lease.chain == one.attempt[1])]
    sent = []
    for lease in chain[:40]:
        harness.end(lease)
        sent.append(len(harness.leases()))

    assert [0] * 31 == sent[:31]
    assert sum(sent) > 30


@pytest.mark.parametrize(("workers", "most"), [(30, 1024), (300, 4 * 1202)])
def test_all_chains_together_have_a_limit(harness: BriefRuns, workers: int, most: int) -> None:
    """The runs of many workers that seem to be brief may all turn out to be long."""
    for number in range(workers):
        harness.worker(f"w{number}", 4)
    for _ in range(100):
        harness.submit(harness.m, harness.next())
        for name in ("w", *(f"w{number}" for number in range(workers))):
            leases = harness.sent(name, Lease)
            if leases:
                harness.send(name, *map(harness.ended, leases), payload=b"")
    harness.add(10_000)

    assert most == harness.hub.prefetch.in_chains


@pytest.mark.parametrize("how", ["returned", "crashed"])
def test_a_run_that_crashed_or_came_back_is_sent_again_without_successors(
    harness: BriefRuns, how: str
) -> None:
    """Those that waited behind it are sent again, too, and are blamed for nothing."""
    harness.add(6)
    one, _, *ahead = harness.leases()
    behind = [lease for lease in ahead if lease.chain == one.attempt[1]]
    harness.end(*behind, status="returned")
    harness.end(one, status=how)

    blamed = harness.sent(harness.m, Crashed)
    assert [one.task] * (how == "crashed") == [crashed.task for crashed in blamed]
    again = harness.leases()
    assert one.task == again[0].task
    assert [0] == [lease.chain for lease in again]


@pytest.mark.parametrize("arrived", [True, False])
def test_runs_that_waited_in_a_chain_are_not_blamed_for_the_loss_of_their_worker(
    harness: BriefRuns, arrived: bool
) -> None:
    """Nor is one whose turn had come, if its lease may still have been on its way."""
    harness.add(6)
    one, other, *ahead = harness.leases()
    harness.end(one)  # its successor runs now
    running = next(lease for lease in ahead if lease.chain == one.attempt[1])
    harness.mail.clear()
    if arrived:
        harness.send(harness.w, ArrivedCount(1000))
    harness.lose(harness.w)
    harness.wait(70.0)

    under_way = [running.task, other.task] if arrived else []
    assert under_way == [crashed.task for crashed in harness.sent(harness.m, Crashed)]


def test_a_task_that_waits_in_a_chain_can_be_retracted(harness: BriefRuns) -> None:
    """The others in its chain keep their order."""
    harness.add(6)
    one, two, *ahead = harness.leases()
    retracted = ahead[0]
    harness.send(harness.m, Retract((retracted.task,)))
    assert [Revoke(retracted.attempt)] == harness.sent(harness.w, Revoke)

    harness.end(retracted, status="cancelled")
    harness.end_all(one, two, *ahead[1:])
    assert 5 == len(harness.sent(harness.m, Resolved))
    assert {} == harness.hub.scheduler.tasks


def test_nothing_is_sent_ahead_to_a_worker_that_drains(harness: BriefRuns) -> None:
    """Though its runs go on."""
    harness.add(20)
    one, *_ = harness.leases()
    harness.send(harness.w, Draining())
    harness.end(one)

    assert [] == harness.leases()


def test_chains_go_on_on_a_worker_that_is_back(harness: BriefRuns) -> None:
    """A lease that it does not report has never arrived; the others keep their order."""
    harness.add(8)
    one, two, first, *ahead = harness.leases()
    lost = [lease for lease in ahead if lease.chain == first.chain][-1]
    kept = [lease for lease in (one, two, first, *ahead) if lease is not lost]
    harness.lose(harness.w)
    harness.mail.clear()
    harness.send("again", RegisterWorker("w", "w", "host", {"Cores": 2}, connection=2))
    harness.send("again", Inventory(tuple(held(lease, chain=lease.chain) for lease in kept)))
    harness.send("again", InventoryEnd())
    for lease in kept:
        harness.send("again", harness.ended(lease), payload=b"")

    assert len(kept) == len(harness.sent(harness.m, Resolved))
    assert lost.task in [lease.task for lease in harness.sent("again", Lease)]


def test_a_successor_adopts_chains_and_adds_nothing_to_them() -> None:
    """Runs that wait there hold nothing."""
    old = BriefRuns()
    old.add(8)
    leases = old.leases()
    harness = HubHarness(epoch=2)
    mission = harness.mission()
    for lease in leases:
        harness.submit(mission, lease.task, worker="w")
    harness.submit(mission, *range(100, 120))
    harness.send(mission, Synced())
    worker = harness.worker("w", 2, tuple(held(lease, chain=lease.chain) for lease in leases))
    assert [] == harness.sent(worker, Lease)
    assert len(leases) - 2 == harness.hub.prefetch.in_chains
    # Its mission learns of each for whose end it waits.
    chains: dict[int, list[int]] = {}
    for lease in leases:
        chains.setdefault(lease.chain or lease.attempt[1], []).append(lease.task)
    told = {one.tasks[0]: one.behind for one in harness.sent(mission, Started)}
    assert {task: (before,) for some in chains.values() for before, task in pairwise(some)} == {
        task: behind for task, behind in told.items() if behind
    }

    for lease in leases:
        harness.send(worker, RunEnded("m", lease.task, lease.attempt, "value"), payload=b"")
    assert len(leases) == len(harness.sent(mission, Resolved))
    assert {lease.chain for lease in harness.sent(worker, Lease)} == {0}


def test_a_run_counts_for_its_request_also_behind_an_unwanted_run() -> None:
    """The mission that comes to a successor has retracted the first run of the chain."""
    harness = HubHarness(epoch=2)
    first = InventoryRun("m", 1, (1, 1), {"Cores": [1]}, 5.0)
    behind = InventoryRun("m", 2, (1, 2), {"Cores": [1]}, 0.0, chain=1)
    worker = harness.worker("w", 2, (first, behind))
    mission = harness.mission()
    harness.submit(mission, 2, worker="w")
    harness.send(mission, Synced())
    harness.send(worker, RunEnded("m", 1, (1, 1), "cancelled"))

    assert {Cores(1): 1} == {
        queue.request: queue.running
        for queue in harness.hub.scheduler.queues.values()
        if queue.running
    }


def test_a_task_that_waits_in_a_chain_counts_as_waiting(harness: BriefRuns) -> None:
    harness.add(8)
    waits = harness.leases()[-1]
    state = harness.hub.snapshot(harness.now)

    assert (2, 6) == (state.missions[0].running, state.missions[0].waiting)
    assert (2, 6) == (state.tasks.running, state.tasks.waiting)
    assert 2 == len(state.workers[0].tasks)
    why = harness.hub.why("m", waits.task, harness.now)
    assert ("waiting", ("it is among the next on w, where others like it run",)) == (
        why.state,
        why.reasons,
    )
