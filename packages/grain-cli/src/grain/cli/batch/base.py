"""What every batch system is to the rest of the command: three verbs and their values.

The verbs block, for 9 s where a Slurm controller is gone; call them in a thread from async code.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.config import Script


class Phase(enum.Enum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    GONE = "gone"
    UNKNOWN = "unknown"


class JobState(NamedTuple):
    """What a batch system says of a job.

    Attributes:
        phase: Where it stands. ``GONE``: it ended, or the batch system forgot it, which is what
            happens to ended jobs. ``UNKNOWN``: it cannot be told from here.
        reason: The batch system's own word on why it waits or how it ended; may be empty.
        node: Where it runs; may be empty.
    """

    phase: Phase
    reason: str = ""
    node: str = ""


class SubmittedJob(NamedTuple):
    """A job that was accepted.

    Attributes:
        id: As `BatchSystem.states` and `cancel` want it.
        name: Of the worker and of its job.
        log_file: Where its output goes, as far as it is known before it runs.
        cpus: The CPU ids that it was confined to at its start; empty if others see to that.
    """

    id: str
    name: str
    log_file: str
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class BatchJob:
    """What is to be submitted.

    Attributes:
        name: Its name, one word.
        log_file: Absolute path of its output, in which the batch system may fill in its own
            placeholders, or empty.
        script: What it asks for, set-up and clean-up.
        main: Shell text of its main command; ``$grain_name`` is its name, ``$grain_left`` the
            seconds of `time_left` that remain after the set-up.
        path: A directory to look for commands in, after those of PATH; or empty.
        time_left: Seconds from its start to when the main command has to be done; None if unknown.
        warning: Seconds before its end at which SIGUSR1 is wanted; None for no warning.
        notes: Comment lines for whoever reads the script.
        extra_args: Further options for the batch system, one word each.
    """

    name: str
    log_file: str
    script: Script
    main: str
    path: str = ""
    time_left: int | None = None
    warning: int | None = None
    notes: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()

    def members(self, n: int) -> list[BatchJob]:
        """This job alone, or ``n`` of its kind whose names and logs differ."""
        return [self] if n == 1 else [self.member(str(number)) for number in range(n)]

    def member(self, mark: str) -> BatchJob:
        """One of several, its name and its log told apart by a mark."""
        log = PurePath(self.log_file)
        marked = str(log.with_name(f"{log.stem}-{mark}{log.suffix}")) if self.log_file else ""
        return replace(self, name=f"{self.name}-{mark}", log_file=marked)


class BatchSystem(Protocol):
    """A batch system. Whatever it refuses is a `BatchError` with its words and a remedy."""

    def script(self, job: BatchJob, n: int) -> str:
        """The script that `submit` hands over, for the first of them where each has its own."""
        ...

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit n jobs, as one array where the batch system has such.

        Each is yielded as soon as it is accepted, so that those before a refusal are known.
        """
        ...

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Where jobs stand; every id that was asked for is in the answer."""
        ...

    def cancel(self, ids: Iterable[str]) -> None:
        """End jobs, in the batch system's way and delay; those that ended are no error."""
        ...
