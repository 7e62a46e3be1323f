"""A trio stream over two logs in a shared directory.

What is sent is stored, durably, when `send_all` returns. The reader looks at the log again and
again; how often follows from one rule: the next look comes after a tenth of the time for which
nothing has come, between 2 ms and a cap. So waiting adds a tenth to what the peer took anyway, and
an idle peer costs next to nothing. A side that has been silent for long writes a BEAT, its sign of
life.

Costs of an idle worker, in metadata operations: one look per 40 s (2 operations) and one of the
head per 90 s (2), which is 0.07 per second. A beat is a write to an open file. A worker rings a
bell, a new empty file in ``bell/`` of its shard, at most once a second; the head looks at the bells
of its four shards every 5 ms to 1 s, 4 operations per second for the whole idle fleet, and reads
the logs of the peers that rang. At most 6 segments and 16 blobs of a direction wait to be
acknowledged, which keeps a directory below the 64 files that centres ask for.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import MeetingError
from grain.edge.transports.heartbeat import Heartbeat
from grain.edge.transports.segments import BEAT, BLOB, DATA, END, SegmentReader, SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.meeting.disk import Disk
    from grain.edge.transports.file_folder import Folder
    from grain.edge.transports.segments import LogRecord, Put

BEAT_EVERY, LOST = 90.0, 300.0
"""Seconds between two beats of an idle side, and of silence after which the peer is lost."""

FIRST_LOOK, HOT = 0.002, 2.0
"""Seconds: the shortest pause between two looks, and how long a head looks without a bell."""

LAST_LOOK = 40.0
"""Seconds: the longest pause of a side that no bell wakes."""

FILES_HEARTBEAT = Heartbeat(interval=float("inf"), suspect=2.0 * BEAT_EVERY, lost=LOST)
"""The stream's own beats replace those of the channel."""

_MAX_BLOBS, _MAX_SEGMENTS = 16, 6
_BUFFER = 64 * 1024 * 1024
_ACK_BYTES = 512 * 1024
_log = logging.getLogger("grain.edge")


