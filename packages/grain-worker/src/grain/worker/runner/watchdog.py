"""A thread that prints all stacks when the event loop is blocked.

`faulthandler.dump_traceback_later` does the same without the interpreter's lock. It reads frames
that run meanwhile, and was seen to crash a process that was just continued after a stop.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

    from typing_extensions import Self

_STOPPED = 1.0  # seconds; a thread that wakes so late was stopped, and its whole process with it


class Watchdog:
    """A ``with`` block that prints the stacks once for each time that `feed` is not called.

    Code that holds the interpreter's lock blocks this thread, too, which then prints afterwards.

    Args:
        patience: seconds without `feed` after which it prints.
        out: the file that it prints to; by default ``sys.stderr``.
    """

    def __init__(self, patience: float, out: TextIO | None = None) -> None:
        self._patience = patience
        self._out = out
        self._fed = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def feed(self) -> None:
        """Note that nothing is blocked."""
        self._fed = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        reported = 0.0  # the feeding after which it has printed
        while True:
            fed, now = self._fed, time.monotonic()
            pause = self._patience if fed == reported else max(0.0, fed + self._patience - now)
            if self._ended.wait(pause):
                return
            if self._fed != fed or reported == fed:
                continue
            if time.monotonic() - now - pause > _STOPPED:
                self.feed()
                continue
            reported = fed
            self._print()

    def _print(self) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        lines = [f"The event loop has been blocked for {self._patience:g} s.\n"]
        for ident, frame in sys._current_frames().items():  # documented, in spite of its name
            if ident != self._thread.ident:
                lines.append(f"Thread {names.get(ident, ident)} (most recent call last):\n")
                lines += traceback.format_stack(frame)
        out = self._out or sys.stderr
        out.write("".join(lines))
        out.flush()
