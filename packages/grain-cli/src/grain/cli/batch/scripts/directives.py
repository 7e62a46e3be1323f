"""Lines of a script that the batch system reads: quoted so that one value stays one value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.cli.batch.base import BatchJob

# Slurm takes a "#" outside of quotes for the start of a comment, even within a word.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./^~\[\]{}-]+")


def word(text: str) -> str:
    """Quote a word as sbatch and qsub both read it: double quotes, backslashes within."""
    check(text)
    if _PLAIN.fullmatch(text):
        return text
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def check(text: str) -> None:
    """Refuse what would not stay on its line.

    Raises:
        BatchError: There is a line break or another control character in it.
    """
    if not text.isprintable():
        raise BatchError(f"{text!r} does not fit on one line of a script")


def options(job: BatchJob) -> Iterable[str]:
    """The user's own options, as they are: first those of the configuration, one line each.

    They come after Grain's own, so that they win where the batch system lets the last win.
    """
    for arg in job.script.extra_args:
        check(arg)
        if not arg:
            continue
        if not arg.startswith("-"):
            raise BatchError(
                f"script.extra_args: found {arg!r}, expected an option with its value",
                remedy="An option begins with '-', as in '--account=chem' or '-A chem'.",
            )
        yield arg
    if job.extra_args:
        yield " ".join(word(arg) for arg in job.extra_args)


def amount(memory: float, whole: str, fine: str) -> str:
    """Memory in the batch system's unit, as the user wrote it: 60 is 60G, 3.5 is 3584M."""
    if memory == int(memory):
        return f"{int(memory)}{whole}"
    return f"{max(1, int(memory * 1024))}{fine}"
