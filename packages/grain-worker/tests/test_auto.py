"""What a worker offers, from what it finds around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource import Cores, GPUs, Memory, WTime, to_data
from grain.worker.auto import (
    cpu_ids,
    cpus_granted,
    detect_resources,
    expand_counts,
    gpu_ids,
    memory_bytes,
    time_left,
)
from grain.worker.errors import UsageError
from grain.worker.node.cgroup import Cgroups, parse_ids, read_cgroups
from grain.worker.node.host_info import HostInfo, read_host_info

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3


def host(**facts: Any) -> HostInfo:
    """A machine of 8 CPUs and 64 GB, with what is told of it."""
    plain: dict[str, Any] = {"affinity": frozenset(range(8)), "memory": 64_000_000_000}
    return HostInfo(**{**plain, **facts})


def slurm(**variables: str) -> dict[str, str]:
    return {"SLURM_JOB_ID": "1", **variables}


def pbs(**variables: str) -> dict[str, str]:
    return {"PBS_JOBID": "2.server", **variables}


def test_a_plain_machine_is_offered_whole() -> None:
    """But for what the worker itself needs."""
    offer = detect_resources("auto", host(devices=frozenset({0, 1})))

    assert Cores(8) & Memory(63.5) & GPUs(2) == offer.resources
    assert offer.time is None
    assert () == offer.remarks


def test_real_cpu_ids_are_offered() -> None:
    """Those of the affinity mask and the cpuset."""
    mask = frozenset({2, 3, 10, 11})

    assert [2, 3, 10, 11] == cpu_ids(host(affinity=mask), [])
    assert [3, 10] == cpu_ids(host(affinity=mask, cgroups=Cgroups(cpus=frozenset({3, 10}))), [])
    # A cpuset that cannot be right says nothing.
    assert [2, 3, 10, 11] == cpu_ids(host(affinity=mask, cgroups=Cgroups(cpus=frozenset({9}))), [])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_CPUS_PER_NODE": "4"}, None),  # no job of Slurm's
        (slurm(SLURM_JOB_CPUS_PER_NODE="4"), 4),
        (slurm(SLURM_JOB_CPUS_PER_NODE="4(x2),2", SLURM_NODEID="2"), 2),
        (slurm(SLURM_JOB_CPUS_PER_NODE="4(x2),2", SLURM_NODEID="3", SLURM_CPUS_ON_NODE="6"), 6),
        (slurm(SLURM_CPUS_PER_TASK="3"), 3),
        (slurm(SLURM_JOB_CPUS_PER_NODE="many"), None),
        (slurm(), None),
        (pbs(NCPUS="4"), 4),
        (pbs(PBS_NUM_PPN="5"), 5),
        (pbs(), None),
    ],
)
def test_cpus_granted(environ: dict[str, str], expected: int | None) -> None:
    """By the batch system's variables."""
    assert expected == cpus_granted(host(environ=environ))


def test_a_node_file_tells_of_this_node() -> None:
    """By its name, with or without a domain."""
    lines = ("n1.site", "n1.site", "n2.site")

    assert 2 == cpus_granted(host(environ=pbs(), node_file=lines, hostname="n1"))
    assert None is cpus_granted(host(environ=pbs(), node_file=lines, hostname="n3"))


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 10**7))
def test_as_many_cpus_as_were_granted(owned: int, granted: int, job: int) -> None:
    """Of those that may be used, and said where the batch system does not bind."""
    mask = frozenset(range(3, 3 + owned))
    remarks: list[str] = []
    environ = {"SLURM_JOB_ID": str(job), "SLURM_JOB_CPUS_PER_NODE": str(granted)}

    ids = cpu_ids(host(affinity=mask, environ=environ), remarks)

    assert min(owned, granted) == len(ids)
    assert set(ids) <= mask
    assert sorted(set(ids)) == ids
    assert (granted < owned) == bool(remarks)


