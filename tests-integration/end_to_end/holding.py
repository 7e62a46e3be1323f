"""A mission whose tasks hold until they are let go, and report where they ran."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from end_to_end.place import MARK
from fake_batch.start import until

if TYPE_CHECKING:
    from end_to_end.place import Place

CONFIG = """\
system = "{system}"
[script]
cores = 2
memory = 1
walltime = "{walltime}"
setup_cleanup = ["export {mark}={folder}"]
"""
GRACE = """
[head.gnaw]
idle_timeout = "3m"  # all that a killed test run leaves is gone by then
extra_args = ["--grace", "3"]
"""

PROGRAM = """\
import sys
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def hold(i, folder):
    import os, trio
    from grain import GVAR
    where = GVAR.instance
    fd = os.open(f"{folder}/begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{i} {where}\\n".encode())
    os.close(fd)
    while not any(os.path.exists(f"{folder}/{name}") for name in ("go", f"go.{i}.{where}")):
        await trio.sleep(0.05)
    return i, where

async def main():
    jobs = [(hold @ Cores(1))(i, sys.argv[1]) for i in range(int(sys.argv[2]))]
    for job in jobs:
        print(*await job)

run(main)
"""


class Holding:
    """A place with workers of two cores each, and a mission whose tasks hold.

    Args:
        place: Where. Workers that serve there already are taken, and its Gnaw.
        tasks: How many there are; each asks for a core.
        workers: How many there are to be; those that are missing are started.
        walltime: Of the workers' jobs.
        more: The configuration's other tables.
    """

    def __init__(
        self,
        place: Place,
        tasks: int = 4,
        workers: int = 2,
        walltime: str = "01:00:00",
        more: str = GRACE,
    ) -> None:
        self.place = place
        self.tasks = tasks
        self.configure(walltime, more)
        serving = place.serving() if place.records() else []
        self._start()
        missing = workers - len(serving)
        started = place.up("-n", str(missing)) if missing else []
        there = [one for one in place.records() if one["name"] in serving or one["id"] in started]
        self.workers = [str(one["name"]) for one in there]
        self.jobs = [str(one["id"]) for one in there]
        self.until_begun(min(tasks, 2 * workers))

    def configure(self, walltime: str, more: str = GRACE) -> None:
        """Write grain.toml, for what is started from now on."""
        place = self.place
        system = place.batch.system
        text = CONFIG.format(system=system, walltime=walltime, mark=MARK, folder=place.folder)
        place.configure(text + more)

    def _start(self) -> None:
        self.folder = self.place.folder / f"held.{len(self.place.missions)}"
        self.folder.mkdir()
        self.mission = self.place.start(PROGRAM, str(self.folder), str(self.tasks))

    def again(self) -> None:
        """Another mission, on the workers that are there; its tasks run at once, and end."""
        self._start()
        self.until_begun(self.tasks)
        self.let_go()

    def begun(self) -> list[tuple[int, str]]:
        """The runs that have begun: task and worker."""
        path = self.folder / "begun"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def until_begun(self, count: int) -> None:
        """Wait for runs; of tasks that begin again, each counts."""
        until(lambda: len(self.begun()) >= count)

    def on(self, worker: str) -> list[int]:
        """The tasks that have begun on a worker."""
        return [task for task, where in self.begun() if where == worker]

    def let_go(self, *runs: tuple[int, str]) -> None:
        """Let runs end: those named, or all."""
        for task, worker in runs:
            (self.folder / f"go.{task}.{worker}").touch()
        if not runs:
            (self.folder / "go").touch()

    def results(self) -> dict[int, str]:
        """Wait for the mission's end; where each task ran. Each is resolved once, and in time."""
        lines = self.mission.wait().splitlines()
        assert list(range(self.tasks)) == [int(line.split()[0]) for line in lines]
        return dict(enumerate(line.split()[1] for line in lines))

    def repeated(self) -> list[int]:
        """The tasks that have begun more than once."""
        counts = Counter(task for task, _ in self.begun())
        return sorted(task for task, count in counts.items() if count > 1)
