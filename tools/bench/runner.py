"""The cost of the process between a worker's agent and its tasks."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import trio

from grain.worker.agent.functions import FunctionStore
from grain.worker.agent.runner_process import RunnerProcess
from grain.worker.messages import StartRun
from grain.worker.payload import Payloads
from grain_testkit.local_processes import descendants_of
from tools.bench import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.messages import Payload
    from grain.worker.agent.listener import RunnerDeath
    from grain.worker.messages import Attempt, BlockingCode, Ended, Inspected, RunMessage
    from grain.worker.payload import Function

RUNS = 20_000
ROUNDS = 5
LARGE = 100_000_000


async def nothing() -> None:
    """Do nothing."""


async def take(array: Any) -> int:
    """Take a large argument."""
    return len(array)


async def give(size: int) -> Any:
    """Return a large result."""
    import numpy

    return numpy.ones(size // 8)


async def die() -> None:
    """Kill the process of the tasklet."""
    os.kill(os.getpid(), signal.SIGKILL)


class Desk:
    """A listener that starts runs and waits for them."""

    def __init__(self) -> None:
        self.payloads = Payloads("mission")
        self.left = 0
        self.last = 0
        self.payload: Payload = None
        self.done = trio.Event()
        self.functions: dict[Any, Function] = {}
        self.store = FunctionStore()

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """Count runs that have ended."""
        self.left -= len(runs)
        self.payload = runs[-1][1]
        if not self.left:
            self.done.set()

    def inspected(self, answer: Inspected) -> None:
        """Ignore answers: no question is asked here."""

    async def is_ending(self, _: int) -> bool:
        """Say that nothing is being ended."""
        return False

    def run_message(self, news: RunMessage) -> None:
        """Take what the part of a gang has to say; there is none here."""

    def replaced(self, why: str) -> bool:
        """Fail, as no code is replaced here."""
        raise AssertionError(why)

    def died(self, _: RunnerDeath) -> None:
        """Note the death of the runner, which this benchmark causes."""
        self.done.set()

    def blocked(self, seconds: float, runs: tuple[Attempt, ...]) -> None:
        """Ignore blocks: there are none here."""

    def unblocked(self, seconds: float) -> None:
        """Ignore the end of a block, too."""

    def blocking(self, attempt: Attempt | None, code: BlockingCode) -> None:
        """Ignore the code that blocks, too."""

    def printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int) -> None:
        """Ignore lines: they are not wanted here."""

    def warned(self) -> None:
        """Ignore that a program was warned; none is."""

    def unusable(self, why: str) -> None:
        """Fail: the benchmark needs a runner."""
        """Fail, as no code is replaced here."""
        raise AssertionError(why)

    async def run(
        self, runner: RunnerProcess, fn: Callable[..., Awaitable[Any]], *args: Any, times: int = 1
    ) -> float:
        """Return the seconds for some runs, from serialising the arguments to the last result."""
        if fn not in self.functions:
            self.functions[fn] = self.payloads.dump_function(fn)
            self.store.define(self.functions[fn].digest, self.functions[fn].payload)
        function = self.functions[fn]
        self.left, self.done = times, trio.Event()
        began = time.perf_counter()
        for _ in range(times):
            self.last += 1
            arguments = self.payloads.dump_arguments(args, {})
            run = StartRun((1, self.last), {"Cores": 1}, None, function.digest)
            runner.post([(run, arguments)])
        await self.done.wait()
        if self.payload is not None and times == 1:
            self.payloads.load_outcome(self.payload).unwrap()
        return time.perf_counter() - began


async def measure() -> None:
    """Print what is measured."""
    desk = Desk()
    began = time.perf_counter()
    async with RunnerProcess("w1", desk, desk.store) as runner:
        say("runner_start", (time.perf_counter() - began) * 1e3, "ms")
        say(
            "worker_idle_memory",
            sum(map(proportional, descendants_of(os.getpid()))),
            "MB",
            agent=own_memory(),
        )
        await desk.run(runner, nothing, times=1000)
        serial = [await desk.run(runner, nothing) for _ in range(3000)]
        say("runner_round_trip", statistics.median(serial) * 1e6, "us")
        piped = [await desk.run(runner, nothing, times=RUNS) for _ in range(ROUNDS)]
        say("runner_pipelined", statistics.median(piped) / RUNS * 1e6, "us", budget=60)
        array = np.ones(LARGE // 8)
        await desk.run(runner, give, 8)  # imports numpy
        there = [await desk.run(runner, take, array) for _ in range(ROUNDS)]
        say("runner_argument_100MB", LARGE / 1e6 / statistics.median(there), "MB/s", budget=500)
        back = [await desk.run(runner, give, LARGE) for _ in range(ROUNDS)]
        say("runner_result_100MB", LARGE / 1e6 / statistics.median(back), "MB/s", budget=500)
        restarts = [await restart(desk, runner) for _ in range(ROUNDS)]
        say("runner_restart", statistics.median(restarts) * 1e3, "ms", budget=500)


async def restart(desk: Desk, runner: RunnerProcess) -> float:
    """Return the seconds from the report of a crash to the first result of the next runner."""
    await desk.run(runner, die)
    began = time.perf_counter()
    await desk.run(runner, nothing)
    return time.perf_counter() - began


def proportional(pid: int) -> float:
    """Return a process's share of the memory that it has, in MB (Pss in proc(5))."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def own_memory() -> float:
    """Return this process's share: it stands for the agent, and has numpy besides."""
    return round(proportional(os.getpid()), 1)


def main() -> None:
    """Print what is measured."""
    trio.run(measure)


if __name__ == "__main__":
    main()
