"""The resources that a worker detects and offers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource import Cores, GPUs, Memory, WTime, to_data
from grain.worker.auto import (
    batch_cluster,
    batch_id,
    cpu_ids,
    cpus_granted,
    detect_resources,
    detected_gpus,
    expand_counts,
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
    """Return a host with 8 CPUs and 64 GB, and with these facts."""
    plain: dict[str, Any] = {"affinity": frozenset(range(8)), "memory": 64_000_000_000}
    return HostInfo(**{**plain, **facts})


def slurm(**variables: str) -> dict[str, str]:
    return {"SLURM_JOB_ID": "1", **variables}


def pbs(**variables: str) -> dict[str, str]:
    return {"PBS_JOBID": "2.server", **variables}


@pytest.mark.parametrize(
    ("variables", "facts", "granted"),
    [
        ({"SGE_JOB_SPOOL_DIR": "/x", "NSLOTS": "3"}, {}, 3),
        ({"SGE_JOB_SPOOL_DIR": "/x", "NSLOTS": "many"}, {}, None),
        ({"LSB_JOBID": "1", "LSB_DJOB_NUMPROC": "4"}, {}, 4),
        ({"_CONDOR_MACHINE_AD": "/x"}, {"machine_ad": {"Cpus": "2"}}, 2),
        ({"_CONDOR_MACHINE_AD": "/x"}, {}, None),
        ({"OAR_JOB_ID": "1"}, {"node_file": ("n1", "n1", "n2"), "hostname": "n1.site"}, 2),
        ({"FLUX_JOB_ID": "f1"}, {}, None),
    ],
)
def test_every_batch_system_tells_the_number_of_cpus(
    variables: dict[str, str], facts: dict[str, Any], granted: int | None
) -> None:
    """Flux binds its jobs to CPUs, which says all."""
    assert granted == cpus_granted(host(environ=variables, **facts))


def test_jobs_that_are_not_bound_begin_at_cpus_of_their_own() -> None:
    """By the number of the job, or of HTCondor's slot."""
    sge = {"SGE_JOB_SPOOL_DIR": "/x", "NSLOTS": "2"}
    condor = {"_CONDOR_MACHINE_AD": "/x", "_CONDOR_SLOT": "slot1_3"}
    ad = {"Cpus": "2"}

    assert [0, 1] == cpu_ids(host(environ={**sge, "JOB_ID": "4"}), [])
    assert [2, 3] == cpu_ids(host(environ={**sge, "JOB_ID": "5"}), [])
    assert [6, 7] == cpu_ids(host(environ=condor, machine_ad=ad), [])


def test_memory_and_time_of_other_batch_systems() -> None:
    """HTCondor counts MiB; Flux is asked for the time, OAR states it."""
    condor = host(environ={"_CONDOR_MACHINE_AD": "/x"}, machine_ad={"Memory": "1024"})

    assert GIB == memory_bytes(condor)
    assert 600 == time_left(host(environ={"OAR_JOB_ID": "1", "OAR_JOB_WALLTIME_SECONDS": "600"}))
    assert 42.5 == time_left(host(environ={"FLUX_JOB_ID": "f1"}, flux_left=42.5))
    assert time_left(host(environ={"SGE_JOB_SPOOL_DIR": "/x"})) is None


def test_a_machine_ad_and_the_time_of_flux_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ad").write_text('Cpus = 4\nMachine = "n1"\nnonsense\n')
    (tmp_path / "flux").write_text("#!/bin/sh\necho 120.5\n")
    (tmp_path / "flux").chmod(0o755)
    monkeypatch.setenv("_CONDOR_MACHINE_AD", str(tmp_path / "ad"))
    monkeypatch.setenv("FLUX_JOB_ID", "f1")
    monkeypatch.setenv("PATH", str(tmp_path))
    info = read_host_info()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("_CONDOR_MACHINE_AD", str(tmp_path / "none"))
    without = read_host_info()

    assert ("4", 120.5) == (info.machine_ad["Cpus"], info.flux_left)
    assert ({}, None) == (without.machine_ad, without.flux_left)


def test_a_plain_machine_is_offered_whole() -> None:
    """Less 0.5 GB for the worker itself."""
    offer = detect_resources("auto", host(devices=frozenset({0, 1})))

    assert Cores(8) & Memory(63.5) & GPUs(2) == offer.resources
    assert offer.time is None
    assert () == offer.remarks


def test_the_offered_cpus_are_those_of_affinity_and_cpuset() -> None:
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
def test_the_batch_system_states_the_number_of_cpus(
    environ: dict[str, str], expected: int | None
) -> None:
    assert expected == cpus_granted(host(environ=environ))


