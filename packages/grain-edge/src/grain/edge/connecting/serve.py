"""Being the head of a meeting: claim it, listen in every way, publish, watch, clean up."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.address import DEFAULT, EdgeAddress, TcpAddress, UnixAddress, parse_address
from grain.edge.connecting.accept import Reception
from grain.edge.connecting.dial import Dialler
from grain.edge.connecting.mailbox import Mailbox
from grain.edge.connecting.peer import ALL_TRANSPORTS, Peer
from grain.edge.errors import MeetingError, Superseded
from grain.edge.meeting.block import Record
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.host import Place, home, this_place
from grain.edge.meeting.meeting import WATCH, Meeting
from grain.edge.messages import CORE, Codec, Hello
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import listening_context, make_credentials
from grain.edge.transports.interfaces import local_addresses, reachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.edge.attempt import Attempt
    from grain.edge.heartbeat import Heartbeat

_log = logging.getLogger("grain.edge")


@dataclass(frozen=True)
class Serving:
    """What `serve` reports when it is ready.

    Attributes:
        address: the address served, complete.
        lineage: the meeting's random name; empty for `unix://`.
        epoch: the leadership's number; 0 for `unix://`.
        targets: where it listens, for people.
    """

    address: str
    lineage: str
    epoch: int
    targets: tuple[str, ...]


async def serve(
    handler: Callable[[Peer], Awaitable[object]],
    address: str = DEFAULT,
    *,
    codec: Codec = CORE,
    heartbeat: Heartbeat | None = None,
    admit: Callable[[Hello], str] | None = None,
    transports: frozenset[str] = ALL_TRANSPORTS,
    watch: float = WATCH,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Be the head of a meeting, until cancelled or superseded; for `nursery.start`.

    Each peer that joins gets a task that runs the handler. When the handler returns the channel is
    closed with a goodbye; if it raises an error of the channel, that peer is dropped. Any other
    exception of it leaves `serve`. Cancellation closes all channels without a goodbye, and marks
    the meeting as ended.

    Args:
        handler: called with each peer.
        address: as in `grain.toml`.
        codec: the message types to speak.
        heartbeat: when the channel shows that it lives, and when it is given up.
        admit: looks at a dialler's greeting and says why it may not join, or "".
        transports: what to offer.
        watch: seconds between two looks at the meeting.
        task_status: gets a `Serving` once peers may come.

    Raises:
        AddressError: not an address.
        MeetingTaken: a living head serves there.
        Superseded: another head took the meeting over.
        MeetingError: the Edge file or filesystem is not fit; its class tells why.
    """
    where = parse_address(address, home())
    place = this_place()
    if isinstance(where, UnixAddress):
        reception = Reception(place, "", 0, codec, heartbeat, handler, admit)
        try:
            listener = await unix.listen(where.path)
        except OSError as e:
            raise MeetingError(
                f"{where.path}: cannot listen there: {e.strerror or e}. Its directory must exist, "
                "on a disk of this host, with mode 0700"
            ) from e
        try:
            task_status.started(Serving(str(where), "", 0, (where.path,)))
            await reception.accept_unix(listener)
        finally:
            listener.socket.close()
            unix.remove_socket(where.path)
        return
    fixed = where if isinstance(where, TcpAddress) else None
    if fixed is not None:
        transports = transports & {"tcp"}
    meeting = _meeting_of(where)
    lineage, epoch = await meeting.claim(place, _living(address, codec))
    head = _Head(meeting, place, lineage, epoch)
    head.reception = Reception(place, lineage, epoch, codec, heartbeat, handler, admit)
    await head.run(fixed, transports, str(where), watch, task_status)


async def prepare(address: str) -> None:
    """See that a head which is started on this host could be met at an address.

    Raises:
        AddressError: it is none.
        MeetingError: the file or filesystem is not fit.
    """
    where = parse_address(address, home())
    if not isinstance(where, UnixAddress):
        await _meeting_of(where).prepare()


def _meeting_of(where: EdgeAddress | TcpAddress) -> Meeting:
    return Meeting(where.edge if isinstance(where, TcpAddress) else where.path, Disk())


def _living(address: str, codec: Codec) -> Callable[[Record], Awaitable[str]]:
    """Whether a head on another host lives: it does if it answers a probe in any way."""

    async def living(record: Record) -> str:
        prober = Dialler(address, "probe", "", codec, ALL_TRANSPORTS)
        tried: list[Attempt] = []
        with trio.move_on_after(20):
            opened = await prober.reach(record, tried)
            if opened is not None:
                await opened.aclose()
                return f"it answers by {opened.transport}"
        return ""

    return living


