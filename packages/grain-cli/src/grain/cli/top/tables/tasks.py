"""The tables of tasks: what runs, what waits and why, and failures by cause. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import clean, moment
from grain.cli.top.tables.grid import Column, RowTask, Table, TableRow
from grain.eventlog.causes import cause_of, headline
from grain.facts.rows import Causes, why
from grain.resource.figures import clock, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grain.edge.questions import OverviewAnswer, ProgramsAnswer
    from grain.facts.rows import Cause, Mission, Queue, Run


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


def running_table(answer: OverviewAnswer, uses: Mapping[tuple[str, int], Use]) -> Table:
    """Return the running tasks, the longest run first; `uses` as in `tables`."""
    runs = [(one.label, run) for one in answer.workers for run in one.runs]
    return runs_table(runs, answer.missions, answer.at, answer.tasks.running, uses)


def runs_table(
    runs: Iterable[tuple[str, Run]],
    missions: Iterable[Mission],
    at: float,
    count: int,
    uses: Mapping[tuple[str, int], Use],
) -> Table:
    """Return running tasks, the longest run first.

    Args:
        count: how many there are, with those that are left out.
    """
    by_id = {mission.id: mission for mission in missions}
    rows = [_run(run, worker, by_id.get(run.mission), at, uses) for worker, run in runs]
    rows.sort(key=lambda row: -row.values[3])
    columns: tuple[Column, ...] = RUNNING
    if not uses:  # no worker has reported on programs
        columns = tuple(c._replace(rank=9) if c.head in _OF_PROGRAMS else c for c in RUNNING)
    return Table(
        f"RUNNING  {count}", columns, tuple(rows), "nothing runs", more=max(count - len(rows), 0)
    )


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
    run: Run,
    worker: str,
    mission: Mission | None,
    at: float,
    uses: Mapping[tuple[str, int], Use],
) -> TableRow:
    label = clean(mission.label) if mission else f"mission {clean(run.mission[:8])}"
    seconds = 0.0 if run.started is None else max(at - run.started, 0.0)
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
        clean(run.asked),
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
    title = ", ".join([f"WAITING  {tasks.waiting}", *others])
    return Table(title, columns, tuple(rows), "nothing waits", more=answer.more_queues)


TOO_FEW = " workers are needed at once, and "
"""Words of the reason why a task on several workers cannot start; `no worker` begins the others."""


def _queue(queue: Queue) -> TableRow:
    label = clean(queue.mission)
    oldest = clean(queue.oldest) or label or "-"
    request, why = clean(queue.asked), clean(queue.why)
    cells = (str(queue.waiting), oldest, request, why, str(queue.running), str(queue.priority))
    values = (queue.waiting, oldest, request, why, queue.running, queue.priority)
    about = RowTask(queue.mission_id, queue.task, oldest) if queue.task else None
    style = "warn" if why.startswith("no worker") or TOO_FEW in why else ""
    return TableRow(queue_key(queue), cells, values, style, about)


def queue_key(queue: Queue) -> str:
    """Return the key of the row of waiting tasks."""
    return f"{queue.mission}\0{queue.priority}\0{queue.asked}"


# ---- failures


def causes(answer: OverviewAnswer) -> list[tuple[Cause, list[Run]]]:
    """Return the causes of failures, the most frequent first, each with its runs, the last last."""
    found = Causes()
    runs: dict[int, list[Run]] = {}
    for run in answer.failures:
        runs.setdefault(id(found.add(run)), []).append(run)
    rows = [(cause, runs[id(cause)]) for cause in found]
    return sorted(rows, key=lambda row: (-row[0].runs, -row[1][-1].ended))


def cause_key(cause: Cause) -> str:
    """Return the key of the row of a cause, by which it is recognised in the next answer."""
    return f"{cause.mission}\0{cause.function}\0{cause.outcome}\0{cause_of(why(cause.first))}"


def failures_table(answer: OverviewAnswer, cause: str = "") -> Table:
    """Return the last tasks that failed, by cause, with those that are tried again.

    Args:
        cause: the key of the one whose tasks are listed one by one; empty for all.
    """
    rows = causes(answer)
    one = next((runs for row, runs in rows if cause_key(row) == cause), None) if cause else None
    if one is not None:
        listed = [_failure(run, answer.at) for run in reversed(one)]
        title = f"FAILURES  {counted(len(listed), 'failure')} of one cause; Escape shows all"
        return Table(title, _FAILED, tuple(listed), "none")
    failed, retried = answer.tasks.failed, answer.tasks.retried
    again = f", and {retried} that were tried again" if retried else ""
    last = len(answer.failures)
    more = f"; the last {last} here" if last < failed + retried else ""
    listed = [_cause(*row, answer.at) for row in rows]
    return Table(f"FAILURES  {failed}{again}{more}", _CAUSES, tuple(listed), "none")


_CAUSES = (
    Column("RUNS", 1, right=True),
    Column("AGAIN", 5, right=True),
    Column("HOW", 0, least=34),
    Column("FUNCTION", 3, least=8),
    Column("LAST", 2),
    Column("TASK", 1, least=12, tail=True),
    Column("WORKER", 6, least=14, tail=True),
)
_FAILED = (
    Column("TIME", 2),
    Column("TASK", 0, least=12, tail=True),
    Column("FUNCTION", 3, least=8),
    Column("WORKER", 1, least=14, tail=True),
    Column("RAN", 4, right=True),
    Column("HOW", 2, least=10),
)


def _cause(cause: Cause, runs: Sequence[Run], at: float) -> TableRow:
    last, count, again = runs[-1], cause.runs, cause.again
    name, worker = clean(last.name), clean(last.worker)
    how, function = clean(cause.how), clean(cause.function)
    when = moment(last.ended, at)
    cells = (str(count), str(again or "-"), how, function, when, name, worker)
    values = (count, again, how, function, last.ended, name, worker)
    about = RowTask(last.mission, last.task, name, worker) if count == 1 else None
    return TableRow(cause_key(cause), cells, values, "warn" if again == count else "bad", about)


def _failure(run: Run, at: float) -> TableRow:
    name, function, worker = clean(run.name), clean(run.function), clean(run.worker)
    how = clean(headline(why(run)))
    if run.again:
        how = f"tried again: {how}"
    cells = (moment(run.ended, at), name, function, worker, clock(run.seconds), how)
    values = (run.ended, name, function, worker, run.seconds, how)
    about = RowTask(run.mission, run.task, name, worker)
    style = "warn" if run.again else "bad"
    return TableRow(f"{name}:{run.ended}", cells, values, style, about)
