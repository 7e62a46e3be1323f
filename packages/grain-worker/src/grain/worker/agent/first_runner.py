"""The first runner of a worker: forked from its agent, with the code that both need.

To start Python and to load trio takes three quarters of the start of a runner, and the agent has
just done that. So the agent forks before it has a loop, a thread, a log or a lock. The child
becomes the subreaper of the first runner, and forks that when the agent tells it to. A runner that
dies is followed by one that is started as any program is: by then the agent cannot be forked.

What is below the agent is as it would be otherwise: a subreaper, its runner; and so is what a
runner sees of itself, but for ``sys.flags.safe_path``.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from types import ModuleType
from typing import NoReturn

import trio

from grain.worker.guards.caller import Caller
from grain.worker.guards.proc import become_subreaper, unguarded
from grain.worker.guards.protocol import RUN, RUN_LONGEST
from grain.worker.guards.subreaper import CHILD_SOCKET, NAME, attend
from grain.worker.node.shown import show
from grain.worker.processes.environment import MARKS
from grain.worker.processes.subreaper_client import SubreaperProcess
from grain.worker.processes.sweep import Sweep


class FirstRunner:
    """A subreaper that waits for its runner, as the agent that has forked it sees it.

    If the agent ends without a word, it ends, too.

    Attributes:
        pid: its process id.
    """

    def __init__(self, pid: int, pidfd: int, control: socket.socket) -> None:
        self.pid = pid
        self._pidfd: int | None = pidfd  # None once it was waited for
        self._control = control

    @classmethod
    def fork(cls) -> FirstRunner | None:
        """Fork it, in a process that does nothing else yet.

        Returns:
            None where that is not safe or not possible; then the first runner is started. The
            runner does not return from here: it ends by SystemExit.
        """
        if threading.active_count() > 1:
            return None  # a lock that another thread has would never be free
        try:
            agent = os.pidfd_open(os.getpid())
        except (AttributeError, OSError):
            return None  # before Linux 5.3
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Without a standard input or output, what comes next would have its number.
        pid = -1 if min(agent, control.fileno(), theirs.fileno()) < 3 else _fork()
        if not pid:
            control.close()
            _serve(theirs.detach(), agent)
        theirs.close()
        os.close(agent)
        if pid < 0:
            control.close()
            return None
        control.setblocking(False)
        return cls(pid, os.pidfd_open(pid), control)

    def start(self, argv: list[str], grace: float, fds: tuple[int, int]) -> SubreaperProcess | None:
        """Have it start its runner; to be called once.

        Args:
            argv: the command line of a runner that is started.
            grace: seconds between SIGTERM and SIGKILL for what the runner leaves behind.
            fds: those of its reports and of its `Beginnings`, whose numbers stand before the last
                word of ``argv``.

        Returns:
            None if it is dead, or the command line is too long.
        """
        sweep = Sweep(grace)
        marks = sweep.environment(os.environb)[MARKS]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            request = RUN + marshal.dumps((argv, grace, marks))
            with suppress(OSError):
                if len(request) <= RUN_LONGEST:
                    socket.send_fds(self._control, [request], [theirs.fileno(), *fds])
                    return SubreaperProcess(self, self._control, ours, sweep)
        ours.close()
        self._control.close()
        self.send_signal(signal.SIGKILL)  # or it could be stopped, and be waited for without end
        self._forget()
        return None

    def send_signal(self, sig: signal.Signals) -> None:
        """Send it a signal, unless it was waited for."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, sig)

    async def wait(self) -> None:
        """Wait until it has ended, and have the kernel forget it; to be called once."""
        assert self._pidfd is not None
        await trio.lowlevel.wait_readable(self._pidfd)
        self._forget()

    def _forget(self) -> None:
        """Have the kernel forget it, once it has ended or was killed."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
            with suppress(ChildProcessError):  # where SIGCHLD is ignored, it is forgotten already
                os.waitpid(self.pid, 0)


def _fork() -> int:
    """Fork; return what os.fork returns, and -1 if there are too many processes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or both would write what waits
    # A collection would write to, and so copy, every page that the processes share.
    gc.freeze()
    try:
        return os.fork()
    except OSError:
        return -1


def _serve(control: int, agent: int) -> NoReturn:
    """Be the subreaper, in the child: fork the runner when the agent says so, and attend to it."""
    # Ctrl-C at the terminal is for the agent, which then decides.
    os.setsid()
    _close_all_but(control, agent)
    become_subreaper(NAME)
    show([NAME], os.environb)
    caller = Caller(control, agent)
    request = caller.next_request()
    if request is None:
        os._exit(0)
    data, (sock, *fds) = request
    argv, grace, marks = marshal.loads(data)  # noqa: S302 (our parent)
    os.environb[MARKS] = marks
    # Not as Python 3.10 is told to run a module, for which there may be no room.
    words = [argv[0], "-P", "-m", *argv[-5:]]
    show([NAME, *map(os.fsencode, words)], os.environb)
    began = time.monotonic()
    pid = os.fork()
    if not pid:
        caller.close()
        os.close(agent)
        unguarded()
        show(list(map(os.fsencode, words)), os.environb)
        _run(argv, sock, fds)
    os.close(sock)  # so that its end of file is that of the runner
    for fd in fds:
        os.close(fd)
    attend(caller, pid, began, grace)
    os._exit(0)


def _run(argv: list[str], sock: int, fds: list[int]) -> NoReturn:
    """Be the runner, as if it had been started by a command line."""
    import grain.worker.runner.main as module

    fds = [os.dup(fd) if fd == CHILD_SOCKET else fd for fd in fds]
    if sock != CHILD_SOCKET:
        os.dup2(sock, CHILD_SOCKET)
        os.close(sock)
    name, *_, settings = argv[-4:]
    if not getattr(sys.flags, "safe_path", False) and sys.orig_argv[1:2] != ["-c"]:
        del sys.path[0]  # the directory of the script, or that in which the agent was started
    sys.orig_argv[:] = argv
    sys.argv[:] = [module.__file__, name, *map(str, fds), settings]
    main = ModuleType("__main__")
    main.__spec__, main.__file__ = module.__spec__, module.__file__
    sys.modules["__main__"] = main
    module.main()
    raise SystemExit


def _close_all_but(*kept: int) -> None:
    """Close what the agent may itself have inherited, and read nothing from the terminal."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:  # standard error
            os.closerange(int(name), int(name) + 1)  # silent about the listing's own
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
