"""The routes of a dialler to a head: one function for each transport, and the table of them.

A route ends in a stream that is authenticated and greeted, and not joined yet. To add a transport,
write a function that yields its routes and enter it in `DIRECT`, or in `INDIRECT` if it
costs the shared filesystem or a server something; the head's side is the table in
`grain.edge.connecting.offers`.
"""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.edge.address import join_host
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.connecting.greeting import introduce, introduced
from grain.edge.connecting.mailbox import MailboxEntry, leave_note
from grain.edge.connecting.peer import GreetedStream
from grain.edge.connecting.race import Route
from grain.edge.connecting.reverse import await_head
from grain.edge.meeting.meeting import Meeting
from grain.edge.transports import tcp, unix
from grain.edge.transports.file_stream import FILES_HEARTBEAT, FileStream
from grain.edge.transports.identity import HEAD, Credential, dialling_context
from grain.edge.transports.interfaces import local_addresses
from grain.edge.transports.segments import FIRST_SEGMENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from grain.edge.address import TcpAddress
    from grain.edge.meeting.block import MeetingRecord
    from grain.edge.meeting.place import MeetingPlace
    from grain.edge.messages import Codec, Hello

_LOOPBACK = ("127.", "::1")
_BEFORE_FILES = 2.0  # seconds for only the direct routes
# A member that the relay connects goes over to a direct way later, so a short head start costs the
# server half a minute at the most. A long one delays all workers whose firewall drops what is
# direct.
_BEFORE_RELAY = 1.0


@dataclass(frozen=True)
class DialRequest:
    """A head that is to be reached, and the dialler that wants to.

    Attributes:
        fixed: the TCP port that the address names, if any: then no other is tried.
    """

    meeting: MeetingPlace
    record: MeetingRecord
    hello: Hello
    codec: Codec
    same_kernel: bool
    fixed: TcpAddress | None = None

    @property
    def credential(self) -> Credential:
        """The members' credential."""
        return Credential(self.record.authority, self.record.certificate, self.record.key)


def routes(request: DialRequest, transports: frozenset[str]) -> list[Route[GreetedStream]]:
    """Return the routes to a head, the best first, by those transports that it offers.

    An address that names a port has no other route: the head of the meeting file may be another
    one, which shares the file only for its keys.
    """
    if request.fixed is not None:
        transports = transports & {"tcp"}
    direct = [r for name in DIRECT if name in transports for r in DIRECT[name](request)]
    if direct:
        # The others burden a file system or a server: only when these have had their time.
        at_bridge = isinstance(request.meeting, BridgeMeeting)
        start = _BEFORE_RELAY if at_bridge else _BEFORE_FILES
        direct[-1] = dataclasses.replace(direct[-1], stagger=start)
    slow = [r for name in INDIRECT if name in transports for r in INDIRECT[name](request)]
    return direct + slow


def unix_route(path: str, hello: Hello, codec: Codec) -> Route[GreetedStream]:
    """Return the route through a Unix socket."""
    return Route("unix", path, partial(_dial_unix, path, hello, codec))


def _unix(request: DialRequest) -> Iterator[Route[GreetedStream]]:
    if request.record.unix and request.same_kernel and request.fixed is None:
        yield unix_route(request.record.unix, request.hello, request.codec)


def _tcp(request: DialRequest) -> Iterator[Route[GreetedStream]]:
    if request.fixed is not None:
        targets = [(request.fixed.host or "localhost", request.fixed.port)]
    else:
        # A loopback address of another host is ours.
        targets = [
            (host, port)
            for host, port in request.record.tcp
            if request.same_kernel or not host.startswith(_LOOPBACK)
        ]
    for host, port in targets:
        target = join_host(host, port)
        connect = partial(tcp.connect, host, port)
        yield Route("tcp", target, partial(_dial_tls, connect, request, "tcp", target))


