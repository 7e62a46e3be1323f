"""The verdict on a mission: at most three sentences, by rules, on what deserves a look first.

Pure. Each rule looks at a `Report`, and has one sentence or none. It says what is certain from the
log, and nothing otherwise. docs/report.md has a table of the rules with their limits.
"""

from __future__ import annotations

import math
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.report.figures import shortened
from grain.cli.report.sufficient import busy_cores
from grain.eventlog.never_ran import CALLED_OFF, sentences
from grain.eventlog.totals import OTHER_CAUSES
from grain.resource.figures import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grain.cli.report.collecting import Report, WorkerTrack
    from grain.eventlog.totals import Failures, FunctionTotals

MOST = 3
"""Sentences of a verdict."""

ALIKE = 0.25
"""The part of all failures: one cause is worth a sentence if it has so many."""

CUT = 0.05
"""The part of the runs of a function: its time limit is worth a sentence if it ended so many."""

MEASURED = 5
"""Runs whose cores were measured: with fewer, nothing is said of a request."""

LARGE = 0.1
"""The part of all core-hours: a request is worth a sentence if the function has so many."""

BUSY = 0.5
"""Cores that programs keep busy in the median run: with less, they are a small part of the runs."""

TIMES = 2.0
"""The request of a function is worth a sentence if so many times as many tasks would have room."""

LATE_SECONDS, LATE = 10.0, 0.05
"""The first start is late if both have passed before it: seconds, and a part of the whole."""

WAITED = 0.5
"""The part of the whole time: waits of the critical path are worth a sentence if they take it."""

_NAMED = 3  # workers
_LONG_NAME, _LONG_MESSAGE = 60, 140  # characters

_TIME = "WTime"  # a limit, which is not used up


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
    for sentence in reasons_of_never(report, running=running):
        if not sentence.endswith(CALLED_OFF):
            yield Finding(f"{sentence}.", "queue")
            return


def _failures(report: Report, *, running: bool) -> Iterator[Finding]:
    # Of a mission that goes on, a task that has failed may still be tried again.
    noun, counts = ("run", _runs) if running else ("task", _final)
    causes = [
        failures
        for failures in report.totals.failures.values()
        if failures.cause.outcome != "lost" and counts(failures)
    ]
    total = sum(map(counts, causes))
    most = max(causes, key=counts, default=None)
    if most is None or most.cause.error == OTHER_CAUSES:
        return
    count = counts(most)
    if count < ALIKE * total or (count == 1 and total > 1):
        return
    how = most.cause.error or most.cause.outcome
    # A retry may have made up for the first of several runs: what they have in common is true.
    if message := most.first.line.message if most.runs == 1 else most.cause.pattern:
        how += f": {shortened(message, _LONG_MESSAGE)}"
    stop = "" if how.endswith((".", "!", "?")) else "."
    function = shortened(most.cause.function, _LONG_NAME)
    if total == 1:
        of = f" of {function}" if function else ""
        yield Finding(f"One {noun}{of} failed: {how}{stop}", "failures")
        return
    share = f"All {total:,}" if count == total else f"{count:,} of {total:,}"
    where = f", in {function}" if function else ""
    yield Finding(f"{share} failed {noun}s are alike{where}: {how}{stop}", "failures")


def _final(failures: Failures) -> int:
    return failures.final


def _runs(failures: Failures) -> int:
    return failures.runs


def _cut_runs(report: Report) -> Iterator[Finding]:
    worst, most = "", 0
    for name, overtime in report.overtime.items():
        function = report.totals.functions.get(name)
        if name and function is not None and overtime.runs >= CUT * function.runs:
            worst, most = (name, overtime.runs) if overtime.runs > most else (worst, most)
    if most:
        limit = span(report.overtime[worst].limit)
        runs = counted(most, "run", "runs")
        of = f"{runs} of {shortened(worst, _LONG_NAME)}"
        yield Finding(f"A time limit of {limit} or less ended {of}.", "requests")


def _too_many_cores(report: Report) -> Iterator[Finding]:
    whole = report.totals.core_seconds
    functions = report.totals.functions.values()
    for one in sorted(functions, key=lambda function: -function.core_seconds):
        if not one.name or not whole or one.core_seconds < LARGE * whole:
            return
        request = _only_request(one)
        asked, busy = request.get("Cores", 0.0), one.busy_cores
        if busy.count < max(MEASURED, one.seconds.count) or busy.quantile(0.5) < BUSY:
            continue
        enough = busy_cores(one)
        if not 0 < enough < asked:
            continue
        times = _more_room(request, {**request, "Cores": enough}, report.workers)
        if times >= TIMES:
            more = "twice" if times == 2 else f"{math.floor(10 * times) / 10:g} times"
            yield Finding(
                f"{shortened(one.name, _LONG_NAME)} asked for {asked:g} cores, and its programs "
                f"kept {enough:g} busy on average at most: with Cores({enough:g}), {more} as many "
                "would have room at once.",
                "requests",
            )
            return


def _only_request(function: FunctionTotals) -> dict[str, float]:
    """Return what all tasks of a function asked for; nothing if that differs."""
    if any(one.least != one.most for kind, one in function.asked.items() if kind != _TIME):
        return {}
    tasks = sum(function.requests.values())
    if any(sum(one.counts.values()) != tasks for one in function.asked.values()):
        return {}  # some kinds were not in all requests
    return {kind: one.most for kind, one in function.asked.items() if kind != _TIME}


def _more_room(
    before: Mapping[str, float], after: Mapping[str, float], workers: list[WorkerTrack]
) -> float:
    """Return how many times as many tasks have room on each worker, at least; 0 if none has."""
    rooms = [(_room(worker, before), _room(worker, after)) for worker in workers]
    return min((later / now for now, later in rooms if now), default=0.0)


def _room(worker: WorkerTrack, request: Mapping[str, float]) -> int:
    shares = (
        worker.resources.get(kind, 0.0) / amount for kind, amount in request.items() if amount > 0
    )
    return math.floor(min(shares, default=0.0) + 1e-9)


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
    lost = [worker for worker in report.workers if worker.why and worker.sent_back]
    tasks = sum(worker.sent_back for worker in lost)
    if not lost:
        return
    names = ", ".join(shortened(worker.name, _LONG_NAME) for worker in lost[:_NAMED])
    if len(lost) == 1:
        [worker] = lost
        heard = worker.left if worker.heard and worker.left is not None else None
        when = "" if heard is None else f" {span(heard)} after the start"
        who, own = f"{names} was lost{when}", "its tasks"
    else:
        others = f" and {len(lost) - _NAMED:,} others" if len(lost) > _NAMED else ""
        who, own = f"{len(lost):,} workers were lost ({names}{others})", "their tasks"
    yield Finding(f"{who}: {tasks:,} of {own} went back to the queue.", "workers")
