"""What a member tells of a program, and of itself."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grain.worker.errors import ExternalError, ExternalStartError, Failure
from grain.worker.external import Completed
from grain.worker.gang.door import slurm_place
from grain.worker.gang.programs import CANNOT, NOT_FOUND, as_of_ssh, own_facts

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


def test_a_member_is_in_a_job_of_slurm_or_in_none() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}

    assert {"job": "7", "node": "n1", "door": "d"} == slurm_place("d", environ)
    in_none = {"job": "", "node": "", "door": "d"}
    assert in_none == slurm_place("d", {}) == slurm_place("d", {**environ, "GRAIN_QUEUE": "q"})
