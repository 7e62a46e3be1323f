"""Blocking calls in the process of the test, where a clock jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Callable


async def call_in_place(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
    """Call a function in place of `trio.to_thread.run_sync`.

    An autojump clock does not wait for threads: on a busy machine, hours of it pass while one
    writes a file.
    """
    await trio.lowlevel.checkpoint()
    return function(*args)
