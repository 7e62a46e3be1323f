"""pysqa: scripts from a template, a table of the queue, dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("pysqa==1.1.1",)

START = """\
import os, time
from pysqa import QueueAdapter
queue = QueueAdapter(queue_type="SLURM")

def submit(command, folder, **options):
    return queue.submit_job(
        job_name="job", command=command, cores=1, run_time_max=600, memory_max=1,
        partition="main", working_directory=os.path.abspath(folder), **options)

def until(number, *states):
    while (state := queue.get_status_of_job(process_id=number)) not in states: time.sleep(0.2)
    return state
"""


def test_a_job_after_another_one(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
first = submit("echo first > ../order", "a")
second = submit("echo second >> ../order", "b", dependency_list=[str(first)])
print(until(second, None))
"""
    )
    assert site.python(python, program) == "None\n"
    assert (site.home / "order").read_text() == "first\nsecond\n"


def test_a_failure_leaves_the_table(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
number = submit("sleep 1; exit 2", "c")
until(number, None)
print(number)
"""
    )
    number = site.python(python, program).strip()
    site.until(number, "F")


def test_a_job_that_is_cancelled(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
number = submit("exec sleep 600", "d")
until(number, "running")
queue.delete_job(process_id=number)
until(number, None)
print(number)
"""
    )
    number = site.python(python, program).strip()
    site.until(number, "CA")
