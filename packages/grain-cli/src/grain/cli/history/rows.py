"""The runs of a log as rows with named columns, one by one: for tables of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.facts.fold import Fold
from grain.facts.rows import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Run

Row = dict[str, Any]

RUN_COLUMNS: dict[str, type] = {
    "mission": str,
    "task": int,
    "function": str,
    "outcome": str,
    "final": bool,
    "attempt": int,
    "retry_of": int,
    "worker": str,
    "host": str,
    "submitted": float,
    "queued": float,
    "started": float,
    "ended": float,
    "waited_seconds": float,
    "run_seconds": float,
    "cores": float,
    "memory_gb": float,
    "request": str,
    "core_hours": float,
    "cpu_user_seconds": float,
    "cpu_system_seconds": float,
    "peak_memory_gb": float,
    "memory_measured_by": str,
    "read_gb": float,
    "written_gb": float,
    "programs": int,
    "exit_statuses": str,
    "error": str,
    "message": str,
    "after": str,
    "call": str,
    "members": str,
}
"""The columns of `run_rows` with their types; each may lack a value."""


def run_rows(lines: Iterable[AnyLine], *, mission: str = "", failed: bool = False) -> Iterator[Row]:
    """Yield a row for each run, in the order of their ends; then one for each task that is open.

    Args:
        mission: the id of the mission, as the lines do not name it.
        failed: True for only the tasks that failed, crashed or were lost.
    """
    fold = Fold()
    for line in lines:
        run = fold.feed(line)
        if run is not None and (not failed or run.state in FAILURES):
            yield _row(run, mission)
    if not failed:
        for task in fold.open_tasks():
            yield {**_row(task.now(fold.now), mission), "attempt": None, "ended": None}


def _row(run: Run, mission: str) -> Row:
    usage = run.usage
    row: Row = {
        "mission": mission,
        "task": run.task,
        "function": run.function,
        "outcome": run.state,
        "final": run.final,
        "attempt": run.attempt,
        "retry_of": run.retry_of or None,
        "worker": run.worker,
        "host": run.host,
        "submitted": run.submitted,
        "queued": run.queued,
        "started": run.started,
        "ended": run.ended,
        "waited_seconds": run.waited,
        "run_seconds": None if run.started is None else run.seconds,
        "cores": run.cores if "Cores" in run.request else None,
        "memory_gb": run.request.get("Memory"),
        "request": run.asked,
        "core_hours": run.core_seconds / 3600,
        "error": run.error,
        "message": run.message,
        "after": " ".join(map(str, run.after)),
        "call": run.call,
        "members": " ".join(one.worker for one in run.members) if len(run.members) > 1 else "",
    }
    if usage is not None:
        measured = usage.measured_by != "none"
        statuses = (f"{status}:{count}" for status, count in sorted(usage.exit_statuses.items()))
        row |= {
            "cpu_user_seconds": usage.user,
            "cpu_system_seconds": usage.system,
            "peak_memory_gb": usage.peak_memory if measured else None,
            "memory_measured_by": usage.measured_by,
            "read_gb": usage.read,
            "written_gb": usage.written,
            "programs": usage.programs,
            "exit_statuses": " ".join(statuses),
        }
    return {name: row.get(name) for name in RUN_COLUMNS}
