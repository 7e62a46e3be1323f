"""Open the batch system of a configuration."""

from __future__ import annotations

import datetime
import importlib
from typing import TYPE_CHECKING

from grain.cli.batch.records import JobRecords, is_mark
from grain.cli.batch.tracked import Tracked
from grain.eventlog.names import state_folder
from grain.files.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from grain.cli.batch.base import BatchSystem
    from grain.cli.batch.command import Commands
    from grain.cli.batch.systems.local import Local
    from grain.config import Config


def open_system(
    config: Config,
    *,
    now: datetime.datetime | None = None,
    note: Callable[[str], object] | None = None,
    hurry: bool = False,
) -> Tracked:
    """Open the batch system of a configuration, which looks for jobs that are in doubt.

    Args:
        note: called with a sentence on what is wrong and hinders no submission.
        hurry: True if a user waits for the answer: a host that does not answer within seconds is
            given up.
    """
    system: BatchSystem
    if config.system in BATCH_SYSTEMS:
        system = open_named(config.system)
    elif config.system == "ssh":
        from grain.cli.batch.systems.ssh import HURRY, LOOK, Ssh

        system = Ssh(config.hosts, _taken("ssh"), HURRY if hurry else LOOK, note)
    elif config.system == "custom":
        from grain.cli.batch.systems.custom import Custom

        system = Custom(config, now or datetime.datetime.now())
    else:
        system = open_local()
    return Tracked(system, JobRecords(state_folder() / "jobs"))


def open_named(system: str) -> BatchSystem:
    """Open a batch system of the table."""
    opened: BatchSystem = _module(system).System()
    return opened


def commands_of(system: str) -> Commands:
    """Return the commands of a batch system that has some of its own: not local, not custom."""
    commands: Commands = _module(system).COMMANDS
    return commands


def _module(system: str) -> ModuleType:
    return importlib.import_module(f"grain.cli.batch.systems.{system}")


def open_local() -> Local:
    """Open this machine as a batch system, whatever the configuration says."""
    from grain.cli.batch.command import scripts_folder
    from grain.cli.batch.systems.local import Local

    return Local(scripts_folder(), _taken("local"))


def _taken(system: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the ids and CPUs of the processes that were started earlier.

    A process that is about to be started has neither, and so has one whose command was killed then.
    """
    records = JobRecords(state_folder() / "jobs").read()
    return [
        (record.id, record.cpus)
        for record in records
        if record.system == system and not is_mark(record.id)
    ]
