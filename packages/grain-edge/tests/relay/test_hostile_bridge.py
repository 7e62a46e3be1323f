"""Strangers, members and operators that mean ill, against a server of a bridge over loopback."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from grain.edge import check_bridge, dial, make_key, meeting_id, serve, serve_bridge
from grain.edge.address import BridgeAddress, parse_address
from grain.edge.bridge.call import pack_call
from grain.edge.bridge.client import BridgeConnection, answer, connect
from grain.edge.bridge.key import MeetingKeys, parse_key
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.bridge.wire import (
    VERSION,
    AnyMessage,
    Beat,
    Claim,
    Greeting,
    Incoming,
    Joined,
    LeaderRecord,
    Leading,
    MemberListens,
    MessageDecoder,
    Open,
    encode,
)
from grain.edge.errors import (
    DialError,
    MeetingError,
    NotAuthenticated,
    NotListed,
    RemoteProtocolError,
)
from grain.edge.meeting.block import MeetingRecord
from grain.edge.relay import server as relay_server
from grain.edge.relay.switchboard import MEETING, MeetingLimits, Switchboard
from grain.edge.transports import tcp
from grain.edge.transports.identity import (
    HEAD,
    dialling_context,
    listening_context,
    make_credentials,
)
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.head_and_diallers import echo, head, receive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from grain.edge import Peer

KEY, OTHER = (make_key() for _ in range(2))
KEYS = MeetingKeys(parse_key(KEY))
GREETED = b"greeted"


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Time passes when nothing has come over loopback for a while, which may take a moment."""
    return trio.testing.MockClock(autojump_threshold=0.05)


