"""A channel over any trio stream: the shell around `Writer` and `FrameDecoder`, with all the I/O.

`send` and `post` only queue messages; the channel's writer task writes them, or the sender itself
where `Writer` says so. `receive` reads in the caller's task: frames that no task receives stay in
the stream, and the peer has to wait. A second background task sends a heartbeat where nothing else
is sent, and counts the beats at which nothing came. It counts beats, not seconds, since a process
that was stopped for an hour has missed one beat, and must first read what came meanwhile.
"""

from __future__ import annotations

import errno
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

import trio

from grain.edge.buffers import keep_freed_memory
from grain.edge.errors import ChannelBroken, RemoteProtocolError
from grain.edge.framing.channel import WireBatch, WireChannel
from grain.edge.framing.frames import FrameDecoder
from grain.edge.framing.writer import BLOCKED, BROKEN, CLOSED, IDLE, Writer
from grain.edge.machine.copies import Origin, ending_copies
from grain.edge.messages import CORE, Bye, Codec, Message, Payload, Ping
from grain.edge.transports.heartbeat import Heartbeat
from grain.edge.transports.sockets import (
    DirectWriter,
    FillingReader,
    SocketWriter,
    enlarge_send_buffer,
    read,
    read_into,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from grain.edge.transports.liveness import Presence

_Self = TypeVar("_Self", bound="FramedChannel")

READ = 64 * 1024
"""Bytes that one read takes at most, but for large payloads. A million small messages must not keep
the receiver from its other peers for longer than some thousand take."""

WRITE_DIRECT = 512 * 1024
"""Bytes of one write to a socket: a fraction of a millisecond, after which other tasks run."""

WRITE = 4 * 1024 * 1024
"""Bytes of one write to another stream: over files each becomes a file of its own."""


class FramedChannel(WireChannel):
    """Messages over a stream; an async context manager, and works only inside it.

    Args:
        stream: owned from now on, and closed with the channel.
        heartbeat: the times between its signs of life, and of silence until it is lost.
        decoder: that of the greeting's reader, so that no byte is lost between the two.
        alive_at: returns the `trio.current_time()` of the peer's last sign of life, for a stream
            that has others than bytes which arrive.
        presence: excuses the silence of a peer whose event loop does not run; None if nothing does.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        codec: Codec = CORE,
        heartbeat: Heartbeat | None = None,
        decoder: FrameDecoder | None = None,
        alive_at: Callable[[], float] | None = None,
        presence: Presence | None = None,
    ) -> None:
        keep_freed_memory()
        self._origin = Origin()
        self._stream = stream
        self._heartbeat = heartbeat or Heartbeat()
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._direct: DirectWriter | None = None
        self._filling = stream if isinstance(stream, FillingReader) else None  # TLS
        if self._socket is not None:
            enlarge_send_buffer(self._socket)
            self._direct = SocketWriter(self._socket)
        elif isinstance(stream, DirectWriter):  # TLS
            self._direct = stream
        self._writer = Writer(codec, WRITE_DIRECT if self._direct else WRITE)
        self._decoder = decoder or FrameDecoder(codec)
        self._wake = trio.Event()  # set when the writer task has something to do
        # Wakes who waits until less waits, or until no more is written.
        self._progress = trio.lowlevel.ParkingLot()
        self._ready: list[tuple[Message, Payload]] = []
        self._receiving = False
        self._peer_ended = False  # the peer has sent its goodbye: nothing follows
        self._read_at = trio.current_time()
        self._alive_at = alive_at
        self._presence = presence
        self._take(self._decoder.take_early())
        # The blocks that `__aenter__` opens: the cancel scope, and in it the nursery.
        self._background = AsyncExitStack()
        self._scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<FramedChannel over {self._stream!r}, {self._writer!r}>"

    async def __aenter__(self: _Self) -> _Self:  # noqa: PYI019  # typing.Self is younger than 3.10
        self._background.enter_context(ending_copies())
        self._background.enter_context(self._scope)
        nursery = await self._background.enter_async_context(trio.open_nursery())
        nursery.start_soon(self._write)
        nursery.start_soon(self._beat)
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
            # its tasks are an implementation detail, and never raise. A cancellation that arrives
            # here must not replace that exception either, hence the shield; nothing here takes
            # long.
            with trio.CancelScope(shield=True):
                await self._abandon()
            # Shielded as well, as the end of a nursery is a checkpoint.
            self._scope.shield = True
            self._scope.cancel()
            await self._background.aclose()

    # Sending

    async def send(self, batch: WireBatch) -> None:
        """See `Channel.send`; waits while more than 1 MiB waits to be written."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._writer.congested:
            self._writer.check_open()
            await self._progress.park()
        # No pass through the scheduler here: the next wait lets the writer task run, and a sender
        # that never waits fills the queue.
        self._go_on(at_once=self._writer.send(batch))

    def post(self, batch: WireBatch, *, more: bool = False) -> None:
        """See `Channel.post`; `Writer` has the rule when it writes at once."""
        self._go_on(at_once=self._writer.post(batch, trio.current_time(), more=more))

    @property
    def writes_through(self) -> bool:
        """See `Channel.writes_through`."""
        return self._direct is not None and not self._writer.congested

    @property
    def congested(self) -> bool:
        """See `Channel.congested`."""
        return self._writer.congested

    def _go_on(self, *, at_once: bool) -> None:
        """Write once in the sender's task, if so decided; leave the rest to the writer task."""
        if at_once and self._direct is not None:
            self._write_now(self._direct)
        if self._writer.state is not IDLE:
            self._wake.set()

    def _write_now(self, direct: DirectWriter) -> None:
        """Write what the stream takes without waiting; there is no checkpoint in here."""
        self._origin.check()
        buffers = self._writer.next_write()
        try:
            done = direct.write_now(buffers)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
            self._break(f"the connection was lost while sending: {e}")
        else:
            self._writer.wrote(done, full=direct.full)

    async def _write(self) -> None:
        """Write what waits, again and again: the writer task."""
        while not self._writer.ended:
            if self._writer.state is IDLE:
                await self._wake.wait()
                self._wake = trio.Event()
                continue
            try:
                if self._direct is None:
                    await self._write_by_waiting()
                elif self._writer.state is BLOCKED:
                    await self._direct.wait_writable()
                # A sender may have written meanwhile.
                if self._direct is not None and self._writer.state not in (IDLE, BROKEN, CLOSED):
                    self._write_now(self._direct)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
                self._break(f"the connection was lost while sending: {e}", ended=_is_reset(e))
            if not self._writer.congested:
                self._progress.unpark_all()
            await trio.lowlevel.checkpoint()

    async def _write_by_waiting(self) -> None:
        """Write to a stream that cannot do it without waiting."""
        buffers = self._writer.next_write()
        for buffer in buffers:
            await self._stream.send_all(buffer)
        self._writer.wrote(sum(map(len, buffers)), full=False)

    def _break(self, why: str, *, ended: bool = False) -> None:
        self._writer.failed(ChannelBroken(why, ended=ended))
        self._wake.set()
        self._progress.unpark_all()

    # Receiving

    async def receive(self) -> WireBatch:
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

    async def _read(self) -> None:
        if self._peer_ended:
            raise trio.EndOfChannel
        if isinstance(self._writer.error, RemoteProtocolError):
            raise self._writer.error
        if self._writer.state is CLOSED:
            raise trio.ClosedResourceError("this channel was closed")
        sink = self._decoder.sink
        data = None
        try:
            if sink is not None and self._filling is not None:
                count = await self._filling.receive_into(sink)
            elif self._socket is None:
                data = await self._stream.receive_some(READ)
                count = len(data)
            elif sink is not None:
                # The kernel puts a large payload where it belongs.
                count = await read_into(self._socket, sink)
            else:
                data = await read(self._socket, READ)
                count = len(data)
        except trio.ClosedResourceError:
            self._writer.check_open()
            raise
        except trio.BrokenResourceError as e:
            self._break(f"the connection was lost: {e}", ended=_is_reset(e))
            raise ChannelBroken(str(self._writer.error), ended=_is_reset(e)) from e
        if not count:
            why = "the connection ended without a goodbye: the peer was killed or cut off"
            self._break(why, ended=True)
            self._writer.check_open()
        self._read_at = trio.current_time()
        try:
            if data is None:
                self._take(self._decoder.filled(count))
            else:
                self._take(self._decoder.feed(data))
        except RemoteProtocolError as e:
            self._writer.failed(e)
            self._progress.unpark_all()
            await trio.aclose_forcefully(self._stream)
            raise

    def _take(self, messages: Sequence[tuple[Message, Payload]]) -> None:
        for pair in messages:
            kind = type(pair[0])
            if kind is Bye:
                self._peer_ended = True
                return
            if kind is not Ping:
                self._ready.append(pair)

    # Staying alive

    def silent_for(self) -> float:
        """See `Channel.silent_for`."""
        alive_at = max(self._read_at, self._alive_at()) if self._alive_at else self._read_at
        return max(0.0, trio.current_time() - alive_at)

    @property
    def suspect_after(self) -> float:
        """See `Channel.suspect_after`; from the heartbeat."""
        return self._heartbeat.suspect

    def stalled(self) -> str:
        """See `Channel.stalled`."""
        if self._presence is not None and (why := self._presence.stopped()):
            return why
        silent = self.silent_for()
        if self._receiving and silent >= self.suspect_after:
            return f"has not answered for {silent:.0f} s"
        return ""

    async def _beat(self) -> None:
        writes, beats_missed = self._writer.writes, 0
        while not self._writer.ended:
            await trio.sleep(self._heartbeat.interval)
            idle = self._writer.state is IDLE and not self._writer.finishing
            if idle and writes == self._writer.writes:
                self._writer.put([(Ping(), None)])
                self._wake.set()
            # Where no task receives, nothing is read: that does not make the peer silent.
            if not self._receiving or self.silent_for() < 1.5 * self._heartbeat.interval:
                beats_missed = 0
            else:
                beats_missed += 1
            writes = self._writer.writes
            silent = self.silent_for()
            if beats_missed > 1 and silent >= self._heartbeat.lost and not self._excused(silent):
                self._break(f"the peer has been silent for {silent:.0f} s")
                await trio.aclose_forcefully(self._stream)

    def _excused(self, silent: float) -> bool:
        return self._presence is not None and self._presence.excuses(silent)

    # Ending

    async def aclose(self) -> None:
        """Write what waits and a goodbye, then close the stream.

        Waits at most `Heartbeat.goodbye` seconds for that. Cancellation closes at once, without.
        """
        if self._writer.state is CLOSED:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(self._heartbeat.goodbye):
            try:
                self._writer.finish([] if self._peer_ended else [(Bye(), None)])
                self._wake.set()
                while not (self._writer.ended or self._writer.state is IDLE):
                    await self._progress.park()
                self._writer.close()
                await self._stream.aclose()
            finally:
                await self._abandon()

    async def _abandon(self) -> None:
        self._writer.close()
        self._wake.set()
        self._progress.unpark_all()
        await trio.aclose_forcefully(self._stream)


def _is_reset(error: Exception) -> bool:
    """Return True if the other end has closed a connection, which has not just timed out."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in {errno.ECONNRESET, errno.EPIPE}
