"""Copies of a process that code in its loop has forked."""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest
import trio

from grain.edge.framing.framed_channel import FramedChannel
from grain.edge.machine.copies import Origin, ending_copies
from grain.edge.messages import Ping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NOT_ENDED = 99

# Python 3.12 and later warn of a fork beside threads, as trio may have kept some.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def ended(pid: int) -> int:
    """Return the exit status of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def not_ended() -> NoReturn:
    os._exit(NOT_ENDED)


async def passes() -> None:
    await trio.lowlevel.checkpoint()


async def waits() -> None:
    await trio.sleep(1)


async def starts_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits)


async def cancelled() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("back", [passes, waits, starts_a_task, cancelled])
async def test_a_copy_that_comes_back_to_the_loop_ends_there(
    back: Callable[[], Awaitable[None]], capfd: pytest.CaptureFixture[str]
) -> None:
    with ending_copies():
        pid = os.fork()
        if not pid:
            await back()
            not_ended()
        assert 0 == ended(pid)
    assert f"Grain ended process {pid}: a task had forked it" in capfd.readouterr().err


async def test_no_other_task_runs_in_a_copy() -> None:
    ran = trio.Event()

    async def other() -> None:
        if os.getpid() != process:
            not_ended()
        ran.set()

    process = os.getpid()
    async with trio.open_nursery() as nursery:
        with ending_copies():
            for _ in range(20):
                nursery.start_soon(other)
            pid = os.fork()
            if not pid:
                return
            assert 0 == ended(pid)
            await ran.wait()


async def test_a_child_that_ends_by_itself_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with ending_copies():
        pid = os.fork()
        if not pid:
            print("computed", flush=True)
            os._exit(7)
        assert 7 == ended(pid)
        pid = os.fork()
        if not pid:
            os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(8)"])
        assert 8 == ended(pid)
    captured = capfd.readouterr()
    assert ("computed\n", "") == (captured.out, captured.err)


async def test_a_loop_that_is_not_of_grain_goes_on_in_a_copy() -> None:
    """Also after a block has ended, or where an inner one has."""
    with ending_copies():
        with ending_copies():
            pass
        inner = os.fork()
        if not inner:
            await passes()
            not_ended()
        assert 0 == ended(inner)
    pid = os.fork()
    if not pid:
        await passes()
        not_ended()
    assert NOT_ENDED == ended(pid)


async def test_a_thread_forks_without_a_loop() -> None:
    statuses: list[int] = []

    def fork() -> None:
        pid = os.fork()
        if not pid:
            not_ended()
        statuses.append(ended(pid))

    with ending_copies():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert [NOT_ENDED] == statuses


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, 0), (ValueError("no program"), 1), (SystemExit(3), 3), (SystemExit("text"), 1)],
)
def test_a_copy_has_the_exit_status_of_what_was_raised_in_it(
    error: BaseException | None, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    origin = Origin()
    origin.check(error)  # does nothing here
    pid = os.fork()
    if not pid:
        origin.check(error)
        not_ended()
    assert status == ended(pid)
    assert ("no program" in capfd.readouterr().err) == isinstance(error, ValueError)


async def test_a_copy_sends_nothing() -> None:
    ours, theirs = (trio.socket.from_stdlib_socket(one) for one in socket.socketpair())
    with theirs:
        async with FramedChannel(trio.SocketStream(ours)) as channel:
            await passes()  # its tasks wait now
            pid = os.fork()
            if not pid:
                channel.post([(Ping(), None)])
                not_ended()
            assert 0 == ended(pid)
            assert not await readable(theirs)


async def readable(sock: trio.socket.SocketType) -> bool:
    """Return True if something has arrived."""
    with trio.move_on_after(0):
        await sock.recv(1, socket.MSG_PEEK)
        return True
    return False
