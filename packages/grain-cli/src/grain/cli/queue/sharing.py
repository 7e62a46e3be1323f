"""Outputs that tasks of an array share, in sentences."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.show import clean
from grain.files.trust import file_at
from grain.queue.arrays import count_tasks, task_numbers
from grain.queue.errors import BadInput
from grain.queue.patterns import UNKNOWN, file_of, is_shared, shared_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.queue.records import ArraySpec, Job

_LONGEST = 40  # characters of an input
_LOOKED_AT = 1000  # tasks whose files are looked up on the disk, which may be a slow one


def shared_text(job: Job, entries: Sequence[str] = ()) -> str:
    """Return a line on each file to which all tasks of an array append; "" if there is none.

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
    return "\n".join(lines)


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
