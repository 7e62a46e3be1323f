"""The hub hands each outcome to its mission once, and decides which of two runs counts."""

from __future__ import annotations

from grain.head.messages import AckTasks, Crashed, Resolved, Retract, Retracted, Started, Synced
from grain.worker.messages import AckRuns, Lease, Revoke
from grain_testkit.hub_harness import HubHarness, held


def given_up(harness: HubHarness) -> tuple[str, str, Lease]:
    """A task's worker is lost, and another is there: the mission, that worker, and the lost run."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (old,) = harness.sent(worker, Lease)
    harness.lose(worker)
    other = harness.worker("other", 1)
    harness.wait(65.0)
    return mission, other, old


def test_a_worker_keeps_an_outcome_until_the_mission_has_confirmed_it(
    harness: HubHarness,
) -> None:
    """That the head has it is not enough."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    assert [Started("w", (1,))] == harness.sent(mission, Started)

    harness.send(worker, harness.ended(lease), payload=b"42")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [] == harness.sent(worker, AckRuns)
    harness.send(worker, harness.ended(lease), payload=b"42")  # once more, after a lost connection
    assert [] == harness.sent(mission, Resolved)
    assert [] == harness.sent(worker, AckRuns)

    harness.send(mission, AckTasks((1,)))
    assert [AckRuns((lease.attempt,))] == harness.sent(worker, AckRuns)
    assert {} == harness.hub.registry.missions["m"].tasks


def test_the_first_success_wins_and_later_ones_are_dropped(harness: HubHarness) -> None:
    """Even if the first is that of a run which was given up."""
    mission, other, old = given_up(harness)
    (new,) = harness.sent(other, Lease)
    harness.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    harness.send("back", harness.ended(old), payload=b"old")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [Revoke(new.attempt)] == harness.sent(other, Revoke)

    harness.send(other, harness.ended(new), payload=b"new")
    assert [AckRuns((new.attempt,))] == harness.sent(other, AckRuns)
    assert [] == harness.sent(mission, Resolved)


def test_a_failure_of_a_run_that_was_given_up_is_ignored(harness: HubHarness) -> None:
    """The run that took its place goes on."""
    mission, other, old = given_up(harness)
    harness.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    harness.send("back", harness.ended(old, "error"), payload=b"old")

    assert [] == harness.sent(mission, Resolved)
    assert [] == harness.sent(other, Revoke)
    assert [AckRuns((old.attempt,))] == harness.sent("back", AckRuns)


def test_of_two_runs_of_a_task_the_older_goes_on_and_the_other_is_revoked(
    harness: HubHarness,
) -> None:
    """A worker that was given up returns with a run that began long ago."""
    mission, other, old = given_up(harness)
    (new,) = harness.sent(other, Lease)
    harness.worker("w", 2, (held(old, 65.0),), link="back")
    assert [Revoke(new.attempt)] == harness.sent(other, Revoke)

    harness.send(other, harness.ended(new, "cancelled"))
    assert [] == harness.sent(other, Lease)
    harness.send("back", harness.ended(old), payload=b"")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)


def test_the_report_on_a_run_reaches_its_mission_however_the_run_ended(
    harness: HubHarness,
) -> None:
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    returned, cancelled = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(returned, report=b"1"), payload=b"42")
    assert [Resolved(1, "value", report=b"1")] == harness.sent(mission, Resolved)
    harness.send(mission, Retract((2,)))
    harness.send(worker, harness.ended(cancelled, "cancelled", report=b"2"))
    assert [Retracted(2, b"2")] == harness.sent(mission, Retracted)

    harness.submit(mission, 3)
    for count in range(5):
        (lease,) = harness.sent(worker, Lease)
        harness.send(worker, harness.ended(lease, "crashed", detail="x", report=b"%d" % count))
    reports = [crashed.report for crashed in harness.sent(mission, Crashed)]
    assert [b"0", b"1", b"2", b"3", b"4"] == reports
    assert [b"4"] == [resolved.report for resolved in harness.sent(mission, Resolved)]


def test_a_report_comes_again_with_an_outcome_that_a_mission_has_not_confirmed(
    harness: HubHarness,
) -> None:
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    harness.lose(mission)
    harness.send(worker, harness.ended(lease, report=b"1"), payload=b"42")
    again = harness.mission(link="again", connection=2)
    harness.submit(again, 1)
    assert [Resolved(1, "value", report=b"1")] == harness.sent(again, Resolved)
