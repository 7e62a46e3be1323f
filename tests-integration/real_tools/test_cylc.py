"""Cylc: workflows whose jobs start a login shell, report to it, and are polled by squeue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("cylc-flow==8.5.4",)

PLATFORM = """\
[platforms]
    [[grain]]
        hosts = localhost
        install target = localhost
        job runner = slurm
        cylc path = {programs}
        submission polling intervals = PT2S
        execution polling intervals = PT2S
"""
"""A job calls ``cylc message``, so it has to know where that is."""

WORKFLOW = """\
[scheduler]
    [[events]]
        stall timeout = PT0S
        abort on stall timeout = True
[scheduling]
    [[graph]]
        R1 = "first => second"
[runtime]
    [[root]]
        platform = grain
        execution time limit = PT5M
        [[[directives]]]
            --ntasks = 2
    [[first]]
        script = srun -l echo first
    [[second]]
        script = {command}
"""


class Workflow:
    """A workflow of two tasks, of which the second runs a command."""

    def __init__(self, site: ToolSite, python: Path, name: str, command: str) -> None:
        self._site = site
        self._programs = python.parent
        self._name = name
        self.folder = site.home / "cylc-run" / name
        self.folder.mkdir(parents=True)
        (self.folder / "flow.cylc").write_text(WORKFLOW.format(command=command))
        config = site.home / ".cylc/flow/global.cylc"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(PLATFORM.format(programs=self._programs))

    def type(self, *words: str, status: int | None = 0) -> str:
        """Type ``cylc``."""
        path = f"{self._programs}:{self._site.environ['PATH']}"
        return self._site.call(
            self._programs / "cylc", *words, status=status, environ={"PATH": path}
        )

    def log(self, task: str, name: str) -> str:
        return (self.folder / "log/job/1" / task / "NN" / name).read_text()

    def job(self, task: str) -> str:
        """Wait until a task has been submitted; return the number of its job."""
        deadline = time.monotonic() + 120
        status = self.folder / "log/job/1" / task / "NN/job.status"
        while not status.exists() or "CYLC_JOB_ID=" not in status.read_text():
            assert time.monotonic() < deadline, self.type("cat-log", self._name, status=None)
            time.sleep(0.2)
        values = dict(line.split("=", 1) for line in status.read_text().splitlines())
        return values["CYLC_JOB_ID"]

    def until_over(self) -> None:
        """Wait until the workflow is over."""
        deadline = time.monotonic() + 120
        while (self.folder / ".service/contact").exists():
            assert time.monotonic() < deadline, self.type("cat-log", self._name, status=None)
            time.sleep(0.2)


def test_two_tasks_of_which_the_first_has_two_processes(site: ToolSite, python: Path) -> None:
    workflow = Workflow(site, python, "good", "echo second")
    workflow.type("play", "--no-detach", "good")
    assert {"0: first", "1: first"} <= set(workflow.log("first", "job.out").splitlines())
    assert "\nsecond\n" in workflow.log("second", "job.out")
    number = workflow.job("second")
    assert site.states()[number] == "COMPLETED"


def test_a_task_that_fails(site: ToolSite, python: Path) -> None:
    workflow = Workflow(site, python, "bad", "echo no >&2; false")
    said = workflow.type("play", "--no-detach", "bad", status=1)
    assert "[1/second/01:running] failed/ERR" in said
    assert workflow.log("second", "job.err").startswith("no\n")
    assert site.states()[workflow.job("second")] == "FAILED"


def test_a_task_that_is_killed(site: ToolSite, python: Path) -> None:
    workflow = Workflow(site, python, "long", "sleep 600")
    workflow.type("play", "long")
    number = workflow.job("second")
    site.until(number, "R")
    workflow.type("kill", "long//1/second")
    site.until(number, "CA")
    workflow.until_over()
    assert "[1/second/01:failed(held)] job killed" in workflow.type("cat-log", "long")
    assert "CYLC_JOB_EXIT=TERM" in workflow.log("second", "job.status")