@asynccontextmanager
async def bridge(
    limits: MeetingLimits | None = None, listed: frozenset[bytes] | None = None
) -> AsyncIterator[int]:
    """A server on loopback; yields its port."""
    async with trio.open_nursery() as nursery:
        start = partial(serve_bridge, "127.0.0.1", 0, limits=limits, listed=listed)
        [(_, port), *_] = await nursery.start(start)
        yield port
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(take: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[int]:
    """Somebody else on loopback; yields the port."""

    async def serve_one(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):  # whoever connects may leave at any time
            await take(stream)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve_one, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def url(port: int, key: str = KEY) -> str:
    return f"bridge://{key}@127.0.0.1:{port}"


def place(port: int, key: str = KEY) -> BridgeAddress:
    where = parse_address(url(port, key))
    assert isinstance(where, BridgeAddress)
    return where


def joining(port: int, **options: Any) -> Any:
    options = {"patience": 30.0, "transports": frozenset({"relay"}), **options}
    return dial(url(port), role="worker", codec=CODEC, **options)


async def is_served(port: int) -> None:
    """Check that a member of another meeting has its message back."""
    async with head(url(port, OTHER)), dial(url(port, OTHER), role="worker", codec=CODEC) as peer:
        await peer.channel.send([(Note("hello"), None)])
        assert [(Note("hello"), None)] == await receive(peer, 1)


async def until_quiet() -> None:
    """Wait until everybody, server and members, has done what there is to do, and waits."""
    await trio.testing.wait_all_tasks_blocked(0.1)


async def said_to(port: int, data: bytes | Callable[[bytes], bytes]) -> bytes:
    """Return what the server answers to some bytes after its greeting."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        decoder = MessageDecoder()
        while (greeting := decoder.next()) is None:
            decoder.feed(await stream.receive_some())
        assert isinstance(greeting, Greeting)
        got = b""
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data if isinstance(data, bytes) else data(greeting.challenge))
            async for more in stream:
                got += more
        return got


# ---- strangers


def signed(challenge: bytes, keys: MeetingKeys, purpose: Any = "look", **how: Any) -> bytes:
    public = how.get("public", keys.public)
    signature = how.get("signature", keys.sign(challenge, purpose, b""))
    return encode(Open(how.get("version", VERSION), public, signature, purpose))


STRANGE: dict[str, bytes | Callable[[bytes], bytes]] = {
    "no signature": lambda c: signed(c, KEYS, signature=bytes(64)),
    "the name of a meeting and a key of another": lambda c: signed(
        c, MeetingKeys(bytes(32)), public=KEYS.public
    ),
    "the signature of another challenge": lambda _: signed(bytes(32), KEYS),
    "the signature of another purpose": lambda c: signed(
        c, KEYS, signature=KEYS.sign(c, "lead", b"")
    ),
    "a name that is no key": lambda c: signed(c, KEYS, public=b"short"),
    "another version": lambda c: signed(c, KEYS, version=VERSION + 1),
    "another message": encode(Claim(1, b"", b"")),
    "no message": b"\0\0\0\5hello",
    "a huge message": b"\x7f\xff\xff\xff" + bytes(100_000),
    "a message that is nested deeply": b"\0\0\x3f\xff" + b"\x91" * 0x3FFF,
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE.keys())
async def test_whoever_lacks_the_key_gets_the_end_of_the_connection_and_no_word(
    data: bytes | Callable[[bytes], bytes],
) -> None:
    """Tried: No signature, one of another meeting, challenge or purpose, another version or
    protocol, huge or nested messages.
    Result: the end of the connection, without a word, whether the meeting exists or not.
    """
    with trio.fail_after(60):
        async with bridge() as port:
            assert b"" == await said_to(port, data)
            async with head(url(port)):
                assert b"" == await said_to(port, data)
                await is_served(port)
                assert b"" != await said_to(port, lambda c: signed(c, KEYS))


async def test_a_server_with_a_list_serves_its_meetings_and_no_others() -> None:
    """Who has the key of another meeting learns just that; who has none learns nothing.

    Tried: Have a meeting at a server that lists others.
    Result: refused, and told nothing about those.
    """
    listed = bytes.fromhex(meeting_id(url(1, OTHER)))
    other = BridgeMeeting(place(1, OTHER))
    assert other.meeting_id == listed.hex()[:32]
    with trio.fail_after(60):
        async with bridge(listed=frozenset({listed})) as port:
            await is_served(port)
            with pytest.raises(NotListed, match="the meetings that it serves"):
                await BridgeMeeting(place(port)).prepare()
            with pytest.raises(NotListed):
                await check_bridge(url(port), 2.0)
            for key in (KEY, OTHER):
                keys = MeetingKeys(parse_key(key))
                stranger = partial(signed, keys=keys, signature=bytes(64))
                assert b"" == await said_to(port, stranger)


async def test_a_server_with_a_list_serves_what_a_listed_meeting_vouches_for_alone() -> None:
    """Tried: Have a meeting at a server that lists others, by a word that nobody has given for it.

    Result: refused.
    """
    listed = MeetingKeys(parse_key(OTHER))
    vouched = MeetingKeys(parse_key(make_key()))
    right = listed.vouch(KEYS.public)
    forged = {
        "none": b"",
        "its own": KEYS.vouch(KEYS.public),
        "for another meeting": listed.vouch(vouched.public),
        "of one that is vouched for": vouched.vouch(KEYS.public),
        "by the name of the listed one": listed.public + KEYS.vouch(KEYS.public)[32:],
        "another signature of the listed one": listed.public + listed.sign(KEYS.public, "", b""),
        "cut": right[:-1],
        "longer": right + b"x",
        "a name": right[:32],
    }
    with trio.fail_after(60):
        async with bridge(listed=frozenset({listed.public})) as port:
            for case, voucher in forged.items():
                with pytest.raises(NotListed):
                    await BridgeMeeting(replace(place(port), voucher=voucher.hex())).prepare()
                    pytest.fail(case)
            await BridgeMeeting(replace(place(port), voucher=right.hex())).prepare()


async def test_nothing_is_looked_up_for_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time of the answer depends on no meeting, either.

    Tried: Measure how long the server looks for a meeting.
    Result: it looks for none before the signature is right.
    """
    asked: list[bytes] = []

    class Observed(Switchboard):
        def enter(self, meeting: bytes, *args: Any) -> int:
            asked.append(meeting)
            return super().enter(meeting, *args)

    monkeypatch.setattr(relay_server, "Switchboard", Observed)
    with trio.fail_after(60):
        async with bridge() as port:
            for data in STRANGE.values():
                await said_to(port, data)
            assert [] == asked
            await said_to(port, lambda c: signed(c, KEYS))
    assert [KEYS.public] == asked


async def test_an_overheard_member_cannot_be_played() -> None:
    """Its words are sent again, each of them, on connections of their own.

    Tried: Send the words of a member again.
    Result: of no use.
    """
    overheard: list[bytes] = []

    def overhear(data: bytes) -> bytes:
        overheard.append(data)
        return data

    with trio.fail_after(60):
        async with bridge() as port:
            async with relaying(port, overhear) as between:
                await BridgeMeeting(place(between)).prepare()
            assert overheard
            for words in overheard:
                assert b"" == await said_to(port, words)


@pytest.mark.parametrize("size", [0, 31, 33, 200])
async def test_no_member_signs_a_challenge_of_another_size(size: int) -> None:
    """It could be another statement of a member to another server.

    Tried: Have a member sign something else by an odd challenge.
    Result: refused; no statement reads as another.
    """
    got: list[bytes] = []

    async def server(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(encode(Greeting(VERSION, bytes(size))))
            got.append(await stream.receive_some())

    with trio.fail_after(60):
        async with listening(server) as port:
            with pytest.raises(MeetingError, match="no bridge of Grain"):
                await BridgeMeeting(place(port)).prepare()
    assert [b""] == got


statements = st.tuples(
    st.binary(max_size=40),
    st.sampled_from(["look", "lead", "join", "take"]),
    st.binary(max_size=20),
)


@given(statements, statements)
def test_no_signed_statement_reads_as_another(
    one: tuple[bytes, str, bytes], other: tuple[bytes, str, bytes]
) -> None:
    """Tried: Have a member sign something else by an odd challenge.
    Result: refused; no statement reads as another.
    """
    from grain.edge.bridge.key import _statement

    assert (one == other) == (_statement(*one) == _statement(*other))


async def test_a_stranger_has_ten_seconds(autojump_clock: trio.testing.MockClock) -> None:
    """Also one who sends a byte now and then.

    Tried: Silence, or a byte now and then.
    Result: ten seconds.
    """

    async def held(port: int, pause: float) -> float:
        begun = trio.current_time()
        async with (
            await trio.open_tcp_stream("127.0.0.1", port) as stream,
            trio.open_nursery() as n,
        ):

            async def drip() -> None:
                with suppress(trio.BrokenResourceError):
                    for byte in b"\0\0\x20\0" + bytes(1000):
                        await trio.sleep(pause)
                        await stream.send_all(bytes([byte]))

            n.start_soon(drip)
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass
            n.cancel_scope.cancel()
        return trio.current_time() - begun

    async with bridge() as port:
        assert 9.9 < await held(port, 1000.0) < 10.1
        assert 9.9 < await held(port, 0.5) < 10.6


async def test_silent_connections_make_way_for_a_member_of_a_bridge(
    mock_clock: trio.testing.MockClock,
) -> None:
    """Tried: 100 connections that say nothing.
    Result: a member gets in.
    """
    mock_clock.rate = 1.0  # a member has pauses of its own
    with trio.fail_after(60):
        async with bridge() as port:
            silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(100)]
            await until_quiet()
            mock_clock.jump(1.1)  # which is the time that each has for itself
            await is_served(port)
            for stream in silent:
                await trio.aclose_forcefully(stream)


async def test_any_bytes_end_only_their_own_connection_to_a_bridge() -> None:
    """Tried: Any bytes, also of members of other meetings.
    Result: end only their own connection.
    """
    chance = random.Random(7)
    good = [encode(Claim(1, b"", b"")), encode(Beat()), encode(Joined()), b"\0\0\0\1\x80"]

    def noise(challenge: bytes) -> bytes:
        pieces = [
            signed(challenge, MeetingKeys(chance.randbytes(32)), chance.choice(["lead", "join"]))
        ]
        pieces *= chance.randint(0, 1)
        for _ in range(chance.randint(0, 5)):
            piece = bytearray(chance.choice([*good, chance.randbytes(50)]))
            if chance.random() < 0.5:
                piece[chance.randrange(len(piece))] ^= chance.randint(1, 255)
            pieces.append(bytes(piece[: chance.randint(1, 60)]))
        return b"".join(pieces)

    async def one(port: int) -> None:
        with trio.move_on_after(0.3):
            await said_to(port, noise)

    with trio.fail_after(60):
        async with bridge() as port:
            for _ in range(15):
                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(one, port)
            await is_served(port)


async def test_an_error_of_the_bridge_ends_only_one_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried: A mistake of the server, met by one connection.
    Result: logged, and ends only that connection.
    """

    class Faulty(Switchboard):
        def enter(self, meeting: bytes, *args: Any) -> int:
            if meeting == KEYS.public:
                raise RuntimeError("a mistake")
            return super().enter(meeting, *args)

    monkeypatch.setattr(relay_server, "Switchboard", Faulty)
    with trio.fail_after(60):
        async with bridge() as port:
            assert b"" == await said_to(port, lambda c: signed(c, KEYS))
            await is_served(port)
    assert "has ended by an error of the bridge" in caplog.text


# ---- members


@pytest.fixture
def slow_clock() -> trio.abc.Clock:
    """A second of the ways takes twenty: here, each of them waits for all the others' turns."""
    return trio.testing.MockClock(rate=0.05)


async def test_a_hundred_members_join_a_bridge_at_the_same_time(
    slow_clock: trio.abc.Clock,
) -> None:
    """Their introductions go to the head by one connection.

    Tried: A hundred members at the same moment.
    Result: all join.
    """
    joined = 0

    async def member(port: int) -> None:
        nonlocal joined
        async with joining(port) as peer:
            await peer.channel.send([(Note("hello"), None)])
            await receive(peer, 1)
            joined += 1

    with trio.fail_after(120):
        async with bridge() as port, head(url(port)), trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(member, port)
    assert 100 == joined


class Members:
    """Connections of members, one of which leads.

    Args:
        port: of the server.
        key: of their meeting.
    """

    def __init__(self, port: int, key: str = KEY) -> None:
        self._address = place(port, key)
        self._keys = MeetingKeys(parse_key(key))
        self._all: list[BridgeConnection] = []

    async def lead(self) -> None:
        self.control = await self.connect("lead")
        await self.control.send(Claim(1, b"", self._keys.seal_claim(1, b"")))
        assert Leading() == await answer(self.control, "here", Leading)

    def close(self) -> None:
        for connection in self._all:
            connection.stream.socket.close()

    async def connect(self, purpose: Any, token: bytes = b"") -> BridgeConnection:
        connection = await connect(self._address, self._keys, purpose, token)
        self._all.append(connection)
        return connection

    async def waiting(self) -> tuple[BridgeConnection, bytes]:
        """Return the connection of a member that waits, and its token."""
        member = await self.connect("join")
        incoming = await self.control.receive()
        assert isinstance(incoming, Incoming)
        return member, incoming.token

    async def pair(self) -> tuple[trio.SocketStream, trio.SocketStream]:
        """Return both ends of a connection through the server."""
        member, token = await self.waiting()
        taker = await self.connect("take", token)
        for connection in (member, taker):
            assert Joined() == await answer(connection, "here", Joined)
        return member.stream, taker.stream


async def test_a_head_that_reads_nothing_is_dropped() -> None:
    """What is for it does not pile up in the server.

    Tried: A head that reads nothing.
    Result: dropped.
    """
    with trio.fail_after(60):
        async with bridge() as port:
            async with leading(port) as members:
                with pytest.raises(trio.BrokenResourceError):
                    while True:
                        await members.control.stream.send_all(encode(Beat()) * 1000)
            await is_served(port)


@pytest.mark.parametrize("data", [encode(Beat()), b"\0\0\0"])
async def test_a_member_that_talks_while_it_waits_is_dropped(data: bytes) -> None:
    """A whole message at once, and half a one when it is taken.

    Tried: A member that talks before it is taken, or out of turn.
    Result: dropped.
    """
    with trio.fail_after(60):
        async with bridge() as port, leading(port) as members:
            member, token = await members.waiting()
            await member.stream.send_all(data)
            await until_quiet()
            taker = await members.connect("take", token)
            for connection in (member, taker):
                with pytest.raises((trio.BrokenResourceError, MeetingError)):
                    while await answer(connection, "here", Joined) == Joined():
                        pass
            await is_served(port)


@asynccontextmanager
async def leading(port: int, key: str = KEY) -> AsyncIterator[Members]:
    """Members whose connections are closed at the end of the block."""
    members = Members(port, key)
    try:
        await members.lead()
        yield members
    finally:
        members.close()


def resident(pid: int) -> float:
    """Return the megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def test_slow_readers_slow_their_writers_and_nothing_piles_up_in_the_server() -> None:
    """Of ten pairs that write 100 MB each, and read nothing.

    Tried: A gigabyte for readers that do not read.
    Result: stays with its writers: the server grows by less than 10 MB.
    """
    program = (
        "import trio\nfrom grain.edge import serve_bridge\n"
        "async def main():\n    async with trio.open_nursery() as nursery:\n"
        "        [(_, port), *_] = await nursery.start(serve_bridge, '127.0.0.1', 0)\n"
        "        print(port, flush=True)\ntrio.run(main)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: ASYNC220 - at once
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            with trio.fail_after(120):
                async with leading(port) as members:
                    pairs = [await members.pair() for _ in range(10)]
                    before = resident(server.pid)
                    data = bytes(100_000_000)
                    with trio.move_on_after(2) as scope:
                        async with trio.open_nursery() as nursery:
                            for writer, _ in pairs:
                                nursery.start_soon(writer.send_all, data)
                    assert scope.cancelled_caught
                    assert resident(server.pid) - before < 10
                    await is_served(port)
        finally:
            server.kill()


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The servers that run."""
    running: list[Any] = []

    class Observed(relay_server._Server):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            running.append(self)

    monkeypatch.setattr(relay_server, "_Server", Observed)
    return running


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel keep little of what a server writes, so that the rest waits in the server."""
    tune = tcp.tune

    def tune_small(stream: trio.SocketStream) -> None:
        tune(stream)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)

    monkeypatch.setattr(tcp, "tune", tune_small)


@pytest.mark.usefixtures("small_buffers")
async def test_slow_readers_of_a_full_server_fill_no_more_and_others_are_served(
    servers: list[Any],
) -> None:
    """Nothing is lost either: when they read in the end everything arrives.

    Tried: Slow readers, as many as there are.
    Result: fill a quarter of the server's memory and no more; others are served.
    """
    limits = MeetingLimits(memory=4 * 1024**2)
    count, size = 40, 300_000
    with trio.fail_after(120):
        async with bridge(limits) as port, leading(port) as members:
            pairs = [await members.pair() for _ in range(count)]
            async with trio.open_nursery() as nursery:
                for writer, _ in pairs:
                    nursery.start_soon(writer.send_all, bytes(size))
                await until_quiet()
                waits = sum(len(link.unsent) for link in servers[0]._links.values())
                # What fills it, one piece that was on its way, and a small one of each pair.
                most = limits.copied + 256 * 1024 + count * 16 * 1024
                assert 0 < waits <= servers[0]._copied < most
                await is_served(port)
                for _, reader in pairs:
                    left = size
                    while left:
                        left -= len(await reader.receive_some(1 << 20))
            assert 0 == servers[0]._copied


@pytest.mark.usefixtures("small_buffers")
async def test_a_head_that_reads_late_is_not_read_while_memory_is_short() -> None:
    """So it is slowed, and neither fills the server nor loses an answer.

    Tried: Heads that send and do not read, while memory is short.
    Result: not read; no member is introduced to them.
    """
    count = 50_000
    with trio.fail_after(120):
        async with bridge(MeetingLimits(memory=4 * 1024**2 // 8)) as port, leading(port) as members:
            control = members.control
            async with trio.open_nursery() as nursery:
                nursery.start_soon(control.stream.send_all, encode(Beat()) * count)
                await until_quiet()
                for _ in range(count):
                    assert Beat() == await control.receive()


async def test_meetings_beyond_the_memory_of_a_server_are_refused_and_others_go_on() -> None:
    """Half of what is for meetings is for those of one host, which all here are.

    Tried: Meetings without end.
    Result: refused beyond the memory for them, of which one address gets half; others go on.
    """
    limits = MeetingLimits(memory=16 * 1024**2)
    with trio.fail_after(120):
        async with bridge(limits) as port, leading(port) as members:
            member, taker = await members.pair()
            held = []
            with pytest.raises(MeetingError, match="no memory left for further meetings"):
                while True:
                    held.append(Members(port, make_key()))
                    await held[-1].lead()
            assert limits.kept // 2 // MEETING == len(held)  # and the first one, and not the last
            await member.send_all(b"goes on")
            assert b"goes on" == await taker.receive_some()
            await members.pair()
            for one in held:
                one.close()
            await is_served(port)


async def test_connections_that_are_refused_as_they_come_do_not_pile_up(
    servers: list[Any],
    mock_clock: trio.testing.MockClock,  # nobody's time to read is over
) -> None:
    """Those that keep theirs although they have read why; the others end at once.

    Tried: Keep connections that were refused.
    Result: 64 of them for two seconds; others end at once.
    """
    with trio.fail_after(60):
        async with bridge(MeetingLimits(each=0)) as port:
            held = [await connect(place(port), KEYS, "lead") for _ in range(80)]
            for connection in held:
                with pytest.raises(MeetingError, match="the most on this bridge"):
                    await answer(connection, "here", Joined)
            await until_quiet()
            assert 64 == len(servers[0]._links)
            for connection in held:
                connection.stream.socket.close()


async def test_a_meeting_with_many_busy_connections_has_one_turn_as_others_have() -> None:
    """While a message of a quiet meeting passes, few pieces of thirty busy connections do.

    Tried: Thirty connections at full speed.
    Result: others wait as for one.
    """
    with trio.fail_after(120):
        async with (
            bridge() as port,
            leading(port) as busy,
            leading(port, OTHER) as quiet,
            trio.open_nursery() as nursery,
        ):
            moved = 0

            async def read(stream: trio.SocketStream) -> None:
                nonlocal moved
                with suppress(trio.BrokenResourceError):
                    while data := await stream.receive_some(1 << 20):
                        moved += len(data)

            async def write(stream: trio.SocketStream) -> None:
                with suppress(trio.BrokenResourceError):
                    while True:
                        await stream.send_all(bytes(100_000))

            for _ in range(30):
                writer, reader = await busy.pair()
                nursery.start_soon(write, writer)
                nursery.start_soon(read, reader)
            member, taker = await quiet.pair()
            for _ in range(20):
                await quiet.control.send(Beat())
                assert Beat() == await quiet.control.receive()
            each = []
            for _ in range(20):
                before = moved
                await member.send_all(b"quiet")
                assert b"quiet" == await taker.receive_some()
                each.append(moved - before)
            nursery.cancel_scope.cancel()
    # Two passes or three, of 256 KiB each; without turns it would be some thirty pieces a pass.
    assert sorted(each)[10] < 8 * 256 * 1024


# ---- operators


@asynccontextmanager
async def relaying(
    port: int, change: Callable[[bytes], bytes | None], *, back: bool = False
) -> AsyncIterator[int]:
    """Somebody between members and the server, who changes what members send.

    Args:
        port: of the server.
        change: returns what is passed on; None ends the connection.
        back: change what the server sends instead.
    """

    async def pump(source: trio.SocketStream, sink: trio.SocketStream, *, changed: bool) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                new = change(bytes(data)) if changed else bytes(data)
                if new is None:
                    break
                await sink.send_all(new)
            await sink.send_eof()

    async def relay(member: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream("127.0.0.1", port)
        async with member, server, trio.open_nursery() as nursery:
            nursery.start_soon(partial(pump, member, server, changed=not back))
            nursery.start_soon(partial(pump, server, member, changed=back))

    async with listening(relay) as between:
        yield between


class Tampering:
    """An operator who lets everything pass until he begins.

    Args:
        how: what he does.
    """

    def __init__(self, how: str) -> None:
        self.how = how
        self.begun = False
        self.pieces = 0
        self.kept = b""
        self.ended = False

    def change(self, data: bytes) -> bytes | None:
        if not self.begun:
            return data
        self.pieces += 1
        if self.how == "alters":
            return data[:-1] + bytes([data[-1] ^ 1])
        if self.how == "repeats":
            return data + data
        if self.how == "adds":
            return data + b"\x17\x03\x03\x00\x20" + bytes(32)
        if self.how == "reorders":
            self.kept, before = data, self.kept
            return data + before if before else b""
        if self.ended:
            return None
        self.ended = True
        return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("how", "arrived"),
    [("alters", []), ("repeats", ["1"]), ("adds", ["1"]), ("reorders", []), ("truncates", [])],
)
async def test_an_operator_who_changes_what_passes_ends_the_connection_and_adds_nothing(
    how: str, arrived: list[str]
) -> None:
    """Tried: Alter, repeat, add, reorder or truncate what is relayed.
    Result: the connection ends, and no byte of it arrives.
    """
    tampering = Tampering(how)
    got: list[str] = []
    left = trio.Event()

    async def handler(peer: Peer) -> None:
        try:
            while True:
                got.extend(message.text for message, _ in await peer.channel.receive())  # type: ignore[attr-defined]
                await peer.channel.send([(Note("got"), None)])
        finally:
            left.set()

    with trio.fail_after(60):
        async with (
            bridge() as port,
            relaying(port, tampering.change) as between,
            head(url(port), handler),
        ):
            with pytest.raises((trio.BrokenResourceError, trio.EndOfChannel)):
                async with joining(between) as peer:
                    await peer.channel.send([(Note("0"), None)])
                    await receive(peer, 1)
                    tampering.begun = True
                    for number in range(1, 100):
                        await peer.channel.send([(Note(str(number)), None)])
                        # Each message in a piece of its own, or the connection has ended.
                        while tampering.pieces < number:
                            with trio.move_on_after(0.01):
                                await peer.channel.receive()
            await left.wait()
    assert ["0", *arrived] == got


def record_of(authority: str, key: str, certificate: str, epoch: int = 1) -> MeetingRecord:
    return MeetingRecord(
        "meeting_id", epoch, True, "host", "boot", 0, 1, 1,
        authority=authority, key=key, certificate=certificate,
    )  # fmt: skip


async def operator(stream: trio.SocketStream, answers: list[AnyMessage]) -> Open:
    """Greet a member, and answer as one pleases."""
    await stream.send_all(encode(Greeting(VERSION, bytes(32))))
    connection = BridgeConnection(stream)
    opened = await connection.receive()
    assert isinstance(opened, Open)
    for message in answers:
        await connection.send(message)
    return opened


async def test_an_operator_cannot_play_the_head() -> None:
    """He has the head's record, sealed, and leads the member to himself.

    Tried: Answer in the place of the head.
    Result: refused by the member.
    """
    _, members = make_credentials()
    record = record_of(members.authority, members.key, members.certificate)
    sealed = KEYS.seal(msgspec.json.encode(record))
    mine, _ = make_credentials()
    outcomes: list[str] = []

    async def server(stream: trio.SocketStream) -> None:
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(1, sealed)))
                await stream.receive_some()
                return
            await stream.send_all(encode(Joined()))
            try:
                await tcp.secure_accepted(stream, listening_context(mine), None)
            except NotAuthenticated:
                outcomes.append("refused")

    with trio.fail_after(60):
        async with listening(server) as port:
            with pytest.raises(DialError, match="not of this meeting"):
                async with joining(port, patience=2.0):
                    pass
    assert {"refused"} == {*outcomes}


async def test_an_operator_cannot_play_a_member() -> None:
    """He introduces himself to the head, and joins with credentials of his own.

    Tried: Join, by an introduction of one's own.
    Result: refused by the head.
    """
    refused = trio.Event()
    seen: list[Peer] = []
    _, mine = make_credentials()

    async def server(stream: trio.SocketStream) -> None:
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(0, b"")))
            elif opened.purpose == "lead":
                connection = BridgeConnection(stream)
                await stream.send_all(encode(Leading()) + encode(Incoming(b"t", "203.0.113.9")))
                with suppress(trio.BrokenResourceError):
                    while True:
                        await connection.receive()
            else:
                await stream.send_all(encode(Joined()))
                try:
                    secure = await tcp.secure_dialled(stream, dialling_context(mine), HEAD)
                    await secure.receive_some()
                except (NotAuthenticated, trio.BrokenResourceError):
                    refused.set()
                return
            await stream.receive_some()

    async def handler(peer: Peer) -> None:
        seen.append(peer)

    with trio.fail_after(60):
        async with listening(server) as port, head(url(port), handler):
            await refused.wait()
    assert [] == seen


async def test_the_record_of_another_scheduler_or_key_is_refused() -> None:
    """Tried: Show another record, or one of another epoch.
    Result: refused.
    """
    data = msgspec.json.encode(record_of("", "", "", epoch=3))
    strange = MeetingKeys(parse_key(OTHER)).seal(data)
    shown = [
        (LeaderRecord(4, KEYS.seal(data)), "the record of another scheduler"),
        (LeaderRecord(3, strange), "that no member has written"),
        (LeaderRecord(3, KEYS.seal_claim(3, b"")), "that no member has written"),
        (LeaderRecord(3, KEYS.seal(b"{}")), "of another version of Grain"),
        (LeaderRecord(3, b"x"), "that no member has written"),
    ]

    async def server(stream: trio.SocketStream) -> None:
        async with stream:
            await operator(stream, [shown[0][0]])
            await stream.receive_some()

    with trio.fail_after(60):
        async with listening(server) as port:
            while shown:
                with pytest.raises(MeetingError, match=shown[0][1]):
                    await BridgeMeeting(place(port)).read()
                del shown[0]


def framed(fields: dict[str, object]) -> bytes:
    data = msgspec.msgpack.encode(fields)
    return len(data).to_bytes(4, "big") + data


CONTROL = "\x1b]0;title\x07\x1b[2J\n\u202e"


TEXTS: dict[str, dict[str, object]] = {
    "a reason": {"is": "Refusal", "why": CONTROL},
    "a long reason": {"is": "Refusal", "why": "a" * 15_000},
    "the name of a message": {"is": CONTROL},
    "the name of a field": {"is": "Beat", CONTROL: 1},
    "a long name of a field": {"is": "Beat", "a" * 15_000: 1},
    "a source": {"is": "Incoming", "token": b"t", "source": CONTROL},
    "a source and the end of a line": {"is": "Incoming", "token": b"t", "source": "host\n"},
    "a long source": {"is": "Incoming", "token": b"t", "source": "1" * 65},
}


@pytest.mark.parametrize("fields", TEXTS.values(), ids=TEXTS.keys())
async def test_no_text_of_an_operator_controls_a_terminal_or_fills_a_log(
    fields: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """Members report it, and a head logs it, which comes again.

    Tried: Control terminals or fill logs by what is shown: reasons, sources, names of messages.
    Result: printable and short, or the end of the connection.
    """
    caplog.set_level("DEBUG", "grain.edge")
    again = trio.Event()
    led = 0

    async def server(stream: trio.SocketStream) -> None:
        nonlocal led
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(0, b"")) if not led else framed(fields))
            elif opened.purpose == "lead":
                led += 1
                await stream.send_all(encode(Leading()) + framed(fields))
                if led == 2:
                    again.set()
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass

    with trio.fail_after(120):
        async with listening(server) as port, trio.open_nursery() as nursery:
            await nursery.start(partial(serve, echo, url(port), codec=CODEC))
            with pytest.raises(MeetingError) as caught:
                await BridgeMeeting(place(port)).read()
            await again.wait()
            nursery.cancel_scope.cancel()
    assert any("bridge" in message for message in caplog.messages)
    for text in [str(caught.value), *caplog.messages]:
        assert text.isprintable()
        assert len(text) < 500


async def test_an_operator_cannot_make_a_head_step_down() -> None:
    """His word that another one leads ends the connection, and the head comes again.

    Tried: Say that another head leads.
    Result: that head goes on, unless a member has claimed it.
    """
    led = 0
    again = trio.Event()

    async def server(stream: trio.SocketStream) -> None:
        nonlocal led
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(0, b"")))
            else:
                led += 1
                lies = encode(LeaderRecord(2**62, b"", b"")) + encode(
                    LeaderRecord(2**62, b"", bytes(60))
                )
                await stream.send_all(encode(Leading()) + lies)
                if led == 2:
                    again.set()
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass

    with trio.fail_after(60):
        async with listening(server) as port, trio.open_nursery() as nursery:
            await nursery.start(partial(serve, echo, url(port), codec=CODEC))
            await again.wait()
            nursery.cancel_scope.cancel()


async def test_a_server_that_floods_a_head_with_members_fills_nothing() -> None:
    """The head connects to it a hundred times at the most.

    Tried: Introduce 5,000 members that do not exist.
    Result: a hundred connections at the most.
    """
    held, most = 0, 0
    connected, flooded = trio.Event(), trio.Event()

    async def server(stream: trio.SocketStream) -> None:
        nonlocal held, most
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(0, b"")))
            elif opened.purpose == "lead":
                await stream.send_all(encode(Leading()) + encode(Incoming(b"t", "x")) * 1000)
                await connected.wait()
                await until_quiet()
                flooded.set()
            else:
                held += 1
                most = max(most, held)
                connected.set()
                await trio.sleep_forever()
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass

    with trio.fail_after(60):
        async with listening(server) as port, head(url(port)):
            await flooded.wait()
    assert 1 <= most <= 100


async def test_a_server_that_repeats_a_call_has_a_head_connect_some_times_at_once_and_no_more() -> (
    None
):
    """The member that has called says nothing, so each connection lasts until the head gives up.

    Tried: Repeat a call 5,000 times.
    Result: 32 connections at the most, to the member that has called.
    """
    held, most = 0, 0
    connected, repeated = trio.Event(), trio.Event()
    [member] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    addresses = [("127.0.0.1", member.socket.getsockname()[1])]

    async def hold(stream: trio.SocketStream) -> None:
        nonlocal held, most
        async with stream:
            held += 1
            most = max(most, held)
            connected.set()
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass
            held -= 1

    async def server(stream: trio.SocketStream) -> None:
        async with stream:
            opened = await operator(stream, [])
            if opened.purpose == "look":
                await stream.send_all(encode(LeaderRecord(0, b"")))
            else:
                claim = await BridgeConnection(stream).receive()
                assert isinstance(claim, Claim)
                call = encode(MemberListens(KEYS.seal_call(pack_call(claim.epoch, addresses))))
                await stream.send_all(encode(Leading()) + call * 1000)
                await connected.wait()
                await until_quiet()
                repeated.set()
            with suppress(trio.BrokenResourceError):
                async for _ in stream:
                    pass

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, hold, [member])
            async with listening(server) as port, head(url(port)):
                await repeated.wait()
            nursery.cancel_scope.cancel()
    assert 1 <= most <= 32


def test_a_message_is_no_longer_than_its_limit() -> None:
    """Tried: No signature, one of another meeting, challenge or purpose, another version or
    protocol, huge or nested messages.
    Result: the end of the connection, without a word, whether the meeting exists or not.
    """
    decoder = MessageDecoder()
    decoder.feed((16 * 1024 + 1).to_bytes(4, "big"))
    with pytest.raises(RemoteProtocolError):
        decoder.next()
