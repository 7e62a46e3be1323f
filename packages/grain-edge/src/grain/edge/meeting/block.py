"""The content of the meeting file: the head, and how it is reached.

Theory of operation. The file is one block of 4096 bytes, rewritten in place, never renamed over:
on NFS a renamed-over file is missing for readers meanwhile if the writer's host has it open
(seen in 98 of 100 reads), while a block of this size was never seen torn there in 10,000 reads.
The checksum is for the filesystems where it may be.

    bytes 0-7     "GRAINEDG"
    8-9           format of the block, u16; 1
    10-11         zero
    12-15         length of the JSON text, u32
    16-19         CRC-32 of the whole block with these four bytes zero
    20-35         version of the package that wrote it, ASCII, padded with zeros
    36-           JSON text, then zeros

All numbers are big-endian. A later format keeps the first 36 bytes, so that an older reader can
name the version that it meets.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import msgspec

from grain.edge.errors import MeetingError, NotAnEdgeFile, OtherVersion, TornEdgeFile
from grain.files.processes import PeerProcess, this_process

if TYPE_CHECKING:
    from grain.edge.messages import Hello, Welcome

SIZE = 4096
FORMAT = 1
_MAGIC = b"GRAINEDG"
_HEAD = struct.Struct("!8sHHII16s")


class MeetingRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A leadership, as the meeting file describes it.

    Attributes:
        meeting_id: random name of the meeting, kept from head to head.
        epoch: number of the leadership, rising by at least 1 each time.
        open: the head serves; False after a clean end.
        boot: the host kernel's boot id: the same kernel means that a Unix socket may reach it.
        space: inode of its process namespace: only within the same one does `pid` mean anything.
        start: its start time in clock ticks since boot, as pids are used again.
        unix: path of its Unix socket, or empty.
        tcp: hosts and ports that it listens on, best first.
        files: the head looks for peers in the meeting file's directory.
        authority: certificate of the meeting's throw-away authority, PEM, or empty.
        certificate: certificate of a member, PEM. The head's own is not here.
        key: the member's private key, PEM.
    """

    meeting_id: str
    epoch: int
    open: bool
    host: str
    boot: str
    space: int
    pid: int
    start: int
    unix: str = ""
    tcp: tuple[tuple[str, int], ...] = ()
    files: bool = False
    authority: str = ""
    certificate: str = ""
    key: str = ""


def process_here(greeting: Hello | Welcome | MeetingRecord) -> PeerProcess | None:
    """Return the process of a peer, by how it introduces itself.

    None if this process cannot see it.
    """
    me = this_process()
    if not greeting.start or (greeting.boot, greeting.space) != (me.boot, me.space):
        return None
    return PeerProcess(greeting.pid, greeting.start)


def encode_block(record: MeetingRecord, package: str) -> bytes:
    """Return the whole block.

    Raises:
        MeetingError: the record does not fit; no host should have so many addresses.
    """
    text = msgspec.json.encode(record)
    if len(text) > SIZE - _HEAD.size:
        raise MeetingError(f"the meeting's record has {len(text)} bytes and does not fit {SIZE}")
    name = package.encode("ascii", "replace")[:16]

    def block(crc: int) -> bytes:
        head = _HEAD.pack(_MAGIC, FORMAT, 0, len(text), crc, name)
        return (head + text).ljust(SIZE, b"\0")

    return block(zlib.crc32(block(0)))


def decode_block(data: bytes, path: str) -> MeetingRecord:
    """Return the record in a block.

    Raises:
        NotAnEdgeFile: begins with something else.
        OtherVersion: another format.
        TornEdgeFile: too short, all zero, or the checksum is wrong; worth reading again.
    """
    if not data.strip(b"\0") or (len(data) < SIZE and data.startswith(_MAGIC[: len(data)])):
        raise TornEdgeFile(
            f"{path}: incomplete ({len(data)} bytes). A head died while writing it, or the disk "
            "was full; the next head repairs it"
        )
    if not data.startswith(_MAGIC):
        raise NotAnEdgeFile(
            f"{path}: is no meeting file; Grain does not overwrite it. Choose another address"
        )
    _, form, _, length, crc, name = _HEAD.unpack_from(data)
    zeroed = data[:16] + bytes(4) + data[20:SIZE]
    # Before the format is looked at: in a torn block no field can be trusted.
    if crc != zlib.crc32(zeroed) or length > SIZE - _HEAD.size:
        raise TornEdgeFile(f"{path}: its checksum is wrong; the next head repairs it")
    if form != FORMAT:
        package = name.rstrip(b"\0").decode("ascii", "replace")
        raise OtherVersion(
            f"{path}: written by Grain {package}, in format {form}; this version reads format "
            f"{FORMAT}. Install the same version everywhere, or choose another address"
        )
    try:
        return msgspec.json.decode(data[_HEAD.size : _HEAD.size + length], type=MeetingRecord)
    except (msgspec.MsgspecError, ValueError) as e:
        raise NotAnEdgeFile(f"{path}: has the form of a meeting file, but {e}") from e
