"""The cost of running a program: `run_external` beside xargs, in the same run.

Prints one JSON line per quantity. Run it by ``python -m tools.bench external``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import trio

from grain import GVAR
from grain.resource import ZERO
from grain.worker.external import run_external

COUNT = 1000
ROUNDS = 5
TRUE = shutil.which("true") or "/bin/true"


PROGRAMS, SECONDS = 64, 70.0
SLEEP = ["sleep", "1000"]
KINDS = {"one process": SLEEP, "four processes": ["sh", "-c", "sleep 1000 & " * 3 + "sleep 1000"]}
"""Programs with as many processes."""


def main() -> None:
    """Measure, and print the results."""
    ours, theirs, ratios = [], [], []
    with GVAR.scope(ZERO):
        trio.run(by_run_external, 100, 2)
        for _ in range(ROUNDS):
            theirs.append(by_xargs())
            ours.append(trio.run(by_run_external, COUNT, 2))
            ratios.append(ours[-1] / theirs[-1])
        say("external_true_two_at_a_time", statistics.median(ours) * 1e6, "us")
        say("xargs_true_two_at_a_time", statistics.median(theirs) * 1e6, "us")
        say("external_over_xargs", statistics.median(ratios), "ratio", budget=1.1)
        say("external_serial", trio.run(by_run_external, COUNT, 1) * 1e6, "us")
        trio.run(memory)
        for kind, command in KINDS.items():
            trio.run(looks, kind, command)


def say(name: str, value: float, unit: str, **more: float | str) -> None:
    """Print one measurement."""
    print(json.dumps({"bench": name, "value": round(value, 3), "unit": unit, **more}), flush=True)


def by_xargs() -> float:
    """Return the seconds per program when xargs runs two at a time."""
    lines = "\n".join(["x"] * COUNT).encode()
    began = time.perf_counter()
    subprocess.run(["xargs", "-P", "2", "-n", "1", TRUE], input=lines, check=True)
    return (time.perf_counter() - began) / COUNT


async def by_run_external(count: int, width: int) -> float:
    """Return the seconds per program of `run_external`, without the start of the fork server."""
    await run_external([TRUE])
    left = iter(range(count))

    async def one_after_the_other() -> None:
        for _ in left:
            await run_external([TRUE])

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(width):
            nursery.start_soon(one_after_the_other)
    return (time.perf_counter() - began) / count


async def memory() -> None:
    """Print the private memory of the fork server and of each supervisor while 20 programs run."""
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(run_external, ["sleep", "60"])
        # No event shows that processes have started: poll.
        while len(pids := processes("grain-supervise")) < 20 or not all(map(has_child, pids)):  # noqa: ASYNC110
            await trio.sleep(0.05)
        shares = [private_kilobytes(pid) for pid in pids]
        say("supervisor_private", statistics.median(shares), "kB", supervisors=len(shares))
        say("fork_server_private", private_kilobytes(processes("grain-forkserv")[0]), "kB")
        began = time.perf_counter()
        nursery.cancel_scope.cancel()
    say("cancel_20_programs", (time.perf_counter() - began) * 1e3, "ms")


async def looks(kind: str, command: list[str]) -> None:
    """Print the part of one CPU that the looks at the memory of a full worker's programs take.

    It is all that the supervisors do, from before the first look until looks are as rare as they
    get.
    """
    async with trio.open_nursery() as nursery:
        for _ in range(PROGRAMS):
            nursery.start_soon(run_external, command)
        # No event shows that processes have started: poll.
        while len(pids := processes("grain-supervise")) < PROGRAMS or not all(map(has_child, pids)):  # noqa: ASYNC110
            await trio.sleep(0.05)
        before, began = sum(map(cpu_seconds, pids)), time.perf_counter()
        await trio.sleep(SECONDS / 7)
        middle, then = sum(map(cpu_seconds, pids)), time.perf_counter()
        await trio.sleep(SECONDS * 6 / 7)
        after, now = sum(map(cpu_seconds, pids)), time.perf_counter()
        first = 100 * (middle - before) / (then - began)
        part = 100 * (after - before) / (now - began)
        last = 100 * (after - middle) / (now - then)
        facts: dict[str, float | str] = {
            "programs": PROGRAMS,
            "of": kind,
            "first_10_s": round(first, 3),
            "later": round(last, 3),
        }
        say("looks_at_memory", part, "% of a core", budget=0.5, **facts)
        nursery.cancel_scope.cancel()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without its children."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def processes(name: str) -> list[int]:
    """Return the descendants of this process that have this name."""
    pids, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        for thread in Path(f"/proc/{pid}/task").iterdir():
            waiting += map(int, (thread / "children").read_text().split())
        if Path(f"/proc/{pid}/comm").read_text().strip() == name:
            pids.append(pid)
    return pids


def has_child(pid: int) -> bool:
    """Return True if a supervisor runs a program at the moment."""
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def private_kilobytes(pid: int) -> int:
    """Return the memory that a process shares with no other, in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    main()
