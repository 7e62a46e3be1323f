"""Dialling: find the head of an address, and reach it by whatever route the site allows."""

from __future__ import annotations

import logging
import random
from contextlib import asynccontextmanager, suppress
from functools import partial
from socket import gethostname
from typing import TYPE_CHECKING

import trio

from grain.edge.address import DEFAULT, BridgeAddress, TcpAddress, UnixAddress, parse_address
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.connecting.greeting import join
from grain.edge.connecting.peer import GreetedStream, Peer
from grain.edge.connecting.race import Route, race
from grain.edge.connecting.routes import (
    ALL_TRANSPORTS,
    DIRECT,
    DialRequest,
    routes,
    unix_route,
)
from grain.edge.errors import (
    AddressError,
    Attempt,
    DialError,
    EdgeError,
    MeetingError,
    NoEdgeFile,
    StaleEdgeFile,
)
from grain.edge.meeting.block import process_here
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import Meeting
from grain.edge.messages import CORE, PROTOCOL, Codec, Hello
from grain.edge.transports import unix
from grain.edge.transports.liveness import Presence, stopped_words
from grain.edge.version import package_version
from grain.files.processes import PeerProcess, start_time, this_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.address import Address
    from grain.edge.meeting.block import MeetingRecord
    from grain.edge.meeting.place import MeetingPlace
    from grain.edge.transports.heartbeat import Heartbeat

POLL_FIRST, POLL_LAST = 1.0, 15.0
"""Seconds between two looks at the meeting file while no head serves, at least and at most."""

_SHARE = 1 / 30  # the pause before the next look, of the time that was waited already

_DIRECT = 20.0  # seconds for all sockets of a head
_log = logging.getLogger("grain.edge")


