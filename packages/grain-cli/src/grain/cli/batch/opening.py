"""Open the batch system of a configuration."""

from __future__ import annotations

import datetime
import importlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.cli.batch.records import JobRecords, is_mark
from grain.cli.batch.tracked import Tracked
from grain.config import load
from grain.eventlog.names import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain.cli.batch.base import BatchSystem
    from grain.cli.batch.command import Commands
    from grain.cli.batch.systems.local import Local
    from grain.config import Config


def open_system(
    config: Config,
    *,
    folder: Path | None = None,
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
    records = JobRecords((folder or state_folder()) / "jobs")
    if config.system == "ssh":
        from grain.cli.batch.systems.ssh import HURRY, LOOK, Ssh

        seconds = HURRY if hurry else LOOK
        return Tracked(Ssh(config.hosts, _taken(folder, "ssh"), seconds, note), records)
    return Tracked(_open(config, folder, now), records)


def _open(config: Config, folder: Path | None, now: datetime.datetime | None) -> BatchSystem:
    """Open the batch system of a configuration, if it is another one than ssh."""
    match config.system:
        case "slurm":
            from grain.cli.batch.systems.slurm import Slurm

            return Slurm()
        case "pbs":
            from grain.cli.batch.systems.pbs import Pbs

            return Pbs()
        case "sge":
            from grain.cli.batch.systems.sge import GridEngine

            return GridEngine()
        case "lsf":
            from grain.cli.batch.systems.lsf import Lsf

            return Lsf()
        case "htcondor":
            from grain.cli.batch.systems.htcondor import HTCondor

            return HTCondor((folder or state_folder()) / "scripts")
        case "flux":
            from grain.cli.batch.systems.flux import Flux

            return Flux()
        case "oar":
            from grain.cli.batch.systems.oar import Oar

            return Oar((folder or state_folder()) / "scripts")
        case "custom":
            from grain.cli.batch.systems.custom import Custom

            return Custom(config, now or datetime.datetime.now())
    return open_local(folder)


def open_named(system: str) -> BatchSystem:
    """Open a batch system, to ask it for the states of jobs.

    Args:
        system: its name, as the configuration has it; not ``custom``.
    """
    return _open(replace(load(False), system=system), None, None)


def commands_of(system: str) -> Commands:
    """Return the commands of a batch system that has some of its own: not local, not custom."""
    module = importlib.import_module(f"grain.cli.batch.systems.{system}")
    commands: Commands = module.COMMANDS
    return commands


def open_local(folder: Path | None = None) -> Local:
    """Open this machine as a batch system, whatever the configuration says."""
    from grain.cli.batch.systems.local import Local

    return Local((folder or state_folder()) / "scripts", _taken(folder, "local"))


def _taken(folder: Path | None, system: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the ids and CPUs of the processes that were started earlier.

    A process that is about to be started has neither, and so has one whose command was killed then.
    """
    records = JobRecords((folder or state_folder()) / "jobs").read()
    return [
        (record.id, record.cpus)
        for record in records
        if record.system == system and not is_mark(record.id)
    ]
