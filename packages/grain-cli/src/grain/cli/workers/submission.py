"""Submit jobs: make their directories, submit, and record every accepted job."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.cli.batch import (
    BatchError,
    JobRecord,
    SubmissionUnknown,
    is_mark,
    mark_of,
    open_system,
    worker_job,
)
from grain.cli.batch.systems.slurm import largest_array
from grain.cli.scaling.configured import memory_share
from grain.cli.streams import remedy
from grain.cli.workers.jobs import records
from grain.config import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grain.cli.batch import BatchJob, BatchSystem, SubmittedJob
    from grain.config import Config


def prepare_workers(
    config: Config,
    count: int,
    options: Sequence[str] = (),
    *,
    sharing: int = 0,
    note: Callable[[str], object] | None = None,
) -> tuple[BatchSystem, BatchJob]:
    """Return the batch system and the job of a worker; `submit_workers` explains the arguments."""
    now = datetime.datetime.now()
    system = open_system(config, now=now, note=note)
    local = config.system == "local"
    job = worker_job(
        config,
        now=now,
        folder=str(Path.cwd()),
        path=worker_folder(),
        extra_args=options,
        most_memory=memory_share(sharing or count) if local and max(sharing, count) > 1 else None,
    )
    if local and sharing and job.script.cores is None:
        # The first jobs must not take the share of jobs that are submitted later.
        each = max(1, len(os.sched_getaffinity(0)) // sharing)
        job = replace(job, script=msgspec.structs.replace(job.script, cores=each))
    return system, job


def submit_workers(
    config: Config,
    count: int,
    options: Sequence[str] = (),
    *,
    by: str = "",
    sharing: int = 0,
    note: Callable[[str], object] | None = None,
) -> Iterator[JobRecord]:
    """Submit workers; yield each as soon as it is accepted and recorded, see `recorded`.

    Args:
        sharing: the number of workers that share this machine where there is no batch system; by
            default those of this call share the free CPUs.
        note: called with a sentence on what is wrong and hinders no submission.

    Raises:
        ConfigError: the configuration is wrong.
        BatchError: the batch system refuses a job; the accepted ones are recorded.
        SubmissionUnknown: it may have the last ones, which are recorded as well.
        OSError: a directory or a record cannot be made.
    """
    system, plain = prepare_workers(config, count, options, sharing=sharing, note=note)
    make_parent(plain.log_file)
    shape = plain.script.name if isinstance(plain.script, Shape) else ""
    for part, size in enumerate(parts(config, count), 1):
        job = uniquely_named(config, plain)
        if part > 1 and job is plain:  # the user's own name
            job = plain.member(f"n{part}")
        submit = partial(system.submit, job, size)
        yield from recorded(config, submit, job.members(size), by=by, shape=shape)


def parts(config: Config, count: int) -> list[int]:
    """Return how many workers each submission has: as many as the site allows one to have."""
    most = largest_array(count) if config.system == "slurm" else count
    return [min(most, count - begun) for begun in range(0, count, most)]


def uniquely_named(config: Config, job: BatchJob) -> BatchJob:
    """Give a job another name if the time of submission in its name is that of another one.

    A name without the time is the user's own choice, and stays.
    """
    if job.name == config.worker.name:
        return job
    try:
        mark = records().claim(job.name)
    except OSError:
        return job  # `recorded` says what is wrong with that directory
    return job.member(mark) if mark else job


def recorded(
    config: Config,
    submit: Callable[[], Iterable[SubmittedJob]],
    jobs: Sequence[BatchJob],
    *,
    kind: str = "worker",
    by: str = "",
    shape: str = "",
    queue: str = "",
) -> Iterator[JobRecord]:
    """Submit jobs, and record each before that and when it is accepted; yield the records.

    Until it is accepted, and if it is unknown whether the batch system has it, the record of a job
    has a mark in place of the id, see `Tracked`. So has the record of a job whose command is
    killed.

    Raises:
        SubmissionUnknown: it may have the last ones.
        BatchError: no record can be written, so nothing was submitted; or a job was refused.
    """
    store = records()
    intended = {
        job.name: JobRecord(
            id=mark_of(job.name),
            system=config.system,
            name=job.name,
            log_file=job.log_file,
            address=config.worker.dial,
            config=config.source or "",
            submitted=time.time(),
            kind=kind,
            by=by,
            shape=shape,
            queue=queue,
            nodes=job.script.nodes,
        )
        for job in jobs
    }
    # First of all: a job without a record could not be found or cancelled.
    try:
        file = store.new_file()
        store.add(file, *intended.values())
    except OSError as error:
        raise BatchError(
            "nothing was submitted, as it cannot be recorded",
            f"{error.filename}: {error.strerror}",
            remedy(error, "set XDG_STATE_HOME"),
        ) from error
    try:
        for one in submit():
            before = intended[one.name]
            accepted = replace(
                before,
                id=one.id,
                log_file=one.log_file,
                submitted=time.time(),
                cpus=one.cpus,
                mark=before.id,
            )
            store.add(file, accepted)
            yield accepted
    except SubmissionUnknown as error:
        doubtful = [intended[job.name] for job in error.jobs]
        store.settle(file, [one.id for one in doubtful])
        yield from doubtful
        raise
    except BatchError:
        store.settle(file)
        raise
    else:
        store.settle(file)


def job_words(record: JobRecord) -> str:
    """Name a job for the user: ``job 6_0``, ``process 4711``."""
    if is_mark(record.id):
        return "a job, if it was submitted"
    local = record.system == "local"
    return f"process {record.id.split(':')[-2]}" if local else f"job {record.id}"


def worker_folder() -> str:
    """Return the directory of ``grain-worker`` on this host, for nodes whose PATH lacks it."""
    beside = Path(sys.executable).parent / "grain-worker"
    path = str(beside) if beside.exists() else shutil.which("grain-worker")
    return str(Path(path).parent) if path else ""


def make_parent(log_file: str) -> None:
    """Make the directory of a log file: Slurm accepts a job without it, which then fails silently.

    Directories with a placeholder that the batch system fills in cannot be made here.
    """
    if log_file:
        parents = [parent for parent in Path(log_file).parents if "%" not in str(parent)]
        parents[0].mkdir(parents=True, exist_ok=True)