def test_a_node_file_states_the_cpus_of_this_node() -> None:
    """It names the node with or without a domain."""
    lines = ("n1.site", "n1.site", "n2.site")

    assert 2 == cpus_granted(host(environ=pbs(), node_file=lines, hostname="n1"))
    assert None is cpus_granted(host(environ=pbs(), node_file=lines, hostname="n3"))


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 10**7))
def test_as_many_cpus_are_offered_as_were_granted(owned: int, granted: int, job: int) -> None:
    """They are among the usable CPUs; a remark says that the batch system does not bind."""
    mask = frozenset(range(3, 3 + owned))
    remarks: list[str] = []
    environ = {"SLURM_JOB_ID": str(job), "SLURM_JOB_CPUS_PER_NODE": str(granted)}

    ids = cpu_ids(host(affinity=mask, environ=environ), remarks)

    assert min(owned, granted) == len(ids)
    assert set(ids) <= mask
    assert sorted(set(ids)) == ids
    assert (granted < owned) == bool(remarks)


def test_jobs_that_share_a_node_take_different_cpus() -> None:
    """Jobs with consecutive ids, which nothing binds."""
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
def test_memory_is_the_least_of_all_limits(facts: dict[str, Any], expected: int | None) -> None:
    """The limits are those of the machine, the control groups and Slurm."""
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
def test_the_time_left_lasts_until_the_end_of_the_job(
    environ: dict[str, str], expected: float | None
) -> None:
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
        ({"environ": {"CUDA_VISIBLE_DEVICES": "GPU-8f1,GPU-77a"}}, [0, 1]),
        ({"environ": slurm(SLURM_JOB_GPUS="4,5", ROCR_VISIBLE_DEVICES="0,1")}, [0, 1]),
        ({"environ": slurm(SLURM_JOB_GPUS="2,3", ZE_AFFINITY_MASK="2,3")}, [2, 3]),
    ],
)
def test_gpus_are_those_of_the_job_or_of_the_machine(
    facts: dict[str, Any], expected: list[int]
) -> None:
    """Their numbers are those that the variables of their vendor take in this process."""
    assert expected == detected_gpus(host(**facts))


@pytest.mark.parametrize(
    ("visible", "stated", "offered"),
    [
        ("GPU-8f1,GPU-77a", 1, [0]),
        ("GPU-8f1,GPU-77a", [1], [1]),
        ("4,5,6", 2, [4, 5]),
        ("4,5", 4, [0, 1, 2, 3]),
        ("4,5", [0], [0]),
    ],
)
def test_a_number_of_gpus_that_is_stated_is_of_those_that_the_worker_sees(
    visible: str, stated: Any, offered: list[int]
) -> None:
    info = host(environ={"CUDA_VISIBLE_DEVICES": visible})

    gpus = detect_resources({"Cores": 1, "GPUs": stated}, info).resources.get(GPUs)
    assert isinstance(gpus, GPUs)
    assert offered == gpus.g


def test_more_gpus_than_have_names_are_refused() -> None:
    """Which others there are is not known."""
    info = host(environ={"CUDA_VISIBLE_DEVICES": "MIG-11a,MIG-22b"})

    with pytest.raises(UsageError, match="sees 2 GPUs, by their names"):
        detect_resources({"GPUs": 3}, info)


def test_gpus_with_names_have_no_cpus_near_them() -> None:
    """The kernel knows them by numbers only."""
    near = {0: frozenset({0}), 1: frozenset({1})}
    info = host(environ={"CUDA_VISIBLE_DEVICES": "GPU-8f1,GPU-77a"}, near=near)

    assert {"Cores", "Memory", "GPUs"} == set(
        data := to_data(detect_resources("auto", info).resources)
    )
    assert 2 == data["GPUs"]


def test_the_host_is_offered_on_request_without_its_domain() -> None:
    info = host(hostname="n7.site.org")

    assert "n7" == to_data(detect_resources({"Host": "auto"}, info).resources)["Host"]
    assert "Host" not in to_data(detect_resources("auto", info).resources)


def test_a_stated_kind_replaces_the_detected_one() -> None:
    """None removes a kind; a kind that cannot be detected can be added."""
    info = host(environ=slurm(SLURM_JOB_END_TIME="1600"), now=1000.0)

    offer = detect_resources({"auto": True, "Memory": 60, "WTime": None, "Token": "disk"}, info)

    assert {"Cores": 8, "Memory": 60, "Token": to_data(offer.resources)["Token"]} == to_data(
        offer.resources
    )
    assert None is offer.time


def test_each_kind_can_be_detected_within_bounds() -> None:
    """The bounds are an amount to keep back, and an upper limit."""
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


def test_fewer_cpus_than_were_asked_for_are_remarked_on() -> None:
    """Otherwise tasks that request the configured number would wait without a reason to see."""
    two = host(affinity=frozenset({0, 1}))
    offer = detect_resources({"Cores": {"auto": {"most": 16}}}, two)
    enough = detect_resources({"Cores": {"auto": {"most": 2}}}, two)

    assert offer.resources == Cores([0, 1])
    assert offer.remarks == (
        "16 CPUs were asked for, and this process may use 2: no more are offered",
    )
    assert enough.remarks == ()


