"""A machine and its batch system, as `grain init` finds them. Values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """A queue or a partition.

    Attributes:
        default: True if jobs that name none go there.
        limit: the longest run time of its jobs in seconds; None if there is none, or none known.
        cores: Cores of a node of the most frequent sort; None if it is not known.
        memory: Memory of such a node in GB, likewise.
        gpu: the kind of its GPUs; may be empty.
        nodes: the number of such nodes; 0 if it is not known.
    """

    name: str
    default: bool = False
    limit: int | None = None
    cores: int | None = None
    memory: float | None = None
    gpus: int = 0
    gpu: str = ""
    nodes: int = 0


@dataclass(frozen=True)
class Site:
    """A machine and the batch system that it can submit to.

    Attributes:
        system: the batch system, as configurations name it; ``local`` for none.
        scratch: directories for temporary files that the user may write to.
        modules: environment modules by their first names.
        cores: Cores of this machine that this process may use.
        memory: its memory in GB.
    """

    system: str
    queues: tuple[Queue, ...] = ()
    accounts: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    cores: int = 1
    memory: float = 0.0
    notes: tuple[str, ...] = ()


def preferred(queues: tuple[Queue, ...]) -> Queue | None:
    """Return the default queue; where there is none, one without GPUs that has the most nodes."""
    for queue in queues:
        if queue.default:
            return queue
    plain = [queue for queue in queues if not queue.gpus] or list(queues)
    return max(plain, key=lambda queue: queue.nodes, default=None)


def gigabytes(text: str) -> float | None:
    """Return GB of a size with a unit, as ``23.5G`` or ``4096000kb``; None if it is none.

    >>> gigabytes("23.5G"), gigabytes("4194304kb"), gigabytes("-")
    (23.5, 4.0, None)
    """
    number = text.strip().lower().removesuffix("b")
    factor = {"k": 1 / 1024**2, "m": 1 / 1024, "g": 1.0, "t": 1024.0}.get(number[-1:])
    try:
        size = float(number[:-1]) * factor if factor else float(number) / 1024**3
    except ValueError:
        return None
    return rounded(size)


def rounded(memory: float) -> float:
    """Return GB rounded down to tenths, so that no more is asked for than a node has."""
    return int(memory * 10) / 10
