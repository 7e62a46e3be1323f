"""Tasks of a queue's mission are attempts of jobs: what leads from the number of one to its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.edge.mission_ids import lasting_id, lasting_name, lasts
from grain.queue.book import Book, read_tickets
from grain.queue.errors import QueueError
from grain.queue.folder import Queue, queue_folder
from grain.queue.selectors import Selected

if TYPE_CHECKING:
    from grain.edge.questions import StateAnswer

FIRST_TICKET = 1_000_000_000
"""The smallest number of such a task; no job has one that is so large."""


def with_jobs(state: StateAnswer) -> StateAnswer:
    """Return a scheduler's answer in which tasks of queues are named as jobs: ``queue:12_3``.

    Tasks of queues that cannot be read here, such as those of other users, keep their names.
    """
    names: dict[str, str] = {}
    for mission in state.missions:
        if lasts(mission.id):
            for ticket, job in _jobs_of(mission.id).items():
                names[f"{mission.label}:{ticket}"] = job
    if not names:
        return state
    workers = [
        replace(worker, tasks=[names.get(task, task) for task in worker.tasks])
        for worker in state.workers
    ]
    queues = [replace(one, oldest=names.get(one.oldest, one.oldest)) for one in state.queues]
    return replace(state, workers=workers, queues=queues)


def _jobs_of(mission: str) -> dict[int, str]:
    try:
        queue = Queue.open(queue_folder(lasting_name(mission)))
        if lasting_id(queue.name, queue.mission) != mission:
            return {}
        return {
            ticket: f"{queue.name}:{number}" + ("" if task is None else f"_{task}")
            for (number, task, _), ticket in read_tickets(queue).items()
        }
    except (QueueError, OSError, RuntimeError):
        return {}


def job_of(queue: Queue, ticket: int) -> Selected | None:
    """Return the job, or the task of an array, of which an attempt has a number; None for none.

    Raises:
        grain.queue.errors.QueueError, OSError: the files of the queue cannot be read.
    """
    for (number, task, _), one in read_tickets(queue).items():
        if one == ticket:
            return _selected(number, task)
    # It has ended, or has just begun: its receipt tells, and the newest is the likeliest.
    for entry in reversed(Book.read(queue).entries.values()):
        for task, runs in entry.runs.items():
            for run in runs:
                begun = queue.begun(entry.number, task, run.attempt)
                if begun is not None and begun.ticket == ticket:
                    return _selected(entry.number, task)
    return None


def _selected(number: int, task: int | None) -> Selected:
    return Selected(number, number, () if task is None else ((task, task),))
