"""Summaries of logs, as text for display and as plain data for programs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from grain.cli.columns import Column, rows_text
from grain.cli.show import clean, folded, typed
from grain.edge.questions import NeedRow
from grain.resource.figures import amount, clock, counted, middle, minute, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.cli.history.summary import LogSummary
    from grain.facts.rows import Cause, Function, GroupRuns

_SHORT_ID = 8
_CAUSES = 20
_MESSAGE = 300
_CALLS = 3  # that are shown of a cause


class ListedMission(NamedTuple):
    """A mission in a list.

    Attributes:
        label: what `grain missions` calls it; "" for nothing.
        state: a word.
        summary: its log's.
        total: of all functions together.
    """

    label: str
    state: str
    summary: LogSummary
    total: Function

    @classmethod
    def of(cls, label: str, state: str, summary: LogSummary) -> ListedMission:
        """Return a mission by its summary."""
        return cls(label, state, summary, summary.total)


MISSIONS_DATA: tuple[Column[ListedMission], ...] = (
    Column("name", lambda one: one.summary.name),
    Column("id", lambda one: one.summary.id),
    Column("state", lambda one: one.state),
    Column("began", lambda one: one.summary.began, kind=float),
    Column("seconds", lambda one: one.summary.seconds, kind=float),
    Column("host", lambda one: one.summary.host),
    Column("directory", lambda one: one.summary.directory),
    Column("command", lambda one: typed(one.summary.command)),
    Column("label", lambda one: one.label),
    Column("tasks", lambda one: one.total.tasks, kind=int),
    Column("done", lambda one: one.total.done, kind=int),
    Column("failed", lambda one: one.total.failed, kind=int),
    Column("cached", lambda one: one.total.cached, kind=int),
    Column("cancelled", lambda one: one.total.cancelled, kind=int),
    Column("running", lambda one: one.total.running, kind=int),
    Column("waiting", lambda one: one.total.waiting, kind=int),
    Column("retried_runs", lambda one: one.total.retried, kind=int),
    Column("lost_runs", lambda one: one.summary.lost_runs, kind=int),
    Column("workers", lambda one: one.summary.workers, kind=int),
    Column("core_hours", lambda one: one.total.core_hours, kind=float),
    Column("wasted_core_hours", lambda one: one.total.wasted_core_hours, kind=float),
    Column("cpu_hours", lambda one: one.total.cpu_hours, kind=float),
    Column("peak_memory_gb", lambda one: one.total.peak_memory, kind=float),
)
_MISSIONS: tuple[Column[ListedMission], ...] = (
    Column("NAME", lambda one: one.label or one.summary.name, least=5),
    Column("BEGAN", lambda one: one.summary.began, minute, rank=1, under="began {}"),
    Column("TOOK", lambda one: one.summary.seconds, clock, rank=1, under="took {}"),
    Column("STATE", lambda one: one.state),
    Column("DONE", lambda one: one.total.done),
    Column("FAILED", lambda one: one.total.failed),
    Column("CORE-HOURS", lambda one: one.total.core_hours, amount, rank=1,
           under="{} core-hours"),
)  # fmt: skip


def missions_text(
    missions: Iterable[ListedMission], unreadable: Sequence[str], most: int | None
) -> str:
    """Format missions as a table of at most so many columns; None for no limit."""
    lines = [one for sentence in unreadable for one in folded(clean(sentence), most)]
    text = rows_text("MISSIONS", _MISSIONS, missions, most, _below_mission)
    return text + "".join(f"{line}\n" for line in lines)


def _below_mission(mission: ListedMission) -> Sequence[str]:
    summary, cached = mission.summary, mission.total.cached
    command = typed(summary.command) or "an unknown command"
    where = f" on {summary.host}" if summary.host else ""
    more = [f"{cached} of those done are from the cache"] if cached else []
    return *more, f"{summary.id[:_SHORT_ID]}{where}: {command}"


def mission_data(state: str, summary: LogSummary) -> dict[str, Any]:
    """Return everything about a mission as plain data."""
    data: dict[str, Any] = msgspec.to_builtins(summary)
    return {
        **data,
        "causes": list(map(cause_data, summary.causes)),
        "functions": {
            name: {**function_data(one), "learned": list(map(_need, one.learned.values()))}
            for name, one in summary.functions.items()
        },
        "state": state,
        "seconds": summary.seconds,
        "total": function_data(summary.total),
    }


def summary_text(state: str, summary: LogSummary, most: int | None) -> str:
    """Format the counts of a mission by function and outcome."""
    functions = sorted(summary.functions.values(), key=lambda one: -one.core_hours)
    parts = [
        _paragraph(_headline(state, summary), most),
        rows_text("FUNCTIONS", _FUNCTIONS, functions, most, _below_function)
        or "No task was submitted.\n",
        _paragraph(_remarks(summary), most),
    ]
    return "\n".join(part for part in parts if part)


def failures_text(summary: LogSummary, most: int | None, word: str = "NAME") -> str:
    """Format the failures of a mission by cause, the most frequent first."""
    if not summary.causes:
        return f"No run of {clean(summary.name)} has failed.\n"
    text = rows_text("FAILURES", _FAILURES, summary.causes[:_CAUSES], most, _below_cause)
    rest = summary.causes[_CAUSES:]
    if rest:
        count = sum(cause.runs for cause in rest)
        causes = counted(len(rest), "other cause")
        more = f"{counted(count, 'more run')} failed for {causes}; --json has all of them"
        text += _paragraph([more], most)
    if any(one.call for cause in summary.causes for one in cause.calls.values()):
        # A command that is folded could not be copied.
        text += f"\nThe calls that failed, one in a line: grain history --calls {clean(word)}\n"
    return text


def _headline(state: str, summary: LogSummary) -> list[str]:
    total = summary.total
    where = f" on {summary.host}" if summary.host else ""
    command = typed(summary.command) or "an unknown command"
    within = f", in {summary.directory}" if summary.directory else ""
    counts = [
        f"{total.done} done{_from_cache(total)}",
        f"{total.failed} failed",
        *(
            f"{count} {word}"
            for count, word in (
                (total.cancelled, "cancelled"),
                (total.running, "running" if state == "running" else "running at the end"),
                (total.waiting, "waiting" if state == "running" else "waiting at the end"),
            )
            if count
        ),
    ]
    began, took = minute(summary.began), clock(summary.seconds)
    lines = [
        f"{summary.name} ({summary.id[:_SHORT_ID]}): {state}, began {began}{where}, took {took}",
        f"  {command}{within}",
        f"  {counted(total.tasks, 'task')}: {', '.join(counts)}",
    ]
    if total.retried or summary.lost_runs:
        lines.append(
            f"  {counted(total.retried, 'run')} after a failure or a loss; "
            f"{counted(summary.lost_runs, 'run')} lost with workers"
        )
    used = f"  {amount(total.core_hours)} core-hours on {counted(summary.workers, 'worker')}"
    if total.wasted_core_hours:
        used += f", {amount(total.wasted_core_hours)} of them in runs that returned no value"
    if total.cpu_hours and total.core_hours:
        used += f"; programs computed in {percent(total.cpu_hours / total.core_hours)} of the time"
    lines.append(used)
    if summary.message:
        lines.append(f"  it ended with {summary.message}")
    return lines


def function_data(one: Function) -> dict[str, Any]:
    """Return the sums of a function as plain data."""
    return {
        "tasks": one.tasks, "done": one.done, "cached": one.cached, "failed": one.failed,
        "cancelled": one.cancelled, "running": one.running, "waiting": one.waiting,
        "retried": one.retried, "runs": one.seconds.count, "seconds": one.seconds.total,
        "longest": one.seconds.most, "waited": one.waited.total + one.never_ran.total,
        "core_hours": one.core_hours, "wasted_core_hours": one.wasted_core_hours,
        "cpu_hours": one.cpu_hours,
        "peak_memory": one.peak_memory, "memory": one.most_memory,
    }  # fmt: skip


def _from_cache(one: Function) -> str:
    return f" ({one.cached} from the cache)" if one.cached else ""


def _memory(one: Function) -> str:
    peak, asked = one.peak_memory, one.most_memory
    if asked is not None:
        return f"{'?' if peak is None else amount(peak)} of {amount(asked)} GB"
    return "-" if peak is None else f"{amount(peak)} GB"


_FUNCTIONS: tuple[Column[Function], ...] = (
    Column("FUNCTION", lambda one: one.name or "(unknown)", least=5),
    Column("DONE", lambda one: one.done),
    Column("FAILED", lambda one: one.failed),
    Column("MEAN", lambda one: one.seconds.mean if one.seconds.count else None, clock, rank=1,
           under="mean {}"),
    Column("LONGEST", lambda one: one.seconds.most if one.seconds.count else None, clock, rank=1,
           under="longest {}"),
    Column("MEMORY", _memory, rank=1, under="memory {}"),
    Column("CORE-HOURS", lambda one: one.core_hours, amount, rank=1, under="{} core-hours"),
)  # fmt: skip


def _below_function(one: Function) -> Sequence[str]:
    others = (
        (one.cancelled, "cancelled"), (one.running, "running"), (one.waiting, "waiting"),
    )  # fmt: skip
    other = ", ".join(f"{count} {word}" for count, word in others if count)
    more = [f"{one.cached} of those done are from the cache"] if one.cached else []
    more += [f"and {other}"] if other else []
    return more + one.explained


def _need(one: GroupRuns) -> dict[str, Any]:
    """Return what a group has learned by the log of a mission, as `grain needs --json` has it."""
    row = NeedRow(
        group=one.group,
        runs=one.runs,
        exceeded=one.exceeded,
        median=middle(one.peaks) if one.peaks else None,
        largest=max(one.peaks) if one.peaks else None,
        asks=one.asks,
        text=one.text,
    )
    data: dict[str, Any] = msgspec.to_builtins(row)
    return data


_FAILURES: tuple[Column[Cause], ...] = (
    Column("FUNCTION", lambda cause: cause.first.function or "(unknown)", least=5),
    Column("RUNS", lambda cause: cause.runs),
    Column("TRIED AGAIN", lambda cause: cause.again),
    Column("FIRST TASK", lambda cause: cause.first.task),
)


def _below_cause(cause: Cause) -> Sequence[str]:
    # What matters first; the whole message stands below it.
    more = [cause.how]
    if not cause.how.endswith(cause.first.failure.message):
        more.append(f"as in: {cause.first.failure.message[:_MESSAGE]}")
    if len(cause.workers) == 1 and cause.runs > 1 and (worker := next(iter(cause.workers))):
        more.append(f"all of them on {worker}")
    if calls := [one.call for one in cause.calls.values() if one.call]:
        others = cause.final - min(len(calls), _CALLS)
        rest = f" and {others} more" if others else ""
        more.append(f"calls: {', '.join(calls[:_CALLS])}{rest}")
    return more


def cause_data(cause: Cause) -> dict[str, Any]:
    """Return a cause as plain data."""
    return {
        "function": cause.first.function, "error": cause.kind,
        "pattern": cause.first.failure.pattern,
        "runs": cause.runs, "final": cause.final, "first": cause.first.task,
        "example": cause.first.failure.message, "workers": cause.workers,
        "calls": [{"task": one.task, "call": one.call} for one in cause.calls.values()],
    }  # fmt: skip


def _remarks(summary: LogSummary) -> list[str]:
    lines = [f"Remark: {text}" for text in summary.remarks]
    if summary.missing:
        lines.append(
            f"{counted(summary.missing, 'file')} of the log were removed, as it grew too large: "
            "what they had is not counted"
        )
    if summary.unwritten:
        lines.append(
            f"{counted(summary.unwritten, 'event')} could not be written, as the disk was full, "
            "and are not counted"
        )
    if summary.skipped:
        lines.append(f"{counted(summary.skipped, 'line')} of the log could not be read")
    return lines


def _paragraph(lines: Iterable[str], most: int | None) -> str:
    out = []
    for line in lines:
        text = line.lstrip(" ")
        out += folded(clean(text), most, line[: len(line) - len(text)])
    return "".join(f"{line}\n" for line in out)
