"""Heads and members that meet at a bridge, over loopback."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain.edge import (
    check_bridge,
    dial,
    is_reached_directly,
    make_key,
    serve,
    serve_bridge,
    without_key,
)
from grain.edge.address import BridgeAddress, check_argument, parse_address
from grain.edge.bridge.call import pack_call
from grain.edge.bridge.client import BridgeConnection, answer, connect
from grain.edge.bridge.key import MeetingKeys, is_signed, parse_key, read_key
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.bridge.wire import Claim, Greeting, Joined, Leading, MessageDecoder, Open, encode
from grain.edge.connecting.accept import Acceptor
from grain.edge.connecting.routes import ALL_TRANSPORTS, DialRequest, routes
from grain.edge.errors import (
    AddressError,
    DialError,
    ExposedFile,
    MeetingError,
    MeetingTaken,
    NotListed,
    OtherVersion,
    RemoteProtocolError,
    StaleEdgeFile,
)
from grain.edge.meeting.block import MeetingRecord
from grain.edge.messages import Hello, Welcome
from grain.edge.relay.switchboard import MeetingLimits
from grain.edge.transports import tcp
from grain.edge.transports.interfaces import interface_names
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.head_and_diallers import echo, head, receive
from grain_testkit.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEY = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFw"


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Time passes when nothing has come over loopback for a while, which may take a moment."""
    return trio.testing.MockClock(autojump_threshold=0.05)


@asynccontextmanager
async def bridge(port: int = 0, **options: Any) -> AsyncIterator[int]:
    """A server on loopback; yields its port."""
    async with trio.open_nursery() as nursery:
        [(_, port), *_] = await nursery.start(partial(serve_bridge, "127.0.0.1", port, **options))
        yield port
        nursery.cancel_scope.cancel()


def url(port: int, key: str = KEY) -> str:
    return f"bridge://{key}@127.0.0.1:{port}"


def joining(address: str, *transports: str, **options: Any) -> Any:
    ways = frozenset(transports or {"relay"})
    options = {"patience": 30.0, **options}
    return dial(address, role="worker", codec=CODEC, transports=ways, **options)


def place(address: str) -> BridgeAddress:
    where = parse_address(address)
    assert isinstance(where, BridgeAddress)
    return where


@pytest.mark.parametrize("transport", ["relay", "reverse", "tcp", "unix"])
async def test_a_member_reaches_the_head(transport: str) -> None:
    """Through the server, or directly with what the server's record says."""
    with trio.fail_after(60):
        async with bridge() as port, head(url(port)), joining(url(port), transport) as peer:
            await peer.channel.send([(Note("hello"), b"x" * 300_000)])
            assert [(Note("hello"), b"x" * 300_000)] == await receive(peer, 1)
            assert transport == peer.transport


async def test_a_direct_way_is_preferred(mock_clock: trio.testing.MockClock) -> None:
    """Time stands still: the relay is tried only when a direct way has taken a while."""
    assert 0 == mock_clock.rate
    async with bridge() as port, head(url(port)), joining(url(port), "relay", "tcp") as peer:
        assert "tcp" == peer.transport


