"""A meeting at a bridge, in the place of an Edge file: claimed, published and read at the server.

The head keeps one connection, on which it leads. When that is lost it connects again and claims
the same epoch, as the server may have been started anew and knows nothing. A larger epoch there
makes it step down.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.address import join_host
from grain.edge.bridge.client import BridgeConnection, answer, connect
from grain.edge.bridge.key import MeetingKeys, read_key
from grain.edge.bridge.wire import Beat, Claim, Incoming, Leading, Publish, Ready, Record
from grain.edge.errors import (
    EdgeError,
    MeetingError,
    MeetingTaken,
    RemoteProtocolError,
    StaleEdgeFile,
    Superseded,
)
from grain.edge.meeting.block import MeetingRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.edge.address import BridgeAddress

BEAT = 5.0
"""Seconds between two signs of life of a head to the server."""

SILENCE = 20.0
"""Seconds without a sign of life after which the other side counts as lost."""

_UNPUBLISHED = 10.0  # seconds that another head has to publish its record
_AGAIN_FIRST, _AGAIN_LAST = 0.5, 10.0  # seconds between two attempts to reach the server
_log = logging.getLogger("grain.edge")


class BridgeMeeting:
    """One meeting at a bridge.

    Args:
        address: where the server is, and the key.

    Raises:
        EdgeError: the key cannot be read.

    Attributes:
        path: a name of the meeting, for people and logs, without its key.
        directory: the same.
        iface: the network interface on which the head offers direct connections; empty for all.
    """

    def __init__(self, address: BridgeAddress) -> None:
        self._address = address
        self._keys = MeetingKeys(read_key(address))
        self._where = join_host(address.host, address.port)
        self.path = f"bridge://{self._where}/{self._keys.public.hex()[:8]}"
        self.directory = self.path
        self._control: BridgeConnection | None = None
        self._epoch = 0
        self._sealed = b""
        self._higher = 0  # the epoch of a head that leads in the place of this one
        self._trouble = ""
        self.iface = address.iface

    @property
    def lineage(self) -> str:
        """The meeting's name, the same for all its heads."""
        return self._keys.public.hex()[:32]

    # For all members

    async def read(self) -> MeetingRecord:
        """Return the record of the head that leads.

        Raises:
            StaleEdgeFile: nobody leads.
            MeetingError: the server is not reached, or shows what no member has written.
        """
        record = await self._look()
        if not record.sealed:
            raise StaleEdgeFile(f"{self.path}: no scheduler is connected to the bridge")
        return self._unsealed(record)

    async def prepare(self) -> None:
        """Check that a head could lead.

        Raises:
            MeetingError: the server is not reached.
        """
        await self._look()

    async def reach(self) -> trio.SocketStream:
        """Return a stream to the head through the server; whoever gets it authenticates the head.

        Raises:
            MeetingError: the head or the server is not reached.
        """
        connection = await connect(self._address, self._keys, "join")
        return await self._through(connection)

    async def _look(self) -> Record:
        connection = await connect(self._address, self._keys, "look")
        try:
            record = await answer(connection, self._where)
        finally:
            await trio.aclose_forcefully(connection.stream)
        if not isinstance(record, Record):
            raise MeetingError(f"the bridge at {self._where} answers what nobody asked for")
        return record

    def _unsealed(self, record: Record) -> MeetingRecord:
        try:
            return msgspec.json.decode(self._keys.unseal(record.sealed), type=MeetingRecord)
        except msgspec.MsgspecError as error:
            raise MeetingError(
                f"{self.path}: the head's record is of another version: {error}"
            ) from (None)

    async def _through(self, connection: BridgeConnection) -> trio.SocketStream:
        try:
            message = await answer(connection, self._where)
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        if not isinstance(message, Ready) or connection.rest():
            await trio.aclose_forcefully(connection.stream)
            raise MeetingError(f"the bridge at {self._where} answers what nobody asked for")
        return connection.stream

    # For the head

    async def claim(self) -> tuple[str, int]:
        """Become the leader; see `grain.edge.meeting.meeting.Meeting.claim`.

        A head that is connected to the server lives: the server drops one that is silent.

        Raises:
            MeetingTaken: a living head leads.
            MeetingError: the server is not reached.
        """
        epoch = int(time.time() * 1000)
        until = trio.current_time() + _UNPUBLISHED
        while True:
            taken = await self._claimed(epoch)
            if taken is None:
                return self.lineage, epoch
            # A lower epoch led meanwhile, if the clocks of two hosts differ.
            if not taken.sealed and trio.current_time() < until:
                await trio.sleep(0.5)
                continue
            host, pid = "another host", 0
            with suppress(MeetingError):
                record = self._unsealed(taken)
                host, pid = record.host, record.pid
            raise MeetingTaken(self.path, host, pid, taken.epoch, "it is connected to the bridge")

    async def _claimed(self, epoch: int) -> Record | None:
        """Connect and claim; return None if this head leads now, else who does."""
        # The first to come leads, whatever its epoch: that decides between heads which led
        # different servers of one address, one of which was started anew.
        current = await self._look()
        if current.epoch and current.epoch != epoch and not self._epoch:
            return current
        connection = await connect(self._address, self._keys, "lead")
        try:
            await connection.send(Claim(epoch))
            message = await answer(connection, self._where)
            if isinstance(message, Leading):
                if self._sealed:
                    await connection.send(Publish(self._sealed))
                self._control, self._epoch, self._trouble = connection, epoch, ""
                return None
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(connection.stream)
            raise MeetingError(f"the bridge at {self._where} is not reached: {error}") from error
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        await trio.aclose_forcefully(connection.stream)
        if not isinstance(message, Record):
            raise MeetingError(f"the bridge at {self._where} answers what nobody asked for")
        return message

    async def publish(self, record: MeetingRecord) -> None:
        """Show members the head's record; later if the server is not reached now.

        Raises:
            Superseded: another head leads.
        """
        self._check_leads()
        self._sealed = self._keys.seal(msgspec.json.encode(record)) if record.open else b""
        if self._control is not None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._control.send(Publish(self._sealed))

    async def watch(self, record: MeetingRecord) -> None:  # noqa: ARG002 - as of `Meeting`
        """Check once that this is still the leader.

        Raises:
            Superseded: another head leads.
        """
        self._check_leads()

    async def restore(self, epoch: int) -> bool:  # noqa: ARG002 - as of `Meeting`
        """Return True: there is nothing that somebody could have removed.

        Raises:
            Superseded: another head leads.
        """
        self._check_leads()
        return True

    async def check_writable(self) -> None:
        """Check that members can find the head.

        Raises:
            MeetingError: the server is not reached.
        """
        if self._trouble:
            raise MeetingError(self._trouble)

    def _check_leads(self) -> None:
        if self._higher:
            raise Superseded(self.path, self._epoch, self._higher)

    async def lead(self, take: Callable[[trio.SocketStream, str], Awaitable[object]]) -> None:
        """Take members that the server reports, until cancelled or superseded.

        Args:
            take: called in a task of its own with each stream, which it owns, and with the address
                from which its member has connected to the server.
        """
        async with trio.open_nursery() as nursery:
            while not self._higher:
                if self._control is not None:
                    await self._lead_once(self._control, nursery, take)
                    self._control = None
                await self._lead_again()

    async def _lead_once(
        self,
        control: BridgeConnection,
        nursery: trio.Nursery,
        take: Callable[[trio.SocketStream, str], Awaitable[object]],
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
                self._trouble = await self._take_all(control, nursery, take)
                beating.cancel_scope.cancel()
        finally:
            await trio.aclose_forcefully(control.stream)
        _log.warning("%s", self._trouble)

    async def _take_all(
        self,
        control: BridgeConnection,
        nursery: trio.Nursery,
        take: Callable[[trio.SocketStream, str], Awaitable[object]],
    ) -> str:
        while True:
            try:
                with trio.fail_after(SILENCE):
                    message = await control.receive()
            except trio.TooSlowError:
                return f"the bridge at {self._where} does not answer"
            except (trio.BrokenResourceError, RemoteProtocolError) as error:
                return f"the bridge at {self._where} is not reached: {error}"
            if isinstance(message, Incoming):
                nursery.start_soon(self._take, message, take)
            elif isinstance(message, Record) and message.epoch > self._epoch:
                self._higher = message.epoch
                return f"{self.path}: another scheduler leads"

    async def _take(
        self,
        incoming: Incoming,
        take: Callable[[trio.SocketStream, str], Awaitable[object]],
    ) -> None:
        try:
            connection = await connect(self._address, self._keys, "take", incoming.token)
            stream = await self._through(connection)
        except EdgeError as error:
            _log.info("%s: who wanted to join was not taken: %s", self.path, error)
            return
        await take(stream, incoming.source)

    async def _lead_again(self) -> None:
        """Connect and claim again, until this head leads or another one does."""
        pause = _AGAIN_FIRST
        while self._control is None and not self._higher:
            try:
                taken = await self._claimed(self._epoch)
            except MeetingError as error:
                self._trouble = str(error)
            else:
                if taken is not None and taken.epoch > self._epoch:
                    self._higher = taken.epoch
                    return
            if self._control is None:
                await trio.sleep(pause)
                pause = min(2 * pause, _AGAIN_LAST)

    async def aclose(self) -> None:
        """Leave the meeting to others."""
        if self._control is not None:
            await trio.aclose_forcefully(self._control.stream)
            self._control = None
