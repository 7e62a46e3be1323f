"""The offers of a head: one function for each transport, and the table of them.

An offer listens, and enters its addresses in the head's record. If this host cannot listen, it
returns None and logs a warning: an exception ends the head, which may have other transports. It
hands each connection to `Acceptor.greet`. To add a transport, write a function and enter it in
`OFFERS`; the dialler's side is the tables in `grain.edge.connecting.routes`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.connecting.accept import Detours
from grain.edge.connecting.mailbox import Mailbox
from grain.edge.errors import MeetingError
from grain.edge.meeting.meeting import Meeting
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import Credential, listening_context
from grain.edge.transports.interfaces import (
    MOST,
    Listening,
    every_address,
    listening,
    local_addresses,
    on_interface,
    reachable,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.address import TcpAddress
    from grain.edge.connecting.accept import Acceptor
    from grain.edge.meeting.place import MeetingPlace

_log = logging.getLogger("grain.edge")


@dataclass(frozen=True)
class Leadership:
    """A head that is about to listen.

    Attributes:
        fixed: the TCP port that the address names, if any.
        interfaces: the interfaces on which it listens, as in `interfaces.listening`.
        publish: called with fields of the head's `MeetingRecord` that have changed.
    """

    meeting: MeetingPlace
    epoch: int
    credential: Credential
    acceptor: Acceptor
    fixed: TcpAddress | None = None
    interfaces: Sequence[str] = ()
    detours: Detours = field(default_factory=Detours)
    publish: Callable[[dict[str, Any]], Awaitable[object]] | None = None


@dataclass(frozen=True)
class Offer:
    """A transport by which a head listens.

    Attributes:
        fields: what it adds to the head's `MeetingRecord`.
        run: accepts connections until cancelled.
        clean: removes what would stay behind, at the end of the leadership.
        on_this_host: what stays behind is on this host; if not it is in the meeting's directory,
            which a head that was superseded leaves to its successor.
    """

    fields: dict[str, Any]
    targets: list[str]
    run: Callable[[], Awaitable[object]]
    clean: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint
    on_this_host: bool = True


async def _bridge(head: Leadership) -> Offer | None:
    meeting = head.meeting
    if not isinstance(meeting, BridgeMeeting):
        return None
    context = listening_context(head.credential)

    async def run() -> None:
        acceptor = head.acceptor
        await meeting.lead(
            partial(acceptor.secure_relayed, context=context),
            lambda stream, source: acceptor.greet(stream, "relay", source),
            partial(acceptor.dial_back, credential=head.credential),
            acceptor.greet_back,
        )

    return Offer({}, [meeting.path], run, meeting.aclose)


async def _unix(head: Leadership) -> Offer | None:
    try:
        path = await trio.to_thread.run_sync(unix.socket_path, head.meeting.path, head.epoch)
        bound = await unix.listen(path)
    except OSError as e:
        _log.warning("no Unix socket, so this host uses the other transports: %s", e)
        return None

    async def run() -> None:
        await head.acceptor.accept_unix(bound.listener)

    async def clean() -> None:
        bound.close()

    return Offer({"unix": path}, [path], run, clean)


async def _tcp(head: Leadership) -> Offer:
    fixed = head.fixed
    where = await _listening(head)
    try:
        if where.addresses is not None:
            listeners = await tcp.listen_on(where.addresses)
        else:
            listeners = await tcp.listen(fixed.host if fixed else "", fixed.port if fixed else 0)
    except OSError as e:
        raise MeetingError(
            f"{fixed or head.meeting.path}: cannot listen there: {e.strerror or e}. "
            "Choose another port, or a host name of this host"
        ) from e
    context = listening_context(head.credential)
    if where.addresses is not None or (fixed and fixed.host):
        targets = tcp.targets(listeners)
    else:
        targets = reachable(tcp.ports(listeners), *local_addresses())

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(head.acceptor.accept_tcp, listener, context)
            if where.addresses is not None and not where.fixed:
                await _learn(head, nursery, context, targets)

    shown = [f"{host} port {port}" for host, port in targets]
    return Offer({"tcp": tuple(targets[:MOST])}, shown, run)


async def _listening(head: Leadership) -> Listening:
    """Return the addresses on which a head listens."""
    if head.fixed is not None:
        return Listening(None, fixed=True)
    meeting = head.meeting
    if isinstance(meeting, Meeting):
        # It looks at the disk, which may be away.
        return await meeting.disk.run(meeting.path, listening, meeting.path, head.interfaces)
    if isinstance(meeting, BridgeMeeting) and meeting.iface:
        return on_interface(meeting.iface)
    return listening("", head.interfaces)


async def _learn(
    head: Leadership,
    nursery: trio.Nursery,
    context: ssl.SSLContext,
    targets: list[tuple[str, int]],
) -> None:
    """Listen on further addresses, as members show that they need them."""
    while True:
        missing = await head.detours.next()
        present = {host for host, _ in targets}
        wanted = [missing] if missing else every_address()
        more = await tcp.listen_on(one for one in wanted if one not in present)
        if not more:
            continue
        for listener in more:
            nursery.start_soon(head.acceptor.accept_tcp, listener, context)
        targets = tcp.targets(more) + targets
        _log.info(
            "a member has come by a detour: listening on %s, too",
            ", ".join(f"{host} port {port}" for host, port in tcp.targets(more)),
        )
        if head.publish is not None:
            await head.publish({"tcp": tuple(targets[:MOST])})


async def _files(head: Leadership) -> Offer | None:
    if not isinstance(head.meeting, Meeting):
        return None
    mailbox = Mailbox(head.meeting, head.epoch, head.acceptor, head.credential)
    await mailbox.prepare()
    return Offer({"files": True}, [head.meeting.directory], mailbox.run, mailbox.clear, False)


OFFERS: dict[frozenset[str], Callable[[Leadership], Awaitable[Offer | None]]] = {
    frozenset({"unix"}): _unix,
    frozenset({"tcp"}): _tcp,
    frozenset({"reverse", "files"}): _files,
    frozenset({"reverse", "relay"}): _bridge,
}
"""The offers by their transports. Offers that use the meeting's directory share one mailbox, and
offers that use the server of a bridge share one connection to it.
"""
