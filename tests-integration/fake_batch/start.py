"""For tests: a batch system for as long as a ``with`` block lasts, and its commands."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fake_batch.client import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parents[1]
REAL = HERE.parent / "tools" / "real_slurm.py"
# Seconds after which it will not happen any more, also where two cores have a lot to do.
LONG = 180.0
COMMANDS = {
    "slurm": ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "fakectl"),
    "pbs": ("qdel", "qrerun", "qselect", "qsig", "qstat", "qsub", "fakectl"),
}
# By the interpreter of the tests, as one of PATH may be a script that looks for one; and without
# what is installed there, since a story of a batch system has dozens of commands.
COMMAND = """\
#!/bin/sh
exec {python} -IS {client} {system} {name} "$@"
"""


class Missing(Exception):
    """There is no such batch system here; the text says why."""


@dataclass(frozen=True)
class Batch:
    """A batch system that runs.

    Attributes:
        system: ``slurm`` or ``pbs``.
        env: The environment in which its commands are found and find it.
    """

    system: str
    env: dict[str, str]

    def run(
        self, *words: str, cwd: Path | None = None, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its commands, whatever the exit code.

        A job writes its output where it was submitted: by default not in one of a user.
        The controller of a fake is asked without a process, which a test that waits would start
        for each of its looks.
        """
        env = {**self.env, **env}
        cwd = cwd or Path(self.env.get("FAKE_BATCH", tempfile.gettempdir()))
        if "FAKE_BATCH" in env and words[0] in COMMANDS[self.system]:
            with contextlib.suppress(OSError):  # then the command has its say about silence
                out, err, code = ask(words[0], [*words[1:]], cwd, env, lambda: stdin)
                return subprocess.CompletedProcess(words, code, out, err)
        return subprocess.run(
            words,
            env=env,
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
        assert (0, "") == (done.returncode, done.stderr), f"{words}: {done}"
        return done.stdout.strip()

    def let_pass(self, seconds: float) -> None:
        """Have the clock of a fake leap; the time of a real one passes by itself."""
        if "FAKE_BATCH" in self.env:
            self.out("fakectl", "pass", str(seconds))

    def hush(self) -> None:
        """Have the controller of a fake not answer, until `answer_again`."""
        self.out("fakectl", "deaf")
        until(lambda: not Path(self.env["FAKE_BATCH"], "socket").exists())

    def answer_again(self) -> None:
        """The controller of a fake answers again."""
        Path(self.env["FAKE_BATCH"], "deaf").unlink(missing_ok=True)
        until(Path(self.env["FAKE_BATCH"], "socket").exists)


def write_command(path: Path, client: Path, system: str) -> None:
    """Write a command of a fake: a script that runs its client."""
    python, program = shlex.quote(sys.executable), shlex.quote(str(client))
    text = COMMAND.format(python=python, client=program, system=system, name=path.name)
    path.write_text(text)
    path.chmod(0o755)


@contextlib.contextmanager
def fake(system: str, folder: Path, *options: str, pace: float = 1.0) -> Iterator[Batch]:
    """A fake batch system.

    Args:
        system: ``slurm`` or ``pbs``.
        folder: For its state; made.
        options: See ``python -m fake_batch --help``.
        pace: Seconds of its delays in a second of the clock; with 0, only `Batch.let_pass` lets
            any pass.
    """
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for name in COMMANDS[system]:
        write_command(commands / name, HERE / "fake_batch/client.py", system)
    path = os.pathsep.join([str(commands), os.environ.get("PATH", os.defpath)])
    env = {**os.environ, "PATH": path, "FAKE_BATCH": str(folder), "FAKE_BATCH_DEAF": "0"}
    words = [
        sys.executable,
        "-SEs",
        "-m",
        "fake_batch",
        system,
        str(folder),
        f"--pace={pace}",
        *options,
    ]
    with subprocess.Popen(words, cwd=HERE, stdin=subprocess.PIPE) as process:
        try:
            until(lambda: (folder / "socket").exists() or process.poll() is not None)
            yield Batch(system, env)
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
    # slurm.conf(5) has no way to write a path with a space.
    env = {**os.environ, "TMPDIR": "/tmp"} if " " in tempfile.gettempdir() else None
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env) as process:
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

    A look that takes long, since it starts a command, is followed by a longer pause: the time that
    it takes is what others lack to get there.

    Raises:
        AssertionError: It is not so in time.
    """
    began = time.monotonic()
    deadline = began + seconds
    while not done():
        looked = time.monotonic()
        assert looked < deadline, f"not so within {seconds:g} s"
        time.sleep(min(max(0.02, 4 * (looked - began)), 0.5))
        began = time.monotonic()
