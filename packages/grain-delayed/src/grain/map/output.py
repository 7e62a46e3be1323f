"""The outputs of jobs, printed one job at a time: as they end, or in the order of the inputs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class _Stored(NamedTuple):
    """The place in the file of the output of a job that waits for its turn."""

    offset: int
    out: int
    err: int


class OutputPrinter:
    """A printer of the outputs of jobs; leaving its ``with`` block prints the waiting ones.

    Args:
        in_order: if true, a job's output waits for that of all jobs with smaller numbers. Outputs
            that wait are stored in a temporary file without a name, not in memory.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._in_order = in_order
        self._next = 1
        self._stored: dict[int, _Stored] = {}
        self._file: BinaryIO | None = None
        self._end = 0
        self._ready: deque[tuple[bytes, bytes]] = deque()
        self._printing = trio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for seq in sorted(self._stored):
                self._ready.append(self._taken(seq))
            for stream, data in self._pieces():
                _write(stream, data)
        except OSError:
            pass  # the reader has gone
        finally:
            if self._file is not None:
                self._file.close()

    async def put(self, seq: int, out: bytes, err: bytes) -> None:
        """Print the output of a job, or store it until its turn comes.

        Every number must come once, with empty outputs for a job that has none. If this is
        cancelled, the output is printed at the end of the ``with`` block.

        Raises:
            OSError: the output cannot be written; BrokenPipeError if the reader has gone.
        """
        if self._in_order:
            self._store(seq, out, err)
            while self._next in self._stored:
                self._ready.append(self._taken(self._next))
                self._next += 1
            if not self._stored and self._file is not None:
                self._end = 0
                self._file.truncate(0)
        else:
            self._ready.append((out, err))
        async with self._printing:
            for stream, data in self._pieces():
                await _print(stream, data)

    def _pieces(self) -> Iterator[tuple[TextIO, bytes]]:
        """Yield the pieces to write next; a piece that was yielded is not yielded again."""
        while self._ready:
            out, err = self._ready.popleft()
            if out and err:
                self._ready.appendleft((b"", err))
            yield (sys.stdout, out) if out else (sys.stderr, err)

    def _store(self, seq: int, out: bytes, err: bytes) -> None:
        self._stored[seq] = _Stored(self._end, len(out), len(err))
        if out or err:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            self._file.seek(self._end)
            self._file.write(out + err)
            self._end += len(out) + len(err)

    def _taken(self, seq: int) -> tuple[bytes, bytes]:
        place = self._stored.pop(seq)
        if self._file is None or not place.out + place.err:
            return b"", b""
        self._file.seek(place.offset)
        return self._file.read(place.out), self._file.read(place.err)


async def _print(stream: TextIO, data: bytes) -> None:
    if data and stream.isatty():
        _write(stream, data)  # through the progress line, which has replaced the stream
    elif data:
        # In a thread, as a slow reader (a pager) must not stop the mission.
        await trio.to_thread.run_sync(_write, stream, data, abandon_on_cancel=True)


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


def tagged(data: bytes, tag: bytes) -> bytes:
    """Return an output with a tag before each line."""
    if not tag or not data:
        return data
    end = b"\n" if data.endswith(b"\n") else b""
    return tag + data.removesuffix(b"\n").replace(b"\n", b"\n" + tag) + end
