"""Tasks that take one of several requests: what the hub gives them, and what missions learn."""

from __future__ import annotations

from typing import Any

import pytest

from grain.edge.questions import AlternativeDemand, Ask, DemandAnswer, unpack
from grain.head.errors import BadMessage
from grain.head.messages import Request, Started, Submit, Synced
from grain.resource import Cores, gang, to_data
from grain.worker.messages import (
    DefineFunction,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Lease,
    RegisterWorker,
)
from grain_testkit.hub_harness import F, HubHarness

GPU_OR_CORES: dict[str, Any] = {"Either": [{"GPUs": 1}, {"Cores": 2}]}
PREFERS: dict[str, Any] = {"Either": {"of": [{"GPUs": 1}, {"Cores": 2}], "prefer": 10}}


def submitted(
    harness: HubHarness, *tasks: int, request: dict[str, Any] = GPU_OR_CORES, worker: str = ""
) -> str:
    """Return the link of a mission that has submitted tasks with alternatives."""
    mission = harness.mission()
    harness.send(mission, DefineFunction(F, "f"), Request(7, request))
    harness.send(mission, *(Submit(task, 7, F, worker) for task in tasks))
    harness.send(mission, Synced())
    return mission


def worker_with_gpu(harness: HubHarness, name: str, *runs: InventoryRun) -> str:
    total = {"Cores": 2, "GPUs": 1}
    reported = [Inventory(runs)] if runs else []
    harness.send(name, RegisterWorker(name, name, "host", total), *reported, InventoryEnd())
    return name


def test_a_mission_learns_which_alternative_each_task_has_taken(harness: HubHarness) -> None:
    worker = worker_with_gpu(harness, "w")
    mission = submitted(harness, 1, 2)

    assert [Started("w", (1,), 0), Started("w", (2,), 1)] == harness.sent(mission, Started)
    leases = harness.sent(worker, Lease)
    assert [{"GPUs": 1}, {"Cores": 2}] == [lease.res for lease in leases]


def test_the_hub_opens_alternatives_as_time_passes(harness: HubHarness) -> None:
    worker = worker_with_gpu(harness, "w")
    submitted(harness, 1, 2, request=PREFERS)
    assert [1] == [lease.task for lease in harness.sent(worker, Lease)]
    harness.wait(9.0)
    assert [] == harness.sent(worker, Lease)
    harness.wait(1.0)
    assert [{"Cores": 2}] == [lease.res for lease in harness.sent(worker, Lease)]


@pytest.mark.parametrize("first", ["mission", "worker"])
@pytest.mark.parametrize(("res", "alternative"), [({"GPUs": [0]}, 0), ({"Cores": [0, 1]}, 1)])
def test_a_successor_tells_from_what_a_run_holds_which_alternative_it_has(
    first: str, res: dict[str, Any], alternative: int
) -> None:
    harness = HubHarness(epoch=2)
    running = InventoryRun("m", 1, (1, 7), res, 100.0)
    if first == "worker":
        worker_with_gpu(harness, "w", running)
    mission = submitted(harness, 1, worker="w")
    if first == "mission":
        worker_with_gpu(harness, "w", running)

    assert Started("w", (1,), alternative) == harness.sent(mission, Started)[-1]
    [taken] = harness.hub.scheduler.taken.values()
    assert alternative == taken.index


def test_a_suspect_runs_by_the_first_alternative_that_its_worker_has(harness: HubHarness) -> None:
    worker = harness.worker("w", 2)
    mission = submitted(harness, 1)
    for _ in range(2):
        (lease,) = harness.sent(worker, Lease)
        harness.send(worker, harness.ended(lease, "crashed", detail="signal 9"))
    (lease,) = harness.sent(worker, Lease)

    assert (True, {"Cores": 2}) == (lease.alone, lease.res)
    assert Started("w", (1,), 1) == harness.sent(mission, Started)[-1]


def test_the_demand_has_every_alternative(harness: HubHarness) -> None:
    request = {"Either": [{"GPUs": 1}, {"Cores": 2, "WTime": {"T": 60}}]}
    submitted(harness, 1, request=request)
    harness.send("cli", Ask("demand"))
    [*_, (_, payload)] = harness.mail.pop("cli")
    [one] = unpack(payload, DemandAnswer).classes

    assert ({"GPUs": 1}, 0.0) == (one.request, one.need)
    assert [AlternativeDemand({"Cores": 2}, 60.0)] == one.others
    assert 'GPUs(1) | Cores(2) & WTime(T="00:01:00")' == one.asked


def test_the_demand_says_how_many_workers_a_task_takes_at_once(harness: HubHarness) -> None:
    """What it asks for is of one of them, and tasks are counted as tasks."""
    three = to_data(gang(3, Cores(2), same="job"))
    submitted(harness, 1, request={"Either": [three, {"GPUs": 1}]})
    harness.send("cli", Ask("demand"))
    [*_, (_, payload)] = harness.mail.pop("cli")
    [one] = unpack(payload, DemandAnswer).classes

    assert ({"Cores": 2}, 1, 3, "job") == (one.request, one.waiting, one.members, one.same)
    assert [AlternativeDemand({"GPUs": 1}, 0.0, 1, "group")] == one.others


@pytest.mark.parametrize(
    "request_",
    [
        {"Either": [{"GPUs": 1}]},
        {"Either": [{"GPUs": 1}, {"GPUs": 1}]},
        {"Either": [{"GPUs": n} for n in range(1, 18)]},
        {"Either": [{"GPUs": 1}, {}]},
        {"Either": [{"GPUs": 1}, {"WTime": {"T": 5, "countdown": True}}]},
        {"Either": {"of": [{"GPUs": 1}, {"Cores": 1}], "prefer": -1}},
    ],
)
def test_a_mission_that_asks_for_nonsense_is_refused(
    harness: HubHarness, request_: dict[str, Any]
) -> None:
    mission = harness.mission()
    with pytest.raises(BadMessage):
        harness.hub.on_message(mission, Request(7, request_), None, 0.0)


def test_a_worker_that_states_alternatives_is_refused(harness: HubHarness) -> None:
    with pytest.raises(BadMessage, match="can be asked for, and not be there"):
        harness.send("w", RegisterWorker("w", "w", "host", GPU_OR_CORES))