def test_a_stated_walltime_is_all_for_the_tasks() -> None:
    """The job script that states it has kept back what it needs."""
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
        {"Cores": 0.5},
        {"Cores": "all"},
        {"Cores": 1, "GPUs": 0.25},
    ],
)
def test_a_statement_without_sense_is_a_usage_error(stated: Any) -> None:
    """Users see one sentence, not a traceback."""
    with pytest.raises(UsageError, match="resources"):
        detect_resources(stated, host())


@given(st.text(max_size=20))
def test_no_text_in_a_variable_of_the_batch_system_raises(text: str) -> None:
    names = (
        "SLURM_JOB_CPUS_PER_NODE SLURM_NODEID SLURM_CPUS_ON_NODE SLURM_CPUS_PER_TASK "
        "SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_JOB_END_TIME SLURM_JOB_GPUS NCPUS "
        "CUDA_VISIBLE_DEVICES PBS_WALLTIME PBS_NUM_PPN"
    )
    for job in (slurm(), pbs()):
        detect_resources("auto", host(environ={**dict.fromkeys(names.split(), text), **job}))


@given(st.lists(st.tuples(st.integers(0, 128), st.integers(1, 5)), min_size=1))
def test_slurms_counts_are_expanded_by_node(runs: list[tuple[int, int]]) -> None:
    text = ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in runs)

    assert [count for count, times in runs for _ in range(times)] == expand_counts(text)


@given(st.frozensets(st.integers(0, 300), min_size=1))
def test_lists_of_ids_are_parsed(ids: frozenset[int]) -> None:
    """Ids stand one by one, or as ranges."""
    assert ids == parse_ids(",".join(map(str, sorted(ids))))
    assert frozenset(range(7)) | {9} == parse_ids("0-6,9\n")


@pytest.mark.parametrize("text", ["", "GPU-1", "1,", "3-", "-3", "0-99999999999", "a-b"])
def test_a_text_that_is_no_list_of_ids_has_none(text: str) -> None:
    assert frozenset() == parse_ids(text)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_limits_are_read_from_control_groups_of_version_2(tmp_path: Path) -> None:
    """Memory is the least limit of all groups above; cpuset and kills are those of our own."""
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


def test_a_group_without_a_cpuset_of_its_own_has_that_of_the_one_above(tmp_path: Path) -> None:
    """As the one that a worker makes for itself has not."""
    (tmp_path / "self").write_text("0::/job/own\n")
    write(tmp_path / "cg", {"job/cpuset.cpus.effective": "3\n", "job/own/memory.max": "max\n"})
    assert Cgroups(cpus=frozenset({3})) == read_cgroups(tmp_path / "self", tmp_path / "cg")


def test_limits_are_read_from_control_groups_of_version_1(tmp_path: Path) -> None:
    """Each controller has a hierarchy; a very large limit means none."""
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


def test_missing_control_groups_set_no_limits(tmp_path: Path) -> None:
    assert Cgroups() == read_cgroups(tmp_path / "self", tmp_path / "cg")
    (tmp_path / "self").write_text("nonsense\n\n::\n")
    assert Cgroups() == read_cgroups(tmp_path / "self", tmp_path / "cg")


def test_the_resources_of_this_machine_can_be_detected() -> None:
    offer = detect_resources("auto", read_host_info())

    assert offer.resources.N >= 1
    assert offer.resources.M > 0


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"SLURM_JOB_ID": "1", "SLURM_CLUSTER_NAME": "one"}, "one"),
        ({"SGE_JOB_SPOOL_DIR": "/x", "SGE_CLUSTER_NAME": "p6444"}, "p6444"),
        ({"PBS_JOBID": "1234.pbs01.example.org"}, "pbs01"),
        ({"PBS_JOBID": "1234"}, ""),
        ({"FLUX_JOB_ID": "f1"}, ""),
        ({"SLURM_CLUSTER_NAME": "of another job"}, ""),
    ],
)
def test_the_batch_system_states_the_name_of_the_cluster(
    environ: dict[str, str], name: str
) -> None:
    assert name == batch_cluster(environ)


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "8"}, "8"),
        (
            {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"},
            "7_0",
        ),
        ({"PBS_JOBID": "1234[5].pbs01"}, "1234[5].pbs01"),
        ({"LSB_JOBID": "3", "LSB_JOBINDEX": "0"}, "3"),
        ({"LSB_JOBID": "3", "LSB_JOBINDEX": "2"}, ""),
        ({"OAR_JOB_ID": "5"}, "5"),
        ({"FLUX_JOB_ID": "f2i"}, "f2i"),
        # They list no jobs that have ended.
        ({"SGE_JOB_SPOOL_DIR": "/x", "JOB_ID": "9"}, ""),
        ({"_CONDOR_MACHINE_AD": "/x", "_CONDOR_SLOT": "slot1"}, ""),
    ],
)
def test_a_job_has_the_name_by_which_commands_of_the_batch_system_know_it(
    environ: dict[str, str], job: str
) -> None:
    assert job == batch_id(environ)
