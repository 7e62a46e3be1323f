"""The job of a mission, from the configuration. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.batch.base import BatchJob
from grain.cli.batch.scripts.shell import interpreter
from grain.config import ConfigError, Mistake, stamp

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from grain.config import Config


def mission_job(
    config: Config, *, now: datetime.datetime, folder: str, extra_args: Sequence[str] = ()
) -> BatchJob:
    """Describe a mission's job.

    The mission runs in the directory of its submission, and finds the configuration by the variable
    ``GRAIN_CONFIG``. The job has no early warning: SIGUSR1 would kill a mission.

    Args:
        folder: absolute directory for a relative log file.

    Raises:
        ConfigError: ``head.cmd`` is empty.
    """
    head = config.head
    if not head.cmd.strip():
        text = 'found no command, expected what starts the mission, as in "python mission.py"'
        raise ConfigError(config.source or "the defaults", (Mistake("head.cmd", text),))
    log = stamp(head.main_log_file, now)
    shell = interpreter(head.script.shebang)
    setting = f"env GRAIN_CONFIG={shlex.quote(config.source)} " if config.source else ""
    return BatchJob(
        name=stamp(head.name, now),
        log_file=str(Path(folder, log)) if log else "",
        script=head.script,
        main=f"{setting}{shell} -c {shlex.quote(head.cmd.strip())}",
        extra_args=tuple(extra_args),
    )
