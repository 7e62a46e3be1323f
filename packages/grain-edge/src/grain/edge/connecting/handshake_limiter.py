"""Limits for connections that try to authenticate over TCP.

`HandshakeLimiter` decides, without I/O:

1. At most `total` connections are in their handshake, `each` of one address.
2. Where there is no capacity, the oldest one (of that address, or of all) is driven out if it is
   older than `grace` seconds; an honest handshake takes a few milliseconds, so that is a silent or
   hostile one. Otherwise the newcomer is turned away; an honest dialler comes again.
3. All addresses of the loopback network count as one: any local user may connect from each of
   its sixteen million, and who belongs here comes over the Unix socket. So do those of an IPv6
   network of 64 bits, which one host can have all for itself.

So silent connections delay no others, and many honest ones at once do not drive each other out.
`Handshakes` carries the decisions out.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDSHAKE = 10.0
"""Seconds until a peer must be authenticated."""


class Handshakes:
    """The connections of one listener that are not authenticated yet, each with a time limit."""

    def __init__(self) -> None:
        self._limiter = HandshakeLimiter()
        self._scopes: dict[int, trio.CancelScope] = {}

    @contextmanager
    def limited(self, host: str) -> Iterator[bool]:
        """Run a handshake within the limits.

        The body is cancelled after `HANDSHAKE` seconds, or when the connection is driven out.

        Yields:
            False if the connection is turned away.
        """
        number, driven_out = self._limiter.admit(host, trio.current_time())
        if driven_out is not None:
            self._scopes.pop(driven_out).cancel()
        if number is None:
            yield False
            return
        with trio.move_on_after(HANDSHAKE) as scope:
            self._scopes[number] = scope
            try:
                yield True
            finally:
                self._scopes.pop(number, None)
                self._limiter.leave(number)


class HandshakeLimiter:
    """The decisions: which connections may try to authenticate."""

    def __init__(self, total: int = 64, each: int = 16, grace: float = 1.0) -> None:
        self.total = total
        self.each = each
        self.grace = grace
        self.driven_out = 0
        # Insertion order is order of arrival.
        self._waiting: dict[int, tuple[str, float]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, address: str, now: float) -> tuple[int | None, int | None]:
        """Decide on a connection that has come.

        Args:
            address: where from, without the port.
            now: seconds, of any clock.

        Returns:
            its number, or None if it is turned away; and the number of the connection that is
            driven out for it, or None.
        """
        address = host_of(address)
        same = [number for number, (of, _) in self._waiting.items() if of == address]
        out: int | None = None
        if len(same) >= self.each:
            out = same[0]
        elif len(self._waiting) >= self.total:
            out = next(iter(self._waiting))
        if out is not None:
            if now - self._waiting[out][1] < self.grace:
                return None, None
            del self._waiting[out]
            self.driven_out += 1
        self._next += 1
        self._waiting[self._next] = (address, now)
        return self._next, out

    def leave(self, number: int) -> None:
        """Count a connection no more: it is authenticated, or closed."""
        self._waiting.pop(number, None)


def host_of(address: str) -> str:
    """Return the address under which a connection is counted."""
    address = address.removeprefix("::ffff:")
    if address == "::1" or address.startswith("127."):
        return "loopback"
    if ":" not in address:
        return address
    from ipaddress import IPv6Network

    try:
        return str(IPv6Network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
