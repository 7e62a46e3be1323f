from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import trio.testing

from grain.edge import make_key, meeting_id, serve, serve_bridge
from grain.edge.address import parse_address
from grain.edge.connecting.handshake_limiter import HANDSHAKE
from grain.edge.connecting.mailbox import new_door
from grain.edge.errors import DialError, RemoteProtocolError
from grain.edge.framing.frames import greeting_frame
from grain.edge.invitation import _Invitation, _routes, accept, invite
from grain.edge.meeting.block import MeetingRecord
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import Meeting
from grain.edge.messages import PROTOCOL, Hello, encode_greeting
from grain.edge.transports import unix
from grain.edge.version import package_version
from grain.files.processes import this_process
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.head_and_diallers import echo

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_a_connection_that_was_tried_and_not_chosen_is_not_a_guest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine two of them may be there when the first one is chosen."""
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC) as door:
        content = msgspec.msgpack.decode(door.invitation, type=_Invitation)
        route, *_ = _routes(content, CODEC)
        with trio.fail_after(60):
            async with (
                await route.start(),
                accept(door.invitation, CODEC) as (channel, _, _),
                door.guest() as theirs,
            ):
                await channel.send([(Note("hello"), None)])
                assert [(Note("hello"), None)] == await theirs.receive()


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
    """Tried: Connect to a TCP port of a mission, and stay silent.
    Result: closed after ten seconds; the mission goes on.
    """
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


@pytest.mark.parametrize("way", ["tcp", "unix"])
@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff", bytes(100_000)]
)
async def test_bytes_that_are_no_greeting_close_their_connection_only(
    monkeypatch: pytest.MonkeyPatch, way: str, data: bytes
) -> None:
    """Tried: Nonsense at the doors of a mission.
    Result: only that connection is closed.
    """
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with invite(CODEC, within=True) as door:
        content = msgspec.msgpack.decode(door.invitation)
        if way == "tcp":
            stream = await trio.open_tcp_stream(*content[0][0])
        else:
            stream = await unix.dial_name(content[-1])
        async with stream:
            # It may be closed before all of it was sent.
            with suppress(trio.BrokenResourceError):
                await stream.send_all(data)
                await stream.send_eof()
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some(4096):
                    pass
        async with accept(door.invitation, CODEC) as visit, door.guest():
            assert visit.address == ""  # within the kernel


async def test_the_process_of_another_user_is_turned_away_at_the_socket_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each side asks the kernel for itself; no greeting is answered.

    Tried: Connect to the abstract socket by which runners come to a mission, with a right
    greeting, with nonsense, with silence.
    Result: refused, because the kernel says who it is; the lanes go on.
    """
    async with invite(CODEC, within=True, network=False) as door:
        name = msgspec.msgpack.decode(door.invitation)[-1]
        stream = await unix.dial_name(name)
        with monkeypatch.context() as patch:
            patch.setattr("os.geteuid", lambda: os.getuid() + 1)
            hello = Hello(PROTOCOL, package_version(), "guest", "guest", "host", 1)
            answer = b""
            with suppress(trio.BrokenResourceError):
                await stream.send_all(greeting_frame(encode_greeting(hello)))
                answer = await stream.receive_some(1)
            assert answer == b""
            with pytest.raises(DialError, match="belongs to user"):
                async with accept(door.invitation, CODEC):
                    pass
        await stream.aclose()
        async with accept(door.invitation, CODEC), door.guest():
            pass


# ---- a place beside a meeting, for guests who cannot connect


@pytest.fixture(params=["files", "relay", "a relay with a list"])
async def beside(request: pytest.FixtureRequest, tmp_path: Path, nursery: trio.Nursery) -> str:
    """The address of a meeting."""
    if request.param == "files":
        return f"edge://{tmp_path}/meeting"
    key = make_key()
    listed = None
    if request.param != "relay":
        listed = frozenset({bytes.fromhex(meeting_id(f"bridge://{key}@127.0.0.1:1"))})
    [(host, port)] = await nursery.start(partial(serve_bridge, "127.0.0.1", 0, listed=listed))
    return f"bridge://{key}@{host}:{port}"


