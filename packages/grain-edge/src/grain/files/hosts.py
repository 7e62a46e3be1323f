"""`host_names`: lists of hosts as Slurm and Flux write them."""

from __future__ import annotations

import re

_MOST_HOSTS = 100_000
_HOSTS = re.compile(r"([^,\[\]]*)(?:\[([0-9,-]+)\]([^,\[\]]*))?(?:,|$)")


def host_names(text: str) -> list[str]:
    """Return the hosts of a list as ``n[1-3,07-09],login``.

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
        for part in match[2].split(",") if match[2] else [""]:
            found += [f"{match[1]}{number}{match[3] or ''}" for number in _numbers(part, text)]
            if len(found) > _MOST_HOSTS:
                raise ValueError(text)
    return [name for name in found if name]


def _numbers(part: str, text: str) -> list[str]:
    if not part:
        return [""]
    first, dash, last = part.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ValueError(text)
    end = int(last or first)
    if end - int(first) > _MOST_HOSTS:
        raise ValueError(text)
    return [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
