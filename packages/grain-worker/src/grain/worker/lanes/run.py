"""`LaneRun`: the run of a lane, with its connection to the mission."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import ChannelError, EdgeError
from grain.edge.invitation import accept
from grain.worker.messages import LANE_CODEC, LANE_HEARTBEAT, LaneOpen, Recall

if TYPE_CHECKING:
    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.messages import Payload
    from grain.worker.lanes.calls import LaneCalls
    from grain.worker.messages import Ended

CONNECT = 3.0
"""Seconds for which a lane tries to connect: as long it holds its resources for nothing, and a call
may wait for it. A firewall may drop what it sends."""

CONFIRM = 1.0
"""Seconds for which a recalled lane waits for its mission to confirm the last outcome."""


class LaneRun:
    """The run of a lane, which a runner starts: `LaneCalls` with their connection.

    Args:
        calls: its calls.
    """

    def __init__(self, calls: LaneCalls) -> None:
        self._calls = calls
        self._channel: FramedChannel | None = None  # None before, after, and once it is revoked
        self._scope = trio.CancelScope()  # of the connection; a call goes on without that
        self._recalled = trio.Event()
        self._until_ended = trio.lowlevel.ParkingLot()

    async def serve(self, invitation: bytes) -> bytes | None:
        """Take calls until the lane is over; return its outcome, as `LaneCalls.outcome` does.

        Cancellation ends it at once.
        """
        connected = False
        self._scope.deadline = trio.current_time() + CONNECT
        with self._scope:
            try:
                async with accept(invitation, LANE_CODEC, LANE_HEARTBEAT) as visit:
                    connected = True
                    self._scope.deadline = math.inf
                    await self._serve(visit.channel)
            except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # it was never connected, or the call goes on without the mission
        # One that was told to end while it tried says nothing about the way to the mission.
        unreachable = not (connected or self._calls.closed)
        self._channel = None
        self._calls.closed = True
        await self._wait_for_call()
        return self._calls.outcome(unreachable=unreachable)

    async def _serve(self, channel: FramedChannel) -> None:
        self._channel = channel
        channel.post([(LaneOpen(self._calls.lane.task), None)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_recalled, channel, nursery.cancel_scope)
            try:
                await channel.receive_into(self._take)
            except (ChannelError, trio.ClosedResourceError):
                pass  # in here, where no group can be made of it
            nursery.cancel_scope.cancel()

    def _take(self, batch: WireBatch) -> None:
        for message, payload in batch:
            self._calls.on_message(message, payload)

    async def _wait_for_call(self) -> None:
        while self._calls.call is not None:
            await self._until_ended.park()

    async def _end_when_recalled(self, channel: FramedChannel, scope: trio.CancelScope) -> None:
        await self._recalled.wait()
        await self._wait_for_call()
        try:
            channel.post([(Recall(self._calls.lane.attempt), None)])
            await trio.sleep(CONFIRM)  # the mission closes the channel before
        except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it is lost
        scope.cancel()

    def recall(self) -> None:
        """End the lane when the call that it has is over."""
        self._calls.closed = True
        self._recalled.set()
        if self._channel is None:
            self._scope.cancel()  # it is still connecting

    def revoke(self) -> None:
        """End the lane, and the call that it has."""
        # The mission is to have the end of the call from the scheduler, which knows the reason.
        self._channel = None
        self._scope.cancel()
        self._calls.revoke()

    def end_call(self, ended: Ended, outcome: Payload) -> None:
        """Report the end of the call."""
        report = self._calls.end_call(ended, outcome)
        if self._channel is not None:
            try:
                self._channel.post([report])
            except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # `serve` is about to notice; the outcome is kept
        self._until_ended.unpark_all()
