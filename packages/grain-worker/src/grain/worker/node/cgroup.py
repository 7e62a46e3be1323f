"""The limits of the control groups that this process is in. `read_cgroups` reads; parsing is pure.

Source: cgroups(7). Version 2 has one hierarchy, version 1 one for each controller. The limit of a
group holds for all groups below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes the largest multiple of a page for "no limit"


@dataclass(frozen=True)
class Cgroups:
    """The limits of this process's control groups.

    Attributes:
        memory: the smallest limit of memory in bytes; None without one.
        cpus: the ids of the CPUs that may be used; None without a limit.
        oom_kills: the number of processes killed in our own group because memory ran out.
    """

    memory: int | None = None
    cpus: frozenset[int] | None = None
    oom_kills: int = 0


def group_paths(cgroup: str, root: Path) -> dict[str, list[Path]]:
    """Return the directories of our groups and of those above, by controller; "" for version 2.

    Args:
        cgroup: the content of /proc/self/cgroup.
        root: the directory with the hierarchies, /sys/fs/cgroup.
    """
    paths = {}
    for line in cgroup.splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        _, controllers, path = fields
        for controller in controllers.split(","):
            top = root / controllers if controllers else root
            if controllers and not top.is_dir():
                top = root / controller
            if not controllers and (root / "unified").is_dir():
                top = root / "unified"
            here = top / path.lstrip("/")
            paths[controller] = [here, *(p for p in here.parents if p.is_relative_to(top))]
    return paths


def parse_limit(text: str) -> int | None:
    """Return a limit in bytes; None for no limit, or for what is not a number.

    >>> parse_limit("1073741824"), parse_limit("max")
    (1073741824, None)
    """
    text = text.strip()
    if not text.isdigit() or int(text) >= _UNLIMITED:
        return None
    return int(text)


def parse_ids(text: str) -> frozenset[int]:
    """Return the ids in a list as the kernel and Slurm write it; none for what is not such a list.

    >>> sorted(parse_ids("0-2,8"))
    [0, 1, 2, 8]
    """
    ids: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part.strip(), re.ASCII)
        if not match:
            return frozenset()
        ids.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ids)


def parse_oom_kills(text: str) -> int:
    """Return the count in memory.events (version 2) or memory.oom_control (version 1)."""
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdigit():
            return int(count)
    return 0


def read_cgroups(
    cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Cgroups:
    """Return the limits of this process; a file that cannot be read sets none."""
    groups = group_paths(text_of(cgroup), root)
    unified = groups.get("", [])
    limits = [parse_limit(text_of(path / "memory.max")) for path in unified] + [
        parse_limit(text_of(path / "memory.limit_in_bytes")) for path in groups.get("memory", [])
    ]
    # Our own group has this file only if the controller is on for it; else the limit is above.
    effective = (text_of(path / "cpuset.cpus.effective") for path in unified)
    cpus = [next(filter(None, effective), "")] + [
        text_of(path / "cpuset.cpus") for path in groups.get("cpuset", [])[:1]
    ]
    kills = [parse_oom_kills(text_of(path / "memory.events")) for path in unified[:1]] + [
        parse_oom_kills(text_of(path / "memory.oom_control"))
        for path in groups.get("memory", [])[:1]
    ]
    sets = [ids for ids in map(parse_ids, cpus) if ids]
    return Cgroups(
        memory=min((limit for limit in limits if limit is not None), default=None),
        cpus=frozenset.intersection(*sets) if sets else None,
        oom_kills=sum(kills),
    )


def text_of(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