async def test_a_member_that_the_head_reaches_needs_no_server_any_more() -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            server = trio.CancelScope()

            async def served(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
                with server:
                    await serve_bridge("127.0.0.1", 0, task_status=task_status)

            [(_, port), *_] = await nursery.start(served)
            async with head(url(port)), joining(url(port), "reverse") as peer:
                server.cancel()
                await peer.channel.send([(Note("hello"), b"x" * 300_000)])
                assert [(Note("hello"), b"x" * 300_000)] == await receive(peer, 1)
                assert "reverse" == peer.transport


def test_the_head_may_connect_to_a_member_before_the_relay_is_tried() -> None:
    meeting = BridgeMeeting(place(url(1)))
    record = MeetingRecord("meeting_id", 1, True, "host", "boot", 0, 1, 1, authority="authority")
    hello = Hello(1, "0", "worker", "w", "host", 1)
    request = DialRequest(meeting, record, hello, CODEC, same_kernel=True)
    ways = [(route.transport, route.stagger) for route in routes(request, ALL_TRANSPORTS)]
    assert [("reverse", 0.25), ("relay", 0.25)] == ways


def test_a_firewall_that_drops_what_is_direct_delays_a_member_by_little_more_than_a_second() -> (
    None
):
    meeting = BridgeMeeting(place(url(1)))
    tcp = (("192.0.2.1", 4000), ("192.0.2.2", 4000))
    record = MeetingRecord(
        "meeting_id", 1, True, "host", "boot", 0, 1, 1, "", tcp, False, "authority"
    )
    hello = Hello(1, "0", "worker", "w", "host", 1)
    request = DialRequest(meeting, record, hello, CODEC, same_kernel=False)
    ways = [
        (route.transport, route.stagger) for route in routes(request, frozenset({"tcp", "relay"}))
    ]
    assert [("tcp", 0.25), ("tcp", 1.0), ("relay", 0.25)] == ways


async def test_the_relay_is_the_way_where_the_head_cannot_connect_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network that drops what the head sends: the relay does not wait for that."""

    async def nowhere(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(Acceptor, "dial_back", nowhere)
    with trio.fail_after(60):
        async with (
            bridge() as port,
            head(url(port)),
            joining(url(port), "relay", "reverse") as peer,
        ):
            assert "relay" == peer.transport
            outcomes = {one.transport: one.outcome for one in peer.tried}
            assert "given up, as another route was faster" == outcomes["reverse"]


@pytest.mark.parametrize("reaches", [True, False])
async def test_a_direct_way_from_the_relay_may_be_a_connection_that_the_head_makes(
    reaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nowhere(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    module = importlib.import_module("grain.edge.connecting.dial")
    monkeypatch.setattr(module, "DIRECT", {})  # the member cannot connect to the head
    if not reaches:  # nor the head to the member
        monkeypatch.setattr(Acceptor, "dial_back", nowhere)
        monkeypatch.setattr(module, "_DIRECT", 0.5)
    with trio.fail_after(60):
        async with bridge() as port, head(url(port)), joining(url(port), "relay"):
            assert reaches == await is_reached_directly(url(port))


async def test_either_side_may_come_first() -> None:
    """Also before the server."""
    with reserved_port() as port, trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            async def member() -> None:
                async with joining(url(port)) as peer:
                    await peer.channel.send([(Note("early"), None)])
                    await receive(peer, 1)
                nursery.cancel_scope.cancel()

            nursery.start_soon(member)
            await trio.sleep(0.5)
            async with bridge(port):
                await trio.sleep(0.5)
                async with head(url(port)):
                    await trio.sleep_forever()


async def test_the_server_is_killed_and_started_again() -> None:
    """The head claims its epoch again, and members come back."""

    async def run(port: int, task_status: trio.TaskStatus[Any]) -> None:
        with trio.CancelScope() as scope:
            async with bridge(port):
                task_status.started(scope)
                await trio.sleep_forever()

    with reserved_port() as port, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(run, port)
            serving = await nursery.start(partial(serve, echo, url(port), codec=CODEC))
            async with joining(url(port)) as peer:
                scope.cancel()
                with pytest.raises((trio.BrokenResourceError, trio.EndOfChannel)):
                    await peer.channel.receive()
            await nursery.start(run, port)
            async with joining(url(port)) as peer:
                assert isinstance(peer.greeting, Welcome)
                assert serving.epoch == peer.greeting.epoch
                await peer.channel.send([(Note("again"), None)])
                assert [(Note("again"), None)] == await receive(peer, 1)
            nursery.cancel_scope.cancel()


async def test_a_head_whose_server_is_gone_tries_again_after_growing_pauses_of_ten_seconds_at_most(
    autojump_clock: trio.testing.MockClock,
) -> None:
    assert autojump_clock.autojump_threshold
    attempts: list[float] = []
    enough = trio.Event()

    async def refuse(stream: trio.SocketStream) -> None:
        attempts.append(trio.current_time())
        await trio.aclose_forcefully(stream)
        if len(attempts) == 9:
            enough.set()

    async def unused(*_: object) -> None: ...

    with reserved_port() as port:
        meeting = BridgeMeeting(place(url(port)))
        async with bridge(port):
            await meeting.claim()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_tcp, refuse, port, host="127.0.0.1"))
            nursery.start_soon(meeting.lead, unused, unused, unused, unused)
            await enough.wait()
            nursery.cancel_scope.cancel()

    pauses = [round(later - earlier, 1) for earlier, later in pairwise(attempts)]
    assert [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0] == pauses


async def test_a_second_head_is_refused_while_the_first_is_connected() -> None:
    with trio.fail_after(60):
        async with bridge() as port, head(url(port)):
            with pytest.raises(MeetingTaken, match="it is connected to the bridge"):
                await serve(echo, url(port), codec=CODEC)
        async with bridge() as port:
            async with head(url(port)):
                pass
            async with head(url(port)), joining(url(port)):
                pass


async def test_a_server_whose_list_is_empty_serves_no_meeting_and_is_not_waited_for() -> None:
    async with bridge(listed=frozenset()) as port:
        with pytest.raises(NotListed, match="this is none of them"):
            await check_bridge(url(port), 60.0)


async def test_meetings_of_two_keys_do_not_meet() -> None:
    with trio.fail_after(60):
        async with bridge() as port, head(url(port)):
            with pytest.raises(DialError, match="no scheduler is connected to the bridge"):
                async with joining(url(port, make_key()), patience=3.0):
                    pass
            async with head(url(port, make_key())):
                pass


async def test_a_stranger_learns_nothing() -> None:
    """Who cannot sign gets the same end, whether the meeting exists or not."""
    with trio.fail_after(60):
        async with bridge() as port, head(url(port)):
            public = MeetingKeys(parse_key(KEY)).public
            for known in (public, secrets.token_bytes(32)):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                async with stream:
                    await stream.receive_some()
                    await stream.send_all(encode(Open(1, known, bytes(64), "look")))
                    assert b"" == await stream.receive_some()


async def test_a_signature_is_of_no_use_on_another_connection() -> None:
    """What was overheard holds for one challenge and one purpose."""
    keys, challenge = MeetingKeys(parse_key(KEY)), secrets.token_bytes(32)
    signature = keys.sign(challenge, "look", b"")
    assert is_signed(keys.public, signature, challenge, "look", b"")
    assert not is_signed(keys.public, signature, challenge, "lead", b"")
    assert not is_signed(keys.public, signature, challenge, "look", b"x")
    assert not is_signed(keys.public, signature, secrets.token_bytes(32), "look", b"")
    assert not is_signed(b"short", signature, challenge, "look", b"")


async def test_the_server_sees_neither_key_nor_record_nor_messages() -> None:
    """Everything that members send to it is recorded on the way to it.

    Tried: Find key, record or messages in what passes.
    Result: sealed.
    """
    seen: list[bytes] = []

    async def relay(port: int, member: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream("127.0.0.1", port)

        async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            try:
                async for data in source:
                    seen.append(bytes(data))
                    await sink.send_all(data)
                await sink.send_eof()
            except trio.BrokenResourceError:
                pass

        async with member, server, trio.open_nursery() as nursery:
            nursery.start_soon(pump, member, server)
            nursery.start_soon(pump, server, member)

    with trio.fail_after(60):
        async with bridge() as port, trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, partial(relay, port), [listener])
            address = url(listener.socket.getsockname()[1])
            async with head(address), joining(address) as peer:
                await peer.channel.send([(Note("a secret word"), b"a secret payload")])
                await receive(peer, 1)
                async with joining(address, "reverse"):
                    pass
            nursery.cancel_scope.cancel()
    data = b"".join(seen)
    assert len(data) > 2000
    listens = b"\xff\xff" + socket.inet_aton("127.0.0.1")  # as it stands in a call
    hidden = (b"secret", parse_key(KEY), KEY.encode(), b"PRIVATE KEY", b"CERTIFICATE", listens)
    assert listens in pack_call(1, [("127.0.0.1", 1)])
    for secret in hidden:
        assert secret not in data


async def test_members_that_are_not_taken_are_refused_in_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with bridge() as port:
        where = place(url(port))
        meeting = BridgeMeeting(where)
        await meeting.claim()  # and takes nobody
        with pytest.raises(MeetingError, match=r"did not take|does not answer"):
            await BridgeMeeting(where).reach()
        await meeting.aclose()


async def test_limits_of_a_meeting_are_told_to_its_members() -> None:
    with trio.fail_after(60):
        async with bridge(limits=MeetingLimits(each=1)) as port:
            meeting = BridgeMeeting(place(url(port)))
            held = await connect(place(url(port)), MeetingKeys(parse_key(KEY)), "lead")
            await held.send(Claim(1, b"", b""))
            assert Leading() == await answer(held, "here", Leading)
            with pytest.raises(MeetingError, match="has 1 connections, the most on this bridge"):
                await meeting.read()
            await held.stream.aclose()


async def test_a_server_of_another_version_is_named() -> None:
    async def other(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(encode(Greeting(9, bytes(32))))
            await stream.receive_some()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, other, [listener])
            address = url(listener.socket.getsockname()[1])
            with pytest.raises(OtherVersion, match="speaks version 9 of its protocol"):
                async with joining(address):
                    pass
            nursery.cancel_scope.cancel()


async def test_a_bridge_that_does_not_answer_may_come_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that answers and cannot be used is not a reason to wait for it."""
    begun = trio.current_time()

    async def silent(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, silent, [listener])
        address = url(listener.socket.getsockname()[1])
        await check_bridge(address, 2.0)
        nursery.cancel_scope.cancel()
    assert begun + 2.0 == trio.current_time()
    await check_bridge(address, 2.0)  # where nobody listens any more
    await check_bridge("edge:///nowhere/at/all", 2.0)
    assert begun + 2.0 == trio.current_time()


async def test_what_is_no_bridge_is_named() -> None:
    async def web(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, web, [listener])
            where = place(url(listener.socket.getsockname()[1]))
            with pytest.raises(MeetingError, match="no bridge of Grain"):
                await BridgeMeeting(where).read()
            nursery.cancel_scope.cancel()


async def test_a_meeting_without_a_head_is_told_from_no_server() -> None:
    with reserved_port() as port, trio.fail_after(60):
        async with bridge(port):
            with pytest.raises(StaleEdgeFile, match="no scheduler is connected"):
                await BridgeMeeting(place(url(port))).read()
        with pytest.raises(MeetingError, match="is not reached: Connection refused$"):
            await BridgeMeeting(place(url(port))).read()


async def test_a_host_of_several_addresses_is_not_reached_for_the_reason_of_all() -> None:
    # localhost may have an address of IPv4 and one of IPv6.
    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        await tcp.connect("localhost", port)


async def test_who_waits_for_a_scheduler_logs_why_as_often_as_that_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "grain.edge")
    with trio.fail_after(60):
        async with bridge() as port:
            with pytest.raises(DialError):
                async with joining(url(port), patience=2.0):
                    pass
    logged = [message for message in caplog.messages if "no scheduler yet" in message]
    why = f"no scheduler is connected to the bridge at 127.0.0.1:{port}"
    assert [f"no scheduler yet: {why}"] == logged


