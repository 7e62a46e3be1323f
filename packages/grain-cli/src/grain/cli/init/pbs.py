"""The answers of PBS's qstat and pbsnodes. Pure; the texts are those of OpenPBS and of Torque."""

from __future__ import annotations

import re
from collections import Counter

from grain.cli.init.site import Queue, gigabytes
from grain.resource import clock_seconds


def queues(listed: str, server: str, nodes: str) -> tuple[Queue, ...]:
    """Read the queues that take and run jobs, each with the most frequent sort of nodes.

    Args:
        listed: the output of ``qstat -Qf``.
        server: that of ``qstat -Bf``, which has the default queue.
        nodes: that of ``pbsnodes -a``.
    """
    default = re.search(r"^\s*default_queue = (\S+)", server, re.MULTILINE)
    sorts = Counter(_nodes(nodes))
    [(node, count)] = sorts.most_common(1) or [((None, None, 0), 0)]
    read = []
    for block in re.split(r"^Queue:? ", listed.replace("\n\t", ""), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        fields = dict(line.strip().split(" = ", 1) for line in rest.splitlines() if " = " in line)
        if fields.get("queue_type", "E")[0] not in "Ee":
            continue  # a routing queue
        if "False" in (fields.get("enabled"), fields.get("started")):
            continue
        limit = clock_seconds(fields.get("resources_max.walltime", ""))
        name = name.strip()
        first = default is not None and default[1] == name
        read.append(Queue(name, first, limit, *node, nodes=count))
    return tuple(read)


def _nodes(listed: str) -> list[tuple[int | None, float | None, int]]:
    """Return cores, memory and GPUs of each node that is up."""
    read = []
    for block in re.split(r"\n(?=\S)", listed.strip()):
        fields = dict(line.strip().split(" = ", 1) for line in block.splitlines() if " = " in line)
        state = fields.get("state", "")
        if not fields or "down" in state or "offline" in state:
            continue
        cores = fields.get("resources_available.ncpus", fields.get("np", ""))
        physical = re.search(r"physmem=(\w+)", fields.get("status", ""))
        memory = fields.get("resources_available.mem", physical[1] if physical else "")
        gpus = fields.get("resources_available.ngpus", fields.get("gpus", "0"))
        read.append(
            (
                int(cores) if cores.isdecimal() else None,
                gigabytes(memory),
                int(gpus) if gpus.isdecimal() else 0,
            )
        )
    return read
