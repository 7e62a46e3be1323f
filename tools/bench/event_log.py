"""The cost of the event log: no-op leaves of missions with one and without, in turns.

CPU times of the mission's process, as the log is written by a thread while others compute. Each is
given as a median and as the best of all rounds, and what the log adds as the median of the ratios
within rounds, and as the ratio of the best ones: noise only adds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.delayed import delayed, each, mission
from grain.eventlog.reader import read
from grain.resource import Cores
from tools.bench import say
from tools.bench.cluster import grain_worker, present, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LEAVES = 10_000
ROUNDS = 9
SETTLED = 1.5  # seconds


async def nothing() -> None:
    """Do nothing."""


leaf = delayed(nothing) @ Cores(1)


async def leaves(count: int) -> float:
    """Return the CPU seconds of so many leaves in this process, log included."""
    began = time.process_time()
    await each([leaf() for _ in range(count)])
    return time.process_time() - began


async def settle() -> None:
    """Wait until the logs have begun, which takes their threads some milliseconds, once."""
    await leaves(1000)
    await trio.sleep(SETTLED)
    await leaves(1000)


async def local(folder: str, *, isolated: bool, log: bool) -> float:
    """Return the microseconds of CPU time of a leaf on a local worker, in the mission's process."""
    async with mission(
        Cores(2), config_file=False, progress=False, isolated=isolated, event_log=log and folder
    ):
        await settle()
        return await leaves(LEAVES) / LEAVES * 1e6


async def shared(config: str, *, log: bool) -> float:
    """Return the microseconds of CPU time of a leaf in a mission that shares its workers."""
    async with mission(config_file=config, progress=False, event_log=log):
        await settle()
        return await leaves(LEAVES) / LEAVES * 1e6


def report(what: str, pairs: list[tuple[float, float]], budget: float) -> None:
    """Print the medians of pairs, without and with a log, their best, and the ratios of both."""
    without, with_log = zip(*pairs, strict=True)
    say(f"event_log.{what}.off", statistics.median(without), "us", best=min(without))
    say(f"event_log.{what}.on", statistics.median(with_log), "us", best=min(with_log))
    more = statistics.median((on / off - 1) * 100 for off, on in pairs)
    best = (min(with_log) / min(without) - 1) * 100
    say(f"event_log.{what}.more", more, "%", budget, best=round(best, 3))


def main() -> None:
    """Print what is measured."""
    with tempfile.TemporaryDirectory() as folder:
        for isolated in False, True:
            local_pairs: list[tuple[float, float]] = []
            for at in range(ROUNDS):
                one = {
                    log: trio.run(local_of(folder, isolated=isolated, log=log)) for log in order(at)
                }
                local_pairs.append((one[False], one[True]))
            report("isolated_leaf" if isolated else "local_leaf", local_pairs, 3)
        shared_pairs: list[tuple[float, float]] = []
        for at in range(ROUNDS):
            one = {log: through_gnaw(folder, log=log) for log in order(at)}
            shared_pairs.append((one[False], one[True]))
        report("shared_leaf", shared_pairs, 3)
        log_folder = next(one for one in Path(folder, "logs", "missions").iterdir() if one.is_dir())
        began = time.perf_counter()
        lines = sum(1 for _ in read(log_folder))
        say("event_log.read", (time.perf_counter() - began) / lines * 1e6, "us", lines=lines)


def order(at: int) -> tuple[bool, bool]:
    """Return the order in which a round measures with and without: it alternates."""
    return (False, True) if at % 2 else (True, False)


def local_of(folder: str, *, isolated: bool, log: bool) -> Callable[[], Awaitable[float]]:
    """Return what `trio.run` takes."""

    async def run() -> float:
        return await local(f"{folder}/local", isolated=isolated, log=log)

    return run


def through_gnaw(folder: str, *, log: bool) -> float:
    """Measure a leaf with a Gnaw of its own."""
    place = tempfile.mkdtemp(dir=folder)
    address = f"edge://{place}/meeting"
    config = Path(place, "grain.toml")
    config.write_text(
        f'address = "{address}"\n[head.event_log]\nfolder = "{folder}/logs"\nkeep_size = 20\n'
    )
    with running("grain.head", "--address", address), grain_worker(address, 16):
        trio.run(present, address, 1)

        async def run() -> float:
            return await shared(str(config), log=log)

        return trio.run(run)


if __name__ == "__main__":
    main()
