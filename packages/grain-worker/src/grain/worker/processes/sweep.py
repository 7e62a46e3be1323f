"""The end of what a killed subreaper has left: a search by a mark in the environment.

Each process below a subreaper inherits its mark, the guards among them. Two ways lead to a process
that has another environment, as a daemon may: its supervisor, which ends it; and its parents. So
nothing is missed while one guard of each program lives.
"""

# ruff: noqa: PTH123
# No pathlib: it interns each part of a path, and all pids stand here in paths.

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from typing import TYPE_CHECKING

from grain.files.processes import marked
from grain.worker.guards.proc import send_signal
from grain.worker.guards.protocol import UNKILLABLE
from grain.worker.guards.tree import HURRY_GRACE
from grain.worker.processes.environment import MARKS

if TYPE_CHECKING:
    from collections.abc import Mapping

_GUARDS = frozenset({b"grain-forkserv\n", b"grain-supervise\n", b"grain-subreaper\n"})


class Sweep:
    """The end of all that carries a mark, in a thread of its own.

    Args:
        grace: seconds between SIGTERM and SIGKILL.

    Attributes:
        mark: random, so that no other process has it.
    """

    def __init__(self, grace: float) -> None:
        self.mark = secrets.token_hex(8).encode() + b":"
        self._grace = grace
        self._hurry = threading.Event()

    def environment(self, inherited: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return an environment with the mark, beside marks that it may have already."""
        environment = dict(inherited)
        environment.pop(b"", None)  # as in `environment`
        environment[MARKS] = environment.get(MARKS, b"") + self.mark
        return environment

    def hurry(self) -> None:
        """Have what is left ended after 0.3 s; this may be called at any time, in any thread."""
        self._hurry.set()

    def run(self) -> tuple[int, ...]:
        """End everything, as a subreaper does; return the pids of what survives SIGKILL.

        It takes no longer than the grace and half a minute. Not by trio's clock, which may be that
        of a test and not of these processes.
        """
        began, pause = time.monotonic(), 0.01
        # A stopped process acts on SIGTERM only when it continues. Guards ignore it.
        reached = set(send_signal(marked(self.mark), signal.SIGTERM, signal.SIGCONT))
        while reached:
            hurried = self._hurry.wait(pause)
            pause = min(2 * pause, 1.0)
            waited = time.monotonic() - began
            grace = min(self._grace, HURRY_GRACE) if hurried else self._grace
            if waited > grace + UNKILLABLE:
                return tuple(sorted(reached))
            reached = set(send_signal(marked(self.mark)))
            if waited >= grace:
                # A guard leaves when nothing is left below it. A guard that was killed before would
                # lose the
                # processes that its program starts just now.
                others = [pid for pid in reached if not is_guard(pid)]
                send_signal(others or list(reached), signal.SIGKILL)
            if hurried:
                time.sleep(pause)
        return ()


def own_mark() -> str:
    """Return the mark of the subreaper that this process is below; "" if there is none."""
    *_, mark, _ = "", *os.environb.get(MARKS, b"").decode(errors="replace").split(":")
    return mark and f"{mark}:"


def is_guard(pid: int) -> bool:
    """Return True if a process has the name of a guard."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read() in _GUARDS
    except OSError:
        return False
