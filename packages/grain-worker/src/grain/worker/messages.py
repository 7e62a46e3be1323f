"""What a head and a worker's runner say to each other.

A run's payload is a `grain.worker.job.Call` in memory. On a wire it is the call's arguments, and
the function has travelled before, once, as a `Function` that the run names by its digest.
"""

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
        fn: the digest of its function; empty in memory, where the payload has the function.
    """

    max_payload = 256 * 1024**2

    task: int
    attempt: int
    res: Any
    limit: float | None = None
    fn: str = ""


class Cancel(Message, frozen=True):
    """Head to worker: end a run; `Ended` tells when it has ended."""

    task: int
    attempt: int


class Ended(Message, frozen=True):
    """Worker to head: a run has ended, nothing of it is left. The payload is its outcome.

    Attributes:
        task: which task.
        attempt: which of its runs.
        status: ``"done"``: the payload tells how; ``"cancelled"``: because the head said so;
            ``"handed back"``: because the worker leaves, it is to be run again elsewhere.
    """

    max_payload = _GIB

    task: int
    attempt: int
    status: str = "done"


class Function(Message, frozen=True):
    """Head to worker: a function that runs will name. The payload is the function.

    Attributes:
        digest: its name from now on.
    """

    max_payload = 256 * 1024**2

    digest: str


class Forget(Message, frozen=True):
    """Head to worker: no more runs of this function will come.

    Attributes:
        digest: which function.
    """

    digest: str


class Ready(Message, frozen=True):
    """Runner to agent: the context is entered, runs may come; or they will not.

    Attributes:
        error: why not; empty if all is well.
    """

    error: str = ""
