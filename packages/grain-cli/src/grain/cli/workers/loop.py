"""The loop of `grain scale`: a step every some seconds, until a signal or the end of a parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL, BATCH = 2.0, 15.0
"""Seconds between two looks at processes of this machine, and between two at a batch system."""


def seconds_between(system: str) -> float:
    """Return the seconds between two looks at a batch system."""
    return LOCAL if system == "local" else BATCH


class SignalLoop:
    """A loop that SIGINT, SIGTERM and SIGHUP end; the step that has begun is completed first.

    Under ``nohup``, which ignores SIGHUP, the loop goes on when its terminal is closed.

    Args:
        parent: the pid of the process with which it ends; None if it ends by signals only.
    """

    def __init__(self, parent: int | None = None) -> None:
        self._parent = parent
        self._over = False
        # A pipe and not a `threading.Event`: a handler that sets an event blocks without end if the
        # signal arrives while this thread holds the event's lock.
        self._ending, self._end = os.pipe()
        os.set_blocking(self._end, False)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._over = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._end, b"!")

    def run(self, step: Callable[[], None], seconds: float) -> None:
        """Take a step, wait, and so on until the end."""
        while not self._over and self._parent in {None, os.getppid()}:
            step()
            select.select([self._ending], [], [], seconds)
