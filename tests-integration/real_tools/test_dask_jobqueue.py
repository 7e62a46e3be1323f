"""dask-jobqueue: workers as jobs, a worker that fails, workers that are given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("dask-jobqueue==0.9.0",)

START = """\
import os, time
from dask.distributed import Client
from dask_jobqueue import SLURMCluster

def cluster(**options):
    return SLURMCluster(
        queue="main", account="acct", cores=1, memory="1GB", walltime="00:10:00", interface="lo",
        log_directory="logs", **options)
"""


def test_two_workers_that_compute_and_are_given_back(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
if __name__ == "__main__":
    with cluster() as some, Client(some) as client:
        some.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        found = client.run(lambda: os.environ["SLURM_JOB_ID"])
        print(sum(client.gather(client.map(lambda x: x * x, range(10)))))
        try:
            client.submit(lambda: 1 / 0).result()
        except ZeroDivisionError as error:
            print(error)
        print(*found.values())
"""
    )
    total, error, numbers = site.python(python, program).splitlines()[-3:]
    assert (total, error) == ("285", "division by zero")
    for number in numbers.split():
        site.until(number, "CA")
    # In the directory of logs, a worker's file has its number.
    assert len(numbers.split()) == 2
    assert {f"dask-worker-{number}.err" for number in numbers.split()} <= {
        file.name for file in (site.home / "logs").iterdir()
    }


def test_a_worker_that_fails(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
if __name__ == "__main__":
    with cluster(job_script_prologue=["exit 3"]) as some:
        some.scale(jobs=1)
        while not (number := os.popen("squeue -h -t F -o %i").read()): time.sleep(0.2)
        print(number)
"""
    )
    number = site.python(python, program).split()[-1]
    site.until(number, "F")
