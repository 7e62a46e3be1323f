"""`LaneRun`: the run of a lane, with its connection to the mission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from grain.edge.errors import ChannelError, EdgeError
from grain.edge.invitation import accept
from grain.worker.messages import LANE_CODEC, LANE_HEARTBEAT, LaneOpen, Recall

if TYPE_CHECKING:
    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.messages import Payload
    from grain.worker.lanes.calls import LaneCalls
    from grain.worker.messages import Ended, StartRun

CONNECT = 3.0
"""Seconds for which a lane tries each address: as long it holds its resources for nothing, and a
call may wait for it. A firewall may drop what it sends."""

CONFIRM = 1.0
"""Seconds for which a recalled lane waits for its mission to confirm the last outcome."""

_TOGETHER = 0.01
"""Seconds for which the end of a call may wait to be sent with those of the next ones."""

_MOST_TOGETHER = 32
"""Ends that are sent together: much fewer than a full window has."""

_MUCH = 65536  # bytes of outcomes that are sent at once


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
        # Set while ends wait to be sent together, and the bytes of these.
        self._waits = trio.Event()
        self._bytes = 0
        self._until_ended = trio.lowlevel.ParkingLot()

    async def serve(self, invitation: bytes) -> bytes | None:
        """Take calls until the lane is over; return its outcome, as `LaneCalls.outcome` does.

        Cancellation ends it at once.
        """
        connected = False
        with self._scope:
            try:
                async with accept(
                    invitation, LANE_CODEC, LANE_HEARTBEAT, patience=CONNECT
                ) as visit:
                    connected = True
                    await self._serve(visit.channel)
            except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # it was never connected, or the call goes on without the mission
        # One that was told to end while it tried says nothing about the way to the mission.
        unreachable = not (connected or self._calls.closed)
        self._channel = None
        self._calls.close()
        await self._wait_for_call()
        return self._calls.outcome(unreachable=unreachable)

    async def _serve(self, channel: FramedChannel) -> None:
        self._channel = channel
        channel.post([(LaneOpen(self._calls.lane.task), None)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_recalled, channel, nursery.cancel_scope)
            nursery.start_soon(self._send_in_time)
            try:
                await channel.receive_into(self._take)
            except (ChannelError, trio.ClosedResourceError):
                pass  # in here, where no group can be made of it
            nursery.cancel_scope.cancel()

    def _take(self, batch: WireBatch) -> None:
        for message, payload in batch:
            self._calls.on_message(message, payload)
        if self._calls.unsent:
            self._send()

    def _send(self) -> None:
        """Send all ends that wait for that; they are kept until they are confirmed."""
        ends = self._calls.take_unsent()
        self._bytes = 0
        if self._channel is not None and ends:
            try:
                self._channel.post(ends)
            except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # `serve` is about to notice

    async def _send_in_time(self) -> None:
        """Send ends that have waited for others."""
        while True:
            await self._waits.wait()
            await trio.sleep(_TOGETHER)
            self._waits = trio.Event()
            self._send()

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
        self._calls.close()
        self._send()
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
        """Report the end of the call; if others wait, together with the next ones."""
        calls = self._calls
        calls.end_call(ended, outcome)
        self._bytes += 0 if outcome is None else len(outcome)
        if not calls.waiting or len(calls.unsent) >= _MOST_TOGETHER or self._bytes >= _MUCH:
            self._send()
        else:
            self._waits.set()
        self._until_ended.unpark_all()

    def pop_next(self) -> tuple[StartRun, Any] | None:
        """Return the call that begins now that the last one is over; None if none does."""
        return self._calls.pop_next()
