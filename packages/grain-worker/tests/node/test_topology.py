"""Which CPUs are near each other and near a GPU: trees of /sys, and the offers made of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.edge.machine.cpu_locks import VARIABLE
from grain.resource import Cores, GPUs, Memory, Resource, Supply, from_data, to_data
from grain.worker import local_offer
from grain.worker.auto import detect_resources
from grain.worker.node import cpus as node_cpus
from grain.worker.node.host_info import HostInfo, read_host_info
from grain.worker.node.topology import CpuGroups, read_cpu_groups, read_gpu_cpus, with_near

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tree:
    """A tree as the kernel has it in /sys.

    Args:
        root: an empty directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """Write a file, with the end of the line that the kernel writes."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def cpu(self, number: int, core: str, caches: Sequence[str], socket: str, *, old: bool) -> None:
        """Write the files of a CPU; its caches are the instructions of level 1, and 1 and up."""
        folder = f"devices/system/cpu/cpu{number}"
        core_name, socket_name = ("thread_siblings_list", "core_siblings_list")
        if not old:
            core_name, socket_name = ("core_cpus_list", "package_cpus_list")
        self.write(f"{folder}/topology/{core_name}", core)
        self.write(f"{folder}/topology/{socket_name}", socket)
        for index, shared in enumerate([caches[0], *caches]):
            self.write(f"{folder}/cache/index{index}/level", str(max(index, 1)))
            self.write(f"{folder}/cache/index{index}/type", "Data" if index else "Instruction")
            self.write(f"{folder}/cache/index{index}/shared_cpu_list", shared)

    def gpu(self, address: str, near: str, vendor: str = "0x10de", kind: str = "0x030200") -> None:
        """Write the files of a PCI device."""
        folder = f"bus/pci/devices/{address}"
        self.write(f"{folder}/vendor", vendor)
        self.write(f"{folder}/class", kind)
        self.write(f"{folder}/local_cpulist", near)


def server(root: Path, *, old: bool = False) -> Tree:
    """Two sockets of two caches of four cores of two threads; each socket is a memory node."""
    tree = Tree(root)
    for cpu in range(32):
        core, cache, socket = cpu % 16, cpu % 16 // 4, cpu % 16 // 8
        siblings = f"{core},{core + 16}"
        shared = f"{4 * cache}-{4 * cache + 3},{4 * cache + 16}-{4 * cache + 19}"
        whole = f"{8 * socket}-{8 * socket + 7},{8 * socket + 16}-{8 * socket + 23}"
        tree.cpu(cpu, siblings, [siblings, siblings, shared], whole, old=old)
        tree.write(f"devices/system/node/node{socket}/cpulist", whole)
    return tree


def hybrid(root: Path) -> Tree:
    """Four cores of two threads, and eight slower ones of one, four to a cache of level 2."""
    tree = Tree(root)
    for cpu in range(16):
        core = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" if cpu < 8 else str(cpu)
        second = core if cpu < 8 else f"{cpu // 4 * 4}-{cpu // 4 * 4 + 3}"
        tree.cpu(cpu, core, [core, second, "0-15"], "0-15", old=False)
    tree.write("devices/system/node/node0/cpulist", "0-15")
    return tree


def sets(*groups: Sequence[int]) -> tuple[frozenset[int], ...]:
    return tuple(map(frozenset, groups))


def host(tree: Tree, cpus: Sequence[int] = range(32), **more: Any) -> HostInfo:
    """Return the host of a tree."""
    affinity = frozenset(cpus)
    near = read_gpu_cpus(tree.root, tree.root / "proc")
    facts = {"groups": read_cpu_groups(affinity, tree.root), "near": near, "devices": [*near]}
    return HostInfo(affinity=affinity, **{**facts, **more})


def offered(tree: Tree, cpus: Sequence[int] = range(32), **options: Any) -> Resource:
    """Return what a worker on the host of a tree offers."""
    stated = options.pop("stated", {"Cores": "auto", "GPUs": "auto"})
    hyperthreads = options.pop("hyperthreads", True)
    return detect_resources(
        stated, host(tree, cpus, **options), hyperthreads=hyperthreads
    ).resources


def cores_of(supply: Supply, request: Resource) -> list[int]:
    got = supply.alloc(request).get(Cores)
    assert isinstance(got, Cores)
    return got.c


@pytest.mark.parametrize("old", [False, True])
def test_sockets_caches_nodes_and_threads_are_read(tmp_path: Path, old: bool) -> None:
    groups = read_cpu_groups(range(32), server(tmp_path, old=old).root)

    assert sets(*[(i, i + 16) for i in range(16)]) == groups.cores
    assert 4 == len(groups.caches)
    assert {0, 1, 2, 3, 16, 17, 18, 19} == groups.caches[0]
    assert sets([*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]) == groups.sockets
    assert groups.nodes == groups.sockets


def test_an_offer_of_a_server_has_three_levels_and_is_allocated_compactly(tmp_path: Path) -> None:
    offer = offered(server(tmp_path))

    assert {"ids", "groups"} == set(to_data(offer)["Cores"])
    assert 3 == len(to_data(offer)["Cores"]["groups"])
    supply = Supply(offer)
    assert [0, 16] == cores_of(supply, Cores(2))
    assert [4, 5, 6, 7, 20, 21, 22, 23] == cores_of(supply, Cores(8))
    assert [1, 8] == cores_of(supply, Cores(2, spread=True))


def test_a_part_of_a_server_has_the_groups_of_its_cpus(tmp_path: Path) -> None:
    """As where a batch system or a container grants some of the CPUs."""
    supply = Supply(offered(server(tmp_path), [2, 3, 4, 5, 18, 20]))

    assert [2, 18] == cores_of(supply, Cores(2))
    assert [4, 5, 20] == cores_of(supply, Cores(3))


def test_without_hyperthreads_one_cpu_of_each_core_is_offered(tmp_path: Path) -> None:
    tree = server(tmp_path)

    assert list(range(16)) == offered(tree, hyperthreads=False).c
    assert [2, 19] == offered(tree, [2, 18, 19], hyperthreads=False).c
    assert [0, 4, 5, 6, 7] == offered(tree, [0, 16, 4, 5, 6, 7], hyperthreads=False).c
    few = {"Cores": {"auto": {"most": 3}}}
    assert [0, 1, 2] == offered(tree, hyperthreads=False, stated=few).c
    assert list(range(32)) == offered(tree, hyperthreads=False, stated={"Cores": 32}).c
    supply = Supply(offered(tree, hyperthreads=False))
    assert [0, 1] == cores_of(supply, Cores(2))
    assert [4, 5, 6, 7] == cores_of(supply, Cores(4))


def test_without_hyperthreads_a_grant_of_cpus_is_that_of_their_cores(tmp_path: Path) -> None:
    environ = {"SLURM_JOB_ID": "0", "SLURM_JOB_CPUS_PER_NODE": "20"}
    info = host(server(tmp_path), environ=environ)
    offer = detect_resources({"Cores": "auto"}, info, hyperthreads=False)

    assert list(range(16)) == offer.resources.c
    assert 1 == len(offer.remarks)


def test_cores_of_two_sorts_have_their_threads_as_groups(tmp_path: Path) -> None:
    tree = hybrid(tmp_path)
    groups = read_cpu_groups(range(16), tree.root)

    assert sets(*[(i, i + 1) for i in range(0, 8, 2)], *[[i] for i in range(8, 16)]) == groups.cores
    assert sets(range(16)) == groups.caches == groups.sockets
    assert [0, 2, 4, 6, *range(8, 16)] == offered(tree, range(16), hyperthreads=False).c
    supply = Supply(offered(tree, range(16)))
    assert [8] == cores_of(supply, Cores(1))
    assert [0, 1] == cores_of(supply, Cores(2))


def test_a_machine_without_a_topology_offers_as_ever(tmp_path: Path) -> None:
    """In a container there may be no files, or files that say nothing."""
    none = Tree(tmp_path / "none")
    flat = Tree(tmp_path / "flat")
    for cpu in range(4):
        flat.cpu(cpu, str(cpu), [str(cpu), "0-3"], "0-3", old=False)

    for tree in (none, flat):
        assert {"Cores": 4} == to_data(offered(tree, range(4)))
        assert list(range(4)) == offered(tree, range(4), hyperthreads=False).c
    assert CpuGroups() == read_cpu_groups(range(4), none.root)
    assert {} == read_gpu_cpus(none.root, none.root)


def test_files_that_contradict_each_other_say_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for cpu, core in enumerate(["0-1", "0-1", "1-2", "3"]):
        tree.cpu(cpu, core, ["x"], ["0-1", "0-1", "2-3", "2-3"][cpu], old=False)
    groups = read_cpu_groups(range(4), tree.root)

    assert ((), (), ()) == (groups.cores, groups.caches, groups.nodes)
    assert sets([0, 1], [2, 3]) == groups.sockets


def test_ids_that_this_process_may_not_use_are_numbers_without_neighbours(tmp_path: Path) -> None:
    tree = server(tmp_path)

    assert {"Cores": 64} == to_data(offered(tree, range(4), stated={"Cores": 64}))
    stated = {"Cores": {"ids": 4, "groups": [["1-2", "0,3"]]}}
    assert stated == to_data(offered(tree, range(32), stated=stated))


def test_this_machines_own_files_make_an_offer() -> None:
    """Whatever it has: the offer has the CPUs of this process, and its topology is accepted."""
    info = read_host_info()
    usable = sorted(os.sched_getaffinity(0))
    offer = detect_resources("auto", info).resources.get(Cores)

    assert isinstance(offer, Cores)
    assert set(offer.c) <= set(usable)
    assert offer == from_data(to_data(offer)).get(Cores)
    first = Path(f"/sys/devices/system/cpu/cpu{usable[0]}/topology")
    if (first / "package_cpus_list").exists() or (first / "core_siblings_list").exists():
        assert any(usable[0] in group for group in info.groups.sockets)
        assert any(usable[0] in group for group in info.groups.cores)


def test_the_cpus_of_a_local_worker_have_their_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = server(tmp_path / "sys")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cpus"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))
    monkeypatch.setattr(node_cpus, "read_cpu_groups", lambda cpus: read_cpu_groups(cpus, tree.root))
    with local_offer(Cores("all") & Memory(4)) as offer:
        assert [0, 16] == cores_of(Supply(offer.resources), Cores(2))
    with local_offer(Cores(64)) as offer:
        assert {"Cores": 64} == to_data(offer.resources)
    with local_offer(Memory(4)) as offer:
        assert Memory(4) == offer.resources


# ---- GPUs

NEAR = ("0-7,16-23", "8-15,24-31")


def with_gpus(root: Path) -> Tree:
    """Return a server with a GPU at each socket, and with devices that are none."""
    tree = server(root)
    tree.gpu("0000:81:00.0", NEAR[1])
    tree.gpu("0000:1b:00.0", NEAR[0], kind="0x030000")
    tree.gpu("0000:81:00.1", NEAR[1], kind="0x040300")
    tree.gpu("0000:02:00.0", NEAR[0], vendor="0x102b", kind="0x030000")
    return tree


def test_gpus_are_numbered_along_the_bus(tmp_path: Path) -> None:
    tree = with_gpus(tmp_path)

    near = read_gpu_cpus(tree.root, tree.root / "proc")
    assert {
        0: frozenset([*range(8), *range(16, 24)]),
        1: frozenset([*range(8, 16), *range(24, 32)]),
    } == near


def test_a_local_worker_with_all_gpus_of_the_machine_knows_the_cores_near_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = with_gpus(tmp_path / "sys")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cpus"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)))
    near = read_gpu_cpus(tree.root, tree.root / "proc")
    monkeypatch.setattr(node_cpus, "read_gpu_cpus", lambda: near)
    with local_offer(Cores("all") & GPUs(2)) as offer:
        assert list(NEAR) == to_data(offer.resources)["GPUs"]["near"]
    with local_offer(Cores("all") & GPUs(1)) as offer:
        assert 1 == to_data(offer.resources)["GPUs"]


def test_the_driver_knows_the_number_of_a_gpu(tmp_path: Path) -> None:
    tree = with_gpus(tmp_path)
    for address, minor in (("0000:1b:00.0", 1), ("0000:81:00.0", 0)):
        file = f"proc/driver/nvidia/gpus/{address}/information"
        tree.write(file, f"Model: \t\t Tesla\nDevice Minor: \t {minor}")

    assert 8 in read_gpu_cpus(tree.root, tree.root / "proc")[0]


def test_a_worker_gives_the_cores_near_the_gpu(tmp_path: Path) -> None:
    supply = Supply(offered(with_gpus(tmp_path)))
    first, second = (supply.alloc(GPUs(1) & Cores(4)) for _ in range(2))

    assert [[0], [1]] == [first.g, second.g]
    assert [0, 1, 16, 17] == first.c
    assert [8, 9, 24, 25] == second.c


@pytest.mark.parametrize(
    "facts",
    [
        {"near": {0: frozenset(range(32)), 1: frozenset(range(32))}},
        {"near": {0: frozenset(range(16))}},
        {"near": {}},
        # The batch system has granted one of two, which is number 0 in the job whichever it is.
        {"environ": {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0"}},
    ],
)
def test_where_it_is_not_known_which_cores_are_near_the_gpus_are_as_ever(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    data = to_data(offered(with_gpus(tmp_path), **{"devices": frozenset({0, 1}), **facts}))

    assert data["GPUs"] in (2, 1)


def test_a_job_with_all_gpus_of_the_host_knows_their_cores(tmp_path: Path) -> None:
    environ = {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
    data = to_data(offered(with_gpus(tmp_path), environ=environ))

    assert list(NEAR) == data["GPUs"]["near"]
    assert Memory(1) == with_near(Memory(1), {})
