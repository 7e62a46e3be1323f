"""What missions ask of the hub: turns, tasks taken back, and what nobody can meet."""

from __future__ import annotations

import pytest

from grain.head.errors import BadMessage
from grain.head.messages import Notice, Retract, Retracted, Submit, Synced
from grain.worker.messages import AckRuns, Lease, Revoke
from grain_testkit.hub_harness import F, HubHarness


def test_a_retracted_task_is_gone_when_its_run_is(harness: HubHarness) -> None:
    """At once if it waits; if it runs, when its worker says so: it holds its cores till then."""
    worker, mission = harness.worker("w", 1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    (lease,) = harness.sent(worker, Lease)
    harness.send(mission, Retract((1, 2)))
    assert [Retracted(2)] == harness.sent(mission, Retracted)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)

    harness.send(worker, harness.ended(lease, "cancelled"))
    assert [Retracted(1)] == harness.sent(mission, Retracted)
    assert [AckRuns((lease.attempt,))] == harness.sent(worker, AckRuns)


def test_a_mission_that_comes_late_takes_turns(harness: HubHarness) -> None:
    """Its ten tasks do not wait for the thousands of another."""
    worker, many = harness.worker("w", 1), harness.mission("many")
    harness.send(many, Synced())
    harness.submit(many, *range(1, 1001))
    few = harness.mission("few")
    harness.send(few, Synced())
    harness.submit(few, *range(1, 11))

    order = []
    for _ in range(30):
        (lease,) = harness.sent(worker, Lease)
        order.append(lease.mission)
        harness.send(worker, harness.ended(lease), payload=b"")
    assert 10 == order[:22].count("few")
    assert ["many"] * 8 == order[22:]


def test_a_request_that_nobody_can_meet_is_reported_once(harness: HubHarness) -> None:
    """To the mission, with what is missing; and it starts when somebody comes who can."""
    harness.worker("w", 2)
    mission = harness.mission(cores=4)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    (notice,) = harness.sent(mission, Notice)
    assert "Cores(4)" in notice.why

    big = harness.worker("big", 4)
    assert [1] == [lease.task for lease in harness.sent(big, Lease)]


def test_nonsense_of_a_peer_is_told_from_a_bug(harness: HubHarness) -> None:
    """A task that names what never came is refused with the peer's blame."""
    mission = harness.mission()
    with pytest.raises(BadMessage, match="task 1 names a request"):
        harness.send(mission, Submit(1, 99, F))
