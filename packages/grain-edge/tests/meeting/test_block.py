"""The meeting file's block, as pure functions."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.errors import MeetingError, NotAnEdgeFile, OtherVersion, TornEdgeFile
from grain.edge.meeting.block import SIZE, MeetingRecord, decode_block, encode_block

RECORDS = st.builds(
    MeetingRecord,
    meeting_id=st.text(max_size=32),
    epoch=st.integers(0, 2**40),
    open=st.booleans(),
    host=st.text(max_size=30),
    boot=st.text(max_size=36),
    space=st.integers(0, 2**40),
    pid=st.integers(0, 2**31),
    start=st.integers(0, 2**50),
    unix=st.text(max_size=50),
    tcp=st.lists(st.tuples(st.text(max_size=10), st.integers(0, 65535)), max_size=12).map(tuple),
    files=st.booleans(),
    key=st.text(max_size=100),
)
PLAIN = MeetingRecord("line", 3, True, "host", "boot", 1, 2, 3)


@given(RECORDS, st.text(max_size=30))
def test_a_block_has_its_size_and_is_read_as_written(record: MeetingRecord, package: str) -> None:
    block = encode_block(record, package)

    assert len(block) == SIZE
    assert decode_block(block, "p") == record


@given(RECORDS, st.integers(0, SIZE - 1))
def test_a_truncated_block_is_torn(record: MeetingRecord, size: int) -> None:
    """A file that was cut short, at any place."""
    with pytest.raises(TornEdgeFile, match="next head repairs it"):
        decode_block(encode_block(record, "1.0.0")[:size], "p")


@given(RECORDS, st.integers(0, SIZE * 8 - 1))
def test_any_flipped_bit_is_noticed(record: MeetingRecord, bit: int) -> None:
    """Nothing is believed that was not written."""
    block = bytearray(encode_block(record, "1.0.0"))
    block[bit // 8] ^= 1 << bit % 8
    with pytest.raises((TornEdgeFile, NotAnEdgeFile)):
        decode_block(bytes(block), "p")


@given(RECORDS, RECORDS, st.integers(1, SIZE - 1))
def test_a_write_seen_halfway_is_old_or_new_or_torn(
    old: MeetingRecord, new: MeetingRecord, at: int
) -> None:
    """A write that was seen halfway gives the old record, the new one, or an error."""
    a, b = encode_block(old, "1"), encode_block(new, "1")
    mixed = b[:at] + a[at:]
    if mixed in (a, b):
        assert decode_block(mixed, "p") in (old, new)
        return
    with pytest.raises(TornEdgeFile):
        decode_block(mixed, "p")


@given(st.binary(max_size=SIZE))
def test_a_file_with_other_content_is_no_edge_file(data: bytes) -> None:
    """Something else, or nothing, in the file."""
    with pytest.raises((TornEdgeFile, NotAnEdgeFile)):
        decode_block(data, "p")


def test_another_file_is_not_called_torn() -> None:
    """The user's own text is not called a torn meeting file, which a head would overwrite."""
    with pytest.raises(NotAnEdgeFile, match="is not a meeting file"):
        decode_block(b"my thesis, chapter one", "p")


def test_a_later_format_names_its_version() -> None:
    """A meeting file of a later Grain says which one is needed."""
    block = bytearray(encode_block(PLAIN, "2.5.0"))
    block[8:10] = struct.pack("!H", 2)
    block[16:20] = bytes(4)
    block[16:20] = struct.pack("!I", zlib.crc32(block))
    with pytest.raises(OtherVersion, match=r"Grain 2\.5\.0, in format 2"):
        decode_block(bytes(block), "p")


def test_a_record_that_does_not_fit_is_the_writers_error() -> None:
    """Is an error at the writer, not a truncated file."""
    with pytest.raises(MeetingError, match="does not fit"):
        encode_block(MeetingRecord("l", 1, True, "h" * 5000, "b", 1, 1, 1), "1")
