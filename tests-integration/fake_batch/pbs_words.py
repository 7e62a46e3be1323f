"""Values as PBS writes them: resources, arrays, ids of jobs."""

from __future__ import annotations

import re
from typing import NamedTuple

from fake_batch.words import Refused

# A job's or an array's number, the index in brackets, and the server.
_ID = re.compile(r"(\d+)(\[(\d*)\])?(\.pbs)?")


class Id(NamedTuple):
    """The id of a job on a command line.

    Attributes:
        number: Of a job or an array.
        array: Whether an array or one of its subjobs is meant.
        task: Index of a subjob; None for the array, or for a plain job.
    """

    number: int
    array: bool
    task: int | None

    def __str__(self) -> str:
        """As PBS writes it."""
        task = "" if self.task is None else self.task
        return f"{self.number}{f'[{task}]' if self.array else ''}.pbs"


def id_of(text: str) -> Id | None:
    """Read an id; None if it is none that this fake understands, as a range of subjobs."""
    match = _ID.fullmatch(text)
    if not match:
        return None
    return Id(int(match[1]), match[2] is not None, int(match[3]) if match[3] else None)


def array_of(text: str) -> tuple[list[int], int]:
    """Indices of ``X-Y[:Z][%N]``, and how many may run at a time; 0 for any number.

    A range of one index is none. (PBS Professional's User's Guide, "Job arrays".)
    """
    match = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?", text)
    if not match or int(match[1]) >= int(match[2]) or match[3] == "0" or match[4] == "0":
        raise Refused("qsub: illegal -J value", 2)
    return list(range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))), int(match[4] or 0)


def resources_of(given: list[str]) -> dict[str, float]:
    """Return the resources that -l asks for: seconds, MiB and cores of each node, nodes.

    Raises:
        Refused: An item is not known.
    """
    amounts: dict[str, float] = {}
    items = [item for text in given for item in re.split(r"[,:]", re.sub(_CLOCK, _seconds, text))]
    for item in items:
        name, _, value = item.partition("=")
        if name in {"select", "nodes"}:
            amounts["nodes"] = int(value)
        elif name == "place":
            if value != "scatter":
                raise Refused("qsub: this is a fake, which scatters jobs of several nodes only", 2)
        elif name in {"ncpus", "ppn"}:
            amounts["ncpus"] = int(value)
        elif name == "mem":
            amounts["mem"] = _megabytes(value)
        elif name == "walltime":
            amounts["walltime"] = float(value)
        else:
            raise Refused(f"qsub: Unknown resource: Resource_List.{name}", 170)
    return amounts


_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)")


def _seconds(match: re.Match[str]) -> str:
    return str(int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]))


def _megabytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)(kb|mb|gb)", text)
    if not match:
        raise Refused(f"qsub: Illegal attribute or resource value: Resource_List.mem {text}", 2)
    return max(1, int(int(match[1]) * {"kb": 1 / 1024, "mb": 1, "gb": 1024}[match[2]]))
