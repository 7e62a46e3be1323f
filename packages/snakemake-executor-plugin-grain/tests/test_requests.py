"""Threads and resources of a rule become a request."""

from __future__ import annotations

from typing import Any

import pytest

from snakemake_executor_plugin_grain.requests import BadResource, Need, need_of


def test_a_rule_that_says_nothing_asks_for_a_core() -> None:
    assert Need({"Cores": 1}, 0) == need_of(1, {"_cores": 1, "_nodes": 1, "tmpdir": "/tmp"})


@pytest.mark.parametrize(
    ("resources", "request_"),
    [
        ({"mem_mb": 1500}, {"Cores": 4, "Memory": 1.5}),
        (
            {"mem_mb": 1500, "grain_memory_group": "opt"},
            {"Cores": 4, "Memory": {"M": 1.5, "group": "opt"}},
        ),
        ({"grain_memory_group": "opt"}, {"Cores": 4, "Memory": {"group": "opt"}}),
        ({"mem_mb": 1000, "mem_mib": 954}, {"Cores": 4, "Memory": 1.0}),
        ({"mem_mib": 1024}, {"Cores": 4, "Memory": 1.073742}),
        ({"mem_mb_per_cpu": 500}, {"Cores": 4, "Memory": 2.0}),
        ({"cpus_per_task": 2, "mem_mb_per_cpu": 500}, {"Cores": 2, "Memory": 1.0}),
        ({"tasks": 3}, {"Cores": 12}),
        ({"gpu": 1}, {"Cores": 4, "GPUs": 1}),
        ({"gpus": 2}, {"Cores": 4, "GPUs": 2}),
        ({"nvidia_gpu": 2, "gpu_model": "a100"}, {"Cores": 4, "GPUs": 2}),
        ({"amd_gpu": 1}, {"Cores": 4, "GPUs": 1}),
        ({"gres": "gpu:2"}, {"Cores": 4, "GPUs": 2}),
        ({"gres": "gpu:a100"}, {"Cores": 4, "GPUs": 1}),
        ({"gres": "shard:2"}, {"Cores": 4}),
        ({"grain_request": "Capacity=2,Token=ssd"}, {"Cores": 4, "Capacity": 2, "Token": "ssd"}),
        ({"grain_request": "Cores=8", "mem_mb": 1000}, {"Cores": 8, "Memory": 1.0}),
        ({"disk_mb": 1000, "licence": 1, "slurm_partition": "short"}, {"Cores": 4}),
        ({"nodes": 1, "mpi": "mpiexec"}, {"Cores": 4}),
    ],
)
def test_resources_become_kinds(resources: dict[str, Any], request_: dict[str, Any]) -> None:
    assert Need(request_, 0) == need_of(4, resources)


@pytest.mark.parametrize(
    ("resources", "each"),
    [
        ({}, {"Cores": 4}),
        ({"tasks": 6, "cpus_per_task": 1, "mem_mb": 1500}, {"Cores": 3, "Memory": 1.5}),
        ({"tasks": 3, "mem_mb_per_cpu": 500}, {"Cores": 8, "Memory": 4.0}),
        ({"gpu": 4}, {"Cores": 4, "GPUs": 2}),
        ({"gres": "gpu:4"}, {"Cores": 4, "GPUs": 4}),
        ({"grain_request": "Token=ssd"}, {"Cores": 4, "Token": "ssd"}),
    ],
)
def test_a_rule_with_several_nodes_asks_for_so_many_workers(
    resources: dict[str, Any], each: dict[str, Any]
) -> None:
    expected: dict[str, object] = {"Gang": {"count": 2, "of": each}}

    assert Need(expected, 0) == need_of(4, {"nodes": 2, **resources})


def test_runtime_is_in_minutes() -> None:
    assert Need({"Cores": 1}, 5400) == need_of(1, {"runtime": 90})


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"nodes": "two"}, "nodes is 'two': write a number"),
        ({"nodes": 2, "grain_request": "2 * Cores=4"}, "both are of the kind Cores; state one"),
        ({"mem_mb": "much"}, "mem_mb is 'much': write a number"),
        ({"grain_memory_group": 7}, "a group is a name"),
        ({"grain_memory_group": " "}, "a group is a name, without blanks around it"),
        ({"runtime": -1}, "runtime is -1: write a number"),
        ({"gpu": True}, "gpu is True: write a number"),
        ({"grain_request": "Apples=1"}, "grain_request: 'Apples=1': .*Apples"),
        ({"grain_request": "Cores(1"}, r"grain_request: 'Cores\(1' is not a resource"),
        ({"grain_request": "WTime=60"}, "give the time as runtime, in minutes"),
    ],
)
def test_what_makes_no_sense_says_what_to_write(resources: dict[str, Any], message: str) -> None:
    with pytest.raises(BadResource, match=message):
        need_of(1, resources)
