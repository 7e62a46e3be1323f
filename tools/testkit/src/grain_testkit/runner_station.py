"""A runner in a process of its own, with a record of all that it reports."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.resource import Cores, to_data
from grain.worker.agent.runner_process import RunnerProcess
from grain.worker.messages import Run
from grain.worker.payload import Payloads
from grain_testkit.local_processes import descendants

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    import outcome

    from grain.edge.messages import Payload
    from grain.worker.agent.listener import Crash
    from grain.worker.messages import Ended


class Witness:
    """Remembers what was reported; `changed` wakes who waits for more."""

    def __init__(self) -> None:
        self.outcomes: dict[int, tuple[Ended, Payload]] = {}
        self.crashes: list[Crash] = []
        self.silences: list[tuple[str, float]] = []
        self.lost = ""
        self.changed = trio.Event()

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        for ended, payload in runs:
            assert ended.task not in self.outcomes
            self.outcomes[ended.task] = ended, payload
        self._tell()

    def crashed(self, crash: Crash) -> None:
        self.crashes.append(crash)
        self._tell()

    def blocked(self, seconds: float, runs: tuple[tuple[int, int], ...]) -> None:
        self.silences.append((f"blocked {runs}", seconds))
        self._tell()

    def unblocked(self, seconds: float) -> None:
        self.silences.append(("unblocked", seconds))
        self._tell()

    def unusable(self, why: str) -> None:
        self.lost = why
        self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, true: Callable[[], object]) -> None:
        with trio.fail_after(120):
            while not true():
                await self.changed.wait()


class Station:
    """A runner process with the mission's side of the payloads."""

    def __init__(self, runner: RunnerProcess, witness: Witness) -> None:
        self.runner = runner
        self.witness = witness
        self.payloads = Payloads("mission")
        self.last = 0

    def start(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> int:
        """Start a run; its number."""
        self.last += 1
        function = self.payloads.dump_function(fn)
        arguments = self.payloads.dump_arguments(args, {})
        res = to_data(more.get("res", Cores(0)))
        run = Run(self.last, 1, res, more.get("limit"), function.digest, more.get("chain", 0))
        self.runner.start(run, (function.payload, arguments))
        return self.last

    async def outcome(self, number: int) -> outcome.Value[Any] | outcome.Error:
        await self.witness.until(lambda: number in self.witness.outcomes)
        return self.payloads.load_outcome(self.witness.outcomes[number][1])

    async def result(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
        return (await self.outcome(self.start(fn, *args, **more))).unwrap()


@asynccontextmanager
async def station(context: str = "", grace: float = 60.0) -> AsyncGenerator[Station]:
    """A runner process, and proof at the end that nothing of it is left."""
    witness = Witness()
    before = set(descendants())
    with trio.fail_after(300):
        async with RunnerProcess("w1", witness, context, grace) as runner:
            yield Station(runner, witness)
    assert set(descendants()) <= before
