"""The nodes of a job, and what starts workers there."""

from __future__ import annotations

import json

import pytest

from grain.worker.errors import UsageError
from grain.worker.launch.part import PART, NodePart
from grain.worker.launch.places import JobPlace, environment, places, remote, srun


def test_a_host_that_is_listed_more_than_once_is_one_node() -> None:
    lines = ["n1 4 main.q@n1 UNDEFINED", "n2 4 main.q@n2 UNDEFINED", "n1 2 other.q@n1 UNDEFINED"]

    assert [JobPlace("n1", 6), JobPlace("n2", 4)] == places("sge", lines)
    assert [JobPlace("n1"), JobPlace("n2")] == places("pbs", ["n1", "n1", "n2", "", "n2"])


def test_srun_starts_one_on_each_node_whatever_sbatch_was_asked_for() -> None:
    command = srun(3, ["grain-worker", "--name", "w"])

    wanted = {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--cpu-bind=none", "--wait=0"}
    assert wanted | {"--kill-on-bad-exit=0", "--overlap"} <= set(command)
    assert ["grain-worker", "--name", "w"] == command[-3:]


def test_words_that_a_shell_would_take_apart_get_to_a_node_as_they_are() -> None:
    starter = ["/it's my $python/bin/python", "-c", "import sys; print('!')", "x"]
    qrsh = ["qrsh", "-inherit", "-nostdin", "-noshell", "n2"]

    assert ["tmrsh", "n2", *starter] == remote("pbs", "n2", starter, {"pbs_tmrsh": "tmrsh"})
    assert [*qrsh, *starter] == remote("sge", "n2", starter, {"qrsh": "qrsh"})


@pytest.mark.parametrize("odd", ["/two\nlines", "/latin-1 \udcff"])
def test_a_word_that_grid_engine_does_not_pass_on_as_it_is_is_refused(odd: str) -> None:
    starter = [odd, "-m", "x"]

    assert ["tmrsh", "n2", *starter] == remote("pbs", "n2", starter, {"pbs_tmrsh": "tmrsh"})
    with pytest.raises(UsageError, match="Grid Engine passes no path with such characters"):
        remote("sge", "n2", starter, {"qrsh": "qrsh"})


@pytest.mark.parametrize("system", ["pbs", "sge"])
def test_a_job_without_its_launcher_says_what_is_missing(system: str) -> None:
    with pytest.raises(UsageError, match="by which workers are started"):
        remote(system, "n2", ["python"], {})


def test_a_node_keeps_what_the_batch_system_says_of_itself() -> None:
    launching = {"A": "1", "TMPDIR": "/tmp/1", "CUDA_VISIBLE_DEVICES": "0", "PBS_NODENUM": "0"}
    launching |= {"ROCR_VISIBLE_DEVICES": "0", "ZE_AFFINITY_MASK": "1", "": "C:=x"}
    own = {"TMPDIR": "/tmp/2", "PBS_NODENUM": "1", "PATH": "/bin", "ZE_AFFINITY_MASK": "3"}

    found = environment(launching, own, 4)

    kept = {"A": "1", "TMPDIR": "/tmp/2", "PBS_NODENUM": "1", "NSLOTS": "4"}
    assert {**kept, "ZE_AFFINITY_MASK": "3"} == found


def test_the_part_of_a_worker_leaves_its_environment() -> None:
    """It has a key, and programs of tasks inherit the environment."""
    environ = {PART: NodePart(b"\0key", "/home/w1-r2.log").text(), "SLURM_PROCID": "3"}

    part = NodePart.taken(environ)

    assert NodePart(b"\0key", "/home/w1-r2.log", 3) == part
    assert "/home/w1-r2.3.log" == part.log_file()
    assert {"SLURM_PROCID": "3"} == environ
    assert NodePart.taken(environ) is None
    with pytest.raises(KeyError):
        NodePart.taken({PART: json.dumps({"number": 1})})
