"""The relay of a bridge against direct TCP on one host, and the memory of its server.

The server, the head and the members are a process each; they run this file as a script. What is
compared takes turns, in one run.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge import Peer, Serving, make_key, serve
from grain_testkit.faulty_links import CODEC, Note
from tools.bench import say
from tools.bench.edge_channel import dialling, echo

if TYPE_CHECKING:
    from collections.abc import Iterator

MORE = 150.0
"""Microseconds that a round trip through the relay may take more than one by TCP."""

LEAST = 200.0
"""MB/s through the relay."""

COUNT = 1000
"""Idle members; each has two connections to the server: its own, and the head's."""

MOST = 60.0
"""MB of the server with as many."""

LARGE = 100_000_000
ROUNDS, TRIPS = 20, 200
_ROOT = Path(__file__).parents[2]


@contextmanager
def process(*words: str) -> Iterator[tuple[int, str]]:
    """Run another process until the end of the block; yield its id and its first line."""
    with subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        text=True,
    ) as other:
        assert other.stdout is not None
        try:
            line = other.stdout.readline()
            assert line, "the other process has ended"
            yield other.pid, line
        finally:
            other.kill()


@contextmanager
def bridge() -> Iterator[tuple[int, str]]:
    """Run a server, and a head that echoes; yield the server's process id and the address."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        key.touch(mode=0o600)
        key.write_text(make_key())
        words = ("-m", "grain.cli", "bridge", "serve", "--listen", "127.0.0.1:0")
        with process(*words) as (pid, line):
            match = re.search(r"port (\d+)", line)
            assert match is not None, line
            address = f"bridge://@{key}@127.0.0.1:{match[1]}"
            with process("-m", "tools.bench.edge_bridge", "head", address):
                yield pid, address


async def head(address: str) -> None:
    """Print when it is ready, and serve until it is killed."""
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(echo, address, codec=CODEC, task_status=task_status)

        await nursery.start(run)
        print("ready", flush=True)


async def members(address: str) -> None:
    """Hold many connections through the relay until killed."""
    limit = trio.CapacityLimiter(8)

    async def member(task_status: trio.TaskStatus[None]) -> None:
        entered = dialling(address, "relay")
        await limit.acquire()
        await entered.__aenter__()
        limit.release()
        task_status.started()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for _ in range(COUNT):
                starting.start_soon(nursery.start, member)
        print("all", flush=True)


async def round_trips(peer: Peer) -> list[float]:
    """Return the microseconds of some round trips, one after the other."""
    trips, batch = [], [(Note("x" * 180), None)]
    for _ in range(TRIPS):
        begin = time.perf_counter()
        await peer.channel.send(batch)
        await peer.channel.receive()
        trips.append((time.perf_counter() - begin) * 1e6)
    return trips


async def speed(peer: Peer, data: bytes) -> float:
    """Return the MB/s of one large payload."""
    begin = time.perf_counter()
    await peer.channel.send([(Note("x"), data)])
    await peer.channel.receive()
    return len(data) / (time.perf_counter() - begin) / 1e6


async def measure(address: str) -> None:
    """Print round trips and throughput by both ways."""
    for transport in ("tcp", "relay"):
        connects = []
        for _ in range(20):
            begin = time.perf_counter()
            async with dialling(address, transport):
                connects.append(time.perf_counter() - begin)
        say(f"edge.bridge.connect.{transport}", statistics.median(connects) * 1e3, "ms")
    async with dialling(address, "tcp") as direct, dialling(address, "relay") as relayed:
        more, trips = [], []
        for _ in range(ROUNDS):
            by_tcp = statistics.median(await round_trips(direct))
            through = statistics.median(await round_trips(relayed))
            trips.append(through)
            more.append(through - by_tcp)
        say("edge.bridge.roundtrip", statistics.median(trips), "us")
        say("edge.bridge.roundtrip.more", statistics.median(more), "us more than by TCP", MORE)
        data = bytes(LARGE)
        speeds: dict[str, list[float]] = {"tcp": [], "relay": []}
        for _ in range(7):
            speeds["tcp"].append(await speed(direct, data))
            speeds["relay"].append(await speed(relayed, data))
        say("edge.bridge.oneway.tcp", statistics.median(speeds["tcp"]), "MB/s")
        say("edge.bridge.oneway", statistics.median(speeds["relay"]), "MB/s", LEAST)


def memory(pid: int) -> tuple[float, float]:
    """Return the resident megabytes of a process, and those that no other process shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: line.split() for line in text.splitlines()[1:]}
    own = sum(int(sizes[name][1]) for name in ("Private_Clean", "Private_Dirty"))
    return int(sizes["Rss"][1]) * 1024 / 1e6, own * 1024 / 1e6


def processor(pid: int) -> float:
    """Return the seconds of CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Start the other processes and measure."""
    with bridge() as (_, address):
        trio.run(measure, address)
    with bridge() as (pid, address):
        before, _ = memory(pid)
        with process("-m", "tools.bench.edge_bridge", "members", address):
            resident, own = memory(pid)
            begin, busy = time.perf_counter(), processor(pid)
            time.sleep(5)
            busy = (processor(pid) - busy) / (time.perf_counter() - begin)
            more = {"unshared": round(own, 1), "without_members": round(before, 1)}
            say("edge.bridge.idle", resident, f"MB resident with {COUNT} members", MOST, **more)
            say("edge.bridge.idle.cpu", busy * 100, "% of a CPU")


if __name__ == "__main__":
    trio.run({"head": head, "members": members}[sys.argv[1]], sys.argv[2])
