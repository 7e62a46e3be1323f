"""The writer of a channel without I/O: its states, and who writes when."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.errors import ChannelBroken, LocalProtocolError, RemoteProtocolError
from grain.edge.framing.frames import FrameDecoder
from grain.edge.framing.writer import (
    BLOCKED,
    BROKEN,
    BURST,
    CLOSED,
    HIGH_WATER,
    IDLE,
    LATE,
    QUEUED,
    SMALL,
    WRITING,
    Writer,
)
from grain_testkit.faulty_links import CODEC, Alarm, Note

SOON, LATER = BURST / 2, 1.0


def writer(size: int = 512 * 1024) -> Writer:
    return Writer(CODEC, size)


def note(number: int, size: int = 0) -> list[Any]:
    return [(Note("x" * size, number), None)]


def write(writer: Writer, takes: int | None = None) -> bytes:
    """One write to a stream that takes so many bytes, or all; those that it took."""
    data = b"".join(writer.next_write())
    taken = data if takes is None else data[:takes]
    writer.wrote(len(taken), full=len(taken) < len(data))
    return taken


def numbers(data: bytes) -> list[int]:
    return [message.number for message, _ in FrameDecoder(CODEC).feed(data)]  # type: ignore[attr-defined]


def test_a_write_leads_from_queued_back_to_idle() -> None:
    one = writer()
    assert one.state is IDLE
    one.put(note(1))
    assert one.state is QUEUED
    data = one.next_write()
    assert one.state is WRITING
    one.wrote(sum(map(len, data)), full=False)
    assert one.state is IDLE
    assert (0, 1) == (one.pending, one.writes)


def test_what_is_put_during_a_write_goes_with_the_next() -> None:
    one = writer()
    one.put(note(1))
    first = b"".join(one.next_write())
    one.put(note(2))
    assert one.state is WRITING
    one.wrote(len(first), full=False)

    assert one.state is QUEUED
    assert [1, 2] == numbers(first + write(one))


def test_the_rest_of_a_write_goes_before_anything_else() -> None:
    one = writer()
    one.put(note(1, 1000))
    taken = write(one, 100)
    assert one.state is BLOCKED
    one.put(note(2))
    taken += write(one, 10)
    assert one.state is BLOCKED
    while one.state is not IDLE:
        taken += write(one)

    assert [1, 2] == numbers(taken)


def test_a_stream_that_holds_what_it_took_is_asked_again() -> None:
    """As TLS, which encrypts all of it and may have to keep the ciphertext."""
    one = writer()
    one.put(note(1))
    size = sum(map(len, one.next_write()))
    one.wrote(size, full=True)
    assert one.state is BLOCKED

    assert [] == one.next_write()
    one.wrote(0, full=False)

    assert one.state is IDLE


def test_a_single_message_is_written_at_once() -> None:
    one = writer()
    assert one.post(note(1), LATER)
    assert [1] == numbers(write(one))
    assert one.post(note(2), 2 * LATER)


def test_what_is_posted_just_after_another_waits_for_company() -> None:
    one = writer()
    assert one.post(note(1), LATER)
    write(one)
    assert not any(one.post(note(n), LATER + SOON) for n in (2, 3, 4))

    assert [2, 3, 4] == numbers(write(one))


def test_who_expects_company_waits_for_it() -> None:
    one = writer()
    assert not one.post(note(1), LATER, more=True)
    assert not one.post(note(2), LATER + 3 * BURST)


def test_what_has_waited_too_long_is_written_by_the_next_who_posts() -> None:
    one = writer()
    one.post(note(1), LATER, more=True)
    assert not one.post(note(2), LATER + LATE / 2)
    assert one.post(note(3), LATER + 2 * LATE)
    assert [1, 2, 3] == numbers(write(one))


def test_a_blocked_stream_is_tried_again_by_a_late_post() -> None:
    """So a loop that gives the writer task no turn goes on as soon as the kernel takes more."""
    one = writer()
    assert one.post(note(1, 1000), LATER)
    data = write(one, 10)
    assert not one.post(note(2), LATER + LATE / 2)
    assert one.post(note(3), LATER + 2 * LATE)
    while one.state is not IDLE:
        data += write(one)

    assert [1, 2, 3] == numbers(data)


def test_nothing_is_written_beside_a_write_that_is_under_way() -> None:
    one = writer()
    one.put(note(1))
    one.next_write()

    assert not one.post(note(2), LATER)
    assert not one.post(note(3), 2 * LATER)
    assert not one.send(note(4))


def test_a_small_message_is_sent_at_once_and_a_larger_one_by_the_writer_task() -> None:
    assert writer().send(note(1))
    assert not writer().send(note(1, SMALL))
    one = writer()
    one.put(note(1))
    assert not one.send(note(2))


def test_an_empty_batch_is_nothing_to_write() -> None:
    one = writer()
    assert not one.post([], LATER)
    assert not one.send([])
    assert one.state is IDLE


def test_a_writer_is_congested_while_a_megabyte_waits() -> None:
    one = writer(100_000)
    one.put([(Note("x"), bytes(HIGH_WATER))])
    assert one.congested
    write(one, 50_000)
    assert not one.congested
    assert HIGH_WATER - 60_000 < one.pending < HIGH_WATER


def test_a_refused_batch_leaves_the_state_as_it_was() -> None:
    one = writer()
    with pytest.raises(LocalProtocolError):
        one.post([(Alarm("x"), b"payload")], LATER)

    assert one.state is IDLE


def test_the_first_failure_counts() -> None:
    one = writer()
    one.put(note(1))
    one.next_write()
    one.failed(RemoteProtocolError("nonsense"))
    one.failed(ChannelBroken("reset"))
    one.wrote(10, full=False)  # the write ends only now

    assert one.state is BROKEN
    assert one.ended
    with pytest.raises(ChannelBroken, match="nonsense"):
        one.put(note(2))


def test_nothing_follows_the_goodbye() -> None:
    one = writer()
    one.put(note(1))
    one.finish(note(2))
    one.finish(note(3))
    with pytest.raises(trio.ClosedResourceError):
        one.send(note(4))

    assert [1, 2] == numbers(write(one))
    assert one.state is IDLE
    one.close()
    assert one.state is CLOSED
    one.failed(ChannelBroken("late"))
    assert one.error is None


@given(st.data())
def test_bytes_leave_in_order_whatever_the_stream_takes(data: st.DataObject) -> None:
    """Any sequence of posts and of writes in part gives the messages in the order of the posts."""
    one, now, posted = writer(data.draw(st.integers(500, 100_000))), 1.0, 0
    taken = b""
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.sampled_from([0.0, SOON, 2 * LATE]))
        posted += 1
        payload = data.draw(st.sampled_from([None, b"small", bytes(40_000)]))
        at_once = one.post([(Note("x", posted), payload)], now)
        if at_once or (one.state is not IDLE and data.draw(st.booleans())):
            taken += write(one, data.draw(st.integers(0, 3000)))
    while one.state is not IDLE:
        taken += write(one)

    assert [*range(1, posted + 1)] == numbers(taken)
    assert 0 == one.pending
