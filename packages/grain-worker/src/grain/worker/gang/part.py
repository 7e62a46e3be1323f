"""The part of a runner's run in a gang: the root's tasklet, or the keeper of a seat."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import trio

from grain.resource import from_data
from grain.worker.call import Call
from grain.worker.errors import MemberLost
from grain.worker.gang.messages import JOIN, SILENCE
from grain.worker.gang.session import Seat, keep_seat, lead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.worker.messages import MemberOpen


class RootPart:
    """The call of a gang's task, which begins when all members have joined.

    Args:
        call: the user's.
        size: the number of members.
        begun: called when the user's function begins.
    """

    def __init__(self, call: Call, size: int, begun: Callable[[], object]) -> None:
        self._call = call
        self._size = size
        self._begun = begun
        self._open: dict[int, MemberOpen] = {}
        self._all_open = trio.Event()

    def add(self, member: MemberOpen) -> None:
        """Record that a seat awaits its root; a repeated message has no effect."""
        self._open.setdefault(member.index, member)
        if len(self._open) == self._size - 1:
            self._all_open.set()

    def call(self) -> Call:
        """Return the call to run in its place."""

        @functools.wraps(self._call.fn)
        async def led() -> Any:
            return await self._lead()

        return Call(led, (), {})

    async def _lead(self) -> Any:
        with trio.move_on_after(JOIN * SILENCE):
            await self._all_open.wait()
        if not self._all_open.is_set():
            absent = next(k for k in range(1, self._size) if k not in self._open)
            why = f"it was not ready within {JOIN * SILENCE:.0f} s"
            raise MemberLost(absent, f"member {absent}", why, joined=False)
        seats = [self._open[index] for index in range(1, self._size)]
        invited = [
            Seat(seat.name, seat.host, from_data(seat.res), seat.invitation) for seat in seats
        ]
        return await lead(invited, self.begin)

    async def begin(self) -> Any:
        """Call the user's function, and say so first."""
        fn, args, kwargs = self._call
        self._begun()
        return await fn(*args, **kwargs)


def seat_call(announce: Callable[[bytes], object], ends: Callable[[], Awaitable[bool]]) -> Call:
    """Return the call that keeps a seat; see `keep_seat`."""
    return Call(keep_seat, (announce, ends), {})
