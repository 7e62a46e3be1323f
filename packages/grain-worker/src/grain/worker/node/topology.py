"""The CPUs that are near each other, and near each GPU, as the kernel states it in /sys.

Source: Linux, Documentation/admin-guide/cputopology.rst, and Documentation/ABI/testing:
sysfs-devices-system-cpu, and sysfs-bus-pci for ``local_cpulist``. Names of files differ between
versions: since Linux 5.3, ``thread_siblings_list`` is called ``core_cpus_list``, and
``core_siblings_list`` is called ``package_cpus_list``.

What cannot be read counts as absent, as in a container or a virtual machine.
"""

from __future__ import annotations

import functools
import operator
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.resource import ZERO, Cores, GPUs, from_data, to_data
from grain.worker.node.cgroup import parse_ids, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from grain.resource import Resource

Groups = tuple[frozenset[int], ...]

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # the first byte of the class of a PCI device: a display controller


class CpuGroups(NamedTuple):
    """The groups that the CPUs of a machine form; of each sort none, if the kernel does not say.

    Attributes:
        cores: the hardware threads of each core.
        caches: the CPUs of each last-level cache.
        nodes: those of each memory node.
        sockets: those of each socket.
    """

    cores: Groups = ()
    caches: Groups = ()
    nodes: Groups = ()
    sockets: Groups = ()

    def one_of_each_core(self, cpus: Iterable[int]) -> list[int]:
        """Return the first of some CPUs in each core, ascending; all where cores are not known."""
        chosen: set[int] = set()
        core_of = {cpu: core for core in self.cores for cpu in core}
        for cpu in sorted(cpus):
            if not core_of.get(cpu, frozenset()) & chosen:
                chosen.add(cpu)
        return sorted(chosen)


def read_cpu_groups(cpus: Collection[int], root: Path = Path("/sys")) -> CpuGroups:
    """Return the groups of some CPUs."""
    folder = root / "devices/system/cpu"

    def listed(*names: str) -> Callable[[int], str]:
        return lambda cpu: _first(folder / f"cpu{cpu}/topology" / name for name in names)

    nodes = sorted(root.glob("devices/system/node/node[0-9]*/cpulist"))
    return CpuGroups(
        cores=_groups(cpus, listed("core_cpus_list", "thread_siblings_list")),
        caches=_groups(cpus, lambda cpu: _last_cache(folder / f"cpu{cpu}/cache")),
        nodes=_partition([parse_ids(text_of(path)) for path in nodes]),
        sockets=_groups(cpus, listed("package_cpus_list", "core_siblings_list")),
    )


def read_gpu_cpus(
    root: Path = Path("/sys"), proc: Path = Path("/proc")
) -> dict[int, frozenset[int]]:
    """Return the CPUs near each NVIDIA GPU, by its number.

    It is the number of the device's file, which the driver states; else the place in the order of
    the PCI bus, in which the driver counts.
    """
    found: dict[int, frozenset[int]] = {}
    devices = sorted(root.glob("bus/pci/devices/*"))
    gpus = [
        path
        for path in devices
        if text_of(path / "vendor").strip() == _NVIDIA
        and text_of(path / "class").startswith(_DISPLAY)
    ]
    for place, path in enumerate(gpus):
        text = text_of(proc / "driver/nvidia/gpus" / path.name / "information")
        minor = re.search(r"^Device Minor:\s*(\d{1,4})\s*$", text, re.MULTILINE)
        found[int(minor[1]) if minor else place] = parse_ids(text_of(path / "local_cpulist"))
    return found if len(found) == len(gpus) else {}


def with_groups(resources: Resource, groups: CpuGroups) -> Resource:
    """Return what a worker offers, with the groups that its CPUs form."""
    levels = [[sorted(group) for group in level] for level in groups]
    return _with(resources, "Cores", groups=levels)


def with_near(resources: Resource, near: Mapping[int, frozenset[int]]) -> Resource:
    """Return what a worker offers, with the CPUs near each of its GPUs, if all are known.

    It says nothing if all CPUs are near all GPUs.
    """
    cores, gpus = resources.get(Cores), resources.get(GPUs)
    ids = cores.c if isinstance(cores, Cores) else []
    cpus = [near.get(one, frozenset()) for one in gpus.g] if isinstance(gpus, GPUs) else []
    if not all(cpus) or all(some.issuperset(ids) for some in cpus):
        return resources
    return _with(resources, "GPUs", near=[sorted(some) for some in cpus])


def _with(resources: Resource, kind: str, **more: Any) -> Resource:
    parts = dict(resources.parts())
    data = to_data(parts[kind])[kind] if kind in parts else None
    if isinstance(data, int | list):  # else there is none, or the user states more than that
        parts[kind] = from_data({kind: {"ids": data, **more}})
    return functools.reduce(operator.and_, parts.values(), ZERO)


def _groups(cpus: Collection[int], text_for: Callable[[int], str]) -> Groups:
    """Return the groups of some CPUs; each file that states one is read once."""
    groups: list[frozenset[int]] = []
    seen: set[int] = set()
    for cpu in sorted(cpus):
        if cpu not in seen:
            group = parse_ids(text_for(cpu))
            groups.append(group)
            seen |= group
    return _partition(groups)


def _partition(groups: Iterable[frozenset[int]]) -> Groups:
    """Return the groups; none if one CPU is in two of them."""
    some = [group for group in groups if group]
    apart = sum(map(len, some)) == len(frozenset().union(*some))
    return tuple(some) if apart else ()


def _first(paths: Iterable[Path]) -> str:
    return next((text for path in paths if (text := text_of(path))), "")


def _last_cache(folder: Path) -> str:
    """Return the list of the CPUs that share the last-level cache of one."""
    levels = {
        int(text): path.parent
        for path in folder.glob("index[0-9]*/level")
        if (text := text_of(path).strip()).isdigit()
        and text_of(path.parent / "type").strip() != "Instruction"
    }
    return text_of(levels[max(levels)] / "shared_cpu_list") if levels else ""
