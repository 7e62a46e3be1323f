"""The service of a hub: missions whose processes end, and those that only stand still."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
import trio

from grain.edge import PeerProcess, serve
from grain.edge.channel import MemoryChannel, MemoryDirection, memory_channels
from grain.edge.errors import ChannelBroken
from grain.edge.messages import Hello, Payload
from grain.files.batch_jobs import WorkerJob
from grain.files.processes import start_time
from grain.head.hub.hub import MAX_SILENCE
from grain.head.messages import RegisterMission, Synced
from grain.head.service import CODEC, HubService
from grain.worker.messages import InventoryEnd, RegisterWorker
from grain_testkit.local_processes import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trio.testing import MockClock

    from grain.edge.channel import WireBatch, WireChannel

MISSION = """
import sys, trio
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores

async def nothing():
    pass

async def main():
    connect = GnawConnector(sys.argv[1], start=False).connect
    async with RemoteExecutor(connect=connect) as executor:
        executor.submit(Cores(1), nothing)

trio.run(main)
"""


def start_process(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words)


async def until(holds: Callable[[], object]) -> None:
    with trio.fail_after(120):
        while not holds():
            await trio.sleep(0.02)


@pytest.fixture
def address(tmp_path: Path) -> str:
    folder = tmp_path / "edge"
    folder.mkdir(mode=0o700)
    return f"edge://{folder}/meeting"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
async def test_a_mission_that_was_killed_on_this_host_is_not_waited_for(
    address: str, transport: str
) -> None:
    """Its grace period is an hour here."""
    service = HubService(grace=3600.0)
    async with trio.open_nursery() as nursery:
        start = partial(serve, service.handle, address, codec=CODEC, patience=service.patience)
        await nursery.start(partial(start, transports=frozenset({transport})))
        nursery.start_soon(service.run)
        mission = start_process(sys.executable, "-c", MISSION, address)
        try:
            await until(lambda: service.hub.registry.missions)
            stop(mission.pid)
        finally:
            mission.kill()
        await until(lambda: service.hub.idle)
        mission.wait()
        nursery.cancel_scope.cancel()


async def test_a_mission_that_lost_its_connection_and_lives_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    """Its process is looked at for a few seconds, and no longer."""
    sleeping = start_process("sleep", "1000")
    process = PeerProcess(sleeping.pid, start_time(sleeping.pid) or 0)
    service = HubService(grace=100.0)
    ours: WireChannel
    theirs: WireChannel
    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        nursery.start_soon(partial(service.serve, theirs, "mission", "m", process=process))
        ours.post([(RegisterMission("m", "m"), None), (Synced(), None)])
        await trio.sleep(1)
        await ours.aclose()
        await trio.sleep(20)
        sleeping.kill()
        sleeping.wait()
        await trio.sleep(70)
        assert not service.hub.idle
        await trio.sleep(20)
        assert service.hub.idle
        nursery.cancel_scope.cancel()


async def test_a_worker_whose_process_has_ended_is_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    """Its guards have ten seconds to end what it ran, and then it starts elsewhere."""
    sleeping = start_process("sleep", "1000")
    process = PeerProcess(sleeping.pid, start_time(sleeping.pid) or 0)
    service = HubService(grace=100.0)
    ours: WireChannel
    theirs: WireChannel
    ours, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        nursery.start_soon(partial(service.serve, theirs, "worker", process=process))
        ours.post(
            [
                (RegisterWorker("w", "w", "n1", {"Cores": 1}, connection=1), None),
                (InventoryEnd(), None),
            ]
        )
        await trio.sleep(1)
        sleeping.kill()
        sleeping.wait()
        assert service.hub.registry.workers
        await ours.aclose()
        await trio.sleep(9)
        assert service.hub.registry.workers
        await trio.sleep(3)
        assert not service.hub.registry.workers
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("direct", "seconds"), [(True, 50), (False, 100)])
async def test_the_end_of_a_connection_through_a_server_says_nothing_of_the_worker(
    autojump_clock: MockClock, direct: bool, seconds: float
) -> None:
    """The server of a bridge may have been killed."""
    service = HubService(grace=100.0)

    class Closed:
        """A channel that is closed at the other end after a worker has registered."""

        congested = False

        def post(self, batch: WireBatch) -> None:
            pass

        def silent_for(self) -> float:
            return 0.0

        async def receive_into(self, handle: Callable[[WireBatch], object]) -> None:
            register = RegisterWorker("w", "w", "n1", {"Cores": 1}, connection=1)
            handle([(register, None), (InventoryEnd(), None)])
            raise ChannelBroken("the connection ended", ended=True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        with pytest.raises(ChannelBroken):
            await service.serve(cast("WireChannel", Closed()), "worker", direct=direct)
        await trio.sleep(seconds - 5)
        assert service.hub.registry.workers
        await trio.sleep(10)
        assert not service.hub.registry.workers
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("role", "seconds"), [("mission", MAX_SILENCE), ("worker", 0.0)])
async def test_only_missions_may_be_silent(role: str, seconds: float) -> None:
    """They run their users' code in the event loop that sends the heartbeat."""
    assert seconds == HubService().patience(Hello(1, "1", role, "n", "host", 1))


