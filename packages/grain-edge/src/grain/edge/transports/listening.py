"""Accepting connections for as long as it takes."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("grain.edge")
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


async def accept_forever(
    listener: trio.SocketListener, take: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    """Start a task for each connection, which owns it.

    Closes the listener at the end. Unlike `trio.serve_listeners` it leaves the stream open when
    that task returns, so that a task may hand it on.
    """
    try:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as e:
                    if e.errno not in _EXHAUSTED:
                        raise
                    _log.warning("cannot accept connections: %s", e.strerror)
                    await trio.sleep(0.1)
                else:
                    nursery.start_soon(take, stream)
    finally:
        # Not by `aclose`, a checkpoint, where a cancellation would replace a task's error.
        listener.socket.close()
