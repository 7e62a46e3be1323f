"""`HostingExecutor`: a mission with a scheduler of its own, which other workers may join."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import serve
from grain.edge.channel import memory_channels
from grain.head.collapse import collapsing
from grain.head.events import WorkerCleaning, WorkerJoined, WorkerLeft
from grain.head.service import CODEC, Service
from grain.remote_exer.executor import RemoteExecutor
from grain.remote_exer.local import LocalWorker
from grain.resource import ZERO, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from grain.edge.channel import WireChannel
    from grain.head.events import Event


class HostingExecutor(RemoteExecutor):
    """An executor with a scheduler within, and a local worker; other workers may join.

    It has the same face as `grain.GrainExecutor`, which is faster where no other worker can join:
    here functions, arguments and results travel as bytes to the local worker, too.

    Args:
        local: the resources of the local worker; without them there is none.
        address: where other workers may join.
        name: the mission's name.
        on_event: called, in order, with each `grain.head.events.Event`.
    """

    def __init__(
        self,
        local: Resource = ZERO,
        *,
        address: str,
        name: str | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        super().__init__(name=name, on_event=on_event, connect=self._connect)
        if not isinstance(local, Resource):
            raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
        self.local = local
        self.address = address
        self._host: _Host | None = None

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        worker = ""
        try:
            with collapsing():
                async with trio.open_nursery() as nursery:
                    host = self._host = _Host(nursery)
                    await host.serve(self.address)
                    if self.local.parts():
                        worker = f"{self.name}(local)"
                        host.start_worker(worker, self.local)
                        self._on_event(WorkerJoined(worker, self.local))
                    try:
                        async with super()._living():
                            yield
                    finally:
                        if worker:
                            self._on_event(WorkerCleaning(worker))
                        host.stop()
        finally:
            if worker:
                self._on_event(WorkerLeft(worker))

    @asynccontextmanager
    async def _connect(self, mission: str) -> AsyncGenerator[WireChannel]:
        """Open the mission's own connection; the link asks for it only while the host lives."""
        assert self._host is not None
        async with self._host.connect(mission) as channel:
            yield channel


class _Host:
    """The scheduler within a mission, and what connects to it in the same process.

    All of it runs until `stop`, even when the nursery is cancelled: it takes a scheduler and a
    worker to cancel what runs.

    Args:
        nursery: runs it.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.service = Service()
        self._nursery = nursery
        self._scopes: list[trio.CancelScope] = []

    async def serve(self, address: str) -> None:
        """Serve, and let other workers join at an address; returns as soon as they may.

        Raises:
            grain.edge.errors.EdgeError: it cannot serve there.
        """
        await self._nursery.start(partial(serve, self.service.handle, address, codec=CODEC))
        # Not before: nothing would stop it if there is an error above.
        self._shielded(self.service.run)

    def start_worker(self, name: str, total: Resource) -> None:
        """Start a worker in this process."""
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        self._shielded(self.service.serve, ours, "worker")
        self._shielded(LocalWorker(name, total, theirs).serve)

    @asynccontextmanager
    async def connect(self, mission: str) -> AsyncGenerator[WireChannel]:
        """Open a connection to the scheduler for the mission of an id."""
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        self._shielded(self.service.serve, theirs, "mission", mission)
        try:
            yield ours
        finally:
            with trio.CancelScope(shield=True):
                await ours.aclose()

    def stop(self) -> None:
        """Cancel all of it, and the nursery with the acceptor of other workers."""
        for scope in self._scopes:
            scope.cancel()
        self._nursery.cancel_scope.cancel()

    def _shielded(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        scope = trio.CancelScope(shield=True)
        self._scopes.append(scope)

        async def run() -> None:
            with scope:
                await function(*args)

        self._nursery.start_soon(run)
