"""Two processes with one id: the connection that is not in use is closed, and neither hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from grain.head.messages import (
    Depart,
    RegisterMission,
    Request,
    Started,
    Synced,
)
from grain.remote_exer.session import MissionSession
from grain.resource import Cores
from grain.worker.agent.session import WorkerSession
from grain.worker.messages import (
    DefineFunction,
    Disconnect,
    InventoryEnd,
    Lease,
    Leaving,
    RegisterWorker,
    Revoke,
)
from grain_testkit.hub_harness import held
from grain_testkit.submitted_tasks import remote_task

if TYPE_CHECKING:
    from grain_testkit.hub_harness import HubHarness


@pytest.mark.parametrize(("second", "closed"), [(2, "first"), (1, "second")])
@pytest.mark.parametrize("kind", ["mission", "worker"])
def test_of_two_connections_of_one_id_the_one_that_is_not_in_use_is_closed(
    harness: HubHarness, kind: str, second: int, closed: str
) -> None:
    for link, connection in (("first", 1), ("second", second)):
        if kind == "mission":
            harness.send(link, RegisterMission("id", "name", connection=connection), Synced())
        else:
            register = RegisterWorker("id", "name", "host", {"Cores": 1}, connection=connection)
            harness.send(link, register, InventoryEnd())
    other = "second" if closed == "first" else "first"
    [disconnected] = harness.sent(closed, Disconnect)
    assert "replaced" == disconnected.because
    assert [] == harness.sent(other, Disconnect)
    links = harness.hub.missions.links if kind == "mission" else harness.hub.workers.links
    assert [other] == [*links]


def test_a_worker_whose_id_was_taken_comes_back_with_its_runs_under_another(
    harness: HubHarness,
) -> None:
    """Its runs go on, and those that the other process was given instead are revoked."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.submit(mission, 1)
    [lease] = harness.sent(worker, Lease)

    register = RegisterWorker("w", "w", "host", {"Cores": 0}, connection=9)
    harness.send("impostor", register, InventoryEnd())
    assert 1 == len(harness.sent(worker, Disconnect))
    harness.lose(worker)
    harness.worker("w-again", held=(held(lease),), link="again")
    assert 1 == len(harness.sent("impostor", Revoke))
    assert [] == harness.sent("again", Lease)
    assert [] == harness.sent("again", Revoke)


def test_a_mission_whose_id_was_taken_submits_all_again_under_another() -> None:
    session = MissionSession("m", "name")
    session.on_connected()
    request = session.request({"Cores": 1})
    tasks = [session.submit(remote_task(request)) for _ in range(2)]
    session.on_message(Started("w", tuple(tasks[:1])), None)
    session.on_message(Disconnect("taken", "replaced"), None)
    assert session.registration.disconnect is not None
    session.on_disconnected()
    session.rename("other")
    assert {} == session.running
    session.on_connected()
    [(register, _), *_] = session.take_mail()
    assert isinstance(register, RegisterMission)
    assert ("other", 2) == (register.mission, register.connection)
    assert tasks == [*session.pending]


def test_a_worker_registers_under_its_new_id() -> None:
    session = WorkerSession("w", "name", "host", Cores(1), 0.0)
    session.on_connected(0.0)
    session.take_mail()
    session.on_disconnected()
    session.rename("other")
    session.on_connected(0.0)
    [(register, _), *_] = session.take_mail()
    assert isinstance(register, RegisterWorker)
    assert "other" == register.worker


def test_a_connection_of_a_worker_that_comes_late_does_not_bring_it_back(
    harness: HubHarness,
) -> None:
    """The worker has left meanwhile on a later one; one that comes back has a later one still."""
    register = RegisterWorker("w", "w", "host", {"Cores": 2}, connection=5)
    harness.send("fifth", register, InventoryEnd(), Leaving())
    harness.send("fourth", structs.replace(register, connection=4), InventoryEnd())
    [disconnected] = harness.sent("fourth", Disconnect)
    assert "replaced" == disconnected.because
    assert {} == harness.hub.registry.workers

    harness.send("sixth", structs.replace(register, connection=6), InventoryEnd())
    assert ["w"] == list(harness.hub.registry.workers)


def test_a_connection_of_a_mission_that_comes_late_does_not_bring_it_back(
    harness: HubHarness,
) -> None:
    """The mission has left meanwhile on a later one; its tasks would run unwanted."""
    register = RegisterMission("m", "m", connection=5)
    worker = harness.worker("w")
    harness.send("fifth", register, Synced(), Depart())
    request = Request(0, {"Cores": 1})
    late = structs.replace(register, connection=4)
    harness.send("fourth", late, request, DefineFunction(b"function"))
    harness.submit("fourth", 1)
    [disconnected] = harness.sent("fourth", Disconnect)
    assert "replaced" == disconnected.because
    assert [] == harness.sent(worker, Lease)
    assert {} == harness.hub.registry.missions

    harness.send("sixth", structs.replace(register, connection=6), Synced())
    assert ["m"] == list(harness.hub.registry.missions)
