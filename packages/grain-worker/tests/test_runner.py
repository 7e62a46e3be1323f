"""A runner at one end of a channel, a test as the head at the other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import outcome
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.worker import Call, Runner
from grain.worker.messages import Cancel, Ended, Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from grain.edge.channel import Channel


@asynccontextmanager
async def runner() -> AsyncGenerator[tuple[Channel, trio.Nursery]]:
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs).serve)
        yield head, nursery
        nursery.cancel_scope.cancel()


def call(fn: Callable[..., Any], *args: object) -> Call:
    return Call(fn, args, {})


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


async def test_ended() -> None:
    """The end of a run is told with its outcome."""
    tally = Tally()
    tally.go.set()
    async with runner() as (head, _):
        head.post([(Run(1, 5, ZERO), call(tally.run))])

        assert list(await head.receive()) == [(Ended(1, 5, "done"), outcome.Value(1))]


async def test_delivered_twice() -> None:
    """A run that is asked for twice is executed once."""
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run(1, 5, ZERO), call(tally.run))] * 2)
        await wait_all_tasks_blocked()
        tally.go.set()

        assert len(await head.receive()) == tally.began == 1


async def test_another_attempt() -> None:
    """Another attempt at a task that still runs is a run of its own."""
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run(1, 5, ZERO), call(tally.run)), (Run(1, 6, ZERO), call(tally.run))])
        await wait_all_tasks_blocked()
        tally.go.set()
        ends = [message for message, _ in await head.receive()]

        assert len(ends) == 2
        assert Ended(1, 5) in ends
        assert Ended(1, 6) in ends


async def test_cancel() -> None:
    """A cancelled run has ended when it is told so; one of another attempt goes on."""
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run(1, 5, ZERO), call(tally.run))])
        head.post([(Cancel(1, 4), None), (Cancel(2, 5), None)])
        await wait_all_tasks_blocked()
        assert (tally.began, tally.ended) == (1, 0)

        head.post([(Cancel(1, 5), None)])

        assert list(await head.receive()) == [(Ended(1, 5, "cancelled"), None)]
        assert tally.ended == 1


async def test_head_leaves() -> None:
    """When the head closes the channel, the runs end as they would, then the runner does."""
    tally = Tally()
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs).serve)
        head.post([(Run(1, 5, ZERO), call(tally.run))])
        await wait_all_tasks_blocked()
        await head.aclose()
        await wait_all_tasks_blocked()
        assert tally.ended == 0
        tally.go.set()

    assert tally.ended == 1


async def test_serve_cancelled() -> None:
    """When serving is cancelled, it returns after the runs have ended."""
    tally = Tally()
    async with runner() as (head, _):
        head.post([(Run(1, 5, ZERO), call(tally.run))])
        await wait_all_tasks_blocked()

    assert (tally.began, tally.ended) == (1, 1)
