"""Outputs and files of warnings that several tasks share, in sentences."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.show import clean
from grain.files.trust import file_at
from grain.inputs.warning import parse_warning
from grain.queue import patterns
from grain.queue.arrays import count_tasks, task_numbers
from grain.queue.errors import BadInput
from grain.queue.patterns import UNKNOWN, Facts, file_of, is_shared, shared_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.queue.folder import Queue
    from grain.queue.records import ArraySpec, Job

_LONGEST = 40  # characters of an input
_LOOKED_AT = 1000  # tasks whose files are looked up on the disk, which may be a slow one


def shared_text(job: Job, entries: Sequence[str] = ()) -> str:
    """Return a line on each file that all tasks of an array share; "" if there is none.

    These are outputs, to which all append, and the file of their warning.

    Args:
        entries: the inputs, the first one for task 1.

    Raises:
        BadInput: a task would empty what another one has written.
    """
    if job.array is None:
        return ""
    if not job.append:
        _check_links(job, job.array, entries)
    lines = []
    for shared in shared_outputs(job):
        if shared.path.exists() and not shared.path.is_file():  # such as /dev/null
            continue
        first, second = (_named(task, entries) for task in shared.tasks)
        if not shared.appended:
            raise BadInput(
                f"{clean(shared.path)} is the output of {first} and the file for standard error of "
                f"{second}: with %a in both names, each task has its own, as in -o %a.out -e %a.err"
            )
        if not job.append:
            own = Path(shared.path.name)
            lines.append(
                f"all {count_tasks(job.array)} tasks write to {clean(shared.path)}, as {first} and "
                f"{second}: they append to it, and what is in it stays. With %a in its name, as in "
                f"{clean(own.stem)}-%a{clean(own.suffix)}, each has its own"
            )
    if (name := _warning_file(job)) and job.array.at_once != 1 and is_shared(name, job):
        first, second = (_named(task, entries) for task in islice(task_numbers(job.array), 2))
        lines.append(
            f"--warn {clean(name)} is one file for all {count_tasks(job.array)} tasks: the warning "
            f"of {first} stops {second}, too, if it runs then. With %a in its name, as in "
            f"{clean(name)}-%a, or in that of its directory, each has its own"
        )
    return "\n".join(lines)


def same_warning(job: Job, queue: Queue) -> str:
    """Return a line on another job that the file of a job's warning stops, too; "" if none does.

    Jobs that this one waits for do not count: the next part of a calculation has the same file.
    """
    if not (name := _warning_file(job)) or _warns(job, 1) != _warns(job, 2):
        return ""
    from grain.queue.book import Book  # which other submissions need not read

    book = Book.read(queue)
    before, todo = set[int](), [job]
    while todo:
        found = {one for dependency in todo.pop().after for one in dependency.jobs} - before
        before |= found
        todo += [entry.job for number in found if (entry := book.find(number)) is not None]
    for entry in book.entries.values():
        counts = not entry.is_final and entry.number not in before
        if counts and entry.job.warn and _warns(entry.job, 1) == _warns(job, 1):
            return (
                f"--warn {clean(name)} is also the file of job {entry.number} "
                f"({clean(entry.job.name)}) in this directory: the warning of one stops the other, "
                f"too, if both run. With %j in its name, as in {clean(name)}-%j, each has its own"
            )
    return ""


def _warning_file(job: Job) -> str:
    """Return the name of the file that warns a job, with its patterns; "" for none."""
    told = parse_warning(job.warn) if job.warn else 0
    return told[0] if isinstance(told, tuple) else ""


def _warns(job: Job, number: int) -> Path | None:
    """Return the file that would warn a job if it had this number; None if none does."""
    name = _warning_file(job)
    facts = Facts(number, None, job.name, job.user, "")
    return patterns.path(name, facts, job.directory) if name else None


def _check_links(job: Job, array: ArraySpec, entries: Sequence[str]) -> None:
    """Raise BadInput if links lead two tasks to one file, which they would not append to."""
    seen: dict[object, tuple[int, Path]] = {}
    own = [one for one in (job.stdout, job.stderr) if one and not is_shared(one, job)]
    for task in islice(task_numbers(array), _LOOKED_AT) if own else ():
        for path in (file_of(one, job, task, UNKNOWN) for one in own):
            file = file_at(path)
            other, name = seen.setdefault(file, (task, path))
            if file is not None and other != task and name != path:
                raise BadInput(
                    f"{clean(name)}, to which {_named(other, entries)} writes, and {clean(path)} "
                    f"of {_named(task, entries)} are one file, by a link: give each task its own, "
                    "or have all append to it (--append)"
                )


def _named(task: int, entries: Sequence[str]) -> str:
    if task > len(entries):
        return f"task {task}"
    entry = entries[task - 1]
    return f"task {task} ({clean(entry[:_LONGEST])}{'…' * (len(entry) > _LONGEST)})"
