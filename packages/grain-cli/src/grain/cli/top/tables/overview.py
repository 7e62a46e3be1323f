"""The tables of an answer; here those of workers, missions and functions. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grain.cli.show import clean, in_several_clusters, moment
from grain.cli.top.tables.grid import Column, Gauge, Table, TableRow, Tile, natural
from grain.cli.top.tables.tasks import Use, failures_table, running_table, waiting_table
from grain.cli.verdict.rules import is_whole
from grain.resource.figures import clock, counted, percent, rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.edge.questions import FunctionRow, MissionOutlook, OverviewAnswer
    from grain.facts.rows import Mission, Worker

PANES = ("missions", "functions", "workers", "running", "waiting", "failures")
"""The names of the tables, in the order in which they are shown."""

_BARS = 4  # kinds of resources that have a column


def tables(
    answer: OverviewAnswer, uses: Mapping[tuple[str, int], Use], cause: str = ""
) -> dict[str, Table]:
    """Return all tables of an answer.

    Args:
        uses: of tasks that run, by the mission's id and the task's number, as far as they are
            known.
        cause: the key of the failures that are listed one by one; empty for all, by cause.
    """
    return {
        "missions": missions_table(answer),
        "functions": functions_table(answer),
        "workers": workers_table(answer),
        "running": running_table(answer, uses),
        "waiting": waiting_table(answer),
        "failures": failures_table(answer, cause),
    }


# ---- workers

_WORKER_STYLES = {
    "away": "bad",
    "lost": "bad",
    "draining": "warn",
    "paused": "warn",
    "joining": "dim",
}
_MANY = 20  # workers: more are drawn in small, too
_NEWS = 600.0  # seconds for which a lost worker is news


def lost_lately(answer: OverviewAnswer) -> list[Worker]:
    """Return the workers that were lost in the last ten minutes, the last one first."""
    return [one for one in reversed(answer.lost) if answer.at - one.at < _NEWS]


def workers_table(answer: OverviewAnswer) -> Table:
    """Return the workers, with a bar for each kind of resource."""
    workers = answer.workers
    kinds = _kinds(workers)
    several = in_several_clusters(workers)
    columns: tuple[Column, ...] = (
        Column("NAME", 0, least=16, tail=True),
        *[Column("CLUSTER", 5, least=7)] * several,
        Column("HOST", 5, least=8, tail=True),
        Column("STATE", 2),
        Column("LEFT", 3, right=True),
        Column("RUNS", 1, right=True),
        *(Column(kind.upper(), 4 + 2 * number, least=5) for number, kind in enumerate(kinds)),
    )
    if kinds[:1] == ["Cores"]:
        at = len(columns) - len(kinds) + 1
        columns = (*columns[:at], Column("COMPUTING", 3, right=True), *columns[at:])
    columns = tuple(
        column._replace(rank=1) if column.head == "CORES" else column for column in columns
    )
    rows = [_worker(worker, kinds, answer.at, with_cluster=several) for worker in workers]
    rows.sort(key=lambda row: natural(row.values[0]))
    states = ", ".join(f"{count} {clean(one)}" for one, count in answer.worker_states.items())
    more = answer.more_workers
    title = f"WORKERS  {states}" + (f", {more} to be looked at" if more else "")
    heads = [column.head for column in columns]
    rows += [_lost(one, heads, answer.at) for one in lost_lately(answer)]
    tiles, legend = _tiles(workers) if len(workers) > _MANY else ((), "")
    none = not (workers or more)
    waiting = answer.tasks.waiting
    tasks = f"{counted(waiting, 'task')} {'waits' if waiting == 1 else 'wait'}, and no" * (
        waiting > 0
    )
    start = "" if tasks else " to start some"
    invitation = f"{tasks or 'No'} worker is here. Type `grain up` in any shell{start}."
    return Table(
        title.rstrip(),
        columns,
        tuple(rows),
        "none is here; `grain up` starts some",
        invitation=invitation * none,
        tiles=tiles,
        legend=legend,
    )


def _lost(lost: Worker, heads: Sequence[str], at: float) -> TableRow:
    """Return the row of a worker that is not here any more."""
    known = {
        "NAME": clean(lost.name),
        "HOST": clean(lost.host),
        "STATE": "lost",
        "LEFT": f"at {moment(lost.at, at)}",
        "RUNS": f"({lost.lost_runs})",
    }
    values: dict[str, Any] = {**known, "LEFT": -1.0, "RUNS": lost.lost_runs}
    return TableRow(
        loss_key(lost),
        tuple(known.get(head, "") for head in heads),
        # Other columns have numbers.
        tuple(values.get(head, "" if head == "CLUSTER" else -1.0) for head in heads),
        "bad",
    )


def loss_key(lost: Worker) -> str:
    """Return the key of the row of a lost worker."""
    return f"lost\0{lost.name}\0{lost.at}"


def _tiles(workers: Sequence[Worker]) -> tuple[tuple[Tile, ...], str]:
    """Return a character for each worker, in the order of the rows, and what these are."""
    measured = any(worker.running and worker.computing is not None for worker in workers)
    tiles, letters = [], {}
    for worker in sorted(workers, key=lambda one: natural(clean(one.label))):
        whole = amount(worker.total.get("Cores")) or 0.0
        given = worker.used.get("Cores") or 0.0
        share = given
        letter = "" if worker.state == "serving" else clean(worker.state)[:1]
        if letter:
            letters[letter] = clean(worker.state)
        if measured and worker.computing is None:
            letter = letter or "?"
        elif measured and worker.computing is not None:
            share = worker.computing / whole if whole else 0.0
        level = min(max(math.ceil(8 * share - 1e-9), 0), 8)
        tiles.append(Tile(level, letter, _WORKER_STYLES.get(worker.state, "")))
    words = [f"cores {'computing' if measured else 'given'}, of all of a worker"]
    words += [f"{letter} {state}" for letter, state in sorted(letters.items())]
    return tuple(tiles), "; ".join(words)


def _kinds(workers: Sequence[Worker]) -> list[str]:
    """Return the kinds of resources that most workers have, cores and memory first."""
    counts: dict[str, int] = {}
    for worker in workers:
        for kind in worker.used:
            if amount(worker.total.get(kind)) is not None:
                counts[kind] = counts.get(kind, 0) + 1
    first = {"Cores": -2, "Memory": -1}
    kinds = sorted(counts, key=lambda kind: (first.get(kind, 0), -counts[kind], kind))
    return kinds[:_BARS]


def amount(data: Any) -> float | None:
    """Return the amount of a resource from its plain data; None if it has none."""
    if isinstance(data, bool):
        return None
    if isinstance(data, int | float):
        return float(data)
    return float(len(data)) if isinstance(data, list) else None


def _worker(worker: Worker, kinds: Sequence[str], at: float, *, with_cluster: bool) -> TableRow:
    left = None if worker.ends is None else max(worker.ends - at, 0.0)
    computing = worker.computing
    bars = [
        _bar(
            worker.used.get(kind),
            worker.total.get(kind),
            (computing or 0.0) if kind == "Cores" else 0.0,
        )
        for kind in kinds
    ]
    label = clean(worker.label)
    cluster = [clean(worker.cluster or "-")] * with_cluster
    computes = [computing] * (kinds[:1] == ["Cores"])
    shares = [-1.0 if bar.share is None else bar.share for bar in bars]
    return TableRow(
        worker.id,
        (
            label,
            *cluster,
            clean(worker.host),
            clean(worker.state),
            clock(left),
            str(worker.running),
            *bars[:1],
            *("-" if cores is None else cores_text(cores) for cores in computes),
            *bars[1:],
        ),
        (
            label,
            *cluster,
            clean(worker.host),
            worker.state,
            math.inf if left is None else left,
            worker.running,
            *shares[:1],
            *(-1.0 if cores is None else cores for cores in computes),
            *shares[1:],
        ),
        _WORKER_STYLES.get(worker.state, ""),
    )


def cores_text(cores: float) -> str:
    """Return a measured number of cores: with a decimal where it is small."""
    return f"{cores:.1f}" if cores < 9.95 else f"{cores:.0f}"


def _bar(share: float | None, total: Any, used: float) -> Gauge:
    """Return a bar of what tasks were given of a kind, and of what of it is in use."""
    whole = amount(total)
    if whole is None:
        return Gauge(None, "-")
    if share is None:
        return Gauge(None, f"?/{whole:g}")
    share = min(max(share, 0.0), 1.0)
    part = min(used / whole, 1.0) if whole else 0.0
    return Gauge(share, f"{part_text(share * whole)}/{whole:g}", part)


def part_text(given: float) -> str:
    """Return how much of a kind was given: parts of one are rounded in an answer."""
    return f"{given:.0f}" if given >= 10 or abs(given - round(given)) < 0.05 else f"{given:.1f}"


# ---- missions


def missions_table(answer: OverviewAnswer) -> Table:
    """Return the missions, with rate and estimate."""
    columns = (
        Column("NAME", 0, least=16, tail=True),
        Column("HOST", 8, least=8, tail=True),
        Column("STATE", 7),
        Column("DONE", 3, right=True),
        Column("FAILED", 2, right=True),
        Column("RETRIED", 10, right=True),
        Column("RUNS", 4, right=True),
        Column("WAITS", 5, right=True),
        Column("RATE", 6, right=True),
        Column("LEFT", 1, right=True),
        Column("PROGRESS", 9, least=8),
    )
    rows = [_mission(mission) for mission in answer.missions]
    return Table("MISSIONS", columns, tuple(rows), "none is here", more=answer.more_missions)


def _mission(mission: Mission) -> TableRow:
    left, running, outlook = mission.left, mission.running, mission.outlook
    waiting = None if running is None else max(left - running, 0)
    estimate = outlook.left if left and outlook is not None else None
    state = "paused" if mission.paused else "connected" if mission.connected else "away"
    known = outlook is not None and outlook.total
    share = min(outlook.ended / outlook.total, 1.0) if outlook is not None and known else None
    progress = "-" if share is None else percent(share, down=True)
    style = {"paused": "warn", "away": "bad"}.get(state, "")
    label = clean(mission.label)
    cells = (
        label,
        clean(mission.host),
        state,
        str(mission.done),
        str(mission.failed),
        str(mission.retried),
        "?" if running is None else str(running),
        f"<{left}" if waiting is None else str(waiting),
        rate(mission.rate),
        _left(outlook) if left else "",
        Gauge(share, progress),
    )
    values = (
        label,
        clean(mission.host),
        state,
        mission.done,
        mission.failed,
        mission.retried,
        running or 0,
        waiting or 0,
        mission.rate,
        math.inf if estimate is None else estimate,
        -1.0 if share is None else share,
    )
    return TableRow(mission.id, cells, values, style)


def _left(outlook: MissionOutlook | None) -> str:
    """Return the time that a mission estimates: of all its calls, or of those submitted so far."""
    if outlook is None or (seconds := outlook.left) is None:
        return "-"
    if outlook.least and round(seconds) < 1:
        return "-"
    return f"{'>' if outlook.least else ''}{clock(seconds)}{'' if outlook.whole else ' so far'}"


# ---- functions


def functions_table(answer: OverviewAnswer) -> Table:
    """Return the tasks of each mission by function, as missions count them."""
    outlooks = [(one, one.outlook) for one in answer.missions if one.outlook is not None]
    several = len(answer.missions) > 1
    columns = (
        Column("FUNCTION", 0, least=12, tail=True),
        *[Column("MISSION", 1, least=8, tail=True)] * several,
        Column("DONE", 2, right=True),
        Column("RUNS", 2, right=True),
        Column("WAITS", 2, right=True),
        Column("FAILED", 1, right=True),
        Column("MEDIAN", 3, right=True),
        Column("COMPUTING", 5, right=True),
        Column("MEMORY", 4, least=5),
    )
    rows = [
        _function(row, one, several=several)
        for one, outlook in outlooks
        for row in outlook.functions
    ]
    nothing = "none is here"
    if answer.missions:
        nothing = "missions that show their progress tell of them every five seconds"
    more = sum(outlook.more_functions for _, outlook in outlooks)
    return Table("FUNCTIONS", columns, tuple(rows), nothing, more=more)


def function_key(mission: Mission, row: FunctionRow) -> str:
    """Return the key of the row of a function."""
    return f"{mission.id}\0{row.function}"


def _function(row: FunctionRow, mission: Mission, *, several: bool) -> TableRow:
    label = clean(mission.label)
    names = [clean(row.function), *[label] * several]
    asked = row.request.get("Cores")
    known = is_whole(row.measured, row.done)
    computes = cores_text(row.busy) if known else "-"
    if asked is not None:
        computes += f" of {asked:g}"
    memory = _memory(row)
    style = "warn" if row.failed else "dim" if not (row.running or row.waiting) else ""
    counts = [row.done, row.running, row.waiting, row.failed]
    cells: tuple[str | Gauge, ...] = (
        *(*names, *map(str, counts)),
        *(clock(row.seconds), computes, memory),
    )
    values = (
        *names,
        *counts,
        -1.0 if row.seconds is None else row.seconds,
        row.busy if known else -1.0,
        -1.0 if memory.share is None else memory.share,
    )
    # A filter for the tasks of a mission finds its functions, too.
    return TableRow(function_key(mission, row), cells, values, style, words=f"{label}:")


def _memory(row: FunctionRow) -> Gauge:
    """Return the largest memory of a run, of the memory that was asked for."""
    used, asked = row.memory, row.memory_asked
    if used is None or not is_whole(row.peaks, row.done):
        return Gauge(None, f"?/{asked:g} GB" if asked else "-")
    if not asked:
        return Gauge(None, f"{gb_text(used)} GB")
    return Gauge(min(used / asked, 1.0), f"{gb_text(used)}/{asked:g} GB")


def gb_text(amount: float) -> str:
    """Return an amount of memory in GB, with two digits where it is small."""
    return f"{amount:.2g}" if amount < 9.95 else f"{amount:.0f}"
