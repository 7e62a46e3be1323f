"""The answers of Slurm's sinfo and sacctmgr. Pure; the texts are those of Slurm 22.05."""

from __future__ import annotations

import re

from grain.cli.init.site import Queue, rounded

SINFO = ("sinfo", "--noheader", "--exact", "--format=%P|%a|%l|%c|%m|%G|%D")
"""Partitions, a line for each sort of nodes."""

_GPU = re.compile(r"(?:^|,)gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


def queues(output: str) -> tuple[Queue, ...]:
    """Read the lines of `SINFO`: partitions that take jobs, each with its most frequent nodes."""
    by_name: dict[str, Queue] = {}
    for line in output.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 7 or fields[1] != "up":
            continue
        name, _, limit, cores, memory, gres, nodes = fields
        gpu = _GPU.search(gres)
        queue = Queue(
            name.removesuffix("*"),
            name.endswith("*"),
            seconds(limit),
            _number(cores),
            rounded(amount / 1024) if (amount := _number(memory)) else None,
            int(gpu[2]) if gpu else 0,
            (gpu[1] or "") if gpu else "",
            _number(nodes) or 0,
        )
        before = by_name.get(queue.name)
        if before is None or queue.nodes > before.nodes:
            by_name[queue.name] = queue
    return tuple(by_name.values())


def accounts(output: str) -> tuple[str, ...]:
    """Read the accounts that sacctmgr lists; none where the site keeps no accounts."""
    lines = (line.strip().rstrip("|") for line in output.splitlines())
    return tuple(dict.fromkeys(line for line in lines if re.fullmatch(r"[\w.+-]+", line)))


def seconds(limit: str) -> int | None:
    """Return a time limit in seconds; None for no limit.

    >>> seconds("infinite"), seconds("2:00"), seconds("1-12:00:00"), seconds("30")
    (None, 120, 129600, 1800)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit.strip())
    if match is None:
        return None
    days, *parts = (None if part is None else int(part) for part in match.groups())
    numbers = [part for part in parts if part is not None]
    if days is not None:  # days-hours[:minutes[:seconds]]
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:  # minutes
        numbers = [0, numbers[0], 0]
    elif len(numbers) == 2:  # minutes:seconds
        numbers = [0, *numbers]
    hours, minutes, rest = numbers
    return (days or 0) * 86400 + hours * 3600 + minutes * 60 + rest


def _number(text: str) -> int | None:
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else None
