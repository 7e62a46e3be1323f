"""Connections between two processes on one host: Unix socket and TLS.

The other process runs this file as a script and echoes; what is measured is seen by this side.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from grain.edge import Peer, Serving, dial, serve
from grain_testkit.faulty_links import CODEC, Note
from tools.bench import say

BUDGETS = {"unix": (100.0, 1000.0), "tcp": (180.0, 250.0)}
LARGE = 100_000_000


async def echo(peer: Peer) -> None:
    """Send small messages back, and the size of large ones."""
    while True:
        batch = await peer.channel.receive()
        answers = [(Note(m.text, len(p) if p else m.number), None) for m, p in batch]  # type: ignore[attr-defined]
        await peer.channel.send(answers)


async def head(address: str) -> None:
    """Print when it is ready, and serve until the input ends: the other process."""
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(echo, address, codec=CODEC, task_status=task_status)

        await nursery.start(run)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


def dialling(address: str, transport: str) -> Any:
    """Return a dialler that uses one transport."""
    return dial(address, role="bench", codec=CODEC, transports=frozenset({transport}))


async def measure(address: str) -> None:
    """Print all numbers, for both transports."""
    for transport, (serial, speed) in BUDGETS.items():
        connects = []
        for _ in range(40):
            begin = time.perf_counter()
            async with dialling(address, transport) as peer:
                connects.append(time.perf_counter() - begin)
                del peer
        say(f"edge.connect.{transport}", statistics.median(connects) * 1e3, "ms", 10)
        async with dialling(address, transport) as peer:
            trips = []
            batch = [(Note("x" * 180), None)]
            for _ in range(4000):
                begin = time.perf_counter()
                await peer.channel.send(batch)
                await peer.channel.receive()
                trips.append(time.perf_counter() - begin)
            say(f"edge.roundtrip.{transport}", statistics.median(trips) * 1e6, "us", serial)
            data, speeds = bytes(LARGE), []
            for _ in range(7):
                begin = time.perf_counter()
                await peer.channel.send([(Note("x"), data)])
                await peer.channel.receive()
                speeds.append(LARGE / (time.perf_counter() - begin) / 1e6)
            say(f"edge.oneway.{transport}", statistics.median(speeds), "MB/s", speed)
            count = 100_000
            begin = time.perf_counter()
            async with trio.open_nursery() as nursery:

                async def drain(peer: Peer = peer, left: int = count) -> None:
                    while left:
                        left -= len(await peer.channel.receive())

                nursery.start_soon(drain)
                for _ in range(count // 50):
                    await peer.channel.send(batch * 50)
            each = (time.perf_counter() - begin) / count * 1e6
            say(f"edge.message.{transport}", each, "us there and back")


def main() -> None:
    """Start the other process and measure."""
    with tempfile.TemporaryDirectory() as directory:
        address = f"edge://{directory}/meeting"
        command = [sys.executable, "-m", "tools.bench.edge_channel", address]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        ) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            other.stdout.readline()
            try:
                trio.run(measure, address)
            finally:
                other.stdin.close()


if __name__ == "__main__":
    trio.run(head, sys.argv[1])
