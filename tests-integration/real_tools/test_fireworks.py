"""FireWorks: qlaunch, whose jobs run rlaunch in a login shell.

There is no MongoDB: both read and write a file, as FireWorks' own tests do with mongomock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("FireWorks[mongomock]==2.1.4",)

ADAPTER = """\
_fw_name: CommonAdapter
_fw_q_type: SLURM
_fw_timeout: 100
rocket_launch: {rlaunch} -c {home} singleshot
nodes: 1
ntasks: 1
cpus_per_task: 1
walltime: '00:05:00'
queue: main
account: acct
job_name: fwj
"""


class FireWorks:
    """A store of FireWorks in the home directory of a site, and the commands for it."""

    def __init__(self, site: ToolSite, python: Path) -> None:
        self.site = site
        self._bin = python.parent
        self._environ = {"MONGOMOCK_SERVERSTORE_FILE": str(site.home / "store.json")}
        site.environ.update(self._environ)
        (site.home / "store.json").write_text("{}")
        (site.home / "my_launchpad.yaml").write_text("host: localhost\nname: fireworks\n")
        (site.home / "my_qadapter.yaml").write_text(
            ADAPTER.format(rlaunch=self._bin / "rlaunch", home=site.home)
        )
        self.call("lpad", "reset", stdin="fireworks\n")

    def call(self, command: str, *words: str, stdin: str = "") -> str:
        folder = ("-c", str(self.site.home))
        return self.site.call(self._bin / command, *folder, *words, stdin=stdin)

    def launch(self, script: str, *words: str) -> str:
        """Add a script as a firework, and submit a job for it; return its number."""
        before = set(self.site.states())
        self.call("lpad", "add_scripts", script)
        self.call("qlaunch", *words)
        [number] = self.site.states().keys() - before
        return number

    def count(self, state: str) -> int:
        """Return how many fireworks have a state."""
        return int(self.call("lpad", "get_fws", "-s", state, "-d", "count").splitlines()[-1])


@pytest.fixture
def fireworks(site: ToolSite, python: Path) -> FireWorks:
    return FireWorks(site, python)


def test_a_firework_that_is_completed(fireworks: FireWorks) -> None:
    number = fireworks.launch("echo done > fw.txt", "singleshot")
    fireworks.site.until(number, "CD")
    assert fireworks.count("COMPLETED") == 1
    assert (fireworks.site.home / "fw.txt").read_text() == "done\n"


def test_a_firework_that_fails(fireworks: FireWorks) -> None:
    number = fireworks.launch("exit 3", "-r", "singleshot")
    fireworks.site.until(number, "CD", "F")
    assert fireworks.count("FIZZLED") == 1


def test_a_job_that_is_counted_and_cancelled(fireworks: FireWorks, python: Path) -> None:
    number = fireworks.launch("exec sleep 600", "-r", "rapidfire", "-m", "1")
    fireworks.site.until(number, "R")
    program = """\
from fireworks.user_objects.queue_adapters.common_adapter import CommonAdapter
print(CommonAdapter("SLURM", queue="main", timeout=100).get_njobs_in_queue())
"""
    assert fireworks.site.python(python, program).splitlines()[-1] == "1"
    fireworks.site.call("scancel", number)
    fireworks.site.until(number, "CA")
