"""A channel over any trio stream.

Who does what: `send` only fills the outbox; one background task empties it, so that cancelling a
sender never tears a frame and an urgent message overtakes a large payload that somebody else is
sending. `receive` reads in the caller's task: what nobody wants to receive stays in the stream and
holds the peer back. A second background task sends a heartbeat where nothing else is sent, and
counts the beats at which nothing was heard. It counts beats, not seconds, since a process that was
stopped for an hour has missed one beat, and must first read what came meanwhile.
"""

from __future__ import annotations

import math
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

import trio

from grain.edge.errors import ChannelBroken, ChannelError, RemoteProtocolError
from grain.edge.framing.channel import Batch, Channel
from grain.edge.framing.frames import HEADER
from grain.edge.framing.frames_in import Inbox
from grain.edge.framing.frames_out import Outbox
from grain.edge.framing.read_size import ReadSize
from grain.edge.heartbeat import Pace
from grain.edge.messages import CORE, Bye, Codec, Message, Payload, Ping
from grain.edge.transports.sockets import LOCAL_CHUNK, read, read_into, widen, write_all
from grain.edge.transports.tls import TlsStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

_Self = TypeVar("_Self", bound="FramedChannel")
_HIGH_WATER = 1024 * 1024
_SMALL, _BULK = 4096, 65536  # bytes that are written in the sender's own task
_BURST = 0.0001  # seconds: what is posted within them was caused by the same event
_LATE = 0.001  # seconds for which what is posted may wait for company


