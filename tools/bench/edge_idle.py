"""Memory of a head with a thousand idle connections, for each transport; and cost of importing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from grain.edge import Peer, Serving, dial, serve
from grain_testkit.faulty_links import CODEC
from tools.bench import say

COUNT = 1000


def resident() -> float:
    """Return the megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def members(address: str, transport: str) -> None:
    """Hold many connections until the input ends: the other process."""
    limit = trio.CapacityLimiter(8)

    async def member(task_status: trio.TaskStatus[None]) -> None:
        options = {"role": "bench", "codec": CODEC, "transports": frozenset({transport})}
        async with limit:
            entered = dial(address, **options)  # type: ignore[arg-type]
            await entered.__aenter__()
        task_status.started()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for _ in range(COUNT):
                starting.start_soon(nursery.start, member)
        print("all", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        os._exit(0)


async def head(address: str, transport: str) -> None:
    """Measure the head: this process."""

    async def handler(peer: Peer) -> None:
        await peer.channel.receive()

    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(handler, address, codec=CODEC, task_status=task_status)

        await nursery.start(run)
        before = resident()
        begin = time.perf_counter()
        process = subprocess.Popen(  # before anything is measured
            [sys.executable, "-m", "tools.bench.edge_idle", address, transport],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        with process:
            assert process.stdout is not None
            assert process.stdin is not None
            await trio.to_thread.run_sync(process.stdout.readline)
            seconds = time.perf_counter() - begin
            say(f"edge.idle.{transport}", resident() - before, f"MB for {COUNT}", 60)
            say(f"edge.join.{transport}", COUNT / seconds, "connections/s")
            process.stdin.close()
        nursery.cancel_scope.cancel()


def main() -> None:
    """Measure, each in a process of its own so that memory is counted from the same start."""
    for transport in ("unix", "tcp"):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-m", "tools.bench.edge_idle", f"edge://{directory}/m"]
            root = Path(__file__).parents[2]
            subprocess.run([*command, transport, "head"], check=True, cwd=root)
    for module in ("grain.edge", "trio"):
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            times.append(time.perf_counter() - begin)
        say(f"edge.import.{module}", sorted(times)[2] * 1e3, "ms, interpreter included")


if __name__ == "__main__":
    trio.run(head if "head" in sys.argv else members, sys.argv[1], sys.argv[2])
