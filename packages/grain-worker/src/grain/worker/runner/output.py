"""Standard output and error of a runner, which many runs share.

Each line that a run prints or logs begins with the run: ``sweep:17 (a1b2c3d4) energy | converged``,
with the beginning of the mission's id, as others may have its name. A line is
written as soon as it is complete, so that a crash loses none, and in one piece, so that those of
other runs do not break it; what a run leaves without an end of line is written when the run ends.

Lines that cannot be written, as on a full disk, are counted: no task fails for them.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from grain import GVAR
from grain.worker.call import RunSettings, name_of
from grain.worker.logs import PatientWriter
from grain.worker.pickling.files import reduce_file, reduce_standard

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, TextIO

    from grain.worker.messages import Attempt

_LONGEST = 64 * 1024  # characters of a line; a longer one is written in pieces


class LabelledOutput(io.TextIOBase):
    """A text stream that takes the place of standard output or error.

    What no run prints passes without a label. So does what goes to ``buffer``, as bytes.

    Args:
        echo: called with the lines of each run whose mission wants them, and with the run; it
            returns at once. None where no mission can want them.
    """

    def __init__(
        self, stream: TextIO, echo: Callable[[Attempt, list[str]], object] | None = None
    ) -> None:
        self._stream = stream
        self._echo = echo
        self._writer = PatientWriter(stream.fileno())
        # The label of each run that has begun a line, what it has of it, and whether its mission
        # wants it.
        self._begun: dict[Attempt, tuple[str, str, bool]] = {}
        self._lock = threading.Lock()  # as runs print from threads, too

    def __reduce__(self) -> Any:
        """Return the reduction of the stream itself: results and exceptions may refer to this."""
        return reduce_standard(self._stream) or reduce_file(self._stream)

    def write(self, text: str, /) -> int:
        """Write what is complete of the run's line, and keep the rest."""
        run = GVAR.surroundings
        if not isinstance(run, RunSettings):
            with self._lock:
                self._writer.write(text.encode(self.encoding, "backslashreplace"))
            return len(text)
        with self._lock:
            label, begun, _ = self._begun.pop(run.attempt, ("", "", False))
            label = label or f"{run.label} {name_of(run.function)} | "
            *lines, rest = f"{begun}{text}".split("\n")
            if len(rest) > _LONGEST:
                lines, rest = [*lines, rest], ""
            if rest:
                self._begun[run.attempt] = label, rest, run.echo
            self._write_lines(label, lines)
            if run.echo and lines and self._echo is not None:
                self._echo(run.attempt, [f"{label}{line}" for line in lines])
        return len(text)

    def end(self, attempt: Attempt) -> None:
        """Write what a run has left without an end of line: the run has ended."""
        with self._lock:
            if attempt in self._begun:
                label, rest, wanted = self._begun.pop(attempt)
                self._write_lines(label, [rest])
                if wanted and self._echo is not None:
                    self._echo(attempt, [f"{label}{rest}"])

    def _write_lines(self, label: str, lines: list[str]) -> None:
        if lines:
            text = "".join(f"{label}{line}\n" for line in lines)
            self._writer.write(text.encode(self.encoding, "backslashreplace"))

    def flush(self) -> None:
        """Flush what was written as bytes; lines are never held back."""
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: other runs print, too."""

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return True for a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def buffer(self) -> BinaryIO:
        """The stream of bytes."""
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding."""
        return self._stream.encoding or "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """The way of characters that the encoding lacks."""
        return "backslashreplace"

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._stream.name


class RunnerOutput:
    """Standard output and error of this process, with labels from now on."""

    def __init__(self, echo: Callable[[Attempt, list[str]], object] | None = None) -> None:
        self._streams: list[LabelledOutput] = []
        # A stream is None in a process that was started without the descriptor.
        if sys.stdout is not None:
            self._streams.append(out := LabelledOutput(sys.stdout, echo))
            sys.stdout = cast("TextIO", out)
        if sys.stderr is not None:
            self._streams.append(err := LabelledOutput(sys.stderr, echo))
            sys.stderr = cast("TextIO", err)
        # The handler of programs that configure no logging: as theirs do, it writes to sys.stderr.
        if logging.lastResort is not None:
            logging.lastResort.setFormatter(
                logging.Formatter("%(levelname)s %(name)s: %(message)s")
            )

    def end(self, attempt: Attempt) -> None:
        """Take the end of a run."""
        for stream in self._streams:
            stream.end(attempt)
