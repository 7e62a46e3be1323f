"""The pool: idle and busy processes, the choice of one for a call, and the end of idle ones."""

from __future__ import annotations

import os
import socket
import time
import weakref
from contextlib import asynccontextmanager, nullcontext, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from grain import GVAR
from grain.edge.buffers import LARGE, Buffer
from grain.edge.machine.copies import Origin, ending_copies
from grain.resource import Resource
from grain.subproc import wire
from grain.subproc.errors import BrokenSubprocessError
from grain.subproc.process import PoolProcess
from grain.worker.payload import Function, Payloads
from grain.worker.processes.account import RunAccount
from grain.worker.processes.environment import PINNED_BY, USABLE, binding, environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.subproc.target import Target

_PLACEMENTS = 64
"""Allocations whose placement a pool keeps."""

_CLOSED = "was ended: subprocess_pool_scope() was left before the call had an end"


class PoolState(Enum):
    """The states of a pool, in their order."""

    OPEN = "it serves calls"
    CLOSING = "its scope is being left: calls end, and so do processes"
    ENDED = "nothing is left of its processes"


class Placement(NamedTuple):
    """The demands of an allocation on the process that serves a call.

    Attributes:
        env: the variables that the mission passes to programs.
        cpus: the CPUs to bind the process to; None for no binding.
        key: the environment variables that the process has to be started with, and the CPUs if it
            keeps to those of its first call.
        pickled: all of that, as the process gets it with the call.
    """

    res: Any
    env: Mapping[str, str | None]
    cpus: list[int] | None
    key: frozenset[tuple[bytes, bytes]]
    pickled: bytes


