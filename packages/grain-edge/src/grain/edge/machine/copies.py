"""Copies of a process of Grain's, which code in it has forked: they end before they do anything.

A child of `os.fork` that runs another program, or ends by `os._exit`, is the user's own affair, and
so is what it does until then. But a child that comes back, as after an exec that failed, would go
on as the process that it is a copy of: it has the loop, its tasks and its connections.

Nothing looks for copies while there is none. A fork adds an instrument to the copy's loop, which
ends the copy before the loop takes another step. What Grain does within the step of the code that
has forked asks `Origin`: it is before a message leaves, and after the user's code has returned.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_USERS: trio.lowlevel.RunVar[int] = trio.lowlevel.RunVar("blocks of grain.edge.machine.copies", 0)
_HOST: trio.lowlevel.RunVar[Callable[[Callable[[], object]], object] | None] = trio.lowlevel.RunVar(
    "call_soon of the loop that is host to trio", None
)


def end_copies_in(call_soon: Callable[[Callable[[], object]], object]) -> None:
    """End copies that code in the loop around this one, of asyncio, forks in such a block.

    A copy of that loop that closes what it has would take it from the original's, as both have one
    descriptor for what they wait for.

    Args:
        call_soon: has that loop call a function, before anything else that it does.
    """
    _HOST.set(call_soon)


@contextmanager
def ending_copies() -> Iterator[None]:
    """End copies of this process that code in its loop forks in the block, and that come back."""
    _USERS.set(_USERS.get() + 1)
    try:
        yield
    finally:
        _USERS.set(_USERS.get() - 1)


class _Forks:
    """The number of forks from the first process that had this module to this process.

    A call of `os.getpid` would tell a copy as well, but is a system call, and each run asks.
    """

    number = 0

    def in_child(self) -> None:
        self.number += 1


_FORKS = _Forks()


class Origin:
    """The process that made this object."""

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _FORKS.number

    def check(self, error: BaseException | None = None) -> None:
        """End this process if it is a copy of that one.

        Args:
            error: what the user's code raised in it.
        """
        if self._forks != _FORKS.number:
            _end_copy(error)


def _end_copy(error: BaseException | None = None) -> NoReturn:
    """End this process, a copy, without clean-up: that is up to the original.

    Args:
        error: what the user's code raised in it; it gets the exit status of that.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    # Not to sys.stderr, which may write it in the name of a task.
    line = (
        f"Grain ended process {os.getpid()}: a task had forked it (os.fork), and it came back from "
        "the task. End such a process by os._exit\n"
    )
    try:
        os.write(2, line.encode())
    finally:
        os._exit(status & 0xFF)


class _End(trio.abc.Instrument):
    """The end of a copy, as soon as its loop does anything."""

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        _end_copy()

    def after_task_step(self, _: trio.lowlevel.Task) -> None:
        _end_copy()

    def before_io_wait(self, _: float) -> None:
        _end_copy()


def _in_child() -> None:
    _FORKS.in_child()
    try:
        users, call_soon = _USERS.get(), _HOST.get()
    except RuntimeError:
        return  # another thread has forked, and the loop is not in the copy
    if users:
        trio.lowlevel.add_instrument(_End())
        if call_soon is not None:
            call_soon(_end_copy)


# For good, as Python allows no other way. In a process without such a loop it does nothing.
os.register_at_fork(after_in_child=_in_child)
