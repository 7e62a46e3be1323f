"""The runner: executes the runs that a head asks for, and tells it how they ended.

It is the same code at the end of an in-memory channel in the mission's process (the local worker)
and in a process of its own.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from grain.resource import Resource, from_data
from grain.worker.job import Call, run_job
from grain.worker.messages import Cancel, Ended, Run

if TYPE_CHECKING:
    from grain.edge.channel import Channel


class Runner:
    """Executes runs.

    Args:
        name: the worker's name, which tasklets see as ``GVAR.instance``.
        channel: the channel to the head. The runner does not close it.
    """

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self._channel = channel
        # By task and attempt.
        self._scopes: dict[tuple[int, int], trio.CancelScope] = {}

    async def serve(self) -> None:
        """Take runs from the channel until its other end is closed, then until they have ended.

        Cancelling it cancels the runs, and it returns when nothing of them is left.
        """
        async with trio.open_nursery() as runs:
            while True:
                try:
                    batch = await self._channel.receive()
                except trio.EndOfChannel:
                    return
                for message, payload in batch:
                    if type(message) is Run:
                        self._start(message, payload, runs)
                    elif type(message) is Cancel:
                        self._cancel(message)

    def _start(self, message: Run, call: Call, runs: trio.Nursery) -> None:
        key = (message.task, message.attempt)
        if key in self._scopes:
            return  # delivered twice
        scope = self._scopes[key] = trio.CancelScope()
        runs.start_soon(self._run, message, call, scope, name=call.fn)

    def _cancel(self, message: Cancel) -> None:
        scope = self._scopes.get((message.task, message.attempt))
        if scope is not None:
            scope.cancel()

    async def _run(self, message: Run, call: Call, scope: trio.CancelScope) -> None:
        res = message.res if isinstance(message.res, Resource) else from_data(message.res)
        limit = math.inf if message.limit is None else message.limit
        ended = await run_job(call, res, self.name, limit, scope)
        del self._scopes[message.task, message.attempt]
        status = "cancelled" if ended is None else "done"
        with suppress(trio.BrokenResourceError):  # the head has left: nobody wants to know
            self._channel.post([(Ended(message.task, message.attempt, status), ended)])
