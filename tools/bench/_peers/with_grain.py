"""Grain, by its interface for programs: delayed functions in a mission.

The scheduler runs in the background, at a Unix socket (``gnaw``) or at a TCP port, which is TLS
(``tls``), or within the mission (``within``). The workers are processes, and join it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain.delayed import delayed, each, mission
from grain.resource import Cores
from grain.worker.external import run_external
from grain_testkit.ports import reserved_port
from tools.bench._peers import work
from tools.bench._peers.measures import Peer
from tools.bench.cluster import present, running

if TYPE_CHECKING:
    from grain.delayed import Delayed
    from tools.bench._peers.measures import Measure, Quantities


@delayed
async def nothing() -> None:
    """Do nothing."""


@delayed
async def true() -> None:
    """Run a program that does nothing."""
    await run_external([work.TRUE])


@delayed
async def produce(size: int) -> bytes:
    """Return so many bytes."""
    return work.produce(size)


@delayed
async def take(data: bytes) -> int:
    """Return the length of the argument."""
    return work.take(data)


@delayed
async def hold(folder: str) -> None:
    """Keep the core, as `work.hold` does."""
    await trio.to_thread.run_sync(work.hold, folder)


CALLS: dict[str, Any] = {fn.__name__: fn @ Cores(1) for fn in (nothing, true, produce, take, hold)}


class Tasks(Peer):
    """The calls of a mission."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def begin(self, name: str, *args: Any, count: int = 1) -> list[Delayed[Any]]:
        """Submit calls."""
        call = CALLS[name]
        return [call(*args) for _ in range(count)]

    async def end(self, begun: list[Delayed[Any]]) -> None:
        """Wait for all results."""
        await each(begun)

    async def sleep(self, seconds: float) -> None:
        """Let the mission go on."""
        await trio.sleep(seconds)


def run(tool: str, workers: int, measure: Measure) -> Quantities:
    """Measure in a mission of its own: one worker with two cores, or many with one."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["HOME"] = folder  # the log of the mission
        address = f"edge://{folder}/meeting"
        if tool == "tls":
            port = stack.enter_context(reserved_port())
            address = f"tcp://127.0.0.1:{port}?edge={folder}/meeting"
        config = Path(folder, "grain.toml")
        shared = str(tool != "within").lower()
        config.write_text(f'address = "{address}"\n[head.gnaw]\nenabled = {shared}\n')
        if tool != "within":
            stack.enter_context(running("grain.head", "--address", address))
        cores, number = (2, 1) if workers == 2 else (1, workers)
        for _ in range(number):
            words = ["--url", address, "--res", f'{{"Cores": {cores}}}']
            stack.enter_context(running("grain.worker", *words))

        async def measured() -> Quantities:
            if tool != "within":
                # A mission that finds no scheduler starts one, which no tree of ours would have.
                await present(address, number)
            async with mission(config_file=str(config), progress=False, warn_queued=None):
                await present(address, number)
                return await measure(Tasks(workers))

        return trio.run(measured)
