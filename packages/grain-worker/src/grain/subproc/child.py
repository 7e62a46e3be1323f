"""A process of a pool, seen from inside: ``python -P -m grain.subproc.child``, its socket on fd 3.

It serves one call after the other, until the socket is closed. Nothing is asynchronous here: while
a call computes, further messages wait in the socket. It is started by a subreaper
(`grain.worker.guards`), which ends what it leaves behind.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome

from grain import GVAR
from grain.edge.machine.copies import Origin
from grain.subproc import wire
from grain.worker.call import Call, aborted
from grain.worker.errors import PayloadError
from grain.worker.guards.meter import BLOCK
from grain.worker.payload import Payloads
from grain.worker.processes.child_setup import set_up_child

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.buffers import Buffer
    from grain.subproc.target import Target
    from grain.worker.call import Outcome


def main() -> None:
    """Serve calls until the parent closes the socket."""
    # Not SIGTERM: by that a call is ended.
    sock = set_up_child(b"grain-subproc", (signal.SIGINT, signal.SIGHUP))
    CallServer(sock).serve()


class CallServer:
    """The server of calls over a socket, one after another, in this process."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._payloads = Payloads(
            f"a subprocess (host {socket.gethostname()}, pid {os.getpid()})", interruptible=False
        )
        self._pickled: dict[bytes, Buffer] = {}
        self._targets: dict[bytes, Target] = {}
        self._last_allocation: tuple[bytes, tuple[Any, ...]] = (b"", ())
        self._home = self._cpus = os.sched_getaffinity(0)
        self._use = ProcessUse()

    def serve(self) -> None:
        """Serve calls until the other end of the socket is closed."""
        with suppress(ConnectionError):  # the parent has left, and may have left an answer unread
            while self._serve_message():
                pass

    def _serve_message(self) -> bool:
        """Receive one message and do what it asks; return False at the end."""
        # Wait in poll(2) and not in recvmsg(2), which may still take a call from the socket when
        # this process is killed: a call that is left there is given to another process.
        waiting = time.monotonic()
        self._poll.poll()
        self._use.begin(time.monotonic() - waiting)
        head, carried = wire.receive(self._socket)
        body = wire.read_file(carried) if isinstance(carried, int) else carried
        kind = head[:1]
        if kind == wire.CALL:
            (length,) = wire.LENGTH.unpack_from(head, 17)
            view = memoryview(body)
            self._answer(head[1:17], view[:length], bytes(view[length:]))
        elif kind == wire.FUNCTION:
            self._pickled[head[1:17]] = body
        elif kind == wire.FORGET:
            self._pickled.clear()
            self._targets.clear()
        elif kind == wire.HELLO:
            sys.path[:] = pickle.loads(body)  # noqa: S301 (our parent)
        return bool(head)

    def _answer(self, digest: bytes, arguments: memoryview, allocation: bytes) -> None:
        """Serve a call and send its outcome."""
        name = "this call"
        try:
            cpus, res, instance, cwd, env = self._allocation(allocation)
            self._bind(cpus)  # before its libraries are loaded, which may look
            target = self._target(digest)
            name = repr(target)
            args, kwargs = self._payloads.load_arguments(arguments)
        except (OSError, PayloadError) as error:
            result: Outcome = outcome.Error(error)
        else:
            with GVAR.scope(res, instance, cwd=cwd, env=env):
                result = run(Call(target.fn, args, kwargs))
        pieces = self._payloads.outcome_pieces(result, name)
        with wire.body_of(pieces) as body:
            wire.send(self._socket, wire.USE.pack(*self._use.end()), body)

    def _allocation(self, data: bytes) -> tuple[Any, ...]:
        """Return CPUs and the values of GVAR of a call; successive calls often share them."""
        last, loaded = self._last_allocation
        if data != last:
            loaded, _ = self._payloads.load_arguments(data)
            self._last_allocation = data, loaded
        return loaded

    def _target(self, digest: bytes) -> Target:
        """Return what to call; load it at its first call, whose failure it is if that fails."""
        target = self._targets.get(digest)
        if target is None:
            loaded: Any = self._payloads.load_function(self._pickled[digest])
            target = self._targets[digest] = loaded
            del self._pickled[digest]
        return target

    def _bind(self, cpus: Iterable[int] | None) -> None:
        """Run on these CPUs only, with all threads that a library may keep; None for all CPUs."""
        wanted = self._home if cpus is None else set(cpus)
        if wanted == self._cpus:
            return
        for thread in Path("/proc/self/task").iterdir():
            try:
                os.sched_setaffinity(int(thread.name), wanted)
            except ProcessLookupError:
                pass  # it has ended meanwhile
        self._cpus = wanted


class ProcessUse:
    """The use of one call after another, of this process and the children that it has reaped.

    To begin takes a tenth of the time of a brief call. So what was counted at the end of a call is
    the beginning of one that comes soon, unless the peak is still that of the earlier one.
    """

    _SOON, _NEAR = 0.01, 1024.0  # seconds; KiB

    def __init__(self) -> None:
        try:
            self._clear: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._clear = None
        self._before = self._counted()
        self._least = self._before[-1]

    def begin(self, idle: float) -> None:
        """Begin with a call.

        Args:
            idle: the seconds since the last one. Threads that it has left may have used them.
        """
        if idle < self._SOON and self._before[-1] < self._least + self._NEAR:
            return
        if self._clear is not None:
            with suppress(OSError):
                # The kernel's peak is what this process has now (proc(5)). In ru_maxrss, the
                # process that started this one counts as well, which is smaller.
                os.pwrite(self._clear, b"5", 0)
        self._before = self._counted()
        self._least = self._before[-1]

    def end(self) -> tuple[float, ...]:
        """Return the use of the call, as `wire.USE` has it."""
        # Where the kernel cannot begin again, the peak is that of all calls so far.
        user, system, read, written, largest, _ = self._before
        self._before = self._counted()
        user_now, system_now, read_now, written_now, largest_now, peak = self._before
        if largest_now > largest:
            peak = max(peak, largest_now)
        return (
            user_now - user,
            system_now - system,
            (read_now - read) * (BLOCK / 1e9),
            (written_now - written) * (BLOCK / 1e9),
            peak * (1024 / 1e9),
        )

    @staticmethod
    def _counted() -> tuple[float, ...]:
        """Return CPU seconds and blocks so far; the largest child's peak and the own, in KiB."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        others = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (
            own.ru_utime + others.ru_utime,
            own.ru_stime + others.ru_stime,
            own.ru_inblock + others.ru_inblock,
            own.ru_oublock + others.ru_oublock,
            others.ru_maxrss,
            own.ru_maxrss,
        )


def run(call: Call) -> Outcome:
    """Call a synchronous function and capture its outcome.

    A process that the function has forked, and that returns from it as well, ends. It has a copy of
    the socket, and its answer would be taken for the outcome of the next call.
    """
    origin = Origin()
    try:
        result: Outcome = outcome.Value(call.fn(*call.args, **call.kwargs))
    except BaseException as error:
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # without this frame
        flush()
        origin.check(error)
        # SIGINT has no effect on this process, so a KeyboardInterrupt is the function's own.
        return outcome.Error(error) if isinstance(error, Exception) else aborted(call, error)
    flush()
    origin.check()
    return result


def flush() -> None:
    """Write out what was printed, before the call returns."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the function has replaced or closed it


if __name__ == "__main__":
    main()
