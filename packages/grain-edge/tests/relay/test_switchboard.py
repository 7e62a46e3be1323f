"""The decisions of a bridge's server, without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.relay.switchboard import Limits, Refused, Switchboard


def test_the_first_head_leads_until_it_leaves() -> None:
    board = Switchboard(Limits())
    one, other = board.enter(b"a", 0.0), board.enter(b"a", 0.0)
    assert (True, None) == board.lead(one, 10)
    board.publish(one, b"sealed")
    assert (False, None) == board.lead(other, 10)
    assert (10, b"sealed") == (board.of(other).epoch, board.of(other).sealed)
    board.leave(one, 1.0)
    assert (0, b"") == (board.of(other).epoch, board.of(other).sealed)
    assert (True, None) == board.lead(other, 5)


def test_a_larger_epoch_takes_the_place_of_a_head() -> None:
    """What the other one publishes after that is ignored."""
    board = Switchboard(Limits())
    one, other = board.enter(b"a", 0.0), board.enter(b"a", 0.0)
    board.lead(one, 10)
    assert (True, one) == board.lead(other, 11)
    board.publish(one, b"late")
    assert b"" == board.of(one).sealed
    board.leave(one, 1.0)
    assert 11 == board.of(other).epoch


def test_a_member_waits_until_it_is_taken_once() -> None:
    board = Switchboard(Limits())
    head, member = board.enter(b"a", 0.0), board.enter(b"a", 0.0)
    with pytest.raises(Refused, match="no scheduler is connected"):
        board.join(member)
    board.lead(head, 1)
    leader, token = board.join(member)
    assert head == leader
    taker = board.enter(b"a", 0.0)
    assert member == board.take(taker, token)
    with pytest.raises(Refused, match="waits no more"):
        board.take(taker, token)


def test_a_token_of_another_meeting_is_of_no_use() -> None:
    board = Switchboard(Limits())
    head, member = board.enter(b"a", 0.0), board.enter(b"a", 0.0)
    board.lead(head, 1)
    _, token = board.join(member)
    with pytest.raises(Refused):
        board.take(board.enter(b"b", 0.0), token)
    assert member == board.take(board.enter(b"a", 0.0), token)


def test_a_meeting_that_takes_all_it_may_leaves_others_alone() -> None:
    board = Switchboard(Limits(each=3, burst=100))
    for _ in range(3):
        board.enter(b"a", 0.0)
    with pytest.raises(Refused, match="has 3 connections, the most"):
        board.enter(b"a", 0.0)
    board.enter(b"b", 0.0)


def test_connections_in_quick_succession_are_refused_after_a_burst() -> None:
    """Leaving and coming again does not restore the credit; time does."""
    board = Switchboard(Limits(burst=3, rate=1.0))
    for _ in range(3):
        board.leave(board.enter(b"a", 0.0), 0.0)
    with pytest.raises(Refused, match="faster than this bridge allows"):
        board.enter(b"a", 0.0)
    board.enter(b"a", 1.0)
    with pytest.raises(Refused):
        board.enter(b"a", 1.0)


def test_members_that_wait_are_limited() -> None:
    board = Switchboard(Limits(waiting=2))
    head = board.enter(b"a", 0.0)
    board.lead(head, 1)
    for _ in range(2):
        board.join(board.enter(b"a", 0.0))
    with pytest.raises(Refused, match="too many wait"):
        board.join(board.enter(b"a", 0.0))


@given(st.lists(st.tuples(st.sampled_from("elj"), st.integers(0, 3), st.integers(0, 9))))
def test_nothing_is_left_of_meetings_without_connections(
    steps: list[tuple[str, int, int]],
) -> None:
    """Whatever heads and members do; and of two heads the one that leads has no smaller epoch."""
    board = Switchboard(Limits(connections=8, each=4, waiting=2))
    here: list[int] = []
    for what, which, epoch in steps:
        if what == "e":
            try:
                here.append(board.enter(bytes([which]), 0.0))
            except Refused:
                assert len(board) <= 8
        elif here:
            connection = here[which % len(here)]
            before = board.of(connection).epoch
            if what == "l":
                leads, _ = board.lead(connection, epoch)
                assert not leads or epoch >= before or board.of(connection).leader == connection
            else:
                try:
                    board.join(connection)
                except Refused:
                    pass
    for connection in here:
        board.leave(connection, 0.0)
    board.forget(1000.0)
    assert (0, 0) == (len(board), board.meetings)
