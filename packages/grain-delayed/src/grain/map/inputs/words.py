"""The words of the command line after the options: a template, and the sources of its inputs.

``:::`` begins a source of values, ``::::`` one or more files of lines. Several sources give all
combinations, the first varying slowest; a source that begins with ``:::+`` or ``::::+`` is linked
to the one before it, value by value. (GNU parallel's manual, OPTIONS: ``:::`` and its siblings.)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grain.inputs.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

STDIN = "-"


@dataclass(frozen=True)
class InputSource:
    """The source of one column of the inputs, or of several if its lines are split.

    Attributes:
        values: the values themselves; None for a file.
        file: the name of a file of lines, `STDIN` for standard input; empty for values.
        linked: True if it advances with the source before it, instead of being combined.
    """

    values: tuple[str, ...] | None = None
    file: str = ""
    linked: bool = False

    @property
    def name(self) -> str:
        """The name of the source in a message."""
        if self.values is not None:
            return "the values after :::"
        return "standard input" if self.file == STDIN else self.file

    def can_be_read_twice(self) -> bool:
        """Return True for values, and for plain files."""
        return self.values is not None or (self.file != STDIN and Path(self.file).is_file())


def take_apart(
    words: Sequence[str], files: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[InputSource, ...]]:
    """Return the command template, and the sources in the order of their columns.

    Args:
        files: files of lines that options name; they come first.

    Raises:
        InputError: a source names no files, or is linked to nothing.
    """
    marks = [i for i, word in enumerate(words) if word in (":::", ":::+", "::::", "::::+")]
    command = tuple(words[: marks[0]]) if marks else tuple(words)
    sources = [InputSource(file=file) for file in files]
    for begin, end in zip(marks, [*marks, len(words)][1:], strict=True):
        mark, items = words[begin], tuple(words[begin + 1 : end])
        linked = mark.endswith("+")
        if linked and not sources:
            raise InputError(f"{mark} links a source to the one before it, and there is none")
        if not mark.startswith("::::"):
            sources.append(InputSource(values=items, linked=linked))
            continue
        if not items:
            raise InputError(f"after {mark} come the names of files of lines, - for standard input")
        sources += [InputSource(file=file, linked=linked) for file in items]
    if sum(source.file == STDIN for source in sources) > 1:
        raise InputError("standard input can be read once: name - as one source only")
    return command, tuple(sources) or (InputSource(file=STDIN),)
