"""The answer to ``Ask("demand")``: what tasks ask for, how long they take, what workers have."""

from __future__ import annotations

from grain.edge.questions import Ask, DemandAnswer, unpack
from grain.head.messages import Crash, Depart, Request, Submit, Synced
from grain.resource import Cores, to_data
from grain.worker.messages import DefineFunction, Draining, Lease
from grain_testkit.hub_harness import F, HubHarness


def state(harness: HubHarness) -> DemandAnswer:
    """Return the answer, as it arrives."""
    harness.send("cli", Ask("demand"))
    [*_, (_, payload)] = harness.mail.pop("cli")
    return unpack(payload, DemandAnswer)


def submitted(harness: HubHarness, *tasks: int, name: str = "m") -> str:
    """Return the link of a mission that has submitted tasks of one core."""
    mission = harness.mission(name)
    harness.send(mission, DefineFunction(F, "optimise"), Synced())
    harness.submit(mission, *tasks)
    return mission


def test_tasks_of_all_missions_that_ask_for_the_same_are_one_class(harness: HubHarness) -> None:
    harness.worker("w", 2)
    submitted(harness, 1, 2, 3, name="a")
    submitted(harness, 1, 2, name="b")
    harness.wait(5.0)

    [one] = state(harness).classes

    assert ({"Cores": 1}, "Cores(1)", 3, 2) == (
        *(one.request, one.asked),
        *(one.waiting, one.running),
    )
    assert 10.0 == one.elapsed
    assert (0, 0.0) == (one.ended, one.need)


def test_the_time_limit_of_a_class_is_what_a_worker_must_have_left(harness: HubHarness) -> None:
    mission = harness.mission()
    limit = {"Cores": 1, "WTime": {"T": 90.0, "softT": 60.0}}
    harness.send(mission, DefineFunction(F, "f"), Request(7, limit), Submit(1, 7, F), Synced())

    [one] = state(harness).classes

    assert ({"Cores": 1}, 60.0) == (one.request, one.need)


def test_the_mean_duration_is_that_of_runs_that_ended_by_themselves(harness: HubHarness) -> None:
    """Also of a mission that has left; not of a run that was stopped."""
    worker = harness.worker("w", 1)
    first = submitted(harness, 1, 2, 3, name="a")
    for seconds, status in ((4.0, "value"), (6.0, "error"), (100.0, "stopped")):
        (lease,) = harness.sent(worker, Lease)
        harness.wait(seconds)
        harness.send(worker, harness.ended(lease, status), payload=b"")
    harness.send(first, Depart())
    submitted(harness, 1, name="b")

    [one] = state(harness).classes

    assert (2, 5.0) == (one.ended, one.mean)


def test_a_worker_says_since_when_it_is_idle_and_whether_it_drains(harness: HubHarness) -> None:
    link = harness.worker("w", 2)
    harness.wait(3.0)
    [before] = state(harness).workers
    submitted(harness, 1)
    (lease,) = harness.sent(link, Lease)
    harness.wait(4.0)
    [busy] = state(harness).workers
    harness.send(link, harness.ended(lease), payload=b"")
    harness.wait(5.0)
    [after] = state(harness).workers
    harness.send(link, Draining())
    [draining] = state(harness).workers

    assert (3.0, 0) == (before.idle, before.running)
    assert (0.0, 1, {"Cores": 2}, {"Cores": [1]}) == (
        *(busy.idle, busy.running),
        *(busy.total, busy.free),
    )
    assert 5.0 == after.idle
    assert (False, True) == (after.draining, draining.draining)


def test_a_suspect_that_waits_for_a_worker_of_its_own_counts(harness: HubHarness) -> None:
    worker = harness.worker("w", 1)
    submitted(harness, 1)
    for more in ((), (Draining(),)):
        (lease,) = harness.sent(worker, Lease)
        harness.send(worker, *more, harness.ended(lease, "crashed", detail="signal 9"))

    [one] = state(harness).classes

    assert (1, 0) == (one.waiting, one.running)
    assert 1 == harness.hub.counts().suspect


def test_a_gang_that_waits_for_workers_of_its_own_is_one_task(harness: HubHarness) -> None:
    mission = submitted(harness)
    crashes = tuple(Crash((9, number), "w", "SIGSEGV", 0.0) for number in range(2))
    gang = Request(1, to_data(3 * Cores(2)))
    harness.send(mission, gang, Submit(1, 1, F, crashes=crashes), payload=b"")

    assert [(1, 3)] == [(one.waiting, one.members) for one in state(harness).classes]