def test_jobs_that_share_a_node_take_different_cpus() -> None:
    """Where nothing binds them: those of consecutive ids."""
    sets = [
        cpu_ids(host(environ={"PBS_JOBID": f"{job}.s", "NCPUS": "2"}), []) for job in range(70, 74)
    ]

    assert 8 == len({cpu for cpus in sets for cpu in cpus})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, 64_000_000_000),
        ({"memory": None}, None),
        ({"cgroups": Cgroups(memory=8 * GIB)}, 8 * GIB),
        ({"environ": slurm(SLURM_MEM_PER_NODE="2048")}, 2 * GIB),
        ({"environ": slurm(SLURM_MEM_PER_NODE="0")}, 64_000_000_000),
        ({"environ": slurm(SLURM_MEM_PER_CPU="1024", SLURM_JOB_CPUS_PER_NODE="4")}, 4 * GIB),
        ({"environ": slurm(SLURM_MEM_PER_CPU="1024")}, 8 * GIB),
        ({"environ": slurm(SLURM_MEM_PER_NODE="2048"), "cgroups": Cgroups(memory=GIB)}, GIB),
        ({"environ": slurm(SLURM_MEM_PER_NODE="-3")}, 64_000_000_000),
        ({"environ": {"SLURM_MEM_PER_NODE": "2048"}}, 64_000_000_000),
    ],
)
def test_memory_is_the_least_of_what_is_known(facts: dict[str, Any], expected: int | None) -> None:
    """Machine, control groups, Slurm."""
    assert expected == memory_bytes(host(**facts))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (slurm(), None),
        (slurm(SLURM_JOB_END_TIME="1600"), 600.0),
        (slurm(SLURM_JOB_END_TIME="400"), 0.0),
        ({"SLURM_JOB_END_TIME": "1600"}, None),
        (pbs(PBS_WALLTIME="3600"), 3600.0),
        (pbs(PBS_WALLTIME="1:00:00"), None),
        (pbs(), None),
    ],
)
def test_time_left(environ: dict[str, str], expected: float | None) -> None:
    """Until the job's end."""
    assert expected == time_left(host(environ=environ, now=1000.0))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"devices": frozenset({0, 2})}, [0, 2]),
        ({"environ": slurm(), "devices": frozenset({0, 2})}, []),
        ({"environ": slurm(SLURM_JOB_GPUS="1,3")}, [1, 3]),
        ({"environ": slurm(SLURM_JOB_GPUS="0-1", SLURM_STEP_GPUS="1")}, [1]),
        ({"environ": slurm(SLURM_JOB_GPUS="2,3", CUDA_VISIBLE_DEVICES="0,1")}, [0, 1]),
        ({"environ": {"CUDA_VISIBLE_DEVICES": "3, 1"}, "devices": frozenset({0})}, [1, 3]),
        ({"environ": {"CUDA_VISIBLE_DEVICES": ""}, "devices": frozenset({0})}, []),
        ({"environ": {"CUDA_VISIBLE_DEVICES": "-1"}, "devices": frozenset({0})}, []),
        ({"environ": {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}}, []),
    ],
)
def test_gpus(facts: dict[str, Any], expected: list[int]) -> None:
    """By the numbers that CUDA_VISIBLE_DEVICES takes here."""
    remarks: list[str] = []

    assert expected == gpu_ids(host(**facts), remarks)
    assert [] == remarks


def test_gpus_without_numbers_are_said_not_guessed() -> None:
    """The number 0 would be another one than the first of this list."""
    offer = detect_resources("auto", host(environ={"CUDA_VISIBLE_DEVICES": "GPU-8f1,GPU-77a"}))

    assert offer.resources.get(GPUs) is None
    assert "does not name GPUs by their numbers" in offer.remarks[0]


def test_what_is_stated_replaces_what_is_found() -> None:
    """Kind by kind; null means none, a kind that is nowhere to be found can be added."""
    info = host(environ=slurm(SLURM_JOB_END_TIME="1600"), now=1000.0)

    offer = detect_resources({"auto": True, "Memory": 60, "WTime": None, "Token": "disk"}, info)

    assert {"Cores": 8, "Memory": 60, "Token": to_data(offer.resources)["Token"]} == to_data(
        offer.resources
    )
    assert None is offer.time


def test_each_kind_can_be_found_by_itself() -> None:
    """With something kept back, and with an upper bound."""
    info = host(environ=slurm(SLURM_JOB_END_TIME="1600"), now=1000.0)
    stated = {
        "Cores": {"auto": {"most": 3, "less": 1}},
        "GPUs": "auto",
        "Memory": {"auto": {"less": 1.5, "most": 8}},
        "WTime": {"auto": {"less": 100}},
    }

    offer = detect_resources(json.loads(json.dumps(stated)), info)

    assert Cores([0, 1, 2]) & Memory(8) == offer.resources.alloc(Cores(3) & Memory(8))
    assert offer.resources.get(GPUs) is None
    assert offer.time == pytest.approx(500, abs=1)
    wtime = offer.resources.get(WTime)
    assert isinstance(wtime, WTime)
    assert wtime.countdown


def test_fewer_cpus_than_were_asked_for_are_said() -> None:
    """Or tasks that ask for as many as the configuration has wait, and nobody knows why."""
    two = host(affinity=frozenset({0, 1}))
    offer = detect_resources({"Cores": {"auto": {"most": 16}}}, two)
    enough = detect_resources({"Cores": {"auto": {"most": 2}}}, two)

    assert offer.resources == Cores([0, 1])
    assert offer.remarks == (
        "16 CPUs were asked for, and this process may use 2: no more are offered",
    )
    assert enough.remarks == ()


