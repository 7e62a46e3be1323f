"""The missions that `grain start` has submitted as jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grain.cli.batch import BatchError, JobPhase, JobState, open_local, open_system
from grain.cli.batch.tracked import Tracked
from grain.cli.show import clean
from grain.cli.workers.jobs import OwnJob, records

if TYPE_CHECKING:
    from grain.cli.batch import BatchSystem, JobRecord
    from grain.config import Config


def mission_jobs(config: Config | None) -> list[OwnJob]:
    """Return the missions that were submitted, the oldest first.

    The state of one on another batch system than the configuration's is unknown, as is that of all
    while theirs does not answer.

    Args:
        config: the configuration; None where it cannot be read.
    """
    recorded = [one for one in records().read() if one.kind == "mission"]
    jobs = {one: JobState(JobPhase.UNKNOWN) for one in recorded}
    for name in {one.system for one in recorded}:
        system = _system(config, name)
        of_system = [one for one in recorded if one.system == name]
        try:
            states = {} if system is None else system.states([one.id for one in of_system])
        except BatchError as error:
            states = dict.fromkeys(
                (one.id for one in of_system), JobState(JobPhase.UNKNOWN, error.what)
            )
        for one in of_system:
            jobs[one] = states.get(one.id, jobs[one])
    return [OwnJob(record, jobs[record]) for record in recorded]


def find_job(config: Config, word: str) -> OwnJob | None:
    """Return the last mission of a name, or of a job's id, that was submitted."""
    matches = [one for one in mission_jobs(config) if word in (one.record.name, one.record.id)]
    return matches[-1] if matches else None


def end_job(config: Config, job: OwnJob) -> None:
    """Cancel the job of a mission.

    Raises:
        click.ClickException: it has ended, or it is on another batch system.
        BatchError: the batch system refuses.
    """
    name = clean(job.record.name)
    system = _system(config, job.record.system)
    if not job.alive:
        raise click.ClickException(f"mission {name} does not run: its job has ended")
    if system is None:
        raise click.ClickException(
            f"mission {name} is a job of {job.record.system}; the configuration has another batch "
            "system: choose one with -c FILE"
        )
    system.cancel([job.record.id])


def _system(config: Config | None, name: str) -> BatchSystem | None:
    if name == "local":
        return Tracked(open_local(), records())
    if config is None:
        return None
    return open_system(config) if config.system == name else None


def output_file(record: JobRecord) -> str:
    """Return the file of a mission's output, for display."""
    return clean(record.log_file) or "nowhere"
