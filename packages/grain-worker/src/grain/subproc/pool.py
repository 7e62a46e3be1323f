"""Idle and busy processes: which one serves a call, and when one leaves."""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from grain import GVAR
from grain.edge.buffers import LARGE
from grain.resource import Resource
from grain.subproc import wire
from grain.subproc.errors import BrokenSubprocessError
from grain.subproc.process import Process
from grain.worker.payload import Function, Payloads
from grain.worker.processes.environment import binding, environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from typing_extensions import Self

    from grain.subproc.target import Target

    Buffer = bytes | bytearray | memoryview

_PLACES = 64  # that are kept
_CLOSED = "was ended: subprocess_pool_scope() was left before the call had an end"


class Place(NamedTuple):
    """What a call's allocation means for the process that serves it.

    Attributes:
        res: the allocation.
        cpus: what to bind the process to; None for no binding.
        key: what the process has to be started with.
        told: all of that as bytes, as the process is told.
    """

    res: Any
    cpus: list[int] | None
    key: frozenset[tuple[bytes, bytes]]
    told: bytes


class Pool:
    """The processes of one scope, an async context manager; see `subprocess_pool_scope`."""

    def __init__(self, idle_timeout: float, grace: float, limit: int | None) -> None:
        self._idle_timeout = idle_timeout
        self._grace = grace
        self._limiter: AbstractAsyncContextManager[Any] = (
            nullcontext() if limit is None else trio.CapacityLimiter(limit)
        )
        self._payloads = Payloads("the process that called")
        self._functions: weakref.WeakKeyDictionary[Target, Function] = weakref.WeakKeyDictionary()
        # By the allocation's identity, which is kept from being another's by keeping it.
        self._places: dict[tuple[int, str, frozenset[int]], Place] = {}
        self._all: set[Process] = set()
        self._idle: list[Process] = []
        self._starting = 0
        self._closing = False
        self._changed = trio.Event()
        self._open = trio.CancelScope()
        self._ended = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._stack: AsyncExitStack | None = None

    # ---- calls

    # So that no KeyboardInterrupt strikes between two lines that belong together.
    @trio.lowlevel.enable_ki_protection
    async def call(self, target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function in a process; see `grain.subproc.subprocify` for what it raises."""
        function = self._function(target)
        place = self._place(GVAR.res, GVAR.instance)
        pieces = self._payloads.argument_pieces(args, kwargs)
        head = wire.CALL + function.digest + wire.LENGTH.pack(wire.size_of(pieces))
        pieces.append(place.told)
        async with self._limiter:
            if wire.size_of(pieces) <= wire.INLINE:
                answer = await self._have_served(function, place, head, pieces)
            else:
                async with body_of(pieces) as body:
                    answer = await self._have_served(function, place, head, body)
        outcome = self._payloads.load_outcome(await content_of(answer))
        return outcome.unwrap()

    async def _have_served(
        self, function: Function, place: Place, head: bytes, body: Sequence[Buffer] | int
    ) -> bytes | int:
        """Send a call to a process, and wait for its answer."""
        process, fresh = await self._take(function.name, place)
        while True:
            try:
                answer = await process.call(function, head, body)
            except ConnectionError:
                answer, unserved = None, True
            except BaseException as error:
                await process.end(hurry=isinstance(error, KeyboardInterrupt))
                raise
            else:
                unserved = False
            if answer is not None:
                break
            await process.end()
            if fresh or not unserved:
                raise process.broken(function.name, _CLOSED if self._closing else "")
            # It had died while it was idle.
            process, fresh = await self._take(function.name, place)
        process.cpus = place.cpus
        self._release(process)
        return answer

    def _place(self, res: Any, instance: str) -> Place:
        """Where a call with this allocation takes place; runs in a row mostly have the same few."""
        available = frozenset(os.sched_getaffinity(0))
        asked = (id(res), instance, available)
        known = self._places.get(asked)
        if known is None:
            cpus = binding(res, available)
            key = frozenset(environment(res, {}, {}).items())
            told = b"".join(self._payloads.argument_pieces((cpus, res, instance), {}))
            known = Place(res, cpus, key, told)
            if isinstance(res, Resource):  # which nobody can change
                if len(self._places) >= _PLACES:
                    self._places.clear()
                self._places[asked] = known
        return known

    def _function(self, target: Target) -> Function:
        function = self._functions.get(target)
        if function is None:
            function = self._functions[target] = self._payloads.dump_function(target)
        return function

    # ---- idle and busy

    async def _take(self, name: str, place: Place) -> tuple[Process, bool]:
        """A process for such an allocation, and whether it is a new one.

        Raises:
            BrokenSubprocessError: for the function of this name, as the scope has been left.
        """
        if self._closing:
            raise BrokenSubprocessError(name, _CLOSED, None, "", socket.gethostname())
        found = None
        for process in reversed(self._idle):
            if process.key == place.key:
                found = found or process
                if process.cpus == place.cpus:  # its caches are warm
                    found = process
                    break
        if found is None:
            return await self._start(place.key, place.res), True
        self._idle.remove(found)
        return found, False

    async def _start(self, key: object, res: Resource) -> Process:
        self._starting += 1
        try:
            env = environment(res, os.environb, {})
            process = await Process.start(key, env, self._grace)
            self._all.add(process)
            assert self._nursery is not None
            self._nursery.start_soon(self._mind, process)
        finally:
            self._starting -= 1
            self._tell_change()
        if self._closing:
            process.kill()
        return process

    @trio.lowlevel.enable_ki_protection
    async def _mind(self, process: Process) -> None:
        await process.mind()
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
            await process.end()
        self._tell_change()

    def _release(self, process: Process) -> None:
        if not self._closing:
            process.idle_since = trio.current_time()
            self._idle.append(process)

    async def _dismiss(self) -> None:
        """Have processes leave that are idle for too long."""
        assert self._nursery is not None
        while True:
            now = trio.current_time()
            for process in [p for p in self._idle if p.idle_since + self._idle_timeout <= now]:
                self._idle.remove(process)
                self._nursery.start_soon(process.leave, self._grace)
            oldest = min((process.idle_since for process in self._idle), default=now)
            await trio.sleep_until(oldest + self._idle_timeout)

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # ---- life

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        await nursery.start(self._serve)
        return self

    @trio.lowlevel.enable_ki_protection
    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        """Have what runs beside the calls, until nothing is left; not cancelled from outside."""
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as self._nursery:
                    task_status.started()
                    try:
                        with self._open:
                            await self._dismiss()
                    except BaseException:  # an error of ours
                        self._kill()
                        raise
        finally:
            self._ended.set()

    def _kill(self) -> None:
        for process in self._all:
            process.kill()

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._nursery is not None
        assert self._stack is not None
        self._closing = True
        if self._ended.is_set():  # by an error of ours, which comes out here
            return await self._stack.__aexit__(kind, error, trace)
        try:
            with trio.CancelScope(shield=True):
                for process in self._all:
                    if process in self._idle:
                        self._nursery.start_soon(process.leave, self._grace)
                    else:
                        self._nursery.start_soon(process.end)
                self._idle.clear()
                while self._all or self._starting:
                    await self._changed.wait()
        except BaseException:  # a second Ctrl-C
            self._kill()
            raise
        finally:
            self._open.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            # The body's exception is not given to the nursery, which would wrap it in a group.
            await self._stack.aclose()
        return None


@asynccontextmanager
async def body_of(pieces: Sequence[Buffer]) -> AsyncGenerator[Sequence[Buffer] | int]:
    """As `grain.subproc.wire.body_of`, but large ones are copied in a thread.

    All other tasks would have to wait for it.
    """
    if wire.size_of(pieces) < LARGE:
        with wire.body_of(pieces) as body:
            yield body
    else:
        with trio.CancelScope(shield=True):  # or the descriptor would be lost
            fd = await trio.to_thread.run_sync(wire.write_file, pieces)
        try:
            yield fd
        finally:
            os.close(fd)


async def content_of(body: bytes | int) -> Buffer:
    """What has come, out of its file if it is in one."""
    if not isinstance(body, int):
        return body
    if os.fstat(body).st_size < LARGE:
        return wire.read_file(body)
    with trio.CancelScope(shield=True):  # or the descriptor would be lost
        content = await trio.to_thread.run_sync(wire.read_file, body)
    return content  # noqa: RET504 (a scope may swallow, for all that types tell)
