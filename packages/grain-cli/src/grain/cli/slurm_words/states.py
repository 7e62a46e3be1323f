"""States and reasons, as Slurm has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.queue.records import DEADLINE

if TYPE_CHECKING:
    from grain.queue.book import Block
    from grain.queue.states import Standing

COMPACT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "CANCELLED": "CA",
    "FAILED": "F", "TIMEOUT": "TO", "OUT_OF_MEMORY": "OOM", "NODE_FAIL": "NF", "DEADLINE": "DL",
}  # fmt: skip
"""The states of jobs here, with their short names."""

OPEN = frozenset({"PENDING", "RUNNING", "COMPLETING"})
"""The states of tasks that have not ended."""

# Those that there never are here are known, too.
_OTHERS = {
    "SUSPENDED": "S", "PREEMPTED": "PR", "BOOT_FAIL": "BF", "CONFIGURING": "CF",
    "RESIZING": "RS", "RESV_DEL_HOLD": "RD", "REQUEUED": "RQ", "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH", "REVOKED": "RV", "SIGNALING": "SI", "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO", "STOPPED": "ST",
}  # fmt: skip
VALID = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,"
    "DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,"
    "REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED"
)
"""All states, as messages list them."""

_REASONS = {
    "": "Resources",
    "held": "JobHeldUser",
    "cancel": "None",
    "dependency": "Dependency",
    "never": "DependencyNeverSatisfied",
    "begin time": "BeginTime",
    "array limit": "JobArrayTaskLimit",
}
_ENDS = {
    "FAILED": "NonZeroExitCode",
    "TIMEOUT": "TimeLimit",
    "OUT_OF_MEMORY": "OutOfMemory",
    "NODE_FAIL": "NodeDown",
    "DEADLINE": "DeadLine",
}


def state_of(standing: Standing, *, cancelled: bool) -> str:
    """Return the state of a task.

    Args:
        standing: its state in the queue.
        cancelled: True if its cancellation is asked for.
    """
    if standing.state == "RUNNING" and cancelled:
        return "COMPLETING"
    if standing.state == "CANCELLED" and standing.run and standing.run.by == DEADLINE:
        return "DEADLINE"
    return "NODE_FAIL" if standing.state == "LOST" else standing.state


def reason_of(standing: Standing, *, dispatched: bool, block: Block | None = None) -> str:
    """Return the reason of a task.

    Args:
        standing: its state in the queue.
        dispatched: True if the queue has a dispatcher.
        block: why it never begins; None if it may, or has.
    """
    if standing.state == "PENDING":
        if block is not None:
            own = block.why and not block.by_way_of
            return "PartitionNodeLimit" if own else "DependencyNeverSatisfied"
        if not standing.reason and not dispatched:
            return "QueueNotRunning"
        return _REASONS[standing.reason]
    if standing.run is not None and standing.run.how in ("start", "signal"):
        return "JobLaunchFailure"
    return _ENDS.get(state_of(standing, cancelled=False), "None")


def states_named(text: str) -> frozenset[str]:
    """Return the states that a list of names means, short or long; all for ``all``.

    Raises:
        ValueError: one is none; it is the argument.
    """
    names = {**COMPACT, **_OTHERS}
    short = {brief: name for name, brief in names.items()}
    found = set()
    for word in text.upper().split(","):
        if word == "ALL":
            return frozenset(names)
        if word not in names and word not in short:
            raise ValueError(word)
        found.add(short.get(word, word))
    return frozenset(found)
