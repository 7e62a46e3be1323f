"""The tables of an answer: workers, missions, what runs, what waits, and failures. Pure.

A table has all its rows; `arranged` sorts and filters them, and `grain.cli.top.picture` makes text
of the visible rows.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.show import clean, in_several_clusters, moment
from grain.resource.figures import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grain.cli.top.rates import Rates
    from grain.edge.questions import (
        FailureRow,
        MissionOutlook,
        MissionRow,
        OverviewAnswer,
        ProgramsAnswer,
        QueueRow,
        RunRow,
        WorkerRow,
    )

PANES = ("missions", "workers", "running", "waiting", "failures")
"""The names of the tables, in the order in which they are shown."""

_BARS = 4  # kinds of resources that have a column


class Gauge(NamedTuple):
    """A part of a whole.

    Attributes:
        share: from 0 to 1; None if it is not known.
        text: behind the bar.
        used: of a part that was given, how much of the whole is in use; 0 where that is not known.
            None for a part of another kind.
    """

    share: float | None
    text: str
    used: float | None = None


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        rank: the larger, the sooner it gives way where there is little room; 0 never does.
        right: True for numbers, which stand at the right.
        least: characters to which it may be shortened; 0 if it may not.
        tail: True for names that differ at their end: what is too long lacks its middle.
    """

    head: str
    rank: int
    right: bool = False
    least: int = 0
    tail: bool = False


class RowTask(NamedTuple):
    """A task that a row is about.

    Attributes:
        name: as commands take it.
        worker: where it runs or ran; empty if it waits.
    """

    mission: str
    number: int
    name: str
    worker: str = ""


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        key: by which it is recognised in the next answer.
        values: for sorting, one for each column: numbers, or text as in `natural`.
        style: "" or one of "good", "warn", "bad", "dim".
        about: the task that it is about, if it is about one.
    """

    key: str
    cells: tuple[str | Gauge, ...]
    values: tuple[Any, ...]
    style: str = ""
    about: RowTask | None = None


class Table(NamedTuple):
    """A table.

    Attributes:
        title: its name and what it has in all.
        rows: its rows, in the order in which they are shown unless the user sorts them.
        nothing: what is shown without rows.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    nothing: str


class Use(NamedTuple):
    """The resources that the programs of a task use now.

    Attributes:
        seconds: for how long the oldest has been running.
        cpu: seconds of CPU time that they have used so far; None where that is not known.
        busy: how many cores they keep busy.
        memory: what they have, in GB.
    """

    programs: int
    seconds: float
    command: str
    cpu: float | None = None
    busy: float | None = None
    memory: float | None = None


def tables(
    answer: OverviewAnswer, rates: Rates, uses: Mapping[tuple[str, int], Use]
) -> dict[str, Table]:
    """Return all tables of an answer.

    Args:
        uses: of tasks that run, by the mission's id and the task's number, as far as they are
            known.
    """
    return {
        "missions": missions_table(answer, rates),
        "workers": workers_table(answer),
        "running": running_table(answer, uses),
        "waiting": waiting_table(answer),
        "failures": failures_table(answer),
    }


# ---- workers

_WORKER_STYLES = {"away": "bad", "draining": "warn", "paused": "warn", "joining": "dim"}


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
    return Table(title, columns, tuple(rows), "none is here; `grain up` submits some")


def _kinds(workers: Sequence[WorkerRow]) -> list[str]:
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


