"""The logs of the file transport, without I/O: what to write where, and what was read.

Theory of operation. Each direction is a series of segments `<name>.0`, `<name>.1`, ... written by
one side only. A segment is made at its full size, of zeros, before anything is written to it. So
a reader never depends on the file's size, which its client may remember wrongly for seconds; a
full disk shows before a record is begun; and a write needs no change of the file's metadata.

A record:

    length  u32   bytes of the body
    crc     u32   CRC-32 of what follows, body included
    seq     u64   number of the record in its direction, from 1
    ack     u64   every record of the other direction up to this number is received
    kind    u8    DATA, BLOB, BEAT, NEXT or END
    body

1. DATA carries bytes of the stream. BLOB carries the length and CRC of a file `<name>.b<seq>`,
   complete before the record is written, whose content comes next in the stream.
2. BEAT carries nothing but the acknowledgement. END is the last record.
3. NEXT is the last record of a segment; the next segment exists before it is written.
4. A zero header means that nothing was written there yet. A record that is incomplete or whose
   checksum is wrong is read again later: it may be under way.
5. What is acknowledged may be removed: blobs, and segments but the last.

The same bytes always go to the same place, so a write that failed, or whose thread was abandoned,
is simply done again.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from dataclasses import dataclass

DATA, BLOB, BEAT, NEXT, END = 1, 2, 3, 4, 5
HEADER = struct.Struct("!IIQQB")
_BLOB = struct.Struct("!QI")

MAX_DATA = 32 * 1024
"""The most bytes in one DATA record."""

MAX_INLINE = 256 * 1024
"""The most bytes of one `append` that go into records; more go into blobs, which are worth the
operations of a file then."""

MAX_BLOB = 16 * 1024 * 1024
FIRST_SEGMENT, SEGMENT = 64 * 1024, 1024 * 1024
"""Bytes of the first and of the later segments: an idle peer takes little room."""


@dataclass(frozen=True)
class Put:
    """A write that is to be durable before the next.

    Attributes:
        name: the file's, within the peer's directory.
        new: the write makes the file, all of it.
    """

    name: str
    offset: int
    data: bytes | bytearray | memoryview
    new: bool = False


class SegmentWriter:
    """The writer of one direction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seq = 0
        self._segment = -1
        self._offset = 0
        self._size = 0
        self._held: deque[tuple[int, str]] = deque()
        """Files that may go when a record is acknowledged: its number and the file's name."""

    @property
    def blobs(self) -> int:
        """Blobs that are not acknowledged."""
        return sum(".b" in name for _, name in self._held)

    @property
    def segments(self) -> int:
        """Finished segments that are not acknowledged."""
        return len(self._held) - self.blobs

    def append(self, data: bytes | bytearray | memoryview, ack: int) -> list[Put]:
        """Return the writes that append bytes of the stream.

        Args:
            data: at least one byte.
        """
        view = memoryview(data).cast("B")
        puts: list[Put] = []
        if len(view) <= MAX_INLINE:
            for start in range(0, len(view), MAX_DATA):
                self._record(puts, DATA, ack, view[start : start + MAX_DATA])
            return _joined(puts)
        for start in range(0, len(view), MAX_BLOB):
            piece = view[start : start + MAX_BLOB]
            self._room(puts, ack, _BLOB.size)
            name = f"{self.name}.b{self.seq + 1}"
            puts.append(Put(name, 0, piece, new=True))
            self._record(puts, BLOB, ack, _BLOB.pack(len(piece), zlib.crc32(piece)))
            self._held.append((self.seq, name))
        return puts

    def mark(self, kind: int, ack: int) -> list[Put]:
        """Return the writes that append a BEAT or END."""
        puts: list[Put] = []
        self._record(puts, kind, ack, b"")
        return puts

    def acknowledged(self, ack: int) -> list[str]:
        """Return the files that may be removed now that records up to this one are received."""
        out = []
        while self._held and self._held[0][0] <= ack:
            out.append(self._held.popleft()[1])
        return out

    def _room(self, puts: list[Put], ack: int, body: int) -> None:
        """Go to the next segment unless a record and a NEXT fit into this one."""
        if self._size - self._offset >= 2 * HEADER.size + body:
            return
        size = FIRST_SEGMENT if self._segment < 0 else SEGMENT
        puts.append(Put(f"{self.name}.{self._segment + 1}", 0, bytes(size), new=True))
        if self._segment >= 0:
            self._write(puts, NEXT, ack, b"")
            self._held.append((self.seq, f"{self.name}.{self._segment}"))
        self._segment += 1
        self._offset, self._size = 0, size

    def _record(self, puts: list[Put], kind: int, ack: int, body: bytes | memoryview) -> None:
        self._room(puts, ack, len(body))
        self._write(puts, kind, ack, body)

    def _write(self, puts: list[Put], kind: int, ack: int, body: bytes | memoryview) -> None:
        self.seq += 1
        rest = struct.pack("!QQB", self.seq, ack, kind) + body
        record = struct.pack("!II", len(body), zlib.crc32(rest)) + rest
        puts.append(Put(f"{self.name}.{self._segment}", self._offset, record))
        self._offset += len(record)