def test_a_walltime_that_is_stated_is_for_the_tasks() -> None:
    """As the job's script counts it, which knows what to keep back."""
    assert 600 == detect_resources({"Cores": 1, "WTime": 600}, host()).time


@pytest.mark.parametrize(
    "stated",
    [
        5,
        [],
        None,
        {"auto": 1},
        {"Cores": -1},
        {"Cores": "four"},
        {"Tape": 3},
        {"Tape": "auto"},
        {"Memory": {"auto": 3}},
        {"Memory": {"auto": {"least": 3}}},
        {"Memory": {"auto": {"less": -1}}},
        {"Memory": {"auto": {"most": "8"}}},
        {"Cores": {"auto": {"most": True}}},
        {"WTime": "soon"},
    ],
)
def test_nonsense_is_named(stated: Any) -> None:
    """In one sentence, not by a traceback."""
    with pytest.raises(UsageError, match="resources"):
        detect_resources(stated, host())


@given(st.text(max_size=20))
def test_no_variable_breaks_it(text: str) -> None:
    """Whatever a site puts there."""
    names = (
        "SLURM_JOB_CPUS_PER_NODE SLURM_NODEID SLURM_CPUS_ON_NODE SLURM_CPUS_PER_TASK "
        "SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_JOB_END_TIME SLURM_JOB_GPUS NCPUS "
        "CUDA_VISIBLE_DEVICES PBS_WALLTIME PBS_NUM_PPN"
    )
    for job in (slurm(), pbs()):
        detect_resources("auto", host(environ={**dict.fromkeys(names.split(), text), **job}))


@given(st.lists(st.tuples(st.integers(0, 128), st.integers(1, 5)), min_size=1))
def test_counts_expand(runs: list[tuple[int, int]]) -> None:
    """As Slurm writes them."""
    text = ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in runs)

    assert [count for count, times in runs for _ in range(times)] == expand_counts(text)


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_ids_are_read(ids: frozenset[int]) -> None:
    """One by one, or as the kernel shortens them."""
    assert ids == parse_ids(",".join(map(str, sorted(ids))))
    assert frozenset(range(7)) | {9} == parse_ids("0-6,9\n")


@pytest.mark.parametrize("text", ["", "GPU-1", "1,", "3-", "-3", "0-99999999999", "a-b"])
def test_what_is_no_list_of_ids(text: str) -> None:
    """Says nothing."""
    assert frozenset() == parse_ids(text)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_control_groups_of_version_2(tmp_path: Path) -> None:
    """The least limit of all groups above; the cpuset and the kills of our own."""
    (tmp_path / "self").write_text("0::/system/job\n")
    write(
        tmp_path / "cg",
        {
            "system/memory.max": "1000000\n",
            "system/job/memory.max": "2000000\n",
            "memory.max": "max\n",
            "system/job/cpuset.cpus.effective": "1-2\n",
            "system/job/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
        },
    )

    expected = Cgroups(memory=1000000, cpus=frozenset({1, 2}), oom_kills=2)
    assert expected == read_cgroups(tmp_path / "self", tmp_path / "cg")


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    """One hierarchy for each controller; no limit is a very large one."""
    (tmp_path / "self").write_text(
        "9:name=systemd:/\n4:cpuset:/slurm/job_1\n3:memory:/slurm/job_1\n0::/\n"
    )
    write(
        tmp_path / "cg",
        {
            "unified/x": "",
            "cpuset/slurm/job_1/cpuset.cpus": "4,5\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/slurm/job_1/memory.limit_in_bytes": "2147483648\n",
            "memory/slurm/job_1/memory.oom_control": "under_oom 0\noom_kill 1\n",
        },
    )

    expected = Cgroups(memory=2 * GIB, cpus=frozenset({4, 5}), oom_kills=1)
    assert expected == read_cgroups(tmp_path / "self", tmp_path / "cg")


def test_without_control_groups(tmp_path: Path) -> None:
    """Nothing is said, and nothing raised."""
    assert Cgroups() == read_cgroups(tmp_path / "self", tmp_path / "cg")
    (tmp_path / "self").write_text("nonsense\n\n::\n")
    assert Cgroups() == read_cgroups(tmp_path / "self", tmp_path / "cg")


def test_this_machine_can_be_looked_at() -> None:
    """Whatever it is, it has a CPU and memory."""
    offer = detect_resources("auto", read_host_info())

    assert offer.resources.N >= 1
    assert offer.resources.M > 0
