"""The lines of a script that the batch system reads, quoted so that one value stays one value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.errors import BatchError
from grain.config import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    """Refuse a text that would not stay on its line.

    Raises:
        BatchError: the text has a line break or another control character.
    """
    if not text.isprintable():
        raise BatchError(f"{text!r} does not fit on one line of a script")


# Options by which users ask for GPUs themselves, in any spelling; not the name of a queue.
_OF_GPUS = re.compile(
    r"^(?!--partition|-[pqC]|--constraint).*?\b(n?gpus?|gres|request_gpus|gpus-per-\w+)\b"
    r"|^-[gG]\s*\d",
    re.IGNORECASE,
)


def gpus_of(job: BatchJob) -> int:
    """Return the GPUs of each node to ask for; 0 if the user's own options ask for some."""
    gpus = job.script.gpus if isinstance(job.script, Shape) else None
    own = (*job.script.extra_args, *job.extra_args)
    return 0 if any(map(_OF_GPUS.search, own)) else gpus or 0


def refuse_gpus(job: BatchJob, why: str, remedy: str) -> None:
    """Refuse a shape whose GPUs no line of the script would ask for.

    Raises:
        BatchError: it has some.
    """
    if gpus := gpus_of(job):
        name = job.script.name if isinstance(job.script, Shape) else ""
        raise BatchError(f"gpus = {gpus} of shape {name!r}: {why}", remedy=remedy)


def plain_name(name: str) -> str:
    """Return a job's name without characters that have a meaning for some batch system.

    >>> plain_name("a b/c[1]")
    'a_b_c_1_'
    """
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)


def options(
    job: BatchJob, *, typed: bool = True, quote: Callable[[str], str] = word
) -> Iterable[str]:
    """Yield the user's own options unchanged: those of the configuration first, one line each.

    They come after Grain's own options, so that they win where the last option wins.

    Args:
        typed: True to add those of the command line, as the last line.
        quote: quotes one of these as the batch system reads it.
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
    if job.extra_args and typed:
        yield " ".join(quote(arg) for arg in job.extra_args)


def whole(job: BatchJob, mark: str, lines: Iterable[str], body: str) -> str:
    """Return a script: its first line, lines for the batch system behind their mark, its body."""
    return "\n".join([job.script.shebang, *(f"{mark} {line}" for line in lines)]) + f"\n\n{body}"


def amount(memory: float, whole: str, fine: str) -> str:
    """Format memory (GB) in the batch system's unit: 60 is 60G, and 3.5 is 3584M."""
    if memory == int(memory):
        return f"{int(memory)}{whole}"
    return f"{max(1, int(memory * 1024))}{fine}"
