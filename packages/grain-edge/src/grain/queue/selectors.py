"""Jobs and tasks as users name them: ``last``, ``all``, ``12-20,25``, ``12_3``, ``12_[1-4]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.queue.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

TASKS_PER_JOB = 1_000_000
"""A task of an array has a plain number, too: that of its job, times this, and its own. Scripts
name files by it, and no two jobs or tasks may have the same."""

_JOBS = r"(?a)(\d{1,12})(?:-(\d{1,12}))?"
_TASKS = r"(?a)(\d{1,12})_(?:(\d{1,9})|\[([0-9,\s-]+)(?:%\d+)?\])"
_RANGE = r"(?a)(\d{1,9})(?:-(\d{1,9}))?"
_COMMA = r",(?![^\[]*\])"  # not those between brackets


class Selected(NamedTuple):
    """A range of jobs, or tasks of one job.

    Attributes:
        first: the number of the first job.
        last: that of the last one, included.
        tasks: first and last of each range of tasks of the one job; empty for all.
    """

    first: int
    last: int
    tasks: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Return the jobs or tasks as a user names them."""
        if self.tasks:
            tasks = _ranges(self.tasks)
            return f"{self.first}_{tasks if tasks.isdecimal() else f'[{tasks}]'}"
        return _ranges([(self.first, self.last)])

    def has(self, task: int | None) -> bool:
        """Return True if a task is meant; None is that of a job that is not an array."""
        return not self.tasks or (
            task is not None and any(first <= task <= last for first, last in self.tasks)
        )


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return ",".join(str(one) if one == last else f"{one}-{last}" for one, last in ranges)


def plain_number(number: int, task: int | None) -> int:
    """Return the one number by which a job or a task of an array is told from all others."""
    return number if task is None else number * TASKS_PER_JOB + task


def number_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as ranges: first and last of each, ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def parse_selector(text: str, last: int) -> tuple[Selected, ...]:
    """Return the jobs and tasks that a text names, in the order in which they are named.

    Args:
        text: ``last``, ``all``, numbers and ranges with commas between them, tasks of an array.
        last: the number of the last job in the queue; 0 if there is none.

    Returns:
        Ranges that may name jobs that there are not, or that have other tasks; empty for ``all`` of
        an empty queue.

    Raises:
        BadInput: it is not written so, or ``last`` of an empty queue.
    """
    return tuple(
        found
        for part in re.split(_COMMA, text.strip())
        for found in _part(part.strip(), text, last)
    )


def _part(part: str, text: str, last: int) -> tuple[Selected, ...]:
    if part == "all":
        return (Selected(1, last),) if last else ()
    if part == "last":
        if not last:
            raise BadInput("there is no last job: the queue is empty")
        return (Selected(last, last),)
    if match := re.fullmatch(_JOBS, part):
        first, end = int(match[1]), int(match[2] or match[1])
        if end < first:
            raise BadInput(f"{text!r}: the range {part!r} ends before it begins")
        if not first:
            raise BadInput(f"{text!r}: jobs are numbered from 1")
        return (Selected(first, end),)
    if match := re.fullmatch(_TASKS, part):
        number = int(match[1])
        if not number:
            raise BadInput(f"{text!r}: jobs are numbered from 1")
        if match[2]:
            return (Selected(number, number, ((int(match[2]), int(match[2])),)),)
        return (Selected(number, number, tuple(_range(one, text) for one in match[3].split(","))),)
    raise BadInput(
        f"{text!r}: {part!r} names no jobs; write 12, 12-20, 12,15, 12_3 or 12_[1-4] for tasks of "
        "an array, last, or all"
    )


def _range(part: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(_RANGE, part.strip())
    if match is None:
        raise BadInput(f"{text!r}: {part.strip()!r} is neither a task nor a range of tasks")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise BadInput(f"{text!r}: the range {part.strip()!r} ends before it begins")
    return first, last