def _joined(puts: list[Put]) -> list[Put]:
    """Return the writes with neighbouring records as one."""
    out: list[Put] = []
    for put in puts:
        last = out[-1] if out else None
        if (
            last is not None
            and not (last.new or put.new)
            and last.name == put.name
            and last.offset + len(last.data) == put.offset
        ):
            out[-1] = Put(last.name, last.offset, bytes(last.data) + put.data)
        else:
            out.append(put)
    return out


@dataclass(frozen=True)
class LogRecord:
    """A record that was read; a NEXT is none.

    Attributes:
        ack: the last record of this side that the other one has received.
        kind: DATA, BLOB, BEAT or END.
        blob: length and CRC-32 of a BLOB's file.
    """

    seq: int
    ack: int
    kind: int
    body: bytes
    blob: tuple[int, int] = (0, 0)


class SegmentReader:
    """The reader of one direction.

    Attributes:
        seq: the last record taken.
        wants: bytes that the record at the offset has, where fewer were given; else 0.
        doubtful: what lies at the offset is not a record, at least not yet.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._number = 0
        self.offset = 0
        self.seq = 0
        self.doubtful = False
        self.wants = 0

    @property
    def segment(self) -> str:
        """The name of the file to read."""
        return f"{self.name}.{self._number}"

    def rewind(self, segment: str, offset: int, seq: int) -> None:
        """Go back to an earlier state, so that what follows it is read again."""
        self._number = int(segment.rpartition(".")[2])
        self.offset = offset
        self.seq = seq

    def feed(self, data: bytes) -> list[LogRecord]:
        """Take what was read at the offset, which moves on.

        Args:
            data: may end anywhere, and hold zeros or torn records at its end.

        Returns:
            whole records in order. After a NEXT the segment is another one: read again.
        """
        out: list[LogRecord] = []
        self.doubtful = False
        self.wants = 0
        at = 0
        while at + HEADER.size <= len(data):
            length, crc, seq, ack, kind = HEADER.unpack_from(data, at)
            end = at + HEADER.size + length
            if not any(data[at : at + HEADER.size]):
                break
            if length > MAX_DATA or seq != self.seq + 1:
                self.doubtful = True
                break
            if end > len(data):
                self.wants = end - at
                break
            body = data[at + HEADER.size : end]
            if zlib.crc32(data[at + 8 : end]) != crc or not self._is_valid(kind, body):
                self.doubtful = True
                break
            self.seq = seq
            self.offset += end - at
            if kind == NEXT:
                self._number += 1
                self.offset = 0
                break
            blob = _BLOB.unpack(body) if kind == BLOB else (0, 0)
            out.append(LogRecord(seq, ack, kind, body, blob))
            at = end
        return out

    @staticmethod
    def _is_valid(kind: int, body: bytes) -> bool:
        if kind == BLOB:
            # Memory for a blob is taken before it is read.
            return len(body) == _BLOB.size and 0 < _BLOB.unpack(body)[0] <= MAX_BLOB
        return (kind == DATA and len(body) > 0) or (kind in (BEAT, NEXT, END) and not body)
