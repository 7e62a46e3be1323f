"""The part of a runner's run in a gang: when the root begins, and when it is given up."""

from __future__ import annotations

import pytest
import trio

from grain.worker.call import Call
from grain.worker.errors import MemberLost
from grain.worker.gang.messages import JOIN, LEAD, SILENCE
from grain.worker.gang.part import RootPart
from grain.worker.messages import MemberOpen


async def nothing() -> None:
    raise AssertionError("it has begun")


def opened(index: int) -> MemberOpen:
    return MemberOpen((1, 1), index, f"w{index}", "host", {"Cores": [0]}, b"no invitation")


@pytest.mark.parametrize(("came", "absent"), [([], 1), ([1], 2), ([2, 2], 1), ([3, 1], 2)])
async def test_a_root_names_the_first_member_that_has_not_come(
    came: list[int], absent: int, autojump_clock: trio.testing.MockClock
) -> None:
    part = RootPart(Call(nothing, (), {}), 4, nothing)
    for index in came:
        part.add(opened(index))
    began = trio.current_time()

    with pytest.raises(MemberLost) as caught:
        await part.call().fn()

    assert (absent, False) == (caught.value.index, caught.value.joined)
    assert JOIN * SILENCE == trio.current_time() - began


async def test_a_root_says_that_it_begins_before_its_function_does() -> None:
    said: list[str] = []

    async def function(word: str) -> str:
        said.append(word)
        return "value"

    part = RootPart(Call(function, ("function",), {}), 2, lambda: said.append("begun"))

    assert "value" == await part.begin()
    assert ["begun", "function"] == said


def test_a_seat_waits_for_its_root_longer_than_that_waits_for_all_seats() -> None:
    """It first awaits the invitations of all, then that all join."""
    assert LEAD >= 2 * JOIN
