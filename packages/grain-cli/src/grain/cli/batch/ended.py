"""``python -m grain.cli.batch.ended``: which batch jobs are over, for `grain.files.batch_jobs`.

What ran on a worker in such a job runs again. So only what a batch system says counts: the job has
ended, and it ran on the host of the worker. A job that is not listed proves nothing, as
batch systems forget jobs, and another cluster has others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from grain.cli.batch.base import JobPhase
from grain.cli.batch.errors import BatchError
from grain.cli.batch.opening import open_named
from grain.files.batch_jobs import WorkerJob
from grain.files.batch_systems import BATCH_SYSTEMS
from grain.files.hosts import host_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.cli.batch.base import BatchSystem, JobState

_UNPROVEN = frozenset(word for one in BATCH_SYSTEMS.values() for word in one.unproven)
_AT_ONCE = 200  # jobs in one question


def answers(
    questions: Sequence[WorkerJob], opened: Callable[[str], BatchSystem] = open_named
) -> list[str | None]:
    """Return for each job that is over how it has ended, as its batch system says; else None.

    What hinders an answer goes to standard error.

    Args:
        opened: opens a batch system by its name.
    """
    states: dict[tuple[str, str], JobState] = {}
    for system in sorted({one.system for one in questions}):
        ids = sorted({one.job for one in questions if one.system == system})
        for first in range(0, len(ids), _AT_ONCE):
            try:
                found = opened(system).states(ids[first : first + _AT_ONCE])
            except BatchError as error:
                print(error, file=sys.stderr)
            else:
                states |= {(system, one): state for one, state in found.items()}
    return [end_of(states.get((one.system, one.job)), one.host) for one in questions]


def end_of(state: JobState | None, host: str) -> str | None:
    """Return how a job on a host has ended, or ""; None if it is not known to be over.

    Args:
        state: of the job; None if there was no answer.
        host: the host on which a process of the job ran.
    """
    if state is None or state.phase is not JobPhase.GONE:
        return None
    if state.reason.partition(" ")[0] in _UNPROVEN:
        return None
    return state.reason if _short(host) in map(_short, _hosts(state.node)) else None


def _hosts(nodes: str) -> list[str]:
    """Return the nodes of a job, which Slurm and Flux write as a list of hosts."""
    try:
        return host_names(nodes)
    except ValueError:
        return []


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def main() -> None:
    """Answer questions on standard input, as JSON, by a list on standard output."""
    questions = msgspec.json.decode(sys.stdin.buffer.read(), type=list[WorkerJob])
    print(msgspec.json.encode(answers(questions)).decode())


if __name__ == "__main__":
    main()
