"""A process of a pool, seen from outside: from its start until nothing of it is left.

Its tasks are protected from KeyboardInterrupt: an interrupt there would leave the process
without a task that awaits its end. The main task raises it instead, at its next checkpoint.
"""

from __future__ import annotations

import pickle
import socket
import sys
from typing import TYPE_CHECKING

import trio

from grain import GVAR
from grain.files.trust import python_command
from grain.subproc import wire
from grain.subproc.errors import BrokenSubprocessError, SubprocessMemoryError
from grain.subproc.output_pipe import OutputPipe
from grain.worker.errors import CodeReplaced
from grain.worker.node.cgroup import read_cgroups
from grain.worker.processes.out_of_memory import evidence_of_memory
from grain.worker.processes.subreaper_client import ProcessEnd, SubreaperProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.edge.buffers import Buffer
    from grain.worker.payload import Function

_FUNCTIONS = 100
"""Functions in a process at most: those defined on the fly would fill it up."""


class PoolProcess:
    """A process that serves calls, one at a time.

    Get it by `start`, and run `watch` as long as it lives. It serves calls until `end` or `leave`
    is called, or it dies.

    Attributes:
        key: the environment that it was started with, which cannot be changed any more.
        cpus: the CPUs that its last call has bound it to; None for all.
        idle_since: the end of its last call, by trio's clock.
        ended: set when nothing of it is left.
    """

    def __init__(
        self, process: SubreaperProcess, key: object, out: OutputPipe, err: OutputPipe
    ) -> None:
        self.key = key
        self.cpus: list[int] | None = None
        self.idle_since = 0.0
        self.ended = trio.Event()
        self._process = process
        self._socket = process.socket
        self._socket.setblocking(False)
        self._out, self._err = out, err
        self._functions: set[bytes] = set()  # digests of the functions that it has
        self._end = ProcessEnd(None)

    @classmethod
    async def start(cls, key: object, env: Mapping[bytes, bytes], grace: float) -> PoolProcess:
        """Start a process.

        Raises:
            OSError: no process can be started.
            CodeReplaced: it would run other code than this process does.
        """
        CodeReplaced.check()
        if not sys.executable:
            raise RuntimeError("a pool of processes needs the Python interpreter's path")
        pipes: list[OutputPipe] = []
        try:
            pipes.append(out := OutputPipe("stdout"))
            pipes.append(err := OutputPipe("stderr"))
            process = await SubreaperProcess.start(
                python_command("grain.subproc.child"),
                grace,
                kind=socket.SOCK_SEQPACKET,
                env=env,
                stdout=out.theirs,
                stderr=err.theirs,
            )
        except BaseException:
            for pipe in pipes:
                pipe.close()
            raise
        out.close_theirs()
        err.close_theirs()
        started = cls(process, key, out, err)
        # It searches for modules where this process does. An empty socket has room for the message.
        with wire.body_of([pickle.dumps(sys.path)]) as body:
            wire.send(process.socket, wire.HELLO, body)
        return started

    @trio.lowlevel.enable_ki_protection
    async def watch(self) -> None:
        """Pass on its output until nothing of it is left. Cancellation has no effect: `end` it."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._out.forward)
                nursery.start_soon(self._err.forward)
                self._end = await self._process.wait()
                nursery.cancel_scope.cancel()
        self._drain()
        self._out.close()
        self._err.close()
        self.ended.set()
        # Wake a call that waits: a process forked from this one may still hold its end of the
        # socket, which then has no end of file.
        trio.lowlevel.notify_closing(self._socket)

    @trio.lowlevel.enable_ki_protection
    async def end(self, *, hurry: bool = False) -> None:
        """End it and all that it started; return when nothing is left.

        Cancellation has no effect. A call that it serves meanwhile returns None.
        """
        self._process.end(hurry=hurry)
        with trio.CancelScope(shield=True):
            await self.ended.wait()
        self._socket.close()

    def kill(self) -> None:
        """Have it ended soon, without waiting for that."""
        self._process.end(hurry=True)

    @trio.lowlevel.enable_ki_protection
    async def leave(self, patience: float) -> None:
        """Let it end by itself, as it is idle; end it after so many seconds."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is dead already
        with trio.CancelScope(shield=True), trio.move_on_after(patience):
            await self.ended.wait()
        await self.end()

    # ---- calls

    async def call(
        self, function: Function, head: bytes, body: Sequence[Buffer] | int
    ) -> bytes | int | None:
        """Have it serve a call.

        Returns:
            The outcome, or the descriptor of the file that has it; None if the process died with
            the call.

        Raises:
            ConnectionError: it was dead before it took the call, which another may serve.

        When this raises anything, the process has to be ended.
        """
        self._out.forget()
        self._err.forget()
        await self._provide(function)
        await self._send(head, body)
        while not self.ended.is_set():
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except trio.ClosedResourceError:
                pass  # `watch` says that the process is gone; its answer may have come before
            if self._socket.fileno() < 0:
                break  # `end` was called meanwhile
            try:
                head, answer = wire.receive(self._socket)
            except BlockingIOError:
                continue
            if not head:
                break
            self._drain()
            return answer
        return None

    async def _provide(self, function: Function) -> None:
        """Send a function, unless the process has it."""
        if function.digest in self._functions:
            return
        if len(self._functions) >= _FUNCTIONS:
            await self._send(wire.FORGET, [])
            self._functions.clear()
        with wire.body_of([function.payload]) as body:
            await self._send(wire.FUNCTION + function.digest, body)
        self._functions.add(function.digest)

    async def _send(self, head: bytes, body: Sequence[Buffer] | int) -> None:
        while True:
            try:
                wire.send(self._socket, head, body)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
            else:
                return

    def _drain(self) -> None:
        """Pass on what was printed before the call ended, before the caller prints more."""
        self._out.drain()
        self._err.drain()

    # ---- its death

    def broken(self, name: str, reason: str = "") -> BrokenSubprocessError:
        """Return the error of a call whose process is gone.

        Args:
            reason: what happened to the process, if not its own death.
        """
        end, kind = self._end, BrokenSubprocessError
        if not reason:
            reason = end.describe()
            if evidence := self._evidence():
                kind, reason = SubprocessMemoryError, f"{reason}: {evidence}"
        return kind(name, reason, end.returncode, self._err.tail(), socket.gethostname())

    def _evidence(self) -> str:
        """Return by what it is known that it was killed for want of memory; "" if it was not."""
        limit = read_cgroups().memory
        return evidence_of_memory(
            self._end.returncode or 0,
            int(self._end.out_of_memory),
            self._end.max_rss,
            (getattr(GVAR.res, "M", None), None if limit is None else limit / 1e9),
            own_group=False,
        )
