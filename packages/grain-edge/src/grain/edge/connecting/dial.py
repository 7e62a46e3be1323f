"""Reaching a head, by every way that the site may allow."""

from __future__ import annotations

import random
import socket
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.edge.address import DEFAULT, TcpAddress, UnixAddress, join_host, parse_address
from grain.edge.attempt import Attempt
from grain.edge.connecting.file_link import dial_files
from grain.edge.connecting.greeting import introduce, join
from grain.edge.connecting.peer import ALL_TRANSPORTS, Opened, Peer
from grain.edge.connecting.race import Way, race
from grain.edge.connecting.reverse import await_head
from grain.edge.errors import DialError, EdgeError, MeetingError, StaleEdgeFile
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.host import home, this_place
from grain.edge.meeting.meeting import Meeting
from grain.edge.messages import CORE, PROTOCOL, Codec, Hello
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import HEAD, Credential, dialling_context
from grain.edge.version import package_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.heartbeat import Heartbeat
    from grain.edge.meeting.block import Record

POLL_FIRST, POLL_LAST = 1.0, 15.0
"""Seconds between two looks at the Edge file while nobody serves: grows from one to the other."""

_LOOPBACK = ("127.", "::1")


class Dialler:
    """Who dials where; knows the ways, and tries them.

    Args:
        address: as in `grain.toml`.
        role: what we are.
        name: what people call us.
        codec: the message types.
        transports: what may be tried.
        identity: as in `Hello`.
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
        self.address = parse_address(address, home())
        self.place = this_place()
        self.codec = codec
        self._hello = partial(
            Hello,
            *(PROTOCOL, package_version(), role, name, self.place.host, self.place.pid),
            identity=identity,
        )
        self._transports = transports
        self._replaced = False  # whether a head was given up, as another one has its place
        self.meeting: Meeting | None = None
        if not isinstance(self.address, UnixAddress):
            edge = self.address.edge if isinstance(self.address, TcpAddress) else self.address.path
            self.meeting = Meeting(edge, Disk())

    async def once(self, tried: list[Attempt], *, all_of_them: bool = False) -> Opened | None:
        """Look at the meeting once and try every way; None if nobody was reached.

        Args:
            tried: gets what was tried.
            all_of_them: see `race`.

        Raises:
            EdgeError: one that is final.
        """
        if self.meeting is None:
            assert isinstance(self.address, UnixAddress)
            path = self.address.path
            way = Way("unix", path, partial(self._unix, path, self._hello()))
            return await race([way], tried, all_of_them=all_of_them)
        begun = trio.current_time()
        try:
            record = await self.meeting.read()
            if not record.open:
                raise StaleEdgeFile(
                    f"{self.meeting.path}: its last head, on {record.host}, has ended. Start a head"
                )
        except MeetingError as e:
            seconds = trio.current_time() - begun
            tried.append(Attempt("meeting", self.meeting.path, str(e), seconds))
            if e.final:
                raise
            return None
        if all_of_them:
            return await self.reach(record, tried, all_of_them=True)
        return await self._reach_while_it_leads(record, tried)

    async def _reach_while_it_leads(self, record: Record, tried: list[Attempt]) -> Opened | None:
        """Try every way to a head, unless another one takes its place meanwhile.

        The slow ways wait for a head that has died as for one that is slow to answer, while those
        who were connected to it look for its successor.
        """
        opened, failed = None, None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_replaced, record, nursery.cancel_scope)
                try:
                    opened = await self.reach(record, tried)
                except EdgeError as e:  # kept from the nursery, which would make a group of it
                    failed = e
                nursery.cancel_scope.cancel()
        except BaseException:
            if opened is not None:
                await opened.aclose()
            raise
        if failed is not None:
            raise failed
        return opened

    async def _until_replaced(self, record: Record, scope: trio.CancelScope) -> None:
        assert self.meeting is not None
        pause = POLL_FIRST
        while not self._replaced:
            await trio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311
            pause = min(pause * 1.5, POLL_LAST)
            with suppress(MeetingError):
                now = await self.meeting.read()
                self._replaced = (now.lineage, now.epoch) != (record.lineage, record.epoch)
        scope.cancel()

    async def reach(
        self, record: Record, tried: list[Attempt], *, all_of_them: bool = False
    ) -> Opened | None:
        """Try every way to one head; see `once`."""
        return await race(self._ways(record), tried, all_of_them=all_of_them)

    def _ways(self, record: Record) -> list[Way[Opened]]:
        assert self.meeting is not None
        hello = self._hello(record.lineage, record.epoch)
        credential = Credential(record.authority, record.certificate, record.key)
        same_kernel = record.boot == self.place.boot
        ways: list[Way[Opened]] = []
        if isinstance(self.address, TcpAddress):
            host = self.address.host or "localhost"
            tcp: tuple[tuple[str, int], ...] = ((host, self.address.port),)
        else:
            tcp = record.tcp
            if record.unix and same_kernel and "unix" in self._transports:
                ways.append(Way("unix", record.unix, partial(self._unix, record.unix, hello)))
        for host, port in tcp if "tcp" in self._transports else ():
            if not host.startswith(_LOOPBACK) or same_kernel or record.tcp != tcp:
                start = partial(self._tcp, host, port, credential, hello)
                ways.append(Way("tcp", join_host(host, port), start))
        if ways:
            # The others cost the shared filesystem something: only when these have had their time.
            ways[-1] = Way(ways[-1].transport, ways[-1].target, ways[-1].start, stagger=2.0)
        if record.files and record.authority and "reverse" in self._transports:
            start = partial(await_head, self.meeting, credential, hello, self.codec)
            ways.append(Way("reverse", "any interface", start, stagger=3.0, deadline=20.0))
        if record.files and "files" in self._transports:
            start = partial(dial_files, self.meeting, hello, self.codec)
            ways.append(Way("files", self.meeting.directory, start, deadline=60.0))
        return ways

    async def _unix(self, path: str, hello: Hello) -> Opened:
        stream = await unix.dial(path)
        return await self._introduced(stream, hello, "unix", path)

    async def _tcp(self, host: str, port: int, credential: Credential, hello: Hello) -> Opened:
        context = dialling_context(credential)
        stream = await tcp.connect(host, port)
        secure = await tcp.secure_dialled(stream, context, HEAD)
        return await self._introduced(secure, hello, "tcp", join_host(host, port))

    async def _introduced(
        self, stream: trio.abc.Stream, hello: Hello, transport: str, target: str
    ) -> Opened:
        try:
            answer, decoder = await introduce(stream, hello, self.codec)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return Opened(stream, answer, decoder, transport, target)

    async def patiently(self, patience: float | None) -> tuple[Opened, tuple[Attempt, ...]]:
        """Try until somebody is reached.

        Args:
            patience: seconds, or None for ever.

        Raises:
            DialError: nobody within that time.
            EdgeError: one that is final.
        """
        tried: list[Attempt] = []
        with trio.move_on_after(float("inf") if patience is None else patience):
            pause, epoch_before = POLL_FIRST, None
            while True:
                now: list[Attempt] = []
                try:
                    opened = await self.once(now)
                except trio.Cancelled:
                    tried = tried or now  # what a whole round met says more
                    raise
                tried = now
                if opened is not None:
                    return opened, tuple(tried)
                if self._replaced:
                    self._replaced = False
                    continue
                seen = [attempt.transport for attempt in tried]
                if seen != epoch_before:
                    pause, epoch_before = POLL_FIRST, seen
                await trio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311
                pause = min(pause * 1.5, POLL_LAST)
        raise DialError(f"{self.address}: no head was reached within {patience:g} s", tuple(tried))


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
) -> AsyncIterator[Peer]:
    """Connect to the head that serves at an address, and wait for one if there is none.

    Tries the Unix socket if the head runs on this host, then TCP, TCP in reverse, and files; the
    first that works is used. The channel is closed at the end of the block, with a goodbye if no
    exception leaves it. Connecting again after a loss is up to the caller.

    Args:
        address: as in `grain.toml`.
        role: what this process is, as in `Hello`.
        name: what people call it.
        codec: the message types to speak.
        heartbeat: when the channel shows that it lives, and when it is given up.
        patience: seconds to wait for a head, or None to wait for ever.
        transports: what may be tried.
        identity: as in `Hello`, for a peer that connects again after a loss.

    Yields:
        the head.

    Raises:
        AddressError: not an address.
        DialError: nobody was reached in time; tells what was tried.
        EdgeError: something that waiting does not cure: an Edge file that is exposed or another
            user's, or a head of another version.
    """
    dialler = Dialler(address, role, name or socket.gethostname(), codec, transports, identity)
    opened, tried = await dialler.patiently(patience)
    try:
        await join(opened.stream)
    except BaseException:
        await opened.aclose()
        raise
    async with opened.channel(codec, heartbeat) as channel:
        yield Peer(channel, opened.greeting, opened.transport, opened.target, tried)


async def examine(
    address: str = DEFAULT, transports: frozenset[str] = ALL_TRANSPORTS
) -> tuple[Attempt, ...]:
    """Try every way to the head, each to its end, without joining; for `grain doctor`.

    Args:
        address: as in `grain.toml`.
        transports: what to try.

    Returns:
        what was tried, with outcomes; never raises for what it finds.

    Raises:
        AddressError: not an address.
    """
    tried: list[Attempt] = []
    with suppress(EdgeError):  # it is the last entry's outcome
        await Dialler(address, "probe", "", CORE, transports).once(tried, all_of_them=True)
    return tuple(tried)
