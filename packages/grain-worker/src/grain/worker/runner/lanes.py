"""Lanes: runs that take brief calls straight from their mission, one after the other.

A call that goes through the scheduler wakes six processes in turn. While nothing waits for the
resources of a worker, the scheduler lends them to a mission for a *lane*: an ordinary run, which
connects to the mission (`grain.edge.invitation`) and takes calls from it, as a runner takes them
from its agent. Each call uses what the lane was given. `grain.remote_exer.lanes` has the mission's
side.

1.  The mission has one call in a lane at a time. So the next call says that the outcome of the last
    one has arrived; `AckRuns` says so where none follows.
2.  An outcome that is not confirmed when the lane ends goes into the outcome of the lane's own run.
    That one travels through agent and scheduler, and is kept until the mission has it.
3.  A call that the mission has sent, and that has no outcome when the lane has ended, has not begun,
    or crashed with the lane.
4.  A lane that is recalled ends when the call that it has is over; so does one whose mission is
    gone. It begins no call that comes later. A lane that is revoked ends that call, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain.edge.errors import ChannelError, EdgeError
from grain.edge.invitation import accept
from grain.worker.messages import (
    LANE_CODEC,
    AckRuns,
    Attempt,
    Cancel,
    DefineFunction,
    Ended,
    LaneOpen,
    Recall,
    StartRun,
)
from grain.worker.payload import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.messages import Payload

CONFIRM = 1.0
"""Seconds for which a recalled lane waits for its mission to confirm the last outcome."""


class LaneRun:
    """A lane in a runner, which knows its calls by the attempt of the lane.

    So what a call prints and starts counts as the lane's, whose mission the agent knows.

    Args:
        run: the lane, as the agent has ordered it.
        begin: begins a call: a run of the lane's attempt, with its arguments.
        cancel: cancels the call that was begun; it ends soon.
        define: takes in a function, unless the runner has it.

    Attributes:
        cancelled: True if the lane was revoked.
    """

    def __init__(
        self,
        run: StartRun,
        begin: Callable[[StartRun, Any], object],
        cancel: Callable[[], object],
        define: Callable[[bytes, Any], object],
    ) -> None:
        self._run = run
        self._begin = begin
        self._cancel = cancel
        self._define = define
        self._functions: dict[bytes, Payload] = {}
        self._channel: FramedChannel | None = None
        self._scope = trio.CancelScope()
        # The call under way, as the mission knows it; and that there is none.
        self._call: Attempt | None = None
        self._idle = trio.Event()
        self._idle.set()
        self._recalled = trio.Event()
        # The last outcome, until it is confirmed.
        self._kept: tuple[Ended, Payload] | None = None
        self.cancelled = False

    async def serve(self, invitation: bytes) -> bytes:
        """Take calls until the lane is over.

        Cancellation ends it at once.

        Returns:
            The outcomes that the mission may not have, as `kept_by_lane` reads them.
        """
        with self._scope:
            try:
                async with accept(invitation, LANE_CODEC) as visit:
                    await self._serve(visit.channel)
            except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # it was never connected, or the call goes on without the mission
        self._recalled.set()  # nothing begins any more
        self._channel = None
        if self.cancelled and self._call is not None:
            self._cancel()
        await self._idle.wait()
        if self._kept is None:
            return msgspec.msgpack.encode(())
        ended, outcome = self._kept
        return msgspec.msgpack.encode([(ended, None if outcome is None else whole(outcome))])

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

    async def _end_when_recalled(self, channel: FramedChannel, scope: trio.CancelScope) -> None:
        await self._recalled.wait()
        await self._idle.wait()
        channel.post([(Recall(self._run.attempt), None)])
        await trio.sleep(CONFIRM)  # the mission closes the channel before
        scope.cancel()

    # ---- what others order

    def recall(self) -> None:
        """End the lane when the call that it has is over."""
        self._recalled.set()

    def revoke(self) -> None:
        """End the lane, and the call that it has."""
        self.cancelled = True
        self._scope.cancel()

    # ---- calls

    def _take(self, batch: WireBatch) -> None:
        for message, payload in batch:
            if isinstance(message, StartRun):
                if self._call is None and not self._recalled.is_set():
                    self._begin_call(message, payload)
            elif isinstance(message, DefineFunction):
                self._functions[message.digest] = payload
            elif isinstance(message, Cancel):
                if message.attempt == self._call:
                    self._cancel()
            elif isinstance(message, AckRuns):
                if self._kept is not None and self._kept[0].attempt in message.attempts:
                    self._kept = None

    def _begin_call(self, call: StartRun, arguments: Payload) -> None:
        self._kept = None
        self._call = call.attempt
        self._idle = trio.Event()
        function = self._functions.get(call.function)
        if function is not None:
            self._define(call.function, function)  # the agent may have had it forgotten
        run = msgspec.structs.replace(self._run, function=call.function, task=call.task)
        self._begin(run, arguments)

    def end_call(self, ended: Ended, outcome: Payload) -> None:
        """Report the end of the call, and keep its outcome."""
        assert self._call is not None
        ended = msgspec.structs.replace(ended, attempt=self._call)
        self._call = None
        self._kept = ended, outcome
        if self._channel is not None:
            try:
                self._channel.post([(ended, outcome)])
            except (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # `serve` is about to notice
        self._idle.set()
