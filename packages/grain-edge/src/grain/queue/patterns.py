"""Names of the files that a job reads and writes, with ``%j`` and others.

They are as "filename pattern" in sbatch(1) has them.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.queue.arrays import task_numbers

if TYPE_CHECKING:
    from grain.queue.records import Job

_SYMBOL = r"(?a)%(\d*)([%AaJjNnstux])"
_MOST_DIGITS = 10
UNKNOWN = "jAJN"
"""The symbols that have no value before a job has its number and its host."""
_NO_TASK = 4294967294
"""The number of the task of a job that is not an array, in Slurm."""


class Facts(NamedTuple):
    """The values of the symbols.

    Attributes:
        number: the job's number.
        task: that of the task in its array; None if it is not an array.
        name: the job's.
        user: who has submitted it.
        host: where it runs; only the part before the first dot counts.
        node: its number among the job's nodes.
        rank: the number of the process, for ``%t``.
        step: the number of a step, of ``srun``; None for the script itself.
    """

    number: int
    task: int | None
    name: str
    user: str
    host: str
    node: int = 0
    rank: int = 0
    step: int | None = None


def path(pattern: str, facts: Facts, directory: str, kept: str = "") -> Path:
    """Return the path of a file.

    Args:
        pattern: with symbols such as ``%j``; a number after ``%`` is the least number of digits, at
            most 10. With a backslash in it, nothing is replaced, and backslashes go. Symbols that
            it does not know stay.
        facts: the values.
        directory: of the job, to which a relative path belongs.
        kept: letters of symbols that stay, too.
    """
    if "\\" in pattern:
        name = pattern.replace("\\", "")
    else:
        name = re.sub(
            _SYMBOL,
            lambda match: match[0] if match[2] in kept else _value(match[1], match[2], facts),
            pattern,
        )
    return Path(directory, name)


class SharedOutput(NamedTuple):
    """A file to which two tasks of an array write.

    Attributes:
        path: the file; symbols of the job's number and host stay in its name, as it has none yet.
        tasks: the two tasks.
        appended: True if all tasks append to it, so that nothing is lost; False if it is the
            stdout of the one and the stderr of the other, and one empties it when it begins.
    """

    path: Path
    tasks: tuple[int, int]
    appended: bool


def is_shared(pattern: str, job: Job) -> bool:
    """Return True if all tasks of an array write to one file: each appends to it."""
    if job.array is None:
        return False
    pair = itertools.islice(task_numbers(job.array), 2)
    found = [file_of(pattern, job, task) for task in pair]
    return len(found) == 2 and found[0] == found[1]


def shared_outputs(job: Job) -> list[SharedOutput]:
    """Return the files to which several tasks of an array write, were all of them on one host."""
    tasks = [] if job.array is None else list(task_numbers(job.array))
    patterns = [pattern for pattern in (job.stdout, job.stderr) if pattern]
    common = {file_of(one, job, tasks[0]): one for one in patterns if is_shared(one, job)}
    found = [
        SharedOutput(file_of(one, job, tasks[0], UNKNOWN), (tasks[0], tasks[1]), True)
        for one in common.values()
    ]
    if len(patterns) == 2 and len(tasks) > 1 and not all(is_shared(one, job) for one in patterns):
        printed: dict[Path, int] = {}
        for task in reversed(tasks):
            printed[file_of(job.stdout, job, task)] = task
        for task in tasks:
            path = file_of(job.stderr, job, task)
            if path in printed and (path in common or printed[path] != task):
                other = next(one for one in (printed[path], *tasks[:2]) if one != task)
                shown = file_of(job.stderr, job, task, UNKNOWN)
                found.append(SharedOutput(shown, (other, task), False))
                break
    return found


def file_of(pattern: str, job: Job, task: int | None, kept: str = "") -> Path:
    """Return a file of a task, as if the number of its job were 1.

    Args:
        task: None for a job that is not an array.
        kept: as of `path`.
    """
    return path(pattern, Facts(1, task, job.name, job.user, ""), job.directory, kept)


def _value(width: str, symbol: str, facts: Facts) -> str:
    def digits(number: int) -> str:
        return str(number).zfill(min(int(width or 0), _MOST_DIGITS))

    # A name is one part of a path, whatever the user has put into it.
    match symbol:
        case "j" | "A":
            return digits(facts.number)
        case "a":
            return digits(_NO_TASK if facts.task is None else facts.task)
        case "J":
            return digits(facts.number) + ("" if facts.step is None else f".{facts.step}")
        case "s":
            return "batch" if facts.step is None else digits(facts.step)
        case "n":
            return digits(facts.node)
        case "t":
            return digits(facts.rank)
        case "N":
            return facts.host.partition(".")[0].replace("/", "_")
        case "u":
            return facts.user.replace("/", "_")
        case "x":
            return facts.name.replace("/", "_")
        case _:
            return "%"
