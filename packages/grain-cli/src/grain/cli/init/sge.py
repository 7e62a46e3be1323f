"""The answers of Grid Engine's qconf and qhost. Pure; the texts are those of 8.1.9."""

from __future__ import annotations

import re
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.init.site import Queue, gigabytes
from grain.resource import clock_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NONE: Mapping[str, str] = MappingProxyType({})


def host_names(output: str) -> tuple[str, ...]:
    """Read the names of the hosts that have a queue from the output of ``qhost -q``."""
    return tuple(dict.fromkeys(host.name for _, host in _instances(output)))


def names(output: str) -> tuple[str, ...]:
    """Read the names of the queues from the output of ``qconf -sql``."""
    lines = (line.strip() for line in output.splitlines())
    return tuple(line for line in lines if re.fullmatch(r"[\w.-]+", line))


def queues(
    shown: Mapping[str, str], hosts: str, given: Mapping[str, str] = _NONE
) -> tuple[Queue, ...]:
    """Read queues, each with the most frequent sort of its hosts.

    Args:
        shown: the output of ``qconf -sq``, by the name of the queue.
        hosts: the output of ``qhost -q``.
        given: the output of ``qconf -se``, by the name of the host: jobs get no more slots and
            memory than that, whatever the host has.
    """
    sorts: dict[str, Counter[tuple[int | None, float | None]]] = {}
    for queue, host in _instances(hosts):
        sort = _within(host, given.get(host.name, ""))
        sorts.setdefault(queue, Counter())[sort] += 1
    read = []
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
        read.append(Queue(name, False, limit, cores, memory, nodes=count))
    return tuple(read)


class _Host(NamedTuple):
    """A host, with the cores and the GB of memory that it has."""

    name: str
    cores: int | None
    memory: float | None


def _instances(output: str) -> Iterator[tuple[str, _Host]]:
    """Yield each queue that takes jobs with each of its hosts."""
    host: _Host | None = None
    for line in output.splitlines():
        words = line.split()
        if not words:
            continue
        if not line[0].isspace():
            numeric = len(words) >= 8 and words[2].isdecimal()
            host = _Host(words[0], int(words[2]), gigabytes(words[7])) if numeric else None
        elif host is not None and len(words) == 3 and re.fullmatch(r"\d+/\d+/\d+", words[2]):
            # With a state behind the slots, the queue takes no jobs there.
            yield words[0], host


def _within(host: _Host, given: str) -> tuple[int | None, float | None]:
    """Return the cores and the memory of a host, as far as ``qconf -se`` says jobs get them."""
    # A long value goes on behind a backslash.
    joined = re.sub(r"\s*\\\n\s*", "", given)
    values = re.search(r"^complex_values\s+(\S+)", joined, re.MULTILINE)
    complexes = dict(re.findall(r"(\w+)=([^,\s]+)", values[1] if values else ""))
    cores, memory = host.cores, host.memory
    slots = complexes.get("slots", "")
    if cores and slots.isdecimal() and int(slots):
        cores = min(cores, int(slots))
    for name in ("h_vmem", "mem_free", "virtual_free"):
        most = gigabytes(complexes.get(name, ""))
        if memory and most:
            memory = min(memory, most)
    return cores, memory
