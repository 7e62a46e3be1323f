"""The runs of a log as rows with named columns, one by one: for tables of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.eventlog.runs import EndedRun, RunAssembly
from grain.eventlog.schema import RunEnded
from grain.eventlog.usage import RunMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.runs import OpenTask
    from grain.eventlog.schema import AnyLine

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


_FAILURES = {"error", "crashed", "lost"}


def run_rows(lines: Iterable[AnyLine], *, mission: str = "", failed: bool = False) -> Iterator[Row]:
    """Yield a row for each run, in the order of their ends; then one for each task that is open.

    Args:
        mission: the id of the mission, as the lines do not name it.
        failed: True for only the tasks that failed, crashed or were lost.
    """
    assembly = RunAssembly()
    for line in lines:
        run = assembly.feed(line)
        if run is not None and (not failed or run.line.outcome in _FAILURES):
            yield _row(run, mission)
    if not failed:
        for task in assembly.open_tasks():
            yield _open_row(task, assembly.now, mission)


def _row(run: EndedRun, mission: str) -> Row:
    line, submission = run.line, run.submission
    usage = line.usage
    row: Row = {
        "mission": mission,
        "task": line.task,
        "function": submission.function,
        "outcome": line.outcome,
        "final": line.final,
        "attempt": line.attempt,
        "retry_of": submission.retry_of or None,
        "worker": line.worker,
        "host": line.host,
        "submitted": submission.time,
        "queued": run.queued,
        "started": run.started,
        "ended": run.ended,
        "waited_seconds": run.waited,
        "run_seconds": None if run.started is None else run.seconds,
        "cores": run.cores if "Cores" in run.request else None,
        "memory_gb": run.request.get("Memory"),
        "request": submission.request_text,
        "core_hours": run.core_seconds / 3600,
        "error": line.error,
        "message": line.message,
        "after": " ".join(map(str, submission.after)),
        "call": line.call,
        "members": " ".join(member.worker for member in line.members),
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


def _open_row(task: OpenTask, now: float, mission: str) -> Row:
    """Return the row of a task that has not ended; its state takes the place of the outcome."""
    submission = task.submission
    line = RunEnded(
        time=now,
        task=submission.task,
        outcome="value",
        worker=task.worker,
        members=tuple(RunMember(worker=name) for name in task.members[1:] and task.members),
        final=False,
    )
    row = _row(EndedRun(submission, line, task.queued, task.started, now), mission)
    state = "waiting" if task.started is None else "running"
    return {**row, "outcome": state, "attempt": None, "ended": None}
