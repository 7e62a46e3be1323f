"""A supervisor: runs one program after another and reports how each ended."""

# ruff: noqa: S302
# (no contextlib here; marshal comes from our parent; see the package)

from __future__ import annotations

import marshal
import os
import time

from .caller import Caller
from .group import Group, KillCounter
from .meter import Meter, of_process
from .proc import become_subreaper
from .program import CannotStart, Program, Step
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
        self.out, self.err = fds[1:]
        self.home = os.sched_getaffinity(0)
        group = own_group(groups)
        kills = KillCounter(group is not None, of_process("self", "cgroup"))
        self.meter = Meter(budgets, group, kills)
        # Before any program, which may stop this process: the caller continues it by its pid.
        self.caller.report((STARTED, os.getpid()))

    def serve(self) -> None:
        """Serve requests until the caller leaves or has cancelled one."""
        while (fds := self.caller.next_request()) is not None:
            self.caller.report(self.run(fds))
            for fd in fds:
                os.close(fd)

    def run(self, fds: list[int]) -> tuple[Any, ...]:
        """Run one program to the end of its last descendant, and return the report.

        This process serves the next program as well, so it may change of itself only what it can
        change back, such as its CPUs; a nice level belongs in the child.
        """
        request: ProgramRequest = marshal.loads(os.pread(self.out, os.fstat(self.out).st_size, 0))
        # By an empty file the caller sees that the program may have run.
        os.ftruncate(self.out, 0)
        streams = {"stdin": (fds or [-1])[0], "stdout": self.out, "stderr": self.err}
        program = Program(request, streams)
        began = time.monotonic()
        self.meter.begin(began)
        try:
            # The program inherits this process's affinity: posix_spawn(3) has no attribute for it.
            cpus = request["cpus"] or self.home
            with Step("bind", str(sorted(cpus)).encode()):
                os.sched_setaffinity(0, cpus)
            pid = program.start()
            self.meter.count_files(None if program.scratch is None else program.scratch.path)
            status, seconds, usage = wait_until_gone(
                self.caller, pid, began, request["grace"], self.meter
            )
            # Before the scratch directory is removed: files in memory count.
            measured = self.meter.end(usage)
            tail = program.error_tail() if status else b""
        except CannotStart as failure:
            return failure.report
        finally:
            program.close()
        return (ENDED, status, seconds, *measured, tail)


def own_group(groups: str) -> Group | None:
    """Return a control group in which this process now is; None where that cannot be."""
    if not groups:
        return None
    try:
        return Group(groups)
    except (OSError, ValueError):
        return None
