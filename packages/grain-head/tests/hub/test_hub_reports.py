"""Missions learn of the workers that run their tasks; the log of a scheduler has all of them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.eventlog import schema
from grain.eventlog.usage import RunReport, encode_report
from grain.head.hub import reports
from grain.head.hub.log import HubLog
from grain.head.messages import Depart, Retract, Started, Synced, WorkerEnded, WorkerFacts
from grain.head.task_log import HELD
from grain.worker.messages import ArrivedCount, Draining, Lease, Leaving
from grain_testkit.hub_harness import HubHarness, held
from grain_testkit.kept_lines import KeptLines


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
    mission = harness.mission()
    harness.worker("w")
    harness.send(mission, Synced())
    harness.submit(mission, 1)
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
    mission = harness.mission()
    harness.worker("w")
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.lose("w", silent=50.0)
    harness.wait(30)
    harness.worker("w", link="again")
    harness.lose("again", silent=1.0)
    harness.wait(100)

    [ended] = harness.sent(mission, WorkerEnded)
    assert 61.0 == ended.silent


def test_a_mission_that_comes_back_learns_of_its_workers_anew(harness: HubHarness) -> None:
    mission = harness.mission()
    harness.worker("w")
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.lose(mission)
    again = harness.mission(link="again", connection=2)
    harness.submit(again, 1, worker="w")
    assert ["w"] == [facts.worker for facts in harness.sent(again, WorkerFacts)]


def test_a_mission_learns_of_a_worker_whose_run_another_scheduler_has_begun(
    harness: HubHarness,
) -> None:
    old = HubHarness(epoch=0)
    old.worker("w")
    old_mission = old.mission()
    old.send(old_mission, Synced())
    old.submit(old_mission, 1)
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


def test_the_log_of_a_scheduler_has_missions_workers_and_runs() -> None:
    recorder = KeptLines()
    log = HubLog(lambda: recorder, lambda: own.now)
    own = HubHarness(wall=1000.0, log=log)
    mission = own.mission("m", cores=2)
    own.worker("w", job="j8")
    own.send(mission, Synced())
    own.submit(mission, 1, 2, 3)
    own.now += HELD
    recorder.flush()
    report = encode_report(RunReport(started=5.0, ended=6.0, host="host", cpus=(1, 2)))
    (lease,) = own.sent("w", Lease)
    own.send("w", own.ended(lease, report=report), payload=b"")
    (lease,) = own.sent("w", Lease)
    own.now += 1
    own.send("w", own.ended(lease, "crashed", detail="signal 9"))
    own.now += 1
    own.send(mission, Retract((3,)))
    own.lose("w")
    own.wait(100)
    own.send(mission, Depart())

    log.close()
    assert [
        "mission joined", "worker joined", "submitted", "submitted", "submitted", "started",
        "run ended", "started", "run ended", "started", "run ended", "worker left", "run ended",
        "mission left",
    ] == [line.__struct_config__.tag for line in recorder.lines]  # fmt: skip
    submitted = next(x for x in recorder.lines if isinstance(x, schema.TaskSubmitted))
    assert ("m", {"Cores": 2}, "Cores(2)") == (
        submitted.mission, submitted.request, submitted.request_text
    )  # fmt: skip
    first, crash, cancelled, lost = (x for x in recorder.lines if isinstance(x, schema.RunEnded))
    assert ("m", 1, "value", True, 5.0, 6.0, (1, 2)) == (
        first.mission, first.task, first.outcome, first.final, first.started, first.ended,
        first.cpus,
    )  # fmt: skip
    assert (2, "crashed", False, "signal 9", "w") == (
        crash.task, crash.outcome, crash.final, crash.message, crash.worker
    )  # fmt: skip
    assert (3, "cancelled", True, None) == (
        cancelled.task, cancelled.outcome, cancelled.final, cancelled.started
    )  # fmt: skip
    assert (2, "returned", False, 2) == (lost.task, lost.outcome, lost.final, lost.attempt)


def test_in_the_log_of_a_scheduler_a_lost_worker_and_its_run_end_when_it_was_last_heard() -> None:
    recorder = KeptLines(offset=1000.0)
    log = HubLog(lambda: recorder, lambda: own.now)
    own = HubHarness(wall=1000.0, log=log)
    own.now += 1
    mission = own.mission()
    own.worker("w", cores=1)
    own.worker("v", cores=1)
    own.send(mission, Synced())
    own.submit(mission, 1, 2)
    own.send("w", ArrivedCount(1))
    own.now += 50
    own.lose("w", silent=9.0)
    own.wait(60)
    own.send("v", Leaving())
    log.close()

    heard = own.now + 1000.0 - 69.0
    lost, left = (line for line in recorder.lines if isinstance(line, schema.WorkerLeft))
    assert [("w", heard), ("v", None)] == [(one.worker, one.heard) for one in (lost, left)]
    assert 69.0 == lost.time - heard
    run = next(line for line in recorder.lines if isinstance(line, schema.RunEnded))
    assert ("w", "lost", heard) == (run.worker, run.outcome, run.ended)


def test_in_the_log_of_a_scheduler_a_task_that_waited_on_a_lost_worker_has_no_start() -> None:
    recorder = KeptLines(offset=1000.0)
    log = HubLog(lambda: recorder, lambda: own.now)
    own = HubHarness(wall=1000.0, log=log, prefetch_seconds=2.0)
    own.now += 1
    mission = own.mission()
    own.worker("w", cores=1)
    own.send(mission, Synced())
    own.submit(mission, 1, 2)
    own.send("w", ArrivedCount(2))
    own.lose("w")
    own.wait(60)
    log.close()

    ends = [line for line in recorder.lines if isinstance(line, schema.RunEnded)]
    assert {(1, "lost", 1001.0), (2, "returned", None)} == {
        (line.task, line.outcome, line.started) for line in ends
    }


def test_a_failure_in_the_log_of_a_scheduler_has_its_class_and_its_text() -> None:
    recorder = KeptLines()
    log = HubLog(lambda: recorder, lambda: own.now)
    own = HubHarness(log=log)
    mission = own.mission()
    own.worker("w")
    own.send(mission, Synced())
    own.submit(mission, 1)
    (lease,) = own.sent("w", Lease)
    detail = "ExternalError: xtb a.xyz: exit status 1"
    own.send("w", own.ended(lease, "error", detail=detail), payload=b"")
    log.close()
    [end] = (x for x in recorder.lines if isinstance(x, schema.RunEnded))
    assert ("error", "ExternalError", "xtb a.xyz: exit status 1") == (
        end.outcome, end.error, end.message
    )  # fmt: skip


def test_a_task_that_is_given_up_ends_in_the_log_of_a_scheduler() -> None:
    recorder = KeptLines()
    log = HubLog(lambda: recorder, lambda: own.now)
    own = HubHarness(log=log)
    mission = own.mission()
    own.worker("w")
    own.send(mission, Synced())
    own.submit(mission, 1)
    for _ in range(5):
        (lease,) = own.sent("w", Lease)
        own.send("w", own.ended(lease, "crashed", detail="signal 9"))
    log.close()
    ends = [x for x in recorder.lines if isinstance(x, schema.RunEnded)]
    assert [False] * 5 + [True] == [end.final for end in ends]
    assert ("crashed", "its process died 5 times") == (ends[-1].outcome, ends[-1].message)
