"""Short tracebacks where an exception ends the program: the user's frames, and one sentence.

Python prints such an exception with `sys.excepthook`. When an exception leaves a mission, a
`TracebackFilter` takes that place: it leaves Grain's frames out while the hook before it prints,
be it Python's own or that of another library, and restores the exception. So code that catches the
exception, logs it or opens a debugger on it has all of it. A program whose missions end well keeps
its hook.

pytest and IPython print tracebacks by themselves, and hide frames that have a local variable
``__tracebackhide__``. The frames of Grain that stand between those of the user have it.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grain.delayed.display.failures import grouped
from grain.worker.errors import short_tracebacks, shows_all_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


@contextmanager
def shortened_tracebacks() -> Generator[None]:
    """Have Python print an exception of the block short, if it ends the program."""
    try:
        yield
    except BaseException as error:
        shorten_tracebacks(error)
        raise


def shorten_tracebacks(error: BaseException) -> None:
    """Have Python print an exception that leaves a mission, and others after it, short.

    Without effect in other threads than the main one, whose exceptions end no program, and if
    ``GRAIN_TRACEBACK`` is ``full``.
    """
    if shows_all_frames() or threading.current_thread() is not threading.main_thread():
        return
    if not isinstance(sys.excepthook, TracebackFilter):
        sys.excepthook = TracebackFilter(sys.excepthook)
    sys.excepthook.interrupted = isinstance(error, KeyboardInterrupt)


class TracebackFilter:
    """A hook for `sys.excepthook` that has another one print shorter tracebacks.

    Attributes:
        interrupted: True if the last exception that left a mission is that of Ctrl-C. The mission
            has reported it, so nothing else is printed.
    """

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self.interrupted = False

    def __call__(self, _: type[BaseException], error: BaseException, __: object) -> None:
        """Print an exception."""
        if self.interrupted and isinstance(error, KeyboardInterrupt):
            return
        with short_tracebacks(error):
            shown = grouped(error)
            self._hook(type(shown), shown, shown.__traceback__)
