"""The head that a dialler ends up with, by trio's mock clock; the routes to it are stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from grain.edge.connecting.dial import Dialler
from grain.edge.connecting.race import Route
from grain.edge.errors import DialError, NoEdgeFile
from grain.edge.meeting.block import MeetingRecord
from grain.edge.messages import CORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio.testing import MockClock

    from grain.edge.meeting.meeting import Meeting


class Thing(trio.abc.AsyncResource):
    """A stand-in for a connection."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class Stage(Dialler):
    """A dialler of a meeting that is led by one head, and from some time on by another.

    Args:
        opens: the way to the head of each epoch.
        change: when the second leads, in seconds from now.
    """

    def __init__(self, opens: dict[int, Callable[[], Awaitable[Any]]], change: float) -> None:
        super().__init__("edge:///nowhere", "worker", "w", CORE, frozenset())
        self._opens = opens
        self._change = trio.current_time() + change
        self.looks = 0
        self.meeting = cast("Meeting", self)
        self.path = "/nowhere"

    async def read(self) -> MeetingRecord:
        """As `Meeting` does."""
        self.looks += 1
        await trio.lowlevel.checkpoint()
        left = self._change - trio.current_time()
        if 0 < left < 2:
            raise NoEdgeFile("/nowhere")
        return MeetingRecord("a", 1 if left > 0 else 2, True, "n1", "boot", 1, 1, 1)

    def _routes(self, record: MeetingRecord) -> list[Route[Any]]:
        return [Route("reverse", "any interface", self._opens[record.epoch], deadline=20.0)]


async def never() -> Any:
    await trio.sleep_forever()


async def test_a_dead_head_is_given_up_for_its_successor(autojump_clock: MockClock) -> None:
    """At once, and not when every way to it has taken its time."""
    thing = Thing()

    async def second() -> Thing:
        return thing

    began = trio.current_time()
    opened, _ = await Stage({1: never, 2: second}, change=5.0).patiently(60)

    assert thing is cast("object", opened)
    assert trio.current_time() - began < 10
    assert not thing.closed


async def test_a_slow_head_is_waited_for(autojump_clock: MockClock) -> None:
    """While it leads; and the file is looked at ever more rarely."""
    thing = Thing()

    async def slow() -> Thing:
        await trio.sleep(19)
        return thing

    stage = Stage({1: slow}, change=1000.0)
    opened, _ = await stage.patiently(60)

    assert thing is cast("object", opened)
    assert stage.looks < 10


async def test_a_round_that_was_cut_off_is_not_what_is_told(autojump_clock: MockClock) -> None:
    """A dial that fails reports the errors of the last whole round."""

    rounds = 0

    async def refused() -> Any:
        nonlocal rounds
        rounds += 1
        if rounds > 1:
            await trio.sleep_forever()
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(DialError) as caught:
        await Stage({1: refused}, change=1000.0).patiently(10)

    assert 2 == rounds
    assert ["nobody listens"] == [attempt.outcome for attempt in caught.value.tried]
