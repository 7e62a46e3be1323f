"""The verdict on a mission: at most three sentences, by rules, on what deserves a look first.

Pure. Each rule looks at a `Report`, and has one sentence or none. It says what is certain from the
log, and nothing otherwise. docs/report.md has a table of the rules with their limits.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.verdict.rules import (
    MOST,
    Lost,
    alike,
    lost_workers,
    short_message,
    short_name,
    too_many_cores,
)
from grain.eventlog.never_ran import sentences
from grain.facts.rows import OTHER_CAUSES
from grain.resource.figures import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.report.collecting import Report
    from grain.facts.rows import Cause

CUT = 0.05
"""The part of the runs of a function: its time limit is worth a sentence if it ended so many."""

LATE_SECONDS, LATE = 10.0, 0.05
"""The first start is late if both have passed before it: seconds, and a part of the whole."""

WAITED = 0.5
"""The part of the whole time: waits of the critical path are worth a sentence if they take it."""


class Finding(NamedTuple):
    """A sentence of the verdict.

    Attributes:
        text: the sentence; it may have names and messages of the user's programs.
        section: the section of the page that shows why, by its id.
    """

    text: str
    section: str


def verdict(report: Report, *, running: bool, whole: bool) -> list[Finding]:
    """Return the sentences, the most important first: those of the first rules that apply.

    Args:
        whole: True if the log has all its lines. What follows from the absence of a line is said
            of such a log only.
    """
    found = chain(
        _never_ran(report, running=running) if whole else (),
        _set_aside(report),
        _failures(report, running=running),
        _cut_runs(report),
        _too_many_cores(report),
        _waits(report, running=running),
        _late_start(report) if whole else (),
        _lost_workers(report),
    )
    return list(islice(found, MOST))


def reasons_of_never(report: Report, *, running: bool) -> list[str]:
    """Return a sentence for each reason why tasks never ran."""
    found = sentences(report.never_ran)
    return found if running else found + sentences(report.left_waiting)


def _never_ran(report: Report, *, running: bool) -> Iterator[Finding]:
    reasons = report.not_called_off or (not running and report.left_waiting)
    if reasons:
        yield Finding(f"{sentences(reasons)[0]}.", "queue")


def _set_aside(report: Report) -> Iterator[Finding]:
    if aside := report.set_aside:
        place, why = next(reversed(aside.items()))
        others = counted(len(aside) - 1, "other place")
        also = f"; {others} as well" if len(aside) > 1 else ""
        yield Finding(f"{short_message(f'{place} was {why}')}{also}.", "remarks")


def _failures(report: Report, *, running: bool) -> Iterator[Finding]:
    # Of a mission that goes on, a task that has failed may still be tried again.
    noun, number = ("run", _runs) if running else ("task", _final)
    causes = [one for one in report.totals.causes if one.first.state != "lost" and number(one)]
    found = alike(causes, number, noun)
    if found is not None and found[1].kind != OTHER_CAUSES:
        yield Finding(found[0], "failures")


def _final(cause: Cause) -> int:
    return cause.final


def _runs(cause: Cause) -> int:
    return cause.runs


def _cut_runs(report: Report) -> Iterator[Finding]:
    worst, most = "", 0
    for name, function in report.totals.functions.items():
        if name and function.overtime >= CUT * function.runs and function.overtime > most:
            worst, most = name, function.overtime
    if most:
        limit = span(report.totals.functions[worst].time_limit)
        runs = counted(most, "run", "runs")
        of = f"{runs} of {short_name(worst)}"
        yield Finding(f"A time limit of {limit} or less ended {of}.", "requests")


def _too_many_cores(report: Report) -> Iterator[Finding]:
    functions = report.totals.functions.values()
    found = too_many_cores(functions, [worker.resources for worker in report.workers])
    if found is not None:
        yield Finding(found[0], "requests")


def _waits(report: Report, *, running: bool) -> Iterator[Finding]:
    # The path of a mission that goes on is that up to now.
    if running or report.span <= 0:
        return
    unsure = sum(step.unsure for step in report.steps)
    waited = sum(step.started - step.submitted for step in report.steps) - unsure
    if waited - report.first_wait >= WAITED * report.span:
        least = "at least " if span(waited) != span(waited + unsure) else ""
        text = (
            f"Tasks of the critical path waited {least}{span(waited)} of {span(report.span)} for "
            "room."
        )
        yield Finding(text, "path")


def _late_start(report: Report) -> Iterator[Finding]:
    late = report.first_wait
    if late >= LATE_SECONDS and late >= LATE * report.span:
        text = f"Tasks waited {span(late)} before a worker took the first one."
        yield Finding(text, "workers" if report.workers else "queue")


def _lost_workers(report: Report) -> Iterator[Finding]:
    lost = []
    for worker in report.workers:
        if worker.why and worker.sent_back:
            heard = worker.left if worker.heard and worker.left is not None else None
            when = "" if heard is None else f"{span(heard)} after the start"
            lost.append(Lost(worker.name, when, worker.sent_back))
    if text := lost_workers(lost):
        yield Finding(text, "workers")
