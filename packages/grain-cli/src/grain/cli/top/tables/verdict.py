"""The lines on top: totals, the verdict, sums of resources, and how cores went lately. Pure.

The rules of the verdict are those of a report (`grain.cli.verdict.rules`), with facts of an answer.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import clean
from grain.cli.top.tables.overview import (
    amount,
    cores_text,
    function_key,
    gb_text,
    loss_key,
    lost_lately,
    part_text,
)
from grain.cli.top.tables.tasks import cause_key, causes, queue_key
from grain.cli.verdict.rules import (
    MOST,
    Lost,
    alike,
    cannot_start,
    lost_workers,
    too_many_cores,
)
from grain.eventlog.never_ran import NeverRan
from grain.resource.figures import moment, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.top.tables.picture import Marks
    from grain.cli.top.tables.trend import Trend
    from grain.edge.questions import OverviewAnswer
    from grain.facts.rows import Cause, Queue


class LiveFinding(NamedTuple):
    """A sentence of the verdict.

    Attributes:
        pane: the table that shows why.
        key: the row of it.
    """

    text: str
    pane: str
    key: str


def verdict(answer: OverviewAnswer) -> list[LiveFinding]:
    """Return the sentences, the most important first: those of the first rules that apply."""
    found = chain(_cannot_start(answer), _alike(answer), _too_many(answer), _lost(answer))
    return list(islice(found, MOST))


def _cannot_start(answer: OverviewAnswer) -> Iterator[LiveFinding]:
    if answer.more_workers or not answer.workers:
        return
    offers = NeverRan()
    for worker in answer.workers:
        amounts = {kind: amount(part) for kind, part in worker.total.items()}
        offers.offered({kind: part for kind, part in amounts.items() if part is not None})
    reasons: dict[str, list[Queue]] = {}
    for queue in answer.queues:
        if queue.waiting and queue.lack == "room":
            asked = {kind: amount(part) for kind, part in queue.request.items()}
            lacks = offers.lacking({kind: part or 1.0 for kind, part in asked.items()})
            if lacks:
                reasons.setdefault(f"no worker has {clean(lacks)}", []).append(queue)
        elif queue.waiting and queue.lack == "members":
            reasons.setdefault(clean(queue.why), []).append(queue)
    if reasons:
        why, queues = max(reasons.items(), key=lambda item: sum(one.waiting for one in item[1]))
        tasks = sum(queue.waiting for queue in queues)
        first = max(queues, key=lambda queue: queue.waiting)
        yield LiveFinding(cannot_start(tasks, why), "waiting", queue_key(first))


def _alike(answer: OverviewAnswer) -> Iterator[LiveFinding]:
    """Speak of tasks that failed for good; where all were tried again so far, of their runs."""
    found = [cause for cause, _ in causes(answer)]
    final = any(cause.final for cause in found)
    noun, all_failed = ("task", answer.tasks.failed) if final else ("run", answer.tasks.retried)

    def number(cause: Cause) -> int:
        return cause.final if final else cause.runs

    last = "the last " if sum(map(number, found)) < all_failed else ""
    if (said := alike(found, number, noun, last)) is not None:
        text, most = said
        yield LiveFinding(clean(text), "failures", cause_key(most))


def _too_many(answer: OverviewAnswer) -> Iterator[LiveFinding]:
    rows = [
        (row, function_key(mission, row))
        for mission in answer.missions
        for row in (() if mission.outlook is None else mission.outlook.functions)
    ]
    totals = [
        {kind: amount(part) or 0.0 for kind, part in worker.total.items()}
        for worker in answer.workers
    ]
    found = too_many_cores([row for row, _ in rows], totals, tense="present")
    if found is not None:
        text, most = found
        yield LiveFinding(clean(text), "functions", next(key for row, key in rows if row is most))


def _lost(answer: OverviewAnswer) -> Iterator[LiveFinding]:
    lost = [one for one in lost_lately(answer) if one.lost_runs]
    at = answer.at
    facts = [Lost(clean(one.name), f"at {moment(one.at, at)}", one.lost_runs) for one in lost]
    if text := lost_workers(facts):
        yield LiveFinding(text, "workers", loss_key(lost[0]))


# ---- totals and sums


def totals(answer: OverviewAnswer) -> list[str]:
    """Return the totals, in parts; the last parts may be left out."""
    given, cores = answer.cores
    computing, tasks = answer.computing, answer.tasks
    computes = f", {cores_text(computing)} computing" if given and computing is not None else ""
    parts = [f"{given:g} of {cores:g} cores given{computes}"]
    parts.append(f"{tasks.running} running, {tasks.waiting} waiting")
    parts.append(f"{tasks.done} done, {tasks.failed} failed")
    if together := sum(mission.rate for mission in answer.missions):
        parts.append(rate(together))
    return parts


def sums(answer: OverviewAnswer, trend: Trend, by: Marks) -> list[str]:
    """Return how cores went lately, and the sums of memory and of other resources, in parts."""
    parts = []
    if answer.cores[1]:
        given, computing = trend.shares()
        lately = f"given {line_text(given, by)}" if given else ""
        if any(share is not None for share in computing):
            lately += f"  computing {line_text(computing, by)}"
        if lately:
            parts.append(f"cores {lately}")
    whole: dict[str, float] = {}
    used: dict[str, float] = {}
    for worker in answer.workers:
        for kind, share in worker.used.items():
            have = amount(worker.total.get(kind))
            if kind != "Cores" and share is not None and have is not None:
                whole[kind] = whole.get(kind, 0.0) + have
                used[kind] = used.get(kind, 0.0) + share * have
    for kind in sorted(whole, key=lambda kind: (kind != "Memory", kind != "GPUs", kind)):
        if kind == "Memory":
            parts.append(f"{gb_text(used[kind])} of {whole[kind]:.0f} GB of memory given")
        else:
            parts.append(f"{part_text(used[kind])} of {whole[kind]:g} {clean(kind)} given")
    return [*parts, *(f"cluster: {clean(str(one))}" for one in answer.cluster)]


def line_text(shares: list[float | None], by: Marks) -> str:
    """Return shares over time as a line of small bars; a space where one is not known."""
    return "".join(
        " " if share is None else by.levels[min(max(round(8 * share), 0), 8)] for share in shares
    )
