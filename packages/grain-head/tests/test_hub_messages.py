"""What the hub sends: functions once, starts before leases, and no more at once than can travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.messages import MAX_MESSAGE
from grain.head.hub.harness import F, Scene
from grain.head.messages import Depart, Started, Submit, Synced
from grain.head.service import CODEC
from grain.worker.messages import DefineFunction, ForgetFunctions, Lease

if TYPE_CHECKING:
    import pytest


def test_a_function_travels_to_each_worker_once(scene: Scene) -> None:
    """And is dropped when its mission has left."""
    one, two, mission = scene.worker("one"), scene.worker("two"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2, 3, 4)
    for worker in (one, two):
        assert 2 == len(scene.sent(worker, Lease))
        assert [DefineFunction(F)] == scene.sent(worker, DefineFunction)

    scene.say(mission, Depart())
    scene.wait(120.0)
    for worker in (one, two):
        assert [ForgetFunctions((F,))] == scene.sent(worker, ForgetFunctions)


def test_many_functions_are_dropped_in_messages_that_can_travel(scene: Scene) -> None:
    worker, mission = scene.worker("w"), scene.mission()
    digests = {number.to_bytes(16, "big") for number in range(70_000)}
    scene.hub.ledger.workers["w"].functions |= digests
    scene.say(mission, Synced())
    scene.say(mission, Depart())
    scene.wait(120.0)
    drops = scene.sent(worker, ForgetFunctions)
    assert digests <= {digest for drop in drops for digest in drop.digests}
    assert all(len(CODEC.encode(drop, None)) <= MAX_MESSAGE for drop in drops)


def test_a_mission_knows_of_a_start_before_its_worker(scene: Scene) -> None:
    """A head that is killed in between leaves nothing that runs unknown to the next one."""
    workers, mission = [scene.worker(name, cores=1) for name in ("a", "b")], scene.mission()
    for task in (1, 2):
        scene.hub.on_message(mission, Submit(task, 0, F), b"", scene.now)
    scene.hub.dispatch(scene.now)
    told = scene.hub.take()
    first, *others = told
    assert (mission, {*workers}) == (first, {*others})
    assert {(1,), (2,)} == {m.tasks for m, _ in told[mission] if isinstance(m, Started)}


def test_many_starts_are_told_in_messages_that_can_travel(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.head.hub.hub._AT_ONCE", 3)
    mission = scene.mission()
    scene.submit(mission, *range(1, 9))
    scene.worker("w", cores=8)
    told = [started.tasks for started in scene.sent(mission, Started)]
    assert [(1, 2, 3), (4, 5, 6), (7, 8)] == told
