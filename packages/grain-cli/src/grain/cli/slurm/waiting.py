"""Wait for the end of a job, for ``sbatch --wait`` and ``srun``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grain.cli.slurm.reading import patiently
from grain.queue.book import Book

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.slurm.here import Here
    from grain.queue.book import Entry
    from grain.queue.folder import Queue

_LOOK = 0.3  # seconds between two looks, at first
_LOOK_LATER = 2.0


def wait_for(
    here: Here, queue: Queue, number: int, between: Callable[[], None] = lambda: None
) -> int:
    """Wait until a job has ended; return its exit status, or the highest one of its tasks.

    Args:
        here: the process.
        queue: the queue.
        number: the job's.
        between: is called between two looks.

    Raises:
        CommandFailed: the files of the queue cannot be read.
    """
    what = f"{here.command}: error"
    book = patiently(here, what, lambda: Book.read(queue))
    began = time.monotonic()
    while not book.entries[number].is_final:
        time.sleep(_LOOK if time.monotonic() < began + 30 else _LOOK_LATER)
        patiently(here, what, book.refresh)
        between()
    between()
    return exit_status(book.entries[number])


def exit_status(entry: Entry) -> int:
    """Return the exit status of a job that has ended: the highest one of its tasks."""
    worst = 0
    for task in entry.task_numbers():
        standing = entry.standing(task, 0.0)
        run = standing.run
        if standing.state == "COMPLETED" or run is None:
            continue
        status = run.status or (128 + run.signal if run.how == "signal" and run.signal else 1)
        worst = max(worst, status)
    return worst