async def test_guests_who_cannot_connect_come_by_what_is_beside_a_meeting(beside: str) -> None:
    with trio.fail_after(60):
        async with (
            invite(CODEC, network=False, beside=beside) as door,
            accept(door.invitation, CODEC) as (one, _, _),
            door.guest() as first,
            accept(door.invitation, CODEC) as (other, _, _),
            door.guest() as second,
        ):
            for channel, theirs in ((one, first), (other, second)):
                sent = [(Note("small"), b"a payload"), (Note("large"), os.urandom(2_000_000))]
                await channel.send(sent)
                got: list[object] = []
                while len(got) < len(sent):
                    got += await theirs.receive()
                assert sent == got
                await theirs.send([(Note("back"), None)])
                assert [(Note("back"), None)] == await channel.receive()


async def test_a_guest_is_heard_for_longer_than_it_takes_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rings again after a second: that must not look like another guest's first ring."""
    monkeypatch.setattr("grain.edge.connecting.mailbox._RING", 0.0)
    with trio.fail_after(60):
        async with (
            invite(CODEC, network=False, beside=f"edge://{tmp_path}/meeting") as door,
            accept(door.invitation, CODEC) as (channel, _, _),
            door.guest() as theirs,
        ):
            for number in range(100):
                await channel.send([(Note("ring", number), None)])
                assert [(Note("ring", number), None)] == await theirs.receive()
            assert 0 == door._receive.statistics().tasks_waiting_send  # no other guest has come


async def test_an_address_that_works_is_taken_first(beside: str) -> None:
    async with (
        invite(CODEC, within=True, network=False, beside=beside) as door,
        accept(door.invitation, CODEC) as visit,
    ):
        assert isinstance(visit.channel._stream, trio.SocketStream)


async def test_a_stranger_at_the_place_is_turned_away(nursery: trio.Nursery) -> None:
    """Tried: Join a mission's meeting at a bridge by its key, with the certificates of another.
    Result: refused by TLS; the mission goes on.
    """
    [(host, port)] = await nursery.start(partial(serve_bridge, "127.0.0.1", 0))
    address = f"bridge://{make_key()}@{host}:{port}"
    async with invite(CODEC, beside=address) as door, invite(CODEC, beside=address) as other:
        mine, theirs = (
            msgspec.msgpack.decode(one.invitation, type=_Invitation) for one in (door, other)
        )
        forged = msgspec.structs.replace(theirs, addresses=(), place=mine.place)

        with pytest.raises(DialError, match="relay"):
            async with accept(msgspec.msgpack.encode(forged), CODEC):
                pass

        async with accept(door.invitation, CODEC), door.guest():
            pass


async def test_what_is_beside_a_meeting_file_is_private_and_leaves_nothing(tmp_path: Path) -> None:
    async with (
        invite(CODEC, network=False, beside=f"edge://{tmp_path}/meeting") as door,
        accept(door.invitation, CODEC),
        door.guest(),
    ):
        paths = list((tmp_path / "meeting.d").rglob("*"))
        assert 10 < len(paths)
        assert [] == [path for path in paths if path.stat().st_mode & 0o077]
    assert [tmp_path / "meeting.d"] == list(tmp_path.rglob("*"))


@pytest.mark.parametrize("by", ["an invitation", "a head"])
async def test_what_a_process_that_is_gone_has_left_is_removed(
    tmp_path: Path, nursery: trio.Nursery, by: str
) -> None:
    meeting = Meeting(new_door(f"{tmp_path}/meeting.d"), Disk())
    await meeting.prepare()
    me = this_process()
    gone = MeetingRecord("", 0, True, me.host, me.boot, me.space, me.pid, me.start + 1)
    await meeting.publish(gone)
    address = f"edge://{tmp_path}/meeting"
    async with invite(CODEC, network=False, beside=address) as living:
        if by == "a head":
            await meeting.prepare()
            await meeting.publish(gone)
            await nursery.start(partial(serve, echo, address, codec=CODEC))
        kept = parse_address(msgspec.msgpack.decode(living.invitation, type=_Invitation).place).edge
        assert {f"{kept}", f"{kept}.d"} == {str(p) for p in (tmp_path / "meeting.d").glob("door.*")}


@pytest.mark.parametrize("beside", ["bridge://{key}@127.0.0.1:1", "edge://{file}/meeting"])
async def test_a_door_opens_without_a_place_where_there_is_none_to_be_had(
    beside: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    address = beside.format(key=make_key(), file=tmp_path / "file")
    async with invite(CODEC, within=True, network=False, beside=address) as door:
        assert not msgspec.msgpack.decode(door.invitation, type=_Invitation).place
        async with accept(door.invitation, CODEC), door.guest():
            pass
