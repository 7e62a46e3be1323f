"""The hub of a head that takes over: it adopts what workers and missions report."""

from __future__ import annotations

import pytest

from grain.head.hub.hub import epoch_at
from grain.head.messages import Crashed, Overtaken, Request, Resolved, Started, Submit, Synced
from grain.worker.messages import (
    Inventory,
    InventoryRun,
    Lease,
    Leaving,
    RegisterWorker,
    Revoke,
    RunEnded,
)
from grain_testkit.hub_harness import F, HubHarness
from grain_testkit.scheduler_harness import check_hub


def test_a_successor_adopts_runs_with_their_resources() -> None:
    """The task is not started again, and no other task gets what its run uses."""
    harness = HubHarness(epoch=2)
    running = InventoryRun("m", 1, (1, 7), {"Cores": [1]}, 100.0)
    mission = harness.mission()
    harness.submit(mission, 1, worker="w")
    harness.submit(mission, 2)
    harness.send(mission, Synced())
    worker = harness.worker("w", 2, (running,))

    (lease,) = harness.sent(worker, Lease)
    assert 2 == lease.task
    assert {"Cores": 1} == lease.res  # the core with id 0
    harness.send(worker, RunEnded("m", 1, (1, 7), "value"), payload=b"old")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)


def test_a_successor_adopts_a_run_with_its_part_of_a_core() -> None:
    """What is left of the same core goes to others, and no more than that."""
    harness = HubHarness(epoch=2)
    running = InventoryRun("m", 1, (1, 7), {"Cores": [[1, 0.75]]}, 100.0)
    mission = harness.mission(cores=0.25)
    harness.submit(mission, 1, worker="w")
    harness.submit(mission, 2, 3)
    harness.send(mission, Synced())
    worker = harness.worker("w", 2, (running,))

    first, second = harness.sent(worker, Lease)
    assert [{"Cores": [[1, 0.25]]}, {"Cores": 0.25}] == [first.res, second.res]
    harness.send(worker, RunEnded("m", 1, (1, 7), "value"), payload=b"old")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    check_hub(harness.hub, harness.now)


def test_a_worker_states_its_topology_to_a_successor_that_adopts_its_runs() -> None:
    harness = HubHarness(epoch=2)
    offer = {"ids": 8, "groups": [["0,4", "1,5", "2,6", "3,7"]]}
    running = InventoryRun("m", 1, (1, 7), {"Cores": [1, 5]}, 100.0)
    mission = harness.mission(cores=2)
    harness.submit(mission, 1, worker="w")
    harness.submit(mission, 2, 3)
    harness.send(mission, Synced())
    worker = harness.worker("w", offer, (running,))

    assert [{"Cores": [0, 4]}, {"Cores": [2, 6]}] == [
        lease.res for lease in harness.sent(worker, Lease)
    ]
    [shown] = harness.hub.snapshot(harness.now).workers
    assert {"Cores": 8} == shown.total
    assert {"Cores": [3, 7]} == shown.free


def test_a_task_that_ran_on_a_worker_waits_until_that_worker_reports_or_the_grace_period_ends(
    harness: HubHarness,
) -> None:
    """No other worker gets it meanwhile."""
    mission, other = harness.mission(), harness.worker("other")
    harness.submit(mission, 1, worker="gone")
    harness.submit(mission, 2)
    harness.send(mission, Synced())
    assert [2] == [lease.task for lease in harness.sent(other, Lease)]

    harness.wait(65.0)
    assert [1] == [lease.task for lease in harness.sent(other, Lease)]


def test_an_outcome_that_is_reported_before_its_mission_registers_is_kept_for_it(
    harness: HubHarness,
) -> None:
    ended = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = harness.worker("w", 2, (ended,))
    harness.send(worker, RunEnded("m", 1, (9, 1), "value"), payload=b"early")
    mission = harness.mission()
    harness.submit(mission, 1)
    harness.send(mission, Synced())

    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [] == harness.sent(worker, Lease)


