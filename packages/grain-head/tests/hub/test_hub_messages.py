"""The messages of the hub: functions once, starts before leases, and none that is too large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.messages import MAX_MESSAGE
from grain.head.messages import Depart, Started, Submit, Synced
from grain.head.service import CODEC
from grain.worker.messages import DefineFunction, ForgetFunctions, Lease
from grain_testkit.hub_harness import F, HubHarness

if TYPE_CHECKING:
    import pytest


def test_a_function_travels_to_each_worker_once_and_is_forgotten_with_its_mission(
    harness: HubHarness,
) -> None:
    one, two, mission = harness.worker("one"), harness.worker("two"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2, 3, 4)
    for worker in (one, two):
        assert 2 == len(harness.sent(worker, Lease))
        assert [DefineFunction(F)] == harness.sent(worker, DefineFunction)

    harness.send(mission, Depart())
    harness.wait(120.0)
    for worker in (one, two):
        assert [ForgetFunctions((F,))] == harness.sent(worker, ForgetFunctions)


def test_very_many_functions_are_forgotten_in_messages_that_can_travel(harness: HubHarness) -> None:
    worker, mission = harness.worker("w"), harness.mission()
    digests = {number.to_bytes(16, "big") for number in range(70_000)}
    harness.hub.registry.workers["w"].functions |= digests
    harness.send(mission, Synced())
    harness.send(mission, Depart())
    harness.wait(120.0)
    drops = harness.sent(worker, ForgetFunctions)
    assert digests <= {digest for drop in drops for digest in drop.digests}
    assert all(len(CODEC.encode(drop, None)) <= MAX_MESSAGE for drop in drops)


def test_a_mission_is_informed_of_a_start_before_the_worker_gets_the_lease(
    harness: HubHarness,
) -> None:
    """A head that is killed in between leaves no run of which its successor could not know."""
    workers, mission = [harness.worker(name, cores=1) for name in ("a", "b")], harness.mission()
    for task in (1, 2):
        harness.hub.on_message(mission, Submit(task, 0, F), b"", harness.now)
    harness.hub.dispatch(harness.now)
    mail = harness.hub.take()
    first, *others = mail
    assert (mission, {*workers}) == (first, {*others})
    assert {(1,), (2,)} == {m.tasks for m, _ in mail[mission] if isinstance(m, Started)}


def test_very_many_starts_are_reported_in_messages_that_can_travel(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.head.hub.hub._AT_ONCE", 3)
    mission = harness.mission()
    harness.submit(mission, *range(1, 9))
    harness.worker("w", cores=8)
    sent = [started.tasks for started in harness.sent(mission, Started)]
    assert [(1, 2, 3), (4, 5, 6), (7, 8)] == sent
