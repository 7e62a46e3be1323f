"""Submitting: make what the job needs, hand it over, write down what was accepted."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.cli.batch import BatchError, JobRecord, open_system, worker_job
from grain.cli.workers.jobs import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grain.cli.batch import BatchJob, BatchSystem, SubmittedJob
    from grain.config import Config


def prepare_workers(
    config: Config, count: int, options: Sequence[str] = (), *, sharing: int = 0
) -> tuple[BatchSystem, BatchJob]:
    """The batch system and the job that a worker is; for the arguments see `submit_workers`.

    Raises:
        ConfigError: The configuration is wrong.
    """
    now = datetime.datetime.now()
    system = open_system(config, now=now)
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
        # Those that are submitted first must not take what the others are to have.
        each = max(1, len(os.sched_getaffinity(0)) // sharing)
        job = replace(job, script=msgspec.structs.replace(job.script, cores=each))
    return system, job


def submit_workers(
    config: Config, count: int, options: Sequence[str] = (), *, by: str = "", sharing: int = 0
) -> Iterator[JobRecord]:
    """Submit workers; yields each as soon as it is accepted and recorded.

    Args:
        config: The configuration.
        count: How many.
        options: Further options for the batch system.
        by: Who keeps them, see `JobRecord`.
        sharing: With how many in all they share a machine where there is no batch system; those
            that are submitted now share what is free unless this is given.

    Raises:
        ConfigError: The configuration is wrong.
        BatchError: The batch system refuses; those before are recorded.
        OSError: A directory or a record cannot be made.
    """
    system, job = prepare_workers(config, count, options, sharing=sharing)
    make_parent(job.log_file)
    yield from recorded(config, lambda: system.submit(job, count), by=by)


def recorded(
    config: Config,
    submit: Callable[[], Iterable[SubmittedJob]],
    *,
    kind: str = "worker",
    by: str = "",
) -> Iterator[JobRecord]:
    """Record what is submitted, as soon as it is.

    Raises:
        BatchError: It cannot be recorded, and is not submitted; or it is refused.
    """
    kept = records()
    # Before anything is submitted: a job that cannot be recorded would be nobody's.
    try:
        file = kept.new_file()
    except OSError as error:
        raise BatchError(
            "nothing was submitted, as it cannot be recorded",
            f"{error.filename}: {error.strerror}",
            "Set XDG_STATE_HOME to a directory that you may write to.",
        ) from error
    try:
        for one in submit():
            record = JobRecord(
                id=one.id,
                system=config.system,
                name=one.name,
                log_file=one.log_file,
                address=config.worker.dial,
                config=config.source or "",
                submitted=time.time(),
                cpus=one.cpus,
                kind=kind,
                by=by,
            )
            kept.add(file, record)
            yield record
    finally:
        if not file.stat().st_size:
            file.unlink()


def job_words(record: JobRecord) -> str:
    """What a job is to the user: ``job 6_0``, ``process 4711``."""
    local = record.system == "local"
    return f"process {record.id.split(':')[-2]}" if local else f"job {record.id}"


def worker_folder() -> str:
    """Where ``grain-worker`` is here, to be looked for there if PATH has none on the node."""
    beside = Path(sys.executable).parent / "grain-worker"
    found = str(beside) if beside.exists() else shutil.which("grain-worker")
    return str(Path(found).parent) if found else ""


def memory_share(count: int) -> float:
    """An equal share of this machine's memory, in GB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9 / count


def make_parent(log_file: str) -> None:
    """Make the directory of a log file: Slurm accepts a job without it, which then fails silently.

    A part of the path that the batch system fills in cannot be made here.
    """
    if log_file:
        parents = [parent for parent in Path(log_file).parents if "%" not in str(parent)]
        parents[0].mkdir(parents=True, exist_ok=True)
