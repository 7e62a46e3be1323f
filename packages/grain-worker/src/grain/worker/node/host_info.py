"""What a worker can know about the place that it runs in: read here, and nowhere else.

Everything that follows from it is decided by pure functions (`grain.worker.auto`).
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grain.worker.node.cgroup import Cgroups, read_cgroups

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Surroundings:
    """A snapshot.

    Attributes:
        environ: the environment variables.
        affinity: the CPUs that this process may use, see sched_getaffinity(2).
        cgroups: what the control groups allow.
        memory: bytes of memory that the machine has.
        devices: the numbers of NVIDIA GPUs that the machine has.
        node_file: the lines of the file that PBS_NODEFILE names.
        host: this machine's name.
        now: seconds since the epoch.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    affinity: frozenset[int] = frozenset({0})
    cgroups: Cgroups = field(default_factory=Cgroups)
    memory: int | None = None
    devices: frozenset[int] = frozenset()
    node_file: tuple[str, ...] = ()
    host: str = ""
    now: float = 0.0


def read_surroundings() -> Surroundings:
    """Look around; what cannot be read is taken for not there."""
    return Surroundings(
        environ=dict(os.environ),
        affinity=frozenset(os.sched_getaffinity(0)),
        cgroups=read_cgroups(),
        memory=_memory(),
        devices=_devices(),
        node_file=_lines(os.environ.get("PBS_NODEFILE", "")),
        host=os.uname().nodename,
        now=time.time(),
    )


def _memory() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _devices() -> frozenset[int]:
    names = (path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    return frozenset(int(name[6:]) for name in names if name[6:].isdigit())


def _lines(path: str) -> tuple[str, ...]:
    if not path:
        return ()
    try:
        return tuple(Path(path).read_text(errors="replace").split())
    except OSError:
        return ()
