"""Signals, handled before anything that arrives after them."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType


@contextmanager
def on_signals(handle: Callable[[int], object], *numbers: int) -> Generator[None]:
    """Call a function in trio's thread when one of these signals comes, within the block.

    Unlike with `trio.open_signal_receiver`, no other task runs in between: whatever is received
    after the signal is seen to come after it. What the function raises is a bug.

    Args:
        handle: called with the signal's number; it must not wait.
    """
    token = trio.lowlevel.current_trio_token()

    def handler(number: int, _: FrameType | None) -> None:
        # Not here: a handler runs between any two instructions, also of trio's own.
        token.run_sync_soon(handle, number)

    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


async def signals_handled() -> None:
    """Return when the functions of `on_signals` have taken all signals that have come so far."""
    done = trio.Event()
    trio.lowlevel.current_trio_token().run_sync_soon(done.set)  # they come in their order
    await done.wait()
