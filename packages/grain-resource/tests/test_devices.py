"""The GPUs that a process sees, and the variables of a program that is to see some of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource import GPUs, Supply, gpu_ids, gpu_variables, variables_of

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
ZE, ORDER, OPENCL = "ZE_AFFINITY_MASK", "CUDA_DEVICE_ORDER", "GPU_DEVICE_ORDINAL"


def devices(environ: dict[str, str], *ids: int) -> dict[str, str]:
    """Return the variables of a program with some GPUs, without their number and order."""
    found = variables_of(GPUs(ids), environ)
    assert str(len(ids)) == found.pop("GRAIN_GPUS")
    if CUDA in found and found.get(ORDER) == "PCI_BUS_ID":
        del found[ORDER]
    return found


@pytest.mark.parametrize(
    ("environ", "ids", "task", "expected"),
    [
        # NVIDIA, as Slurm does with and without ConstrainDevices.
        ({CUDA: "0,1"}, [0, 1], [1], {CUDA: "1", HIP: "1"}),
        ({CUDA: "4,5"}, [4, 5], [4], {CUDA: "4", HIP: "4"}),
        ({CUDA: "3, 1,-1,0"}, [1, 3], [1, 3], {CUDA: "1,3", HIP: "1,3"}),
        ({CUDA: "GPU-8f,GPU-77"}, [0, 1], [1], {CUDA: "GPU-77", HIP: "GPU-77"}),
        ({CUDA: "MIG-1a,MIG-2b,MIG-3c"}, [0, 1, 2], [0, 2], {CUDA: "MIG-1a,MIG-3c",
                                                          HIP: "MIG-1a,MIG-3c"}),
        # AMD: what ROCm leaves is numbered from 0 above.
        ({ROCR: "4,5"}, [4, 5], [5], {ROCR: "5", HIP: "0"}),
        ({ROCR: "4,5,6,7"}, [4, 5, 6, 7], [5, 7], {ROCR: "5,7", HIP: "0,1"}),
        ({ROCR: "GPU-8f,GPU-77"}, [0, 1], [1], {ROCR: "GPU-77", HIP: "0"}),
        ({ROCR: "4,5,6,7", HIP: "2,3"}, [6, 7], [7], {ROCR: "7", HIP: "0"}),
        ({HIP: "2,3"}, [2, 3], [3], {HIP: "3"}),
        ({ROCR: "4,5", OPENCL: "0,1"}, [4, 5], [5], {ROCR: "5", HIP: "0", OPENCL: "0"}),
        # Intel: devices, and parts of them.
        ({ZE: "2,3"}, [2, 3], [3], {ZE: "3"}),
        ({ZE: "0.0,0.1,1.0"}, [0, 1, 2], [1], {ZE: "0.1"}),
        # Slurm sets all of them where gres.conf does not name the vendor.
        ({CUDA: "4,5", ROCR: "4,5", ZE: "4,5"}, [4, 5], [5], {CUDA: "5", ROCR: "5", HIP: "0",
                                                           ZE: "5"}),
        # Nothing is said: each vendor has numbers.
        ({}, None, [3], {CUDA: "3", HIP: "3", ZE: "3"}),
        ({CUDA: ""}, [], [3], {CUDA: "3", HIP: "3", ZE: "3"}),
        ({ZE: ""}, None, [3], {CUDA: "3", HIP: "3", ZE: "3"}),
    ],
)  # fmt: skip
def test_a_program_sees_the_gpus_of_its_task_by_the_names_that_its_worker_sees(
    environ: dict[str, str], ids: list[int] | None, task: list[int], expected: dict[str, str]
) -> None:
    assert ids == gpu_ids(environ)
    assert expected == devices(environ, *task)


def test_the_order_of_numbers_is_that_of_the_worker() -> None:
    assert "FASTEST_FIRST" == variables_of(GPUs([0]), {ORDER: "FASTEST_FIRST"})[ORDER]
    assert "PCI_BUS_ID" == variables_of(GPUs([0]), {})[ORDER]


NAMED = st.lists(st.sampled_from(["GPU-1", "GPU-2", "GPU-3", "0.1"]), min_size=1, unique=True)
NUMBERED = st.lists(st.integers(0, 20).map(str), min_size=1, unique=True)


@given(st.sampled_from([CUDA, HIP, ROCR, ZE]), NAMED | NUMBERED, st.data())
def test_tasks_divide_the_gpus_and_a_process_that_has_them_passes_on_the_same(
    variable: str, names: list[str], data: st.DataObject
) -> None:
    """So a function's process may start programs, too."""
    environ = {variable: ",".join(names)}
    supply = Supply(GPUs(gpu_ids(environ) or ()))
    parts = data.draw(st.lists(st.integers(1, 3), min_size=1))
    seen = []
    for n in itertools.takewhile(lambda n: supply.fit(GPUs(n)).name == "NOW", parts):
        got = supply.alloc(GPUs(n))
        assert isinstance(got, GPUs)
        own = devices(environ, *got.g)
        seen += own[variable].split(",")
        child = environ | own
        assert child == child | devices(child, *got.g)
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(names)


def test_a_program_without_gpus_sees_none_of_its_worker() -> None:
    """An empty mask would mean all GPUs to Level Zero."""
    none = gpu_variables([], {ZE: "0,1"})
    assert ["65535", []] == [none[ZE], gpu_ids(none)]
    assert gpu_ids({ZE: ""}) is None
    assert "" == gpu_variables([], {CUDA: "0,1"})[CUDA]
