"""The tables of tasks: what runs, what waits and why, and failures by cause. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from grain.cli.columns import Column
from grain.cli.show import clean
from grain.cli.top.tables.grid import Shown, Table, TableRow, table_row
from grain.facts.rows import Causes, Run, how_failed, key_of
from grain.resource.figures import clock, counted, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grain.edge.questions import OverviewAnswer, ProgramsAnswer
    from grain.facts.rows import Cause, Mission, Queue


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
    rows = []
    for worker, run in sorted(runs, key=lambda one: one[1].started or at):
        mission = by_id.get(run.mission)
        label = clean(mission.label) if mission else f"mission {clean(run.mission[:8])}"
        use = uses.get((mission.id, run.task)) if mission else None
        row = _RunningTask(run, f"{label}:{run.task}", worker, at, use)
        about = replace(run, name=row.name) if mission else None
        rows.append(table_row(RUNNING, row, f"{run.mission}:{run.task}", about=about))
    columns = RUNNING
    if not uses:  # no worker has reported on programs
        columns = tuple(replace(c, rank=9) if c.name in _OF_PROGRAMS else c for c in RUNNING)
    return Table(
        f"RUNNING  {count}", columns, tuple(rows), "nothing runs", more=max(count - len(rows), 0)
    )


class _RunningTask(NamedTuple):
    run: Run
    name: str
    worker: str
    at: float
    use: Use | None

    @property
    def seconds(self) -> float:
        return 0.0 if self.run.started is None else max(self.at - self.run.started, 0.0)


RUNNING: tuple[Column[_RunningTask], ...] = (
    Column("TASK", lambda one: one.name, least=12, tail=True),
    Column("FUNCTION", lambda one: one.run.function, rank=4, least=8),
    Column("WORKER", lambda one: one.worker, rank=3, least=14, tail=True),
    Column("TIME", lambda one: one.seconds, clock, rank=1, right=True),
    Column("CPU", lambda one: Shown(busy_text(one.use), one.use and one.use.busy), rank=2,
           right=True),
    Column("MEMORY", lambda one: Shown(memory_text(one.use), one.use and one.use.memory), rank=2,
           right=True),
    Column("PROGRAM", lambda one: program_text(one.use), rank=5, least=12),
    Column("ASKS FOR", lambda one: one.run.asked, rank=6, least=10),
)  # fmt: skip
"""The columns of tasks that run."""

_OF_PROGRAMS = ("CPU", "MEMORY", "PROGRAM")


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
    rows = [
        table_row(_WAITING, one, queue_key(one), _style(one), _oldest(one))
        for one in answer.queues
        if one.waiting
    ]
    tasks = answer.tasks
    counts = (tasks.awaiting_report, "awaiting report"), (tasks.suspect, "suspect")
    others = [f"{count} {name}" for count, name in counts if count]
    title = ", ".join([f"WAITING  {tasks.waiting}", *others])
    return Table(title, _WAITING, tuple(rows), "nothing waits", more=answer.more_queues)


def _name(queue: Queue) -> str:
    label = clean(queue.mission)
    return clean(queue.oldest) or label or "-"


def _oldest(queue: Queue) -> Run | None:
    if not queue.task:
        return None
    return Run(mission=queue.mission_id, name=_name(queue), task=queue.task, state="waiting")


def _style(queue: Queue) -> str:
    return "warn" if queue.lack else ""


_WAITING: tuple[Column[Queue], ...] = (
    Column("TASKS", lambda one: one.waiting, right=True),
    Column("OLDEST", _name, rank=1, least=12, tail=True),
    Column("ASKS FOR", lambda one: one.asked, rank=2, least=10),
    Column("WHY", lambda one: one.why, rank=1, least=12),
    Column("RUNS", lambda one: one.running, rank=4, right=True),
    Column("PRIORITY", lambda one: one.priority, rank=5, right=True),
)


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
    return "\0".join(key_of(cause.first))


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
    listed = [_cause(row, runs[-1], answer.at) for row, runs in rows]
    return Table(f"FAILURES  {failed}{again}{more}", _CAUSES, tuple(listed), "none")


_CAUSES: tuple[Column[tuple[Cause, Run, float]], ...] = (
    Column("RUNS", lambda one: one[0].runs, rank=1, right=True),
    Column("AGAIN", lambda one: one[0].again, lambda again: str(again or "-"), rank=5, right=True),
    Column("HOW", lambda one: one[0].how, least=34),
    Column("FUNCTION", lambda one: one[0].first.function, rank=3, least=8),
    Column("LAST", lambda one: _ended(*one[1:]), rank=2),
    Column("TASK", lambda one: one[1].name, rank=1, least=12, tail=True),
    Column("WORKER", lambda one: one[1].worker, rank=6, least=14, tail=True),
)
_FAILED: tuple[Column[tuple[Run, float]], ...] = (
    Column("TIME", lambda one: _ended(*one), rank=2),
    Column("TASK", lambda one: one[0].name, least=12, tail=True),
    Column("FUNCTION", lambda one: one[0].function, rank=3, least=8),
    Column("WORKER", lambda one: one[0].worker, rank=1, least=14, tail=True),
    Column("RAN", lambda one: one[0].seconds, clock, rank=4, right=True),
    Column("HOW", lambda one: _how(one[0]), rank=2, least=10),
)


def _ended(run: Run, at: float) -> Shown:
    return Shown(moment(run.ended, at), run.ended)


def _how(run: Run) -> str:
    return f"tried again: {how_failed(run)}" if run.again else how_failed(run)


def _cause(cause: Cause, last: Run, at: float) -> TableRow:
    style = "warn" if cause.again == cause.runs else "bad"
    about = _about(last) if cause.runs == 1 else None
    return table_row(_CAUSES, (cause, last, at), cause_key(cause), style, about)


def _failure(run: Run, at: float) -> TableRow:
    key = f"{clean(run.name)}:{run.ended}"
    return table_row(_FAILED, (run, at), key, "warn" if run.again else "bad", _about(run))


def _about(run: Run) -> Run:
    return replace(run, name=clean(run.name))