class FileStream(trio.abc.Stream):
    """An end of a stream over files.

    Args:
        ring: called after a write, to wake the other side; None where it looks by itself.
        rung: `bell` will be called, so looking may stop when nothing comes.
    """

    def __init__(
        self,
        folder: Folder,
        outgoing: str,
        incoming: str,
        disk: Disk,
        ring: Callable[[], Awaitable[None]] | None = None,
        *,
        rung: bool = False,
    ) -> None:
        self._folder = folder
        self._writer = SegmentWriter(outgoing)
        self._reader = SegmentReader(incoming)
        self._disk = disk
        self._ring = ring
        self._rung = rung
        self._write_lock = trio.Lock()
        self._eye = trio.Lock()
        self._undone: list[Put] = []
        self._arrived: deque[bytes | bytearray | memoryview] = deque()
        self._waiting = 0
        self._taken = 0
        self._unacked = 0
        self._peer_ack = 0
        self._look = 4096
        self._bell = trio.Event()
        self._ended = False
        self._closed = False
        self._broken = ""
        now = trio.current_time()
        self._moved = now
        self._wrote = now
        self.alive_at = now
        """The `trio.current_time` of the peer's last sign of life."""

    def __repr__(self) -> str:
        return (
            f"<FileStream in {self._folder.path}, {self._writer.seq} sent, {self._reader.seq} read>"
        )

    def bell(self) -> None:
        """Look at once: the peer has written."""
        self._bell.set()

    # Sending

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Store bytes for the peer; returns when they are durable.

        Waits while too much is unacknowledged, and for as long as the disk is full.

        Raises:
            trio.BrokenResourceError: the peer has left or is lost.
            trio.ClosedResourceError: this side is closed.
        """
        self._check()
        async with self._write_lock:
            while self._writer.blobs >= _MAX_BLOBS or self._writer.segments >= _MAX_SEGMENTS:
                # Acknowledgements are in the other log, which perhaps no task reads now; and the
                # peer may be waiting for ours in the same way.
                if not await self._read_once():
                    await self._pause()
                if self._unacked >= _ACK_BYTES:
                    await self._store(self._writer.mark(BEAT, self._acknowledge()))
                self._check()
            if len(data):
                await self._store(self._writer.append(data, self._acknowledge()))
                # An answer may come soon. A beat is not such a reason to look more often.
                self._moved = self._wrote
        self._check()

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once, which is allowed."""
        await trio.lowlevel.checkpoint()

    def _acknowledge(self) -> int:
        """Return the number of the last record received, for a record that is about to be written.

        It may be lower than that of the last record seen: the blob of that one may be read at this
        moment, and the peer removes what is acknowledged.
        """
        self._unacked = 0
        return self._taken

    async def _store(self, puts: Sequence[Put]) -> None:
        """Store, again and again if it fails; the caller holds the lock."""
        self._undone += puts
        pause, warned = 0.05, False
        while self._undone:
            self._check()
            count = len(self._undone)
            try:
                await self._disk.patiently(
                    self._folder.path, self._folder.store, tuple(self._undone)
                )
            except OSError as e:
                if e.errno == errno.ENOENT and not await self._still_there():
                    continue
                if not warned:
                    _log.warning("%s: %s; trying again until it works", self._folder.path, e)
                    warned = True
                await trio.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                del self._undone[:count]
                if warned:
                    _log.warning("%s: works again", self._folder.path)
        self._wrote = trio.current_time()
        if self._ring is not None:
            await self._ring()

    # Receiving

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Wait for bytes of the peer; empty at its end. Cancellation loses nothing.

        Raises:
            trio.BrokenResourceError: the peer is lost, or the log is damaged.
            trio.ClosedResourceError: this side is closed.
        """
        while not self._arrived:
            self._check()
            if self._ended:
                return b""
            if not await self._read_once():
                await self._keep_alive()
                await self._pause()
        piece = self._arrived.popleft()
        if max_bytes is not None and len(piece) > max_bytes:
            view = memoryview(piece)
            self._arrived.appendleft(view[max_bytes:])
            piece = view[:max_bytes]
        self._waiting -= len(piece)
        return bytes(piece) if isinstance(piece, memoryview) else piece

    async def _pause(self) -> None:
        """Wait until it is time to look again."""
        idle = trio.current_time() - self._moved
        if self._rung and idle > HOT:
            pause = BEAT_EVERY
        else:
            pause = min(max(idle / 10, FIRST_LOOK), LAST_LOOK)
        with trio.move_on_after(pause):
            await self._bell.wait()
        if self._bell.is_set():
            self._bell = trio.Event()
            self._moved = trio.current_time()

    async def _read_once(self) -> bool:
        """Look at the incoming log; return True if something new was there."""
        async with self._eye:
            if self._ended or self._waiting > _BUFFER:
                await trio.lowlevel.checkpoint()
                return False
            segment, offset, asked = self._reader.segment, self._reader.offset, self._look
            try:
                data = await self._disk.patiently(
                    self._folder.path, self._folder.read, segment, offset, asked
                )
                records, blobs = await self._parsed(data)
            except OSError as e:
                await self._trouble(e)
                return False
            except MeetingError as e:
                self._break(str(e))
                return False
            moved = (segment, offset) != (self._reader.segment, self._reader.offset)
            used = self._reader.offset - offset
            self._look = max(
                min(asked * 4, 1 << 20) if used * 2 > asked else 4096, self._reader.wants
            )
            for record in records:
                self._take(record, blobs)
            self._taken = self._reader.seq
            if not moved:
                self._judge()
                return asked < self._reader.wants  # look again at once, and read more
            self.alive_at = trio.current_time()
            # A beat is not a reason to look again soon.
            news = any(record.kind != BEAT for record in records)
            if news:
                self._moved = self.alive_at
        await self._released()
        return news or segment != self._reader.segment

    async def _parsed(self, data: bytes) -> tuple[list[LogRecord], dict[int, bytearray]]:
        """Return records, with the content of their blobs; take nothing unless all can be read."""
        before = (self._reader.segment, self._reader.offset, self._reader.seq)
        records = self._reader.feed(data)
        blobs: dict[int, bytearray] = {}
        try:
            for record in records:
                if record.kind == BLOB:
                    name = f"{self._reader.name}.b{record.seq}"
                    blobs[record.seq] = await self._disk.patiently(
                        self._folder.path, self._folder.read_blob, name, *record.blob
                    )
        except BaseException:
            self._reader.rewind(*before)
            raise
        return records, blobs

    def _take(self, record: LogRecord, blobs: dict[int, bytearray]) -> None:
        self._peer_ack = max(self._peer_ack, record.ack)
        if record.kind == END:
            self._ended = True
        elif record.kind in (DATA, BLOB):
            piece = blobs.get(record.seq, record.body)
            self._arrived.append(piece)
            self._waiting += len(piece)
            self._unacked += len(piece)

    async def _released(self) -> None:
        """Remove what the peer has received, and acknowledge what this side has."""
        names = self._writer.acknowledged(self._peer_ack)
        if names:
            try:
                await self._disk.patiently(self._folder.path, self._folder.remove, tuple(names))
            except OSError as e:
                _log.warning("%s: %s", self._folder.path, e)
        if self._unacked >= _ACK_BYTES and not self._write_lock.locked():
            async with self._write_lock:
                await self._store(self._writer.mark(BEAT, self._acknowledge()))

    # Staying alive

    async def _keep_alive(self) -> None:
        if trio.current_time() - self._wrote >= BEAT_EVERY and not self._write_lock.locked():
            async with self._write_lock:
                await self._store(self._writer.mark(BEAT, self._acknowledge()))

    def _judge(self) -> None:
        silent = trio.current_time() - self.alive_at
        if silent >= LOST:
            why = "a record that stays damaged" if self._reader.doubtful else "nothing"
            self._break(f"{why} in {self._folder.path} for {silent:.0f} s")

    async def _trouble(self, error: OSError) -> None:
        if error.errno == errno.ENOENT:
            if not await self._still_there():
                return
        elif trio.current_time() - self.alive_at > self._disk.deadline:
            _log.warning("%s: %s", self._folder.path, error)
        self._judge()

    async def _still_there(self) -> bool:
        """Return True if the directory exists; look twice, as a restarting server may be wrong."""
        for _ in range(2):
            try:
                if await self._disk.patiently(self._folder.path, self._folder.exists):
                    return True
            except OSError:
                return True
            await trio.sleep(0.5)
        self._break(f"{self._folder.path} was removed: the peer has left, or another head came")
        return False

    def _break(self, why: str) -> None:
        self._broken = self._broken or why
        self._bell.set()

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError
        if self._broken:
            raise trio.BrokenResourceError(self._broken)

    # Ending

    async def aclose(self) -> None:
        """End this side's log, and remove the directory if the peer has ended its own.

        Who ends second removes the directory. Waits for the peer for 2 s at most. Cancellation
        removes the directory at once, which breaks the stream for the peer.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        clean = False
        try:
            with trio.move_on_after(2.0) as scope:
                async with self._write_lock:
                    if not self._broken:
                        await self._store(self._writer.mark(END, self._acknowledge()))
                    clean = not self._broken
                while clean and not self._ended and not self._broken:
                    if not await self._read_once():
                        await self._pause()
                    self._arrived.clear()
                    self._waiting = 0
            clean = clean and scope.cancelled_caught and not self._broken
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            clean = False
        finally:
            self._closed = True
            self._bell.set()
            leave_it = clean and not self._ended
            with trio.CancelScope(shield=True), trio.move_on_after(1.0):
                await self._finish(leave_it=leave_it)

    async def _finish(self, *, leave_it: bool) -> None:
        function = self._folder.close if leave_it else self._folder.remove_all
        try:
            await self._disk.run(self._folder.path, function)
        except MeetingError as e:
            _log.warning("%s", e)
