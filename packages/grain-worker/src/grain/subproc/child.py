"""The process at the other end: ``python -m grain.subproc.child``, its socket on descriptor 3.

One call after the other, until the socket is closed. Nothing is asynchronous here: while a call
computes, whatever else there is to do waits in the socket. It is started by a warden
(`grain.worker.guards`), which ends what it leaves behind.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import outcome

from grain import GVAR
from grain.subproc import wire
from grain.worker.errors import PayloadError
from grain.worker.guards.proc import prctl
from grain.worker.job import Call, aborted
from grain.worker.node.limits import prefer_to_be_killed
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.subproc.target import Target
    from grain.worker.job import Outcome

SOCKET = 3
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def main() -> None:
    """Be the process."""
    os.set_inheritable(SOCKET, False)
    prctl(_PR_SET_NAME, b"grain-subproc")
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prefer_to_be_killed()
    faulthandler.enable()
    # To drain, or to interrupt, is decided elsewhere. SIGTERM remains: by that a call is ended.
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    Callee(socket.socket(fileno=SOCKET)).serve()


class Callee:
    """Serves calls over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._payloads = Payloads(f"a subprocess (host {socket.gethostname()}, pid {os.getpid()})")
        self._functions: dict[bytes, Any] = {}
        self._told, self._known = b"", ()
        self._home = self._cpus = os.sched_getaffinity(0)

    def serve(self) -> None:
        """Until the other end is closed."""
        with suppress(ConnectionError):  # it may not wait for the answer
            while self._take():
                pass

    def _take(self) -> bool:
        """Take one message, and do what it says; False at the end."""
        # Not in recv(2), which may still take a call from the socket when the process is killed:
        # a call that is left there is given to another process.
        self._poll.poll()
        head, came = wire.receive(self._socket)
        body = wire.read_file(came) if isinstance(came, int) else came
        kind = head[:1]
        if kind == wire.CALL:
            (length,) = wire.LENGTH.unpack_from(head, 17)
            view = memoryview(body)
            self._answer(head[1:17], view[:length], bytes(view[length:]))
        elif kind == wire.FUNCTION:
            self._functions[head[1:17]] = body
        elif kind == wire.FORGET:
            self._functions.clear()
        elif kind == wire.HELLO:
            sys.path[:] = pickle.loads(body)  # noqa: S301 (our parent)
        return bool(head)

    def _answer(self, digest: bytes, arguments: memoryview, place: bytes) -> None:
        name = "this call"
        try:
            cpus, res, instance = self._place(place)
            target = self._target(digest)
            name = repr(target)
            args, kwargs = self._payloads.load_arguments(arguments)
            self._bind(cpus)
        except (OSError, PayloadError) as error:
            ended: Outcome = outcome.Error(error)
        else:
            with GVAR.scope(res, instance):
                ended = run(Call(target.fn, args, kwargs))
        flush()
        pieces = self._payloads.outcome_pieces(ended, name)
        with wire.body_of(pieces) as body:
            wire.send(self._socket, b"", body)

    def _place(self, told: bytes) -> tuple[Any, ...]:
        """What a call's allocation is; calls in a row mostly have the same."""
        if told != self._told:
            self._known, _ = self._payloads.load_arguments(told)
            self._told = told
        return self._known

    def _target(self, digest: bytes) -> Target:
        found = self._functions[digest]
        if not callable(getattr(found, "fn", None)):
            found = self._functions[digest] = self._payloads.load_function(found)
        return found  # type: ignore[no-any-return]

    def _bind(self, cpus: Iterable[int] | None) -> None:
        """Run on these CPUs only, with all threads that a library may keep."""
        wanted = self._home if cpus is None else set(cpus)
        if wanted == self._cpus:
            return
        for thread in Path("/proc/self/task").iterdir():
            try:
                os.sched_setaffinity(int(thread.name), wanted)
            except ProcessLookupError:
                pass  # it has ended meanwhile
        self._cpus = wanted


def run(call: Call) -> Outcome:
    """Call a synchronous function and capture what becomes of it."""
    process = os.getpid()
    try:
        ended: Outcome = outcome.Value(call.fn(*call.args, **call.kwargs))
    except BaseException as error:
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # without this frame
        if os.getpid() != process:
            exit_fork(error)
        # SIGINT is not for this process, so that a KeyboardInterrupt is the function's own.
        ended = outcome.Error(error) if isinstance(error, Exception) else aborted(call, error)
    if os.getpid() != process:
        exit_fork()
    return ended


def exit_fork(error: BaseException | None = None) -> NoReturn:
    """End a process that the function has forked and that returned from it, too.

    It has the socket, but must not answer: that would be taken for the outcome of the next call.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    flush()
    os._exit(status & 0xFF)


def flush() -> None:
    """Let out what was printed, before the call returns."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the function has replaced or closed it


if __name__ == "__main__":
    main()
