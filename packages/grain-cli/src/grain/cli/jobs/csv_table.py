"""The tasks of jobs as a table of comma-separated values, with their inputs and outputs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.columns import Column
from grain.cli.queue.explaining import outputs
from grain.cli.queue.rows import task_rows, word_of
from grain.eventlog.files import open_plain
from grain.inputs.splitting import row_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from grain.cli.queue.tasks import TaskRow
    from grain.queue.book import Blocks, Book, Entry
    from grain.queue.folder import Queue
    from grain.queue.records import TaskInput
    from grain.queue.selectors import Selected

LONGEST = 1_000_000
"""Bytes of an output in a cell."""

_NO_STATUS = -1  # of a run that its time limit ended, as in tables of `grain map`


def _status(row: TaskRow) -> int | None:
    """Return the exit status of the last run; None if it has none."""
    if row.run is None or row.run.how in ("", "cancelled", "returned", "lost"):
        return None
    return _NO_STATUS if row.run.how in ("timeout", "memory") else row.run.status


def _optional(value: object) -> str:
    return "" if value is None else str(value)


# Those that are in the tables of `grain map`, too, have the same names.
_FIRST: tuple[Column[TaskRow], ...] = (
    Column("Job", lambda row: row.number),
    Column("Task", lambda row: row.task, _optional),
    Column("State", word_of),
    Column("Attempt", lambda row: row.run and row.run.attempt, _optional),
    Column("Host", lambda row: row.run and row.run.host, _optional),
    Column("Starttime", lambda row: row.run and f"{row.run.began:.3f}", _optional),
    Column("JobRuntime", lambda row: row.run and row.run.how and f"{row.seconds:.3f}", _optional),
    Column("Exitval", _status, _optional),
    Column(
        "Signal",
        lambda row: row.run.signal if row.run and _status(row) is not None else None,
        _optional,
    ),
)


class _Wide(NamedTuple):
    """The columns between the first and the last ones: those of inputs."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, queue: Queue, entries: Sequence[Entry]) -> _Wide:
        names: dict[str, None] = {}
        for entry in entries:
            names |= dict.fromkeys(entry.job.columns)
            if entry.job.inputs_blob and not entry.job.columns:
                most = max((len(one.values) for _, one in queue.inputs(entry.job)), default=0)
                names |= dict.fromkeys(f"V{i + 1}" for i in range(most))
        return cls(tuple(names))

    def cells(self, entry: Entry, filled: TaskInput | None) -> list[str]:
        if filled is None:
            return [""] * len(self.names)
        names = entry.job.columns or [f"V{i + 1}" for i in range(len(filled.values))]
        found = dict(zip(names, filled.values, strict=False))
        return [found.get(name, "") for name in self.names]


def table_lines(
    queue: Queue,
    book: Book,
    entries: Sequence[Entry],
    chosen: Iterable[Selected],
    now: float,
    blocks: Blocks,
) -> Iterator[bytes]:
    """Yield a head, and a row for each task of jobs, with the output that there is by now.

    Args:
        chosen: the jobs, or tasks of jobs, that are meant.
        now: Unix seconds.
        blocks: as of `grain.cli.queue.fitting.blocks_of`.

    Raises:
        OSError, grain.queue.errors.QueueError: inputs cannot be read.
    """
    wide = _Wide.of(queue, entries)
    yield os.fsencode(
        row_text([*(one.name for one in _FIRST), *wide.names, "Stdout", "Stderr"]) + "\n"
    )
    meant = list(chosen)
    for entry in entries:
        inputs = dict(queue.inputs(entry.job))
        ones = [one for one in meant if one.first <= entry.number <= one.last]
        rows = {row.name: row for one in ones for row in task_rows(book, entry, one, now, blocks)}
        for row in rows.values():
            filled = None if row.task is None else inputs.get(row.task)
            first = (column.shown(row) for column in _FIRST)
            cells = [*first, *wide.cells(entry, filled), *_printed(entry, row)]
            yield os.fsencode(row_text(cells) + "\n")


def _printed(entry: Entry, row: TaskRow) -> list[str]:
    """Return what a task has printed on standard output and standard error, if it is two files."""
    run = row.standing.run
    texts = ["", ""]
    files = outputs(entry.job, entry.number, row.task, run.host if run else "")
    for i, file in enumerate(files):
        with suppress(OSError):  # it is not there yet, or no more
            texts[i] = os.fsdecode(_end_of(file))
    return texts


def _end_of(file: Path) -> bytes:
    """Return what is in an output, as far as a cell has room; of a longer one the end.

    Raises:
        OSError: it cannot be read, as a device and a named pipe.
    """
    with open_plain(file) as source:
        left_out = max(os.fstat(source.fileno()).st_size - LONGEST, 0)
        source.seek(left_out)
        end = source.read(LONGEST)
    if not left_out:
        return end
    note = f"(grain: {left_out:,} bytes before this are only in {file})\n"
    return os.fsencode(note) + end
