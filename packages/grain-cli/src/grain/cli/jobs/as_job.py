"""The dispatcher of a queue as a job of the batch system: ``grain queue start --as-job``.

A file in the folder of the queue has that choice, so that every command which finds no dispatcher
submits the next job. A dispatcher with a time limit submits its own successor before it ends, see
`grain.dispatcher`.
"""

from __future__ import annotations

import datetime
import os
import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from grain.cli.batch import BatchJob, JobPhase, JobState, is_mark, open_system
from grain.cli.workers.jobs import KEPT, OwnJob, prune, records
from grain.cli.workers.submission import job_words, make_parent, recorded
from grain.eventlog.names import state_folder
from grain.files.trust import python_command, remove_files
from grain.queue.records import UNREADABLE, encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.cli.batch import BatchSystem, JobRecord
    from grain.config import Config
    from grain.queue.folder import Queue

_CHOICE = "as-job"
_FOLDER = "dispatchers"  # of their outputs, in that of the state
_KIND = "dispatcher"
_CORES, _MEMORY = 1, 2.0  # of the job
_MARGIN = 60  # seconds before the end of its time at which the dispatcher counts as over
# Variables by which the process on the node finds the same files.
_FOUND_BY = ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")


class AsJob(msgspec.Struct, omit_defaults=True):
    """The choice that the dispatcher of a queue is a job, and how it is submitted.

    Attributes:
        config: the configuration file; "" for what is found without.
        options: further options for the batch system.
    """

    config: str = ""
    options: tuple[str, ...] = ()


def choice(queue: Queue) -> AsJob | None:
    """Return how the dispatcher of a queue is submitted; None if it is not a job."""
    content = queue.files.read(_CHOICE)
    try:
        return None if content is None else msgspec.json.decode(content, type=AsJob)
    except UNREADABLE:  # of another version
        return AsJob()


def choose(queue: Queue, chosen: AsJob) -> None:
    """Have commands submit the dispatcher of a queue as a job from now on.

    Raises:
        grain.queue.errors.CannotWrite: they do as before.
    """
    queue.files.replace(_CHOICE, encode_record(chosen))


def forget(queue: Queue) -> None:
    """Have commands start the dispatcher of a queue as a process of their host again."""
    with suppress(FileNotFoundError):
        queue.files.disk.remove(_CHOICE)


def jobs_of(queue: Queue, config: Config) -> list[OwnJob]:
    """Return the jobs of a queue's dispatchers that run or wait, the oldest first.

    Raises:
        BatchError: the batch system does not answer.
        OSError: the records cannot be read.
    """
    return [one for one in _all_jobs(queue, config) if one.alive]


def _all_jobs(queue: Queue, config: Config) -> list[OwnJob]:
    """Return the jobs of a queue's dispatchers that have a record, also those that have ended."""
    mine = [
        one
        for one in records().read()
        if (one.kind, one.queue, one.system) == (_KIND, queue.name, config.system)
    ]
    if not mine:
        return []
    states = open_system(config, hurry=True).states([one.id for one in mine])
    return [OwnJob(one, states.get(one.id, JobState(JobPhase.UNKNOWN))) for one in mine]


def prepare(
    queue: Queue, config: Config, chosen: AsJob, env: Mapping[str, str] = os.environ
) -> tuple[BatchSystem, BatchJob]:
    """Return the batch system and the job.

    It asks for one core and 2 GB; ``[head.script]`` has the rest.

    Raises:
        click.ClickException: there is no batch system.
        ConfigError: the configuration is wrong.
    """
    if config.system == "local":
        raise click.ClickException(
            "there is no batch system: set `system` in grain.toml, or leave out --as-job"
        )
    now = datetime.datetime.now()
    script = msgspec.structs.replace(config.head.script, nodes=1, cores=_CORES, memory=_MEMORY)
    name = f"{queue.name}-{now:%H%M%S}"
    found_by = {one: env[one] for one in _FOUND_BY if env.get(one)}
    if config.source:
        found_by["GRAIN_CONFIG"] = config.source
    successor = [
        *python_command("grain.cli"), "queue", "start", "--as-job", "--successor",
        "--queue", queue.name,
    ]  # fmt: skip
    limit = script.walltime
    words = shlex.join(
        [
            *(["env", *(f"{one}={value}" for one, value in found_by.items())] if found_by else []),
            *python_command("grain.dispatcher"),
            str(queue.folder),
        ]
    )
    seconds = "inf" if limit is None else '"$grain_left"'
    job = BatchJob(
        name=name,
        log_file=str(state_folder(env) / _FOLDER / f"{name}.log"),
        script=script,
        main=f"{words} {seconds} {shlex.join(successor)}",
        time_left=None if limit is None else max(limit - _MARGIN, 1),
        notes=(f"The dispatcher of the queue {queue.name} of Grain.",),
        extra_args=chosen.options,
    )
    return open_system(config, now=now), job


def submit(queue: Queue, config: Config, chosen: AsJob) -> JobRecord:
    """Submit a dispatcher, and return the record of its job.

    Raises:
        click.ClickException, ConfigError: as for `prepare`.
        BatchError: the batch system refuses, or does not answer.
        OSError: its directory or its record cannot be made.
    """
    system, job = prepare(queue, config, chosen)
    make_parent(job.log_file)
    # A queue that is busy for months has very many of them.
    now = time.time()
    prune(records(), _all_jobs(queue, config), now)
    remove_files(
        state_folder() / _FOLDER,
        lambda name, status: name.endswith(".log") and status.st_mtime < now - KEPT,
    )
    found = list(
        recorded(config, lambda: system.submit(job, 1), [job], kind=_KIND, queue=queue.name)
    )
    return found[-1]


def ensure(queue: Queue, config: Config, chosen: AsJob) -> None:
    """Submit a dispatcher, if none waits or runs; errors as for `submit`."""
    if not jobs_of(queue, config):
        submit(queue, config, chosen)


def waiting_text(jobs: Sequence[OwnJob]) -> str:
    """Return the sentence on a dispatcher that is not there yet; "" if there is none."""
    for one in jobs:
        words = job_words(one.record)
        if one.state.phase is JobPhase.RUNNING:
            return f"{words} of {one.record.system} begins with it, output in {one.record.log_file}"
        reason = f" ({one.state.reason})" if one.state.reason else ""
        return f"{words} of {one.record.system} waits for a node{reason}"
    return ""


def as_data(jobs: Sequence[OwnJob]) -> list[dict[str, object]]:
    """Return the jobs of dispatchers as plain data."""
    return [
        {
            "id": "" if is_mark(one.record.id) else one.record.id,
            "system": one.record.system,
            "state": one.state.phase.value,
            "node": one.state.node,
            "submitted": one.record.submitted,
            "log_file": one.record.log_file,
        }
        for one in jobs
    ]


def end_jobs(queue: Queue, config: Config) -> list[OwnJob]:
    """Cancel the jobs of a queue's dispatchers; return them when they are gone.

    It waits for their ends for some seconds.

    Raises:
        BatchError: the batch system refuses, or does not answer.
    """
    jobs = jobs_of(queue, config)
    if not jobs:
        return []
    open_system(config).cancel([one.record.id for one in jobs])
    end = time.monotonic() + 10
    while jobs_of(queue, config) and time.monotonic() < end:
        time.sleep(0.5)
    return jobs
