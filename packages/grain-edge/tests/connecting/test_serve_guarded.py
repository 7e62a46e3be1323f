"""Other versions, mistakes, hostile connections, other users' eyes: a head withstands them."""

from __future__ import annotations

import logging
import select
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge import dial
from grain.edge.errors import ChannelBroken, Refused, VersionMismatch
from grain.edge.framing.frames import greeting_frame
from grain.edge.messages import Codec, Hello, Message, encode_greeting
from grain.edge.transports.unix import dial as dial_unix
from grain_testkit.faulty_links import Note
from grain_testkit.head_and_diallers import dialling, head, receive

if TYPE_CHECKING:
    from grain.edge import Peer

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


async def test_other_protocol_is_refused_in_words(address: str) -> None:
    """Both ends learn both versions; the head serves on.

    Tried: Another version of the protocol.
    Result: refused, naming both.
    """
    async with head(address) as serving:
        stream = await dial_unix(serving.targets[0])
        async with stream:
            hello = Hello(99, "7.0.0", "worker", "n", "h", 1, serving.meeting_id, serving.epoch)
            await stream.send_all(greeting_frame(encode_greeting(hello)))
            answer = await stream.receive_some(4096)

            assert b"the peer speaks protocol 99 (Grain '7.0.0'), this side protocol 1" in answer
        async with dialling(address) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)


async def test_version_mismatch_is_final(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialler of another version says so instead of waiting without end."""
    async with head(address):
        monkeypatch.setattr("grain.edge.connecting.dial.PROTOCOL", 2)
        with trio.fail_after(60), pytest.raises(Refused, match="protocol 2"):
            async with dialling(address, patience=None):
                raise AssertionError


async def test_a_dialler_of_another_commit_is_told_both_versions_and_waits_for_nothing(
    address: str,
) -> None:
    class Later(Message, frozen=True):
        """A message that the head does not have."""

        text: str

    async with head(address):
        said = r"the peer is Grain '.*' with messages \w+, this side Grain '.*' with messages \w+"
        with trio.fail_after(60), pytest.raises(VersionMismatch, match=said):
            async with dial(address, role="worker", codec=Codec(Later), patience=None):
                raise AssertionError
        async with dialling(address) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)


async def test_only_a_peer_that_breaks_a_rule_is_dropped(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is logged, with what was wrong.

    Tried: Bytes against the rules, in a session.
    Result: only that member is disconnected.
    """
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

    assert "the peer sent a frame of unknown kind 4294967295" in caplog.text


async def test_handler_errors_are_not_hidden(address: str) -> None:
    """A mistake in the program ends the program."""

    async def handler(peer: Peer) -> None:
        raise KeyError("mistake")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with head(address, handler), dialling(address) as peer:
            await peer.channel.receive()
    assert caught.group_contains(KeyError)


async def test_silent_and_hostile_connections_delay_no_others(address: str) -> None:
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
    """Other users see nothing secret of a process.

    Tried: Find a key in command lines, the environment or logs.
    Result: there is none.
    """
    async with head(address) as serving:
        key = Path(address[7:]).read_bytes().split(b"PRIVATE KEY-----")[1][2:40]
        shown = Path("/proc/self/cmdline").read_bytes() + Path("/proc/self/environ").read_bytes()

        assert key not in shown
        assert key.decode() not in repr(serving)
        assert stat.S_IMODE(Path(serving.targets[0]).stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(serving.targets[0]).parent.stat().st_mode) == 0o700


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
