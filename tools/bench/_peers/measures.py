"""What is measured, in words that fit every tool.

Each function returns quantities by their names: ``us`` and ``ms`` are elapsed time of a call,
``cpu`` is the CPU time of all processes in microseconds a call, ``mb_s`` megabytes a second.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tools.bench._peers import work
from tools.bench._peers.process_tree import cpu_seconds, quiet, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Quantities = dict[str, float]
    Measure = Callable[["Peer"], Coroutine[Any, Any, Quantities]]


class Peer(Protocol):
    """A tool that runs calls of the functions in `work`; its methods may block.

    Attributes:
        workers: how many calls it runs at the same time.
    """

    workers: int

    def begin(self, name: str, *args: Any, count: int = 1) -> Any:
        """Submit so many calls of a function, and return what `end` takes."""

    async def end(self, begun: Any) -> None:
        """Wait for all results."""

    def enqueue(self, count: int) -> None:
        """Submit so many calls that do nothing; `end` is not called for them."""
        self.begin("nothing", count=count)

    async def sleep(self, seconds: float) -> None:
        """Let the tool go on for so long."""


async def calls(peer: Peer, count: int, _: int) -> Quantities:
    """Measure many calls that do nothing."""
    await peer.end(peer.begin("nothing", count=10 * peer.workers))
    return await _many(peer, "nothing", count)


async def cold(peer: Peer, count: int, _: int) -> Quantities:
    """Measure many calls that do nothing, the first of workers that have just come."""
    return await _many(peer, "nothing", count)


async def programs(peer: Peer, count: int, _: int) -> Quantities:
    """Measure many programs that do nothing."""
    await peer.end(peer.begin("true", count=10 * peer.workers))
    return await _many(peer, "true", count)


async def serial(peer: Peer, count: int, _: int) -> Quantities:
    """Measure one call after the other; the time is the median."""
    for _ in range(count // 10):
        await peer.end(peer.begin("nothing"))
    before = cpu_seconds()
    times = [await _seconds(peer, "nothing") for _ in range(count)]
    spent = cpu_seconds() - before
    return {"us": statistics.median(times) * 1e6, "cpu": spent / count * 1e6}


async def results(peer: Peer, count: int, size: int) -> Quantities:
    """Measure one result after the other of so many bytes."""
    return await _large(peer, "produce", size, count, size)


async def arguments(peer: Peer, count: int, size: int) -> Quantities:
    """Measure one argument after the other of so many bytes."""
    return await _large(peer, "take", work.produce(size), count, size)


async def results_at_once(peer: Peer, count: int, size: int) -> Quantities:
    """Measure results of so many bytes, of calls that are submitted at once."""
    return await _at_once(peer, "produce", size, count, size)


async def arguments_at_once(peer: Peer, count: int, size: int) -> Quantities:
    """Measure arguments of so many bytes, of calls that are submitted at once."""
    return await _at_once(peer, "take", work.produce(size), count, size)


async def waiting(peer: Peer, count: int, _: int) -> Quantities:
    """Measure calls that wait, until every process has done with them what it does at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = [peer.begin("hold", name) for _ in range(peer.workers)]
        while len(os.listdir(name)) < peer.workers:
            await peer.sleep(0.05)
        await quiet(peer.sleep)
        before, began = resident_bytes(), time.perf_counter()
        peer.enqueue(count)
        ended = await quiet(peer.sleep)
        more = resident_bytes() - before
        (folder / work.OPEN).touch()
        for one in begun:
            await peer.end(one)
    return {"us": (ended - began) / count * 1e6, "bytes": more / count}


async def _many(peer: Peer, name: str, count: int) -> Quantities:
    before, began = cpu_seconds(), time.perf_counter()
    await peer.end(peer.begin(name, count=count))
    seconds, spent = time.perf_counter() - began, cpu_seconds() - before
    return {"us": seconds / count * 1e6, "cpu": spent / count * 1e6}


async def _large(peer: Peer, name: str, argument: Any, count: int, size: int) -> Quantities:
    await _seconds(peer, name, argument)
    seconds = statistics.median([await _seconds(peer, name, argument) for _ in range(count)])
    return {"ms": seconds * 1e3, "mb_s": size / 1e6 / seconds}


async def _at_once(peer: Peer, name: str, argument: Any, count: int, size: int) -> Quantities:
    for _ in range(5):
        await peer.end(peer.begin(name, argument))
    before, began = cpu_seconds(), time.perf_counter()
    await peer.end(peer.begin(name, argument, count=count))
    seconds, spent = (time.perf_counter() - began) / count, cpu_seconds() - before
    return {"ms": seconds * 1e3, "mb_s": size / 1e6 / seconds, "cpu": spent / count * 1e6}


async def _seconds(peer: Peer, name: str, *args: Any) -> float:
    began = time.perf_counter()
    await peer.end(peer.begin(name, *args))
    return time.perf_counter() - began
