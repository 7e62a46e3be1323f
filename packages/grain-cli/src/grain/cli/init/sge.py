"""The answers of Grid Engine's qconf and qhost. Pure; the texts are those of 8.1.9."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from grain.cli.init.site import Queue, gigabytes
from grain.resource import clock_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST = ("qconf", "-sql")
"""The names of the queues."""

HOSTS = ("qhost", "-q")
"""The hosts with their queues."""


def queue_command(name: str) -> tuple[str, ...]:
    """Return the command that shows a queue."""
    return ("qconf", "-sq", name)


def names(output: str) -> tuple[str, ...]:
    """Read the names of the queues."""
    lines = (line.strip() for line in output.splitlines())
    return tuple(line for line in lines if re.fullmatch(r"[\w.-]+", line))


def queues(shown: Mapping[str, str], hosts: str) -> tuple[Queue, ...]:
    """Read queues, each with the most frequent sort of its hosts.

    Args:
        shown: What `queue_command` printed, by the name of the queue.
        hosts: What `HOSTS` printed.
    """
    sorts = _hosts(hosts)
    found = []
    for name, text in shown.items():
        fields = dict(re.findall(r"^(\w+)\s+(.*?)\s*$", text, re.MULTILINE))
        if not fields:
            continue
        limit = clock_seconds(fields.get("h_rt", ""))
        [((cores, memory), count)] = sorts.get(name, Counter()).most_common(1) or [
            ((None, None), 0)
        ]
        slots = re.match(r"\d+", fields.get("slots", ""))
        if slots and int(slots[0]) and cores:
            cores = min(cores, int(slots[0])) if "[" not in fields["slots"] else cores
        found.append(Queue(name, False, limit, cores, memory, nodes=count))
    return tuple(found)


def _hosts(output: str) -> dict[str, Counter[tuple[int | None, float | None]]]:
    """Return cores and memory of hosts, counted by queue."""
    found: dict[str, Counter[tuple[int | None, float | None]]] = {}
    host: tuple[int | None, float | None] | None = None
    for line in output.splitlines():
        words = line.split()
        if not words:
            continue
        if not line[0].isspace():
            numeric = len(words) >= 8 and words[2].isdecimal()
            host = (int(words[2]), gigabytes(words[7])) if numeric else None
        elif host is not None and len(words) == 3 and re.fullmatch(r"\d+/\d+/\d+", words[2]):
            # With a state behind the slots, the queue takes no jobs there.
            found.setdefault(words[0], Counter())[host] += 1
    return found
