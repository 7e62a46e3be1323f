"""One interpreter process, from its start until nothing of it is left.

What runs as a task of its own is protected from KeyboardInterrupt: one that struck there would
leave the process without who minds it. It is then raised in the main task, at its next checkpoint.
"""

from __future__ import annotations

import pickle
import socket
import sys
from typing import TYPE_CHECKING

import trio

from grain.subproc import wire
from grain.subproc.errors import BrokenSubprocessError
from grain.subproc.output import Output
from grain.worker.errors import signal_name
from grain.worker.node.cgroup import read_cgroups
from grain.worker.processes.subreaper_client import End, Warded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.worker.payload import Function

    Buffer = bytes | bytearray | memoryview

_FUNCTIONS = 100  # more would fill a process that serves functions made on the fly


class Process:
    """A process that serves calls; `start` makes one, `mind` has to run as long as it lives.

    Attributes:
        key: what it was started with, and cannot be changed in it any more.
        cpus: what it was bound to by its last call.
        idle_since: when that ended, by trio's clock.
        gone: set when nothing of it is left.
    """

    def __init__(self, warded: Warded, key: object, out: Output, err: Output) -> None:
        self.key = key
        self.cpus: object = None
        self.idle_since = 0.0
        self.gone = trio.Event()
        self._warded = warded
        self._socket = warded.socket
        self._socket.setblocking(False)
        self._out, self._err = out, err
        self._taught: set[bytes] = set()
        self._oom_kills = read_cgroups().oom_kills
        self._end = End(None)

    @classmethod
    async def start(cls, key: object, env: Mapping[bytes, bytes], grace: float) -> Process:
        """Start one.

        Raises:
            OSError: no process can be started.
        """
        if not sys.executable:
            raise RuntimeError("a pool of processes needs the Python interpreter's path")
        outputs: list[Output] = []
        try:
            outputs.append(out := Output("stdout"))
            outputs.append(err := Output("stderr"))
            warded = await Warded.start(
                [sys.executable, "-m", "grain.subproc.child"],
                grace,
                kind=socket.SOCK_SEQPACKET,
                env=env,
                stdout=out.theirs,
                stderr=err.theirs,
            )
        except BaseException:
            for output in outputs:
                output.close()
            raise
        out.started()
        err.started()
        process = cls(warded, key, out, err)
        # An empty socket has room for it. It is to search for modules where this process does.
        with wire.body_of([pickle.dumps(sys.path)]) as body:
            wire.send(warded.socket, wire.HELLO, body)
        return process

    @trio.lowlevel.enable_ki_protection
    async def mind(self) -> None:
        """Pass on what it prints, until nothing of it is left. Not cancelled: `end` it."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._out.forward)
                nursery.start_soon(self._err.forward)
                self._end = await self._warded.wait()
                nursery.cancel_scope.cancel()
        self._drain()
        self._out.close()
        self._err.close()
        self.gone.set()
        # A process forked from it may have held its end of the socket.
        trio.lowlevel.notify_closing(self._socket)

    @trio.lowlevel.enable_ki_protection
    async def end(self, *, hurry: bool = False) -> None:
        """End it and all that it started; not cancelled, and returns when nothing is left."""
        self._warded.end(hurry=hurry)
        with trio.CancelScope(shield=True):
            await self.gone.wait()
        self._socket.close()

    def kill(self) -> None:
        """Have it ended soon, without waiting for that."""
        self._warded.end(hurry=True)

    @trio.lowlevel.enable_ki_protection
    async def leave(self, patience: float) -> None:
        """Let it end by itself, as it is idle, and end it after some seconds."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is dead already
        with trio.CancelScope(shield=True), trio.move_on_after(patience):
            await self.gone.wait()
        await self.end()

    # ---- calls

    async def call(
        self, function: Function, head: bytes, body: Sequence[Buffer] | int
    ) -> bytes | int | None:
        """Have it serve a call: the outcome or the file that has it, None if it died meanwhile.

        Whatever this raises, the process has to be ended.

        Raises:
            ConnectionError: it was dead before it took the call.
        """
        self._err.forget()
        await self._teach(function)
        await self._send(head, body)
        while not self.gone.is_set():
            try:
                await trio.lowlevel.wait_readable(self._socket)
            except trio.ClosedResourceError:
                pass  # `mind` says that it is gone, maybe after its answer
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

    async def _teach(self, function: Function) -> None:
        if function.digest in self._taught:
            return
        if len(self._taught) >= _FUNCTIONS:
            await self._send(wire.FORGET, [])
            self._taught.clear()
        with wire.body_of([function.payload]) as body:
            await self._send(wire.FUNCTION + function.digest, body)
        self._taught.add(function.digest)

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
        """The error of a call whose process is gone."""
        end = self._end
        if not reason:
            reason = "ended in an unknown way"
            if end.returncode is not None:
                reason = f"exited with code {end.returncode}"
                if signal := signal_name(end.returncode):
                    reason = f"was ended by {signal}"
            if read_cgroups().oom_kills > self._oom_kills:
                reason += ", out of memory"
            reason += f" (peak memory {end.max_rss:.2f} GB)"
            if end.left:
                reason += f"; processes survive SIGKILL: {', '.join(map(str, end.left))}"
        tail = self._err.tail()
        return BrokenSubprocessError(name, reason, end.returncode, tail, socket.gethostname())
