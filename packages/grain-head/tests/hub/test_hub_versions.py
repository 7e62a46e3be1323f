"""Peers with other versions of Python: where tasks run, and what missions and people learn."""

from __future__ import annotations

import pytest

from grain.edge.questions import PeerVersions, versions_of
from grain.edge.version import Versions
from grain.head.messages import Crash, OtherVersions, Unschedulable
from grain.worker.messages import Lease, RegisterWorker, WorkerRegistered
from grain_testkit.hub_harness import HubHarness

OLD = Versions("Python 3.11", "3.11.7", "1.0", "1.26.4")
NEW = Versions("Python 3.12", "3.12.1", "1.0", "2.1.0")


def by_value(harness: HubHarness, name: str = "m") -> str:
    """Register a mission whose functions travel by value; return its link."""
    return harness.synced(name, interpreter=OLD.interpreter, versions=OLD)


def test_a_task_by_value_starts_only_on_a_worker_with_the_mission_s_python(
    harness: HubHarness,
) -> None:
    harness.worker("new", versions=NEW)
    mission = by_value(harness)
    harness.submit(mission, 1)
    assert [] == harness.sent("new", Lease)

    harness.worker("old", versions=OLD)
    assert [1] == [lease.task for lease in harness.sent("old", Lease)]


def test_a_task_by_name_starts_on_a_worker_with_another_python(harness: HubHarness) -> None:
    harness.worker("new", versions=NEW)
    harness.synced("m", 1, versions=OLD)

    assert [1] == [lease.task for lease in harness.sent("new", Lease)]


def test_a_task_by_value_that_crashed_gets_a_worker_with_the_mission_s_python_to_itself(
    harness: HubHarness,
) -> None:
    crashes = tuple(Crash((1, n), "w", "SIGSEGV", 0.0) for n in (1, 2))
    harness.worker("new", versions=NEW)
    mission = by_value(harness)
    harness.submit(mission, 1, crashes=crashes)
    assert [] == harness.sent("new", Lease)

    harness.worker("old", versions=OLD)
    assert [True] == [lease.alone for lease in harness.sent("old", Lease)]


def test_a_notice_says_that_no_worker_has_the_mission_s_python(harness: HubHarness) -> None:
    harness.worker("new", versions=NEW)
    mission = by_value(harness)
    harness.submit(mission, 1)
    [message] = harness.sent(mission, Unschedulable)

    assert (
        "new: it has Python 3.12, and a function that travels by value needs Python 3.11"
        == message.why
    )
    assert (
        f"new: never, {message.why.removeprefix('new: ')}" in harness.hub.why("m", 1, 0.0).reasons
    )


@pytest.mark.parametrize("worker_first", [True, False], ids=["worker first", "mission first"])
def test_a_mission_learns_of_workers_of_other_versions_once(
    harness: HubHarness, worker_first: bool
) -> None:
    if worker_first:
        harness.worker("n1", versions=NEW)
    mission = by_value(harness)
    for worker in ("n1", "n2", "n3")[worker_first:]:
        harness.worker(worker, versions=NEW)

    assert [OtherVersions("n1", "host", NEW)] == harness.sent(mission, OtherVersions)


@pytest.mark.parametrize(
    "versions",
    [
        OLD,
        Versions("Python 3.11", "3.11.2", "1.1", "1.24.0"),
        Versions("Python 3.11", "3.11.2", "1.1"),
        Versions(),
    ],
    ids=["the same", "another patch", "without NumPy", "unknown"],
)
def test_a_mission_gets_no_report_of_versions_that_do_not_matter(
    harness: HubHarness, versions: Versions
) -> None:
    mission = by_value(harness)
    harness.worker("w", versions=versions)

    assert [] == harness.sent(mission, OtherVersions)


def test_a_mission_learns_of_another_major_version_of_numpy(harness: HubHarness) -> None:
    mission = by_value(harness)
    other = Versions("Python 3.11", "3.11.7", "1.0", "2.0.1")
    harness.worker("w", versions=other)

    assert [OtherVersions("w", "host", other)] == harness.sent(mission, OtherVersions)


def test_each_peer_s_versions_are_in_the_snapshot_and_the_head_s_in_its_answer() -> None:
    harness = HubHarness(versions=NEW)
    harness.worker("w", versions=NEW)
    mission = by_value(harness)
    harness.submit(mission, 1)
    state = harness.hub.snapshot(0.0)

    assert PeerVersions("Python 3.12", "3.12.1", "1.0", "2.1.0") == state.versions
    assert state.versions == versions_of(state.workers[0])
    assert "3.11.7" == versions_of(state.missions[0]).python
    assert "Python 3.11" == state.queues[0].interpreter
    assert [WorkerRegistered(1, NEW)] == harness.sent("w", WorkerRegistered)


def test_a_worker_without_a_statement_gets_no_task_by_value(harness: HubHarness) -> None:
    harness.send("w", RegisterWorker("w", "w", "host", {"Cores": 2}))
    mission = by_value(harness)
    harness.submit(mission, 1)

    assert [] == harness.sent("w", Lease)
