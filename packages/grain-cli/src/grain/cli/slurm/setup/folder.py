"""The directory of the commands: small executable files, which run this installation of Grain."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from grain.cli.batch.system_commands import MARK
from grain.edge.trust import private_folder, python_command, write_script
from grain.eventlog.names import state_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COMMANDS = (
    "sbatch", "squeue", "scancel", "sacct", "srun", "scontrol", "sinfo", "sacctmgr", "sshare",
    "salloc",
)  # fmt: skip
"""The names of the commands."""


def commands_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory, ``$XDG_STATE_HOME/grain/slurm``; it may not be there."""
    return state_folder(env) / "slurm"


def make_commands(folder: Path, env: Mapping[str, str] = os.environ) -> None:
    """Make the directory and the commands in it; those that are there are replaced.

    Args:
        folder: the directory.
        env: where ``XDG_STATE_HOME`` says in which directory the queue is.

    Raises:
        OSError: they cannot be written, or another user could exchange them.
    """
    private_folder(folder)
    for name in COMMANDS:
        # Python searches no module in the working directory, which may be another user's.
        words = [*python_command("grain.cli.slurm"), name, str(folder)]
        write_script(folder / name, script(words, env.get("XDG_STATE_HOME", "")))
    (folder / MARK).touch(mode=0o600)


def script(words: Sequence[str], state_home: str = "") -> str:
    """Return the text of a command.

    Args:
        words: what it runs; its arguments follow.
        state_home: the value of ``XDG_STATE_HOME``, which some tools (Toil) take from ``sbatch``,
            but not from ``squeue``, so that these would not see the same queue.
    """
    lines = ["#!/bin/sh"]
    if state_home:
        lines.append(f"XDG_STATE_HOME=${{XDG_STATE_HOME:-{shlex.quote(state_home)}}}")
        lines.append("export XDG_STATE_HOME")
    lines.append(f'exec {shlex.join(words)} "$@"')
    return "".join(f"{line}\n" for line in lines)
