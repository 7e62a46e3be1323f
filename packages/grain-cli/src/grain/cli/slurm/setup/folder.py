"""The directory of the commands: small executable files, which run this installation of Grain."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from grain.cli.batch.system_commands import MARK
from grain.edge.trust import private_folder, python_command, write_script
from grain.eventlog.names import state_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMMANDS = (
    "sbatch", "squeue", "scancel", "sacct", "srun", "scontrol", "sinfo", "sacctmgr", "sshare",
    "salloc",
)  # fmt: skip
"""The names of the commands."""


def commands_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory, ``$XDG_STATE_HOME/grain/slurm``; it may not be there."""
    return state_folder(env) / "slurm"


def make_commands(folder: Path) -> None:
    """Make the directory and the commands in it; those that are there are replaced.

    Raises:
        OSError: they cannot be written, or another user could exchange them.
    """
    private_folder(folder)
    for name in COMMANDS:
        write_script(folder / name, script(name, folder))
    (folder / MARK).touch(mode=0o600)


def script(name: str, folder: Path) -> str:
    """Return the text of a command.

    Python searches no module in the working directory, which may be another user's.
    """
    words = [*python_command("grain.cli.slurm"), name, str(folder)]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
