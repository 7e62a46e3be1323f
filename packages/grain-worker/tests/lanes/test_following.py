"""Calls that follow each other in a lane, in the runner: their trio tasks, variables and turns."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.call import RunSettings
from grain.worker.lanes.run import LaneRun
from grain.worker.messages import LANE, StartRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import MemoryChannel

NOTE: ContextVar[int] = ContextVar("note", default=0)


class Full(LaneRun):
    """A lane that has all of its calls from the beginning: its invitation is the batch of them."""

    async def serve(self, invitation: Any) -> bytes | None:
        self._take(invitation)
        while self._calls.call is not None or self._calls.waiting:
            await self._until_ended.park()
        return b""


class WithoutOutcomes(MemoryTranslation):
    """A translation by which outcomes have no bytes."""

    def encode(self, *_: Any) -> Any:
        return b"", False


@pytest.fixture(autouse=True)
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grain.worker.lanes.run.LaneRun", Full)


async def serve(fn: Callable[..., Any], calls: list[tuple[Any, ...]], *beside: Any) -> None:
    """Run calls of a function in a lane, and other functions beside it, until it is over."""
    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    batch = [
        (StartRun((1, number), None, task=number), Call(fn, arguments, {}))
        for number, arguments in enumerate(calls, 1)
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, WithoutOutcomes()).serve)
        for one in beside:
            nursery.start_soon(one)
        head.post([(StartRun((9, 9), ZERO, function=LANE), batch)])
        await head.receive()
        nursery.cancel_scope.cancel()


class Brief:
    """Tasklets that never wait: what each finds, and the trio task that it runs in."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self.tasks: list[trio.lowlevel.Task] = []

    async def run(self, number: int, sets: str = "") -> None:
        self.seen.append((NOTE.get(), GVAR.cwd))
        self.tasks.append(trio.lowlevel.current_task())
        if sets == "a variable":
            NOTE.set(number)
        elif sets == "its directory":
            GVAR.surroundings = RunSettings("/else")


async def test_brief_calls_that_follow_each_other_have_one_trio_task() -> None:
    brief = Brief()
    await serve(brief.run, [(number,) for number in range(20)])
    assert 20 == len(brief.tasks)
    assert len(set(brief.tasks[2:])) == 1


@pytest.mark.parametrize("sets", ["a variable", "its directory"])
async def test_a_call_does_not_see_the_variables_of_the_one_before_it(sets: str) -> None:
    brief = Brief()
    await serve(brief.run, [(number, sets) for number in range(6)])
    assert [(0, str(Path.cwd()))] * 6 == brief.seen


async def test_other_tasks_have_a_turn_each_millisecond_while_brief_calls_follow_each_other(
    mock_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []

    async def brief() -> None:
        log.append("run")
        mock_clock.jump(0.0004)

    async def other() -> None:
        while True:
            log.append(" ")
            await trio.lowlevel.checkpoint()

    await serve(brief, [()] * 40, other)
    assert 40 == log.count("run")
    # Three of 0.4 ms, twice if the other task was the first in one turn and the last in the next.
    assert 6 >= max(stretch.count("run") for stretch in "".join(log).split())
