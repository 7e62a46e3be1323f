"""What is brief is sent ahead: which tasks, behind which runs, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.head.messages import Crashed, Request, Resolved, Retract, Started, Submit, Synced
from grain.worker.messages import (
    Draining,
    Inventory,
    InventoryEnd,
    Lease,
    RegisterWorker,
    Revoke,
    RunEnded,
)
from grain_testkit.hub_harness import F, HubHarness, held


class Brief(HubHarness):
    """A hub that has seen brief runs: one worker with two cores, and a mission."""

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
        """Tasks come together."""
        tasks = [self.next() for _ in range(count)]
        self.send(self.m, *[Submit(task, 0, F) for task in tasks], payload=b"")

    def leases(self) -> list[Lease]:
        return self.sent(self.w, Lease)

    def end(self, *leases: Lease, status: Any = "value") -> None:
        self.send(self.w, *[self.ended(lease, status) for lease in leases], payload=b"")

    def end_all(self, *leases: Lease) -> None:
        """These end, and then all others."""
        while leases:
            self.end(*leases)
            leases = tuple(self.leases())


@pytest.fixture
def harness() -> Brief:
    return Brief()


def test_brief_tasks_follow_in_the_place_of_others(harness: Brief) -> None:
    """With what those held, which nobody else gets meanwhile."""
    harness.add(6)
    one, two, *ahead = harness.leases()

    assert [0, 0] == [one.chain, two.chain]
    assert {one.attempt[1], two.attempt[1]} == {lease.chain for lease in ahead}
    for lease in ahead:
        front = one if lease.chain == one.attempt[1] else two
        assert front.res == lease.res
    started = harness.sent(harness.m, Started)
    assert 2 + len(ahead) == sum(len(message.tasks) for message in started)

    harness.end_all(one, two, *ahead)
    assert 6 == len(harness.sent(harness.m, Resolved))
    assert {} == harness.hub.scheduler.tasks
    assert 0 == harness.hub.prefetch.in_chains


def test_the_last_tasks_are_not_sent_ahead(harness: Brief) -> None:
    """Another worker may be free for them sooner."""
    harness.add(3)

    assert 2 == len(harness.leases())


def test_nothing_is_sent_ahead_where_runs_take_long(harness: Brief) -> None:
    """One long run is enough to be seen."""
    harness.add(1)
    (lease,) = harness.leases()
    harness.now += 5.0
    harness.end(lease)
    harness.add(20)

    assert 2 == len(harness.leases())


def test_ends_that_are_told_together_are_no_sign_of_brief_runs(harness: Brief) -> None:
    """A head that was late hears of many at a time: all but the first seem to have taken none."""
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


def test_nobody_is_overtaken(harness: Brief) -> None:
    """While somebody waits who asks for something else, nothing is sent ahead."""
    harness.send(harness.m, Request(1, {"Cores": 2}))
    one = harness.next(), harness.next()
    harness.send(harness.m, *[Submit(task, 0, F) for task in one], payload=b"")
    running = harness.leases()
    harness.send(harness.m, Submit(harness.next(), 1, F), payload=b"")
    harness.add(20)
    assert [] == harness.leases()

    harness.end(*running)
    assert [{"Cores": 2}] == [lease.res for lease in harness.leases()]


def test_a_line_is_not_endless(harness: Brief) -> None:
    """Runs that take no time at all, as a coarse clock sees it, are no reason for more."""
    for _ in range(4000):
        harness.submit(harness.m, harness.next())
        harness.end(*harness.leases())
    harness.add(400)

    assert 2 + 2 * 64 == len(harness.leases())


def test_not_much_is_sent_ahead_in_all(harness: Brief) -> None:
    """Many workers that seem to have brief runs may all have long ones."""
    for number in range(30):
        harness.worker(f"w{number}", 4)
    for _ in range(100):
        harness.submit(harness.m, harness.next())
        for name in ("w", *(f"w{number}" for number in range(30))):
            leases = harness.sent(name, Lease)
            if leases:
                harness.send(name, *map(harness.ended, leases), payload=b"")
    harness.add(10_000)

    assert 1024 == harness.hub.prefetch.in_chains


@pytest.mark.parametrize("how", ["returned", "crashed"])
def test_what_came_to_grief_is_sent_again_alone(harness: Brief, how: str) -> None:
    """And what waited behind it has lost nothing."""
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


def test_only_what_ran_is_to_blame_for_the_loss_of_a_worker(harness: Brief) -> None:
    """What waited there begins elsewhere as if nothing had been."""
    harness.add(6)
    one, _, *ahead = harness.leases()
    harness.end(one)  # the next one in its line runs now
    running = next(lease for lease in ahead if lease.chain == one.attempt[1])
    harness.mail.clear()
    harness.lose(harness.w)
    harness.wait(70.0)

    assert [running.task] == [crashed.task for crashed in harness.sent(harness.m, Crashed)]


def test_what_waits_can_be_retracted(harness: Brief) -> None:
    """The others in its line keep their turn."""
    harness.add(6)
    one, two, *ahead = harness.leases()
    gone = ahead[0]
    harness.send(harness.m, Retract((gone.task,)))
    assert [Revoke(gone.attempt)] == harness.sent(harness.w, Revoke)

    harness.end(gone, status="cancelled")
    harness.end_all(one, two, *ahead[1:])
    assert 5 == len(harness.sent(harness.m, Resolved))
    assert {} == harness.hub.scheduler.tasks


def test_nothing_is_added_for_who_drains(harness: Brief) -> None:
    """Though its runs go on."""
    harness.add(20)
    one, *_ = harness.leases()
    harness.send(harness.w, Draining())
    harness.end(one)

    assert [] == harness.leases()


def test_a_worker_that_is_back_tells_of_its_lines(harness: Brief) -> None:
    """What it does not mention has never arrived; the rest goes on in its order."""
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


def test_another_head_adopts_lines() -> None:
    """Those that wait hold nothing, and nothing is added behind them."""
    old = Brief()
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

    for lease in leases:
        harness.send(worker, RunEnded("m", lease.task, lease.attempt, "value"), payload=b"")
    assert len(leases) == len(harness.sent(mission, Resolved))
    assert {lease.chain for lease in harness.sent(worker, Lease)} == {0}


def test_people_see_it_wait(harness: Brief) -> None:
    """It is neither among what runs, nor forgotten."""
    harness.add(8)
    waits = harness.leases()[-1]
    state = harness.hub.snapshot(harness.now)

    assert (2, 6) == (state["missions"][0]["running"], state["missions"][0]["waiting"])
    assert (2, 6) == (state["tasks"]["running"], state["tasks"]["waiting"])
    assert 2 == len(state["workers"][0]["tasks"])
    told = harness.hub.why("m", waits.task, harness.now)
    assert ("waiting", ("it is among the next on w, where others like it run",)) == (
        told.state,
        told.reasons,
    )
