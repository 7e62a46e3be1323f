"""submitit: functions as jobs, results by pickles; arrays; a time limit that is announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

TOOL = ("submitit==1.5.4",)

START = """\
import time
import submitit
executor = submitit.AutoExecutor(folder="logs")
executor.update_parameters(timeout_min=5, mem_gb=1, cpus_per_task=1, slurm_partition="main")
"""


def test_results_of_a_function_and_of_an_array(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
print(executor.cluster, executor.submit(pow, 2, 5).result())
print([job.result() for job in executor.map_array(pow, [2, 3, 4], [2, 2, 2])])
"""
    )
    assert site.python(python, program) == "slurm 32\n[4, 9, 16]\n"


@pytest.mark.real_tools
def test_processes_of_one_job_and_a_job_that_is_warned_and_runs_again(
    site: ToolSite, python: Path
) -> None:
    program = (
        START
        + """\
import os
def rank():
    here = submitit.JobEnvironment()
    return here.global_rank, here.num_tasks, here.num_nodes

class Counter:
    count = 0

    def __call__(self):
        if "SLURM_RESTART_COUNT" in os.environ: return self.count
        open("begun", "w").close()
        self.count = 1
        time.sleep(600)

    def checkpoint(self): return submitit.helpers.DelayedSubmission(self)

job = executor.submit(Counter())
while not os.path.exists("begun"): time.sleep(0.1)
job._interrupt()  # as when its time is nearly over
print(job.result())
executor.update_parameters(tasks_per_node=2)
print(executor.submit(rank).results())
"""
    )
    assert site.python(python, program) == "1\n[(0, 2, 1), (1, 2, 1)]\n"


def test_a_failure_with_its_traceback(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
def divide(): return 1 / 0
job = executor.submit(divide)
try:
    job.result()
except submitit.core.utils.FailedJobError as error:
    print("ZeroDivisionError" in str(error))
while (state := job.watcher.get_state(job.job_id, mode="force")) == "RUNNING": time.sleep(0.2)
print(state)
"""
    )
    assert site.python(python, program) == "True\nFAILED\n"


# submitit has its jobs ignore SIGTERM, so that SIGKILL ends them, half a minute later.
@pytest.mark.real_tools
def test_a_job_that_is_cancelled(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
job = executor.submit(time.sleep, 600)
while job.watcher.get_state(job.job_id, mode="force") != "RUNNING": time.sleep(0.2)
job.cancel()
while not job.done(force_check=True): time.sleep(0.2)
print(job.state)
"""
    )
    assert site.python(python, program).startswith("CANCELLED")
