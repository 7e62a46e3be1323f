"""A keeper: minds one program after the other."""

# ruff: noqa: S302
# (no contextlib here; marshal comes from our parent; see the package)

from __future__ import annotations

import marshal
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from grain.worker.guards.proc import receive
    from grain.worker.guards.program import CannotStart, Program, Step
    from grain.worker.guards.tree import Minder
else:
    from proc import receive
    from program import CannotStart, Program, Step
    from tree import Minder


class Keeper(Minder):
    """Minds one program after the other until its socket is closed."""

    def __init__(self, fds: list[int], caller: int | None) -> None:
        super().__init__(b"grain-keeper", fds[0], caller)
        self.out, self.err = fds[1:]
        self.home = os.sched_getaffinity(0)

    def serve(self) -> None:
        """Answer requests until the caller is gone or cancels one."""
        while not self.cancelled:
            events = dict(self.poll.poll())
            if self.wakeup.fd in events:
                self.wakeup.clear()
            elif self.socket.fileno() not in events:
                return
            else:
                message, fds = receive(self.socket)
                if message != b"r":
                    return
                self.answer(self.run(fds))
                for fd in fds:
                    os.close(fd)

    def run(self, fds: list[int]) -> tuple[Any, ...]:
        """Run one program to the end of its last descendant and report."""
        request = marshal.loads(os.pread(self.out, os.fstat(self.out).st_size, 0))
        os.ftruncate(self.out, 0)
        streams = {"stdin": (fds or [-1])[0], "stdout": self.out, "stderr": self.err}
        program = Program(request, streams)
        began = time.monotonic()
        try:
            # The program inherits the keeper's affinity: posix_spawn(3) has no attribute for it.
            cpus = request["cpus"] or self.home
            with Step("bind", str(sorted(cpus)).encode()):
                os.sched_setaffinity(0, cpus)
            status, seconds, usage = self.mind(program.start(), began, request["grace"])
            tail = program.error_tail() if status else b""
        except CannotStart as failure:
            return failure.report
        finally:
            program.close()
        return ("ended", status, seconds, *usage, tail)
