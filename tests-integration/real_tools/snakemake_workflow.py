"""`Workflow`: a directory with a Snakefile, in which ``snakemake`` is typed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from real_tools.tool_site import PATIENCE, ToolSite

from grain.queue.book import Book
from grain.queue.folder import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.queue.book import Entry

ROOT = Path(__file__).parents[2]

SNAKEMAKE = "snakemake==9.27.1"

GRAIN = tuple(
    word
    for file in sorted(ROOT.glob("packages/*/pyproject.toml"))
    if file.parent.name.startswith(("grain-", "snakemake-"))
    for word in ("-e", str(file.parent))
)
"""This checkout, for the environment of Snakemake."""

WAITS = "echo begun >> {output}.log; until [ -e go ]; do sleep 0.05; done; touch {output}"
"""A command of a rule that waits for a file."""


class Workflow:
    """A directory with a Snakefile, below the home directory of a site.

    Attributes:
        folder: the directory.
    """

    def __init__(self, site: ToolSite, python: Path, name: str, snakefile: str) -> None:
        self._site = site
        self._snakemake = python.parent / "snakemake"
        self._path = {"PATH": f"{python.parent}:{site.environ['PATH']}"}
        self.folder = site.home / name
        self.folder.mkdir()
        self.write(snakefile)

    def write(self, snakefile: str) -> None:
        (self.folder / "Snakefile").write_text(snakefile)

    def run(self, *words: str, status: int = 0) -> str:
        """Return what ``snakemake`` prints."""
        return self._site.call(
            self._snakemake, *words, status=status, folder=self.folder, environ=self._path
        )

    @contextmanager
    def started(self, *words: str) -> Iterator[Running]:
        """Type a command whose end is not waited for; it is killed when the block ends."""
        output = self.folder / "printed"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [self._snakemake, *words],
                cwd=self.folder,
                env={**self._site.environ, **self._path},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                yield Running(process, output)
            finally:
                process.kill()
                process.wait()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    def until(self, what: Callable[[], object], why: str) -> None:
        """Wait until it is so."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, why
            time.sleep(0.05)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def until_files(self, pattern: str, number: int) -> list[Path]:
        """Wait until there are so many files; return them."""
        self.until(
            lambda: len(list(self.folder.glob(pattern))) == number, f"not {number} {pattern}"
        )
        return sorted(self.folder.glob(pattern))

    def until_file(self, name: str) -> None:
        self.until((self.folder / name).exists, f"there is no {name}")

    def jobs(self) -> list[Entry]:
        """Return the jobs that it has in the queue, by their numbers."""
        folder = self._site.home / ".local/state/grain/queues/queue"
        if not folder.exists():
            return []
        entries = Book.read(Queue.open(folder)).entries.values()
        return [entry for entry in entries if entry.job.directory == str(self.folder)]

    def states(self) -> list[str]:
        """Return the states of these jobs, or of their tasks."""
        return [
            entry.standing(task, 0.0).state
            for entry in self.jobs()
            for task in entry.task_numbers()
        ]

    def until_states(self, *states: str) -> None:
        """Wait until the jobs have these states, in any order."""
        self.until(
            lambda: sorted(self.states()) == sorted(states), f"the jobs are not {', '.join(states)}"
        )

    def end(self) -> None:
        """Cancel what is left, so that the next workflow has the workers."""
        self._site.call("grain", "cancel", "queue:all", status=None)


class Running:
    """A ``snakemake`` that runs.

    Attributes:
        process: its process.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def interrupt(self) -> str:
        """Press Ctrl-C, and return what was printed when it has ended."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        return self.printed()

    def kill(self) -> None:
        """Kill it, as a host does that has no memory left."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def printed(self) -> str:
        return self._output.read_text()
