"""A queue in a directory, for commands that speak Slurm."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here
from grain.files.trust import python_command
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.folder import Queue
from grain.queue.records import Begun, Ended
from grain_testkit.programs import run

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from grain.cli.slurm.here import SlurmAnswer


class SlurmSite:
    """A queue whose dispatcher is this process, so that no other one is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.queue = Queue.open(folder / "state/grain/queues/queue", make=True)
        Dispatchers(self.queue.files).take_charge(this_dispatcher())

    def answer(self, command: str, *words: str, **environment: str) -> SlurmAnswer:
        """Return the answer of a command, in this process."""
        here = Here(command, "/opt/grain/slurm", {**self.environment, **environment})
        return answer(here, list(words))

    def out(self, command: str, *words: str, **environment: str) -> str:
        """Return the output of a command that succeeds and says nothing else."""
        found = self.answer(command, *words, **environment)
        assert (found.status, found.err) == (0, "")
        return found.out

    def process(
        self,
        command: str,
        *words: str,
        stdin: str = "",
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a process."""
        return run(
            *python_command("grain.cli.slurm")[1:], command, "/opt/grain/slurm", *words,
            input=stdin, cwd=self.folder, env={**self.environment, **environment}, timeout=120,
        )  # fmt: skip

    def submit(self, *words: str, **environment: str) -> int:
        return int(self.out("sbatch", "--parsable", *words, **environment))

    def begin(self, number: int, task: int | None = None, attempt: int = 1, **fields: Any) -> None:
        """Make the receipt of an attempt that runs on host n7 for ten seconds already."""
        begun = Begun(at=time.time() - 10, host="n7.site", worker="w", pid=1, **fields)
        assert self.queue.begin(number, task, attempt, begun)

    def end(self, number: int, task: int | None = None, attempt: int = 1, **fields: Any) -> None:
        """Make the receipt of its end, as a success if not said otherwise."""
        fields = {"how": "exit", "at": time.time(), "elapsed": 9.0, **fields}
        assert self.queue.end(number, task, attempt, Ended(**fields))

    def run(self, number: int, task: int | None = None, **fields: Any) -> None:
        """Have a task begin and end."""
        self.begin(number, task)
        self.end(number, task, **fields)
