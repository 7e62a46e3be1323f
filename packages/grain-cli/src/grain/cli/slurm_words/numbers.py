"""Jobs and tasks as Slurm's commands name them: ``12``, ``12_3``, ``12_[1-4]``, ``12000003``."""

from __future__ import annotations

import re
from typing import NamedTuple

from grain.queue.arrays import parse_array, task_numbers
from grain.queue.errors import BadInput
from grain.queue.selectors import TASKS_PER_JOB

_NUMBER = r"(?a)(\d{1,15})(?:_(?:(\d{1,9})|\*|\[([0-9,:%-]+)\]))?(?:\.([a-z0-9_]+))?"

_IN_LIST = r"(?:\[[^\]]*\]?|[^, \[])+"


class Meant(NamedTuple):
    """A job, or tasks of it.

    Attributes:
        job: its number.
        tasks: numbers of tasks; empty for all.
        step: that of a step, as ``batch`` or ``0``; "" for none.
    """

    job: int
    tasks: frozenset[int] = frozenset()
    step: str = ""

    def has(self, job: int, task: int | None) -> bool:
        """Return True if a task is meant."""
        return self.job == job and (not self.tasks or task in self.tasks)


def split_words(text: str) -> list[str]:
    """Split a list of jobs at commas and spaces that are not between brackets."""
    return re.findall(_IN_LIST, text)


def meant(word: str, newest: int) -> Meant:
    """Return what a word means.

    Args:
        word: without spaces.
        newest: the number of the last job in the queue: a plain number after it is that of a task,
            see `grain.queue.selectors.plain_number`.

    Raises:
        ValueError: it means none.
    """
    match = re.fullmatch(_NUMBER, word)
    if match is None:
        raise ValueError(word)
    job, step = int(match[1]), match[4] or ""
    tasks: frozenset[int] = frozenset()
    if match[2] is not None:
        tasks = frozenset({int(match[2])})
    elif match[3] is not None:
        try:
            tasks = frozenset(task_numbers(parse_array(match[3])))
        except BadInput:
            raise ValueError(word) from None
    elif job > newest and job >= TASKS_PER_JOB:
        job, task = divmod(job, TASKS_PER_JOB)
        tasks = frozenset({task})
    return Meant(job, tasks, step)
