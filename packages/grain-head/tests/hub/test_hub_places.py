"""Workers and devices on which tasks fail, as missions and people see them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.eventlog.usage import RunReport, encode_report
from grain.head.errors import BadMessage
from grain.head.messages import (
    Crash,
    Depart,
    FailedOn,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Submit,
    Synced,
    Trouble,
)
from grain.head.scheduler.places import FIRST
from grain.worker.messages import DefineFunction, InventoryEnd, Lease, RegisterWorker, RunEnded
from grain_testkit.hub_harness import F, HubHarness


def gpu_worker(harness: HubHarness, name: str, gpus: int = 2) -> str:
    harness.connections += 1
    offered = {"Cores": 8, "GPUs": gpus}
    register = RegisterWorker(name, name, "host", offered, connection=harness.connections)
    harness.send(name, register, InventoryEnd())
    return name


def gpu_mission(harness: HubHarness, name: str = "m") -> str:
    request = Request(0, {"GPUs": 1})
    function = DefineFunction(F, name="step")
    harness.send(name, RegisterMission(name, name), request, function, Synced())
    return name


def lease_of(harness: HubHarness, worker: str) -> Lease:
    [lease] = harness.sent(worker, Lease)
    return lease


def fail_there(harness: HubHarness, worker: str, times: int) -> None:
    """Let tasks of the mission fail on a worker, where each begins as the last one ends."""
    for _ in range(times):
        lease = lease_of(harness, worker)
        harness.send(worker, harness.ended(lease, "error"), payload=b"failed")


def test_a_task_that_failed_on_a_worker_waits_for_another(harness: HubHarness) -> None:
    first, second = harness.worker("v", 1), harness.worker("w", 1)
    mission = harness.mission()
    harness.submit(mission, 1)
    [bad] = [one for one in (first, second) if harness.hub.registry.workers[one].leases]
    good = {first: second, second: first}[bad]
    failed = lease_of(harness, bad)
    harness.submit(mission, 2)
    other = lease_of(harness, good)
    harness.submit(mission, 3)
    harness.send(bad, harness.ended(failed, "error"), payload=b"failed")
    third = lease_of(harness, bad)
    harness.submit(mission, 4)
    harness.submit(mission, 5, avoid=(FailedOn(bad), FailedOn("a worker of another scheduler")))
    harness.send(bad, harness.ended(third), payload=b"")
    assert 4 == lease_of(harness, bad).task

    harness.send(good, harness.ended(other), payload=b"")

    assert 5 == lease_of(harness, good).task


def busy_and_failed(harness: HubHarness, **more: Any) -> tuple[str, str, Lease]:
    """Let task 2 run, and task 5 wait for that worker, as it has failed on the other one."""
    first, second = harness.worker("v", 1), harness.worker("w", 1)
    mission = harness.mission()
    harness.submit(mission, 1, 2)
    leases = {worker: lease_of(harness, worker) for worker in (first, second)}
    [bad] = [worker for worker, lease in leases.items() if lease.task == 1]
    good = {first: second, second: first}[bad]
    harness.submit(mission, 3, 4)
    harness.submit(mission, 5, avoid=(FailedOn(bad),), **more)
    return bad, good, leases[good]


def test_it_goes_before_the_tasks_of_its_mission_that_wait(harness: HubHarness) -> None:
    _, good, lease = busy_and_failed(harness)
    harness.send(good, harness.ended(lease), payload=b"")

    assert 5 == lease_of(harness, good).task


def test_it_still_goes_elsewhere_after_a_crash(harness: HubHarness) -> None:
    crash = Crash((9, 9), "u", "SIGSEGV", 0.0)
    bad, good, lease = busy_and_failed(harness, crashes=(crash,))
    [first] = harness.hub.registry.workers[bad].leases.values()
    ended = RunEnded("m", 1, first.attempt, "value")
    harness.send(bad, ended, payload=b"")
    assert 3 == lease_of(harness, bad).task
    harness.send(good, harness.ended(lease), payload=b"")

    assert 5 == lease_of(harness, good).task


def test_a_mission_learns_which_devices_a_failed_run_had(harness: HubHarness) -> None:
    worker, mission = gpu_worker(harness, "w"), gpu_mission(harness)
    harness.submit(mission, 1, 2, 3)
    one, two = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(two, "error"), payload=b"failed")
    harness.send(worker, harness.ended(one), payload=b"")

    assert [(2, (1,)), (1, ())] == [(m.task, m.gpus) for m in harness.sent(mission, Resolved)]


@pytest.mark.parametrize("exceeded", [False, True])
def test_a_run_that_needed_more_memory_than_it_had_says_nothing_of_its_place(
    harness: HubHarness, exceeded: bool
) -> None:
    offered = {"Cores": 8, "Memory": 8}
    harness.send("w", RegisterWorker("w", "w", "host", offered, connection=1), InventoryEnd())
    request = Request(0, {"Memory": {"group": "opt"}})
    harness.send("m", RegisterMission("m", "m"), request, DefineFunction(F), Synced())
    harness.submit("m", 1)
    lease = lease_of(harness, "w")
    report = encode_report(RunReport(started=0.0, ended=1.0, exceeded=exceeded))
    harness.send("w", harness.ended(lease, "error", report=report), payload=b"failed")

    assert exceeded != harness.hub.registry.scheduler.places.watches


def test_a_task_that_failed_on_a_device_gets_another_one(harness: HubHarness) -> None:
    worker, mission = gpu_worker(harness, "w"), gpu_mission(harness)
    harness.submit(mission, 4, avoid=(FailedOn(worker, (0,)),))

    assert {"GPUs": [1]} == lease_of(harness, worker).res


@pytest.mark.parametrize(
    "avoid",
    [
        (FailedOn("w"),) * 17,
        (FailedOn("w" * 1000),),
        (FailedOn("w", (-1,)),),
        (FailedOn("w", (10**9,)),),
        (FailedOn("w", tuple(range(2000))),),
    ],
)
def test_places_that_cannot_be_are_refused(
    harness: HubHarness, avoid: tuple[FailedOn, ...]
) -> None:
    mission = harness.mission()
    with pytest.raises(BadMessage):
        harness.send(mission, Submit(1, 0, F, avoid=avoid))


def broken(harness: HubHarness) -> tuple[str, str, Lease]:
    """Let one of two workers fail all tasks; return it, the other one, and what runs there."""
    first, second = gpu_worker(harness, "v", 1), gpu_worker(harness, "w", 1)
    mission = gpu_mission(harness)
    harness.submit(mission, 1)
    [bad] = [one for one in (first, second) if not harness.hub.registry.workers[one].leases]
    good = {first: second, second: first}[bad]
    running = lease_of(harness, good)
    harness.submit(mission, *range(2, 30))
    fail_there(harness, bad, 10)
    return bad, good, running


def test_a_device_is_set_aside_and_the_mission_says_so_in_one_line(harness: HubHarness) -> None:
    bad, good, running = broken(harness)
    assert [] == harness.sent("m", Trouble)
    harness.wait(10.0)
    harness.send(good, harness.ended(running), payload=b"")
    assert [] == harness.sent("m", Trouble)
    fail_there(harness, bad, 1)

    [trouble] = harness.sent("m", Trouble)
    assert f"GPU 0 of {bad}" == trouble.what
    assert (
        "set aside for 1 min: step failed there 11 times in a row, and succeeds elsewhere"
    ) == trouble.why
    assert trouble.aside
    assert [] == harness.sent(bad, Lease)
    why = harness.hub.why("m", 29, harness.now)
    assert any("set aside, as tasks fail there" in reason for reason in why.reasons)

    other = gpu_mission(harness, "other")
    harness.submit(other, 1)
    assert ["other"] == [one.mission for one in harness.sent(bad, Lease)]


def test_a_mission_that_comes_back_hears_of_it_again_and_when_it_is_over(
    harness: HubHarness,
) -> None:
    bad, good, running = broken(harness)
    harness.wait(10.0)
    harness.send(good, harness.ended(running), payload=b"")
    fail_there(harness, bad, 1)
    harness.mail["m"].clear()
    harness.lose("m")
    request, function = Request(0, {"GPUs": 1}), DefineFunction(F, name="step")
    harness.send("m again", RegisterMission("m", "m", connection=2), request, function, Synced())
    assert [f"GPU 0 of {bad}"] == [one.what for one in harness.sent("m again", Trouble)]

    harness.submit("m again", *range(30, 40))
    harness.wait(FIRST)
    lease = lease_of(harness, bad)
    harness.wait(10.0)
    harness.send(bad, harness.ended(lease), payload=b"")
    assert [Trouble(f"GPU 0 of {bad}", "", aside=True)] == harness.sent("m again", Trouble)
    assert 1 == len(harness.sent(bad, Lease))
    harness.lose("m again")
    harness.send("third", RegisterMission("m", "m", connection=3), request, function, Synced())
    assert [] == harness.sent("third", Trouble)


def test_nothing_is_set_aside_for_a_mission_that_has_left(harness: HubHarness) -> None:
    bad, good, running = broken(harness)
    harness.wait(10.0)
    harness.send(good, harness.ended(running), payload=b"")
    fail_there(harness, bad, 1)
    assert harness.hub.scheduler.places.some_aside
    harness.send("m", Depart())

    assert not harness.hub.scheduler.places.some_aside
    assert not harness.hub.scheduler.places.watches


def test_nothing_is_left_of_a_mission_and_a_worker_that_have_gone(harness: HubHarness) -> None:
    bad, good, running = broken(harness)
    harness.wait(10.0)
    harness.send(good, harness.ended(running), payload=b"")
    fail_there(harness, bad, 1)
    assert harness.hub.scheduler.places.some_aside
    harness.lose(bad)
    harness.lose("m")
    harness.wait(200.0)

    assert not harness.hub.scheduler.places.some_aside
    assert not harness.hub.scheduler.places.watches


def test_a_place_that_is_set_aside_no_more_is_not_shown_as_trouble(harness: HubHarness) -> None:
    bad, good, running = broken(harness)
    harness.wait(10.0)
    harness.send(good, harness.ended(running), payload=b"")
    fail_there(harness, bad, 1)
    [trouble] = harness.sent("m", Trouble)
    assert [f"{trouble.what} is {trouble.why}"] == harness.hub.registry.all_troubles()
    harness.send("m", Retract(tuple(range(2, 30))))
    harness.wait(FIRST)

    assert [] == harness.hub.registry.all_troubles()


def test_runs_that_were_to_be_ended_say_nothing_about_their_worker(harness: HubHarness) -> None:
    worker, mission = harness.worker("w", 1), harness.mission()
    harness.submit(mission, 1)
    lease = lease_of(harness, worker)
    harness.send(mission, Retract((1,)))
    harness.send(worker, harness.ended(lease, "error"), payload=b"failed")

    assert not harness.hub.scheduler.places.watches
