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
    from grain.edge.messages import Message, Payload

CONFIRM = 1.0
"""Seconds for which a recalled lane waits for its mission to confirm the last outcome."""


class LaneCalls:
    """The calls of a lane: which one begins, and which outcome is kept. No I/O.

    The runner knows each call as a run with the attempt of the lane. So what a call prints and
    starts counts as the lane's, whose mission the agent knows.

    Args:
        run: the lane, as the agent has ordered it.
        begin: begins a call: a run of the lane's attempt, with its arguments.
        cancel: cancels the call that was begun; it ends soon.
        define: takes in a function, unless the runner has it.

    Attributes:
        call: the call under way, as the mission knows it; None if there is none.
        closed: True if no other call begins.
        kept: the last outcome, until it is confirmed.
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
        self.call: Attempt | None = None
        self.closed = False
        self.kept: tuple[Ended, Payload] | None = None

    def on_message(self, message: Message, payload: Payload) -> None:
        """Take a message of the mission."""
        if isinstance(message, StartRun):
            if self.call is None and not self.closed:
                self._begin_call(message, payload)
        elif isinstance(message, DefineFunction):
            self._functions[message.digest] = payload
        elif isinstance(message, Cancel):
            if message.attempt == self.call:
                self._cancel()
        elif isinstance(message, AckRuns):
            if self.kept is not None and self.kept[0].attempt in message.attempts:
                self.kept = None

    def _begin_call(self, call: StartRun, arguments: Payload) -> None:
        self.kept = None
        self.call = call.attempt
        function = self._functions.get(call.function)
        if function is not None:
            self._define(call.function, function)  # the agent may have had it forgotten
        run = msgspec.structs.replace(self._run, function=call.function, task=call.task)
        self._begin(run, arguments)

    def end_call(self, ended: Ended, outcome: Payload) -> tuple[Ended, Payload]:
        """Take the end of the call; return what the mission is to get."""
        assert self.call is not None
        self.kept = msgspec.structs.replace(ended, attempt=self.call), outcome
        self.call = None
        return self.kept

    def outcome(self) -> bytes:
        """Return the outcome of the lane, for `grain.worker.messages.kept_by_lane`."""
        if self.kept is None:
            return msgspec.msgpack.encode(())
        ended, outcome = self.kept
        return msgspec.msgpack.encode([(ended, None if outcome is None else whole(outcome))])


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
        self._idle = trio.Event()
        self._idle.set()
        self.revoked = False

    async def serve(self, invitation: bytes) -> bytes:
        """Take calls until the lane is over; return its outcome.

        Cancellation ends it at once.
        """
        with self._scope:
            try:
                async with accept(invitation, LANE_CODEC) as visit:
                    await self._serve(visit.channel)
            except (EdgeError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # it was never connected, or the call goes on without the mission
        self._channel = None
        self._calls.closed = True
        if self.revoked and self._calls.call is not None:
            self._cancel()
        await self._idle.wait()
        return self._calls.outcome()

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

    def revoke(self) -> None:
        """End the lane, and the call that it has."""
        self.revoked = True
        self._scope.cancel()

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
