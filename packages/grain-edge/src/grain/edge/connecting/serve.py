"""Serving: claim a meeting, offer every transport, publish, watch, clean up."""

from __future__ import annotations

import dataclasses
import errno
import logging
import math
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain.edge.address import (
    DEFAULT,
    BridgeAddress,
    EdgeAddress,
    TcpAddress,
    UnixAddress,
    join_host,
    parse_address,
)
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.connecting.accept import Acceptor, Detours, run_handler
from grain.edge.connecting.dial import Dialler
from grain.edge.connecting.offers import OFFERS, Leadership, Offer
from grain.edge.connecting.routes import ALL_TRANSPORTS, DIRECT
from grain.edge.errors import Attempt, CannotServe, MeetingError, Refused, Superseded
from grain.edge.meeting.block import MeetingRecord, process_here
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import WATCH, Meeting
from grain.edge.messages import CORE, PROTOCOL, Codec, Hello, Welcome
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import make_credentials
from grain.edge.transports.interfaces import wanted
from grain.edge.version import package_version
from grain.files.processes import this_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.connecting.peer import GreetedStream, Peer
    from grain.edge.meeting.place import MeetingPlace
    from grain.edge.transports.heartbeat import Heartbeat
    from grain.edge.transports.identity import Credential
    from grain.files.processes import ProcessIdentity

FROZEN = 60.0
"""Seconds without an answer that a living head on this host may take."""

FAR = 20.0
"""Seconds that a head on another host has to answer."""

CHECK = 2.5
"""Seconds between two checks that peers can leave something in the meeting's directory."""

_AGAIN = 1.0  # seconds between two attempts to be answered
_log = logging.getLogger("grain.edge")


@dataclass(frozen=True)
class Serving:
    """The report of `serve` when it is ready.

    Attributes:
        address: the address served, complete.
        meeting_id: the meeting's random name; empty for `unix://`.
        epoch: the leadership's number; 0 for `unix://`.
    """

    address: str
    meeting_id: str
    epoch: int
    targets: tuple[str, ...]


