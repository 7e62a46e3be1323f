"""What a process prints, passed on to where this one's prints go."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Literal

import trio

_PIPE = 64 * 1024  # bytes that fit into a pipe (pipe(7))
_TAIL = 16 * 1024
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

    @trio.lowlevel.enable_ki_protection
    async def forward(self) -> None:
        """Pass on what comes, until the stream has ended."""
        more: int | None = 1
        while more != 0:
            await trio.lowlevel.wait_readable(self._ours)
            more = self._pass_on()

    def drain(self) -> None:
        """Pass on what has come, no more than fits into a pipe: it may come without an end."""
        left = _PIPE if self._ours >= 0 else 0
        while left > 0 and (done := self._pass_on()):
            left -= done

    def _pass_on(self) -> int | None:
        """Pass on a piece; how many bytes, None if there is nothing yet, 0 at the end."""
        try:
            data = os.read(self._ours, _PIPE)
        except BlockingIOError:
            return None
        self._tail = (self._tail + data)[-_TAIL:]
        self._write(self._decoder.decode(data, final=not data))
        return len(data)

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