def test_a_run_of_a_task_that_its_mission_does_not_submit_is_revoked(harness: HubHarness) -> None:
    """The task was cancelled, or resolved through another head."""
    worker = harness.worker("w", 2, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    harness.synced()

    assert [Revoke((9, 1))] == harness.sent(worker, Revoke)


def test_two_heads_that_start_in_one_millisecond_have_different_epochs() -> None:
    now = 1_800_000_000_123_456_789

    assert epoch_at(now, 1) != epoch_at(now, 2)
    assert epoch_at(now, 2**20 - 1) < epoch_at(now + 1_000_000, 0) < 2**62


def test_a_task_does_not_await_a_worker_that_has_left(harness: HubHarness) -> None:
    left, other, mission = harness.worker("left"), harness.worker("other"), harness.mission()
    harness.send(left, Leaving())
    harness.submit(mission, 1, worker="left")

    assert [1] == [lease.task for lease in harness.sent(other, Lease)]
    check_hub(harness.hub, harness.now)


@pytest.mark.parametrize("reports", [False, True])
def test_a_task_awaits_no_report_when_its_worker_leaves_before_it_has_reported_all(
    harness: HubHarness, reports: bool
) -> None:
    """The grace period has nothing to do with it: the worker will not report any more."""
    mission, other = harness.mission(), harness.worker("other", 2)
    harness.submit(mission, 1, 2, worker="leaving")
    assert [] == harness.sent(other, Lease)
    harness.send("leaving", RegisterWorker("leaving", "leaving", "h", {"Cores": 2}, connection=9))
    if reports:
        harness.send("leaving", Inventory((InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),)))
    assert [] == harness.sent(other, Lease)
    harness.send("leaving", Leaving())

    assert {1, 2} == {lease.task for lease in harness.sent(other, Lease)}
    assert Started("other", (2,)) in [
        Started(one.worker, one.tasks[-1:]) for one in harness.sent(mission, Started)
    ]


def test_a_mission_whose_task_waits_again_under_a_new_head_learns_that(harness: HubHarness) -> None:
    """Its worker has reported without it, before the mission came or after that."""
    mission = harness.mission(cores=4)
    harness.submit(mission, 1, worker="late")
    assert [] == harness.sent(mission, Started)
    harness.worker("late", 2)
    assert [Started("", (1,))] == harness.sent(mission, Started)

    harness.submit(mission, 2, worker="late")
    assert [Started("", (2,))] == harness.sent(mission, Started)


def test_a_mission_learns_that_its_task_runs_elsewhere_than_it_believes(
    harness: HubHarness,
) -> None:
    harness.worker("w", 2, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = harness.mission()
    harness.submit(mission, 1, worker="other")

    assert [Started("w", (1,))] == harness.sent(mission, Started)


def test_a_mission_learns_which_of_two_runs_goes_on(harness: HubHarness) -> None:
    """The older one, which its next head then waits for."""
    mission = harness.mission()
    harness.submit(mission, 1, worker="young")
    young = harness.worker("young", 2, (InventoryRun("m", 1, (9, 2), {"Cores": 1}, 5.0),))
    harness.worker("old", 2, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 50.0),))

    assert [Revoke((9, 2))] == harness.sent(young, Revoke)
    assert Started("old", (1,)) == harness.sent(mission, Started)[-1]


def test_a_failure_on_another_worker_does_not_start_what_awaits_a_report(
    harness: HubHarness,
) -> None:
    """The crash was counted, and a later run is on the worker that has yet to report."""
    mission = harness.mission()
    harness.submit(mission, 1, worker="later")
    earlier = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = harness.worker("earlier", 2, (earlier,))
    harness.send(worker, RunEnded("m", 1, (9, 1), "crashed", "SIGSEGV"))

    assert [] == harness.sent(worker, Lease)
    assert [(9, 1)] == [message.crash.attempt for message in harness.sent(mission, Crashed)]
    check_hub(harness.hub, harness.now)

    harness.worker("later", 2, (InventoryRun("m", 1, (9, 2), {"Cores": 1}, 5.0),))
    assert Started("later", (1,)) == harness.sent(mission, Started)[-1]
    assert [] == harness.sent(worker, Lease)


