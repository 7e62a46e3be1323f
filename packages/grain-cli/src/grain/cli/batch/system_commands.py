"""Commands of Grain that have names of Slurm's, and where Slurm's own commands are instead.

`grain up` calls the system's ``sbatch``. The directory of Grain's own may stand before it on PATH.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = ".grain"
"""A file in the directory of these commands, by which it is known under any path."""


def system_path(env: Mapping[str, str] = os.environ) -> str:
    """Return PATH without directories of Grain's own commands."""
    return os.pathsep.join(
        folder
        for folder in env.get("PATH", os.defpath).split(os.pathsep)
        if not os.path.exists(os.path.join(folder, MARK))  # noqa: PTH110, PTH118 - asked often
    )


def system_environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which commands are the system's."""
    return {**env, "PATH": system_path(env)}


def system_command(name: str, env: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the system's own command of a name; None if there is none."""
    return shutil.which(name, path=system_path(env))
