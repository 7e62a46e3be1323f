"""`host_names`: lists of hosts as Slurm and Flux write them."""

from __future__ import annotations

import math
import re
from itertools import product

_MOST_HOSTS = 100_000
# One character at a time: with `+` in here, a text that does not match takes exponential time.
_HOSTS = re.compile(r"((?:[^,\[\]]|\[[0-9,-]+\])*)(?:,|$)")
_PARTS = re.compile(r"\[([0-9,-]+)\]")


def host_names(text: str) -> list[str]:
    """Return the hosts of a list as ``n[1-3,07-09],r[1-2]n[1-2],login``.

    Raises:
        ValueError: it is not written so, or names very many.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _HOSTS.match(text, at)
        if match is None or not match[0]:
            raise ValueError(text)
        at = match.end()
        # Text and numbers in turn.
        parts = [
            _numbers(part, text) if place % 2 else [part]
            for place, part in enumerate(_PARTS.split(match[1]))
        ]
        if len(found) + math.prod(map(len, parts)) > _MOST_HOSTS:
            raise ValueError(text)
        found += map("".join, product(*parts))
    return [name for name in found if name]


def _numbers(ranges: str, text: str) -> list[str]:
    """Return the numbers of ranges as ``1-3,07-09``."""
    found: list[str] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(text)
        end = int(last or first)
        if not 0 <= end - int(first) <= _MOST_HOSTS - len(found):
            raise ValueError(text)
        found += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    return found
