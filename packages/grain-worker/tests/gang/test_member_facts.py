"""What a member tells of a program, and of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grain.resource import GPU_LISTS
from grain.worker.errors import ExternalError, ExternalStartError, Failure
from grain.worker.external import Completed
from grain.worker.gang import rank
from grain.worker.gang.door import slurm_place
from grain.worker.gang.programs import CANNOT, NOT_FOUND, as_of_ssh, own_facts
from grain.worker.steps.orders import GPUS

if TYPE_CHECKING:
    from grain.worker.gang.programs import Outcome

DONE = Completed(("prog",), 0, b"said \xff", b"", 1.0, 0.5, 0.5, 0.1, "n1")
FAILED = Failure(("prog",), "n1", "/", reason="it failed")


@pytest.mark.parametrize(
    ("outcome", "status", "text"),
    [
        (DONE, 0, "said \ufffd"),
        (replace(DONE, returncode=3, stdout=None), 3, ""),
        (replace(DONE, returncode=-9), -9, "said"),
        (ExternalStartError(FAILED), NOT_FOUND, "it failed"),
        (ExternalError(FAILED), CANNOT, "it failed"),
        (ExternalError(replace(FAILED, returncode=7, stdout=b"why")), 7, "why"),
    ],
    ids=str,
)
def test_a_program_has_the_status_and_the_output_that_ssh_would_give(
    outcome: Outcome, status: int, text: str
) -> None:
    got, output = as_of_ssh(outcome)

    assert (status, True) == (got, text in output)


def test_the_facts_of_a_member_are_its_cpus_and_its_own_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("GRAIN_ALLOCATED", "CUDA_VISIBLE_DEVICES,PORTS")
    monkeypatch.setenv("OTHER", "of the root")

    facts = json.loads(own_facts())

    assert sorted(os.sched_getaffinity(0)) == facts["cpus"]
    assert "2" == facts["variables"]["CUDA_VISIBLE_DEVICES"]
    assert "OTHER" not in facts["variables"]


@pytest.mark.parametrize(
    ("own", "told", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-d"}, "1:3", {"CUDA_VISIBLE_DEVICES": "GPU-d"}),
        ({"CUDA_VISIBLE_DEVICES": "MIG-b,MIG-d"}, "0,1:", {"CUDA_VISIBLE_DEVICES": "MIG-b,MIG-d"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-d"}, ":", {"CUDA_VISIBLE_DEVICES": ""}),
        (
            {"ROCR_VISIBLE_DEVICES": "GPU-b,GPU-d", "HIP_VISIBLE_DEVICES": "0,1"},
            "1:3",
            {"ROCR_VISIBLE_DEVICES": "GPU-d", "HIP_VISIBLE_DEVICES": "0"},
        ),
        ({"ZE_AFFINITY_MASK": "0.0,0.1"}, "1:", {"ZE_AFFINITY_MASK": "0.1"}),
        ({"ZE_AFFINITY_MASK": "0.0,0.1"}, ":", {"ZE_AFFINITY_MASK": "65535"}),
        # The first member has names, and this one has numbers.
        ({"CUDA_VISIBLE_DEVICES": "4,7"}, "1:7", {"CUDA_VISIBLE_DEVICES": "7"}),
        # Both have numbers, so the first one has said which.
        ({"CUDA_VISIBLE_DEVICES": "4,7"}, "1:", {"CUDA_VISIBLE_DEVICES": "first"}),
        ({}, "1:7", {"CUDA_VISIBLE_DEVICES": "first"}),
    ],
)
def test_a_process_of_a_step_has_its_part_of_the_devices_of_its_member(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str], told: str, expected: dict[str, str]
) -> None:
    for name in GPU_LISTS:
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GRAIN_ALLOCATED", ",".join(own))
    words = [sys.executable, "-SE", rank.__file__, "--step", "", "2", f"{GPUS}={told}"]
    done = subprocess.run(
        [*words, "CUDA_VISIBLE_DEVICES=first", "env"],
        env={"PATH": os.environ["PATH"], "GRAIN_MEMBER": own_facts()},
        capture_output=True,
        text=True,
        check=True,
    )

    found = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert expected.items() <= found.items()
    assert GPUS not in found


def test_a_member_is_in_a_job_of_slurm_or_in_none() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}

    assert {"job": "7", "node": "n1", "door": "d"} == slurm_place("d", environ)
    in_none = {"job": "", "node": "", "door": "d"}
    assert in_none == slurm_place("d", {}) == slurm_place("d", {**environ, "GRAIN_QUEUE": "q"})
