"""The output of a process of a pool, passed on to the streams of this process."""

from __future__ import annotations

import codecs
import contextvars
import os
import sys
from typing import Literal

import trio

from grain.worker.errors import TAIL, last_lines

_PIPE = 64 * 1024  # bytes that fit into a pipe (pipe(7))


class OutputPipe:
    """A pipe for one output stream of a process.

    The output goes through ``sys.stdout`` or ``sys.stderr`` instead of their descriptors, so that
    it takes the way of `print` also where these were replaced, as by a progress display or a
    notebook.

    Raises:
        OSError: there are too many open files.

    Attributes:
        theirs: the descriptor to start the process with; -1 when it is closed here.
    """

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = b""
        # That of the call that prints, by which a worker's log names its task.
        self._context = contextvars.copy_context()

    def fileno(self) -> int:
        """Return the descriptor of the end here; -1 when it is closed."""
        return self._ours

    def close_theirs(self) -> None:
        """Close the descriptor that the process now has a copy of, or the pipe would not end."""
        os.close(self.theirs)
        self.theirs = -1

    @trio.lowlevel.enable_ki_protection
    async def forward(self) -> None:
        """Pass on the output until the stream has ended."""
        size: int | None = None
        while size != 0:
            await trio.lowlevel.wait_readable(self._ours)
            size = self._pass_on()

    def drain(self) -> None:
        """Pass on the output that is in the pipe already.

        No more than fits into a pipe: a process may print on without an end.
        """
        left = _PIPE if self._ours >= 0 else 0
        while left > 0 and (size := self._pass_on()):
            left -= size

    def _pass_on(self) -> int | None:
        """Pass on a piece, and return its bytes: None if there is none yet, 0 at the end."""
        try:
            data = os.read(self._ours, _PIPE)
        except BlockingIOError:
            return None
        self._tail = (self._tail + data)[-TAIL:]
        self._write(self._decoder.decode(data, final=not data))
        return len(data)

    def _write(self, text: str) -> None:
        stream = getattr(sys, self._name)
        if not text or stream is None:
            return
        try:
            self._context.run(stream.write, text)
            stream.flush()
        except (OSError, ValueError):
            pass  # closed: no call's fault; a print of this process will raise the same

    def forget(self, context: contextvars.Context) -> None:
        """Begin the tail again, as another call begins, whose caller has this context."""
        self._tail = b""
        self._context = context

    def tail(self) -> str:
        """Return the last lines since `forget`."""
        return last_lines(self._tail)

    def close(self) -> None:
        """Close the pipe; cancel `forward` before."""
        if self.theirs >= 0:
            os.close(self.theirs)
        os.close(self._ours)
        self._ours = self.theirs = -1
