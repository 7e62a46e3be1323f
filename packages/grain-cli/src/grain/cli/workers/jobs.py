"""The jobs that `grain` has submitted, their states, and the files of their output."""

from __future__ import annotations

import glob
import re
import threading
import time
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch import (
    WAITING,
    BatchError,
    JobPhase,
    JobRecords,
    JobState,
    is_mark,
    job_name,
    name_of,
    open_system,
    state_folder,
    submitted_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grain.cli.batch import JobRecord
    from grain.config import Config

AT_ONCE = 10.0
"""Seconds: a job that ends sooner counts as failed."""

KEPT = 14 * 86400.0
"""Seconds for which the record of an ended job is kept, so that `grain logs` finds its log."""

FORGOTTEN = 100 * 86400.0
"""Seconds after which a record is removed, whatever the state of its job."""

_PLACEHOLDER = re.compile(r"%\d*[A-Za-z]")


class OwnJob(NamedTuple):
    """A job and its state."""

    record: JobRecord
    state: JobState

    @property
    def alive(self) -> bool:
        """True if the job runs or waits, as far as the batch system knows."""
        return self.state.phase is not JobPhase.GONE

    @property
    def counts(self) -> bool:
        """True if it takes a place: it is alive, or perhaps submitted and looked for."""
        unknown = self.state.phase is JobPhase.UNKNOWN
        return self.alive and (not unknown or is_mark(self.record.id))


def records() -> JobRecords:
    """Open the records of this user."""
    return JobRecords(state_folder() / "jobs")


def outputs(record: JobRecord) -> list[Path]:
    """Return the files of a job's output, the last written one at the end.

    There are several where the batch system filled in their names, or started the job again, and
    where it has several nodes.
    """
    if not record.log_file:
        return []
    pattern = "*".join(map(glob.escape, _PLACEHOLDER.split(record.log_file)))
    suffix = glob.escape(PurePath(record.log_file).suffix)
    stem = pattern[: len(pattern) - len(suffix)]
    patterns = {pattern, f"{stem}-r[0-9]*{suffix}"}
    if record.nodes > 1:
        patterns.add(f"{stem}.[0-9]*{suffix}")
    # The patterns are absolute, and Path() takes none such.
    paths = {Path(name) for one in patterns for name in glob.glob(one)}  # noqa: PTH207
    return sorted(paths, key=lambda path: path.stat().st_mtime)


def own_jobs(config: Config, *, hurry: bool = False) -> list[OwnJob]:
    """List the workers' jobs of a configuration's batch system and address, the oldest first.

    Args:
        hurry: as of `open_system`.

    Raises:
        BatchError: the batch system does not answer.
    """
    now = time.time()
    mine = (config.system, config.worker.dial, "worker")
    recent = [
        one
        for one in records().read()
        if (one.system, one.address, one.kind) == mine and now - one.submitted < FORGOTTEN
    ]
    if not recent:
        return []
    states = open_system(config, hurry=hurry).states([one.id for one in recent])
    jobs = [OwnJob(one, states.get(one.id, JobState(JobPhase.UNKNOWN))) for one in recent]
    if any(is_mark(one.id) for one in recent):
        adopted = {one.mark: one for one in records().read() if one.mark}
        jobs = [OwnJob(adopted.get(one.record.id, one.record), one.state) for one in jobs]
    return jobs


def joined(
    states: Mapping[str, JobState], workers: Callable[[], Iterable[str]]
) -> dict[str, JobState]:
    """Count a job that was not found as running if its worker is with the scheduler.

    Args:
        workers: returns the names of the workers with the scheduler; called only if that matters.
    """
    unseen = {JobPhase.GONE, JobPhase.UNKNOWN}
    lost = {
        name_of(one): one for one, state in states.items() if is_mark(one) and state.phase in unseen
    }
    names = submitted_names(workers()) if lost else set()
    here = [one for name, one in lost.items() if name in names]
    return {**states, **dict.fromkeys(here, JobState(JobPhase.RUNNING))}


def report_ended(
    config: Config,
    states: Mapping[str, JobState],
    names: Mapping[str, str],
    workers: Callable[[], Iterable[str]],
) -> None:
    """Say to the scheduler which jobs have ended, so that it waits for none of their workers.

    Args:
        workers: returns the names of the workers with the scheduler, those that are away included;
            called only if that matters.
    """
    from grain.cli.query import NoScheduler, ask_all
    from grain.edge.questions import Ask, JobEndedAnswer

    ended = {
        names[one]: state.reason
        for one, state in states.items()
        if state.phase is JobPhase.GONE and one in names
    }
    here = set(workers()) if ended else set()
    questions = [
        Ask("ended", pattern=name, why=ended[job])
        for name in sorted(here)
        if (job := next((one for one in (name, job_name(name)) if one in ended), None)) is not None
    ]
    if questions:
        with suppress(NoScheduler):  # another one has none of these workers
            ask_all(config, questions, JobEndedAnswer)


class BackgroundQuery:
    """`own_jobs` in a thread, as a batch system may be slow: 9 s without its controller."""

    def __init__(self, look: Callable[[], list[OwnJob]]) -> None:
        self._jobs: list[OwnJob] = []
        self._problem = "the batch system has not answered yet"
        # A daemon thread, so that it does not delay the end of the command.
        self._thread = threading.Thread(target=self._run, args=(look,), daemon=True)
        self._thread.start()

    def _run(self, look: Callable[[], list[OwnJob]]) -> None:
        try:
            self._jobs = look()
            self._problem = ""
        except BatchError as error:
            self._problem = error.what
        except OSError as error:
            self._problem = str(error)

    def wait(self, seconds: float) -> tuple[list[OwnJob], str]:
        """Wait; return the jobs, and a sentence on what prevented the answer, or ""."""
        self._thread.join(seconds)
        return self._jobs, self._problem


def warning(jobs: Sequence[OwnJob]) -> str:
    """Return a sentence if the last jobs failed at once; else ""."""
    last = [job for job in jobs if job.state.phase not in WAITING][-3:]
    failed = [job for job in last if failed_at_once(job)]
    if not failed or len(failed) < len(last) or len(failed) < min(2, len(jobs)):
        return ""
    log = failed[-1].record.log_file
    reason = failed[-1].state.reason
    what = "the last job" if len(failed) == 1 else f"{len(failed)} of the last {len(last)} jobs"
    cause = f" ({reason})" if reason else ""
    return f"{what} ended within {AT_ONCE:g} s{cause}: see {log or 'its output'}"


def failed_at_once(job: OwnJob) -> bool:
    """Return True if an ended job failed at once, judging by its output.

    A worker writes a line when it ends: if the last line came within some seconds of the
    submission, the worker lived no longer. A job that waited before it failed is not detected.
    """
    if job.state.phase is not JobPhase.GONE:
        return False
    try:
        written = Path(job.record.log_file).stat().st_mtime
    except (OSError, ValueError):
        return job.state.reason.startswith(("FAILED", "BOOT_FAIL"))
    return written - job.record.submitted <= AT_ONCE


def prune(store: JobRecords, jobs: Iterable[OwnJob], now: float) -> None:
    """Remove the records of submissions whose jobs all ended long ago.

    Raises:
        OSError: a file cannot be removed.
    """
    alive = {job.record: job.alive for job in jobs}
    files: dict[str, list[JobRecord]] = {}
    for record in store.read():
        files.setdefault(record.file, []).append(record)
    for file, members in files.items():
        age = now - max(record.submitted for record in members)
        ended = not any(alive.get(record, True) for record in members)
        if age > FORGOTTEN or (age > KEPT and ended):
            store.forget(file)