def test_decoding_takes_bytes_as_they_come() -> None:
    decoder = MessageDecoder()
    data = encode(Greeting(1, b"c")) + encode(Greeting(2, b"d")) + b"end"
    got = []
    for at in range(len(data)):
        decoder.feed(data[at : at + 1])
        if (message := decoder.next()) is not None:
            got.append(message)
    assert [Greeting(1, b"c"), Greeting(2, b"d")] == got
    assert b"end" == bytes(decoder.rest)
    decoder.feed(b"HTTP")
    with pytest.raises(RemoteProtocolError):
        MessageDecoderWith(b"\0\0\0\5hello").next()


async def test_what_the_other_member_says_at_once_is_left_to_who_takes_the_stream() -> None:
    ours, theirs = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    async with stream:
        with theirs:
            theirs.sendall(encode(Leading()) + encode(Joined()) + b"hello of TLS")
        connection = BridgeConnection(stream)

        assert Leading() == await connection.receive()
        assert Joined() == await connection.receive()
        assert b"hello of TLS" == await stream.receive_some(100)


def MessageDecoderWith(data: bytes) -> MessageDecoder:
    decoder = MessageDecoder()
    decoder.feed(data)
    return decoder


# Keys


def test_an_address_does_not_show_its_key() -> None:
    where = place(f"bridge://{KEY}@host:4747?iface=eth0")
    assert KEY not in f"{where} {where!r}"
    assert (KEY, "host", 4747, "eth0") == (where.key, where.host, where.port, where.iface)
    assert where == parse_address(where.text)


