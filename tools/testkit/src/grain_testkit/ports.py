"""Ports that no other test gets while a test has them."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def reserved_port(host: str = "127.0.0.1") -> Iterator[int]:
    """Reserve a port, at which no process listens, for a listener that is given its number.

    A port that was free a moment ago may be another test's by now.
    """
    with socket.socket() as holder:
        holder.bind((host, 0))
        # From now on a listener that allows as much, as all of trio's do, may be bound to it, too.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]
