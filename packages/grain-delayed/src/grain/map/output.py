"""The outputs of jobs, printed one job at a time: as they end, or in the order of the inputs.

No more of them is in memory than some MiB, whatever their number and their size.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

import trio

from grain.map.overflow import LargeOutput, Output, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self


@contextmanager
def streams_of_jobs() -> Iterator[None]:
    """Have the standard streams during the block as they are without the command `grain`.

    That replaces them by streams on which no text controls a terminal (`grain.cli.streams`). The
    output of jobs passes as it is, and the progress line moves the cursor.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (getattr(stream, "plain", stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_IN_MEMORY = 16 << 20  # bytes that wait for a slow reader; what is more waits in the file


class _Stored(NamedTuple):
    """The place in the file of an output that waits."""

    offset: int
    size: int


class OutputPrinter:
    """A printer of the outputs of jobs; leaving its ``with`` block prints the waiting ones.

    Args:
        in_order: if true, a job's output waits for that of all jobs with smaller numbers. Outputs
            that wait are in a temporary file without a name, not in memory, or in files of theirs.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._in_order = in_order
        self._next = 1
        self._early: dict[int, list[tuple[bool, Output | _Stored]]] = {}
        self._file: BinaryIO | None = None
        self._end = self._stored = 0
        # Pairs of True for standard error and an output, and the bytes of those in memory.
        self._ready: deque[tuple[bool, Output | _Stored]] = deque()
        self._in_memory = 0
        self._to_error = False
        self._begun: Iterator[bytes] = iter(())
        self._printing = trio.Lock()
        self._writing = threading.Lock()  # of the thread that writes a piece, even an abandoned one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for seq in sorted(self._early):
                self._ready += self._early.pop(seq)
            while (piece := self._next_piece()) is not None:
                with self._writing:
                    _write(*piece)
        except OSError:
            pass  # the reader has gone
        finally:
            if self._file is not None:
                self._file.close()

    async def put(self, seq: int, out: Sequence[Output], err: Sequence[Output]) -> None:
        """Print the output of a job, or store it until its turn comes.

        Every number must come once, with empty outputs for a job that has none. If this is
        cancelled, the output is printed at the end of the ``with`` block.

        Args:
            out: the parts of its standard output, in order.
            err: those of its standard error.

        Raises:
            OSError: an output cannot be read or written; BrokenPipeError if the reader has gone.
        """
        early = self._in_order and seq != self._next
        parts: list[tuple[bool, Output | _Stored]] = []
        for to_error, part in [*((False, one) for one in out), *((True, one) for one in err)]:
            if not part:
                continue
            if isinstance(part, LargeOutput):
                parts.append((to_error, part))
            elif early or self._in_memory > _IN_MEMORY:
                parts.append((to_error, self._store(part)))
            else:
                self._in_memory += len(part)
                parts.append((to_error, part))
        if early:
            self._early[seq] = parts
        else:
            self._ready += parts
            self._next += 1
        while self._in_order and self._next in self._early:
            self._ready += self._early.pop(self._next)
            self._next += 1
        async with self._printing:
            while True:
                # Cancelled here, and not with a piece in hand, which would be lost.
                await trio.lowlevel.checkpoint_if_cancelled()
                if (piece := self._next_piece()) is None:
                    break
                await self._print(*piece)

    async def _print(self, stream: TextIO, data: bytes) -> None:
        if stream.isatty():
            _write(stream, data)  # through the progress line, which has replaced the stream
            await trio.lowlevel.checkpoint()
            return
        # Here, so that no piece overtakes this one, unless a thread that was left behind has it.
        held = self._writing.acquire(blocking=False)
        # In a thread, as a slow reader (a pager) must not stop the mission.
        await trio.to_thread.run_sync(self._write_held, held, stream, data, abandon_on_cancel=True)

    def _write_held(self, held: bool, stream: TextIO, data: bytes) -> None:
        if not held:
            self._writing.acquire()
        try:
            _write(stream, data)
        finally:
            self._writing.release()

    def _next_piece(self) -> tuple[TextIO, bytes] | None:
        """Return the piece to write next, and where to; None if nothing is ready."""
        while (piece := next(self._begun, None)) is None:
            if not self._ready:
                return None
            self._to_error, part = self._ready.popleft()
            if isinstance(part, _Stored):
                part = self._taken(part)
            elif isinstance(part, bytes):
                self._in_memory -= len(part)
            self._begun = pieces_of(part)
        return (sys.stderr if self._to_error else sys.stdout), piece

    def _store(self, data: bytes) -> _Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        place = _Stored(self._end, len(data))
        self._file.seek(self._end)
        self._file.write(data)
        self._end += len(data)
        self._stored += 1
        return place

    def _taken(self, place: _Stored) -> bytes:
        assert self._file is not None  # it has been stored there
        self._file.seek(place.offset)
        data = self._file.read(place.size)
        self._stored -= 1
        if not self._stored:
            self._end = 0
            self._file.truncate(0)
        return data


def _write(stream: TextIO, data: bytes) -> None:
    """Write bytes as they are; to a terminal as text, with bytes that are not UTF-8 replaced."""
    if stream.isatty() or not hasattr(stream, "buffer"):
        stream.write(data.decode(errors="replace"))
        stream.flush()
        return
    stream.flush()
    view = memoryview(data)
    while view:
        # In pieces of a pipe's size: the buffered layer would hold its lock during all of it.
        try:
            view = view[os.write(stream.fileno(), view[:65536]) :]
        except OSError as error:
            error.filename = stream.name  # for the message
            raise


def tagged(output: Output, tag: bytes) -> Output:
    """Return an output with a tag before each line."""
    if not tag or not output:
        return output
    if isinstance(output, LargeOutput):
        return replace(output, change=partial(_tagged_pieces, tag))
    return b"".join(_tagged_pieces(tag, iter((output,))))


def _tagged_pieces(tag: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    begins = True  # a line
    for piece in pieces:
        head, begins, end = (tag if begins else b""), piece.endswith(b"\n"), b""
        if begins:
            piece, end = piece[:-1], b"\n"
        yield head + piece.replace(b"\n", b"\n" + tag) + end
