"""What is brief is sent ahead: which tasks, behind which runs, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.head.hub.harness import F, Scene, held
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


class Brief(Scene):
    """A hub that has seen brief runs: one worker with two cores, and a mission."""

    def __init__(self) -> None:
        super().__init__()
        self.w = self.worker("w")
        self.m = self.mission()
        self.say(self.m, Synced())
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
        self.say(self.m, *[Submit(task, 0, F) for task in tasks], payload=b"")

    def leases(self) -> list[Lease]:
        return self.sent(self.w, Lease)

    def end(self, *leases: Lease, status: Any = "value") -> None:
        self.say(self.w, *[self.settled(lease, status) for lease in leases], payload=b"")

    def end_all(self, *leases: Lease) -> None:
        """These end, and then all others."""
        while leases:
            self.end(*leases)
            leases = tuple(self.leases())


@pytest.fixture
def scene() -> Brief:
    return Brief()


def test_brief_tasks_follow_in_the_place_of_others(scene: Brief) -> None:
    """With what those held, which nobody else gets meanwhile."""
    scene.add(6)
    one, two, *ahead = scene.leases()

    assert [0, 0] == [one.chain, two.chain]
    assert {one.attempt[1], two.attempt[1]} == {lease.chain for lease in ahead}
    for lease in ahead:
        front = one if lease.chain == one.attempt[1] else two
        assert front.res == lease.res
    started = scene.sent(scene.m, Started)
    assert 2 + len(ahead) == sum(len(message.tasks) for message in started)

    scene.end_all(one, two, *ahead)
    assert 6 == len(scene.sent(scene.m, Resolved))
    assert {} == scene.hub.scheduler.tasks
    assert 0 == scene.hub.ledger.in_line


def test_the_last_tasks_are_not_sent_ahead(scene: Brief) -> None:
    """Another worker may be free for them sooner."""
    scene.add(3)

    assert 2 == len(scene.leases())


def test_nothing_is_sent_ahead_where_runs_take_long(scene: Brief) -> None:
    """One long run is enough to be seen."""
    scene.add(1)
    (lease,) = scene.leases()
    scene.now += 5.0
    scene.end(lease)
    scene.add(20)

    assert 2 == len(scene.leases())


def test_ends_that_are_told_together_are_no_sign_of_brief_runs(scene: Brief) -> None:
    """A head that was late hears of many at a time: all but the first seem to have taken none."""
    for _ in range(60):
        scene.submit(scene.m, scene.next())
        scene.end(*scene.leases())
    scene.add(300)
    leases = scene.leases()
    assert 2 + 2 * 64 == len(leases)
    scene.now += 0.9  # 14 ms for each of them
    scene.end(*leases)

    assert [0, 0] == [lease.chain for lease in scene.leases()[:2]]
    assert 2 == scene.hub.ledger.in_line


def test_nobody_is_overtaken(scene: Brief) -> None:
    """While somebody waits who asks for something else, nothing is sent ahead."""
    scene.say(scene.m, Request(1, {"Cores": 2}))
    one = scene.next(), scene.next()
    scene.say(scene.m, *[Submit(task, 0, F) for task in one], payload=b"")
    running = scene.leases()
    scene.say(scene.m, Submit(scene.next(), 1, F), payload=b"")
    scene.add(20)
    assert [] == scene.leases()

    scene.end(*running)
    assert [{"Cores": 2}] == [lease.res for lease in scene.leases()]


def test_a_line_is_not_endless(scene: Brief) -> None:
    """Runs that take no time at all, as a coarse clock sees it, are no reason for more."""
    for _ in range(4000):
        scene.submit(scene.m, scene.next())
        scene.end(*scene.leases())
    scene.add(400)

    assert 2 + 2 * 64 == len(scene.leases())


def test_not_much_is_sent_ahead_in_all(scene: Brief) -> None:
    """Many workers that seem to have brief runs may all have long ones."""
    for number in range(30):
        scene.worker(f"w{number}", 4)
    for _ in range(100):
        scene.submit(scene.m, scene.next())
        for name in ("w", *(f"w{number}" for number in range(30))):
            leases = scene.sent(name, Lease)
            if leases:
                scene.say(name, *map(scene.settled, leases), payload=b"")
    scene.add(10_000)

    assert 1024 == scene.hub.ledger.in_line


@pytest.mark.parametrize("how", ["returned", "crashed"])
def test_what_came_to_grief_is_sent_again_alone(scene: Brief, how: str) -> None:
    """And what waited behind it has lost nothing."""
    scene.add(6)
    one, _, *ahead = scene.leases()
    behind = [lease for lease in ahead if lease.chain == one.attempt[1]]
    scene.end(*behind, status="returned")
    scene.end(one, status=how)

    blamed = scene.sent(scene.m, Crashed)
    assert [one.task] * (how == "crashed") == [crashed.task for crashed in blamed]
    again = scene.leases()
    assert one.task == again[0].task
    assert [0] == [lease.chain for lease in again]


def test_only_what_ran_is_to_blame_for_the_loss_of_a_worker(scene: Brief) -> None:
    """What waited there begins elsewhere as if nothing had been."""
    scene.add(6)
    one, _, *ahead = scene.leases()
    scene.end(one)  # the next one in its line runs now
    running = next(lease for lease in ahead if lease.chain == one.attempt[1])
    scene.mail.clear()
    scene.lose(scene.w)
    scene.wait(70.0)

    assert [running.task] == [crashed.task for crashed in scene.sent(scene.m, Crashed)]


def test_what_waits_can_be_retracted(scene: Brief) -> None:
    """The others in its line keep their turn."""
    scene.add(6)
    one, two, *ahead = scene.leases()
    gone = ahead[0]
    scene.say(scene.m, Retract((gone.task,)))
    assert [Revoke(gone.attempt)] == scene.sent(scene.w, Revoke)

    scene.end(gone, status="cancelled")
    scene.end_all(one, two, *ahead[1:])
    assert 5 == len(scene.sent(scene.m, Resolved))
    assert {} == scene.hub.scheduler.tasks


def test_nothing_is_added_for_who_drains(scene: Brief) -> None:
    """Though its runs go on."""
    scene.add(20)
    one, *_ = scene.leases()
    scene.say(scene.w, Draining())
    scene.end(one)

    assert [] == scene.leases()


def test_a_worker_that_is_back_tells_of_its_lines(scene: Brief) -> None:
    """What it does not mention has never arrived; the rest goes on in its order."""
    scene.add(8)
    one, two, first, *ahead = scene.leases()
    lost = [lease for lease in ahead if lease.chain == first.chain][-1]
    kept = [lease for lease in (one, two, first, *ahead) if lease is not lost]
    scene.lose(scene.w)
    scene.mail.clear()
    scene.say("again", RegisterWorker("w", "w", "host", {"Cores": 2}, connection=2))
    scene.say("again", Inventory(tuple(held(lease, chain=lease.chain) for lease in kept)))
    scene.say("again", InventoryEnd())
    for lease in kept:
        scene.say("again", scene.settled(lease), payload=b"")

    assert len(kept) == len(scene.sent(scene.m, Resolved))
    assert lost.task in [lease.task for lease in scene.sent("again", Lease)]


def test_another_head_adopts_lines() -> None:
    """Those that wait hold nothing, and nothing is added behind them."""
    old = Brief()
    old.add(8)
    leases = old.leases()
    scene = Scene(epoch=2)
    mission = scene.mission()
    for lease in leases:
        scene.submit(mission, lease.task, worker="w")
    scene.submit(mission, *range(100, 120))
    scene.say(mission, Synced())
    worker = scene.worker("w", 2, tuple(held(lease, chain=lease.chain) for lease in leases))
    assert [] == scene.sent(worker, Lease)
    assert len(leases) - 2 == scene.hub.ledger.in_line

    for lease in leases:
        scene.say(worker, RunEnded("m", lease.task, lease.attempt, "value"), payload=b"")
    assert len(leases) == len(scene.sent(mission, Resolved))
    assert {lease.chain for lease in scene.sent(worker, Lease)} == {0}


def test_people_see_it_wait(scene: Brief) -> None:
    """It is neither among what runs, nor forgotten."""
    scene.add(8)
    waits = scene.leases()[-1]
    state = scene.hub.snapshot(scene.now)

    assert (2, 6) == (state["missions"][0]["running"], state["missions"][0]["waiting"])
    assert (2, 6) == (state["tasks"]["running"], state["tasks"]["waiting"])
    assert 2 == len(state["workers"][0]["tasks"])
    told = scene.hub.why("m", waits.task, scene.now)
    assert ("waiting", ("it is among the next on w, where others like it run",)) == (
        told.state,
        told.reasons,
    )
