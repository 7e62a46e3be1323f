from __future__ import annotations

import math

import msgspec
import pytest
import trio
import trio.testing

from grain.edge.connecting.handshake_limiter import HANDSHAKE
from grain.edge.errors import DialError, RemoteProtocolError
from grain.edge.invitation import accept, invite
from grain_testkit.faulty_links import CODEC, Note


async def test_a_guest_reaches_the_host_and_learns_its_own_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with (
        invite(CODEC) as door,
        accept(door.invitation, CODEC) as (channel, address, _),
        door.guest() as theirs,
    ):
        await channel.send([(Note("hello"), b"a payload")])

        assert [(Note("hello"), b"a payload")] == await theirs.receive()
        assert address == "127.0.0.1"


async def test_whoever_has_another_invitation_is_turned_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC) as door, invite(CODEC) as other:
        mine, theirs = (msgspec.msgpack.decode(one.invitation) for one in (door, other))
        forged = msgspec.msgpack.encode([mine[0], *theirs[1:]])

        with pytest.raises(DialError, match="the other host cannot be reached"):
            async with accept(forged, CODEC):
                pass

        # The door is still open for its guest.
        async with accept(door.invitation, CODEC), door.guest():
            pass


async def test_a_connection_that_says_nothing_keeps_no_guest_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC) as door:
        host, port = msgspec.msgpack.decode(door.invitation)[0][0]
        async with (
            await trio.open_tcp_stream(host, port),
            accept(door.invitation, CODEC),
            door.guest(),
        ):
            pass


async def test_a_host_that_is_not_there_is_named_with_all_its_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC) as door:
        invitation = door.invitation

    with pytest.raises(DialError, match=r"127\.0\.0\.1:[0-9]+: .*refused"):
        async with accept(invitation, CODEC):
            pass


async def test_bytes_that_are_no_invitation_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="not an invitation"):
        async with accept(b"something", CODEC):
            pass


async def test_a_connection_that_stays_silent_is_closed_and_the_door_stays_open(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC) as door:
        host, port = msgspec.msgpack.decode(door.invitation)[0][0]
        async with await trio.open_tcp_stream(host, port) as silent:
            assert not await silent.receive_some(1)
        assert HANDSHAKE <= trio.current_time() < 2 * HANDSHAKE
        autojump_clock.autojump_threshold = math.inf  # what follows takes time
        autojump_clock.rate = 1.0
        async with accept(door.invitation, CODEC), door.guest():
            pass
