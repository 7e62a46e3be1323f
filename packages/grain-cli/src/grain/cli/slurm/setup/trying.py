"""Try what tools do with the commands, for ``grain slurm doctor``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.slurm.setup.folder import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATIENCE = 60.0  # seconds for a command; a login shell may do a lot


class Trial(NamedTuple):
    """One thing that was tried.

    Attributes:
        good: True if it works.
        text: a sentence.
        remedy: what to do about it; "" if it is good.
    """

    good: bool
    text: str
    remedy: str = ""


def findings(folder: Path, environment: Mapping[str, str]) -> list[Trial]:
    """Return what is found of the commands in a directory.

    Args:
        folder: the directory, with all commands.
        environment: that of a shell which calls tools.
    """
    line = f'export PATH={shlex.quote(str(folder))}:"$PATH"'
    found = [
        _found(
            "here",
            shutil.which("sbatch", path=environment.get("PATH", "")),
            folder,
            f"type: {line}",
        ),
        _found(
            "in a login shell, as many tools use it (bash -l)",
            _of_shell(["bash", "-lc", "command -v sbatch"], environment),
            folder,
            f"add this line at the end of ~/.bash_profile: {line}",
        ),
    ]
    found += [_answers(folder, environment)]
    return found


def _found(where: str, path: str | None, folder: Path, remedy: str) -> Trial:
    if path and Path(path).parent == folder:
        return Trial(True, f"sbatch is found {where}")
    what = f"it is {path}" if path else "there is none"
    return Trial(False, f"sbatch is not this one {where}: {what}", remedy)


def _of_shell(command: list[str], environment: Mapping[str, str]) -> str | None:
    """Return the last line that a shell prints; None if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - a shell, which reads the user's own files
            command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split()
    return lines[-1] if done.returncode == 0 and lines else None


def _answers(folder: Path, environment: Mapping[str, str]) -> Trial:
    """Call what a tool calls every second."""
    missing = [name for name in COMMANDS if not os.access(folder / name, os.X_OK)]
    if missing:
        return Trial(False, f"{missing[0]} is not executable", f"is {folder} mounted noexec?")
    began = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            [folder / "squeue", "--noheader", "-o", "%i %t"], env=dict(environment),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Trial(False, f"squeue cannot be run: {error}", "try it by hand")
    took = time.monotonic() - began
    if done.returncode or done.stderr:
        return Trial(
            False, f"squeue fails: {done.stderr.strip()}", "see what grain queue status says"
        )
    count = len(done.stdout.splitlines())
    return Trial(True, f"squeue answers in {took:.2f} s; {count} jobs wait or run")