def test_a_success_on_another_worker_resolves_what_awaits_a_report(harness: HubHarness) -> None:
    mission = harness.mission()
    harness.submit(mission, 1, worker="later")
    earlier = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = harness.worker("earlier", 2, (earlier,))
    harness.send(worker, RunEnded("m", 1, (9, 1), "value"), payload=b"early")

    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    check_hub(harness.hub, harness.now)


@pytest.mark.parametrize("mission_first", [False, True])
def test_a_task_whose_revoked_run_ends_awaits_the_report_of_the_worker_with_the_other_run(
    harness: HubHarness, mission_first: bool
) -> None:
    """The worker of the revoked run finds the new head before the other one."""
    revoked = InventoryRun("m", 1, (9, 2), {"Cores": 1}, 5.0)
    if not mission_first:
        harness.worker("early", 2, (revoked,))
    mission = harness.mission()
    harness.submit(mission, 1, worker="late")
    if mission_first:
        harness.worker("early", 2, (revoked,))
    harness.send("early", RunEnded("m", 1, (9, 2), "cancelled"))

    assert [] == harness.sent("early", Lease)
    assert Started("late", (1,)) == harness.sent(mission, Started)[-1]
    harness.wait(65.0)
    assert [1] == [lease.task for lease in harness.sent("early", Lease)]
    check_hub(harness.hub, harness.now)


def test_a_mission_that_registers_while_its_run_is_reported_and_handed_back_is_not_misled(
    harness: HubHarness,
) -> None:
    """It registered before that report came, and its task came after the end of the run."""
    mission = harness.mission()
    worker = harness.worker("w", 0, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True),))
    harness.send(worker, RunEnded("m", 1, (9, 1), "returned"))
    harness.submit(mission, 1)

    assert [] == harness.sent(mission, Started)
    check_hub(harness.hub, harness.now)


def test_a_mission_that_registers_while_its_run_is_reported_learns_where_that_is(
    harness: HubHarness,
) -> None:
    mission = harness.mission()
    harness.worker("w", 2, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    harness.submit(mission, 1)

    assert [Started("w", (1,))] == harness.sent(mission, Started)


def test_a_run_goes_on_whose_task_was_handed_back_before_by_another_worker(
    harness: HubHarness,
) -> None:
    """The other worker is the first to find the new head, and has yet to say how its run ended."""
    mission = harness.mission()
    returned = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    earlier = harness.worker("earlier", 2, (returned,))
    later = harness.worker("later", 2, (InventoryRun("m", 1, (9, 2), {"Cores": 1}, 5.0),))
    harness.send(earlier, RunEnded("m", 1, (9, 1), "returned"))
    harness.submit(mission, 1, worker="later")
    harness.send(mission, Synced())

    assert [] == harness.sent(later, Revoke)
    assert [] == harness.sent(earlier, Lease)
    check_hub(harness.hub, harness.now)
    harness.send(later, RunEnded("m", 1, (9, 2), "value"), payload=b"later")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)


def test_a_run_is_revoked_whose_task_has_a_success_on_its_way(harness: HubHarness) -> None:
    mission = harness.mission()
    harness.submit(mission, 1, worker="later")
    success = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    earlier = harness.worker("earlier", 2, (success,))
    later = harness.worker("later", 2, (InventoryRun("m", 1, (9, 2), {"Cores": 1}, 5.0),))
    harness.send(earlier, RunEnded("m", 1, (9, 1), "value"), payload=b"earlier")

    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [Revoke((9, 2))] == harness.sent(later, Revoke)
    check_hub(harness.hub, harness.now)


