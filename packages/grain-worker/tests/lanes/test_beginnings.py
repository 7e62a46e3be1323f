"""The calls that lanes have begun, as the agent of a runner reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grain.worker.lanes.beginnings import Beginnings, open_beginnings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fd() -> Iterator[int]:
    fd = open_beginnings()
    yield fd
    os.close(fd)


def test_the_last_call_of_each_lane_is_read_elsewhere(fd: int) -> None:
    noted = Beginnings(fd)
    one, other, idle = (noted.enter((7, number)) for number in (1, 2, 3))
    one[0] = 10
    other[0] = 11
    one[0] = 12

    assert [0] == list(idle)
    assert {(7, 1): 12, (7, 2): 11} == Beginnings(fd).read()


def test_a_lane_that_is_over_leaves_its_place_to_the_next_which_has_begun_nothing(fd: int) -> None:
    noted = Beginnings(fd)
    noted.enter((7, 1))[0] = 10
    noted.leave((7, 1))
    assert {(7, 1): 10} == Beginnings(fd).read()  # its end may be lost with the runner
    noted.enter((7, 2))

    assert {} == Beginnings(fd).read()


def test_more_lanes_than_there_are_places_go_without(fd: int) -> None:
    noted = Beginnings(fd)
    for number in range(2000):
        noted.enter((7, number))[0] = number + 1
    noted.leave((7, 1999))

    assert 500 < len(Beginnings(fd).read()) < 2000


def test_a_user_cannot_make_shorter_what_the_agent_reads(fd: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 7)


def test_where_memory_cannot_be_shared_no_call_is_read() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    Beginnings(fd).enter((7, 1))[0] = 10
    assert {} == Beginnings(fd).read()
    os.close(fd)
