"""maestrowf: a study of steps that depend on each other, with squeue until they have ended."""

from __future__ import annotations

import csv
import getpass
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("maestrowf==1.2.1",)

SPEC = """\
description: {{name: study, description: two steps}}
batch: {{type: slurm, host: here, bank: acct, queue: main}}
study:
  - name: first
    description: greets
    run:
      cmd: $(LAUNCHER) echo hello > greeting
      procs: 2
      walltime: "00:05:00"
  - name: second
    description: goes on
    run:
      cmd: |
        cp $(first.workspace)/greeting .
        {command}
      procs: 1
      depends: [first]
      walltime: "00:05:00"
"""


class Study:
    """A study in a folder, of which the second step runs a command."""

    def __init__(self, site: ToolSite, maestro: Path, folder: Path) -> None:
        self._site = site
        self._maestro = maestro
        self._spec = folder / "spec.yaml"
        self.folder = folder / "study"

    def type(self, *words: str, status: int | None = 0) -> str:
        """Type ``maestro``."""
        environ = {
            "PATH": f"{self._maestro.parent}:{self._site.environ['PATH']}",  # it has `conductor`
            "USER": getpass.getuser(),  # a shell reads `squeue -u $USER`
        }
        return self._site.call(self._maestro, *words, status=status, environ=environ)

    def run(self, command: str, *options: str, status: int | None = 0) -> None:
        self._spec.write_text(SPEC.format(command=command))
        words = ["run", "-y", "-s", "1", "-o", str(self.folder), *options, str(self._spec)]
        self.type(*words, status=status)

    def steps(self) -> dict[str, dict[str, str]]:
        """Return the row of each step in the table of states."""
        try:
            with (self.folder / "status.csv").open() as file:
                return {row["Step Name"]: row for row in csv.DictReader(file)}
        except FileNotFoundError:
            return {}

    def until(self, step: str, state: str) -> str:
        """Wait until a step has a state; return the number of its job."""
        deadline = time.monotonic() + 120
        while (found := self.steps()).get(step, {}).get("State") != state:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        return found[step]["Job ID"]


@pytest.fixture
def study(site: ToolSite, python: Path, tmp_path: Path) -> Study:
    return Study(site, python.parent / "maestro", tmp_path)


def test_two_steps_of_which_the_first_has_two_processes(study: Study) -> None:
    study.run("echo done", "-fg")
    assert {name: row["State"] for name, row in study.steps().items()} == {
        "first": "FINISHED", "second": "FINISHED",
    }  # fmt: skip
    assert (study.folder / "second/greeting").read_text() == "hello\nhello\n"
    assert (study.folder / "second/second.out").read_text() == "done\n"


def test_a_step_that_fails(site: ToolSite, study: Study) -> None:
    study.run("echo no >&2; exit 3", "-fg", status=None)
    number = study.steps()["second"]["Job ID"]
    assert (study.steps()["second"]["State"], site.states()[number]) == ("FAILED", "FAILED")
    assert (study.folder / "second/second.err").read_text() == "no\n"


def test_a_study_that_is_cancelled(site: ToolSite, study: Study) -> None:
    study.run("exec sleep 600")  # maestro watches it in the background
    number = study.until("second", "RUNNING")
    study.type("cancel", "-y", str(study.folder))
    site.until(number, "CA")
    study.until("second", "CANCELLED")
