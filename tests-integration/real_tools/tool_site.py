"""A home directory in which a tool that speaks Slurm finds Grain's commands, and workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATIENCE = 600.0
"""Seconds after which a test fails, for programs that hang."""

CORES = 2
"""The cores of the worker: no more than the machine has."""

_PASSED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "GRAIN_CPU_LOCKS")


class ToolSite:
    """A private home directory with a scheduler, a worker, and commands that speak Slurm.

    It is set up as docs/slurm.md says. Use `tool_site`, which ends all that runs in it.

    Args:
        home: its directory.
        python: the interpreter of the environment of Grain; that of the test by default.

    Attributes:
        home: the home directory, in which everything is written, and programs are run.
        environ: the variables of a shell in it. No Slurm is on its ``PATH`` but Grain's.
    """

    def __init__(self, home: Path, python: Path | None = None) -> None:
        self.home = home
        own = str((python or Path(sys.executable)).parent)
        self.environ = {name: os.environ[name] for name in _PASSED if name in os.environ}
        self.environ["PATH"] = f"{own}:{self.environ['PATH']}"
        self.environ["HOME"] = str(home)
        (home / "grain.toml").write_text(f"[script]\ncores = {CORES}\nmemory = 8\n")

    def start(self) -> None:
        """Type the four lines of docs/slurm.md."""
        self.call("grain", "up", "-n", "1")
        folder = self.call("grain", "slurm").strip().splitlines()[0]
        self.environ["PATH"] = f"{folder}:{self.environ['PATH']}"
        (self.home / ".bash_profile").write_text(f"export PATH={folder}:$PATH\n")
        self.call("grain", "slurm", "doctor")

    def call(
        self,
        *words: str | Path,
        status: int | None = 0,
        stdin: str = "",
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> str:
        """Return what a command prints, on both streams.

        Args:
            words: the command.
            status: the exit status that it must have; any one if None.
            stdin: what it reads.
            folder: its directory; the home directory by default.
            environ: more variables.

        Raises:
            AssertionError: it has another exit status, or has not ended after some minutes and is
                killed; its output is the message.
        """
        try:
            done = subprocess.run(
                words, cwd=folder or self.home, env={**self.environ, **(environ or {})},
                input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode(errors="replace")
            raise AssertionError(f"not ended after {PATIENCE:.0f} s:\n{said}") from None
        assert status in (None, done.returncode), f"exit {done.returncode}:\n{done.stdout}"
        return done.stdout

    def python(self, interpreter: Path, program: str, *words: str | Path) -> str:
        """Return what a program in Python prints, which must succeed.

        Programs of its environment are on its ``PATH``, as after ``activate``.
        """
        # The program is a file, as some tools import it again in their workers.
        number = len(list(self.home.glob("program-*.py"))) + 1
        file = self.home / f"program-{number}.py"
        file.write_text(program)
        path = f"{interpreter.parent}:{self.environ['PATH']}"
        return self.call(interpreter, file, *words, environ={"PATH": path})

    def until(self, number: str | int, *states: str) -> str:
        """Ask as tools do, until a job has one of the states, such as ``CD``; return which."""
        words = ("squeue", "-h", "-t", "all", "-o", "%t", "-j", str(number))
        deadline = time.monotonic() + PATIENCE
        while (found := self.call(*words).strip()) not in states:
            assert time.monotonic() < deadline, f"job {number} is {found} and not {states}"
            time.sleep(0.2)
        return found

    def states(self) -> dict[str, str]:
        """Return the states of all jobs and tasks by their numbers, as ``sacct`` has them."""
        lines = self.call("sacct", "-n", "-X", "-P", "-o", "JobID,State").splitlines()
        return {number: state.split()[0] for number, state in (one.split("|") for one in lines)}

    def stop(self) -> None:
        """Kill each process that was started in this home, whatever it has become."""
        while found := list(self.processes()):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)  # until the kernel has removed them

    def processes(self) -> Iterator[int]:
        """Yield the processes that were started in this home."""
        mark = os.fsencode(f"HOME={self.home}")
        for folder in process_folders():
            with suppress(OSError):  # it has ended, or is another user's
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


@contextmanager
def tool_site(home: Path, python: Path | None = None) -> Iterator[ToolSite]:
    """Have a site in a new directory; when the block ends, no process of it is left."""
    home.mkdir(parents=True, mode=0o700)
    site = ToolSite(home, python)
    try:
        site.start()
        yield site
    finally:
        site.stop()
