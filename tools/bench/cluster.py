"""The cost of a leaf through a scheduler elsewhere: Gnaw, an agent and its runner as processes."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import dial
from grain.edge.framing.frames import FrameDecoder, FrameEncoder
from grain.edge.questions import StateAnswer, unpack
from grain.head import messages as mission
from grain.head.hub.hub import Hub
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import HostingExecutor, RemoteExecutor
from grain.resource import ZERO, Cores
from grain.worker import messages as worker
from tools.bench import say
from tools.bench._chain import floor

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAVES = 20_000
QUEUED = 100_000
SMALL = 2000
CROWDED = 10_000


async def nothing() -> None:
    """Do nothing."""


async def echo(data: bytes) -> bytes:
    """Return the argument."""
    return data


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Grain until the end of the block."""
    process = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def grain_worker(address: str, cores: int) -> Any:
    """Run a worker process until the end of the block."""
    return running("grain.worker", "--url", address, "--res", f'{{"Cores": {cores}}}')


async def present(address: str, workers: int) -> None:
    """Wait until workers have joined."""
    async with dial(address, role="cli", codec=CODEC, patience=30) as peer:
        while True:
            await peer.channel.send([(Ask("state"), None)])
            state = unpack((await peer.channel.receive())[0][1], StateAnswer)
            if len(state.workers) >= workers:
                return
            await trio.sleep(0.05)


async def leaves(executor: RemoteExecutor, count: int) -> float:
    """Return the microseconds a leaf, from the first submission to the last result."""
    one = Cores(1)
    began = time.perf_counter()
    for _ in range(count):
        executor.submit(one, nothing)
    await executor.join()
    return (time.perf_counter() - began) / count * 1e6


async def serial(executor: RemoteExecutor, count: int = SMALL) -> float:
    """Return the median microseconds from the submission of a leaf to its result."""
    one = Cores(1)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        executor.submit(one, nothing)
        await executor.join()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


async def through_gnaw(address: str) -> tuple[float, float]:
    """Measure a leaf of many, and a single leaf."""
    async with RemoteExecutor(address) as executor:
        await leaves(executor, 1000)
        many = statistics.median([await leaves(executor, LEAVES) for _ in range(3)])
        return many, await serial(executor)


async def hosted(address: str) -> float:
    """Measure a single leaf, from an executor that has the scheduler within."""
    async with HostingExecutor(ZERO, address=address) as executor:
        with grain_worker(address, 2):
            await present(address, 1)
            await leaves(executor, 1000)
            return await serial(executor)


async def large(address: str) -> float:
    """Measure the MB/s of an argument and a result of 100 MB."""
    data = os.urandom(1 << 20) * 100
    async with RemoteExecutor(address) as executor:
        executor.submit(Cores(1), echo, b"")
        await executor.results.receive()
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            executor.submit(Cores(1), echo, data)
            await executor.results.receive()
            seconds.append(time.perf_counter() - began)
        return 2 * len(data) / 1e6 / statistics.median(seconds)


def peak(process: subprocess.Popen[bytes]) -> float:
    """Return the peak memory of a process so far, in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1000


async def crowded(address: str) -> float:
    """Measure a leaf of many, over the workers of `_crowd`."""
    async with RemoteExecutor(address) as executor:
        await leaves(executor, 1000)
        return statistics.median([await leaves(executor, CROWDED) for _ in range(3)])


def resident() -> int:
    """Return the bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def many_workers(count: int, tasks: int) -> float:
    """Return the microseconds of the decisions about a task, with so many workers; no I/O."""
    hub = Hub(1, 0.0)
    for number in range(count):
        name = f"w{number}"
        hub.on_message(name, worker.RegisterWorker(name, name, "", {"Cores": 2}), None, 0.0)
        hub.on_message(name, worker.InventoryEnd(), None, 0.0)
    hub.on_message("m", mission.RegisterMission("m", "m"), None, 0.0)
    hub.on_message("m", mission.Request(0, {"Cores": 1}), None, 0.0)
    hub.on_message("m", worker.DefineFunction(b"f"), b"", 0.0)
    hub.on_message("m", mission.Synced(), None, 0.0)
    began = time.perf_counter()
    for task in range(tasks):
        hub.on_message("m", mission.Submit(task + 1, 0, b"f"), b"", 0.0)
    hub.dispatch(0.0)
    left = tasks
    while left:
        for link, mail in hub.take().items():
            done = [m for m, _ in mail if isinstance(m, worker.Lease)]
            for lease in done:
                settled = worker.RunEnded(lease.mission, lease.task, lease.attempt, "value")
                hub.on_message(link, settled, b"", 0.0)
            hub.dispatch(0.0)
            received = tuple(m.task for m, _ in mail if isinstance(m, mission.Resolved))
            if received:
                hub.on_message("m", mission.AckTasks(received), None, 0.0)
                left -= len(received)
    return (time.perf_counter() - began) / tasks * 1e6


def queued() -> float:
    """Return the bytes of a task that waits in Gnaw, and has come over a wire."""
    hub, digest = Hub(1, 0.0), bytes(16)
    hub.on_message("m", mission.RegisterMission("m", "m"), None, 0.0)
    hub.on_message("m", mission.Request(0, {"Cores": 1}), None, 0.0)
    hub.on_message("m", worker.DefineFunction(digest), b"", 0.0)
    encoder, decoder = FrameEncoder(CODEC, 1 << 20), FrameDecoder(CODEC)
    gc.collect()
    before = resident()
    for task in range(QUEUED):
        encoder.put([(mission.Submit(task + 1, 0, digest), bytes(48))])
        for data in encoder.take():
            for message, payload in decoder.feed(data):
                hub.on_message("m", message, payload, 0.0)
    return (resident() - before) / QUEUED


def main() -> None:
    """Print what is measured."""
    say("cluster.queued_task_in_gnaw", queued(), "bytes", 1000)
    say("cluster.decisions.50_workers", many_workers(50, LEAVES), "us")
    with tempfile.TemporaryDirectory() as folder:
        for cores in (64, 2):
            address = f"edge://{folder}/meeting{cores}"
            with (
                running("grain.head", "--address", address) as gnaw,
                grain_worker(address, cores),
            ):
                trio.run(present, address, 1)
                many, alone = trio.run(through_gnaw, address)
                say(f"cluster.no_op_leaf.one_worker.{cores}_cores", many, "us", 60)
                say("cluster.serial_round_trip.gnaw", alone, "us", 400)
                if cores == 2:
                    before = peak(gnaw)
                    speed = trio.run(large, address)
                    say("cluster.large_argument_and_result", speed, "MB/s", 500)
                    # The argument is kept until there is the result.
                    say("cluster.large_memory_of_gnaw", peak(gnaw) - before, "MB", 210)
        address = f"edge://{folder}/crowd"
        with (
            running("grain.head", "--address", address),
            running("tools.bench._crowd", address, "50", "2"),
        ):
            trio.run(present, address, 50)
            say("cluster.no_op_leaf.50_workers", trio.run(crowded, address), "us", 100)
        say("cluster.serial_round_trip.hosted", trio.run(hosted, f"edge://{folder}/h"), "us", 250)
    # What the same number of processes take to pass on 200 bytes and nothing else.
    say("cluster.serial_round_trip.floor.gnaw", floor(3), "us")
    say("cluster.serial_round_trip.floor.hosted", floor(2), "us")


if __name__ == "__main__":
    main()
