"""What a mission learns of the troubles of its scheduler: frozen processes, full disks, purges."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio

from grain.edge import DirectWaySeeker, dial, head_here, is_reached_directly
from grain.head.events import SchedulerAway, SchedulerBack, SchedulerTrouble
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, RemoteExecutor, connector
from grain.resource import Cores
from grain.worker import Call
from grain.worker.agent.agent import Agent
from grain.worker.agent.lifecycle import Lifecycle, Times
from grain.worker.agent.session import WorkerSession
from grain_testkit.local_processes import stop
from grain_testkit.programs import start
from grain_testkit.small_disk import fill, small_disk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

    from grain.edge import Peer
    from grain.head.events import Event
    from grain_testkit.programs import Process

E = TypeVar("E", bound="Event")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem needs root")


async def double(x: int) -> int:
    return 2 * x


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(300):  # against a hang
        while not condition():
            await trio.sleep(0.02)


@pytest.fixture
def address(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """By an meeting file, or as the test says by `AT_EACH_PLACE`."""
    (tmp_path / "edge").mkdir(mode=0o700)
    return f"{getattr(request, 'param', 'edge')}://{tmp_path}/edge/meeting"


AT_EACH_PLACE = pytest.mark.parametrize("address", ["edge", "unix"], indirect=True)


@pytest.fixture
def small() -> Iterator[Path]:
    """A filesystem of 3 MiB."""
    with small_disk("3m") as folder:
        yield folder


def remount(directory: Path, how: str) -> None:
    """Remount a filesystem; while the scheduler writes a file there, it is busy."""
    words = ["mount", "-o", f"remount,{how}", str(directory)]
    end = time.monotonic() + 60
    while subprocess.run(words, check=time.monotonic() > end).returncode:
        time.sleep(0.02)


def purge(directory: Path) -> None:
    """Remove a directory in which others make and remove files meanwhile."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running(*words: str) -> Iterator[Process]:
    process = start("-m", *words, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def gnaw(address: str, *more: str) -> Any:
    return running("grain.head", "--address", address, "--grace", "20", *more)


def worker(address: str) -> Any:
    return running("grain.worker", "--url", address, "--res", '{"Cores": 2}', "--name", "w")


class Mission(RemoteExecutor):
    """A mission that keeps its events."""

    def __init__(self, address: str, **options: object) -> None:
        self.events: list[Event] = []
        finder = GnawConnector(address, **options)  # type: ignore[arg-type]
        super().__init__(
            address,
            connect=finder.connect,
            until_direct=finder.until_direct,
            on_event=self.events.append,
        )

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def double(self, x: int) -> int:
        got: list[Any] = []
        self.submit_call(Cores(1), Call(double, (x,), {}), got.append)
        await until(lambda: got)
        return int(got[0].unwrap())


async def serve_by_files(address: str, path: Path | None = None) -> None:
    """Be a worker that finds no other way than files; or not before a path is there.

    It tries to go over to a direct way twice a second.
    """
    name, files = "by-files", frozenset({"files"})

    def connect() -> Any:
        direct = path is not None and path.exists()
        ways = frozenset({"unix"}) if direct else files
        return dial(address, role="worker", name=name, codec=CODEC, transports=ways)

    async def find_direct() -> bool:
        return path is not None and path.exists() and await is_reached_directly(address)

    session = WorkerSession("id-" + name, name, "host", Cores(2), trio.current_time())
    lifecycle = Lifecycle(Times(1.0), math.inf, trio.current_time())
    direct = DirectWaySeeker(find_direct, first=0.1)
    await Agent(session, lifecycle, connect, direct=direct).run()


async def head_pid(address: str) -> int:
    while (here := await head_here(address)) is None:
        await trio.sleep(0.02)
    return here[1].pid


def stopped(mission: Mission) -> list[SchedulerAway]:
    """Return the events of a stopped scheduler: one that got no processor has others."""
    return [one for one in mission.seen(SchedulerAway) if " is stopped" in one.why]


async def test_a_frozen_scheduler_is_named_at_once_and_its_return_too(address: str) -> None:
    """With host and pid, and the command that lets it go on; nothing is lost."""
    with gnaw(address) as head, worker(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission:
            assert 4 == await mission.double(2)
            stop(head.pid)
            await until(lambda: stopped(mission))
            head.send_signal(signal.SIGCONT)
            await until(lambda: mission.seen(SchedulerBack))
            assert 6 == await mission.double(3)

    [away] = stopped(mission)
    host = socket.gethostname()
    assert f"the scheduler (process {head.pid} on {host}) is stopped" in away.why
    assert f"`kill -CONT {head.pid}` there lets it go on" in away.why


HUNG = """
import sys, time
from functools import partial
import trio
from grain.edge import serve

async def handle(peer):
    pass

async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, handle, sys.argv[1]))
        print("hangs", flush=True)
        time.sleep(1000)

trio.run(main)
"""


async def test_a_scheduler_that_is_there_and_does_not_answer_is_named(
    address: str, tmp_path: Path
) -> None:
    """It is not stopped, and its event loop does not run.

    It hangs before the mission comes: who is connected has reason to doubt it half a minute later.
    """
    program = tmp_path / "hung.py"
    program.write_text(HUNG)
    process = start(program, address, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert b"hangs\n" == await trio.to_thread.run_sync(process.stdout.readline)
        pid = await head_pid(address)
        mission = Mission(address, start=False)
        with trio.CancelScope() as scope:
            async with mission:
                mission.submit(Cores(1), double, 1)
                await until(lambda: mission.seen(SchedulerAway))
                scope.cancel()
    finally:
        process.kill()
        process.communicate()

    [away] = mission.seen(SchedulerAway)
    assert f"the scheduler (process {pid} on {socket.gethostname()}) is there and has" in away.why
    assert f"`kill -KILL {pid}` ends it" in away.why


@AT_EACH_PLACE
async def test_a_frozen_scheduler_is_superseded_and_leaves_when_it_goes_on(address: str) -> None:
    """By one that a mission starts; the frozen one, once continued, does no harm and ends."""
    with gnaw(address) as head:
        first = await head_pid(address)
        stop(head.pid)
        async with Mission(address, frozen=3.0) as mission:
            mission.submit(Cores(1), double, 1)
            await until(lambda: mission.seen(SchedulerBack))
            second = await head_pid(address)
            head.send_signal(signal.SIGCONT)
            await until(lambda: head.poll() is not None)
            with worker(address):
                assert 4 == await mission.double(2)
                assert second == await head_pid(address)
        os.kill(second, signal.SIGTERM)

    assert first != second
    assert 0 == head.returncode
    [away] = mission.seen(SchedulerAway)
    assert f"process {first} on " in away.why
    assert "Another one takes its place after 3 s" in away.why
    assert 1 == len(mission.seen(SchedulerBack))


@AS_ROOT
@pytest.mark.parametrize("how", ["full", "read-only"])
async def test_a_disk_that_takes_nothing_is_named_while_it_lasts(small: Path, how: str) -> None:
    """It is the one below the meeting file, and the mission is connected all the same."""
    address = f"edge://{small}/meeting"
    with gnaw(address) as head, worker(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission:
            assert 4 == await mission.double(2)
            filler = small / "filler"
            if how == "full":
                fill(small)
            else:
                remount(small, "ro")
            await until(lambda: mission.seen(SchedulerTrouble))
            assert 6 == await mission.double(3)
            if how == "full":
                filler.unlink()
            else:
                remount(small, "rw")
            await until(lambda: len(mission.seen(SchedulerTrouble)) == 2)

    [named, over] = mission.seen(SchedulerTrouble)
    words = {"full": "No space left on device", "read-only": "Read-only file system"}[how]
    host = socket.gethostname()
    assert f"the scheduler, process {head.pid} on {host}, cannot store anything: " in named.why
    assert f"{small}/meeting.d: {words}" in named.why
    assert (f"{small}/meeting.d", "") == (over.what, over.why)


@AS_ROOT
async def test_a_full_disk_below_the_log_is_named_while_it_lasts(address: str, small: Path) -> None:
    with gnaw(address, "--log-file", f"{small}/gnaw.log"), worker(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission:
            mission.submit(Cores(1), double, 1)
            filler = fill(small)
            await until(lambda: mission.seen(SchedulerTrouble))
            filler.unlink()
            await until(lambda: len(mission.seen(SchedulerTrouble)) == 2)

    [named, over] = mission.seen(SchedulerTrouble)
    assert f"cannot store anything: {small}: No space left on device" in named.why
    assert (str(small), "") == (over.what, over.why)


@AS_ROOT
async def test_a_full_disk_is_named_when_no_scheduler_can_be_started(small: Path) -> None:
    """And one is started when there is room."""
    filler = fill(small)
    address = f"edge://{small}/meeting"
    with worker(address):
        async with Mission(address) as mission:
            mission.submit(Cores(1), double, 1)
            await until(lambda: mission.seen(SchedulerAway))
            filler.unlink()
            await mission.join()
            os.kill(await head_pid(address), signal.SIGTERM)

    [away] = mission.seen(SchedulerAway)
    assert "No space left on device. Make room" in away.why


async def test_what_a_purge_removes_is_made_again(address: str) -> None:
    """The meeting file and its directory: who comes later joins, also one that has only files."""
    edge = Path(address[7:])
    with gnaw(address), worker(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission:
            assert 4 == await mission.double(2)
            purge(edge.parent)
            await until((edge.parent / "meeting").exists)
            assert 6 == await mission.double(3)
            files = frozenset({"files"})
            async with dial(address, role="cli", codec=CODEC, patience=60, transports=files) as by:
                await by.channel.send([(Ask("state"), None)])
                answers = await by.channel.receive()
                assert 1 == len(answers)

    assert [] == mission.seen(SchedulerAway)


async def test_workers_over_files_outlive_a_purge(address: str) -> None:
    """Their logs are gone: they come again, and nothing is lost."""
    edge = Path(address[7:])
    with gnaw(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission, trio.open_nursery() as nursery:
            nursery.start_soon(serve_by_files, address)
            assert 4 == await mission.double(2)
            purge(Path(f"{edge}.d"))
            assert 6 == await mission.double(3)
            nursery.cancel_scope.cancel()


async def slow_double(x: int, go: str) -> int:
    """Return the double after a while; of the second half, not before there is a sign."""
    await trio.sleep(0.2)
    while x >= 30 and not os.path.exists(go):  # noqa: PTH110
        await trio.sleep(0.02)
    return 2 * x


async def test_a_worker_over_files_goes_back_to_a_direct_way(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Amid its runs; each result arrives, once."""
    caplog.set_level("INFO", "grain.worker")
    path, go = tmp_path / "direct", tmp_path / "go"
    got: list[Any] = []

    def ways() -> list[str]:
        return [line.rpartition(" ")[2] for line in caplog.messages if "connected to" in line]

    with gnaw(address):
        await head_pid(address)
        async with Mission(address, start=False) as mission, trio.open_nursery() as nursery:
            nursery.start_soon(serve_by_files, address, path)
            for x in range(60):
                mission.submit_call(Cores(1), Call(slow_double, (x, str(go)), {}), got.append)
            await until(lambda: len(got) > 5)
            path.touch()
            await until(lambda: len(ways()) == 2)
            go.touch()
            await until(lambda: len(got) == 60)
            nursery.cancel_scope.cancel()

    assert [2 * x for x in range(60)] == sorted(one.unwrap() for one in got)
    assert ["(files)", "(unix)"] == ways()


async def test_a_mission_over_files_goes_back_to_a_direct_way(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amid its tasks; each result arrives, once, and no alarm is raised."""
    path, go = tmp_path / "direct", tmp_path / "go"
    ways: list[str] = []
    got: list[Any] = []

    @asynccontextmanager
    async def dial_so_far(address: str, **options: Any) -> AsyncIterator[Peer]:
        ways_now = frozenset({"unix" if path.exists() else "files"})
        async with dial(address, transports=ways_now, **options) as peer:
            ways.append(peer.transport)
            yield peer

    async def is_reached(address: str) -> bool:
        return path.exists() and await is_reached_directly(address)

    monkeypatch.setattr(connector, "dial", dial_so_far)
    monkeypatch.setattr(connector, "is_reached_directly", is_reached)
    with gnaw(address), worker(address):
        await head_pid(address)
        async with Mission(address, start=False, seek=0.1) as mission:
            for x in range(60):
                mission.submit_call(Cores(1), Call(slow_double, (x, str(go)), {}), got.append)
            await until(lambda: len(got) > 5)
            path.touch()
            await until(lambda: len(ways) == 2)
            go.touch()
            await until(lambda: len(got) == 60)

    assert [2 * x for x in range(60)] == sorted(one.unwrap() for one in got)
    assert ["files", "unix"] == ways
    assert [] == mission.seen(SchedulerAway)
