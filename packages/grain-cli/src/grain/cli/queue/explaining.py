"""Explain jobs of the queue, and show their output: for `grain why` and `grain logs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grain.cli.queue.fitting import blocks_of
from grain.cli.queue.opening import dispatcher_state
from grain.cli.queue.rows import REASONS, as_data, block_text, end_text, task_rows
from grain.cli.show import clean
from grain.edge.mission_ids import lasting_id
from grain.queue.states import job_state, outcome
from grain.resource.figures import counted, hostlist, moment, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from grain.cli.queue.tasks import TaskRow
    from grain.queue.book import Blocks, Book, Entry
    from grain.queue.folder import Queue
    from grain.queue.records import Job
    from grain.queue.selectors import Selected
    from grain.queue.states import Run

    Ask = Callable[[str, int], list[str]]

_LISTED = 10  # tasks at most that are explained one by one
_EARLIER = 3  # attempts before the last one


def explained(
    queue: Queue,
    jobs: Iterable[Selected],
    ask: Ask,
    trouble: Callable[[], str] = str,
    config: str | None = None,
) -> list[str]:
    """Return lines that explain jobs.

    Args:
        trouble: returns what is wrong with the dispatcher, if jobs wait; "" for nothing but that
            none may run.
        ask: returns the reasons of the scheduler for a task of a mission, by id and number; nothing
            if it cannot be asked.
        config: the configuration file that was chosen; None for the usual one.

    Raises:
        grain.queue.errors.QueueError: the files of the queue cannot be read.
    """
    from grain.queue.book import Book

    book = Book.read(queue)
    blocks = blocks_of(book, config)
    lines, waits = [], False
    for one in jobs:
        for number in range(one.first, one.last + 1):
            if entry := book.find(number):
                lines += _job_lines(queue, book, entry, one, ask, blocks)
                waits = waits or not entry.is_final
            else:
                lines.append(
                    "; ".join(book.damaged)
                    or f"job {number} ended long ago, and its files were removed"
                )
    if waits and (text := trouble()):
        lines.append(text)
    elif waits and not dispatcher_state(queue):
        lines.append("no dispatcher runs, so no job begins: `grain queue status` says more")
    return lines


def _job_lines(
    queue: Queue, book: Book, entry: Entry, one: Selected, ask: Ask, blocks: Blocks
) -> list[str]:
    rows = task_rows(book, entry, one, time.time(), blocks)
    lines = []
    if len(rows) > 1:
        counts = entry.counts
        lines.append(
            f"job {entry.number} ({entry.job.name}) {STATES[job_state(counts)]}: "
            f"{counts.pending} of {counted(counts.tasks, 'task')} wait, {counts.running} run, "
            f"{counts.ended} ended"
        )
        # Those that are alike are not worth a line each.
        rows = list({(row.standing.state, row.standing.reason): row for row in rows}.values())
    for row in rows[:_LISTED]:
        lines += _task_lines(queue, book, row, ask, blocks)
    return lines


def _task_lines(queue: Queue, book: Book, row: TaskRow, ask: Ask, blocks: Blocks) -> list[str]:
    entry, standing = row.entry, row.standing
    name, task = row.name, row.task
    what = f"task {name}" if task is not None else f"job {name} ({entry.job.name})"
    block = blocks.of_task(entry, task) if standing.state == "PENDING" else None
    lines = [f"{what} {STATES[standing.state] if block is None else 'never begins'}"]
    run = standing.run
    filled = queue.input(entry.job, task)
    if filled is not None:
        lines.append(f"  its input is {clean(filled.entry)}")
    if standing.reason and block is None:
        verb = "waits" if standing.state == "PENDING" else "runs"
        lines.append(f"  it {verb} {REASONS[standing.reason]}")
    if standing.state == "PENDING":
        lines += _waiting_lines(queue, book, entry, task, standing.attempt, ask)
        if block is not None:
            lines.append(f"  {block_text(book, entry, block)}")
    if run is not None and not run.worker and standing.state == "FAILED":
        lines.append(f"  it never began: {end_text(run)}")
    lines += _earlier_lines(entry.runs.get(task, ()), run)
    if run is not None and run.worker:
        verb = "ran" if run.how else "runs"
        times = f"from {moment(run.began)}{_how_long(run, row.seconds or 0.0)}"
        where = f"on worker {run.worker} ({run.host})"
        if run.others:
            where += f" and {counted(len(run.others), 'other')} ({hostlist(run.others)})"
        lines.append(f"  attempt {run.attempt} {verb} {where}, {times}")
        if end := end_text(run):
            lines.append(f"  it ended so: {end}")
        lines += [
            f"  its output is in {path}"
            for path in outputs(entry.job, entry.number, task, run.host)
        ]
    return lines


def _how_long(run: Run, seconds: float) -> str:
    """Return for how long an attempt ran; "" if its end was not seen."""
    return "" if run.how == "lost" and not seconds else f", for {span(seconds)}"


def _earlier_lines(runs: Sequence[Run], last: Run | None) -> list[str]:
    """Return a line for each of the newest earlier attempts; the last one is shown in full."""
    earlier = [run for run in runs if run.worker and run is not last]
    return [
        f"  attempt {run.attempt} ran on worker {run.worker}{_how_long(run, run.elapsed)}: "
        + (end_text(run) or f"it {STATES[outcome(run)]}")
        for run in earlier[-_EARLIER:]
    ]


def _waiting_lines(
    queue: Queue, book: Book, entry: Entry, task: int | None, attempt: int, ask: Ask
) -> list[str]:
    lines = []
    for dependency in entry.job.after:
        part = "" if dependency.task is None else f"_{dependency.task}"
        jobs = ", ".join(f"{number}{part}" for number in dependency.jobs)
        until = _UNTIL[dependency.until]
        until += f", and {span(dependency.delay)} more" if dependency.delay else ""
        either = " or" if entry.job.after_any and dependency is not entry.job.after[-1] else ""
        lines.append(f"  it waits for job {jobs} ({until}){either}")
    ticket = book.tickets.get((entry.number, task, attempt))
    if ticket is not None:
        lines += [f"  {line}" for line in ask(lasting_id(queue.name, queue.mission), ticket)]
    return lines


def jobs_as_data(
    queue: Queue, jobs: Iterable[Selected], config: str | None = None
) -> list[dict[str, Any]]:
    """Return jobs as plain data, for ``--json``; `config` as of `explained`."""
    from grain.queue.book import Book

    book, now = Book.read(queue), time.time()
    blocks = blocks_of(book, config)
    return [
        as_data(book, entry, now, blocks)
        for one in jobs
        for number in range(one.first, one.last + 1)
        if (entry := book.find(number)) is not None
    ]


def output_files(queue: Queue, jobs: Iterable[Selected]) -> list[Path]:
    """Return the files to which tasks of jobs write what they print."""
    from grain.queue.book import Blocks, Book

    book, now = Book.read(queue), time.time()
    blocks = Blocks(book)
    files: dict[Path, None] = {}
    for one in jobs:
        for number in range(one.first, one.last + 1):
            if entry := book.find(number):
                for row in task_rows(book, entry, one, now, blocks):
                    host = row.standing.run.host if row.standing.run else ""
                    files |= dict.fromkeys(outputs(entry.job, number, row.task, host))
    return list(files)


def outputs(job: Job, number: int, task: int | None, host: str) -> list[Path]:
    """Return the files to which a task writes what it prints."""
    from grain.queue import patterns

    facts = patterns.Facts(number, task, job.name, job.user, host)
    names = dict.fromkeys([job.stdout, job.stderr or job.stdout])
    return [patterns.path(name, facts, job.directory) for name in names]


STATES = {
    "PENDING": "waits",
    "RUNNING": "is running",
    "COMPLETED": "is done",
    "FAILED": "has failed",
    "TIMEOUT": "was ended at its time limit",
    "OUT_OF_MEMORY": "has failed: its memory was not enough",
    "CANCELLED": "was cancelled",
    "LOST": "was lost with its worker, and may not run again",
}
_UNTIL = {
    "ok": "until they succeed",
    "fail": "until they fail",
    "any": "until they end",
    "begun": "until they begin",
    "each": "task by task, until they succeed",
}
