"""A runner in a process of its own, with a record of all that it reports."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.config import WorkerSettings
from grain.resource import Cores, to_data
from grain.worker.agent.functions import FunctionStore
from grain.worker.agent.runner_process import RunnerProcess
from grain.worker.messages import Cancel, StartRun
from grain.worker.payload import Payloads
from grain.worker.runner.settings import RunnerSettings
from grain_testkit.local_processes import descendants

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    import outcome

    from grain.edge.messages import Payload
    from grain.worker.agent.listener import RunnerDeath
    from grain.worker.messages import Attempt, BlockingCode, Ended, Inspected, RunMessage


class Witness:
    """A listener that records every report; `changed` wakes the tasks that wait for more."""

    def __init__(self) -> None:
        self.outcomes: dict[int, tuple[Ended, Payload]] = {}
        self.deaths: list[RunnerDeath] = []
        self.silences: list[tuple[str, float]] = []
        self.blocking_code: list[tuple[Attempt | None, BlockingCode]] = []
        self.lines: list[tuple[Attempt, tuple[str, ...], int]] = []
        self.lost = ""
        self.warnings = 0
        self.asked: list[int] = []
        self.ending = False
        self.why_replaced: list[tuple[str, int]] = []  # and the deaths before
        self.hands_back = True
        self.changed = trio.Event()

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        for ended, payload in runs:
            number = ended.attempt[1]
            assert number not in self.outcomes
            self.outcomes[number] = ended, payload
        self._tell()

    def inspected(self, answer: Inspected) -> None:
        raise AssertionError(f"no question for programs is asked here: {answer}")

    async def is_ending(self, signal: int) -> bool:
        self.asked.append(signal)
        self._tell()
        return self.ending

    def warned(self) -> None:
        self.warnings += 1
        self._tell()

    def run_message(self, news: RunMessage) -> None:
        """Take what the part of a gang has to say; there is none here."""

    def replaced(self, why: str) -> bool:
        self.why_replaced.append((why, len(self.deaths)))
        self._tell()
        return self.hands_back

    def died(self, death: RunnerDeath) -> None:
        self.deaths.append(death)
        self._tell()

    def blocked(self, seconds: float, runs: tuple[Attempt, ...]) -> None:
        self.silences.append((f"blocked {runs}", seconds))
        self._tell()

    def unblocked(self, seconds: float) -> None:
        self.silences.append(("unblocked", seconds))
        self._tell()

    def blocking(self, attempt: Attempt | None, code: BlockingCode) -> None:
        self.blocking_code.append((attempt, code))
        self._tell()

    def printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int) -> None:
        self.lines.append((attempt, lines, lost))
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

    def __init__(self, runner: RunnerProcess, witness: Witness, functions: FunctionStore) -> None:
        self.runner = runner
        self.functions = functions
        self.witness = witness
        self.payloads = Payloads("mission")
        self.last = 0

    def start(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> int:
        """Start a run; its number."""
        self.last += 1
        function = self.payloads.dump_function(fn)
        arguments = self.payloads.dump_arguments(args, {})
        res = to_data(more.get("res", Cores(0)))
        attempt = (1, self.last)
        run = StartRun(
            attempt, res, more.get("limit"), function.digest, past=more.get("past"),
        )  # fmt: skip
        self.functions.define(function.digest, function.payload)
        self.runner.post([(run, arguments)])
        return self.last

    def cancel(self, number: int) -> None:
        """Cancel a run."""
        self.runner.post([(Cancel((1, number)), None)])

    async def outcome(self, number: int) -> outcome.Value[Any] | outcome.Error:
        await self.witness.until(lambda: number in self.witness.outcomes)
        return self.payloads.load_outcome(self.witness.outcomes[number][1] or b"")

    async def outcome_status(self, number: int) -> str:
        await self.witness.until(lambda: number in self.witness.outcomes)
        return self.witness.outcomes[number][0].status

    async def result(self, fn: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
        return (await self.outcome(self.start(fn, *args, **more))).unwrap()


@asynccontextmanager
async def station(
    context: str = "", grace: float = 60.0, replaced: Callable[[], str] = lambda: ""
) -> AsyncGenerator[Station]:
    """Open a runner process, and prove at the end that nothing of it is left."""
    witness, functions = Witness(), FunctionStore()
    settings = RunnerSettings(WorkerSettings(contextmod=context))
    before = set(descendants())
    with trio.fail_after(300):
        async with RunnerProcess("w1", witness, functions, grace, settings, replaced) as runner:
            yield Station(runner, witness, functions)
    assert set(descendants()) <= before
