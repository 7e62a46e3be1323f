"""`LaneCalls`: the calls of a lane. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from grain.worker.messages import (
    LANE,
    AckRuns,
    Attempt,
    Cancel,
    DefineFunction,
    Ended,
    LaneOutcome,
    StartRun,
)
from grain.worker.payload import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message, Payload


class LaneCalls:
    """The calls of a lane: which one begins, and which outcome is kept. No I/O.

    The runner knows each call as a run with the attempt of the lane. So what a call prints and
    starts counts as the lane's, whose mission the agent knows.

    Args:
        lane: its run, as the agent has ordered it.
        begin: begins a call: a run of the lane's attempt, with its arguments.
        cancel: cancels the call that was begun; it ends soon.
        define: gives the runner a function, unless it has it.

    Attributes:
        lane: as the argument.
        call: the call under way, as the mission knows it; None if there is none.
        closed: True if no other call begins.
        revoked: True if the call under way is to end, too.
        kept: the last outcome, until it is confirmed.
    """

    def __init__(
        self,
        lane: StartRun,
        begin: Callable[[StartRun, Any], object],
        cancel: Callable[[], object],
        define: Callable[[bytes, Any], object],
    ) -> None:
        self.lane = lane
        self._begin = begin
        self._cancel = cancel
        self._define = define
        self._functions: dict[bytes, Payload] = {}
        self.call: Attempt | None = None
        self.closed = self.revoked = False
        self.kept: tuple[Ended, Payload] | None = None

    def on_message(self, message: Message, payload: Payload) -> None:
        """Take a message of the mission."""
        if isinstance(message, StartRun):
            if self.call is None and not self.closed and message.function != LANE:
                self._begin_call(message, payload)
        elif isinstance(message, DefineFunction):
            self._functions[message.digest] = payload
        elif isinstance(message, Cancel):
            if message.attempt == self.call:
                self._cancel()
        elif isinstance(message, AckRuns):
            kept = self.kept
            self.kept = None if kept and kept[0].attempt in message.attempts else kept

    def _begin_call(self, call: StartRun, arguments: Payload) -> None:
        self.kept = None
        self.call = call.attempt
        function = self._functions.get(call.function)
        if function is not None:
            self._define(call.function, function)  # the agent may have had it forgotten
        run = msgspec.structs.replace(self.lane, function=call.function, task=call.task)
        self._begin(run, arguments)

    def end_call(self, ended: Ended, outcome: Payload) -> tuple[Ended, Payload]:
        """Take the end of the call; return what the mission is to get."""
        assert self.call is not None
        self.kept = msgspec.structs.replace(ended, attempt=self.call), outcome
        self.call = None
        return self.kept

    def revoke(self) -> None:
        """Let no other call begin, and cancel the one under way."""
        self.closed = self.revoked = True
        if self.call is not None:
            self._cancel()

    def outcome(self, *, unreachable: bool = False) -> bytes | None:
        """Return the `LaneOutcome` of the lane, whose calls are over; None if it was revoked.

        A call may have come to an end of its own before that: then its outcome counts all the same.

        Args:
            unreachable: as of `LaneOutcome`.
        """
        ended, payload = self.kept or (None, None)
        if self.revoked and (ended is None or ended.status != "done"):
            return None
        kept = None if payload is None else bytes(whole(payload))
        return msgspec.msgpack.encode(LaneOutcome(unreachable, ended, kept))
