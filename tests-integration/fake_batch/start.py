"""For tests: a batch system for as long as a ``with`` block lasts, and its commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parents[1]
REAL = HERE.parent / "tools" / "real_slurm.py"
# Seconds after which it will not happen any more, also where two cores have a lot to do.
LONG = 180.0


class Missing(Exception):
    """There is no such batch system here; the text says why."""


@dataclass(frozen=True)
class Batch:
    """A batch system that runs.

    Attributes:
        system: ``slurm`` or ``pbs``.
        env: The environment in which its commands are found and find it.
        pace: Seconds of its delays in a second of the clock.
    """

    system: str
    env: dict[str, str]
    pace: float = 1.0

    def run(
        self, *words: str, cwd: Path | None = None, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its commands, whatever the exit code."""
        return subprocess.run(
            words,
            env={**self.env, **env},
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG,
        )

    def out(self, *words: str, cwd: Path | None = None, stdin: str = "") -> str:
        """Run one of its commands, which must succeed; what it printed."""
        done = self.run(*words, cwd=cwd, stdin=stdin)
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout.strip()

    def hush(self) -> None:
        """Have the controller of a fake answer nobody, until `answer_again`."""
        self.out("fakectl", "deaf")
        until(lambda: not Path(self.env["FAKE_BATCH"], "socket").exists())

    def answer_again(self) -> None:
        """The controller of a fake answers again."""
        Path(self.env["FAKE_BATCH"], "deaf").unlink(missing_ok=True)
        until(Path(self.env["FAKE_BATCH"], "socket").exists)


@contextlib.contextmanager
def fake(system: str, folder: Path, *options: str, pace: float = 1.0) -> Iterator[Batch]:
    """A fake batch system.

    Args:
        system: ``slurm`` or ``pbs``.
        folder: For its state; made.
        options: See ``python -m fake_batch --help``.
        pace: Seconds of its delays in a second of the clock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(HERE / f"fake_{system}"), os.environ.get("PATH", os.defpath)])
    env = {**os.environ, "PATH": path, "FAKE_BATCH": str(folder), "FAKE_BATCH_DEAF": "0"}
    words = [sys.executable, "-m", "fake_batch", system, str(folder), f"--pace={pace}", *options]
    with subprocess.Popen(words, cwd=HERE, stdin=subprocess.PIPE) as process:
        try:
            until(lambda: (folder / "socket").exists() or process.poll() is not None)
            yield Batch(system, env, pace)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LONG)
    assert 0 == process.returncode


@contextlib.contextmanager
def real(*options: str) -> Iterator[Batch]:
    """A real Slurm on this machine.

    Raises:
        Missing: There is none.
    """
    if os.geteuid() != 0:
        raise Missing("a real Slurm is started by root only")
    if not shutil.which("slurmctld"):
        raise Missing("slurm-wlm is not installed")
    words = [sys.executable, str(REAL), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            name, _, value = process.stdout.readline().strip().partition("=")
            assert "SLURM_CONF" == name, "tools/real_slurm.py failed, see above"
            # Fakes that another test put first in PATH do not matter: each has its own.
            yield Batch("slurm", {**os.environ, name: value})
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LONG)
    assert 0 == process.returncode


def until(done: Callable[[], object], seconds: float = LONG) -> None:
    """Wait for something that another process does.

    Raises:
        AssertionError: It is not so in time.
    """
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"not so within {seconds:g} s"
        time.sleep(0.02)
