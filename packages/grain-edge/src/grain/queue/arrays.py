"""Arrays as users write them: ``1-10:2,15,20-30%4``."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from grain.queue.errors import BadInput
from grain.queue.records import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_TASKS = 100_000
"""Tasks that an array may have."""

_PART = r"(?a)(\d+)(?:-(\d+)(?::(\d+))?)?"
_LARGEST = 999_999  # so that a job and a task make one plain number, see `selectors.plain_number`


def parse_array(text: str) -> ArraySpec:
    """Return the tasks that a text such as ``1-10:2,15%4`` names.

    Args:
        text: ranges with commas between them, with or without a step; after ``%`` the number of
            tasks that may run at a time. Spaces around it are skipped.

    Raises:
        BadInput: it names no task, or too many, or is not written so.
    """
    given = text.strip()
    ranges, percent, limit = given.partition("%")
    if percent and (not limit.isascii() or not limit.isdigit() or int(limit) < 1):
        raise BadInput(
            f"array {given!r}: after % comes the number of tasks that may run at a time, such as "
            f"{ranges or '0-9'}%4"
        )
    found = [_range(part, given) for part in ranges.split(",")]
    number = sum((last - first) // step + 1 for first, last, step in found)
    if number > MOST_TASKS:
        raise BadInput(
            f"array {given!r}: it has {number:,} tasks, and a job has at most {MOST_TASKS:,}"
        )
    return ArraySpec(ranges=_apart(found), at_once=int(limit) if percent else 0)


def array_text(spec: ArraySpec) -> str:
    """Return an array as users write it."""
    parts = [
        str(first) if first == last else f"{first}-{last}" + (f":{step}" if step > 1 else "")
        for first, last, step in spec.ranges
    ]
    return ",".join(parts) + (f"%{spec.at_once}" if spec.at_once else "")


def task_numbers(spec: ArraySpec) -> Iterator[int]:
    """Yield the numbers of the tasks, ascending."""
    for first, last, step in spec.ranges:
        yield from range(first, last + 1, step)


def count_tasks(spec: ArraySpec) -> int:
    """Return the number of tasks."""
    return sum((last - first) // step + 1 for first, last, step in spec.ranges)


def has_task(spec: ArraySpec, task: int) -> bool:
    """Return True if a task belongs to the array."""
    return any(
        first <= task <= last and (task - first) % step == 0 for first, last, step in spec.ranges
    )


def first_and_last(spec: ArraySpec) -> tuple[int, int]:
    """Return the smallest and the largest number of a task."""
    return spec.ranges[0][0], spec.ranges[-1][1]


def as_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int, int], ...]:
    """Return numbers as ranges with steps: first, last and step of each."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found:
            first, last, step = found[-1]
            if first == last:
                found[-1] = [first, number, number - last]
                continue
            if number - last == step:
                found[-1][1] = number
                continue
            if last - first == step and step > 1:  # two numbers do not make a range
                found[-1] = [first, first, 1]
                found.append([last, number, number - last])
                continue
        found.append([number, number, 1])
    result: list[tuple[int, int, int]] = []
    for first, last, step in found:
        if last - first == step > 1:
            result += [(first, first, 1), (last, last, 1)]
        else:
            result.append((first, last, step))
    return tuple(result)


def _range(part: str, given: str) -> tuple[int, int, int]:
    match = re.fullmatch(_PART, part.strip())
    if match is None:
        raise BadInput(
            f"array {given!r}: {part.strip()!r} is neither a number nor a range such as 1-10 or "
            "1-10:2"
        )
    if max(map(len, filter(None, match.groups()))) > 6:
        raise BadInput(
            f"array {given!r}: numbers of tasks are at most {_LARGEST:,}, and a job has at most "
            f"{MOST_TASKS:,} tasks"
        )
    first = int(match[1])
    last, step = int(match[2] or first), int(match[3] or 1)
    if step < 1:
        raise BadInput(f"array {given!r}: the step of {part.strip()!r} must be 1 or more")
    if last < first:
        raise BadInput(f"array {given!r}: the range {part.strip()!r} ends before it begins")
    return first, last - (last - first) % step, step


def _apart(ranges: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return ranges that ascend, with no number twice."""
    # Most are written so. The way below goes through each number.
    if all(before[1] < after[0] for before, after in itertools.pairwise(ranges)):
        return tuple((first, last, 1 if first == last else step) for first, last, step in ranges)
    return as_ranges(n for first, last, step in ranges for n in range(first, last + 1, step))
