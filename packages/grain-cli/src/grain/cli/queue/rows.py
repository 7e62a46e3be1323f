"""Jobs and tasks of the queue as rows of a table, sentences, and JSON. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.columns import Column, rows_text
from grain.cli.queue.tasks import TaskRow, never_began, task_name
from grain.cli.show import clean, folded
from grain.eventlog.soft_stops import soft_stop_text
from grain.queue.folder import DEFAULT
from grain.queue.states import AT_ONCE, FINAL, job_state
from grain.resource.figures import clock, counted, hostlist, signal_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.queue.book import Block, Blocks, Book, Entry
    from grain.queue.selectors import Selected
    from grain.queue.states import Reason, Run, Standing

WORDS = {
    "PENDING": "waiting",
    "RUNNING": "running",
    "COMPLETED": "done",
    "FAILED": "failed",
    "TIMEOUT": "timed out",
    "OUT_OF_MEMORY": "out of memory",
    "CANCELLED": "cancelled",
    "LOST": "lost",
}
NEVER = "impossible"
"""The state of what never begins unless a user acts."""

REASONS = {
    "": "",
    "held": "on hold",
    "cancel": "until it is cancelled",
    "dependency": "for other jobs",
    "never": "for other jobs",
    "begin time": "for its begin time",
    "array limit": "for other tasks of its array",
}


class JobRow(NamedTuple):
    """A job, as lists show it.

    Attributes:
        number: the job's.
        name: its name.
        state: a word of `WORDS`, or `NEVER`.
        waits: the reason for which it waits; "" for none but a worker. Or that it is to be
            cancelled.
        done: how many tasks have ended.
        tasks: how many there are.
        unsuccessful: how many of those that ended did not succeed.
        seconds: for how long its last attempt runs, or ran; of an array, from its first begin to
            its last end, or until now while one of its tasks runs. None if it did not begin.
        host: where it runs or ran, of a job with one task.
        end: how it ended, or why it never begins, where that needs words.
    """

    number: int
    name: str
    state: str
    waits: Reason
    done: int
    tasks: int
    unsuccessful: int
    seconds: float | None
    host: str
    end: str

    @property
    def reason(self) -> str:
        """The reason for which it waits, in a few words."""
        return REASONS[self.waits]

    @property
    def sentence(self) -> str:
        """The reason and the end in a few words."""
        return ", ".join(filter(None, (self.reason, self.end)))


JOBS: tuple[Column[JobRow], ...] = (
    Column("JOB", lambda row: row.number),
    Column("NAME", lambda row: row.name, least=5),
    Column("STATE", lambda row: row.state),
    Column("TASKS", lambda row: f"{row.done}/{row.tasks}" if row.tasks > 1 else ""),
    Column("TOOK", lambda row: row.seconds, clock, rank=1),
    Column("HOST", lambda row: row.host, rank=1),
    Column("REASON", lambda row: row.sentence, rank=1, under="{}", least=5),
)


def jobs_text(queue: str, rows: Sequence[JobRow], most: int | None) -> str:
    """Return a table of jobs, and a sentence below it.

    Args:
        queue: name of the queue.
        most: columns of the terminal; None for no limit.
    """
    below = "\n".join(folded(summary(rows), most))
    return f"{rows_text(f'QUEUE {queue}', JOBS, rows, most)}{below}\n"


def job_row(book: Book, entry: Entry, now: float, blocks: Blocks) -> JobRow:
    """Return the row of a job.

    Args:
        now: Unix seconds.
        blocks: as of `grain.cli.queue.fitting.blocks_of`.
    """
    counts = entry.counts
    state = job_state(counts)
    block = blocks.of(entry)
    waits: Reason = ""
    run = seconds = None
    if entry.job.array is None:
        standing = standing_of(book, entry, None, now)
        run, waits = standing.run, standing.reason if block is None else ""
        seconds = TaskRow(entry, None, standing, now).seconds
    else:
        if state == "PENDING" and block is None:
            # That of the first task that waits.
            standings = (standing_of(book, entry, task, now) for task in entry.task_numbers())
            waits = next(one.reason for one in standings if one.state == "PENDING")
        runs = [one for of in entry.runs.values() for one in of if not never_began(one)]
        if runs:
            ended = now if counts.running else max(one.ended for one in runs)
            seconds = max(ended - min(one.began for one in runs), 0.0)
    end = ""
    if block is not None:
        end = cause(book, block)
    elif state in FINAL and run is not None:
        end = end_text(run)
    elif counts.unsuccessful and counts.tasks > 1:
        end = f"{counts.unsuccessful} without success"
    return JobRow(
        number=entry.number,
        name=entry.job.name,
        state=WORDS[state] if block is None else NEVER,
        waits=waits,
        done=counts.ended,
        tasks=entry.tasks,
        unsuccessful=counts.unsuccessful,
        seconds=seconds,
        host=hostlist(run.hosts) if run is not None and not never_began(run) else "",
        end=end,
    )


def end_text(run: Run) -> str:
    """Return how an attempt ended, where its state does not say that."""
    if run.how == "cancelled":
        return f"by {run.by}" + (f", {run.message}" if run.message else "")
    if run.interruption == "stopped":
        return soft_stop_text(run.attempt)
    if run.message:
        return run.message
    if run.how == "returned":
        return "its worker handed it back" + (" at once" if run.elapsed < AT_ONCE else "")
    how = signal_name(run.signal) if run.how == "signal" else ""
    if run.how == "exit" and run.status:
        how = f"exit status {run.status}"
    return ": ".join(filter(None, (how, run.line)))


def cause(book: Book, block: Block) -> str:
    """Return why a job never begins, in a few words."""
    if block.why:
        return "it fits no worker" if not block.by_way_of else f"job {block.job} fits no worker"
    if book.counts(block.job) is None:
        return f"job {block.job} ended long ago, and its files were removed"
    wanted = {"fail": "fail", "each": "succeed in the same task"}.get(block.until, "succeed")
    return f"job {block.job} did not {wanted}"


def block_text(book: Book, entry: Entry, block: Block) -> str:
    """Return why a job never begins, and what a user may do."""
    why = cause(book, block)
    if block.why:
        why += f": {block.why}" if block.by_way_of else ""
        why = why if block.by_way_of else block.why
    way = "".join(f", and job {one} waits for that" for one in reversed(block.by_way_of))
    own = number_text(book.queue.name, entry.number)
    again = f"`grain resubmit {number_text(book.queue.name, block.job)}` runs that again, "
    return (
        f"job {entry.number} ({entry.job.name}) never begins: {why}{way}; "
        f"{'' if block.why else again}`grain cancel {own}` gives this one up"
    )


def number_text(queue: str, jobs: object) -> str:
    """Return jobs as a command takes them, with the name of their queue if it is another one."""
    return str(jobs) if queue == DEFAULT else f"{queue}:{jobs}"


def word_of(row: TaskRow) -> str:
    """Return the state of a task, a word of `WORDS`, or `NEVER`."""
    return NEVER if row.never else WORDS[row.standing.state]


def sentence_of(row: TaskRow) -> str:
    """Return the reason for which a task waits, or its end, in a few words."""
    if row.never or row.standing.reason:
        return row.never or REASONS[row.standing.reason]
    return end_text(row.standing.run) if row.standing.run is not None else ""


TASKS: tuple[Column[TaskRow], ...] = (
    Column("TASK", lambda row: row.name),
    Column("STATE", word_of),
    Column("ATTEMPT", lambda row: row.standing.attempt if row.run else "", rank=1),
    Column("TOOK", lambda row: row.seconds, clock, rank=1),
    Column("HOST", lambda row: row.run.hosts if row.run else (), hostlist, rank=1),
    Column("REASON", sentence_of, rank=1, under="{}", least=5),
)


def tasks_text(number: int, name: str, rows: Sequence[TaskRow], most: int | None) -> str:
    """Return a table of tasks of a job.

    Args:
        name: of the job.
        most: columns of the terminal; None for no limit.
    """
    return rows_text(clean(f"JOB {number} ({name})"), TASKS, rows, most)


def task_rows(book: Book, entry: Entry, one: Selected, now: float, blocks: Blocks) -> list[TaskRow]:
    """Return the rows of the tasks of a job that are meant; `blocks` as of `job_row`."""
    rows = []
    for task in entry.task_numbers():
        if one.has(task):
            standing = standing_of(book, entry, task, now)
            waits = standing.state == "PENDING"
            block = blocks.of_task(entry, task) if waits else None
            never = "" if block is None else cause(book, block)
            rows.append(TaskRow(entry, task, standing, now, never))
    return rows


def standing_of(book: Book, entry: Entry, task: int | None, now: float) -> Standing:
    """Return the state of a task of a job, which may be packed."""
    return entry.standing(task, now, book.dependency(entry, task))


def summary(rows: Iterable[JobRow]) -> str:
    """Return the sentence below a list."""
    states: dict[str, int] = {}
    for row in rows:
        states[row.state] = states.get(row.state, 0) + 1
    return ", ".join(f"{counted(number, 'job')} {state}" for state, number in states.items())


def as_data(book: Book, entry: Entry, now: float, blocks: Blocks) -> dict[str, Any]:
    """Return a job as plain data, for ``--json``; `blocks` as of `job_row`."""
    row = job_row(book, entry, now, blocks)
    runs = {
        task_name(entry.number, task): [
            {
                "attempt": run.attempt,
                "began": run.began,
                "ended": run.ended or None,
                "host": run.host,
                "hosts": list(run.hosts),
                "how": run.how or "running",
                "exit_status": run.status if run.how == "exit" else None,
                "signal": run.signal or None,
                "seconds": run.elapsed,
                "cpu_seconds": run.cpu,
                "peak_memory": run.memory,
                "message": run.message,
                "line": run.line,
            }
            for run in of
        ]
        for task, of in entry.runs.items()
    }
    return {
        "job": row.number,
        "queue": book.queue.name,
        "user": entry.job.user,
        "name": row.name,
        "state": row.state,
        "reason": row.reason or (row.end if row.state == NEVER else ""),
        "tasks": row.tasks,
        "ended": row.done,
        "unsuccessful": row.unsuccessful,
        "submitted": entry.job.at,
        "directory": entry.job.directory,
        "request": entry.job.request,
        "time_limit": entry.job.timeout or None,
        "attempts": runs,
    }