class Dialler:
    """A process that dials an address: it finds the head there and tries every route to it.

    Raises:
        AddressError: not an address.
    """

    def __init__(
        self,
        address: str,
        role: str,
        name: str,
        codec: Codec,
        transports: frozenset[str],
        identity: str = "",
    ) -> None:
        self.address = parse_address(address)
        self.codec = codec
        self._me = this_process()
        self._hello = partial(
            Hello,
            *(PROTOCOL, package_version(), role, name, self._me.host, self._me.pid),
            identity=identity,
            boot=self._me.boot,
            space=self._me.space,
            start=self._me.start,
        )
        self._transports = transports
        self._replaced = False  # True if another head has taken the place of the last one
        # The head that leads, as far as was seen, at the last look at the meeting.
        self._record: MeetingRecord | None = None
        self.meeting: MeetingPlace | None = None
        if isinstance(self.address, BridgeAddress):
            self.meeting = BridgeMeeting(self.address)
        elif not isinstance(self.address, UnixAddress):
            self.meeting = Meeting(self.address.edge, Disk())

    async def once(
        self, tried: list[Attempt], *, all_of_them: bool = False
    ) -> GreetedStream | None:
        """Look at the meeting once and try every route; None if no head was reached.

        Raises:
            EdgeError: an error that is final.
        """
        if self.meeting is None:
            assert isinstance(self.address, UnixAddress)
            route = unix_route(self.address.path, self._hello(), self.codec)
            return await race([route], tried, all_of_them=all_of_them)
        begun = trio.current_time()
        self._record = None
        try:
            record = await self.meeting.read()
            if not record.open:
                raise StaleEdgeFile(
                    f"{self.meeting.path}: its last head, on {record.host}, has ended. Start a head"
                )
        except MeetingError as e:
            seconds = trio.current_time() - begun
            unusable = not isinstance(e, NoEdgeFile | StaleEdgeFile)
            tried.append(Attempt("meeting", self.meeting.path, str(e), seconds, unusable))
            if e.final:
                raise
            return None
        except trio.Cancelled:
            seconds = trio.current_time() - begun
            outcome = f"{self.meeting.path} has not answered within {seconds:.0f} s"
            tried.append(Attempt("meeting", self.meeting.path, outcome, seconds, unusable=True))
            raise
        self._record = record
        if all_of_them:
            return await self.reach(record, tried, all_of_them=True)
        return await self._reach_while_it_leads(record, tried)

    async def _reach_while_it_leads(
        self, record: MeetingRecord, tried: list[Attempt]
    ) -> GreetedStream | None:
        """Try every route to a head, unless another one takes its place meanwhile.

        The slow routes wait for a dead head as for a slow one, while the peers that were connected
        to it look for its successor.
        """
        greeted, failed = None, None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_replaced, record, nursery.cancel_scope)
                try:
                    greeted = await self.reach(record, tried)
                except EdgeError as e:  # kept from the nursery, which would make a group of it
                    failed = e
                nursery.cancel_scope.cancel()
        except BaseException:
            if greeted is not None:
                await greeted.aclose()
            raise
        if failed is not None:
            raise failed
        return greeted

    async def _until_replaced(self, record: MeetingRecord, scope: trio.CancelScope) -> None:
        assert self.meeting is not None
        begun = trio.current_time()
        while not self._replaced:
            await trio.sleep(pause_after(trio.current_time() - begun))
            with suppress(MeetingError):
                now = await self.meeting.read()
                self._replaced = (now.meeting_id, now.epoch) != (record.meeting_id, record.epoch)
        scope.cancel()

    async def reach(
        self, record: MeetingRecord, tried: list[Attempt], *, all_of_them: bool = False
    ) -> GreetedStream | None:
        """Try every route to one head; see `once`."""
        return await race(self._routes(record), tried, all_of_them=all_of_them)

    def _routes(self, record: MeetingRecord) -> list[Route[GreetedStream]]:
        assert self.meeting is not None
        request = DialRequest(
            self.meeting,
            record,
            self._hello(record.meeting_id, record.epoch),
            self.codec,
            same_kernel=record.boot == self._me.boot,
            fixed=self.address if isinstance(self.address, TcpAddress) else None,
        )
        return routes(request, self._transports)

    async def patiently(
        self, patience: float | None, *, coming: bool = True
    ) -> tuple[GreetedStream, tuple[Attempt, ...]]:
        """Try until a head is reached.

        Args:
            patience: seconds, or None for no limit.
            coming: as of `dial`.

        Raises:
            DialError: no head was reached within that time, or there is none.
            EdgeError: an error that is final.
        """
        tried: list[Attempt] | None = None
        with trio.move_on_after(float("inf") if patience is None else patience):
            begun, seen_before = trio.current_time(), None
            while True:
                now: list[Attempt] = []
                try:
                    greeted = await self.once(now)
                except trio.Cancelled:
                    # A whole round is a better reason than this one, also one without any route.
                    tried = now if tried is None else tried
                    raise
                tried = now
                if greeted is not None:
                    return greeted, tuple(tried)
                if self._replaced:
                    self._replaced = False
                    continue
                if not coming and self._is_absent(tried):
                    raise DialError(f"{self.address}: no head serves there", tuple(tried))
                # Outcomes of routes have numbers that differ each time.
                seen = [(a.transport, a.outcome * (a.transport == "meeting")) for a in tried]
                if seen != seen_before:
                    begun, seen_before = trio.current_time(), seen
                    whys = [*(a.outcome for a in tried), self._unanswering()]
                    _log.info("no scheduler yet: %s", "; ".join(why for why in whys if why))
                changed = trio.sleep_forever if self.meeting is None else self.meeting.changed
                with trio.move_on_after(pause_after(trio.current_time() - begun)):
                    await changed()
        raise DialError(
            f"{self.address}: no head was reached within {patience:g} s", tuple(tried or ())
        )

    def _is_absent(self, tried: list[Attempt]) -> bool:
        """Return True if no head leads, as far as the meeting shows and this host can see."""
        if self._record is None:
            return all(a.transport == "meeting" and not a.unusable for a in tried)
        process = process_here(self._record)
        return process is not None and not process.alive

    def _unanswering(self) -> str:
        """Return a sentence on the head that should be there and was not reached, or ""."""
        here = _process_at(self.address, self._record)
        if here is not None:
            host, process = here
            if process.stopped:
                return f"the scheduler {stopped_words(process.pid, host)}"
            return f"the scheduler (process {process.pid} on {host}) is there and has not answered"
        record = self._record
        if record is None or process_here(record) is not None or _elsewhere(self.address, record):
            return ""
        return (
            f"it should be process {record.pid} on {record.host}; if that is stopped, "
            f"`kill -CONT {record.pid}` there lets it go on"
        )


def pause_after(waited: float) -> float:
    """Return the seconds to the next look, after so many in which nothing has changed.

    They are a small share of the wait: it hardly becomes longer by them, and a night without a
    head costs the shared filesystem little. They differ at random, so that processes that were
    started together do not look together.
    """
    pause = min(max(POLL_FIRST, waited * _SHARE), POLL_LAST)
    return pause * random.uniform(0.75, 1.25)  # noqa: S311 - no secret


