"""The tables of an answer; here those of workers, missions and functions. Pure."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from grain.cli.columns import Column
from grain.cli.show import clean, in_several_clusters
from grain.cli.top.tables.grid import Gauge, Shown, Table, TableRow, Tile, natural, table_row
from grain.cli.top.tables.tasks import Use, failures_table, running_table, waiting_table
from grain.cli.verdict.rules import is_whole
from grain.resource.figures import clock, counted, moment, percent, rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.edge.questions import MissionOutlook, OverviewAnswer
    from grain.facts.rows import Function, Mission, Worker

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
    bars: list[Column[Worker]] = [
        Column(
            kind.upper(),
            partial(_bar, kind),
            rank=1 if kind == "Cores" else 4 + 2 * number,
            least=5,
        )
        for number, kind in enumerate(kinds)
    ]
    columns: tuple[Column[Worker], ...] = (
        Column("NAME", lambda one: one.label, least=16, tail=True),
        *[_CLUSTER] * several,
        Column("HOST", lambda one: one.host, rank=5, least=8, tail=True),
        Column("STATE", lambda one: one.state, rank=2),
        Column("LEFT", partial(_worker_left, answer.at), rank=3, right=True),
        Column("RUNS", lambda one: one.running, rank=1, right=True),
        *bars[:1],
        *[_COMPUTING] * (kinds[:1] == ["Cores"]),
        *bars[1:],
    )
    rows = [table_row(columns, one, one.id, _WORKER_STYLES.get(one.state, "")) for one in workers]
    rows.sort(key=lambda row: natural(row.values[0]))
    states = ", ".join(f"{count} {clean(one)}" for one, count in answer.worker_states.items())
    more = answer.more_workers
    title = f"WORKERS  {states}" + (f", {more} to be looked at" if more else "")
    heads = [column.name for column in columns]
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


def _worker_left(at: float, worker: Worker) -> Shown:
    left = None if worker.ends is None else max(worker.ends - at, 0.0)
    return Shown(clock(left), math.inf if left is None else left)


def cores_text(cores: float) -> str:
    """Return a measured number of cores: with a decimal where it is small."""
    return f"{cores:.1f}" if cores < 9.95 else f"{cores:.0f}"


_CLUSTER: Column[Worker] = Column("CLUSTER", lambda one: one.cluster or "-", rank=5, least=7)
_COMPUTING: Column[Worker] = Column(
    "COMPUTING",
    lambda one: one.computing,
    lambda cores: "-" if cores is None else cores_text(cores),
    rank=3,
    right=True,
)


def _bar(kind: str, worker: Worker) -> Gauge:
    """Return a bar of what tasks were given of a kind, and of what of it is in use."""
    share, whole = worker.used.get(kind), amount(worker.total.get(kind))
    used = (worker.computing or 0.0) if kind == "Cores" else 0.0
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
    styles = {"paused": "warn", "away": "bad"}
    rows = [
        table_row(_MISSIONS, one, one.id, styles.get(_mission_state(one), ""))
        for one in answer.missions
    ]
    return Table("MISSIONS", _MISSIONS, tuple(rows), "none is here", more=answer.more_missions)


def _mission_state(mission: Mission) -> str:
    return "paused" if mission.paused else "connected" if mission.connected else "away"


def _waits(mission: Mission) -> Shown:
    if mission.running is None:
        return Shown(f"<{mission.left}", 0)
    waiting = max(mission.left - mission.running, 0)
    return Shown(str(waiting), waiting)


def _mission_left(mission: Mission) -> Shown:
    outlook = mission.outlook
    estimate = outlook.left if mission.left and outlook is not None else None
    text = _left(outlook) if mission.left else ""
    return Shown(text, math.inf if estimate is None else estimate)


def _progress(mission: Mission) -> Gauge:
    outlook = mission.outlook
    if outlook is None or not outlook.total:
        return Gauge(None, "-")
    share = min(outlook.ended / outlook.total, 1.0)
    return Gauge(share, percent(share, down=True))


_MISSIONS: tuple[Column[Mission], ...] = (
    Column("NAME", lambda one: one.label, least=16, tail=True),
    Column("HOST", lambda one: one.host, rank=8, least=8, tail=True),
    Column("STATE", _mission_state, rank=7),
    Column("DONE", lambda one: one.done, rank=3, right=True),
    Column("FAILED", lambda one: one.failed, rank=2, right=True),
    Column("RETRIED", lambda one: one.retried, rank=10, right=True),
    Column("RUNS", lambda one: one.running, lambda count: "?" if count is None else str(count),
           rank=4, right=True),
    Column("WAITS", _waits, rank=5, right=True),
    Column("RATE", lambda one: one.rate, rate, rank=6, right=True),
    Column("LEFT", _mission_left, rank=1, right=True),
    Column("PROGRESS", _progress, rank=9, least=8),
)  # fmt: skip


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
    columns = [one for one in _FUNCTIONS if several or one.name != "MISSION"]
    # A filter for the tasks of a mission finds its functions, too.
    rows = [
        table_row(columns, pair, function_key(one, row), _style(row), words=f"{clean(one.label)}:")
        for one, outlook in outlooks
        for row in outlook.functions
        for pair in [(one, row)]
    ]
    nothing = "none is here"
    if answer.missions:
        nothing = "missions that show their progress tell of them every five seconds"
    more = sum(outlook.more_functions for _, outlook in outlooks)
    return Table("FUNCTIONS", columns, tuple(rows), nothing, more=more)


def function_key(mission: Mission, row: Function) -> str:
    """Return the key of the row of a function."""
    return f"{mission.id}\0{row.name}"


def _style(row: Function) -> str:
    return "warn" if row.failed else "dim" if not (row.running or row.waiting) else ""


def _median(row: Function) -> float | None:
    return row.seconds.quantile(0.5) if row.seconds.count else None


def _computes(row: Function) -> Shown:
    asked, known = row.request.get("Cores"), is_whole(row.busy_cores, row)
    of, busy = "" if asked is None else f" of {asked:g}", row.busy_cores.quantile(0.5)
    return Shown(f"{cores_text(busy) if known else '-'}{of}", busy if known else None)


_FUNCTIONS: tuple[Column[tuple[Mission, Function]], ...] = (
    Column("FUNCTION", lambda one: one[1].name, least=12, tail=True),
    Column("MISSION", lambda one: one[0].label, rank=1, least=8, tail=True),
    Column("DONE", lambda one: one[1].done, rank=2, right=True),
    Column("RUNS", lambda one: one[1].running, rank=2, right=True),
    Column("WAITS", lambda one: one[1].waiting, rank=2, right=True),
    Column("FAILED", lambda one: one[1].failed, rank=1, right=True),
    Column("MEDIAN", lambda one: _median(one[1]), clock, rank=3, right=True),
    Column("COMPUTING", lambda one: _computes(one[1]), rank=5, right=True),
    Column("MEMORY", lambda one: _memory(one[1]), rank=4, least=5),
)


def _memory(row: Function) -> Gauge:
    """Return the largest memory of a run, of the memory that was asked for."""
    used, asked = row.peak_memory, row.most_memory
    if used is None or not is_whole(row.memory, row):
        return Gauge(None, f"?/{asked:g} GB" if asked else "-")
    if not asked:
        return Gauge(None, f"{gb_text(used)} GB")
    return Gauge(min(used / asked, 1.0), f"{gb_text(used)}/{asked:g} GB")


def gb_text(amount: float) -> str:
    """Return an amount of memory in GB, with two digits where it is small."""
    return f"{amount:.2g}" if amount < 9.95 else f"{amount:.0f}"
