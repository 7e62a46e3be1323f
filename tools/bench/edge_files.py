"""The file transport between two processes: on a local directory and on stale FUSE views."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import trio

from grain.edge import dial
from grain_testkit.faulty_links import CODEC, Note
from tools.bench import say
from tools.stale import stale_view, why_not

COUNT = 50_000


async def measure(address: str, label: str) -> None:
    """Measure round trips with and without other traffic, and messages per second."""
    async with dial(address, role="bench", codec=CODEC, transports=frozenset({"files"})) as peer:
        channel = peer.channel
        small = (Note("x" * 180), None)
        trips: list[float] = []
        for _ in range(150):
            begin = time.perf_counter()
            await channel.send([small])
            await channel.receive()
            trips.append(time.perf_counter() - begin)
        say(f"edge.files.roundtrip.{label}", statistics.median(trips) * 1e3, "ms", 30)

        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:

            async def drain() -> None:
                left = COUNT
                while left:
                    left -= len(await channel.receive())

            nursery.start_soon(drain)
            for _ in range(COUNT // 100):
                await channel.send([small] * 100)
        rate = COUNT / (time.perf_counter() - begin)
        say(f"edge.files.messages.{label}", rate, "messages/s there and back", 10_000)

        loaded: list[float] = []
        async with trio.open_nursery() as nursery:
            sent: dict[int, float] = {}

            async def collect() -> None:
                while True:
                    for message, _ in await channel.receive():
                        assert isinstance(message, Note)
                        if message.number:
                            loaded.append(time.perf_counter() - sent.pop(message.number))

            nursery.start_soon(collect)
            for number in range(1, 200):
                sent[number] = time.perf_counter()
                await channel.send([small] * 20 + [(Note("timed", number), None)])
                await trio.sleep(0.01)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
        say(f"edge.files.loaded_roundtrip.{label}", statistics.median(loaded) * 1e3, "ms", 30)

        data = bytes(50_000_000)
        begin = time.perf_counter()
        await channel.send([(Note("large"), data)])
        await channel.receive()
        say(f"edge.files.large.{label}", 50 / (time.perf_counter() - begin), "MB/s one way")


def run(head: Path, worker: Path, label: str) -> None:
    """Measure a head in another process that sees one directory, while this one sees the other."""
    command = [sys.executable, "-m", "tools.bench.edge_channel", f"edge://{head}/meeting"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        other.stdout.readline()
        try:
            trio.run(partial(measure, f"edge://{worker}/meeting", label))
        finally:
            other.stdin.close()


def main() -> None:
    """Measure on what there is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        real = Path(name, "real")
        real.mkdir(mode=0o700)
        run(real, real, "local")
        if reason := why_not():
            print(f"no stale views: {reason}", file=sys.stderr)
            return
        with ExitStack() as stack:
            views = [stack.enter_context(stale_view(real, Path(name, f"v{n}"))) for n in (1, 2)]
            run(views[0], views[1], "stale")
