"""A runner at one end of a channel, a test as the head at the other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import outcome
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.messages import Cancel, Ended, Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from grain.edge.channel import MemoryChannel
    from grain.edge.messages import Message
    from grain.worker.job import Outcome

    HeadChannel = MemoryChannel[Call | None, Outcome | None]
    RunnerChannel = MemoryChannel[Outcome | None, Call | None]


@asynccontextmanager
async def runner() -> AsyncGenerator[tuple[HeadChannel, trio.Nursery]]:
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        yield head, nursery
        nursery.cancel_scope.cancel()


def call(fn: Callable[..., Any], *args: object) -> Call:
    return Call(fn, args, {})


def without_report(message: Message) -> Message:
    return msgspec.structs.replace(message, report=b"")


class Tally:
    """A tasklet that counts how often it began and ended, and waits to be let go."""

    def __init__(self) -> None:
        self.began = self.ended = 0
        self.go = trio.Event()

    async def run(self) -> int:
        self.began += 1
        try:
            await self.go.wait()
        finally:
            self.ended += 1
        return self.began


async def test_the_end_of_a_run_is_reported_with_its_outcome() -> None:
    tally = Tally()
    tally.go.set()
    async with runner() as (head, _):
        head.post([(Run((1, 5), ZERO), call(tally.run))])

        ((ended, value),) = await head.receive()
        assert (without_report(ended), value) == (Ended((1, 5), "done"), outcome.Value(1))
        assert isinstance(ended, Ended)
        assert 0 < ended.report.started <= ended.report.ended


async def test_a_run_that_is_ordered_twice_is_executed_once() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run((1, 5), ZERO), call(tally.run))] * 2)
        await wait_all_tasks_blocked()
        tally.go.set()

        assert len(await head.receive()) == tally.began == 1


async def test_another_attempt_at_a_task_that_still_runs_is_a_run_of_its_own() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run((1, 5), ZERO), call(tally.run)), (Run((1, 6), ZERO), call(tally.run))])
        await wait_all_tasks_blocked()
        tally.go.set()
        ends = [without_report(message) for message, _ in await head.receive()]

        assert len(ends) == 2
        assert Ended((1, 5)) in ends
        assert Ended((1, 6)) in ends


async def test_a_cancelled_run_has_ended_when_that_is_reported_and_other_attempts_go_on() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run((1, 5), ZERO), call(tally.run))])
        head.post([(Cancel((1, 4)), None), (Cancel((2, 5)), None)])
        await wait_all_tasks_blocked()
        assert (tally.began, tally.ended) == (1, 0)

        head.post([(Cancel((1, 5)), None)])

        ((ended, value),) = await head.receive()
        assert (without_report(ended), value) == (Ended((1, 5), "cancelled"), None)
        assert tally.ended == 1


async def test_when_the_head_closes_the_channel_the_runner_returns_after_its_runs_have_ended() -> (
    None
):
    tally = Tally()
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        head.post([(Run((1, 5), ZERO), call(tally.run))])
        await wait_all_tasks_blocked()
        await head.aclose()
        await wait_all_tasks_blocked()
        assert tally.ended == 0
        tally.go.set()

    assert tally.ended == 1


async def test_a_runner_that_is_cancelled_returns_after_its_runs_have_ended() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run((1, 5), ZERO), call(tally.run))])
        await wait_all_tasks_blocked()

    assert (tally.began, tally.ended) == (1, 1)
