"""The search for a direct way, while files or a relay carry the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge.connecting.seeking import SEEK_FIRST, SEEK_LAST, DirectWaySeeker

if TYPE_CHECKING:
    from trio.testing import MockClock


class Ways:
    """The times of looks for a direct way; the last look finds one."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self.at: list[float] = []

    async def find(self) -> bool:
        self.at.append(trio.current_time())
        return len(self.at) >= self._looks


@pytest.mark.parametrize("transport", ["files", "relay"])
async def test_a_direct_way_is_looked_for_ever_less_often(
    transport: str, autojump_clock: MockClock
) -> None:
    """Each pause is twice as long, up to 15 minutes, and differs by a quarter."""
    ways = Ways(9)
    begun = trio.current_time()
    await DirectWaySeeker(ways.find).until_direct(transport)

    pauses = [after - before for before, after in zip([begun, *ways.at], ways.at, strict=False)]
    expected = [min(SEEK_FIRST * 2**i, SEEK_LAST) for i in range(9)]
    assert [30, 60, 120, 240, 480, 900, 900, 900, 900] == expected
    assert all(0.74 * e < p < 1.26 * e for p, e in zip(pauses, expected, strict=True))


@pytest.mark.parametrize("transport", ["unix", "tcp", "reverse"])
async def test_a_direct_connection_stays(transport: str, autojump_clock: MockClock) -> None:
    ways = Ways(1)
    with trio.move_on_after(10 * SEEK_LAST):
        await DirectWaySeeker(ways.find).until_direct(transport)

    assert [] == ways.at


async def test_a_way_that_is_found_and_fails_is_not_tried_all_the_time(
    autojump_clock: MockClock,
) -> None:
    """The pauses grow from one such connection to the next, until there was a direct one."""
    ways = Ways(1)
    seeker = DirectWaySeeker(ways.find)
    spent = []
    for transport in ("files", "relay", "files", "unix", "files"):
        begun = trio.current_time()
        with trio.move_on_after(1000):
            await seeker.until_direct(transport)
        spent.append(trio.current_time() - begun)

    for seconds, expected in zip(spent, (30, 60, 120, 1000, 30), strict=True):
        assert 0.74 * expected < seconds < 1.26 * expected
