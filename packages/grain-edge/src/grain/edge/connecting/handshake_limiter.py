"""Who may try to authenticate over TCP, and for how long: a decision without I/O.

1. At most `total` connections are in their handshake, `each` of one address.
2. Where there is no room, the oldest one (of that address, or of all) makes room if it is older
   than `grace` seconds; an honest handshake takes a few milliseconds, so that is a silent or
   hostile one. Otherwise the newcomer is turned away; an honest dialler comes again.

3. All addresses of the loopback network count as one: any local user may connect from each of
   its sixteen million, and who belongs here comes over the Unix socket.

So silent connections delay nobody, and many honest ones at once do not drive each other out.
"""

from __future__ import annotations


class Guard:
    """The connections that are not authenticated yet.

    Args:
        total: how many in all.
        each: how many of one address.
        grace: seconds before one may be driven out.
    """

    def __init__(self, total: int = 64, each: int = 16, grace: float = 1.0) -> None:
        self.total = total
        self.each = each
        self.grace = grace
        self.turned_away = 0
        self.driven_out = 0
        # Insertion order is order of arrival.
        self._waiting: dict[int, tuple[str, float]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, address: str, now: float) -> tuple[int | None, int | None]:
        """A connection has come.

        Args:
            address: where from, without the port.
            now: seconds, of any clock.

        Returns:
            its ticket, or None if it is turned away; and the ticket that is driven out for it.
        """
        address = host_of(address)
        same = [ticket for ticket, (of, _) in self._waiting.items() if of == address]
        out: int | None = None
        if len(same) >= self.each:
            out = same[0]
        elif len(self._waiting) >= self.total:
            out = next(iter(self._waiting))
        if out is not None:
            if now - self._waiting[out][1] < self.grace:
                self.turned_away += 1
                return None, None
            del self._waiting[out]
            self.driven_out += 1
        self._next += 1
        self._waiting[self._next] = (address, now)
        return self._next, out

    def leave(self, ticket: int) -> None:
        """It is authenticated, or gone."""
        self._waiting.pop(ticket, None)


def host_of(address: str) -> str:
    """The address under which a connection is counted."""
    local = address == "::1" or address.removeprefix("::ffff:").startswith("127.")
    return "loopback" if local else address