def test_an_interface_that_this_host_does_not_have_is_named_with_those_that_it_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    BridgeMeeting(place(f"bridge://{KEY}@host:4747?iface=lo"))
    BridgeMeeting(place(f"bridge://{KEY}@host:4747"))
    assert [] == caplog.messages
    BridgeMeeting(place(f"bridge://{KEY}@host:4747?iface=nope9"))
    names = ", ".join(interface_names())
    [message] = caplog.messages
    assert (
        "?iface=nope9: this host has no such network interface, so it offers no direct connection; "
        f"name one of {names} in the address"
    ) == message
    assert "lo" in names


@pytest.mark.parametrize(
    "text",
    [
        "bridge://host:4747",
        f"bridge://{KEY[:-1]}@host:4747",
        f"bridge://{KEY}@host",
        f"bridge://{KEY}@:4747",
        f"bridge://{KEY}@host:0",
        f"bridge://{KEY}@host:4747?other=1",
        f"bridge://{KEY}@host:4747?iface=",
        "bridge://@relative@host:4747",
    ],
)
def test_what_is_no_address_is_refused_without_its_key(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert KEY[:-1] not in str(caught.value)


def test_a_key_may_stand_in_a_file_that_no_other_user_may_read(tmp_path: Path) -> None:
    file = tmp_path / "my key"
    file.write_text(KEY + "\n")
    file.chmod(0o600)
    address = f"bridge://@{file}@host:4747"
    assert parse_key(KEY) == read_key(place(address))
    assert address == check_argument(address)
    file.chmod(0o640)
    with pytest.raises(ExposedFile, match=f"chmod 600 '{file}'"):
        read_key(place(address))
    with pytest.raises(MeetingError, match="cannot be read"):
        read_key(place(f"bridge://@{tmp_path}/nope@host:4747"))


def test_a_file_that_has_no_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text("a line of something else")
    with pytest.raises(AddressError, match=f"^{file}: the key of a bridge:// address is not valid"):
        read_key(place(f"bridge://@{file}@host:4747"))


def test_a_key_must_not_stand_in_an_argument_list() -> None:
    with pytest.raises(AddressError) as caught:
        check_argument(url(1))
    assert KEY not in str(caught.value)


def test_a_key_goes_to_a_private_file(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": ""}
    mask = os.umask(0)
    try:
        address = without_key(url(4747), env)
    finally:
        os.umask(mask)
    assert KEY not in address
    assert parse_key(KEY) == read_key(place(address))
    assert address == without_key(url(4747), env) == without_key(address, env)
    assert "tcp://host:1" == without_key("tcp://host:1", env)
