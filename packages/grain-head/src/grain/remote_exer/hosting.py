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

    from grain.edge.channel import Channel
    from grain.head.events import Event


class HostingExecutor(RemoteExecutor):
    """A scheduler for one mission, with a local worker, that workers of an address may join.

    The same face as `grain.GrainExecutor`, which is faster where no other worker can join: here
    functions, arguments and results travel as bytes to the local worker, too.

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
        super().__init__(name=name, on_event=on_event, connect=self._within)
        if not isinstance(local, Resource):
            raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
        self.local = local
        self.address = address
        self._scopes: list[trio.CancelScope] = []

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        service = self._service = Service()
        worker = ""
        try:
            with collapsing():
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await nursery.start(
                        partial(serve, service.handle, self.address, codec=CODEC), name="serve"
                    )
                    self._shielded(service.run)
                    if self.local.parts():
                        worker = f"{self.name}(local)"
                        self._start_worker(worker)
                    try:
                        async with super()._living():
                            yield
                    finally:
                        if worker:
                            self._on_event(WorkerCleaning(worker))
                        for scope in self._scopes:
                            scope.cancel()
                        nursery.cancel_scope.cancel()
        finally:
            if worker:
                self._on_event(WorkerLeft(worker))

    def _start_worker(self, name: str) -> None:
        ours, theirs = memory_channels()
        self._shielded(self._service.serve, ours, "worker")
        self._shielded(LocalWorker(name, self.local).serve, theirs)
        self._on_event(WorkerJoined(name, self.local))

    @asynccontextmanager
    async def _within(self, mission: str) -> AsyncGenerator[Channel]:
        """The mission's own connection."""
        ours, theirs = memory_channels()
        self._shielded(self._service.serve, theirs, "mission", mission)
        try:
            yield ours
        finally:
            with trio.CancelScope(shield=True):
                await ours.aclose()

    def _shielded(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run something until the jobs have ended, even when the block is cancelled."""
        scope = trio.CancelScope(shield=True)
        self._scopes.append(scope)

        async def run() -> None:
            with scope:
                await function(*args)

        self._nursery.start_soon(run)