class _Head:
    """One leadership of one meeting."""

    reception: Reception

    def __init__(self, meeting: Meeting, place: Place, lineage: str, epoch: int) -> None:
        self._meeting = meeting
        self._mailbox: Mailbox | None = None
        self._record = Record(
            lineage, epoch, True, place.host, place.boot, place.space, place.pid, place.start
        )

    async def run(
        self,
        fixed: TcpAddress | None,
        transports: frozenset[str],
        address: str,
        watch: float,
        task_status: trio.TaskStatus[Serving],
    ) -> None:
        # What ends it is raised outside the nursery, which would wrap it in a group.
        failed: list[MeetingError] = []
        try:
            async with trio.open_nursery() as nursery:
                try:
                    targets = await self._listen(nursery, fixed, transports)
                    await self._meeting.publish(self._record)
                except MeetingError as e:
                    failed.append(e)
                    nursery.cancel_scope.cancel()
                else:
                    record = self._record
                    task_status.started(Serving(address, record.lineage, record.epoch, targets))
                    nursery.start_soon(self._watch, watch, failed, nursery.cancel_scope)
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(10):
                await self._leave(failed)
        if failed:
            raise failed[0]

    async def _listen(
        self, nursery: trio.Nursery, fixed: TcpAddress | None, transports: frozenset[str]
    ) -> tuple[str, ...]:
        change = msgspec.structs.replace
        record, targets = self._record, []
        if "unix" in transports:
            try:
                path = await trio.to_thread.run_sync(
                    unix.socket_path, self._meeting.path, record.epoch
                )
                listener = await unix.listen(path)
            except OSError as e:
                _log.warning("no Unix socket, so this host uses the other ways: %s", e)
            else:
                nursery.start_soon(self.reception.accept_unix, listener)
                record = change(record, unix=path)
                targets.append(path)
        head, member = make_credentials()
        record = change(
            record, authority=member.authority, certificate=member.certificate, key=member.key
        )
        if "tcp" in transports:
            listeners = await self._tcp_listeners(fixed)
            context = listening_context(head)
            for listener in listeners:
                nursery.start_soon(self.reception.accept_tcp, listener, context)
            if fixed and fixed.host:
                routes = [s.socket.getsockname()[:2] for s in listeners]
            else:
                routes = reachable(tcp.ports(listeners), *local_addresses())
            record = change(record, tcp=tuple((str(host), int(port)) for host, port in routes))
            targets += [f"{host} port {port}" for host, port in record.tcp]
        if transports & {"files", "reverse"}:
            mailbox = Mailbox(self._meeting, record.epoch, self.reception, head)
            await mailbox.prepare()
            nursery.start_soon(mailbox.run)
            self._mailbox = mailbox
            record = change(record, files=True)
            targets.append(self._meeting.directory)
        self._record = record
        return tuple(targets)

    async def _tcp_listeners(self, fixed: TcpAddress | None) -> list[trio.SocketListener]:
        try:
            return await tcp.listen(fixed.host if fixed else "", fixed.port if fixed else 0)
        except OSError as e:
            raise MeetingError(
                f"{fixed or self._meeting.path}: cannot listen there: {e.strerror or e}. "
                "Choose another port, or a host name of this host"
            ) from e

    async def _watch(
        self, pause: float, failed: list[MeetingError], scope: trio.CancelScope
    ) -> None:
        while True:
            await trio.sleep(pause)
            try:
                await self._meeting.watch(self._record)
            except Superseded as e:
                failed.append(e)
                scope.cancel()
            except MeetingError as e:
                _log.warning("%s", e)

    async def _leave(self, failed: list[MeetingError]) -> None:
        """Mark the meeting as ended, and remove what is ours."""
        if self._record.unix:
            unix.remove_socket(self._record.unix)
        if failed and isinstance(failed[0], Superseded):
            return
        ended = msgspec.structs.replace(
            self._record, open=False, unix="", tcp=(), authority="", certificate="", key=""
        )
        try:
            if self._mailbox is not None:
                await self._mailbox.clear()
            await self._meeting.publish(ended)
        except MeetingError as e:
            _log.warning("%s", e)
