"""Jobs as HyperQueue shows them. No I/O."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from grain.queue.states import job_state

if TYPE_CHECKING:
    from grain.queue.book import Entry
    from grain.queue.states import State

STATUSES = ("waiting", "running", "finished", "failed", "canceled", "aborted", "opened")
"""The states of jobs in HyperQueue; the last two there never are here."""

_OF_STATE: dict[State, str] = {
    "PENDING": "waiting", "RUNNING": "running", "COMPLETED": "finished", "FAILED": "failed",
    "TIMEOUT": "failed", "OUT_OF_MEMORY": "failed", "CANCELLED": "canceled", "LOST": "failed",
}  # fmt: skip


def status(entry: Entry) -> str:
    """Return the state of a job, one of `STATUSES`."""
    return _OF_STATE[job_state(entry.counts)]


def info(entry: Entry) -> dict[str, Any]:
    """Return a job as an element of ``job list`` in JSON."""
    counts = entry.counts
    stats = dict.fromkeys(STATUSES[:6], 0)
    stats |= {
        "waiting": counts.pending,
        "running": counts.running,
        "finished": counts.completed,
        "failed": counts.failed + counts.timeout + counts.memory + counts.lost,
        "canceled": counts.cancelled,
    }
    return {
        "id": entry.number,
        "name": entry.job.name,
        "task_count": entry.tasks,
        "is_open": False,
        "task_stats": stats,
        "cancel_reason": next(
            (run.message for runs in entry.runs.values() for run in runs if run.how == "cancelled"),
            None,
        ),
    }


def detail(entry: Entry) -> dict[str, Any]:
    """Return a job as an element of ``job info`` in JSON."""
    tasks = []
    for task in entry.task_numbers():
        standing = entry.standing(task, 0.0)
        one: dict[str, Any] = {"id": task or 0, "state": _OF_STATE[standing.state]}
        run = standing.run
        if run is not None and run.worker and standing.state != "PENDING":
            one |= {"started_at": _moment(run.began), "worker": run.worker}
            one |= {"finished_at": _moment(run.ended)} if run.how else {}
            one |= {"error": run.message} if run.message and standing.state != "COMPLETED" else {}
        tasks.append(one)
    return {
        "info": info(entry),
        "max_fails": None,
        "started_at": _moment(entry.job.at),  # that of the submission, as HyperQueue has it
        "finished_at": _moment(entry.ended) if entry.is_final else None,
        "submits": [],
        "tasks": tasks,
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat().replace("+00:00", "Z")
