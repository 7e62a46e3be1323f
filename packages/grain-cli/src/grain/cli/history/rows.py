"""The runs of a log as rows with named columns, one by one: for tables of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.columns import Column
from grain.facts.fold import Fold
from grain.facts.rows import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import MemberUsage
    from grain.facts.rows import Run

_OPEN = ("waiting", "running")


def listed_runs(lines: Iterable[AnyLine], *, failed: bool = False) -> Iterator[Run]:
    """Yield the runs in the order of their ends; then a run for each task that is open.

    Args:
        failed: True for only the tasks that failed, crashed or were lost.
    """
    fold = Fold()
    for line in lines:
        run = fold.feed(line)
        if run is not None and (not failed or run.state in FAILURES):
            yield run
    if not failed:
        for task in fold.open_tasks():
            yield task.now(fold.now)


def run_columns(mission: str = "") -> tuple[Column[Run], ...]:
    """Return the columns of runs; each may lack a value.

    Args:
        mission: the id of the mission, as its lines do not name it.
    """
    return (Column("mission", lambda _: mission), *_COLUMNS)


def _exit_statuses(run: Run) -> str | None:
    if run.usage is None:
        return None
    return " ".join(f"{one}:{count}" for one, count in sorted(run.usage.exit_statuses.items()))


def _peak(run: Run) -> float | None:
    measured = run.usage is not None and run.usage.measured_by != "none"
    return run.usage.peak_memory if run.usage is not None and measured else None


def _of_members(run: Run, amount: Callable[[MemberUsage], float]) -> str | None:
    """Return the amounts of each of several workers, in the order of the column ``members``."""
    return (
        None if run.usage is None else " ".join(f"{amount(one):.6g}" for one in run.usage.members)
    )


_COLUMNS: tuple[Column[Run], ...] = (
    Column("task", lambda run: run.task, kind=int),
    Column("function", lambda run: run.function),
    Column("outcome", lambda run: run.state),
    Column("final", lambda run: run.final, kind=bool),
    Column("attempt", lambda run: None if run.state in _OPEN else run.attempt, kind=int),
    Column("retry_of", lambda run: run.retry_of or None, kind=int),
    Column("worker", lambda run: run.worker),
    Column("host", lambda run: run.host),
    Column("submitted", lambda run: run.submitted, kind=float),
    Column("queued", lambda run: run.queued, kind=float),
    Column("started", lambda run: run.started, kind=float),
    Column("ended", lambda run: None if run.state in _OPEN else run.ended, kind=float),
    Column("waited_seconds", lambda run: run.waited, kind=float),
    Column("run_seconds", lambda run: None if run.started is None else run.seconds, kind=float),
    Column("cores", lambda run: run.cores if "Cores" in run.request else None, kind=float),
    Column("memory_gb", lambda run: run.request.get("Memory"), kind=float),
    Column("request", lambda run: run.asked),
    Column("core_hours", lambda run: run.core_seconds / 3600, kind=float),
    Column("cpu_user_seconds", lambda run: run.usage and run.usage.user, kind=float),
    Column("cpu_system_seconds", lambda run: run.usage and run.usage.system, kind=float),
    Column("peak_memory_gb", _peak, kind=float),
    Column("memory_measured_by", lambda run: run.usage and run.usage.measured_by),
    Column("read_gb", lambda run: run.usage and run.usage.read, kind=float),
    Column("written_gb", lambda run: run.usage and run.usage.written, kind=float),
    Column("programs", lambda run: run.usage and run.usage.programs, kind=int),
    Column("exit_statuses", _exit_statuses),
    Column("error", lambda run: run.failure.error),
    Column("message", lambda run: run.failure.message),
    Column("after", lambda run: " ".join(map(str, run.after))),
    Column("call", lambda run: run.call),
    Column(
        "members",
        lambda run: " ".join(one.worker for one in run.members) if len(run.members) > 1 else "",
    ),
    Column("members_cpu_seconds", lambda run: _of_members(run, lambda one: one.cpu)),
    Column("members_peak_memory_gb", lambda run: _of_members(run, lambda one: one.peak_memory)),
)
