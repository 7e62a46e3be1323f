from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from grain.edge.invitation import invite
from grain.worker.lanes.calls import LaneCalls
from grain.worker.lanes.run import LaneRun
from grain.worker.messages import LANE, LANE_CODEC, UNBEGUN, Ended, LaneOpen, LaneOutcome, StartRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.channel import FramedChannel

ATTEMPT = (1, 7)
LANE_RUN = StartRun(ATTEMPT, None, function=LANE, task=3)
CALL = StartRun((3, 4), None, function=b"f" * 16, task=4)


class Lane:
    """A lane whose calls end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[StartRun] = []
        self.began = trio.Event()
        self.outcome: bytes | None = None
        self.over = trio.Event()
        self.run = LaneRun(LaneCalls(LANE_RUN, self._begin, self._cancel, lambda *_: None))

    def _begin(self, run: StartRun, _: Any) -> None:
        self.begun.append(run)
        self.began.set()

    def _cancel(self) -> None:
        self.end("cancelled")

    def end(self, status: str = "done") -> None:
        self.run.end_call(Ended(ATTEMPT, status), b"value" if status == "done" else None)

    async def serve(self, invitation: bytes) -> None:
        self.outcome = await self.run.serve(invitation)
        self.over.set()

    def decoded(self) -> LaneOutcome:
        assert self.outcome is not None
        return msgspec.msgpack.decode(self.outcome, type=LaneOutcome)


@asynccontextmanager
async def connected(lane: Lane) -> AsyncIterator[FramedChannel]:
    """Serve a lane, and yield the mission's channel to it, which the block may close."""
    async with (
        invite(LANE_CODEC, within=True, network=False) as door,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(lane.serve, door.invitation)
        with trio.fail_after(60):
            async with door.guest() as channel:
                assert [(LaneOpen(3), None)] == await channel.receive()
                await channel.send([(CALL, b"")])
                await lane.began.wait()
                yield channel
                await lane.over.wait()


@pytest.mark.parametrize("mission", ["is there", "is lost"])
async def test_a_lane_that_is_revoked_ends_its_call(mission: str) -> None:
    """The mission gets no word of it by the lane: the call runs elsewhere if it is wanted."""
    lane = Lane()
    async with connected(lane) as channel:
        if mission == "is lost":
            await channel.aclose()
            await trio.testing.wait_all_tasks_blocked(0.05)
        lane.run.revoke()
        await lane.over.wait()
        if mission == "is there":
            with pytest.raises((trio.EndOfChannel, trio.BrokenResourceError)):
                await channel.receive()

    assert lane.outcome is None


async def test_a_call_goes_on_without_its_mission_and_its_outcome_is_that_of_the_lane() -> None:
    lane = Lane()
    async with connected(lane) as channel:
        await channel.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        lane.end()

    [(ended, payload)] = lane.decoded().ends
    assert (CALL.attempt, b"value") == (tuple(ended.attempt), payload)


@pytest.mark.parametrize("recalled", [False, True])
async def test_a_lane_without_a_way_to_its_mission_says_so_unless_it_was_recalled_before(
    recalled: bool,
) -> None:
    lane = Lane()
    async with invite(LANE_CODEC, within=True, network=False) as door:
        invitation = door.invitation
    if recalled:
        lane.run.recall()
    with trio.fail_after(60):
        await lane.serve(invitation)

    assert LaneOutcome(unreachable=not recalled) == lane.decoded()


async def test_ends_leave_together_while_calls_wait_and_soon(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lane = Lane()
    async with connected(lane) as channel:
        await channel.send([(replace(CALL, attempt=(3, n), task=n), b"") for n in range(5, 100)])
        while len(lane.run._calls.waiting) < 95:
            await trio.lowlevel.checkpoint()
        for _ in range(40):
            lane.end()
            lane.run._calls.begin_next()
        first = await channel.receive()
        assert 32 == len(first)
        assert 8 == len(await channel.receive())
        lane.run.recall()
        handed_back = await channel.receive()
        assert {UNBEGUN} == {one.status for one, _ in handed_back if isinstance(one, Ended)}
        assert 55 == len(handed_back)
        lane.end()
        await channel.aclose()
