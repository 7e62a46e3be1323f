"""Missions learn of the workers that run their tasks."""

from __future__ import annotations

from typing import Any

import pytest

from grain.head.hub import reports
from grain.head.messages import Retract, Started, Synced, WorkerEnded, WorkerFacts
from grain.worker.messages import ArrivedCount, Draining, Lease, Leaving
from grain_testkit.hub_harness import HubHarness, held


@pytest.fixture
def harness() -> HubHarness:
    return HubHarness(wall=1000.0)


def test_a_mission_learns_of_a_worker_before_its_task_starts_there_and_of_its_end(
    harness: HubHarness,
) -> None:
    mission = harness.mission()
    harness.worker("w", job="j8")
    harness.worker("idle", cores=8)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    kinds = [type(m) for m, _ in harness.mail[mission] if isinstance(m, WorkerFacts | Started)]
    assert [WorkerFacts, Started] == kinds[:2]
    first = harness.sent(mission, WorkerFacts)
    assert ["w"] == [facts.name for facts in first]
    assert [WorkerFacts("w", "w", "host", {"Cores": 2}, None, "j8")] == first
    harness.send("w", harness.ended(harness.sent("w", Lease)[0]), payload=b"")
    harness.submit(mission, 3)
    assert [] == harness.sent(mission, WorkerFacts)
    harness.send("w", Leaving())
    assert WorkerEnded("w") in harness.sent(mission, WorkerEnded)


def test_a_mission_learns_of_a_lost_worker_before_its_task_waits_again(
    harness: HubHarness,
) -> None:
    harness.worker("w")
    mission = harness.synced("m", 1)
    harness.mail.clear()
    harness.lose("w", silent=5.0)
    harness.wait(100)
    news = [m for m, _ in harness.mail[mission] if isinstance(m, WorkerEnded | Started)]
    why = "its connection was lost, and it did not come back"
    assert [WorkerEnded("w", why, 65.0), Started("", (1,))] == news


def test_a_mission_learns_how_many_runs_a_worker_that_left_had_handed_back(
    harness: HubHarness,
) -> None:
    """Those alone that had begun, that it hands back as it leaves, and that are still wanted."""
    mission, other = harness.mission("m"), harness.mission("n")
    harness.worker("w", 4)
    for one, tasks in ((mission, (1, 2, 3)), (other, (1,))):
        harness.send(one, Synced())
        harness.submit(one, *tasks)
    leases = harness.sent("w", Lease)
    of_mission = [lease for lease in leases if lease.mission == "m"]
    harness.send(mission, Retract((3,)))
    harness.send("w", harness.ended(of_mission[0], "returned"))  # it serves on
    [again] = harness.sent("w", Lease)
    harness.send("w", Draining(), ArrivedCount(5))
    for lease in (again, *of_mission[1:]):
        harness.send("w", harness.ended(lease, "returned"))
    harness.send("w", Leaving("SIGTERM"))

    gone = WorkerEnded("w", handed_back=2, told="SIGTERM")
    assert [gone] == harness.sent(mission, WorkerEnded)
    assert [WorkerEnded("w", told="SIGTERM")] == harness.sent(other, WorkerEnded)


def test_a_worker_that_came_back_was_heard_since(harness: HubHarness) -> None:
    harness.worker("w")
    mission = harness.synced("m", 1)
    harness.lose("w", silent=50.0)
    harness.wait(30)
    harness.worker("w", link="again")
    harness.lose("again", silent=1.0)
    harness.wait(100)

    [ended] = harness.sent(mission, WorkerEnded)
    assert 61.0 == ended.silent


def test_a_mission_that_comes_back_learns_of_its_workers_anew(harness: HubHarness) -> None:
    harness.worker("w")
    mission = harness.synced("m", 1)
    harness.lose(mission)
    again = harness.mission(link="again", connection=2)
    harness.submit(again, 1, worker="w")
    assert ["w"] == [facts.worker for facts in harness.sent(again, WorkerFacts)]


def test_a_mission_that_comes_back_learns_once_where_a_task_runs_that_it_retracts(
    harness: HubHarness,
) -> None:
    """The message that the task had begun may have been lost with the connection."""
    harness.worker("w")
    mission = harness.synced("m", 1)
    harness.lose(mission)
    again = harness.mission(link="again", connection=2)

    harness.send(again, Retract((1,)), Retract((1,)), Synced())

    assert ["w"] == [facts.worker for facts in harness.sent(again, WorkerFacts)]
    assert [Started("w", (1,))] == harness.sent(again, Started)


def test_a_mission_learns_of_a_worker_whose_run_another_scheduler_has_begun(
    harness: HubHarness,
) -> None:
    old = HubHarness(epoch=0)
    old.worker("w")
    old.synced("m", 1)
    (lease,) = old.sent("w", Lease)
    mission = harness.mission()
    harness.submit(mission, 1, worker="w")
    harness.worker("w", held=(held(lease),))
    assert ["w"] == [facts.worker for facts in harness.sent(mission, WorkerFacts)]


def test_a_mission_learns_of_a_bounded_number_of_workers(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_WORKERS", 2)
    mission = harness.mission()
    for name in "abc":
        harness.worker(name, cores=1)
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2, 3)
    assert 2 == len(harness.sent(mission, WorkerFacts))


def test_two_workers_of_one_name_have_two_names_in_a_log(harness: HubHarness) -> None:
    mission = harness.mission()
    harness.worker("w", cores=1)
    again: dict[str, Any] = {"link": "other"}
    from grain.worker.messages import InventoryEnd, RegisterWorker

    harness.send(again["link"], RegisterWorker("other", "w", "host", {"Cores": 1}), InventoryEnd())
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    assert {"w", "w@2"} == {facts.name for facts in harness.sent(mission, WorkerFacts)}
