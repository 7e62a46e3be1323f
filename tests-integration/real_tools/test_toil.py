"""Toil: its leader asks scontrol every second, and its jobs catch the warning of a time limit."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("toil==9.6.0",)

WORKFLOW = """\
import os
import sys
import time

from toil.common import Toil
from toil.job import Job

SMALL = {"cores": 1, "memory": "100M", "disk": "10M"}

def work(job, what):
    if what == "fail":
        raise ValueError("of the job")
    if what == "wait":
        open(os.path.expanduser("~/begun-" + os.environ["SLURM_JOB_ID"]), "w").close()
        time.sleep(600)
    return os.environ["SLURM_JOB_ID"]

def several(job, what):
    return [job.addChildJobFn(work, "succeed", **SMALL).rv() for _ in range(2)]

if __name__ == "__main__":
    parser = Job.Runner.getDefaultArgumentParser()
    parser.add_argument("what")
    options = parser.parse_args()
    function = several if options.what == "several" else work
    first = Job.wrapJobFn(function, options.what, **SMALL)
    with Toil(options) as toil:
        print("result:", toil.start(first))
"""


def command(site: ToolSite, python: Path, what: str, *options: str) -> list[str | Path]:
    """Return the command line of a workflow."""
    file = site.home / "workflow.py"
    file.write_text(WORKFLOW)
    store = f"file:{site.home}/store-{what}-{len(options)}"
    once = ["--batchSystem", "slurm", "--retryCount", "0", *options]
    return [python, file, store, *once, what]


def environ(site: ToolSite, python: Path) -> dict[str, str]:
    return {"PATH": f"{python.parent}:{site.environ['PATH']}"}


def test_jobs_that_follow_each_other_and_their_results(site: ToolSite, python: Path) -> None:
    words = command(site, python, "several")
    said = site.call(*words, environ=environ(site, python))
    [result] = [line for line in said.splitlines() if line.startswith("result:")]
    numbers = {number for number in site.states() if f"'{number}'" in result}
    assert len(numbers) == 2
    assert {site.states()[number] for number in numbers} == {"COMPLETED"}


def test_a_failure_with_its_traceback(site: ToolSite, python: Path) -> None:
    before = set(site.states())
    said = site.call(*command(site, python, "fail"), status=1, environ=environ(site, python))
    assert "ValueError: of the job" in said
    assert "FailedJobsException" in said
    assert [state for number, state in site.states().items() if number not in before] == ["FAILED"]


def test_a_workflow_that_is_interrupted_cancels_its_job(site: ToolSite, python: Path) -> None:
    leader = subprocess.Popen(
        command(site, python, "wait"), cwd=site.home,
        env={**site.environ, **environ(site, python)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        number = begun(site)
        leader.send_signal(signal.SIGINT)
        site.until(number, "CA")
        assert leader.wait(120) != 0
    finally:
        leader.kill()
        leader.wait()


def test_a_job_is_warned_before_its_time_limit(site: ToolSite, python: Path) -> None:
    # Toil wants the warning half a minute before the end.
    words = command(site, python, "wait", "--slurmTime", "0:40")
    said = site.call(*words, status=1, environ=environ(site, python))
    assert "in handle_walltime_signal" in said
    assert site.states()[begun(site)] == "FAILED"


def begun(site: ToolSite) -> str:
    """Wait until a job that waits has begun; return its number."""
    deadline = time.monotonic() + 120
    while not (found := list(site.home.glob("begun-*"))):
        assert time.monotonic() < deadline, site.call("squeue")
        time.sleep(0.2)
    found[0].unlink()
    return found[0].name.partition("-")[2]
