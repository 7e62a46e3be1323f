"""The file transport's logs, as pure functions on a simulated directory."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.edge.transports.segments import (
    BEAT,
    BLOB,
    DATA,
    END,
    FIRST_SEGMENT,
    MAX_BLOB,
    LogRecord,
    Put,
    SegmentReader,
    SegmentWriter,
)


class Store:
    """Files, as a reader on another host sees them."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}

    def put(self, puts: list[Put]) -> None:
        for put in puts:
            if put.new:
                self.files[put.name] = bytearray(put.data)
            else:
                self.files[put.name][put.offset : put.offset + len(put.data)] = put.data

    def content(self, reader: SegmentReader, record: LogRecord) -> bytes:
        if record.kind == DATA:
            return record.body
        if record.kind == BLOB:
            return bytes(self.files[f"{reader.name}.b{record.seq}"])
        return b""

    def read(self, reader: SegmentReader, size: int) -> list[LogRecord]:
        data = bytes(self.files[reader.segment][reader.offset : reader.offset + size])
        return reader.feed(data)

    def drain(self, reader: SegmentReader, size: int) -> bytes:
        out = b""
        while True:
            before = (reader.segment, reader.offset)
            records = self.read(reader, max(size, reader.wants))
            out += b"".join(self.content(reader, record) for record in records)
            if (reader.segment, reader.offset) == before and reader.wants <= size:
                return out
            size = max(size, reader.wants)


PIECES = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=200),
        st.integers(1, 300_000).map(lambda n: bytes([n % 251]) * n),
        st.just("beat"),
        st.just("look"),
    ),
    max_size=40,
)


@given(PIECES, st.integers(25, 300_000))
@settings(deadline=None)
def test_records_are_read_as_written_across_segments_and_blobs(
    pieces: list[Any], size: int
) -> None:
    """Across segments and blobs, with looks in between."""
    store, writer, reader = Store(), SegmentWriter("up"), SegmentReader("up")
    sent, got = b"", b""
    for piece in pieces:
        if piece == "look":
            if store.files:
                got += store.drain(reader, size)
        elif piece == "beat":
            store.put(writer.mark(BEAT, 0))
        else:
            store.put(writer.append(piece, 0))
            sent += piece
    store.put(writer.mark(END, 0))
    got += store.drain(reader, size)

    assert got == sent
    assert reader.seq == writer.seq


@given(st.integers(0, 3000), st.integers(1, 3000))
def test_half_a_record_is_read_when_the_rest_comes(cut: int, size: int) -> None:
    """A record that is there in part gives nothing, and everything when the rest comes."""
    store, writer, reader = Store(), SegmentWriter("up"), SegmentReader("up")
    first = writer.append(b"first", 0)
    store.put(first)
    second = writer.append(bytes([1]) * size, 0)
    put = second[-1]
    store.put([Put(put.name, put.offset, bytes(put.data)[:cut])])

    before = store.drain(reader, 100_000)
    store.put(second)
    after = store.drain(reader, 100_000)

    assert before in (b"first", b"first" + bytes([1]) * size)
    assert before + after == b"first" + bytes([1]) * size


@given(st.integers(0, 8 * 400 - 1))
def test_flipped_bits_are_never_believed(bit: int) -> None:
    """Damage stops the reader at the record before it; repaired, it goes on."""
    store, writer, reader = Store(), SegmentWriter("up"), SegmentReader("up")
    sent = b"".join(bytes([n]) * 20 for n in range(1, 10))
    for n in range(1, 10):
        store.put(writer.append(bytes([n]) * 20, 0))
    store.files["up.0"][bit // 8] ^= 1 << bit % 8
    got = store.drain(reader, 100_000)

    assert sent.startswith(got)
    assert len(got) < len(sent)
    store.files["up.0"][bit // 8] ^= 1 << bit % 8
    assert got + store.drain(reader, 100_000) == sent


@given(st.binary(max_size=500))
def test_noise_is_no_record(noise: bytes) -> None:
    reader = SegmentReader("up")

    assert reader.feed(noise) == []
    assert reader.offset == 0


def test_storing_a_write_twice_changes_nothing() -> None:
    """A write that failed, or whose thread came late, may be done again."""
    store, writer, reader = Store(), SegmentWriter("up"), SegmentReader("up")
    puts = writer.append(b"a" * 100, 0) + writer.append(b"b" * 300_000, 0)
    puts += writer.append(b"c" * 30, 0)
    for n in range(len(puts) + 1):
        store.put(puts[:n])
    for put in puts:
        if not put.new or ".b" in put.name:
            store.put([put])

    assert store.drain(reader, 1 << 20) == b"a" * 100 + b"b" * 300_000 + b"c" * 30


def test_files_may_be_removed_once_acknowledged() -> None:
    """Blobs and finished segments, when all of them is received and not before."""
    writer = SegmentWriter("up")
    for n in range(4):
        writer.append(bytes([n]) * 30_000, 0)
    writer.append(b"x" * 300_000, 0)

    assert writer.segments >= 1
    assert writer.blobs == 1
    assert writer.acknowledged(1) == []
    removed = writer.acknowledged(writer.seq)
    assert sorted(removed) == ["up.0", f"up.b{writer.seq}"]
    assert (writer.segments, writer.blobs) == (0, 0)


def test_a_segment_is_never_larger_than_it_was_made() -> None:
    """Nothing is written beyond the size that was allocated and synced at first."""
    store, writer = Store(), SegmentWriter("up")
    for n in range(1, 300):
        store.put(writer.append(b"y" * (n * 97 % 30_000 + 1), 0))

    assert len(store.files["up.0"]) == FIRST_SEGMENT
    assert all(len(data) in (FIRST_SEGMENT, 1 << 20) for data in store.files.values())


def test_a_record_of_another_place_is_not_taken() -> None:
    """Such as an old page, whole and undamaged, that a server brings up again."""
    store, writer, reader = Store(), SegmentWriter("up"), SegmentReader("up")
    store.put(writer.append(b"one", 0))
    one = bytes(store.files["up.0"][:28])
    assert store.drain(reader, 1000) == b"one"
    store.files["up.0"][28:56] = one

    assert store.drain(reader, 1000) == b""
    assert reader.doubtful


@pytest.mark.parametrize("size", [0, MAX_BLOB + 1, 2**64 - 1])
def test_a_blob_that_no_writer_makes_is_no_record(size: int) -> None:
    """So no memory is taken for it."""
    rest = struct.pack("!QQB", 1, 0, BLOB) + struct.pack("!QI", size, 0)
    reader = SegmentReader("up")

    assert reader.feed(struct.pack("!II", 12, zlib.crc32(rest)) + rest) == []
    assert reader.doubtful
