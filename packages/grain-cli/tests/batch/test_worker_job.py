"""The resources that a worker gets from its job, and the time of its warning."""

from __future__ import annotations

import datetime
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.batch import BatchJob, mission_job
from grain.cli.batch.scripts.jobs import resources, warning_lead
from grain.cli.batch.scripts.shell import body
from grain.cli.batch.systems import slurm

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.config import Config


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        (
            "",
            {
                "Cores": "auto",
                "GPUs": "auto",
                "Memory": {"auto": {"less": 0.5}},
                "WTime": {"auto": {"less": 60}},
            },
        ),
        (
            "[script]\ncores = 4\nmemory = 8\nwalltime = 600",
            {"Cores": {"auto": {"most": 4}}, "GPUs": "auto", "Memory": 7.5},
        ),
        (
            "[script]\nmemory = 0.3\n[worker.reserve]\nmemory = 0.1\nwalltime = 5",
            {"Cores": "auto", "GPUs": "auto", "Memory": 0.2, "WTime": {"auto": {"less": 5}}},
        ),
        (
            "[worker.res]\nCores = 2\nMemory = 1\nWTime = 10\nGPUs = [0]",
            {"Cores": 2, "GPUs": [0], "Memory": 1, "WTime": 10},
        ),
    ],
)
def test_a_worker_owns_configured_amounts_less_the_reserve(
    configure: Callable[[str], Config], text: str, owned: dict[str, Any]
) -> None:
    """Configured amounts less the reserve; the rest is for the worker to find out."""
    assert owned == resources(configure(text))


def test_several_workers_of_one_machine_share_its_memory(
    configure: Callable[[str], Config],
) -> None:
    """Several workers of one machine share its memory."""
    assert {"auto": {"less": 0.5, "most": 8.0}} == resources(configure(""), 8.0)["Memory"]


@pytest.mark.parametrize(
    ("walltime", "reserve", "lead"),
    [
        (3600, 60, 120),
        (None, 60, 120),
        (120, 60, 60),
        (180, 60, 90),
        (90, 60, 60),
        (7200, 600, 660),
    ],
)
def test_the_warning_comes_a_minute_early_or_after_half_of_a_short_job(
    walltime: int | None, reserve: int, lead: int
) -> None:
    """A minute before the worker has to be done, but in short jobs not at their start."""
    assert lead == warning_lead(walltime, reserve)


def test_walltime_of_the_user(job_of: Callable[..., BatchJob]) -> None:
    """A walltime in worker.res is left as it is; there are not two."""
    job = job_of("[script]\nwalltime = 600\n[worker.res]\nWTime = 10")

    assert "$grain_left" not in job.main
    assert '"WTime": 10' in job.main


def test_several_jobs_differ_in_name_and_log() -> None:
    """Several differ in name and log."""
    from grain.config import Script

    job = BatchJob(name="w1", log_file="/a.b/w1.log", script=Script(), main="")

    assert [("w1-0", "/a.b/w1-0.log"), ("w1-1", "/a.b/w1-1.log")] == [
        (one.name, one.log_file) for one in job.members(2)
    ]
    assert [job] == job.members(1)
    assert "" == BatchJob(name="w1", log_file="", script=Script(), main="").member("0").log_file


def test_log_file_is_absolute(job_of: Callable[..., BatchJob]) -> None:
    """Batch systems start a job where they like."""
    assert "/home/me/run/w093015.log" == job_of("").log_file
    assert Path("/x/y") == Path(job_of('[worker]\nlog_file = "/x/y"').log_file)


def test_the_environment_of_a_worker_is_set_after_the_set_up_and_taken_literally(
    job_of: Callable[..., BatchJob],
) -> None:
    """In the script, which its owner alone can read, and not on a command line."""
    job = job_of(
        "[script]\nsetup_cleanup = 'export A=set-up B=set-up'\n"
        """[worker.env]\nA = "it's $HOME"\nC = ''\n"""
    )
    lines = body(replace(job, main="""sh -c 'echo "$A|$B|${C-none}"'""")).splitlines()

    ran = subprocess.run(["sh"], input="\n".join(lines), text=True, capture_output=True, check=True)
    assert "it's $HOME|set-up|\n" == ran.stdout
    assert "HOME" not in job.main


def test_the_directory_of_a_worker_is_an_option_of_its_command(
    job_of: Callable[..., BatchJob],
) -> None:
    assert "--cwd '/scratch/my own'" in job_of("[worker]\ncwd = '/scratch/my own'").main
    assert "--cwd /home/me/x" in job_of("[worker]\ncwd = '$HOME/x'").main
    assert "--cwd" not in job_of("").main


def test_the_cluster_of_a_worker_is_an_option_of_its_command(
    job_of: Callable[..., BatchJob],
) -> None:
    assert "--cluster two" in job_of("[worker]\ncluster = 'two'").main
    assert "--cluster" not in job_of("").main


def test_the_script_of_a_mission_has_one_node(configure: Callable[[str], Config]) -> None:
    """Whatever [script] says of workers; they start no more than one of it."""
    config = configure('system = "slurm"\n[head]\ncmd = "true"\n[script]\nnodes = 4')
    now = datetime.datetime(2026, 3, 4, 9, 30, 15)

    job = mission_job(config, now=now, folder="/home/me")

    assert 1 == job.script.nodes
    assert "#SBATCH --nodes=1\n" in slurm.script(job)
