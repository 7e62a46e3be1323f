"""signac-flow: operations on a data space, whose jobs it finds in squeue by their names."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("signac-flow==0.29.1",)

PROJECT = """\
import time
import signac
from flow import FlowProject

class Project(FlowProject):
    pass

@Project.post.isfile("result")
@Project.operation(directives={"walltime": 0.1, "memory": "1g", "np": 2})
def work(job):
    if job.sp.what == "fail":
        raise ValueError("no")
    if job.sp.what == "wait":
        time.sleep(600)
    with open(job.fn("result"), "w") as file:
        file.write("done")

if __name__ == "__main__":
    signac.init_project().open_job({"what": WHAT}).init()
    Project().main()
"""


class Project:
    """A project in a folder, with one job of signac."""

    def __init__(self, site: ToolSite, python: Path, folder: Path, what: str) -> None:
        self._site = site
        self._python = python
        self.folder = folder
        (folder / "project.py").write_text(PROJECT.replace("WHAT", repr(what)))

    def type(self, *words: str) -> str:
        """Type a command of the project."""
        return self._site.call(self._python, "project.py", *words, folder=self.folder)

    def submit(self) -> str:
        """Return the number of the job, which signac-flow does not print."""
        before = set(self._site.states())
        assert "Submitting cluster job" in self.type("submit")
        [number] = set(self._site.states()) - before
        return number

    def until(self, letter: str) -> None:
        """Wait until the operation has a state, as ``A`` for active."""
        deadline = time.monotonic() + 120
        while f"work [{letter}]" not in (found := self.type("status", "-d")):
            assert time.monotonic() < deadline, found
            time.sleep(0.5)


def test_an_operation_with_its_result(site: ToolSite, python: Path, tmp_path: Path) -> None:
    project = Project(site, python, tmp_path, "succeed")
    site.until(project.submit(), "CD")
    [result] = tmp_path.glob("workspace/*/result")
    assert result.read_text() == "done"
    assert "0 jobs/aggregates with eligible operations" in project.type("status")


def test_an_operation_that_fails_can_be_submitted_again(
    site: ToolSite, python: Path, tmp_path: Path
) -> None:
    project = Project(site, python, tmp_path, "fail")
    number = project.submit()
    site.until(number, "F")
    assert "UserOperationError" in (tmp_path / f"slurm-{number}.out").read_text()
    project.until("U")
    site.until(project.submit(), "F")


def test_an_operation_whose_job_is_cancelled(site: ToolSite, python: Path, tmp_path: Path) -> None:
    project = Project(site, python, tmp_path, "wait")
    number = project.submit()
    project.until("A")
    assert "Submitting" not in project.type("submit")  # it runs already
    site.call("scancel", number)  # signac-flow has no command for that
    site.until(number, "CA")
    project.until("U")
