"""Names of output files, with ``%j`` and others, as "filename pattern" in sbatch(1) has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SYMBOL = re.compile(r"%(\d*)([%AaJjNnstux])", re.ASCII)
_MOST_DIGITS = 10
_NO_TASK = 4294967294
"""The number of the task of a job that is not an array, in Slurm."""


class Facts(NamedTuple):
    """The values of the symbols.

    Attributes:
        number: the job's number.
        task: that of the task in its array; None if it is not an array.
        name: the job's.
        user: who has submitted it.
        host: where it runs; only the part before the first dot counts.
        node: its number among the job's nodes.
        rank: the number of the process, for ``%t``.
        step: the number of a step, of ``srun``; None for the script itself.
    """

    number: int
    task: int | None
    name: str
    user: str
    host: str
    node: int = 0
    rank: int = 0
    step: int | None = None


def path(pattern: str, facts: Facts, directory: str) -> Path:
    """Return the path of an output file.

    Args:
        pattern: with symbols such as ``%j``; a number after ``%`` is the least number of digits, at
            most 10. With a backslash in it, nothing is replaced, and backslashes go. Symbols that
            it does not know stay.
        facts: the values.
        directory: of the job, to which a relative path belongs.
    """
    if "\\" in pattern:
        name = pattern.replace("\\", "")
    else:
        name = _SYMBOL.sub(lambda match: _value(match[1], match[2], facts), pattern)
    return Path(directory, name)


def _value(width: str, symbol: str, facts: Facts) -> str:
    def digits(number: int) -> str:
        return str(number).zfill(min(int(width or 0), _MOST_DIGITS))

    # A name is one part of a path, whatever the user has put into it.
    match symbol:
        case "j" | "A":
            return digits(facts.number)
        case "a":
            return digits(_NO_TASK if facts.task is None else facts.task)
        case "J":
            return digits(facts.number) + ("" if facts.step is None else f".{facts.step}")
        case "s":
            return "batch" if facts.step is None else digits(facts.step)
        case "n":
            return digits(facts.node)
        case "t":
            return digits(facts.rank)
        case "N":
            return facts.host.partition(".")[0].replace("/", "_")
        case "u":
            return facts.user.replace("/", "_")
        case "x":
            return facts.name.replace("/", "_")
        case _:
            return "%"