@asynccontextmanager
async def dial(
    address: str = DEFAULT,
    *,
    role: str,
    name: str = "",
    codec: Codec = CORE,
    heartbeat: Heartbeat | None = None,
    patience: float | None = None,
    transports: frozenset[str] = ALL_TRANSPORTS,
    identity: str = "",
    coming: bool = True,
) -> AsyncIterator[Peer]:
    """Connect to the head that serves at an address, and wait for one if there is none.

    Tries the Unix socket if the head runs on this host, then TCP, TCP in reverse, and files or the
    relay of a bridge; the first that works is used. The channel is closed at the end of the block,
    with a goodbye if no exception leaves it. Connecting again after a loss is up to the caller.

    Args:
        address: as in `grain.toml`.
        role: as in `Hello`: "worker", "mission", ...
        name: this process's name, for display.
        codec: the message types to speak.
        heartbeat: the times between its signs of life, and of silence until it is lost.
        patience: seconds to wait for a head, or None for no limit.
        transports: the transports to try.
        identity: as in `Hello`, for a peer that connects again after a loss.
        coming: False if there is nothing to wait for where no head leads: no meeting file, or the
            one of a head that has ended.

    Yields:
        the head.

    Raises:
        AddressError: not an address.
        DialError: no head was reached in time, or none is there; lists what was tried.
        EdgeError: something that waiting does not cure: a meeting file that is exposed or another
            user's, or a head of another version.
    """
    dialler = Dialler(address, role, name or gethostname(), codec, transports, identity)
    greeted, tried = await dialler.patiently(patience, coming=coming)
    try:
        await join(greeted.stream)
    except BaseException:
        await greeted.aclose()
        raise
    process = process_here(greeted.greeting)
    greeted.presence = Presence(process, host=greeted.greeting.host)
    async with greeted.channel(codec, heartbeat) as channel:
        yield Peer(
            channel, greeted.greeting, greeted.transport, greeted.target, tried, process=process
        )


async def is_reached_directly(address: str = DEFAULT) -> bool:
    """Return True if the head of an address can be reached by a socket, and joins nothing.

    For a peer that has come by way of files, which cost the shared filesystem something, or of a
    bridge's relay. At a bridge the head may be the one that connects.

    Raises:
        AddressError: not an address.
    """
    at_bridge = isinstance(parse_address(address), BridgeAddress)
    transports = frozenset({*DIRECT, "reverse"} if at_bridge else DIRECT)
    try:
        dialler = Dialler(address, "probe", "", CORE, transports)
        with trio.move_on_after(_DIRECT):
            greeted = await dialler.once([])
            if greeted is not None:
                await greeted.aclose()
                return True
    except AddressError:
        raise
    except EdgeError:
        pass
    return False


async def head_here(address: str = DEFAULT) -> tuple[str, PeerProcess] | None:
    """Return the head of an address if its process is there and can be seen from this one.

    It may be frozen, and so not be reached.

    Returns:
        the name of its host, and its process.

    Raises:
        AddressError: not an address.
    """
    where = parse_address(address)
    if isinstance(where, UnixAddress | BridgeAddress):
        return _process_at(where, None)
    try:
        record = await Meeting(where.edge, Disk(deadline=1.0)).read()
    except MeetingError:
        return None
    return _process_at(where, record) if record.open else None


def _process_at(where: Address, record: MeetingRecord | None) -> tuple[str, PeerProcess] | None:
    """Return the head of an address, as `head_here`; the record is of the head that leads."""
    if isinstance(where, UnixAddress):
        try:
            pid = unix.listening_process(where.path)
        except OSError:
            return None
        start = start_time(pid) if pid else None
        return None if not pid or start is None else (gethostname(), PeerProcess(pid, start))
    process = None if record is None else process_here(record)
    if record is None or process is None or not process.alive or _elsewhere(where, record):
        return None
    return record.host, process


def _elsewhere(where: Address, record: MeetingRecord) -> bool:
    """Return True if an address names a port at which a head does not listen."""
    return isinstance(where, TcpAddress) and all(port != where.port for _, port in record.tcp)


async def examine(
    address: str = DEFAULT, transports: frozenset[str] = ALL_TRANSPORTS
) -> tuple[Attempt, ...]:
    """Try every route to the head, each to its end, without joining; for `grain doctor`.

    Returns:
        the attempts with their outcomes; no outcome is raised.

    Raises:
        AddressError: not an address.
    """
    tried: list[Attempt] = []
    with suppress(EdgeError):  # it is the last entry's outcome
        await Dialler(address, "probe", "", CORE, transports).once(tried, all_of_them=True)
    return tuple(tried)
