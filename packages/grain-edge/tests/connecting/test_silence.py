"""Peers that are silent although they are there: stopped, or in a long computation."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge import serve
from grain.edge.errors import ChannelBroken
from grain.edge.meeting.block import process_here
from grain.edge.messages import Hello
from grain.edge.transports.liveness import Presence, acknowledges
from grain.files.processes import PeerProcess, start_time, this_process
from grain_testkit.local_processes import stop

if TYPE_CHECKING:
    from grain.edge import Peer

DIALLER = """
import sys, trio
from grain.edge import dial

async def main():
    async with dial(sys.argv[1], role="mission", transports=frozenset({sys.argv[2]})) as peer:
        await trio.sleep_forever()

trio.run(main)
"""
HOURS = 3600.0


class Silent:
    """A head with one peer, a process that is stopped as soon as it has joined."""

    def __init__(self, address: str, transport: str) -> None:
        self.joined = trio.Event()
        self.ended = trio.Event()
        self.why: Exception | None = None
        self.peer: Peer | None = None
        self.address, self.transport = address, transport

    async def handle(self, peer: Peer) -> None:
        self.peer = peer
        self.joined.set()
        try:
            await peer.channel.receive()
        except (ChannelBroken, trio.EndOfChannel) as error:
            self.why = error
        self.ended.set()

    async def start(self, nursery: trio.Nursery) -> subprocess.Popen[bytes]:
        await nursery.start(
            lambda task_status: serve(
                self.handle, self.address, patience=lambda _: HOURS, task_status=task_status
            )
        )
        process = await trio.to_thread.run_sync(
            lambda: subprocess.Popen([sys.executable, "-c", DIALLER, self.address, self.transport])
        )
        await self.joined.wait()
        stop(process.pid)
        return process


def sleep() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"])


async def let_pass(clock: MockClock, seconds: float) -> None:
    """Let the head's time pass, and only that."""
    for _ in range(int(seconds / 10)):
        clock.jump(10.0)
        await wait_all_tasks_blocked()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
async def test_a_stopped_process_of_this_host_keeps_its_connection_until_it_is_killed(
    transport: str, address: str, mock_clock: MockClock
) -> None:
    """The end is seen at once then: of the connection, and of the process."""
    silent = Silent(address, transport)
    async with trio.open_nursery() as nursery:
        process = await silent.start(nursery)
        try:
            await let_pass(mock_clock, 1000)
            assert not silent.ended.is_set()
            assert silent.peer is not None
            assert silent.peer.process == process_here(silent.peer.greeting)
            assert silent.peer.process is not None
            assert silent.peer.process.alive
        finally:
            process.kill()
        await silent.ended.wait()
        process.wait()

        assert "the connection" in str(silent.why)
        assert not silent.peer.process.alive
        nursery.cancel_scope.cancel()


async def test_a_peer_may_be_silent_for_as_long_as_the_head_says(
    address: str, mock_clock: MockClock
) -> None:
    silent = Silent(address, "unix")
    async with trio.open_nursery() as nursery:
        process = await silent.start(nursery)
        try:
            await let_pass(mock_clock, HOURS + 100)
            await silent.ended.wait()
        finally:
            process.kill()
            process.wait()

        assert "silent for 36" in str(silent.why)
        nursery.cancel_scope.cancel()


def test_another_process_with_the_same_pid_is_another_one() -> None:
    start = start_time(os.getpid())
    assert start is not None
    assert PeerProcess(os.getpid(), start).alive
    assert not PeerProcess(os.getpid(), start - 1).alive


def test_the_process_of_another_host_or_container_is_not_looked_for() -> None:
    """Its pid means another process here."""
    me = this_process()
    here = Hello(
        *(1, "1", "mission", "n", me.host, me.pid),
        boot=me.boot,
        space=me.space,
        start=me.start,
    )
    assert PeerProcess(me.pid, me.start) == process_here(here)
    assert None is process_here(replace(here, boot="another"))
    assert None is process_here(replace(here, space=me.space + 1))
    assert None is process_here(replace(here, start=0))


@pytest.mark.parametrize(
    ("alive", "held_open", "excused"),
    [(None, None, False), (None, True, True), (None, False, False), (False, True, False)],
)
def test_a_process_that_has_ended_excuses_nothing(
    alive: bool | None, held_open: bool | None, excused: bool
) -> None:
    """Its connection may be held open by a child that it has forked."""
    process = None if alive is None else PeerProcess(os.getpid(), 0)
    kernel = None if held_open is None else lambda: bool(held_open)
    assert excused == Presence(process, kernel, 100.0).excuses(99.0)
    assert not Presence(process, kernel, 100.0).excuses(100.0)


class KernelOf:
    """A socket whose kernel reports what a test says."""

    def __init__(self, probes: int, unacknowledged: int, answered: float) -> None:
        numbers = [0] * 13
        numbers[4], numbers[12] = unacknowledged, int(answered * 1000)
        self.raw = struct.pack("8B13I", 0, 0, 0, probes, 0, 0, 0, 0, *numbers)

    def getsockopt(self, *_: int) -> bytes:
        return self.raw


@pytest.mark.parametrize(
    ("probes", "unacknowledged", "answered", "there"),
    [
        (0, 0, 9.0, True),  # it acknowledges the signs of life that its process does not read
        (1, 0, 119.0, True),  # it is full, and answers the kernel's probes
        (0, 2, 61.0, False),  # the network is cut
        (6, 0, 300.0, False),  # it was full before the network was cut
    ],
)
def test_the_kernel_of_a_silent_peer_over_tcp_says_whether_it_is_there(
    probes: int, unacknowledged: int, answered: float, there: bool
) -> None:
    kernel: Any = KernelOf(probes, unacknowledged, answered)
    assert there == acknowledges(kernel)


async def test_a_connection_over_tcp_is_acknowledged_until_it_is_closed() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    ours = await trio.open_tcp_stream("127.0.0.1", port)
    async with listener, ours, await listener.accept() as theirs:
        await ours.send_all(b"x")
        await theirs.receive_some(1)
        assert acknowledges(ours.socket)
    assert not acknowledges(ours.socket)