class Pool:
    """The processes of one scope; `open_pool` makes one.

    Args:
        nursery: has the tasks of the processes. It must not be cancelled from outside: a process
            that is not watched is never reaped.
    """

    def __init__(
        self, idle_timeout: float, grace: float, limit: int | None, nursery: trio.Nursery
    ) -> None:
        self.state = PoolState.OPEN
        self._idle_timeout = idle_timeout
        self._grace = grace
        self._limiter: AbstractAsyncContextManager[Any] = (
            nullcontext() if limit is None else trio.CapacityLimiter(limit)
        )
        self._nursery = nursery
        self._payloads = Payloads("the process that called")
        self._functions: weakref.WeakKeyDictionary[Target, Function] = weakref.WeakKeyDictionary()
        # By the allocation's id(), which no other one has as long as the placement refers to it.
        self._placements: dict[tuple[Any, ...], Placement] = {}
        self._all: set[PoolProcess] = set()
        self._idle: list[PoolProcess] = []
        self._starting = 0  # processes that are being started, and are not in _all yet
        self._changed = trio.lowlevel.ParkingLot()
        self._ending_idle = trio.CancelScope()
        self._ended = trio.Event()
        self._origin = Origin()

    # ---- calls

    # So that no KeyboardInterrupt strikes between two lines that belong together.
    @trio.lowlevel.enable_ki_protection
    async def call(self, target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function in a process; `grain.subproc.subprocify` has the errors."""
        self._origin.check()
        function = self._function(target)
        placement = self._placement(GVAR.res, GVAR.instance)
        pieces = self._payloads.argument_pieces(args, kwargs)
        head = wire.CALL + function.digest + wire.LENGTH.pack(wire.size_of(pieces))
        pieces.append(placement.pickled)
        async with self._limiter:
            if wire.size_of(pieces) <= wire.INLINE:
                answer = await self._serve(function, placement, head, pieces)
            else:
                async with body_of(pieces) as body:
                    answer = await self._serve(function, placement, head, body)
        outcome = self._payloads.load_outcome(await content_of(answer))
        return outcome.unwrap()

    async def _serve(
        self, function: Function, placement: Placement, head: bytes, body: Sequence[Buffer] | int
    ) -> bytes | int:
        """Have a process serve a call, and return the answer; the run's account gets its use."""
        while True:
            process, was_idle = await self._take(function.name, placement)
            took_it = True
            programs = GVAR.account.programs if isinstance(GVAR.account, RunAccount) else None
            if programs is not None:
                programs.begin(process, time.monotonic())
            try:
                try:
                    answer = await process.call(function, head, body)
                except ConnectionError:
                    answer, took_it = None, False
                except BaseException as error:
                    await process.end(hurry=isinstance(error, KeyboardInterrupt))
                    raise
                if answer is None:
                    await process.end()
            finally:
                if programs is not None:
                    usage = process.usage if took_it else None
                    programs.end(process, time.monotonic(), usage)
            if answer is not None:
                break
            # Only a process that died while it was idle is replaced: the function may have killed
            # any other, and would kill the next one, too.
            if took_it or not was_idle:
                closed = self.state is not PoolState.OPEN
                raise process.broken(function.name, _CLOSED if closed else "")
        process.cpus = placement.cpus
        self._release(process)
        return answer

    def _placement(self, res: Any, instance: str) -> Placement:
        """Return the placement of a call; successive calls mostly share a few allocations."""
        env, cwd = GVAR.env, ""
        with suppress(FileNotFoundError):  # the directory of this process was removed
            cwd = GVAR.cwd
        key = (id(res), instance, cwd, id(env))
        placement = self._placements.get(key)
        if placement is None:
            cpus = binding(res, USABLE)
            variables = frozenset(environment(res, {}, {}).items())
            if not PINNED_BY.isdisjoint(os.environb):  # it can have no other CPUs any more
                variables |= {(b"", repr(cpus).encode())}
            pickled = b"".join(
                self._payloads.argument_pieces((cpus, res, instance, cwd, dict(env)), {})
            )
            placement = Placement(res, env, cpus, variables, pickled)
            if isinstance(res, Resource):  # immutable; anything else may change until the next call
                if len(self._placements) >= _PLACEMENTS:
                    self._placements.clear()
                self._placements[key] = placement
        return placement

    def _function(self, target: Target) -> Function:
        function = self._functions.get(target)
        if function is None:
            function = self._functions[target] = self._payloads.dump_function(target)
        return function

    # ---- idle and busy processes

    async def _take(self, name: str, placement: Placement) -> tuple[PoolProcess, bool]:
        """Return a process for an allocation, and True if it was idle, False if it is new.

        Raises:
            BrokenSubprocessError: for the function of this name, as the scope has been left.
        """
        if self.state is not PoolState.OPEN:
            raise BrokenSubprocessError(name, _CLOSED, None, "", socket.gethostname())
        fitting = [process for process in self._idle if process.key == placement.key]
        if not fitting:
            return await self._start(placement), False
        # The last process bound to these CPUs, as its caches are warm; or else the last one.
        bound = [process for process in fitting if process.cpus == placement.cpus]
        process = (bound or fitting)[-1]
        self._idle.remove(process)
        return process, True

    async def _start(self, placement: Placement) -> PoolProcess:
        self._starting += 1
        try:
            env = environment(placement.res, os.environb, {})
            process = await PoolProcess.start(placement.key, env, self._grace)
            self._all.add(process)
            self._nursery.start_soon(self._watch, process)
        finally:
            self._starting -= 1
            self._changed.unpark_all()
        if self.state is not PoolState.OPEN:
            process.kill()
        return process

    @trio.lowlevel.enable_ki_protection
    async def _watch(self, process: PoolProcess) -> None:
        await process.watch()
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
            await process.end()
        self._changed.unpark_all()

    def _release(self, process: PoolProcess) -> None:
        if self.state is PoolState.OPEN:
            process.idle_since = trio.current_time()
            self._idle.append(process)

    # ---- lifecycle

    @trio.lowlevel.enable_ki_protection
    async def end_idle(self) -> None:
        """Have processes leave that are idle for too long, until `close`."""
        try:
            with self._ending_idle:
                while True:
                    now = trio.current_time()
                    for process in [
                        p for p in self._idle if p.idle_since + self._idle_timeout <= now
                    ]:
                        self._idle.remove(process)
                        self._nursery.start_soon(process.leave, self._grace)
                    oldest = min((process.idle_since for process in self._idle), default=now)
                    await trio.sleep_until(oldest + self._idle_timeout)
        except BaseException:  # an error of this class
            self._kill()
            raise

    def on_end(self) -> None:
        """Note that nothing is left of the processes."""
        self.state = PoolState.ENDED
        self._ended.set()

    @trio.lowlevel.enable_ki_protection
    async def close(self) -> None:
        """End all processes, and wait until nothing is left of them; cancellation has no effect."""
        if self.state is PoolState.ENDED:
            return
        self.state = PoolState.CLOSING
        try:
            with trio.CancelScope(shield=True):
                for process in self._all:
                    if process in self._idle:
                        self._nursery.start_soon(process.leave, self._grace)
                    else:
                        self._nursery.start_soon(process.end)
                self._idle.clear()
                while self._all or self._starting:
                    await self._changed.park()
        except BaseException:  # a second Ctrl-C
            self._kill()
            raise
        finally:
            self._ending_idle.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()

    def _kill(self) -> None:
        for process in self._all:
            process.kill()


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_pool(
    idle_timeout: float, grace: float, limit: int | None
) -> AsyncGenerator[Pool, None]:
    """Open a pool for a block, which ends with nothing left of its processes."""
    error_of_block: BaseException | None = None
    async with trio.open_nursery() as nursery:
        # Shielded: were this cancelled after the task has started, no task would have the pool to
        # close it, and its own shield would keep the nursery open without end.
        with trio.CancelScope(shield=True):
            pool = await nursery.start(_run_pool, idle_timeout, grace, limit)
        try:
            try:
                yield pool
            finally:
                failed = pool.state is PoolState.ENDED
                await pool.close()
        except BaseException as error:
            if failed:  # the pool did, whose error the nursery raises
                raise
            # Not given to the nursery, which would wrap it in a group.
            error_of_block = error
    if error_of_block is not None:
        try:
            raise error_of_block
        finally:
            error_of_block = None  # it refers to this frame


@trio.lowlevel.enable_ki_protection
async def _run_pool(
    idle_timeout: float,
    grace: float,
    limit: int | None,
    *,
    task_status: trio.TaskStatus[Pool],
) -> None:
    """Run the tasks of a pool until it is closed; cancellation has no effect."""
    pool: Pool | None = None
    try:
        with trio.CancelScope(shield=True), ending_copies():
            async with trio.open_nursery() as nursery:
                pool = Pool(idle_timeout, grace, limit, nursery)
                task_status.started(pool)
                nursery.start_soon(pool.end_idle)
    finally:
        if pool is not None:
            pool.on_end()


@asynccontextmanager
async def body_of(pieces: Sequence[Buffer]) -> AsyncGenerator[Sequence[Buffer] | int]:
    """Return the pieces in the form that `wire.send` takes; copy large ones in a thread.

    All other tasks would have to wait for the copy.
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
    """Return the content of a body; read a large file in a thread, as `body_of` writes it."""
    if not isinstance(body, int):
        return body
    if os.fstat(body).st_size < LARGE:
        return wire.read_file(body)
    with trio.CancelScope(shield=True):  # or the descriptor would be lost
        content = await trio.to_thread.run_sync(wire.read_file, body)
    return content  # noqa: RET504 (a scope may swallow, for all that types tell)
