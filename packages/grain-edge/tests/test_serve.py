"""Head and diallers in one process, over each transport: the same promises on each."""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import stat
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge import Peer, Serving, _unix, dial, examine, serve
from grain.edge._frames import greeting_frame
from grain.edge._unix import dial as dial_unix
from grain.edge.errors import (
    ChannelBroken,
    DialError,
    ExposedFile,
    MeetingError,
    MeetingTaken,
    NotAdmitted,
    Refused,
    Superseded,
)
from grain.edge.messages import Hello, encode_greeting
from grain.edge.testing import CODEC, Cargo, Note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

TRANSPORTS = ["unix", "tcp", "reverse", "files"]


@pytest.fixture
def address(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir(mode=0o700)
    return f"edge://{tmp_path}/shared/meeting"


async def echo(peer: Peer) -> None:
    while True:
        await peer.channel.send(await peer.channel.receive())


@asynccontextmanager
async def head(
    address: str, handler: Callable[[Peer], Any] = echo, **options: Any
) -> AsyncIterator[Serving]:
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(handler, address, codec=CODEC, task_status=task_status, **options)

        yield await nursery.start(run)
        nursery.cancel_scope.cancel()


def dialling(address: str, transport: str = "unix", **options: Any) -> Any:
    options = {"role": "worker", "codec": CODEC, "patience": 60.0, **options}
    return dial(address, transports=frozenset({transport}), **options)


async def receive(peer: Peer, count: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < count:
        got += await peer.channel.receive()
    return [(m, None if p is None else bytes(p)) for m, p in got]


@pytest.fixture
def slow_clock() -> trio.abc.Clock:
    """A second of the ways takes five, so that none is given up where the machine is busy."""
    return MockClock(rate=0.2)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_talk(address: str, transport: str, slow_clock: trio.abc.Clock) -> None:
    """Small and large, and the goodbye at the end."""
    joined: list[Peer] = []
    left: list[str] = []

    async def handler(peer: Peer) -> None:
        joined.append(peer)
        try:
            await echo(peer)
        except trio.EndOfChannel:
            left.append("goodbye")

    async with head(address, handler):
        async with dialling(address, transport, name="w1") as peer:
            sent = [(Note("a", n), bytes([n]) * n) for n in range(10)]
            sent += [(Note("large"), os.urandom(9_000_000))]
            await peer.channel.send(sent)

            assert await receive(peer, len(sent)) == sent
            assert peer.transport == transport
            assert [a.ok for a in peer.tried] == [True]
        with trio.fail_after(60):
            while not left:
                await trio.sleep(0.01)

        assert [(p.transport, getattr(p.greeting, "name", "")) for p in joined] == [
            (transport, "w1")
        ]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_head_says_goodbye(address: str, transport: str) -> None:
    """When the handler returns, the channel ends for the dialler, after what was sent."""

    async def handler(peer: Peer) -> None:
        await peer.channel.send([(Cargo("c"), bytes(900_000)), (Note("last"), None)])

    async with head(address, handler), dialling(address, transport) as peer:
        assert len(await receive(peer, 2)) == 2
        with trio.fail_after(60), pytest.raises(trio.EndOfChannel):
            await peer.channel.receive()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_head_is_gone(address: str, transport: str) -> None:
    """A head that is cancelled: its peers learn that the connection is lost."""
    async with trio.open_nursery() as nursery:
        ready = trio.Event()

        async def run(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
            with trio.CancelScope() as scope:
                async with head(address):
                    task_status.started(scope)
                    await trio.sleep_forever()

        scope = await nursery.start(run)
        ready.set()
        async with dialling(address, transport) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)
            scope.cancel()
            with trio.fail_after(60), pytest.raises(ChannelBroken):
                await peer.channel.receive()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_refusal_is_readable(address: str, transport: str) -> None:
    """The head's own reason reaches the dialler at once: whether to come again is its business."""
    async with head(address, admit=lambda hello: f"no {hello.role}s today"):
        with trio.fail_after(60), pytest.raises(NotAdmitted, match="no workers today"):
            async with dialling(address, transport, patience=60.0):
                raise AssertionError


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nothing_is_left_behind(address: str, transport: str) -> None:
    """After a clean end only the Edge file, without keys, and its last claim remain."""
    async with head(address) as serving:
        async with dialling(address, transport) as peer:
            await peer.channel.send([(Note("x"), bytes(3_000_000))])
            await receive(peer, 1)
        if transport == "files":
            for _ in range(1200):
                slots = [p for p in Path(address[7:] + ".d").glob("1/*/*") if p.name != "bell"]
                if not slots:
                    break
                await trio.sleep(0.05)
            assert not slots
        path = Path(address[7:])
        assert b"PRIVATE KEY" in path.read_bytes()
    left = sorted(str(p.relative_to(path.parent)) for p in path.parent.rglob("*"))

    assert left == ["meeting", "meeting.d", "meeting.d/claim.1"]
    assert b"PRIVATE KEY" not in path.read_bytes()
    assert not Path(serving.targets[0]).exists()


async def test_dialler_first(address: str) -> None:
    """A worker that starts before there is a head finds it as soon as it comes."""
    async with trio.open_nursery() as nursery:
        got: list[Any] = []

        async def early() -> None:
            async with dialling(address, patience=None) as peer:
                await peer.channel.send([(Note("early"), None)])
                got.extend(await receive(peer, 1))

        nursery.start_soon(early)
        await trio.sleep(0.3)
        async with head(address):
            with trio.fail_after(60):
                while not got:
                    await trio.sleep(0.01)


async def test_dialler_finds_the_successor(address: str) -> None:
    """The same address, a new head: new keys, a higher epoch, and the dialler gets there."""
    async with head(address) as first:
        pass
    async with head(address) as second:
        for transport in TRANSPORTS:
            async with dialling(address, transport) as peer:
                await peer.channel.send([(Note("x"), None)])
                await receive(peer, 1)

    assert (first.epoch, second.epoch) == (1, 2)
    assert first.lineage == second.lineage


async def test_nobody(address: str) -> None:
    """The error tells what was tried."""
    with pytest.raises(DialError, match=r"no head was reached within 2 s\n  meeting .*no such"):
        async with dialling(address, patience=2.0):
            raise AssertionError


async def test_second_head_is_told_who_serves(address: str) -> None:
    """With host and pid."""
    async with head(address):
        with pytest.raises(MeetingTaken, match=f"process {os.getpid()} on {socket.gethostname()}"):
            await serve(echo, address)


async def test_superseded_head_steps_down(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves the Edge file to its successor."""
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            with pytest.raises(Superseded, match="epoch 1 steps down, as epoch 9"):
                await serve(echo, address, watch=0.1, task_status=task_status)

        await nursery.start(run)
        before = Path(address[7:]).read_bytes()
        Path(address[7:] + ".d", "claim.9").touch(mode=0o600)

    assert Path(address[7:]).read_bytes() == before


async def test_exposed_edge_file_is_final(address: str) -> None:
    """Waiting does not cure it, so the dialler does not wait."""
    async with head(address):
        Path(address[7:]).chmod(0o644)
        with trio.fail_after(60), pytest.raises(ExposedFile):
            async with dialling(address, patience=None):
                raise AssertionError


async def test_examine_tells_every_way(address: str, slow_clock: trio.abc.Clock) -> None:
    """For the doctor: each way to its end, nothing joined."""
    joined: list[Peer] = []

    async def handler(peer: Peer) -> None:
        joined.append(peer)

    async with head(address, handler):
        tried = await examine(address)

    assert {a.transport for a in tried} == set(TRANSPORTS)
    assert all(a.ok for a in tried)
    assert joined == []
    (after,) = await examine(address)
    assert "has ended" in after.outcome


async def test_tcp_address(tmp_path: Path) -> None:
    """A fixed port, no other way; the keys come from the Edge file."""
    (tmp_path / "s").mkdir(mode=0o700)
    # Nobody else has that address, so that the port stays free until the head takes it.
    host = f"127.{os.getpid() >> 16 & 127 | 64}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    address = f"tcp://{host}:{port}?edge={tmp_path}/s/meeting"
    async with head(address) as serving:
        assert serving.targets == (f"{host} port {port}",)
        async with dialling(address, "tcp") as peer:
            await peer.channel.send([(Note("x"), None)])
            assert await receive(peer, 1) == [(Note("x"), None)]


async def test_unix_address(tmp_path: Path) -> None:
    """No Edge file at all; the directory must be private."""
    (tmp_path / "s").mkdir(mode=0o700)
    address = f"unix://{tmp_path}/s/sock"
    async with head(address):
        async with dialling(address) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)
        with pytest.raises(MeetingTaken, match=f"process {os.getpid()}"):
            await serve(echo, address)
    assert not (tmp_path / "s" / "sock").exists()
    (tmp_path / "s").chmod(0o755)
    with pytest.raises(ExposedFile):
        await serve(echo, address)


async def test_unix_address_without_its_directory(tmp_path: Path) -> None:
    with pytest.raises(MeetingError, match="No such file or directory. Its directory must exist"):
        await serve(echo, f"unix://{tmp_path}/missing/sock")


async def test_full_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for a Unix socket the head serves in the other ways."""

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_unix, "socket_path", full)
    (tmp_path / "shared").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/shared/meeting"
    async with head(address) as serving, dialling(address, "tcp") as peer:
        assert peer.transport == "tcp"
        assert not any("/grain-" in target for target in serving.targets)


async def test_socket_of_a_dead_head_is_replaced(tmp_path: Path) -> None:
    """A socket file that nobody listens on is no living head."""
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s" / "sock"))
    async with head(f"unix://{tmp_path}/s/sock"), dialling(f"unix://{tmp_path}/s/sock") as peer:
        await peer.channel.send([(Note("x"), None)])
        await receive(peer, 1)


async def test_other_protocol_is_refused_in_words(address: str) -> None:
    """Both ends learn both versions; the head serves on."""
    async with head(address) as serving:
        stream = await dial_unix(serving.targets[0])
        async with stream:
            hello = Hello(99, "7.0.0", "worker", "n", "h", 1, serving.lineage, serving.epoch)
            await stream.send_all(greeting_frame(encode_greeting(hello)))
            answer = await stream.receive_some(4096)

            assert b"the peer speaks protocol 99 (Grain '7.0.0'), this side protocol 1" in answer
        async with dialling(address) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)


async def test_version_mismatch_is_final(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialler of another version says so instead of waiting for ever."""
    async with head(address):
        monkeypatch.setattr("grain.edge._dial.PROTOCOL", 2)
        with trio.fail_after(60), pytest.raises(Refused, match="protocol 2"):
            async with dialling(address, patience=None):
                raise AssertionError


async def test_broken_rule_drops_that_peer_only(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is logged, with what was wrong."""
    caplog.set_level(logging.INFO, "grain.edge")
    async with head(address), dialling(address) as good:
        async with dialling(address) as bad:
            await bad.channel._stream.send_all(b"\xff" * 100)
            with trio.fail_after(60), pytest.raises(ChannelBroken):
                await bad.channel.receive()
        await good.channel.send([(Note("still here"), None)])
        await receive(good, 1)
        with trio.fail_after(60):
            while "the peer sent a frame" not in caplog.text:
                await trio.sleep(0.01)

    assert "the peer sent a frame of unknown kind 255" in caplog.text


async def test_handler_errors_are_not_hidden(address: str) -> None:
    """A mistake in the program ends the program."""

    async def handler(peer: Peer) -> None:
        raise KeyError("mistake")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with head(address, handler), dialling(address) as peer:
            await peer.channel.receive()
    assert caught.group_contains(KeyError)


async def test_silent_and_hostile_connections_delay_nobody(address: str) -> None:
    """300 connections that say nothing or nonsense, and a member gets in beside them."""
    async with head(address, transports=frozenset({"tcp"})) as serving:
        port = int(serving.targets[0].split()[-1])
        hostile = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        try:
            for number, one in enumerate(hostile):
                if number % 2:
                    with suppress(OSError):
                        one.sendall(b"\x16\x03\x01" + bytes([number % 256]) * 100)
            with trio.fail_after(60):
                async with dialling(address, "tcp") as peer:
                    await peer.channel.send([(Note("x"), None)])
                    await receive(peer, 1)
        finally:
            for one in hostile:
                one.close()


async def test_no_secret_in_argv_environment_or_reprs(address: str) -> None:
    """What others can see of a process tells nothing."""
    async with head(address) as serving:
        key = Path(address[7:]).read_bytes().split(b"PRIVATE KEY-----")[1][2:40]
        shown = Path("/proc/self/cmdline").read_bytes() + Path("/proc/self/environ").read_bytes()

        assert key not in shown
        assert key.decode() not in repr(serving)
        assert stat.S_IMODE(Path(serving.targets[0]).stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(serving.targets[0]).parent.stat().st_mode) == 0o700


async def test_peer_of_another_epoch_is_refused_in_words(address: str) -> None:
    """Who read the Edge file before its last change has to read it again."""
    async with head(address) as serving:
        stream = await dial_unix(serving.targets[0])
        async with stream:
            hello = Hello(1, "1", "worker", "n", "h", 1, serving.lineage, serving.epoch + 1)
            await stream.send_all(greeting_frame(encode_greeting(hello)))
            answer = await stream.receive_some(4096)

    assert b"this is epoch 1 of its meeting" in answer


async def test_silent_connections_are_driven_out(address: str, mock_clock: MockClock) -> None:
    """The oldest silent one of an address is closed when a 17th comes, a second later.

    Time stands still but for that: who is slow to greet is sent away, too.
    """
    async with head(address, transports=frozenset({"tcp"})) as serving:
        port = int(serving.targets[0].split()[-1])
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(16)]
        await wait_all_tasks_blocked(0.05)
        mock_clock.jump(1.1)
        silent.append(await trio.open_tcp_stream("127.0.0.1", port))
        assert await silent[0].receive_some() == b""
        await wait_all_tasks_blocked(0.05)
        assert [] == select.select([stream.socket for stream in silent[1:]], [], [], 0)[0]
        for stream in silent:
            await stream.aclose()


async def test_port_in_use(tmp_path: Path) -> None:
    """Is told in words, and not as a group of errors."""
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(MeetingError, match="Address already in use. Choose another port"):
            await serve(echo, f"tcp://127.0.0.1:{port}?edge={tmp_path}/s/meeting")
