"""What srun asks for, and what its processes get: members, variables, files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grain.worker.steps.orders import StepJob, StepOrder, answer, wish_of
from grain.worker.steps.shares import MemberRoom, StepImpossible, StepShares

JOB = StepJob(
    {
        "JOB_ID": "12", "JOBID": "12", "JOB_NAME": "opt", "JOB_USER": "ann", "NODELIST": "n[1-3]",
        "SUBMIT_DIR": "/home", "CPUS_PER_TASK": "2",
    },
    ("n1.site", "n2.site", "n3.site"),
    (True, True, True),
)  # fmt: skip
ROOMS = [MemberRoom((0, 1, 2, 3)), MemberRoom((4, 5, 6, 7)), MemberRoom((0, 1))]


def answered(job: StepJob = JOB, rooms: list[MemberRoom] = ROOMS, **fields: Any) -> dict[str, Any]:
    order = StepOrder(**{"name": "true", "directory": "/work", **fields})
    wish = wish_of(order, job)
    shares = StepShares(rooms)
    shares.ask(wish)
    [(_, found)] = shares.begin()
    return answer(5, order, wish, found, job)


def of_ranks(found: dict[str, Any], name: str) -> list[str]:
    return [rank["variables"].get(name) for rank in found["ranks"]]


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        ({"tasks": 6}, [0, 0, 1, 1, 2, 2]),
        ({"tasks": 4}, [0, 0, 1, 2]),
        ({"tasks": 2}, [0, 1]),
        ({}, [0, 1, 2]),
        ({"nodes": 1, "tasks": 4}, [0, 0, 0, 0]),
        ({"nodes": 2, "tasks": 1}, [0]),
        ({"nodes": 2, "tasks_per_node": 3}, [0, 0, 0, 1, 1, 1]),
        ({"tasks_per_node": 1}, [0, 1, 2]),
        ({"hosts": ("n3",), "tasks": 2}, [2, 2]),
        ({"hosts": ("n2", "n3.site"), "tasks": 3}, [1, 1, 2]),
        ({"excluded": ("n2.site", "n9"), "tasks": 3}, [0, 0, 2]),
        ({"excluded": ("n1",)}, [1, 2]),
        ({"hosts": ("n2", "n3"), "excluded": ("n2",), "tasks": 2}, [2, 2]),
        ({"relative": 1, "excluded": ("n2",), "tasks": 2}, [2, 2]),
        ({"relative": 1, "tasks": 2}, [1, 2]),
        ({"tasks": 9, "overcommit": True}, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        ({"nodes": 2, "tasks": 2, "each": 4}, [0, 1]),
        ({"tasks": 4, "distribution": "cyclic:block"}, [0, 1, 2, 0]),
        ({"tasks": 4, "distribution": "plane=1"}, [0, 1, 2, 0]),
        ({"tasks": 4, "distribution": "plane=2,pack"}, [0, 0, 1, 2]),
        ({"tasks": 4, "distribution": "block:cyclic"}, [0, 0, 1, 2]),
    ],
)
def test_processes_stand_on_members(fields: dict[str, Any], members: list[int]) -> None:
    assert members == [rank["member"] for rank in answered(**fields)["ranks"]]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nodes": 4}, "Only allocated 3 nodes asked for 4"),
        (
            {"relative": 2, "nodes": 2},
            "--relative and --nodes option incompatible with count of allocated nodes (2+2>3)",
        ),
        ({"hosts": ("n9",)}, "Requested node configuration is not available"),
        ({"excluded": ("n1",), "nodes": 3}, "Only allocated 2 nodes asked for 3"),
        ({"excluded": ("n1", "n2", "n3")}, "Hostlist is empty!  Can't run job."),
        ({"tasks": 11}, "More processors requested than permitted"),
    ],
)
def test_a_job_has_no_such_members(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(StepImpossible) as impossible:
        answered(**fields)
    assert why == str(impossible.value)


def test_a_step_that_asks_for_what_its_job_was_told_has_all_of_it() -> None:
    job = JOB._replace(variables={**JOB.variables, "MEM_PER_NODE": "100", "MEM_PER_CPU": "50"})
    for field, told in (("memory", 100.0), ("memory_per_cpu", 50.0)):
        for amount, wanted in ((told, None), (told - 1, told - 1)):
            order = msgspec.convert({field: amount}, StepOrder)
            assert wanted == getattr(wish_of(order, job), field)


def test_each_process_knows_its_place() -> None:
    found = answered(JOB._replace(address="10.0.0.1"), tasks=4)
    expected = {
        "SLURM_PROCID": ["0", "1", "2", "3"],
        "SLURM_NODEID": ["0", "0", "1", "2"],
        "SLURM_LOCALID": ["0", "1", "0", "0"],
        "SLURM_GTIDS": ["0,1", "0,1", "2", "3"],
        "SLURM_CPUS_ON_NODE": ["4", "4", "4", "2"],
    }
    assert expected == {name: of_ranks(found, name) for name in expected}
    assert ["n1", "n1", "n2", "n3"] == [rank["name"] for rank in found["ranks"]]
    common = found["variables"]
    expected_of_all = {
        "SLURM_STEP_ID": "5", "SLURM_STEPID": "5", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4",
        "SLURM_NNODES": "3", "SLURM_STEP_NODELIST": "n[1-3]", "SLURM_STEP_NUM_NODES": "3",
        "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "2,1(x2)",
        "SLURM_TASKS_PER_NODE": "2,1(x2)", "SLURM_DISTRIBUTION": "block",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", "SLURM_SRUN_COMM_HOST": "10.0.0.1",
    }  # fmt: skip
    assert expected_of_all.items() <= common.items()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tasks": 3}, {"DISTRIBUTION": "cyclic"}),
        ({"tasks": 4}, {"DISTRIBUTION": "block"}),
        ({"distribution": "cyclic:block"}, {"DISTRIBUTION": "cyclic:block"}),
        ({"distribution": "plane=2"}, {"DISTRIBUTION": "plane", "DIST_PLANESIZE": "2"}),
        ({"tasks_per_node": 1}, {"NTASKS_PER_NODE": "1", "DISTRIBUTION": "cyclic"}),
    ],
)
def test_processes_know_how_they_are_spread(fields: dict[str, Any], told: dict[str, str]) -> None:
    found = answered(**fields)["variables"]
    names = ("DISTRIBUTION", "DIST_PLANESIZE", "NTASKS_PER_NODE")
    expected = {f"SLURM_{name}": told.get(name) for name in names}
    assert expected == {name: found.get(name) for name in expected}


def test_what_the_caller_has_removed_is_set_again_as_far_as_slurm_does() -> None:
    kept = answered(tasks=1, environment={"SLURM_JOB_NAME": "mine", "SLURM_JOB_ID": "12"})
    assert {"SLURM_JOB_NAME", "SLURM_JOB_ID"}.isdisjoint(kept["variables"])
    found = answered(tasks=1)["variables"]
    # The job's name, once it is gone, is the step's.
    assert ("12", "true", "n[1-3]") == tuple(
        found[f"SLURM_{name}"] for name in ("JOB_ID", "JOB_NAME", "NODELIST")
    )
    assert {"SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK"}.isdisjoint(found)
    assert "3" == answered(tasks=1, each=3)["variables"]["SLURM_CPUS_PER_TASK"]


def test_processes_are_bound_and_see_their_devices_only() -> None:
    rooms = [MemberRoom((0, 1, 2, 3), ("4", "5"))]
    job = StepJob(JOB.variables, ("n1",), (True,), seen_by={}, threads={"OMP_NUM_THREADS": "4"})
    found = answered(job, rooms, tasks=2, each=2, exact=True, gpus_per_task=1)
    assert [(0, 1), (2, 3)] == [rank["cpus"] for rank in found["ranks"]]
    assert ["2", "2"] == [rank["threads"] for rank in found["ranks"]]
    assert {"OMP_NUM_THREADS": "4"} == found["threads"]
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        assert ["4", "5"] == of_ranks(found, name)
    assert ["4,5"] == of_ranks(answered(job, rooms, tasks=1), "CUDA_VISIBLE_DEVICES")
    assert ["4"] == of_ranks(answered(job, rooms, tasks=1, gpus_in_all=1), "SLURM_STEP_GPUS")
    assert [""] == of_ranks(answered(job, rooms, tasks=1, gpus=0), "CUDA_VISIBLE_DEVICES")
    unbound = answered(job._replace(bound=(False,)), rooms, tasks=1)
    assert () == unbound["ranks"][0]["cpus"]
    # A job without GPUs has whatever its worker shows.
    assert [None] == of_ranks(answered(tasks=1), "CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("variable", "seen", "ids", "expected"),
    [
        ("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b", ("0", "1"), ["MIG-a", "MIG-b", None, None]),
        ("ROCR_VISIBLE_DEVICES", "8,9", ("8", "9"), ["8", "9", "6", "7"]),
        ("ZE_AFFINITY_MASK", "0.0,0.1", ("0", "1"), ["0.0", "0.1", None, None]),
    ],
)
def test_processes_see_devices_by_the_names_of_their_worker(
    variable: str, seen: str, ids: tuple[str, ...], expected: list[str | None]
) -> None:
    """Those of another worker are not known here: its processes are told which they have."""
    there = ("6", "7")
    job = StepJob(
        JOB.variables, ("n1", "n2"), (True, True), seen_by={variable: seen}, gpus=(ids, there)
    )
    rooms = [MemberRoom((0, 1), ids), MemberRoom((0, 1), there)]
    found = answered(job, rooms, tasks=4, gpus_per_task=1)
    assert expected == of_ranks(found, variable)
    told = ["0:", "1:"] if variable.startswith("ROCR") else ["0:6", "1:7"]
    assert [None, None, *told] == of_ranks(found, "GRAIN_STEP_GPUS")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("%t.out", "/work/1.out"), ("%2t.out", "/work/01.out"), ("/a/../%j.o", "/12.o"),
        ("%J.o", "/work/12.5.o"), ("%x-%u", "/work/opt-ann"), ("%%", "/work/%"),
        ("%s_%n_%N", "/work/5_1_n2"), ("a\\%J", "/work/a%J"), ("", ""),
    ],
)  # fmt: skip
def test_names_of_files(pattern: str, path: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), pattern)
    found = answered(tasks=2, **fields)["ranks"][1]
    assert [path] * 3 == [found[name] for name in fields]


def test_a_task_of_an_array_has_the_numbers_of_its_own() -> None:
    facts = {**JOB.variables, "JOB_ID": "12000003", "ARRAY_JOB_ID": "12", "ARRAY_TASK_ID": "3"}
    found = answered(JOB._replace(variables=facts), tasks=1, stdout="%A_%a_%J")
    assert "/work/12_3_12000003.5" == found["ranks"][0]["stdout"]


def test_an_answer_is_plain_data_of_a_form_with_a_number() -> None:
    found = msgspec.json.decode(msgspec.json.encode(answered(tasks=1)))
    assert (2, 5) == (found["form"], found["step"])
    # Other names take another number, as srun may be newer than the worker.
    assert ["form", "job", "ranks", "step", "threads", "variables"] == sorted(found)
    names = ["cpus", "member", "name", "stderr", "stdin", "stdout", "threads", "variables"]
    assert names == sorted(found["ranks"][0])
