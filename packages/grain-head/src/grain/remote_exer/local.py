"""A worker in the process of a mission: the agent's shell around a `Runner` in the same trio."""

from __future__ import annotations

import math
import secrets
import socket
from typing import TYPE_CHECKING

import trio

from grain.edge.channel import memory_channels
from grain.edge.version import own_versions
from grain.worker import Runner
from grain.worker.messages import Ended, Inspected, Leaving
from grain.worker.payload import whole
from grain.worker.session import WireTranslation, WorkerSession

if TYPE_CHECKING:
    from grain.edge.channel import WireBatch, WireChannel
    from grain.edge.messages import Message, Payload, WireBytes
    from grain.resource import Resource


class LocalWorker:
    """A worker without processes of its own: what a tasklet does to its process, it does to ours.

    Args:
        name: what people call it, and tasklets see as ``GVAR.instance``.
        total: its resources.
        head: the channel to its head, which stays open when it has ended.
    """

    def __init__(self, name: str, total: Resource, head: WireChannel) -> None:
        self.name = name
        self._head = head
        self._to_runner: WireChannel
        self._of_runner: WireChannel
        self._to_runner, self._of_runner = memory_channels()
        self._session = WorkerSession(
            secrets.token_hex(8),
            name,
            socket.gethostname(),
            total,
            trio.current_time(),
            versions=own_versions(),
        )
        self._functions = self._session.functions.feed()
        self._changed = trio.Event()
        self._looks_at = math.inf

    async def serve(self) -> None:
        """Run what the head sends, until its channel ends; cancelling it cancels the runs."""
        self._session.on_connected(trio.current_time())
        try:
            async with trio.open_nursery() as nursery:
                runner: Runner[WireBytes, WireBytes]
                runner = Runner(self.name, self._of_runner, WireTranslation(self.name))
                nursery.start_soon(runner.serve)
                nursery.start_soon(self._to_runner.receive_into, self._on_ended)
                nursery.start_soon(self._let_time_pass)
                self._flush()
                await self._head.receive_into(self._take)
                nursery.cancel_scope.cancel()
        except BaseException:
            # As Ctrl-C in a tasklet. Nothing runs here any more; a head that does not learn so
            # would wait for the ends of those runs, and nobody else can report them: the channel
            # stays open.
            self._post([(Leaving(), None)])
            raise

    async def _let_time_pass(self) -> None:
        while not self._session.finished:
            self._session.on_tick(trio.current_time())
            self._flush()
            self._changed = trio.Event()
            self._looks_at = self._session.next_tick()
            with trio.move_on_at(self._looks_at):
                await self._changed.wait()

    def _take(self, batch: WireBatch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            self._session.on_message(message, payload, now)
        self._flush()

    def _on_ended(self, batch: WireBatch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            if isinstance(message, Ended):
                # In one piece: the parts of a result would keep the whole of it alive beside what
                # is loaded from them.
                self._session.on_ended(message, payload and whole(payload), now)
            elif isinstance(message, Inspected):
                self._session.on_inspected(message)
        self._flush()

    def _flush(self) -> None:
        """Send the session's messages, to the runner and to the head."""
        if self._session.next_tick() < self._looks_at:
            self._changed.set()
        orders = self._session.take_orders()
        if orders:
            self._to_runner.post(self._functions.complete(orders))
        mail = self._session.take_mail()
        if mail:
            self._post(mail)

    def _post(self, mail: list[tuple[Message, Payload]]) -> None:
        try:
            self._head.post(mail)
        except trio.BrokenResourceError:
            pass  # the head has left, and needs none of it
