"""What the control groups of this process say. Parsing is pure; `read_cgroups` reads.

cgroups(7): version 2 has one hierarchy, version 1 one for each controller. A limit of any group
above ours holds for us, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes the largest multiple of a page for "no limit"


@dataclass(frozen=True)
class Cgroups:
    """What was found.

    Attributes:
        memory: the smallest limit of memory in bytes, None without one.
        cpus: the ids of the CPUs that may be used, None where nothing is said.
        oom_kills: how many processes were killed in our group because memory ran out.
    """

    memory: int | None = None
    cpus: frozenset[int] | None = None
    oom_kills: int = 0


def group_paths(cgroup: str, root: Path) -> dict[str, list[Path]]:
    """The directories of our groups and of those above, by controller; "" for version 2.

    Args:
        cgroup: what /proc/self/cgroup says.
        root: where the hierarchies are mounted, /sys/fs/cgroup.
    """
    found = {}
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
            found[controller] = [here, *(p for p in here.parents if p.is_relative_to(top))]
    return found


def parse_limit(text: str) -> int | None:
    """A limit in bytes; None for no limit, or for what is none.

    >>> parse_limit("1073741824"), parse_limit("max")
    (1073741824, None)
    """
    text = text.strip()
    if not text.isdigit() or int(text) >= _UNLIMITED:
        return None
    return int(text)


def parse_ids(text: str) -> frozenset[int]:
    """Ids as the kernel and Slurm list them; empty for what is no such list.

    >>> sorted(parse_ids("0-2,8"))
    [0, 1, 2, 8]
    """
    ids: set[int] = set()
    for part in text.strip().split(","):
        found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part.strip(), re.ASCII)
        if not found:
            return frozenset()
        ids.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(ids)


def parse_oom_kills(text: str) -> int:
    """The count in memory.events (version 2) or memory.oom_control (version 1)."""
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdigit():
            return int(count)
    return 0


def read_cgroups(
    cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Cgroups:
    """What holds for this process; where something cannot be read, it says nothing."""
    groups = group_paths(_read(cgroup), root)
    unified = groups.get("", [])
    limits = [parse_limit(_read(path / "memory.max")) for path in unified] + [
        parse_limit(_read(path / "memory.limit_in_bytes")) for path in groups.get("memory", [])
    ]
    cpus = [_read(path / "cpuset.cpus.effective") for path in unified[:1]] + [
        _read(path / "cpuset.cpus") for path in groups.get("cpuset", [])[:1]
    ]
    kills = [parse_oom_kills(_read(path / "memory.events")) for path in unified[:1]] + [
        parse_oom_kills(_read(path / "memory.oom_control")) for path in groups.get("memory", [])[:1]
    ]
    known = [limit for limit in limits if limit is not None]
    sets = [ids for ids in map(parse_ids, cpus) if ids]
    return Cgroups(
        memory=min(known, default=None),
        cpus=frozenset.intersection(*sets) if sets else None,
        oom_kills=sum(kills),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