class Silent(MemoryChannel[Payload, Payload]):
    """A channel from which nothing has come for a while."""

    def silent_for(self) -> float:
        """See `Channel.silent_for`."""
        return 42.0


async def test_a_worker_whose_connection_breaks_was_last_heard_before_that(
    autojump_clock: MockClock,
) -> None:
    service = HubService(grace=100.0)
    mail: MemoryDirection[Payload] = MemoryDirection(0)
    back: MemoryDirection[Payload] = MemoryDirection(0)
    theirs, ours = Silent(mail, back), MemoryChannel(back, mail)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        nursery.start_soon(partial(service.serve, theirs, "worker", "w"))
        ours.post([(RegisterWorker("w", "n02", "n17", {"Cores": 1}), None), (InventoryEnd(), None)])
        await trio.sleep(200)
        await ours.aclose()
        await trio.sleep(150)
        [lost] = service.hub.registry.lost_workers
        nursery.cancel_scope.cancel()

    assert ("n02", "n17", 0) == (lost.name, lost.host, lost.lost_runs)
    assert 142.0 <= lost.at - lost.heard <= 144.0


async def test_a_worker_that_is_away_is_lost_as_soon_as_its_batch_system_says_that_its_job_is_over(
    autojump_clock: MockClock,
) -> None:
    asked: list[tuple[float, list[WorkerJob]]] = []

    async def ask(jobs: Sequence[WorkerJob]) -> list[str | None]:
        asked.append((trio.current_time(), [*jobs]))
        return [None if len(asked) < 2 else "OUT_OF_MEMORY"] * len(jobs)

    service = HubService(grace=1000.0, ask=ask)
    mail: MemoryDirection[Payload] = MemoryDirection(0)
    back: MemoryDirection[Payload] = MemoryDirection(0)
    theirs, ours = MemoryChannel(mail, back), MemoryChannel(back, mail)
    register = RegisterWorker("w", "n02", "n17", {"Cores": 1}, system="slurm", listed="7_1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        nursery.start_soon(partial(service.serve, theirs, "worker", "w"))
        ours.post([(register, None), (InventoryEnd(), None)])
        await trio.sleep(50)
        await ours.aclose()
        away = trio.current_time()
        while service.hub.registry.workers:
            await trio.sleep(0.5)
        nursery.cancel_scope.cancel()

    assert [[WorkerJob("slurm", "7_1", "n17")]] * 2 == [jobs for _, jobs in asked]
    first, second = (at - away for at, _ in asked)
    assert 3 <= first <= 5
    assert 10 <= second - first <= 12
