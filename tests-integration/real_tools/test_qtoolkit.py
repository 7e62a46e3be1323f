"""qtoolkit, by which jobflow-remote submits: one job by scontrol, several by squeue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("qtoolkit==0.1.7",)

START = """\
import os, time
from qtoolkit.core.data_objects import QResources, QState
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.manager import QueueManager

queue = QueueManager(SlurmIO())

def submit(command):
    options = QResources(
        queue_name="main", job_name="job", memory_per_thread=100, account="acct",
        time_limit=600, processes=2, threads_per_process=1,
        output_filepath="queue.out", error_filepath="queue.err")
    return queue.submit(
        command, options=options, work_dir=folder, create_submit_dir=True).job_id

def until(number, *states):
    while (job := queue.get_job(number)).state not in states: time.sleep(0.2)
    return job
"""


def test_a_job_and_its_end(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
folder = os.path.abspath("a")
number = submit("echo hi $SLURM_NTASKS")
job = until(number, QState.DONE, QState.FAILED)
print(job.state.name, job.name, job.info.cpus, job.info.time_limit)
"""
    )
    assert site.python(python, program) == "DONE job 2 600\n"
    assert (site.home / "a/queue.out").read_text() == "hi 2\n"


def test_a_failure(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
folder = os.path.abspath("b")
number = submit("exit 3")
job = until(number, QState.DONE, QState.FAILED)
print(job.state.name, job.sub_state.value, queue.get_jobs_list([number]))
"""
    )
    assert site.python(python, program) == "FAILED FAILED []\n"


def test_a_job_that_is_listed_and_cancelled(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
folder = os.path.abspath("c")
number = submit("exec sleep 600")
while not (jobs := queue.get_jobs_list([number, "999"])) or jobs[0].state != QState.RUNNING:
    time.sleep(0.2)
print(jobs[0].job_id == number, jobs[0].info.time_limit, jobs[0].username)
print(queue.cancel(number).status.name)
print(until(number, QState.FAILED).sub_state.value)
"""
    )
    listed, cancelled, state = site.python(python, program).splitlines()
    assert listed.startswith("True 600 ")
    assert (cancelled, state) == ("SUCCESSFUL", "CANCELLED")
