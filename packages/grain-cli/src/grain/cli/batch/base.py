"""The interface of a batch system: script, submit, states, cancel, and their values.

The calls block, up to 9 s where a Slurm controller is gone: async code calls them in a thread.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.config import Script


class JobPhase(enum.Enum):
    """The phase of a job."""

    PENDING = "pending"
    """It waits, and starts by itself."""
    STUCK = "stuck"
    """It waits, and never starts by itself: it is held, or asks for what there never is."""
    RUNNING = "running"
    """It runs."""
    ENDING = "ending"
    """It is being ended."""
    GONE = "gone"
    """It ended, or the batch system forgot it, as batch systems do with jobs that ended."""
    UNKNOWN = "unknown"
    """This host cannot find out, so the job may be alive."""


WAITING = frozenset({JobPhase.PENDING, JobPhase.STUCK})
"""The phases of a job that has not started."""


class JobState(NamedTuple):
    """The state of a job, as its batch system reports it.

    Attributes:
        reason: the batch system's own word on why it waits or how it ended; may be empty.
        node: the node on which it runs, or several as ``n1,n2`` or ``n[1-2]``; may be empty.
    """

    phase: JobPhase
    reason: str = ""
    node: str = ""


class SubmittedJob(NamedTuple):
    """A job that the batch system accepted.

    Attributes:
        log_file: the file of its output, as far as it is known before the job runs.
        cpus: the ids of the CPUs to which Grain confined it; empty where the batch system does so.
    """

    id: str
    name: str
    log_file: str
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class BatchJob:
    """A job to submit.

    Attributes:
        name: its name, one word.
        log_file: absolute path of its output, or empty. The batch system may fill in its own
            placeholders.
        script: its request, set-up and clean-up.
        main: shell text of its main command, a program with its arguments; ``$grain_name`` is its
            name, ``$grain_left`` the seconds of `time_left` that remain after the set-up.
        path: a directory to search for commands after those of PATH; or empty.
        time_left: seconds from its start until the main command must have ended; None if unknown.
        warning: seconds between SIGUSR1 and the end of the job; None for no warning, and for a
            main command that SIGUSR1 would end.
        grace: seconds that the main command and the clean-up may take after SIGTERM; None for the
            batch system's choice.
        notes: comment lines for readers of the script.
        env: environment variables to set after the set-up.
        extra_args: further options for the batch system, one word each.
    """

    name: str
    log_file: str
    script: Script
    main: str
    path: str = ""
    time_left: int | None = None
    warning: int | None = None
    grace: int | None = None
    notes: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    extra_args: tuple[str, ...] = ()

    def members(self, n: int) -> list[BatchJob]:
        """Return this job, or ``n`` copies with different names and logs."""
        return [self] if n == 1 else [self.member(str(number)) for number in range(n)]

    def member(self, mark: str) -> BatchJob:
        """Return a copy of the job with a mark in its name and in the name of its log."""
        log = PurePath(self.log_file)
        marked = str(log.with_name(f"{log.stem}-{mark}{log.suffix}")) if self.log_file else ""
        return replace(self, name=f"{self.name}-{mark}", log_file=marked)


class BatchSystem(Protocol):
    """A batch system. A refusal is a `BatchError` with the system's own words and a remedy."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script that `submit` submits; the first one where each job has its own."""
        ...

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit ``n`` jobs, as one array where the batch system has arrays.

        Yields each job as soon as it is accepted, so that the caller can record it before the next.
        """
        ...

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query the states of jobs, one at least; the answer has every id that was asked for."""
        ...

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Look for this user's jobs by the names under which they were submitted.

        Returns:
            The ids of the jobs of each name, none where there is no such job. Whether jobs that
            have ended are among them is the batch system's choice.

        Raises:
            BatchUnsupported: it lists no jobs by name.
            BatchError: it does not answer.
        """
        ...

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs, one at least, in the batch system's way; an ended job is not an error."""
        ...
