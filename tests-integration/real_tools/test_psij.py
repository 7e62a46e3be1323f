"""psij-python: scripts with quoted values, states from squeue, files named by jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("psij-python==0.9.11",)

START = """\
from datetime import timedelta
from pathlib import Path
from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig

executor = JobExecutor.get_instance("slurm", config=SlurmExecutorConfig(
    queue_polling_interval=1, initial_queue_polling_delay=1))

def job(*words, processes=1, name="out"):
    return Job(JobSpec(
        executable=words[0], arguments=list(words[1:]), stdout_path=Path(name).absolute(),
        stderr_path=Path(f"{name}.err").absolute(), launcher="srun",
        resources=ResourceSpecV1(process_count=processes, cpu_cores_per_process=1),
        attributes=JobAttributes(
            duration=timedelta(minutes=5), queue_name="main", account="acct"),
    ))
"""


def test_two_processes_of_a_job(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
one = job("/bin/sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS", processes=2)
executor.submit(one)
print(one.wait().state.name)
"""
    )
    assert site.python(python, program) == "COMPLETED\n"
    assert sorted((site.home / "out").read_text().splitlines()) == ["0 of 2", "1 of 2"]


def test_a_failure_with_its_exit_status(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
one = job("/bin/sh", "-c", "echo wrong >&2; exit 3", name="failed")
executor.submit(one)
status = one.wait()
print(status.state.name, status.exit_code)
"""
    )
    assert site.python(python, program) == "FAILED 3\n"
    assert "wrong" in (site.home / "failed.err").read_text()


def test_a_job_that_is_cancelled(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
one = job("/bin/sleep", "600")
executor.submit(one)
one.wait(target_states=[JobState.ACTIVE])
one.cancel()
print(one.wait().state.name, one.native_id)
"""
    )
    state, number = site.python(python, program).split()
    assert state == "CANCELED"
    site.until(number, "CA")
