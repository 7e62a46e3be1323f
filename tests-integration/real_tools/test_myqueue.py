"""myqueue: scripts on standard input; states by files of the job, by squeue and by its output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from real_tools.tool_site import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("myqueue==26.8.1",)

# myqueue reads the files of a job whose number it has not noted yet, and forgets what they say. So
# a job must not begin at once.
CONFIG = """\
config = {
    "scheduler": "slurm",
    "use_mpi": False,
    "nodes": [("main", {"cores": 2, "memory": "8G"})],
    "extra_args": ["--begin=now+5"],
}
"""


class Queue:
    """A folder with tasks of myqueue."""

    def __init__(self, site: ToolSite, mq: Path, folder: Path) -> None:
        self._site = site
        self._mq = mq
        self.folder = folder

    def type(self, *words: str) -> str:
        """Type ``mq``."""
        return self._site.call(self._mq, *words, folder=self.folder)

    def submit(self, *words: str) -> str:
        """Return the number of a task, which is that of its job."""
        return self.type("submit", *words).split()[0]

    def until(self, number: str, state: str) -> None:
        """List tasks until one has a state."""
        deadline = time.monotonic() + PATIENCE
        while f"{number} {state}" not in (found := self._states()):
            assert time.monotonic() < deadline, found
            time.sleep(0.3)

    def _states(self) -> list[str]:
        lines = self.type("list", "-s", "aA", "-c", "is").splitlines()
        return [" ".join(line.split()) for line in lines]


@pytest.fixture
def queue(site: ToolSite, python: Path, tmp_path: Path) -> Queue:
    (tmp_path / ".myqueue").mkdir()
    (tmp_path / ".myqueue/config.py").write_text(CONFIG)
    return Queue(site, python.parent / "mq", tmp_path)


def test_a_task_and_one_that_waits_for_it(queue: Queue) -> None:
    first = queue.submit("shell:pwd", "-R", "2:1:5m")
    second = queue.submit("shell:echo+after", "-R", "1:5m", "-d", "shell:pwd")
    queue.until(second, "done")
    queue.until(first, "done")
    assert (queue.folder / f"shell:pwd.{first}.out").read_text() == f"{queue.folder}\n"
    assert (queue.folder / f"shell:echo.{second}.out").read_text() == "after\n"


def test_a_failure_with_its_message_cancels_what_waits_for_it(queue: Queue) -> None:
    number = queue.submit("shell:cat+missing", "-R", "1:5m")
    after = queue.submit("shell:true", "-R", "1:5m", "-d", "shell:cat+missing")
    queue.until(number, "FAILED")
    queue.until(after, "CANCELED")
    assert "No such file or directory" in queue.type("list", "-s", "F", "-c", "e")


def test_a_task_that_is_removed_is_a_job_that_is_cancelled(site: ToolSite, queue: Queue) -> None:
    number = queue.submit("shell:sleep+600", "-R", "1:5m")
    queue.until(number, "running")
    assert "1 task removed" in queue.type("remove", "-i", number)
    site.until(number, "CA")


def test_a_task_whose_time_is_over_is_told_by_its_output(queue: Queue) -> None:
    # A minute is the smallest limit of myqueue, so its own argument is followed by a shorter one.
    number = queue.submit("shell:sleep+600", "-R", "1:1s", "-X--time=0:02")
    queue.until(number, "TIMEOUT")


def test_a_task_is_held_and_released(site: ToolSite, queue: Queue) -> None:
    blocker = [queue.submit(f"shell:sleep+60{n}", "-R", "1:5m") for n in range(2)]
    number = queue.submit("shell:true", "-R", "1:5m")
    queue.type("modify", "-i", number, "-N", "h")
    assert "JobHeldUser" in site.call("squeue", "-h", "-j", number, "-o", "%r")
    queue.type("modify", "-i", number, "-N", "q")
    queue.type("remove", "-i", ",".join(blocker))
    queue.until(number, "done")