def _reverse(request: DialRequest) -> Iterator[Route[GreetedStream]]:
    meeting, epoch = request.meeting, request.hello.epoch
    if not request.record.authority:
        return
    rest = (request.credential, request.hello, request.codec)
    if isinstance(meeting, BridgeMeeting):
        hosts = _offered(meeting.iface, with_loopback=request.same_kernel)
        if any(hosts):
            # A head start, and no more: the relay is the way where the head cannot connect either.
            start = partial(await_head, partial(_called, meeting, epoch), hosts, *rest)
            yield Route("reverse", meeting.iface or "any interface", start)
    elif request.record.files:
        assert isinstance(meeting, Meeting)
        start = partial(await_head, partial(leave_note, meeting, epoch), local_addresses(), *rest)
        yield Route("reverse", "any interface", start, stagger=3.0, deadline=20.0)


def _offered(iface: str, *, with_loopback: bool) -> tuple[list[str], list[str]]:
    """Return the addresses of this host by which the head may reach it."""
    # Elsewhere, a loopback address is another host to the head.
    four, six = (
        [host for host in hosts if with_loopback or not host.startswith(_LOOPBACK)]
        for hosts in local_addresses(iface)
    )
    return four, six


@asynccontextmanager
async def _called(
    meeting: BridgeMeeting, epoch: int, addresses: list[tuple[str, int]]
) -> AsyncIterator[None]:
    await meeting.call(epoch, addresses)
    yield


def _relay(request: DialRequest) -> Iterator[Route[GreetedStream]]:
    meeting = request.meeting
    if isinstance(meeting, BridgeMeeting):
        start = partial(_dial_tls, meeting.reach, request, "relay", meeting.path)
        yield Route("relay", meeting.path, start, deadline=30.0)


def _files(request: DialRequest) -> Iterator[Route[GreetedStream]]:
    if request.record.files:
        assert isinstance(request.meeting, Meeting)
        start = partial(_dial_files, request.meeting, request.hello, request.codec)
        yield Route("files", request.meeting.directory, start, deadline=60.0)


Routes = dict[str, "Callable[[DialRequest], Iterator[Route[GreetedStream]]]"]

DIRECT: Routes = {"unix": _unix, "tcp": _tcp}
"""Transports that reach the head by themselves, the best first."""

INDIRECT: Routes = {"reverse": _reverse, "relay": _relay, "files": _files}
"""Transports that need the meeting's directory or the server of a bridge, the better first.

They burden a file system or a server: only when the direct ones fail.
"""

ALL_TRANSPORTS = frozenset({*DIRECT, *INDIRECT})
"""The names of all transports."""


async def _dial_unix(path: str, hello: Hello, codec: Codec) -> GreetedStream:
    stream = await unix.dial(path)
    return await introduced(stream, hello, codec, "unix", path)


async def _dial_tls(
    connect: Callable[[], Awaitable[trio.SocketStream]],
    request: DialRequest,
    transport: str,
    target: str,
) -> GreetedStream:
    context = dialling_context(request.credential)
    secure = await tcp.secure_dialled(await connect(), context, HEAD)
    return await introduced(secure, request.hello, request.codec, transport, target)


async def _dial_files(meeting: Meeting, hello: Hello, codec: Codec) -> GreetedStream:
    """Leave logs in the mailbox, and wait for the head to answer in them.

    Both first segments are made here, so that neither side ever looks for a missing name.
    Cancellation removes everything.

    Raises:
        MeetingError: the logs could not be made.
        EdgeError, trio.BrokenResourceError: refused, or the head has left.
    """
    entry = MailboxEntry(meeting, hello.epoch)
    empty = bytes(FIRST_SEGMENT)
    stream = FileStream(entry.folder, "up", "down", meeting.disk, entry.ring)
    try:
        await meeting.disk.run(entry.folder.path, entry.make, {"up.0": empty, "down.0": empty})
        answer, decoder = await introduce(stream, hello, codec)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return GreetedStream(
        stream,
        answer,
        decoder,
        "files",
        entry.folder.path,
        FILES_HEARTBEAT,
        lambda: stream.alive_at,
    )