def test_a_worker_that_comes_back_from_another_head_has_lost_the_leases_of_here(
    harness: HubHarness,
) -> None:
    """The other head has begun a run with the cores of a lease that never arrived."""
    worker, mission = harness.worker("w", 2), harness.mission(cores=2)
    for task in (1, 2):
        harness.submit(mission, task)
    [lost] = harness.sent(worker, Lease)
    harness.lose(worker)
    running = InventoryRun("m", 2, (9, 2), {"Cores": [0, 1]}, 5.0)
    again = harness.worker("w", 2, (running,))

    assert [running.attempt] == [*harness.hub.registry.workers["w"].leases]
    harness.send(again, RunEnded("m", 2, running.attempt, "value"))
    assert [Resolved(2, "value")] == harness.sent(mission, Resolved)
    assert [lost.task] == [lease.task for lease in harness.sent(again, Lease)]
    check_hub(harness.hub, harness.now)


def test_what_a_worker_reports_as_ended_is_free_for_what_another_head_has_begun(
    harness: HubHarness,
) -> None:
    """In whatever order it reports the two."""
    worker, mission = harness.worker("w", 2), harness.mission(cores=2)
    harness.submit(mission, 1)
    harness.submit(mission, 2)
    [lease] = harness.sent(worker, Lease)
    harness.lose(worker)
    running = InventoryRun("m", 2, (9, 1), {"Cores": [0, 1]}, 5.0)
    ended = InventoryRun("m", 1, lease.attempt, {"Cores": [0, 1]}, 0.0, ended=True)
    again = harness.worker("w", 2, (running, ended))

    for run in (ended, running):
        harness.send(again, RunEnded("m", run.task, run.attempt, "value"))
    assert [Resolved(1, "value"), Resolved(2, "value")] == harness.sent(mission, Resolved)
    assert [] == harness.sent(again, Lease)
    check_hub(harness.hub, harness.now)


class Crowd(HubHarness):
    """A hub with a worker of two cores, where narrow tasks overtake a wide one.

    Args:
        overtaken: how often the mission knows of.
    """

    def __init__(self, overtaken: int = 0) -> None:
        super().__init__(epoch=2, max_overtakes=32)
        self.worker("w", 2)
        self.mission()
        self.send("m", Request(1, {"Cores": 2}, overtaken=overtaken))
        self.begun: list[Lease] = []
        self.last = 0

    def add(self, request: int, count: int = 1) -> None:
        """Submit tasks: narrow ones for request 0, wide ones for 1."""
        first = self.last + 1
        self.last += count
        self.send("m", *(Submit(task, request, F) for task in range(first, first + count)))

    def end_one(self) -> list[int]:
        """End the oldest run; return the tasks that have started since the last call."""
        started = self.sent("w", Lease)
        self.begun += started
        lease = self.begun.pop(0)
        self.send("w", self.ended(lease), payload=b"value")
        self.wait(1)
        return [one.task for one in started]


def test_a_mission_learns_in_steps_how_often_its_oldest_task_was_overtaken() -> None:
    hub = Crowd()
    hub.add(0)
    hub.add(1)
    hub.add(0, 100)
    hub.send("m", Synced())
    for _ in range(60):
        hub.end_one()
        if 2 in [lease.task for lease in hub.begun]:
            break

    told = hub.sent("m", Overtaken)

    assert {1} == {one.request for one in told}
    times = [one.times for one in told]
    assert sorted(set(times)) == times
    assert [*range(1, 17)] == [count // 2 for count in times][:16]
    assert 32 == max(times)


@pytest.mark.parametrize("overtaken", [0, 31])
def test_a_task_that_was_overtaken_under_another_head_is_due_as_soon(overtaken: int) -> None:
    hub = Crowd(overtaken)
    hub.add(0)
    hub.add(1)
    hub.add(0, 5)
    hub.send("m", Synced())

    assert [1, 3] == hub.end_one()
    assert ([] if overtaken else [4]) == hub.end_one()
    assert ([2] if overtaken else [5]) == [lease.task for lease in hub.sent("w", Lease)]


def test_what_has_overtaken_one_task_counts_for_no_later_one() -> None:
    hub = Crowd(31)
    hub.send("m", Synced())
    hub.add(0)
    hub.add(1)
    hub.add(0, 5)

    assert [1, 3] == hub.end_one()
    assert [4] == hub.end_one()  # the wide task is a new one
