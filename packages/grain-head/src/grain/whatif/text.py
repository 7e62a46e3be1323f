"""The results of replays as text and as plain data. Pure."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from grain.eventlog.never_ran import sentences
from grain.resource.figures import amount, clock, counted, percent
from grain.whatif.sweep import knee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.resource import Resource
    from grain.whatif.replay import Outcome
    from grain.whatif.sweep import SweepRow
    from grain.whatif.workload import Workload

_REASONS = 5


def report_text(
    workload: Workload,
    original: Outcome | None,
    rows: Sequence[SweepRow],
    worker: Resource,
    *,
    width: int = 80,
) -> str:
    """Format the replays of a workload.

    Args:
        original: the replay of what happened; None if the log has no workers.
        rows: the replays by number of workers.
        worker: what each of these offers.
        width: columns of the terminal.
    """
    lines = [*_origin(workload, original), ""]
    lines.append(f"Workers of {worker.ask()}:")
    best = knee(rows)
    cored = any(row.outcome.core_hours for row in rows)
    cost = "CORE-HOURS" if cored else "WORKER-HOURS"
    cells: list[tuple[str, ...]] = [("WORKERS", "MAKESPAN", cost, "BUSY", "MEAN WAIT", "")]
    cells += [_cells(row, best, cored=cored) for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(5)]
    for row in cells:
        numbers = (cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        lines.append(f"{'  '.join(numbers)}  {row[5]}".rstrip())
    lines += _remarks(workload, rows, best)
    folded = (
        textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""]
        if len(line) > width
        else [line]
        for line in lines
    )
    return "".join(f"{line}\n" for part in folded for line in part)


def report_data(
    workload: Workload, original: Outcome | None, rows: Sequence[SweepRow], worker: Resource
) -> dict[str, Any]:
    """Return the replays of a workload as plain data."""
    return {
        "id": workload.id,
        "name": workload.name,
        "tasks": workload.number,
        "further_attempts": workload.repeated,
        "makespan": workload.makespan,
        "guessed": workload.guessed,
        "left_out": workload.unknown,
        "brief": workload.brief,
        "never_ran": [{"why": why, "tasks": tasks} for why, tasks in workload.never_ran.items()],
        "ignored": list(workload.ignored),
        "all_workers": workload.all_workers,
        "replay": None if original is None else _outcome_data(original),
        "worker": worker.ask(),
        "rows": [{"workers": row.workers, **_outcome_data(row.outcome)} for row in rows],
        "knee": knee(rows),
    }


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    return {
        **outcome._asdict(),
        "makespan": None if outcome.makespan == math.inf else outcome.makespan,
        "never": [
            {"function": function, "why": why, "tasks": tasks}
            for (function, why), tasks in outcome.never.items()
        ],
    }


def _origin(workload: Workload, original: Outcome | None) -> list[str]:
    """Return what happened, and how well the replay of it agrees."""
    took, tasks = clock(workload.makespan), counted(workload.number, "task")
    if workload.repeated:
        tasks += f" with {counted(workload.repeated, 'further attempt')}"
    lines = [f"{workload.name} ({workload.id[:8]}): {tasks} in {took}"]
    lines += sentences(workload.never_ran)
    if original is None:
        return lines
    if original.makespan == math.inf:
        lines.append("The replay of what happened does not end:")
        lines += _never(original)
    else:
        off = original.makespan / workload.makespan - 1 if workload.makespan else 0.0
        than = (
            f"{100 * abs(off):.1f} % {'more' if off > 0 else 'less'}"
            if abs(off) >= 5e-4
            else "the same"
        )
        lines.append(f"The replay of what happened takes {clock(original.makespan)}, {than}.")
    if not workload.all_workers:
        lines.append(
            "It has the workers that ran a task of this mission, each from the first one on."
        )
    return lines


def _cells(row: SweepRow, best: int | None, *, cored: bool) -> tuple[str, ...]:
    outcome = row.outcome
    mark = "<- knee" if row.workers == best else ""
    if outcome.makespan == math.inf:
        return str(row.workers), "never", "-", "-", "-", ""
    hours = outcome.core_hours if cored else outcome.worker_hours
    return (
        str(row.workers),
        clock(outcome.makespan),
        amount(hours),
        percent(outcome.busy) if cored else "-",
        clock(outcome.waited),
        mark,
    )


def _remarks(workload: Workload, rows: Sequence[SweepRow], best: int | None) -> list[str]:
    lines = []
    if best is not None and best == rows[-1].workers:
        lines.append(f"The knee may lie beyond {counted(best, 'worker')}: try more with --workers.")
    elif best is not None:
        lines.append("Beyond the knee, more workers cost more than they gain.")
    if workload.guessed:
        lines.append(
            f"{counted(workload.guessed, 'task')} had not ended: each is taken to run as long as "
            "the mean of its function."
        )
    if workload.unknown:
        lines.append(
            f"{counted(workload.unknown, 'task')} had not ended, and no other one of the same "
            "function: these are left out."
        )
    if workload.brief:
        lines.append(
            f"{counted(workload.brief, 'brief task')} are replayed in bundles, as the log counts "
            "and does not list them."
        )
    if workload.ignored:
        lines.append(
            f"The replay leaves out resources of which it does not know how many there were: "
            f"{', '.join(workload.ignored)}."
        )
    if (over := max((row.outcome.over_time for row in rows), default=0)) > 0:
        lines.append(f"{counted(over, 'run')} would exceed the time limit, and end by it.")
    if (over := max((row.outcome.over_memory for row in rows), default=0)) > 0:
        lines.append(f"{counted(over, 'task')} used more memory than this asks for.")
    for row in rows:
        if row.outcome.never:
            lines.append(f"With {counted(row.workers, 'worker')} some tasks never end:")
            lines += _never(row.outcome)
            break
    return ["", *lines] if lines else []


def _never(outcome: Outcome) -> list[str]:
    ordered = sorted(outcome.never.items(), key=lambda item: -item[1])
    lines = [
        f"  {counted(tasks, 'task')}{f' of {function}' if function else ''}: {why}"
        for (function, why), tasks in ordered[:_REASONS]
    ]
    rest = sum(tasks for _, tasks in ordered[_REASONS:])
    return [*lines, f"  and {rest} more"] if rest else lines
