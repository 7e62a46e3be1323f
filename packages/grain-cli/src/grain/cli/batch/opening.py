"""Open the batch system of a configuration."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.records import JobRecords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.cli.batch.base import BatchSystem
    from grain.cli.batch.local import Local
    from grain.config import Config


def state_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the command's own files: ``$XDG_STATE_HOME/grain``."""
    # The XDG Base Directory Specification says to ignore a relative path.
    given = env.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "grain"


def open_system(
    config: Config, *, folder: Path | None = None, now: datetime.datetime | None = None
) -> BatchSystem:
    """Open the batch system of a configuration.

    Args:
        config: The configuration.
        folder: The directory of the command's own files; `state_folder` by default.
        now: The time of submission; the present by default.
    """
    if config.system == "local":
        return open_local(folder)
    from grain.cli.batch.systems import Custom, Pbs, Slurm

    if config.system == "slurm":
        return Slurm()
    if config.system == "pbs":
        return Pbs()
    return Custom(config, now or datetime.datetime.now())


def open_local(folder: Path | None = None) -> Local:
    """Open this machine as a batch system, whatever the configuration says.

    Args:
        folder: The directory of the command's own files; `state_folder` by default.
    """
    from grain.cli.batch.local import Local

    folder = folder or state_folder()
    records = JobRecords(folder / "jobs").read()
    taken = [(record.id, record.cpus) for record in records if record.system == "local"]
    return Local(folder / "scripts", taken)
