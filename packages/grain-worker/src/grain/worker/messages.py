"""What a head and a worker's runner say to each other."""

from __future__ import annotations

from typing import Any

from grain.edge.messages import Message

_GIB = 1024**3


class Run(Message, frozen=True):
    """Head to worker: run a task. The payload is the call.

    Attributes:
        task: which task.
        attempt: which of its runs; no two runs have the same.
        res: the resources that the run may use: a `grain.resource.Resource` in memory, its plain
            data on a wire.
        limit: the hard time limit in seconds, None without one.
    """

    max_payload = 256 * 1024**2

    task: int
    attempt: int
    res: Any
    limit: float | None = None


class Cancel(Message, frozen=True):
    """Head to worker: end a run; `Ended` tells when it has ended."""

    task: int
    attempt: int


class Ended(Message, frozen=True):
    """Worker to head: a run has ended, nothing of it is left. The payload is its outcome.

    Attributes:
        task: which task.
        attempt: which of its runs.
        status: ``"done"``: the payload tells how; ``"cancelled"``: because the head said so.
    """

    max_payload = _GIB

    task: int
    attempt: int
    status: str = "done"
