"""Resources as users of AiiDA write them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("aiida")

from aiida_grain.resources import GrainJobResource
from aiida_grain.scheduler import GrainScheduler


@pytest.mark.parametrize(
    ("given", "cores", "ranks", "each"),
    [
        ({}, 1, 1, 1),
        ({"cores": 4}, 4, 4, 1),
        ({"cores": 4, "num_cores_per_mpiproc": 2}, 4, 2, 2),
        ({"cores": 4, "num_mpiprocs_per_machine": 2}, 4, 2, 2),
        ({"cores": 5, "num_mpiprocs_per_machine": 2}, 5, 2, 2),
        ({"num_machines": 1, "num_mpiprocs_per_machine": 4}, 4, 4, 1),
        ({"num_machines": 1, "tot_num_mpiprocs": 4}, 4, 4, 1),
        ({"num_mpiprocs_per_machine": 2, "tot_num_mpiprocs": 2, "num_machines": 1}, 2, 2, 1),
        ({"num_mpiprocs_per_machine": 4, "num_cores_per_mpiproc": 3}, 12, 4, 3),
        ({"num_mpiprocs_per_machine": 4, "num_cores_per_machine": 8}, 8, 4, 2),
        ({"num_machines": 1, "num_mpiprocs_per_machine": None}, 1, 1, 1),
    ],
)
def test_cores_and_processes(given: dict[str, Any], cores: int, ranks: int, each: int) -> None:
    resource = GrainJobResource(**given)
    assert (cores, ranks, each) == (
        resource.cores,
        resource.get_tot_num_mpiprocs(),
        resource.num_cores_per_mpiproc,
    )
    assert (1, ranks) == (resource.num_machines, resource.num_mpiprocs_per_machine)


@pytest.mark.parametrize(
    ("given", "cores", "each", "total"),
    [
        ({}, 1, 1, 2),
        ({"num_mpiprocs_per_machine": 8}, 8, 8, 16),
        ({"tot_num_mpiprocs": 16}, 8, 8, 16),
        ({"num_mpiprocs_per_machine": 8, "tot_num_mpiprocs": 16}, 8, 8, 16),
        ({"cores": 8, "num_cores_per_mpiproc": 2}, 8, 4, 8),
    ],
)
def test_several_machines_are_alike(
    given: dict[str, Any], cores: int, each: int, total: int
) -> None:
    resource = GrainJobResource(num_machines=2, **given)

    assert (2, cores, each, total) == (
        resource.num_machines,
        resource.cores,
        resource.num_mpiprocs_per_machine,
        resource.get_tot_num_mpiprocs(),
    )


def test_memory_and_gpus() -> None:
    resource = GrainJobResource(cores=1, memory=4, gpus=2)
    assert (4.0, 2) == (resource.memory, resource.gpus)
    assert (None, 0) == (GrainJobResource().memory, GrainJobResource().gpus)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_machines": 0}, "num_machines: 0 is not a whole number from 1"),
        ({"num_machines": 2, "tot_num_mpiprocs": 3}, "3 MPI processes are not the same number on"),
        ({"num_cpus": 2}, "num_cpus: Grain knows cores, gpus, num_machines"),
        ({"cores": 0}, "cores: 0 is not a whole number from 1"),
        ({"cores": "4"}, "cores: '4' is not a whole number from 1"),
        ({"cores": True}, "cores: True is not"),
        ({"gpus": -1}, "gpus: -1 is not a whole number from 0"),
        ({"memory": "4 GB"}, "memory: '4 GB' is not a number of GB, such as 4 or 0.5"),
        ({"memory": 0}, "memory: 0 is not"),
        ({"memory_group": "my group"}, "memory_group: 'my group' is not the name of a group"),
        ({"cores": 4, "num_cores_per_machine": 8}, "cores and num_cores_per_machine are the same"),
        (
            {"num_mpiprocs_per_machine": 4, "tot_num_mpiprocs": 8},
            "tot_num_mpiprocs: 8 MPI processes are not 4 on each of 1 machines",
        ),
        ({"cores": 2, "num_mpiprocs_per_machine": 4}, "2 cores are not enough for 4 MPI processes"),
        (
            {"cores": 4, "num_mpiprocs_per_machine": 4, "num_cores_per_mpiproc": 2},
            "4 cores are not enough for 4 MPI processes of 2 cores each",
        ),
    ],
)
def test_resources_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^.*{message}"):
        GrainScheduler.validate_resources(**given)


def test_the_default_of_the_computer_counts_where_a_job_says_nothing() -> None:
    resources: dict[str, Any] = {"cores": 4}
    GrainScheduler.preprocess_resources(resources, default_mpiprocs_per_machine=2)
    assert 2 == GrainScheduler.create_job_resource(**resources).get_tot_num_mpiprocs()
    unset: dict[str, Any] = {"cores": 4}
    GrainScheduler.preprocess_resources(unset, default_mpiprocs_per_machine=None)
    assert 4 == GrainScheduler.create_job_resource(**unset).get_tot_num_mpiprocs()
