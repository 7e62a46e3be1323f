"""The spool: outcomes that wait for their missions on the disk of the node, and not in memory.

Beyond a part of the memory a worker's outcomes are written to files in its temporary directory.
The files have no name: each is removed as soon as it is open, so the system frees it with the
process, however that ends, and no other process can open it. They are segments of a limited size. A
segment is closed when nothing of it is wanted any more, as outcomes are mostly acknowledged in the
order in which they came.

The session decides what is spooled, and has a `SpooledOutcome` in the place of its bytes; the task
here writes those in threads. If the disk takes nothing they stay in memory.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import deque
from typing import TYPE_CHECKING

import trio

from grain.edge.buffers import Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.messages import Payload, WireBytes

SEGMENT = 64 * 1024**2
"""Bytes after which a segment takes no more."""

_AGAIN = 30.0  # seconds until the next attempt after the disk took nothing

_log = logging.getLogger("grain.worker")


class SpooledOutcome:
    """An outcome that is to be on the disk: in memory until it is written.

    Attributes:
        data: the bytes, as long as they are in memory; empty from then on.
        place: the segment that has them, and where.
        wanted: False once it is acknowledged.
    """

    __slots__ = ("data", "place", "size", "wanted")

    def __init__(self, data: WireBytes) -> None:
        self.data: WireBytes = data
        self.size = len(data)
        self.place: tuple[Segment, int] | None = None
        self.wanted = True

    def release(self) -> None:
        """Forget it: it is acknowledged."""
        self.wanted = False
        self.data = b""
        if self.place is not None:
            self.place[0].release()
            self.place = None


class Segment:
    """A file without a name that is closed when the last of its users has released it.

    Args:
        directory: on the disk that it takes room of; None for the one for temporary files.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, directory: str | None) -> None:
        self._fd, path = tempfile.mkstemp(prefix="grain-spool-", dir=directory)
        os.unlink(path)  # noqa: PTH108 - a name, as mkstemp returns it
        self._users = 1
        self.size = 0

    @property
    def idle(self) -> bool:
        """True if all that was written to it has been released."""
        return self.size > 0 and self._users == 1

    def hold(self) -> None:
        """Keep it open until one more `release`."""
        self._users += 1

    def release(self) -> None:
        """Close it if it has no other user."""
        self._users -= 1
        if not self._users:
            os.close(self._fd)

    def write(self, data: WireBytes) -> None:
        """Write at the end, without changing `size`; in a thread.

        Raises:
            OSError: the disk is full.
        """
        at = self.size
        for piece in data.parts if isinstance(data, Pieces) else (data,):
            view = memoryview(piece).cast("B")
            while len(view):
                done = os.pwrite(self._fd, view, at)
                view, at = view[done:], at + done

    def read(self, offset: int, size: int) -> bytearray:
        """Read some bytes; in a thread.

        Raises:
            OSError: the disk is broken.
        """
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            got = os.preadv(self._fd, [view[done:]], offset + done)
            if not got:
                raise OSError(f"{size - done} bytes are missing in the spool")
            done += got
        return data


class Spool:
    """The spool of one worker."""

    def __init__(self, directory: str = "", segment: int = SEGMENT) -> None:
        self._directory = directory
        self._limit = segment
        self._segment: Segment | None = None
        self._waiting: deque[SpooledOutcome] = deque()
        self._wake = trio.Event()

    def put(self, outcomes: Sequence[SpooledOutcome]) -> None:
        """Have outcomes written."""
        self._waiting.extend(outcomes)
        self._wake.set()

    async def run(self) -> None:
        """Write what was put, until cancelled; then nothing of it is left."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                while self._waiting:
                    await self._write(self._waiting.popleft())
                if self._segment is not None and self._segment.size >= self._limit:
                    self._end_segment()
        finally:
            self._end_segment()

    async def _write(self, outcome: SpooledOutcome) -> None:
        while outcome.wanted:
            try:
                segment = await self._segment_with_room()
                await trio.to_thread.run_sync(segment.write, outcome.data)
            except OSError as error:
                _log.warning("outcomes stay in memory: %s", error)
                await trio.sleep(_AGAIN)
            else:
                if outcome.wanted:
                    outcome.place = (segment, segment.size)
                    segment.size += outcome.size
                    segment.hold()
                    outcome.data = b""
                return

    async def _segment_with_room(self) -> Segment:
        segment = self._segment
        if segment is None or segment.size >= self._limit or segment.idle:
            self._end_segment()
            segment = await trio.to_thread.run_sync(Segment, self._directory or None)
            self._segment = segment
        return segment

    def _end_segment(self) -> None:
        if self._segment is not None:
            self._segment.release()
            self._segment = None

    async def load(self, outcome: SpooledOutcome) -> Payload:
        """Return the bytes of an outcome.

        Raises:
            OSError: they cannot be read.
        """
        if outcome.place is None:
            return outcome.data
        segment, offset = outcome.place
        segment.hold()
        try:
            return await trio.to_thread.run_sync(segment.read, offset, outcome.size)
        finally:
            segment.release()
