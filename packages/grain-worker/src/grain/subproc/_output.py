"""What a process prints, passed on to where this one's prints go."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Literal

import trio

_PIECE, _TAIL = 64 * 1024, 16 * 1024
_LINES = 20


class Output:
    """One stream of a process, through a pipe.

    It goes through ``sys.stdout`` or ``sys.stderr`` instead of their descriptors, so that it takes
    the way of `print` also where these were replaced, as by a progress display or a notebook.

    Args:
        name: which stream.

    Attributes:
        theirs: the descriptor to start the process with.
    """

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = b""

    def started(self) -> None:
        """The process has its own copy of the descriptor."""
        os.close(self.theirs)
        self.theirs = -1

    async def forward(self) -> None:
        """Pass on what comes, until the stream has ended."""
        while self.drain():
            await trio.lowlevel.wait_readable(self._ours)

    def drain(self) -> bool:
        """Pass on what has come; whether there may be more."""
        while self._ours >= 0:
            try:
                data = os.read(self._ours, _PIECE)
            except BlockingIOError:
                return True
            self._tail = (self._tail + data)[-_TAIL:]
            self._write(self._decoder.decode(data, final=not data))
            if not data:
                break
        return False

    def _write(self, text: str) -> None:
        stream = getattr(sys, self._name)
        if not text or stream is None:
            return
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass  # closed; it concerns no call, and a print of this process will say so

    def forget(self) -> None:
        """Begin the tail anew."""
        self._tail = b""

    def tail(self) -> str:
        """The last lines since then."""
        lines = self._tail.decode(errors="replace").splitlines()
        return "\n".join(line[:1000] for line in lines[-_LINES:])

    def close(self) -> None:
        """Read no more; cancel `forward` first."""
        if self.theirs >= 0:
            os.close(self.theirs)
        os.close(self._ours)
        self._ours = self.theirs = -1
