"""A meeting at a bridge, in the place of a meeting file: claimed, published and read at the server.

Here are the connections of members and of the head; what the head decides is in `leader`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.address import BridgeAddress, join_host, parse_address
from grain.edge.bridge.call import pack_call
from grain.edge.bridge.client import BridgeConnection, answer, connect
from grain.edge.bridge.key import MeetingKeys, read_key
from grain.edge.bridge.leader import Leader, Listener
from grain.edge.bridge.wire import (
    BEAT,
    SILENCE,
    Beat,
    Called,
    Incoming,
    Joined,
    LeaderRecord,
    Leading,
)
from grain.edge.errors import (
    EdgeError,
    MeetingError,
    MeetingTaken,
    NotABridge,
    NotListed,
    OtherVersion,
    RemoteProtocolError,
    StaleEdgeFile,
    Superseded,
)
from grain.edge.meeting.block import MeetingRecord
from grain.edge.transports.interfaces import interface_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.transports.tls import TlsStream

    Secure = Callable[[trio.SocketStream, str], Awaitable[trio.abc.Stream | None]]
    Greet = Callable[[trio.abc.Stream, str], Awaitable[object]]
    DialBack = Callable[[Sequence[tuple[str, int]]], Awaitable[TlsStream | None]]
    GreetBack = Callable[[TlsStream], Awaitable[object]]

_UNPUBLISHED = 10.0  # seconds that another head has to publish its record
_AGAIN_FIRST, _AGAIN_LAST = 0.5, 10.0  # seconds between two attempts to reach the server
_AT_ONCE = 100  # members that are taken at the same time
_CALLS_AT_ONCE = 32  # members to which the head connects at the same time
_CALL_BACK = 5.0  # seconds until the head has connected; later the member has come another way
_log = logging.getLogger("grain.edge")


class BridgeMeeting:
    """A meeting at a bridge.

    Raises:
        EdgeError: the key cannot be read.

    Attributes:
        path: a name of the meeting, for display and logs, without its key.
        iface: the network interface on which direct connections are offered; empty for all.
    """

    def __init__(self, address: BridgeAddress) -> None:
        self._address = address
        self._keys = MeetingKeys(read_key(address))
        self._where = join_host(address.host, address.port)
        self.path = f"bridge://{self._where}/{self._keys.public.hex()[:8]}"
        self.directory = self.path
        self._control: BridgeConnection | None = None
        self._leader: Leader | None = None
        self._limit = trio.CapacityLimiter(_AT_ONCE)
        self._call_limit = trio.CapacityLimiter(_CALLS_AT_ONCE)
        self._trouble = ""
        self.iface = address.iface
        if self.iface and self.iface not in (names := interface_names()):
            # Not an error: the relay is a way without it, and other hosts may have it.
            _log.warning(
                "?iface=%s: this host has no such network interface, so it offers no direct "
                "connection; name one of %s in the address",
                self.iface,
                ", ".join(names),
            )

    @property
    def meeting_id(self) -> str:
        """The meeting's name, the same for all its heads."""
        return self._keys.public.hex()[:32]

    # For all members

    async def read(self) -> MeetingRecord:
        """Return the record of the head that leads.

        Raises:
            StaleEdgeFile: no head leads.
            MeetingError: the server is not reached, or shows what no member has written.
        """
        record = await self._look()
        if not record.sealed:
            raise StaleEdgeFile(f"no scheduler is connected to the bridge at {self._where}")
        return self._unsealed(record)

    async def changed(self) -> None:
        """Never return: the server notifies only members that are connected."""
        await trio.sleep_forever()

    async def prepare(self) -> None:
        """Check that a head could lead."""
        await self._look()

    async def reach(self) -> trio.SocketStream:
        """Return a stream to the head through the server; the caller authenticates the head.

        Raises:
            MeetingError: the head or the server is not reached.
        """
        connection = await connect(self._address, self._keys, "join")
        return await self._through(connection)

    async def call(self, epoch: int, addresses: Sequence[tuple[str, int]]) -> None:
        """Ask the head to connect to one of some addresses, on which this process listens.

        Args:
            epoch: that of the head; another one ignores the call.

        Raises:
            MeetingError: the head or the server is not reached.
        """
        sealed = self._keys.seal_call(pack_call(epoch, addresses))
        connection = await connect(self._address, self._keys, "call", sealed)
        try:
            await answer(connection, self._where, Called)
        finally:
            await trio.aclose_forcefully(connection.stream)

    async def _look(self) -> LeaderRecord:
        connection = await connect(self._address, self._keys, "look")
        try:
            return await answer(connection, self._where, LeaderRecord)
        finally:
            await trio.aclose_forcefully(connection.stream)

    def _unsealed(self, record: LeaderRecord) -> MeetingRecord:
        try:
            opened = msgspec.json.decode(self._keys.unseal(record.sealed), type=MeetingRecord)
        except msgspec.MsgspecError as error:
            raise MeetingError(
                f"{self.path}: the scheduler is of another version of Grain: {error}. Install the "
                "same version everywhere"
            ) from None
        if opened.epoch != record.epoch:
            raise MeetingError(f"{self.path}: the bridge shows the record of another scheduler")
        return opened

    async def _through(self, connection: BridgeConnection) -> trio.SocketStream:
        try:
            await answer(connection, self._where, Joined)
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        return connection.stream

    # For the head

    async def claim(self) -> tuple[str, int]:
        """Become the leader; see `grain.edge.meeting.meeting.Meeting.claim`.

        A head that is connected to the server lives: the server drops a silent head.

        Raises:
            MeetingTaken: a living head leads.
            MeetingError: the server is not reached.
        """
        leader = Leader(self._keys, int(time.time() * 1000))
        until = trio.current_time() + _UNPUBLISHED
        while True:
            # The first to come leads, whatever its epoch: that decides between heads which led
            # different servers of one address, after one server was started again.
            taken: LeaderRecord | None = await self._look()
            if taken is None or not taken.epoch:
                taken = await self._claim(leader)
            if taken is None:
                self._leader = leader
                return self.meeting_id, leader.epoch
            if not taken.sealed and trio.current_time() < until:
                await trio.sleep(0.5)
                continue
            host, pid = "another host", 0
            with suppress(MeetingError):
                record = self._unsealed(taken)
                host, pid = record.host, record.pid
            raise MeetingTaken(self.path, host, pid, taken.epoch, "it is connected to the bridge")

    async def _claim(self, leader: Leader) -> LeaderRecord | None:
        """Connect and claim; return None if this head leads now, else who does."""
        connection = await connect(self._address, self._keys, "lead")
        try:
            for message in leader.on_connected():
                await connection.send(message)
            decided: Leading | LeaderRecord
            decided = await answer(connection, self._where, Leading, LeaderRecord)
            to_send, _ = leader.on_message(decided)
            for message in to_send:
                await connection.send(message)
            if leader.leads:
                self._control, self._trouble = connection, ""
                return None
        except (trio.BrokenResourceError, RemoteProtocolError) as error:
            await trio.aclose_forcefully(connection.stream)
            raise MeetingError(f"the bridge at {self._where} is not reached: {error}") from error
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        await trio.aclose_forcefully(connection.stream)
        return leader.incumbent

    async def publish(self, record: MeetingRecord) -> None:
        """Show members the head's record; later if the server is not reached now."""
        self._check_leads(record.epoch)
        if self._leader is not None:
            to_send = self._leader.publish(msgspec.json.encode(record) if record.open else b"")
            if self._control is not None:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    for message in to_send:
                        await self._control.send(message)

    async def watch(self, record: MeetingRecord) -> None:
        """Check once that this is still the leader; `lead` repairs what is missing."""
        self._check_leads(record.epoch)

    async def check(self, record: MeetingRecord) -> None:
        """Check that members can find the head."""
        self._check_leads(record.epoch)
        if self._trouble:
            raise MeetingError(self._trouble)

    def _check_leads(self, epoch: int) -> None:
        if self._leader is not None and self._leader.higher > epoch:
            raise Superseded(self.path, epoch, self._leader.higher)

    async def lead(
        self, secure: Secure, greet: Greet, dial_back: DialBack, greet_back: GreetBack
    ) -> None:
        """Take members that the server reports, until cancelled or superseded; `claim` was first.

        Args:
            secure: called with each stream, which it owns, and with the address from which its
                member has connected to the server; returns a stream that is authenticated, or None.
            greet: called in a task of its own with that stream, which it owns, and the address.
            dial_back: called with the addresses on which a member listens; returns a stream to it
                that is authenticated, or None.
            greet_back: called in a task of its own with that stream, which it owns.
        """
        leader = self._leader
        assert leader is not None
        async with trio.open_nursery() as nursery:

            async def take(incoming: Incoming) -> None:
                try:
                    async with self._limit:
                        stream = await self._taken(incoming, secure)
                finally:
                    leader.taking -= 1
                if stream is not None:
                    await greet(stream, incoming.source)

            async def call_back(caller: Listener) -> None:
                stream = None
                try:
                    with trio.move_on_after(_CALL_BACK):
                        async with self._call_limit:
                            stream = await dial_back(caller.addresses)
                finally:
                    leader.calling -= 1
                if stream is not None:
                    await greet_back(stream)

            def take_soon(member: Incoming | Listener) -> None:
                if isinstance(member, Incoming):
                    nursery.start_soon(take, member)
                else:
                    nursery.start_soon(call_back, member)

            while not leader.higher:
                if self._control is not None:
                    await self._lead_once(leader, self._control, take_soon)
                    self._control = None
                await self._lead_again(leader)

    async def _lead_once(
        self,
        leader: Leader,
        control: BridgeConnection,
        take: Callable[[Incoming | Listener], object],
    ) -> None:
        """Take members until the connection is lost."""

        async def beat() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while True:
                    await trio.sleep(BEAT)
                    await control.send(Beat())

        try:
            async with trio.open_nursery() as beating:
                beating.start_soon(beat)
                self._trouble = await self._take_all(leader, control, take)
                beating.cancel_scope.cancel()
        finally:
            leader.on_lost()
            await trio.aclose_forcefully(control.stream)
        _log.warning("%s", self._trouble)

    async def _take_all(
        self,
        leader: Leader,
        control: BridgeConnection,
        take: Callable[[Incoming | Listener], object],
    ) -> str:
        while True:
            try:
                with trio.fail_after(SILENCE):
                    _, member = leader.on_message(await control.receive())
            except trio.TooSlowError:
                return f"the bridge at {self._where} does not answer"
            except (trio.BrokenResourceError, RemoteProtocolError) as error:
                return f"the bridge at {self._where} is not reached: {error}"
            if member is not None:
                take(member)
            if not leader.leads:
                return f"{self.path}: the bridge lets another scheduler lead"

    async def _taken(self, incoming: Incoming, secure: Secure) -> trio.abc.Stream | None:
        try:
            connection = await connect(self._address, self._keys, "take", incoming.token)
            stream = await self._through(connection)
        except EdgeError as error:
            _log.info("%s: a process that wanted to join was refused: %s", self.path, error)
            return None
        return await secure(stream, incoming.source)

    async def _lead_again(self, leader: Leader) -> None:
        """Connect and claim again, until this head leads or another one does."""
        pause = _AGAIN_FIRST
        while self._control is None and not leader.higher:
            try:
                await self._claim(leader)
            except MeetingError as error:
                self._trouble = str(error)
            if self._control is None and not leader.higher:
                await trio.sleep(pause)
                pause = min(2 * pause, _AGAIN_LAST)

    async def aclose(self) -> None:
        """Leave the meeting to others."""
        if self._control is not None:
            await trio.aclose_forcefully(self._control.stream)
            self._control = None


async def check_bridge(address: str, patience: float) -> None:
    """Check the key of an address, and the server, if it answers soon: it may come later.

    For code that starts processes out of sight, which would fail there. Addresses other than a
    bridge's are not looked at.

    Args:
        address: as in `grain.toml`.

    Raises:
        AddressError: there is no key in its file.
        MeetingError: the file cannot be read, or other users may read it; or the server is of
            another version (`OtherVersion`), is none (`NotABridge`), or serves other meetings only
            (`NotListed`).
    """
    where = parse_address(address) if address.startswith("bridge://") else None
    if not isinstance(where, BridgeAddress):
        return
    meeting = BridgeMeeting(where)
    with trio.move_on_after(patience):
        try:
            await meeting.prepare()
        except (OtherVersion, NotABridge, NotListed):
            raise
        except MeetingError as error:
            _log.info("%s", error)
