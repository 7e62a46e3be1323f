"""What jobs wrote, printed job by job: as they end, or in the order of the inputs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self


class _Held(NamedTuple):
    """Where the output of a job that waits for its turn lies in the file."""

    offset: int
    out: int
    err: int


class Output:
    """Prints the outputs of jobs, one at a time; leaving its ``with`` block prints what is held.

    Args:
        in_order: whether a job's output waits for that of all jobs with smaller numbers. What
            waits lies in a temporary file without a name, not in memory.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._in_order = in_order
        self._next = 1
        self._held: dict[int, _Held] = {}
        self._file: BinaryIO | None = None
        self._end = 0
        self._ready: deque[tuple[bytes, bytes]] = deque()
        self._printing = trio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for seq in sorted(self._held):
                self._ready.append(self._taken(seq))
            for stream, data in self._pieces():
                _write(stream, data)
        except OSError:
            pass  # nobody reads it any more
        finally:
            if self._file is not None:
                self._file.close()

    async def put(self, seq: int, out: bytes, err: bytes) -> None:
        """Print what a job wrote, or keep it until it is its turn.

        Every number comes once, with empty outputs for a job that has none to show. If this is
        cancelled, the output is printed in the end.

        Raises:
            OSError: the output cannot be written; BrokenPipeError if nobody reads it any more.
        """
        if self._in_order:
            self._hold(seq, out, err)
            while self._next in self._held:
                self._ready.append(self._taken(self._next))
                self._next += 1
            if not self._held and self._file is not None:
                self._end = 0
                self._file.truncate(0)
        else:
            self._ready.append((out, err))
        async with self._printing:
            for stream, data in self._pieces():
                await _print(stream, data)

    def _pieces(self) -> Iterator[tuple[TextIO, bytes]]:
        """What is to be written next; each piece is forgotten as it is handed out."""
        while self._ready:
            out, err = self._ready.popleft()
            if out and err:
                self._ready.appendleft((b"", err))
            yield (sys.stdout, out) if out else (sys.stderr, err)

    def _hold(self, seq: int, out: bytes, err: bytes) -> None:
        self._held[seq] = _Held(self._end, len(out), len(err))
        if out or err:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            self._file.seek(self._end)
            self._file.write(out + err)
            self._end += len(out) + len(err)

    def _taken(self, seq: int) -> tuple[bytes, bytes]:
        held = self._held.pop(seq)
        if self._file is None or not held.out + held.err:
            return b"", b""
        self._file.seek(held.offset)
        return self._file.read(held.out), self._file.read(held.err)


async def _print(stream: TextIO, data: bytes) -> None:
    if data and stream.isatty():
        _write(stream, data)  # through the line of progress, which has put itself in front
    elif data:
        # In a thread: a reader that is slow, as a pager, must not stop the mission.
        await trio.to_thread.run_sync(_write, stream, data, abandon_on_cancel=True)


def _write(stream: TextIO, data: bytes) -> None:
    """Write bytes as they are; to a terminal as text, what is none of it replaced."""
    if stream.isatty() or not hasattr(stream, "buffer"):
        stream.write(data.decode(errors="replace"))
        stream.flush()
        return
    stream.flush()
    view = memoryview(data)
    while view:
        # In pieces of a pipe's size; the buffered layer would hold its lock for all of it.
        view = view[os.write(stream.fileno(), view[:65536]) :]