def _worker(worker: WorkerRow, kinds: Sequence[str], at: float, *, with_cluster: bool) -> TableRow:
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
    given = share * whole
    text = f"{given:.0f}" if given >= 10 or abs(given - round(given)) < 0.05 else f"{given:.1f}"
    part = min(used / whole, 1.0) if whole else 0.0
    return Gauge(share, f"{text}/{whole:g}", part)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key by which w9 comes before w10."""
    parts = re.findall(r"\d{1,18}|\D+|\d+", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


# ---- missions


def missions_table(answer: OverviewAnswer, rates: Rates) -> Table:
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
    rows = [_mission(mission, rates.rate(mission.id)) for mission in answer.missions]
    more = answer.more_missions
    title = "MISSIONS" + (f"  {more} more are not shown" if more else "")
    return Table(title, columns, tuple(rows), "none is here")


def _mission(mission: MissionRow, rate: float) -> TableRow:
    left, running, outlook = mission.left, mission.running, mission.outlook
    waiting = None if running is None else max(left - running, 0)
    estimate = outlook.left if left and outlook is not None else None
    state = "paused" if mission.paused else "connected" if mission.connected else "away"
    known = outlook is not None and outlook.total
    share = min(outlook.ended / outlook.total, 1.0) if outlook is not None and known else None
    progress = "-" if share is None else f"{math.floor(100 * share)} %"
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
        rate_text(rate) if rate > 0 else "-",
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
        rate,
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


def rate_text(per_second: float) -> str:
    """Return a rate in the unit that suits it."""
    factor, unit = next(
        (pair for pair in ((1, "s"), (60, "min")) if per_second * pair[0] >= 1), (3600, "h")
    )
    rate = per_second * factor
    return f"{rate:.1f}/{unit}" if rate < 10 and rate != int(rate) else f"{rate:.0f}/{unit}"


# ---- tasks


def running_table(answer: OverviewAnswer, uses: Mapping[tuple[str, int], Use]) -> Table:
    """Return the running tasks, the longest run first; `uses` as in `tables`."""
    runs = [(one.label, run) for one in answer.workers for run in one.runs]
    return runs_table(runs, answer.missions, answer.at, answer.tasks.running, uses)


def runs_table(
    runs: Iterable[tuple[str, RunRow]],
    missions: Iterable[MissionRow],
    at: float,
    count: int,
    uses: Mapping[tuple[str, int], Use],
) -> Table:
    """Return running tasks, the longest run first.

    Args:
        count: how many there are, with those that are left out.
    """
    by_number = {mission.number: mission for mission in missions}
    rows = [_run(run, worker, by_number.get(run.mission), at, uses) for worker, run in runs]
    rows.sort(key=lambda row: -row.values[3])
    more = f", {len(rows)} of them here" if len(rows) < count else ""
    columns: tuple[Column, ...] = RUNNING
    if not uses:  # no worker has reported on programs
        columns = tuple(c._replace(rank=9) if c.head in _OF_PROGRAMS else c for c in RUNNING)
    return Table(f"RUNNING  {count}{more}", columns, tuple(rows), "nothing runs")


RUNNING = (
    Column("TASK", 0, least=12, tail=True),
    Column("FUNCTION", 4, least=8),
    Column("WORKER", 3, least=14, tail=True),
    Column("TIME", 1, right=True),
    Column("CPU", 2, right=True),
    Column("MEMORY", 2, right=True),
    Column("PROGRAM", 5, least=12),
    Column("ASKS FOR", 6, least=10),
)
"""The columns of tasks that run."""

_OF_PROGRAMS = ("CPU", "MEMORY", "PROGRAM")


def _run(
    run: RunRow,
    worker: str,
    mission: MissionRow | None,
    at: float,
    uses: Mapping[tuple[str, int], Use],
) -> TableRow:
    label = clean(mission.label) if mission else f"mission {run.mission}"
    seconds = max(at - run.began, 0.0)
    name = f"{label}:{run.task}"
    use = uses.get((mission.id, run.task)) if mission else None
    program = program_text(use)
    cells = (
        name,
        clean(run.function),
        clean(worker),
        clock(seconds),
        busy_text(use),
        memory_text(use),
        program,
        clean(run.request),
    )
    busy, memory = (-1.0, -1.0) if use is None else (use.busy, use.memory)
    values = (
        name,
        cells[1],
        cells[2],
        seconds,
        -1.0 if busy is None else busy,
        -1.0 if memory is None else memory,
        program,
        cells[7],
    )
    about = RowTask(mission.id, run.task, name, clean(worker)) if mission else None
    return TableRow(f"{run.mission}:{run.task}", cells, values, "", about)


def program_text(use: Use | None) -> str:
    """Return what runs for a task now, in a few words."""
    if use is None:
        return ""
    if not use.programs:
        return "-"
    more = f" and {use.programs - 1} more" if use.programs > 1 else ""
    return f"{clock(use.seconds)} {clean(use.command)}{more}"


def busy_text(use: Use | None) -> str:
    """Return how many cores the programs of a task keep busy now."""
    return "" if use is None else "-" if use.busy is None else f"{use.busy:.1f}"


def memory_text(use: Use | None) -> str:
    """Return the memory that the programs of a task have now."""
    if use is None or use.memory is None:
        return "" if use is None else "-"
    return f"{use.memory:.2f} GB" if use.memory < 10 else f"{use.memory:.0f} GB"


def use_of(answer: ProgramsAnswer, before: Use | None = None) -> Use:
    """Return what a task uses, from the answer about its programs.

    Args:
        before: what it used some seconds ago. Without that, or where other programs ran then, the
            programs keep as many cores busy as they have since they began.
    """
    programs = answer.programs
    if not programs:
        return Use(0, 0.0, "")
    oldest = max(programs, key=lambda program: program.seconds)
    seconds, command = oldest.seconds, oldest.command
    of_cpu = [(one.cpu, one.seconds) for one in programs if one.cpu is not None]
    of_memory = [one.memory for one in programs if one.memory is not None]
    cpu = busy = None
    if of_cpu:
        cpu = sum(used for used, _ in of_cpu)
        busy = sum(used / ran for used, ran in of_cpu if ran > 0)
        if before is not None and before.cpu is not None:
            used, passed = cpu - before.cpu, seconds - before.seconds
            same = (before.programs, before.command) == (len(programs), command)
            if same and passed > 0 and used >= 0:
                busy = used / passed
    return Use(len(programs), seconds, command, cpu, busy, sum(of_memory) if of_memory else None)


def waiting_table(answer: OverviewAnswer) -> Table:
    """Return what waits, by request, the most first, and why."""
    columns = (
        Column("TASKS", 0, right=True),
        Column("OLDEST", 1, least=12, tail=True),
        Column("ASKS FOR", 2, least=10),
        Column("WHY", 1, least=12),
        Column("RUNS", 4, right=True),
        Column("PRIORITY", 5, right=True),
    )
    rows = [_queue(queue) for queue in answer.queues if queue.waiting]
    tasks = answer.tasks
    counts = (tasks.awaiting_report, "awaiting report"), (tasks.suspect, "suspect")
    others = [f"{count} {name}" for count, name in counts if count]
    if answer.more_queues:
        others.append(f"{answer.more_queues} more requests are not shown")
    title = ", ".join([f"WAITING  {tasks.waiting}", *others])
    return Table(title, columns, tuple(rows), "nothing waits")


def _queue(queue: QueueRow) -> TableRow:
    label = clean(queue.mission)
    oldest = f"{label}:{queue.oldest}" if queue.oldest else label or "-"
    request, why = clean(queue.request), clean(queue.why)
    cells = (str(queue.waiting), oldest, request, why, str(queue.running), str(queue.priority))
    values = (queue.waiting, oldest, request, why, queue.running, queue.priority)
    about = RowTask(queue.mission_id, queue.oldest, oldest) if queue.oldest else None
    style = "warn" if why.startswith("no worker") else ""
    key = f"{label}\0{queue.priority}\0{queue.request}"
    return TableRow(key, cells, values, style, about)


def failures_table(answer: OverviewAnswer) -> Table:
    """Return the last tasks that failed, the latest first, including tasks that are tried again."""
    columns = (
        Column("TIME", 2),
        Column("TASK", 0, least=12, tail=True),
        Column("FUNCTION", 3, least=8),
        Column("WORKER", 1, least=14, tail=True),
        Column("RAN", 4, right=True),
        Column("HOW", 2, least=10),
    )
    rows = [_failure(failure, answer.at) for failure in reversed(answer.failures)]
    failed, retried = answer.tasks.failed, answer.tasks.retried
    again = f", and {retried} that were tried again" if retried else ""
    more = f"; the last {len(rows)} here" if len(rows) < failed + retried else ""
    return Table(f"FAILURES  {failed}{again}{more}", columns, tuple(rows), "none")


def _failure(failure: FailureRow, at: float) -> TableRow:
    name = f"{clean(failure.mission)}:{failure.task}"
    function, worker = clean(failure.function), clean(failure.worker)
    ran = max(failure.ended - failure.began, 0.0)
    how = clean(failure.why) if failure.why else "it raised an exception"
    if failure.how == "crashed":
        how = f"given up after crashes: {clean(failure.why)}"
    if failure.retried:
        how = f"tried again: {how}"
    cells = (moment(failure.ended, at), name, function, worker, clock(ran), how)
    values = (failure.ended, name, function, worker, ran, how)
    about = RowTask(failure.mission_id, failure.task, name, worker)
    style = "warn" if failure.retried else "bad"
    return TableRow(f"{name}:{failure.ended}", cells, values, style, about)


# ---- order


class RowOrder(NamedTuple):
    """The order and the choice of the rows of a table.

    Attributes:
        column: the head of the column by which they are sorted; empty for the table's own order.
        reverse: True if the order is turned round.
        words: rows without these words are left out.
    """

    column: str = ""
    reverse: bool = False
    words: str = ""


def arranged(table: Table, order: RowOrder) -> list[TableRow]:
    """Return the rows that are to be shown, in their order."""
    words = order.words.lower().split()
    rows: Iterable[TableRow] = table.rows
    if words:
        rows = (row for row in rows if _has(row, words))
    listed = list(rows)
    heads = [column.head for column in table.columns]
    if order.column in heads:
        at = heads.index(order.column)
        # Numbers from the largest, and words from A: what is looked for is most often there.
        largest_first = not any(isinstance(row.values[at], str) for row in listed[:1])
        listed.sort(key=lambda row: _rank(row.values[at]), reverse=largest_first)
    if order.reverse:
        listed.reverse()
    return listed


def _rank(value: Any) -> Any:
    return natural(value) if isinstance(value, str) else value


def _has(row: TableRow, words: Sequence[str]) -> bool:
    cells = " ".join(cell.text if isinstance(cell, Gauge) else cell for cell in row.cells).lower()
    return all(word in cells for word in words)


def next_column(table: Table, order: RowOrder) -> RowOrder:
    """Return the order by the next column; after the last one comes the table's own."""
    heads = ["", *(column.head for column in table.columns)]
    at = heads.index(order.column) if order.column in heads else 0
    return order._replace(column=heads[(at + 1) % len(heads)], reverse=False)


