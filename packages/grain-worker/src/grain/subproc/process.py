"""A process of a pool, seen from outside: from its start until nothing of it is left.

Its tasks are protected from KeyboardInterrupt: an interrupt there would leave the process
without a task that awaits its end. The main task raises it instead, at its next checkpoint.
"""

from __future__ import annotations

import contextvars
import os
import pickle
import select
import socket
import sys
from typing import TYPE_CHECKING

import trio

from grain import GVAR
from grain.eventlog.usage import Usage
from grain.files.trust import python_command
from grain.subproc import wire
from grain.subproc.errors import BrokenSubprocessError, SubprocessMemoryError
from grain.subproc.output_pipe import OutputPipe
from grain.worker.errors import CodeReplaced
from grain.worker.external.program import bound_of_run
from grain.worker.guards.meter import FIRST
from grain.worker.node.cgroup import read_cgroups
from grain.worker.processes.out_of_memory import evidence_of_memory
from grain.worker.processes.subreaper_client import Figures, ProcessEnd, SubreaperProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.edge.buffers import Buffer
    from grain.worker.payload import Function

_NOTHING = Usage()

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
        context: that of the caller of its last call.
        usage: what its last call has used; known when `call` has returned an answer, or when
            nothing of it is left.
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
        self._printed = select.poll()
        for pipe in out, err:
            self._printed.register(pipe, select.POLLIN)
        self._serving = False
        self._began = 0.0  # its last call, by trio's clock
        self.context = contextvars.copy_context()
        self._measured = False  # its subreaper looks at that call
        self._calls = trio.lowlevel.ParkingLot()
        self._functions: set[bytes] = set()  # digests of the functions that it has
        self._end = ProcessEnd(None)
        self.usage = _NOTHING
        # Of all calls that were answered: CPU seconds, and the largest peak in GB.
        self._user = self._system = self._peak = 0.0

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
                nursery.start_soon(self._measure_long_calls)
                self._end = await self._process.wait()
                nursery.cancel_scope.cancel()
        if self._serving:
            self.usage = self._usage_at_end()
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

    @property
    def top(self) -> int:
        """The pid of its subreaper."""
        return self._process.subreaper

    def kill(self) -> None:
        """Have it ended soon, without waiting for that."""
        self._process.end(hurry=True)

    @trio.lowlevel.enable_ki_protection
    async def leave(self, patience: float) -> None:
        """Let it end by itself, as it is idle; end it after so many seconds."""
        self._shut()
        with trio.CancelScope(shield=True), trio.move_on_after(patience):
            await self.ended.wait()
        await self.end()

    def _shut(self) -> None:
        """Have it leave when it has served its call."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is dead already

    # ---- calls

    async def call(
        self, function: Function, head: bytes, body: Sequence[Buffer] | int
    ) -> bytes | int | None:
        """Have it serve a call.

        Where the running task is held to its memory, looks guard that, so a call of less than
        `FIRST` seconds may have more.

        Returns:
            The outcome, or the descriptor of the file that has it; None if the process died with
            the call, or is ended as it had more than it may have.

        Raises:
            ConnectionError: it was dead before it took the call, which another may serve.

        When this raises anything, the process has to be ended.
        """
        self.context = contextvars.copy_context()
        self._out.forget(self.context)
        self._err.forget(self.context)
        self.usage, self._serving = _NOTHING, True
        self._began, self._measured = trio.current_time(), False
        if self._calls:
            self._calls.unpark()
        await self._provide(function)
        await self._send(head, body)
        answered = await self._answer()
        if answered is None:
            return None
        head, answer = answered
        looked = Figures()
        if self._measured:
            with trio.CancelScope(shield=True):  # the descriptor would be lost
                looked = await self._process.measured()
        if looked.exceeded:  # it is about to end, and what it answers after that does not count
            if isinstance(answer, int):
                os.close(answer)
            self._shut()  # or one that survives SIGTERM would wait for a call as long as its grace
            return None
        user, system, read, written, peak = wire.USE.unpack_from(head)
        self._user, self._system = self._user + user, self._system + system
        self._peak = max(self._peak, peak)
        self.usage, self._serving = (
            Usage(
                user=user,
                system=system,
                peak_memory=max(peak, looked.peak),
                measured_by="polling" if looked.peak else "rusage",
                read=read,
                written=written,
                programs=1,
            ),
            False,
        )
        return answer

    async def _measure_long_calls(self) -> None:
        """Have its subreaper look at each call that lasts for `FIRST` seconds, until cancelled.

        One task for all calls: a time limit for each would take a fifth of the time of a brief one.
        """
        while True:
            due = self._began + FIRST
            if self._measured or not self._serving:
                await self._calls.park()
            elif trio.current_time() < due:
                await trio.sleep_until(due)
            else:
                self._measured = True
                self._process.measure(self.context.run(bound_of_run))

    async def _answer(self) -> tuple[bytes, bytes | int] | None:
        """Return the head and the body of an answer; None if the process died."""
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
            return head, answer
        return None

    def _usage_at_end(self) -> Usage:
        """Return what the call has used with which the process has ended."""
        end = self._end
        # The kernel's peak is that of all calls; it is of this one if no earlier one had as much.
        peak = max(end.measured.peak, end.max_rss if end.max_rss > self._peak else 0.0)
        return Usage(
            user=max(end.user - self._user, 0.0),
            system=max(end.system - self._system, 0.0),
            peak_memory=peak,
            measured_by="none" if not peak else "polling" if end.measured.peak else "rusage",
            programs=1,
            exit_statuses={} if end.returncode is None else {end.returncode: 1},
        )

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
        if self._printed.poll(0):  # one look at both, as most calls print nothing
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
            self.usage.peak_memory,
            (getattr(GVAR.res, "M", None), None if limit is None else limit / 1e9),
            own_group=False,
            exceeded=self._end.measured.exceeded,
        )
