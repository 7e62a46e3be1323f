"""`LaneCalls`: the calls of a lane. No I/O."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from grain.worker.lanes.beginnings import no_place
from grain.worker.messages import (
    LANE,
    UNBEGUN,
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


MOST_KEPT = 64 * 1024**2
"""Bytes of outcomes that are not confirmed with which no further call begins: a mission that does
not read fills no memory here."""


class LaneCalls:
    """The calls of a lane: which one begins, and which outcomes are kept. No I/O.

    The runner knows each call as a run with the attempt of the lane. So what a call prints and
    starts counts as the lane's, whose mission the agent knows.

    Args:
        lane: its run, as the agent has ordered it.
        begin: begins a call: a run of the lane's attempt, with its arguments.
        cancel: cancels the call that was begun; it ends soon.
        define: gives the runner a function, unless it has it.
        begun: has the number of the call that was begun last; by default for no other process.

    Attributes:
        lane: as the argument.
        call: the call under way, as the mission knows it; None if there is none.
        waiting: the calls behind it, in their order.
        closed: True if no other call begins; see `close`.
        revoked: True if the call under way is to end, too.
        kept: the outcomes that are not confirmed.
        unsent: the ends that are to be sent to the mission; to be emptied by `take_unsent`.
    """

    def __init__(
        self,
        lane: StartRun,
        begin: Callable[[StartRun, Any], object],
        cancel: Callable[[], object],
        define: Callable[[bytes, Any], object],
        begun: memoryview | None = None,
    ) -> None:
        self.lane = lane
        self._begun = no_place() if begun is None else begun
        self._begin = begin
        self._cancel = cancel
        self._define = define
        self._functions: dict[bytes, Payload] = {}
        self.call: Attempt | None = None
        self.waiting: deque[tuple[StartRun, Payload]] = deque()
        self.closed = self.revoked = False
        self.kept: dict[Attempt, tuple[Ended, Payload]] = {}
        self._kept_bytes = 0
        self.unsent: list[tuple[Ended, Payload]] = []

    def on_message(self, message: Message, payload: Payload) -> None:
        """Take a message of the mission."""
        if isinstance(message, StartRun):
            if message.function == LANE:
                return
            if self.closed:
                self.unsent.append((Ended(message.attempt, UNBEGUN), None))
                return
            self.waiting.append((message, payload))
            self.begin_next()
        elif isinstance(message, DefineFunction):
            self._functions[message.digest] = payload
        elif isinstance(message, Cancel):
            if message.attempt == self.call:
                if not message.waiting:
                    self._cancel()
            else:
                self._withdraw(message)
        elif isinstance(message, AckRuns):
            for attempt in message.attempts:
                _, outcome = self.kept.pop(attempt, (None, None))
                self._kept_bytes -= 0 if outcome is None else len(outcome)
            self.begin_next()

    def _withdraw(self, message: Cancel) -> None:
        """Let a call not begin that waits."""
        for one in self.waiting:
            if one[0].attempt == message.attempt:
                self.waiting.remove(one)
                status = UNBEGUN if message.waiting else "cancelled"
                self.unsent.append((Ended(message.attempt, status), None))
                return

    def begin_next(self) -> None:
        """Begin the next call, if none is under way."""
        following = self.pop_next()
        if following is not None:
            self._begin(*following)

    def pop_next(self) -> tuple[StartRun, Any] | None:
        """Return the next call, which the caller begins; None if none is to begin now."""
        if self.call is not None or not self.waiting or self._kept_bytes > MOST_KEPT:
            return None
        call, arguments = self.waiting.popleft()
        self.call = call.attempt
        # It stays when the call has ended. If the end is lost with the runner, what the call has
        # left may be what crashed, as when its value is freed.
        self._begun[0] = call.task
        function = self._functions.get(call.function)
        if function is not None:
            self._define(call.function, function)  # the agent may have had it forgotten
        return msgspec.structs.replace(self.lane, function=call.function, task=call.task), arguments

    def end_call(self, ended: Ended, outcome: Payload) -> None:
        """Take the end of the call."""
        assert self.call is not None
        end = msgspec.structs.replace(ended, attempt=self.call), outcome
        self.kept[self.call] = end
        self._kept_bytes += 0 if outcome is None else len(outcome)
        self.unsent.append(end)
        self.call = None

    def take_unsent(self) -> list[tuple[Ended, Payload]]:
        """Return the ends that the mission is to get, once."""
        unsent, self.unsent = self.unsent, []
        return unsent

    def close(self) -> None:
        """Let no other call begin; those that wait are handed back."""
        self.closed = True
        self.unsent += [(Ended(call.attempt, UNBEGUN), None) for call, _ in self.waiting]
        self.waiting.clear()

    def revoke(self) -> None:
        """Let no other call begin, and cancel the one under way."""
        self.close()
        self.revoked = True
        if self.call is not None:
            self._cancel()

    def outcome(self, *, unreachable: bool = False) -> bytes | None:
        """Return the `LaneOutcome` of the lane, whose calls are over; None if it was revoked.

        Calls may have come to an end of their own before that: then their outcomes count all the
        same.

        Args:
            unreachable: as of `LaneOutcome`.
        """
        kept = list(self.kept.values())
        if self.revoked:
            kept = [one for one in kept if one[0].status == "done"]
            if not kept:
                return None
        ends = tuple(
            (ended, None if outcome is None else bytes(whole(outcome))) for ended, outcome in kept
        )
        return msgspec.msgpack.encode(LaneOutcome(unreachable, ends))