class FramedChannel(Channel):
    """Messages over a stream; an async context manager, and works only inside it.

    Args:
        stream: owned from now on, and closed with the channel.
        codec: the message types.
        pace: heartbeats and sizes.
        inbox: what the greeting's reader left, so that no byte is lost between the two.
        heard: for a stream that knows better than "some bytes came" when its peer was last
            alive: returns `trio.current_time()` of that moment.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        codec: Codec = CORE,
        pace: Pace | None = None,
        inbox: Inbox | None = None,
        heard: Callable[[], float] | None = None,
    ) -> None:
        self._stream = stream
        self._pace = pace or Pace()
        # Streams that can write without waiting.
        self._socket = stream if isinstance(stream, trio.SocketStream) else None
        self._tls = stream if isinstance(stream, TlsStream) else None
        local = self._socket is not None and widen(self._socket.socket)
        self._outbox = Outbox(codec, LOCAL_CHUNK if local else self._pace.chunk)
        self._inbox = inbox or Inbox(codec)
        self._ready: list[tuple[Message, Payload]] = []
        self._wake = trio.Event()
        self._room = trio.Event()
        self._writing = self._receiving = self._closed = self._ended = False
        self._left: memoryview | None = None
        self._broken: ChannelError | None = None
        self._posted_at = self._pending_since = -math.inf
        self._writes = 0
        self._read_size = ReadSize()
        self._following = bytearray(HEADER.size)
        self._heard_at = trio.current_time()
        self._heard = heard
        self._take(self._inbox.early)
        self._nursery_manager: AsyncExitStack | None = None
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "broken" if self._broken else "open"
        return f"<FramedChannel over {self._stream!r}, {state}, {self._outbox.pending} B to send>"

    async def __aenter__(self: _Self) -> _Self:  # noqa: PYI019  # typing.Self is younger than 3.10
        self._nursery_manager = AsyncExitStack()
        self._scope = self._nursery_manager.enter_context(trio.CancelScope())
        self._nursery = await self._nursery_manager.enter_async_context(trio.open_nursery())
        self._nursery.start_soon(self._write)
        self._nursery.start_soon(self._beat)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                await self.aclose()
        finally:
            # The body's exception is not given to the nursery, which would wrap it in a group:
            # its tasks are an implementation detail, and never raise. Shielded, as a cancellation
            # that arrives here would replace that exception; nothing here takes long.
            assert self._nursery is not None
            assert self._nursery_manager is not None
            self._scope.shield = True
            try:
                with trio.CancelScope(shield=True):  # the nursery's own scope may be cancelled
                    await self._abandon()
            finally:
                self._nursery.cancel_scope.cancel()
                await self._nursery_manager.aclose()

    # Sending

    async def send(self, batch: Batch) -> None:
        """See `Channel.send`; waits while 1 MiB or more is still to be written."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open()
        while self._outbox.pending > _HIGH_WATER:
            await self._room.wait()
            self._check_open()
        # No pass through the scheduler here: the next wait lets the writer run, and one that never
        # waits fills the outbox.
        self._put(batch, 0 if self._outbox.pending else _SMALL)

    def post(self, batch: Batch, *, more: bool = False) -> None:
        """See `Channel.post`.

        What is posted alone is written at once; who posts one thing after the other leaves it to
        the writer, which finds them together. But not for longer than `_LATE`: the peer is to have
        something to do meanwhile.
        """
        self._check_open()
        now = trio.current_time()
        alone = not more and now - self._posted_at > _BURST
        self._posted_at = now
        if not self._outbox.pending:
            self._pending_since = now
        late = now - self._pending_since > _LATE
        alone = alone and not self._outbox.pending
        self._put(batch, _BULK if late else _SMALL if alone else 0)

    def send_nowait(self, batch: Batch) -> None:
        """See `Channel.send_nowait`."""
        self._check_open()
        if self._left is not None:
            self._write_on()  # the writer has had no chance to
        if self._writing or self._outbox.pending:
            raise trio.WouldBlock
        self._put(batch, math.inf)
        self._write_on()

    def _put(self, batch: Batch, most: float) -> None:
        """Fill the outbox; if it has no more bytes than that, and nobody writes, empty it."""
        self._outbox.push(batch)
        if self._writing or self._outbox.pending > most or not self._write_now():
            self._wake.set()

    def _write_now(self) -> bool:
        """Write the outbox in the sender's own task, sparing a round trip two task switches.

        Only what the kernel takes at once: so there is no point where a cancellation could tear a
        frame. Returns whether everything was written.
        """
        if self._tls is not None:
            try:
                if not self._tls.write_now(b"".join(self._outbox.pull())):
                    self._left = memoryview(b"")  # the writer's turn: the rest is in the stream
                    self._writing = True
            except trio.BrokenResourceError as e:
                self._break(f"the connection was lost while sending: {e}")
            self._writes += 1
            return not self._outbox.pending and not self._writing
        if self._socket is None:
            return False
        data = self._left if self._left is not None else b"".join(self._outbox.pull())
        try:
            done = os.write(self._socket.socket.fileno(), data)
        except BlockingIOError:
            done = 0
        except OSError as e:
            self._break(f"the connection was lost while sending: {e}")
            return True
        self._writes += 1
        self._writing = done < len(data)
        self._left = memoryview(data)[done:] if self._writing else None
        return not self._writing and not self._outbox.pending

    def _write_on(self) -> None:
        """Write frame after frame in the sender's own task, as long as the kernel takes them."""
        while self._left is not None or (self._outbox.pending and not self._writing):
            if self._socket is None and (self._tls is None or self._left is not None):
                return  # the writer's turn
            self._write_now()
            if self._writing or self._broken is not None:
                return

    async def _write_out(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        try:
            if self._tls is not None:
                await self._tls.finish()
            if self._socket is not None:
                await write_all(self._socket.socket, buffers)
            else:
                for buffer in buffers:
                    await self._stream.send_all(buffer)
            self._writes += 1
        except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
            self._break(f"the connection was lost while sending: {e}")

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")
        if self._broken is not None:
            raise ChannelBroken(str(self._broken)) from self._broken

    async def _write(self) -> None:
        while self._broken is None:
            if self._left is not None:
                buffers: list[bytes | bytearray | memoryview] = [self._left]
                self._left = None
            elif self._writing or not (buffers := self._outbox.pull()):
                self._tell_room()
                await self._wake.wait()
                self._wake = trio.Event()
                continue
            self._writing = True
            await self._write_out(buffers)
            self._writing = False
            if self._outbox.pending <= _HIGH_WATER:
                self._tell_room()

    def _tell_room(self) -> None:
        self._room.set()
        self._room = trio.Event()

    def _break(self, why: str) -> None:
        if self._broken is None and not self._closed:
            self._broken = ChannelBroken(why)
        self._tell_room()

    # Receiving

    async def receive(self) -> Batch:
        """See `Channel.receive`; all messages that one read of the stream completed."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        self._receiving = True
        try:
            while not self._ready:
                await self._read()
            out, self._ready = self._ready, []
            return out
        finally:
            self._receiving = False

    async def receive_into(self, handle: Callable[[Batch], object]) -> None:
        """See `Channel.receive_into`."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        self._receiving = True
        try:
            while True:
                if self._ready:
                    batch, self._ready = self._ready, []
                    handle(batch)
                    del batch  # or the last payload would be kept until the next comes
                elif self._ended:
                    return
                else:
                    await self._read()
        finally:
            self._receiving = False

    async def _read(self) -> None:
        if self._ended:
            raise trio.EndOfChannel
        if isinstance(self._broken, RemoteProtocolError):
            raise self._broken
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")
        sink = self._inbox.sink
        try:
            if self._socket is None:
                data = await self._stream.receive_some(self._read_size.bytes)
                count = len(data)
            elif sink is not None:
                # The kernel puts a large payload where it belongs, and the header of what follows
                # apart: so of the next chunk, too, nothing is read to another place first.
                data, count = None, await read_into(self._socket.socket, sink, self._following)
            else:
                data = await read(self._socket.socket, self._read_size.bytes)
                count = len(data)
        except trio.ClosedResourceError:
            self._check_open()
            raise
        except trio.BrokenResourceError as e:
            self._break(f"the connection was lost: {e}")
            raise ChannelBroken(str(self._broken)) from e
        if not count:
            self._break("the connection ended without a goodbye: the peer was killed or cut off")
            self._check_open()
        into, sink = 0 if sink is None else len(sink), None
        # No view is held from here on: that would keep the payload from growing in place.
        self._heard_at = trio.current_time()
        try:
            if data is None:
                self._take(self._inbox.filled(min(count, into)))
                self._take(self._inbox.feed(self._following[: max(0, count - into)]))
            else:
                messages = self._inbox.feed(data)
                self._read_size.adapt(count, len(messages))
                self._take(messages)
        except RemoteProtocolError as e:
            self._broken = e
            await trio.aclose_forcefully(self._stream)
            raise

    def _take(self, messages: Sequence[tuple[Message, Payload]]) -> None:
        for pair in messages:
            kind = type(pair[0])
            if kind is Bye:
                self._ended = True
                return
            if kind is not Ping:
                self._ready.append(pair)

    # Staying alive

    def silent_for(self) -> float:
        """See `Channel.silent_for`."""
        heard = max(self._heard_at, self._heard()) if self._heard else self._heard_at
        return max(0.0, trio.current_time() - heard)

    @property
    def suspect_after(self) -> float:
        """See `Channel.suspect_after`; from the pace."""
        return self._pace.suspect

    async def _beat(self) -> None:
        writes, beats_missed = self._writes, 0
        while self._broken is None:
            await trio.sleep(self._pace.heartbeat)
            if writes == self._writes and not self._writing:
                self._outbox.push([(Ping(), None)])
                self._wake.set()
            # Where nobody receives, nothing can be heard: that is no silence of the peer.
            if not self._receiving or self.silent_for() < 1.5 * self._pace.heartbeat:
                beats_missed = 0
            else:
                beats_missed += 1
            writes = self._writes
            silent = self.silent_for()
            if beats_missed > 1 and silent >= self._pace.lost:
                self._break(f"the peer has been silent for {silent:.0f} s")
                await trio.aclose_forcefully(self._stream)

    # Ending

    async def aclose(self) -> None:
        """Send what waits and a goodbye, then close the stream.

        Waits at most `Pace.goodbye` seconds for that. Cancellation closes at once, without.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(self._pace.goodbye):
            try:
                await self._flush()
                if self._broken is None and not self._ended:
                    # Only now: a goodbye overtakes what waits in another lane.
                    self._outbox.push([(Bye(), None)])
                    await self._flush()
                self._closed = True
                await self._stream.aclose()
            finally:
                self._closed = True
                await self._abandon()

    async def _flush(self) -> None:
        self._wake.set()
        while self._broken is None and (self._outbox.pending or self._writing):
            await self._room.wait()

    async def _abandon(self) -> None:
        self._closed = True
        self._tell_room()
        await trio.aclose_forcefully(self._stream)
