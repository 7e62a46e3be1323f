"""`HostingExecutor`: a mission with a scheduler of its own, which other workers may join."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import serve
from grain.edge.channel import memory_channels
from grain.edge.errors import Superseded
from grain.head.collapse import collapsing
from grain.head.events import HostingFailed, Remark, WorkerCleaning, WorkerJoined, WorkerLeft
from grain.head.executor import infeasible
from grain.head.gnaw.counting import SharedResources
from grain.head.scheduler.explain import why_never
from grain.head.scheduler.scheduler import Scheduler
from grain.head.service import CODEC, HubService
from grain.remote_exer.executor import RemoteExecutor
from grain.remote_exer.local import LocalWorker
from grain.resource import ZERO, Resource
from grain.worker import local_offer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from grain.edge import Serving
    from grain.edge.channel import WireChannel
    from grain.head.events import Event
    from grain.head.run_log import RunLog
    from grain.worker import LocalOffer


class HostingExecutor(RemoteExecutor):
    """An executor with a scheduler within, and a local worker; other workers may join.

    It has the same face as `grain.GrainExecutor`, which is faster where no other worker can join:
    here functions, arguments and results travel as bytes to the local worker, too.

    Args:
        local: the resources of the local worker; without them there is none.
        address: where other workers may join; None for nowhere. Then a request that the local
            worker can never meet is an error at once.
        isolated: True for a local worker with a process of its own, which a crash of a tasklet
            ends, and not the mission. It is started again.
        context: the context module of that process; "" for none.
        on_event: called, in order, with each `grain.head.events.Event`.
        env: changes to the environment of external programs, as of `RemoteExecutor`.
        run_log: records what happens to the tasks, as of `RemoteExecutor`.
        shared: what the whole cluster has, as `head.res` of the configuration.
        echo: as of `RemoteExecutor`; what the local worker's tasks print is on the terminal anyway.
    """

    def __init__(
        self,
        local: Resource = ZERO,
        *,
        address: str | None,
        isolated: bool = False,
        context: str = "",
        name: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        env: Mapping[str, str | None] | None = None,
        run_log: RunLog | None = None,
        echo: bool = False,
        number: int = 0,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            address or "", name=name, on_event=on_event, connect=self._connect, env=env,
            run_log=run_log, echo=echo, number=number,
        )  # fmt: skip
        if not isinstance(local, Resource):
            raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
        local.parts()  # raises it for alternatives
        self.local = local
        self.address = address
        self._isolated = isolated
        self._contextmod = context
        self._shared = shared or {}
        both = self._shared.keys() & local.parts().keys()
        if both:
            raise ValueError(
                f"local={local.ask()}: the whole cluster has {', '.join(sorted(both))}, by "
                "[head.res] of grain.toml, so the local worker has none of its own"
            )
        self._host: _Host | None = None
        # The local worker, if there will never be another worker.
        self._only: Scheduler | None = None

    def _request_of(self, res: Resource, priority: int, interpreter: str) -> int:
        """As in `RemoteExecutor`; refuses what the only worker can never meet.

        Raises:
            grain.resource.Infeasible: that is so.
        """
        if self._only is not None and (res, priority, interpreter) not in self._requests:
            why = why_never(self._only, res, trio.current_time())
            if why is not None:
                raise infeasible(res, why, self.local)
        return super()._request_of(res, priority, interpreter)

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        worker = ""
        try:
            with local_offer(self.local) as offer, collapsing():
                if offer.remark:
                    self._on_event(Remark(offer.remark))
                async with trio.open_nursery() as nursery:
                    host = self._host = _Host(nursery, self._shared)
                    if self.address is not None:
                        await host.serve(self.address, self._on_event)
                    else:
                        host.service.hub.scheduler.cluster.open()
                    host.run()
                    try:
                        if self.local.parts():
                            name = f"{self.name}(local)"
                            await host.start_worker(name, offer, self._isolated, self._contextmod)
                            worker = name
                            self._on_event(WorkerJoined(worker, offer.resources))
                        if self.address is None:
                            self._only = Scheduler(cluster=SharedResources(self._shared).pool)
                            self._only.on_worker_joined(
                                0, worker, offer.resources, trio.current_time()
                            )
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
    """

    def __init__(self, nursery: trio.Nursery, shared: Mapping[str, Any]) -> None:
        self._shared = SharedResources(shared)
        self.service = HubService(cluster=self._shared.pool)
        self._nursery = nursery
        self._scopes: list[trio.CancelScope] = []

    async def serve(self, address: str, on_event: Callable[[Event], object]) -> None:
        """Let other workers join at an address; returns as soon as they may.

        Args:
            on_event: called if another scheduler takes its place later.

        Raises:
            grain.edge.errors.EdgeError: it cannot serve there.
        """
        # A mission need not wait for its place: without it, it has its local worker.
        head = partial(
            serve,
            self.service.handle,
            address,
            codec=CODEC,
            frozen=math.inf,
            on_trouble=self.service.on_trouble,
        )

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            try:
                with scope:
                    await head(task_status=task_status)
            except Superseded as error:
                if not serving:
                    raise
                # As after Ctrl-Z for longer than a minute. What the mission has goes on.
                on_event(HostingFailed(address, str(error)))

        serving: Serving | None = None
        # Not shielded before it serves: who cancels the start waits for its end.
        scope = trio.CancelScope()
        serving = await self._nursery.start(run)
        scope.shield = True
        self._scopes.append(scope)
        if serving.epoch == 1:  # no head was ever here that workers could come over from
            self.service.hub.scheduler.cluster.open()

    def run(self) -> None:
        """Run the scheduler; not before what may fail, as only `stop` ends it."""
        self._shielded(self.service.run)
        counting = self._shared.keep_counting
        self._shielded(counting, self.service.dispatch, self.service.on_uncounted)

    async def start_worker(
        self, name: str, offer: LocalOffer, isolated: bool, context: str
    ) -> None:
        """Start the local worker; returns when it takes runs.

        Raises:
            RunnerUnusable: its process cannot be started.
        """
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        self._shielded(self.service.serve, ours, "worker")
        worker = LocalWorker(
            name, offer.resources, theirs, bind=offer.bind, isolated=isolated, context=context
        )
        # Not shielded before it takes runs: who cancels the start waits for its end.
        scope = trio.CancelScope()

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await worker.serve(task_status)

        await self._nursery.start(run)
        scope.shield = True
        self._scopes.append(scope)

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
        """Cancel all of it, and the nursery."""
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