# ---- the lines on top


def totals(answer: OverviewAnswer, rates: Rates) -> list[str]:
    """Return the totals, in parts; the last parts may be left out."""
    given, cores = answer.cores
    computing, tasks = answer.computing, answer.tasks
    computes = f", {cores_text(computing)} computing" if given and computing is not None else ""
    parts = [f"{given:g} of {cores:g} cores given{computes}"]
    parts.append(f"{tasks.running} running, {tasks.waiting} waiting")
    parts.append(f"{tasks.done} done, {tasks.failed} failed")
    rate = sum(rates.rate(mission.id) for mission in answer.missions)
    if rate > 0:
        parts.append(rate_text(rate))
    return parts


_NEWS = 600.0  # seconds for which a lost worker is news
_LOST = 3  # that are named


def losses(answer: OverviewAnswer) -> list[str]:
    """Return a sentence on each worker that was lost lately, the last one first."""
    at = answer.at
    lost = [one for one in reversed(answer.lost) if at - one.at < _NEWS]
    texts = []
    for one in lost[:_LOST]:
        tasks = "1 task runs" if one.tasks == 1 else f"{one.tasks} tasks run"
        then = f"; {tasks} again elsewhere" if one.tasks else ""
        texts.append(f"{moment(one.at, at)} worker {clean(one.name)} is lost{then}")
    if len(lost) > _LOST:
        texts.append(f"{len(lost) - _LOST} more are lost")
    return texts
