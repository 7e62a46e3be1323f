"""The runner: executes the runs that a head asks for, and tells it how they ended.

It is the same code at the end of an in-memory channel in the mission's process (the local worker)
and in a process of its own, where a `Translation` stands between bytes and objects.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Protocol

import outcome
import trio

from grain.resource import Resource, from_data
from grain.worker.errors import PayloadError
from grain.worker.job import Call, run_job
from grain.worker.messages import Cancel, Ended, Run
from grain.worker.runner.chains import Waiting

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from grain.edge.channel import Batch, Channel
    from grain.edge.messages import Message, Payload
    from grain.worker.job import Outcome


_TOGETHER = 0.002
"""Seconds for which the end of a run may wait to be told with those of runs in line behind it."""


class Translation(Protocol):
    """Between what travels over a wire and what the runner works with."""

    def learn(self, message: Message, payload: Payload) -> None:
        """Take a message that is about functions, not about a run."""

    def decode(self, message: Run, payload: Payload) -> tuple[Run, Call]:
        """A run with its resource and its call as objects.

        Raises:
            PayloadError: this run cannot take place.
        """

    def encode(self, ended: Outcome, call: Call | None) -> tuple[Payload, bool]:
        """An outcome as bytes, and whether these are an exception. Raises nothing."""


class Lane:
    """A nursery in which one run at a time takes place, by which that run is cancelled.

    A cancel scope for each run would do, and is what the first runs get; but opening and closing
    one costs as much as the rest of a short run. A lane is opened once and serves many runs.
    """

    __slots__ = ("_nursery", "cancelled")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.cancelled = False

    def start(self, run: Callable[..., Awaitable[None]], message: Run, call: Call) -> None:
        self._nursery.start_soon(run, message, call, self, name=call.fn)

    def cancel(self) -> None:
        self.cancelled = True
        self._nursery.cancel_scope.cancel()


class Runner:
    """Executes runs.

    Args:
        name: the worker's name, which tasklets see as ``GVAR.instance``.
        channel: the channel to the head. The runner does not close it.
        translation: for a channel over a wire; None where functions travel as objects.
    """

    def __init__(self, name: str, channel: Channel, translation: Translation | None = None) -> None:
        self.name = name
        self._channel = channel
        self._translation = translation
        # What is under way, by task and attempt, and what cancels it.
        self._runs: dict[tuple[int, int], Lane | trio.CancelScope] = {}
        self._idle: list[Lane] = []
        self._waiting = Waiting()
        # Ends that are told together, and since when the first of them waits for that.
        self._untold: list[tuple[Ended, Payload]] = []
        self._untold_since = 0.0
        self._nursery: trio.Nursery | None = None
        self._leaving = False

    async def serve(self) -> None:
        """Take runs from the channel until its other end is closed, then until they have ended.

        Cancelling it cancels the runs, and it returns when nothing of them is left.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._channel.receive_into(self._take)
            self._leaving = True
            self._waiting.clear()
            for lane in self._idle:
                lane.cancel()

    def _take(self, batch: Batch) -> None:
        for message, payload in batch:
            if type(message) is Run:
                chain = message.chain  # an agent numbers its runs: task and attempt are the same
                if not chain or self._waiting.admit(
                    message, payload, first_runs=(chain, chain) in self._runs
                ):
                    self._start(message, payload)
            elif type(message) is Cancel:
                self._cancel(message)
            elif self._translation is not None:
                self._translation.learn(message, payload)

    def _start(self, message: Run, call: Call) -> None:
        key = (message.task, message.attempt)
        if key in self._runs:
            return  # delivered twice
        if self._translation is not None:
            try:
                message, call = self._translation.decode(message, call)
            except PayloadError as error:
                # Told later: over a channel in memory the answer is there before this returns, and
                # would find the rest of the batch not taken yet.
                assert self._nursery is not None
                self._runs[key] = trio.CancelScope()
                self._nursery.start_soon(self._refuse, message, error)
                return
        if self._idle:
            lane = self._runs[key] = self._idle.pop()
            lane.start(self._run_in_lane, message, call)
        else:
            assert self._nursery is not None
            scope = self._runs[key] = trio.CancelScope()
            self._nursery.start_soon(self._run_in_scope, message, call, scope, name=call.fn)
            self._nursery.start_soon(self._open_lane)

    async def _refuse(self, message: Run, error: PayloadError) -> None:
        self._tell(message, outcome.Error(error), None)
        self._follow(message)

    def _follow(self, message: Run) -> None:
        """A run has ended: begin what waits for that."""
        following = self._waiting.ended(message)
        if following is not None:
            self._start(*following)

    def _cancel(self, message: Cancel) -> None:
        run = self._runs.get((message.task, message.attempt))
        if run is None:
            withdrawn = self._waiting.withdraw(message.task)
            if withdrawn is not None:
                status = "returned" if message.waiting else "cancelled"
                assert self._nursery is not None
                self._nursery.start_soon(
                    self._withdraw, Ended(message.task, message.attempt, status)
                )
        elif not message.waiting:
            run.cancel()

    async def _withdraw(self, ended: Ended) -> None:
        self._end(ended, None)

    async def _open_lane(self) -> None:
        async with trio.open_nursery() as nursery:
            self._idle.append(Lane(nursery))
            await trio.sleep_forever()

    async def _run_in_lane(self, message: Run, call: Call, lane: Lane) -> None:
        ended: Outcome | None = None
        try:
            ended = await self._job(message, call, None)
        except BaseException as error:
            # Of a cancelled run nothing matters any more, but that Ctrl-C ends more than the run.
            if not lane.cancelled or has_interrupt(error):
                raise
        self._tell(message, ended, call)
        if self._leaving:
            lane.cancel()
        elif not lane.cancelled:
            self._idle.append(lane)
        if self._waiting.lines:
            self._follow(message)

    async def _run_in_scope(self, message: Run, call: Call, scope: trio.CancelScope) -> None:
        self._tell(message, await self._job(message, call, scope), call)
        self._follow(message)

    def _job(
        self, message: Run, call: Call, scope: trio.CancelScope | None
    ) -> Coroutine[Any, Any, Outcome | None]:
        res = message.res if isinstance(message.res, Resource) else from_data(message.res)
        limit = math.inf if message.limit is None else message.limit
        return run_job(call, res, self.name, limit, scope)

    def _tell(self, message: Run, ended: Outcome | None, call: Call | None) -> None:
        del self._runs[message.task, message.attempt]
        status = "cancelled" if ended is None else "done"
        payload: Payload = ended
        failed = type(ended) is outcome.Error
        if self._translation is not None and ended is not None:
            payload, failed = self._translation.encode(ended, call)
        self._end(Ended(message.task, message.attempt, status, failed), payload)

    def _end(self, ended: Ended, payload: Payload) -> None:
        """Tell that a run has ended; where brief ones follow it, with the end of those."""
        self._untold.append((ended, payload))
        if not self._waiting.count:
            self._tell_all()
            return
        now = trio.current_time()
        if len(self._untold) == 1:
            assert self._nursery is not None
            self._untold_since = now
            self._nursery.start_soon(self._tell_soon)
        elif now - self._untold_since > _TOGETHER:
            self._tell_all()

    async def _tell_soon(self) -> None:
        await trio.sleep(_TOGETHER)
        self._tell_all()

    def _tell_all(self) -> None:
        untold, self._untold = self._untold, []
        if not untold:
            return
        try:
            # Runs that were started together mostly end together.
            self._channel.post(untold, more=bool(self._runs))
        except trio.BrokenResourceError:
            pass  # the head has left: nobody wants to know


def has_interrupt(error: BaseException) -> bool:
    """Whether an exception is, or holds, an interrupt from the keyboard."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)
