"""Lines of JSON between tasklets and their processes."""

from __future__ import annotations

import errno
import socket
from functools import partial

import pytest
import trio
import trio.testing

from grain.worker.gang import control
from grain.worker.gang.control import ControlError, JsonLines, connect, listen


def pair() -> tuple[JsonLines, trio.SocketStream]:
    """Return lines, and the stream at their other end."""
    one, other = (
        trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()
    )
    return JsonLines(one), other


async def test_lines_arrive_whole_and_in_order_in_whatever_pieces_they_come() -> None:
    lines, other = pair()
    async with lines, other:
        for piece in (b'{"a"', b": 1}\n{", b'"b": 2}\n'):
            await other.send_all(piece)

        assert [{"a": 1}, {"b": 2}] == [await lines.receive() for _ in "ab"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"no\n", "not a line of JSON"),
        (b"[1]\n", "not an object"),
        (b"\xff\n", "not a line of JSON"),
        (b'{"a": 1', "has gone"),
        (b"", "has gone"),
    ],
)
async def test_what_is_no_line_of_json_is_named(sent: bytes, why: str) -> None:
    lines, other = pair()
    async with lines:
        await other.send_all(sent)
        await other.aclose()

        with pytest.raises(ControlError, match=why):
            await lines.receive()


async def test_a_line_is_bounded() -> None:
    lines, other = pair()
    async with lines, other, trio.open_nursery() as nursery:
        nursery.start_soon(other.send_all, b"x" * (control.MOST + 2**20))

        with pytest.raises(ControlError, match="too long"):
            await lines.receive()
        nursery.cancel_scope.cancel()


async def test_a_line_to_the_other_side_that_has_gone_is_an_error() -> None:
    lines, other = pair()
    async with lines:
        await other.aclose()
        with pytest.raises(ControlError, match="has gone"):
            for _ in range(2):
                await lines.send(a=1)


async def test_lines_of_several_tasks_do_not_mix() -> None:
    lines, other = pair()
    end = JsonLines(other)
    async with lines, end, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(partial(lines.send, n=number, text="x" * 100_000))
        got = [(await end.receive())["n"] for _ in range(20)]

    assert [*range(20)] == sorted(got)


async def test_a_line_whose_sender_was_cancelled_leaves_the_next_one_whole() -> None:
    lines, other = pair()
    end = JsonLines(other)
    async with lines, end:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(lines.send, n=1, text="x" * 1_000_000))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(lines.send, n=2))
            assert [1, 2] == [(await end.receive())["n"] for _ in "ab"]


async def test_a_name_is_new_each_time_and_free_when_its_listener_is_closed() -> None:
    (name, listener), (other, another) = listen(), listen()
    assert name != other
    async with (
        listener,
        another,
        await connect(name) as lines,
        JsonLines(await listener.accept()) as end,
    ):
        await end.send(a=1)
        assert {"a": 1} == await lines.receive()

    with pytest.raises(ControlError, match="nothing listens"):
        await connect(name)


async def test_a_connection_is_served_though_there_was_no_file_for_it_at_first(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    name, listener = listen()
    accept = listener.accept
    failed: list[bool] = []

    async def once_without_files() -> trio.SocketStream:
        if not failed:
            failed.append(True)
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept()

    monkeypatch.setattr(listener, "accept", once_without_files)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.serve, listener, lambda lines: lines.send(a=1))
        async with await connect(name) as lines:
            assert {"a": 1} == await lines.receive()
        nursery.cancel_scope.cancel()
