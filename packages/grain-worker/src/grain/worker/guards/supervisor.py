"""A supervisor: runs one program after another and reports how each ended."""

# ruff: noqa: S302
# (no contextlib here; marshal comes from our parent; see the package)

from __future__ import annotations

import marshal
import os
import signal
import time

from .caller import Caller
from .group import Group, KillCounter
from .meter import Meter, of_process
from .proc import become_subreaper
from .program import WARNINGS, CannotStart, Links, Program
from .protocol import ENDED, STARTED
from .tree import wait_until_gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .meter import Budgets
    from .protocol import ProgramRequest


class Supervisor:
    """The supervisor: it runs programs one by one, until its caller leaves or has cancelled one.

    Args:
        fds: the socket to the caller, and the files for what programs write to stdout and stderr.
    """

    def __init__(
        self, fds: list[int], pidfd: int | None, budgets: Budgets, groups: str = ""
    ) -> None:
        become_subreaper(b"grain-supervise")
        self.caller = Caller(fds[0], pidfd)
        # Where programs have them: what stands in its place costs nothing at a start.
        for place, fd in enumerate(fds[1:], 1):
            os.dup2(fd, place)
            os.close(fd)
        self.env: dict[bytes, bytes] = {}
        self.links = Links()
        self.home = sorted(os.sched_getaffinity(0))
        self.umask = os.umask(0o077)
        os.umask(self.umask)
        actions = {
            number: signal.getsignal(number)
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        }
        # All signals but the ignored ones, which programs inherit. For a full set, the C library
        # does not have to ask the kernel about each signal.
        self.defaults = {one for one, action in actions.items() if action != signal.SIG_IGN}
        self.changed = {one for one, action in actions.items() if action != signal.SIG_DFL}
        group = own_group(groups)
        kills = KillCounter(group is not None, of_process("self", "cgroup"))
        self.meter = Meter(budgets, group, kills)
        # Before any program, which may stop this process: the caller continues it by its pid.
        self.caller.report((STARTED, os.getpid()))

    def serve(self) -> None:
        """Serve requests until the caller leaves or has cancelled one."""
        while (message := self.caller.next_request()) is not None:
            data, fds = message
            if not data:
                data = content(fds.pop(0))
            same, request = marshal.loads(data)
            if same:
                request["env"] = self.env
            self.env = request["env"]
            self.caller.report(self.run(request, fds[0] if fds else 0))
            for fd in fds:
                os.close(fd)
        self.links.close()

    def run(self, request: ProgramRequest, stdin: int) -> tuple[Any, ...]:
        """Run one program to the end of its last descendant, and return the report.

        This process serves the next program as well, so it may change of itself only what it can
        change back, such as its CPUs; a nice level belongs in the child.
        """
        defaults = self.defaults | WARNINGS if request["warned"] else self.defaults
        program = Program(request, stdin, defaults, self.changed & defaults, self.links)
        began = time.monotonic()
        self.meter.begin(began, request["most"])
        try:
            # The program inherits this process's affinity: posix_spawn(3) has no attribute for it.
            bind(request["cpus"] or self.home)
            if request["shell"] is not None:
                os.umask(request["shell"][0])
            try:
                pid = program.start()
            finally:
                os.umask(self.umask)
            for spill in program.spills.values():
                self.caller.watch(spill.ours, spill.read)
            self.meter.count_files(None if program.scratch is None else program.scratch.path)
            status, seconds, by_itself, usage = wait_until_gone(
                self.caller, pid, began, request["grace"], self.meter
            )
            # Before the scratch directory is removed: files in memory count.
            measured = self.meter.end(usage, status)
            for spill in program.spills.values():
                self.caller.unwatch(spill.ours)
                spill.end()
            tails = program.tails() if status else (b"", b"")
        except CannotStart as failure:
            return failure.report
        finally:
            program.close()
        # One that came to its own end before it could be told has what it needed.
        exceeded = self.meter.exceeded and not by_itself
        spilled = program.spilled()
        return (ENDED, status, seconds, by_itself, *measured, *tails, exceeded, *spilled)


def bind(cpus: list[int]) -> None:
    """Have this process run on some CPUs, and so the next program.

    Each time: the last program may have bound this process, too.

    Raises:
        CannotStart: the kernel refuses.
    """
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise CannotStart("bind", error.errno or 0, str(cpus).encode()) from None


def content(fd: int) -> bytes:
    """Return the content of a memory file, and close it."""
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)


def own_group(groups: str) -> Group | None:
    """Return a control group in which this process now is; None where that cannot be."""
    if not groups:
        return None
    try:
        return Group(groups)
    except (OSError, ValueError):
        return None
