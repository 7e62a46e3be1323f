"""Signals in children that user code forks, as multiprocessing does."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class DefaultInChildren:
    """The default dispositions of signals, restored in each forked child of this process.

    `multiprocessing.Pool` ends its processes by SIGTERM and waits for them without end. A handler
    of this process that they inherit is in the way, even one that knows it is in a child: Python
    forgets a signal that arrives before its own first steps after a fork, and a process about to
    wait for a semaphore runs a handler only when that wait is over. So the signals are blocked
    while a thread forks, and what has arrived takes effect once the child has the default.

    Args:
        is_ours: returns True for a handler that goes; others are the user's.
    """

    def __init__(
        self, numbers: Collection[signal.Signals], is_ours: Callable[[object], bool]
    ) -> None:
        self._numbers = frozenset(numbers)
        self._is_ours = is_ours
        # Of each thread that forks: the signals that it had blocked before.
        self._before = threading.local()

    def register(self) -> None:
        """Do so from now on; for good, as Python allows no other way."""
        os.register_at_fork(
            before=self._block, after_in_parent=self._unblock, after_in_child=self._in_child
        )

    def _block(self) -> None:
        self._before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before.mask)

    def _in_child(self) -> None:
        for number in self._numbers:
            if self._is_ours(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        self._unblock()