async def serve(
    handler: Callable[[Peer], Awaitable[object]],
    address: str = DEFAULT,
    *,
    codec: Codec = CORE,
    heartbeat: Heartbeat | None = None,
    admit: Callable[[Hello], str] | None = None,
    patience: Callable[[Hello], float] | None = None,
    transports: frozenset[str] = ALL_TRANSPORTS,
    watch: float = WATCH,
    frozen: float = FROZEN,
    far: float = FAR,
    on_trouble: Callable[[str, str], object] | None = None,
    interfaces: Sequence[str] | None = None,
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
        codec: the message types of its channels.
        heartbeat: the times between its signs of life, and of silence until it is lost.
        admit: returns why a dialler may not join, by its greeting, or "".
        patience: returns for how many seconds a dialler may be silent, by its greeting, while its
            process (on this host) or its kernel (over TCP) is there; None for no longer than the
            heartbeat allows.
        transports: the transports to offer.
        watch: seconds between two looks at the meeting.
        frozen: seconds without an answer after which this head takes the place of a living one on
            this host; inf for no limit. Where the address names a port, the other one stays.
        far: seconds that a head on another host has to answer, else this one takes its place.
        on_trouble: called with a directory and the reason when nothing can be stored there, and
            with an empty reason when that is over.
        interfaces: names of interfaces, and networks, on whose addresses it listens where the
            address names none; "all" for every one; none for the addresses that its members need;
            None for the setting of the environment.
        task_status: gets a `Serving` once peers may come.

    Raises:
        AddressError: not an address.
        MeetingTaken: a living head serves there.
        Superseded: another head took the meeting over.
        MeetingError: the meeting file or filesystem is not fit; the class says why.
    """
    where = parse_address(address)
    me = this_process()
    run = partial(run_handler, codec=codec, heartbeat=heartbeat, handler=handler)
    if isinstance(where, UnixAddress):
        acceptor = Acceptor(_welcome(me, "", 0), codec, run, admit, patience)
        await _serve_unix(where, acceptor, _unix_prober(where, codec, frozen), task_status)
        return
    fixed = where if isinstance(where, TcpAddress) else None
    meeting: MeetingPlace
    if isinstance(where, BridgeAddress):
        meeting = bridge = BridgeMeeting(where)
        meeting_id, epoch = await bridge.claim()
    else:
        meeting = file = Meeting(where.edge, Disk())
        prober = _prober(where.edge, codec, math.inf if fixed else frozen, far)
        meeting_id, epoch = await file.claim(prober)
    detours = Detours()
    acceptor = Acceptor(_welcome(me, meeting_id, epoch), codec, run, admit, patience, detours)
    mine, members = make_credentials()
    interfaces = wanted() if interfaces is None else interfaces
    leadership = Leadership(meeting, epoch, mine, acceptor, fixed, interfaces, detours)
    record = MeetingRecord(meeting_id, epoch, True, me.host, me.boot, me.space, me.pid, me.start)
    head = _Head(leadership, record, members, on_trouble or (lambda *_: None))
    await head.run(transports & {"tcp"} if fixed else transports, str(where), watch, task_status)


async def prepare(address: str) -> None:
    """Check that a head which is started on this host could be met at an address.

    Raises:
        AddressError: not an address.
        CannotServe: the address names a port of another host, or one at which the head of its
            meeting file does not listen.
        MeetingError: the file or filesystem is not fit.
    """
    where = parse_address(address)
    if isinstance(where, UnixAddress):
        return
    if isinstance(where, BridgeAddress):
        await BridgeMeeting(where).prepare()
        return
    meeting = Meeting(where.edge, Disk())
    await meeting.prepare()
    if isinstance(where, TcpAddress):
        await _check_port(where)
        await _check_head(where, meeting)


async def _check_port(where: TcpAddress) -> None:
    """Check that this host could listen at an address, or that another process does.

    Raises:
        CannotServe: it could not.
    """
    try:
        listeners = await tcp.listen(where.host, where.port)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            return  # maybe a head that has just begun to serve
        raise CannotServe(
            f"no scheduler answers at tcp://{join_host(where.host, where.port)}, and none can be "
            f"started there from this host, {socket.gethostname()}: {e.strerror or e}. Correct the "
            "address, or start the first mission on the host that it names"
        ) from e
    for listener in listeners:
        await listener.aclose()


async def _check_head(where: TcpAddress, meeting: Meeting) -> None:
    """Check that no living head of the meeting file listens elsewhere.

    Raises:
        CannotServe: one does.
    """
    # A frozen head serves, too: no head at a port takes its place.
    record = await meeting.living(_prober(where.edge, CORE, math.inf, FAR))
    if record is None or where.port in {port for _, port in record.tcp}:
        return
    raise CannotServe(
        f"no scheduler answers at tcp://{join_host(where.host, where.port)}: process {record.pid} "
        f"on {record.host} serves with the same keys, {where.edge}, and does not listen there. "
        f"Correct the address, or give it keys of its own: "
        f"tcp://{join_host(where.host, where.port)}?edge=/ABSOLUTE/PATH"
    )


def _welcome(me: ProcessIdentity, meeting_id: str, epoch: int) -> Welcome:
    return Welcome(
        PROTOCOL,
        package_version(),
        me.host,
        me.pid,
        meeting_id,
        epoch,
        boot=me.boot,
        space=me.space,
        start=me.start,
    )


async def _serve_unix(
    where: UnixAddress,
    acceptor: Acceptor,
    sign_of_life: Callable[[int], Awaitable[str]],
    task_status: trio.TaskStatus[Serving],
) -> None:
    try:
        bound = await unix.listen(where.path, sign_of_life)
    except OSError as e:
        raise MeetingError(
            f"{where.path}: cannot listen there: {e.strerror or e}. Its directory must exist, "
            "on a disk of this host, with mode 0700"
        ) from e
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acceptor.accept_unix, bound.listener)
            task_status.started(Serving(str(where), "", 0, (where.path,)))
            await _until_replaced(bound)
            nursery.cancel_scope.cancel()
    finally:
        bound.close()
    raise Superseded(where.path)


async def _until_replaced(bound: unix.BoundSocket) -> None:
    """Wait until another head has taken the name of a socket.

    A head that was frozen is due for its next look as soon as it goes on.
    """
    disk = Disk(1)
    while True:
        await trio.sleep(CHECK)
        try:
            if await disk.run(bound.path, bound.is_replaced):
                return
        except MeetingError as e:
            _log.warning("%s", e)


def _unix_prober(
    where: UnixAddress, codec: Codec, frozen: float
) -> Callable[[int], Awaitable[str]]:
    """Return a check whether the process that listens on a Unix socket lives: as `_prober`."""

    async def answered() -> str:
        return await _answered(Dialler(str(where), "probe", "", codec, ALL_TRANSPORTS).once)

    async def probe(pid: int) -> str:
        if frozen == math.inf:
            return "it accepts connections"
        listens = partial(_listens, where.path)
        return await _sign_of_life_within(frozen, where.path, pid, listens, answered)

    return probe


def _listens(path: str) -> bool:
    try:
        return unix.listening_process(path) is not None
    except OSError:
        return False


def _prober(
    edge: str, codec: Codec, frozen: float, far: float
) -> Callable[[MeetingRecord], Awaitable[str]]:
    """Return a check whether a head lives: it does if it answers in any way.

    It goes by the meeting file, whatever port an address names: the head may listen elsewhere.

    Args:
        frozen: seconds that a head has to answer whose process is here; inf if it lives all the
            same.
        far: seconds that one on another host has.
    """

    async def answered(record: MeetingRecord, transports: frozenset[str]) -> str:
        prober = Dialler(str(EdgeAddress(edge)), "probe", "", codec, transports)
        return await _answered(partial(prober.reach, record))

    async def probe(record: MeetingRecord) -> str:
        process = process_here(record)
        if process is None or not process.alive:
            with trio.move_on_after(far):
                return await answered(record, ALL_TRANSPORTS)
            return ""
        if frozen == math.inf:
            return "its process exists"
        transports = ALL_TRANSPORTS
        if record.unix or record.tcp:
            transports = frozenset(DIRECT)
        return await _sign_of_life_within(
            frozen, edge, record.pid, lambda: process.alive, partial(answered, record, transports)
        )

    return probe


async def _answered(reach: Callable[[list[Attempt]], Awaitable[GreetedStream | None]]) -> str:
    """Return how a head answers when it is reached for, or ""."""
    try:
        greeted = await reach([])
    except Refused as e:  # as one of another version does
        return f"it answers: {e}"
    if greeted is None:
        return ""
    await greeted.aclose()
    return f"it answers by {greeted.transport}"


async def _sign_of_life_within(
    seconds: float,
    path: str,
    pid: int,
    alive: Callable[[], bool],
    answered: Callable[[], Awaitable[str]],
) -> str:
    """Return how a head of this host was seen to live within so many seconds, or ""."""
    with trio.move_on_after(seconds):
        while alive():
            if how := await answered():
                return f"its process exists, and {how}"
            await trio.sleep(_AGAIN)
        return ""
    _log.warning(
        "%s: process %d on this host serves this meeting, and has not answered for %g s: "
        "this one takes its place",
        path,
        pid,
        seconds,
    )
    return ""


class _Head:
    """A leadership of a meeting, from its first offer to its last word.

    Args:
        record: the head's entry in the meeting file, without offers.
        members: the credential that members use, which goes into the record.
    """

    def __init__(
        self,
        leadership: Leadership,
        record: MeetingRecord,
        members: Credential,
        on_trouble: Callable[[str, str], object],
    ) -> None:
        self._on_trouble = on_trouble
        self._leadership = dataclasses.replace(leadership, publish=self._publish)
        self._meeting = leadership.meeting
        self._record = msgspec.structs.replace(
            record,
            authority=members.authority,
            certificate=members.certificate,
            key=members.key,
        )
        self._offers: list[Offer] = []
        self._trouble = ""

    async def run(
        self,
        transports: frozenset[str],
        address: str,
        watch: float,
        task_status: trio.TaskStatus[Serving],
    ) -> None:
        # An error that ends the leadership is raised outside the nursery, which would wrap it in a
        # group.
        failed: list[MeetingError] = []
        try:
            async with trio.open_nursery() as nursery:
                try:
                    await self._make_offers(nursery, transports)
                    await self._meeting.publish(self._record)
                except MeetingError as e:
                    failed.append(e)
                    nursery.cancel_scope.cancel()
                else:
                    record = self._record
                    targets = tuple(target for offer in self._offers for target in offer.targets)
                    task_status.started(Serving(address, record.meeting_id, record.epoch, targets))
                    nursery.start_soon(
                        self._again, watch, self._watch, failed, nursery.cancel_scope
                    )
                    nursery.start_soon(
                        self._again, CHECK, self._check, failed, nursery.cancel_scope
                    )
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(10):
                await self._leave(superseded=any(isinstance(e, Superseded) for e in failed))
        if failed:
            raise failed[0]

    async def _make_offers(self, nursery: trio.Nursery, transports: frozenset[str]) -> None:
        for names, make_offer in OFFERS.items():
            if names & transports:
                offer = await make_offer(self._leadership)
                if offer is not None:
                    self._offers.append(offer)
                    self._record = msgspec.structs.replace(self._record, **offer.fields)
                    nursery.start_soon(offer.run)

    async def _publish(self, fields: dict[str, Any]) -> None:
        """Publish what has changed in the head's entry; later, if that fails now."""
        self._record = msgspec.structs.replace(self._record, **fields)
        try:
            await self._meeting.publish(self._record)
        except MeetingError as e:  # the next look repairs it, or sees that another head leads
            _log.warning("%s", e)

    async def _again(
        self,
        pause: float,
        look: Callable[[], Awaitable[None]],
        failed: list[MeetingError],
        scope: trio.CancelScope,
    ) -> None:
        """Look again and again, until another head leads.

        A head that was frozen is due for its next look as soon as it goes on.
        """
        while True:
            await trio.sleep(pause)
            try:
                await look()
            except Superseded as e:
                failed.append(e)
                scope.cancel()

    async def _watch(self) -> None:
        try:
            await self._meeting.watch(self._record)
        except Superseded:
            raise
        except MeetingError as e:
            _log.warning("%s", e)

    async def _check(self) -> None:
        """Check that peers find what they need, and can leave something; report changes."""
        trouble = ""
        try:
            await self._meeting.check(self._record)
        except Superseded:
            raise
        except MeetingError as e:
            trouble = str(e)
        if bool(trouble) != bool(self._trouble):
            if trouble:
                _log.warning("%s", trouble)
            else:
                _log.warning("%s: works again", self._meeting.directory)
            self._on_trouble(self._meeting.directory, trouble)
        self._trouble = trouble

    async def _leave(self, *, superseded: bool) -> None:
        """Mark the meeting as ended unless it has another head, and remove what is ours."""
        try:
            for offer in self._offers:
                if offer.on_this_host or not superseded:
                    await offer.clean()
            if not superseded:
                ended = msgspec.structs.replace(
                    self._record, open=False, unix="", tcp=(), authority="", certificate="", key=""
                )
                await self._meeting.publish(ended)
        except MeetingError as e:
            _log.warning("%s", e)
