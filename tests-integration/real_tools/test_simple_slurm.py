"""simple-slurm: scripts on standard input, arrays, dependencies, and the list of one's jobs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

TOOL = ("simple-slurm==0.3.6",)


def test_an_array_and_a_job_after_it(site: ToolSite, python: Path) -> None:
    program = """\
from simple_slurm import Slurm
array = Slurm(array=range(2), job_name="two", output=f"{Slurm.JOB_ARRAY_MASTER_ID}_%a.out")
number = array.sbatch("echo task", Slurm.SLURM_ARRAY_TASK_ID)
Slurm(dependency=dict(afterok=number), wait=True, output="after.out").sbatch("cat", f"{number}_*")
"""
    site.python(python, program)
    assert (site.home / "after.out").read_text() == "task 0\ntask 1\n"


def test_a_failure_of_a_script_and_of_a_command_that_is_waited_for(
    site: ToolSite, python: Path
) -> None:
    program = """\
import subprocess
from simple_slurm import Slurm
print(Slurm().sbatch("exit 3", verbose=False))
try:
    Slurm(ntasks=1).srun("false")
except subprocess.CalledProcessError as error:
    print(error.returncode)
"""
    *said, number, status = site.python(python, program).splitlines()
    error = (
        f"srun: error: {socket.gethostname().partition('.')[0]}: task 0: Exited with exit code 1"
    )
    assert error in said
    assert status == "1"
    site.until(number, "F")


def test_a_job_that_is_listed_and_cancelled(site: ToolSite, python: Path) -> None:
    program = """\
import time
from simple_slurm import Slurm
slurm = Slurm(job_name="long")
number = slurm.sbatch("exec sleep 600", verbose=False)
while slurm.squeue.jobs.get(number, {}).get("ST") != "R":
    slurm.squeue.update_squeue()
    time.sleep(0.1)
print(slurm.squeue.jobs[number]["NAME"])
slurm.scancel.cancel_job(number)
print(number)
"""
    name, number = site.python(python, program).split()
    assert name == "long"
    site.until(number, "CA")
