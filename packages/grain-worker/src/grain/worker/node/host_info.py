"""A snapshot of the host that a worker runs on, as `grain.worker.auto` needs it."""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grain.files.batch_systems import BATCH_SYSTEMS
from grain.worker.node.cgroup import Cgroups, read_cgroups, text_of
from grain.worker.node.topology import CpuGroups, read_cpu_groups, read_gpu_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class HostInfo:
    """A snapshot of the host, and of the batch job, that this process runs in.

    Attributes:
        affinity: the CPUs that this process may use, see sched_getaffinity(2).
        memory: the machine's memory in bytes; None if unknown.
        groups: the groups that these CPUs form.
        devices: the numbers of the machine's NVIDIA GPUs.
        near: the CPUs near each of those, by its number, as far as the kernel says.
        node_file: the lines of the file with the nodes of the job, as `SystemFacts` has it.
        machine_ad: the attributes of the machine as HTCondor divided it, by name.
        flux_left: the seconds that Flux leaves to its job; None without one.
        now: seconds since 1970.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    affinity: frozenset[int] = frozenset({0})
    cgroups: Cgroups = field(default_factory=Cgroups)
    memory: int | None = None
    groups: CpuGroups = field(default_factory=CpuGroups)
    devices: frozenset[int] = frozenset()
    near: Mapping[int, frozenset[int]] = field(default_factory=dict)
    node_file: tuple[str, ...] = ()
    machine_ad: Mapping[str, str] = field(default_factory=dict)
    flux_left: float | None = None
    hostname: str = ""
    now: float = 0.0


def read_host_info() -> HostInfo:
    """Return a snapshot; what cannot be read counts as absent."""
    affinity = frozenset(os.sched_getaffinity(0))
    devices = _devices()
    node_files = (os.environ.get(one.node_file) for one in BATCH_SYSTEMS.values())
    return HostInfo(
        environ=dict(os.environ),
        affinity=affinity,
        groups=read_cpu_groups(affinity),
        near=read_gpu_cpus() if devices else {},
        cgroups=read_cgroups(),
        memory=_memory(),
        devices=devices,
        node_file=_lines(next(filter(None, node_files), "")),
        machine_ad=_attributes(os.environ.get("_CONDOR_MACHINE_AD", "")),
        flux_left=_flux_left() if "FLUX_JOB_ID" in os.environ else None,
        hostname=socket.gethostname(),
        now=time.time(),
    )


def _memory() -> int | None:
    match = re.search(r"^MemTotal:\s+(\d+) kB", text_of(Path("/proc/meminfo")), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _devices() -> frozenset[int]:
    names = (path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    return frozenset(int(name[6:]) for name in names if name[6:].isdigit())


def _lines(path: str) -> tuple[str, ...]:
    return tuple(text_of(Path(path)).split()) if path else ()


def _attributes(path: str) -> dict[str, str]:
    """Read lines as ``Cpus = 4``."""
    lines = text_of(Path(path)).splitlines() if path else []
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _flux_left() -> float | None:
    """Ask Flux for the time that its job has left, which no variable tells."""
    import subprocess

    words = ["flux", "job", "timeleft"]
    try:
        done = subprocess.run(  # noqa: S603 - of the batch system that runs this job
            words, capture_output=True, text=True, timeout=10, check=True
        )
        return float(done.stdout.strip())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
