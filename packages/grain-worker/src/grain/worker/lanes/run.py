"""`LaneRun`: the run of a lane, with its connection to the mission."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain.edge.errors import ChannelError, DialError, EdgeError
from grain.edge.invitation import accept
from grain.worker.lanes.calls import LaneCalls
from grain.worker.messages import LANE_CODEC, LANE_HEARTBEAT, Ended, LaneOpen, Recall, StartRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.messages import Payload

CONNECT = 3.0
"""Seconds for which a lane tries to connect: as long it holds its resources for nothing, and a call
may wait for it. A firewall may drop what it sends."""

CONFIRM = 1.0
"""Seconds for which a recalled lane waits for its mission to confirm the last outcome."""


class LaneRun:
    """The run of a lane, which a runner starts: `LaneCalls` with its connection.

    Args:
        run: the lane, as the agent has ordered it.
        begin, cancel, define: as of `LaneCalls`.

    Attributes:
        revoked: True if the call is to end, too.
    """

    def __init__(
        self,
        run: StartRun,
        begin: Callable[[StartRun, Any], object],
        cancel: Callable[[], object],
        define: Callable[[bytes, Any], object],
    ) -> None:
        self._run = run
        self._calls = LaneCalls(run, self._begin, cancel, define)
        self._begin_run = begin
        self._cancel = cancel
        self._channel: FramedChannel | None = None
        self._scope = trio.CancelScope()
        self._recalled = trio.Event()
        self._unreachable = False
        self._idle = trio.Event()
        self._idle.set()
        self.revoked = False

    async def serve(self, invitation: bytes) -> bytes | None:
        """Take calls until the lane is over; return its `LaneOutcome`; None if it was revoked.

        If a call has ended before that, whose outcome the mission may not have, that is returned
        all the same. Cancellation ends it at once.
        """
        self._scope.deadline = trio.current_time() + CONNECT
        with self._scope:
            try:
                async with accept(invitation, LANE_CODEC, LANE_HEARTBEAT) as visit:
                    self._scope.deadline = math.inf
                    await self._serve(visit.channel)
            except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                # It was never connected, or the call goes on without the mission.
                self._unreachable = isinstance(error, DialError)
        if self._scope.cancelled_caught and self._scope.deadline < math.inf:
            self._unreachable = not (self.revoked or self._calls.closed)
        self._channel = None
        self._calls.closed = True
        await self._idle.wait()
        if self.revoked and not self._calls.done:
            return None
        outcome = msgspec.structs.replace(self._calls.outcome(), unreachable=self._unreachable)
        return msgspec.msgpack.encode(outcome)

    async def _serve(self, channel: FramedChannel) -> None:
        self._channel = channel
        channel.post([(LaneOpen(self._run.task), None)])
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

    async def _end_when_recalled(self, channel: FramedChannel, scope: trio.CancelScope) -> None:
        await self._recalled.wait()
        await self._idle.wait()
        try:
            channel.post([(Recall(self._run.attempt), None)])
            await trio.sleep(CONFIRM)  # the mission closes the channel before
        except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it is lost
        scope.cancel()

    # ---- what others order

    def recall(self) -> None:
        """End the lane when the call that it has is over."""
        self._calls.closed = True
        self._recalled.set()
        if self._channel is None:
            self._scope.cancel()  # it is still connecting

    def revoke(self) -> None:
        """End the lane, and the call that it has."""
        self.revoked = self._calls.closed = True
        # The mission is to have the end of the call from the scheduler, which knows the reason.
        self._channel = None
        self._scope.cancel()
        if self._calls.call is not None:
            self._cancel()

    # ---- calls

    def _begin(self, run: StartRun, arguments: Any) -> None:
        self._idle = trio.Event()
        self._begin_run(run, arguments)

    def end_call(self, ended: Ended, outcome: Payload) -> None:
        """Report the end of the call."""
        report = self._calls.end_call(ended, outcome)
        if self._channel is not None:
            try:
                self._channel.post([report])
            except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # `serve` is about to notice; the outcome is kept
        self._idle.set()
