"""The receipts of attempts that died with the process which ran them; made by the agent.

Only the host of a process can see that it is gone. So the agent notes it there, before it tells the
scheduler: whoever else dies meanwhile, the next dispatcher reads it.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.queue.errors import QueueError
from grain.queue.folder import Queue
from grain.queue.records import Ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.worker.messages import JobBegins

_log = logging.getLogger("grain.worker")


async def note_lost(jobs: Iterable[JobBegins], why: str) -> None:
    """Note that attempts are lost whose process, and all that they started, is gone.

    An attempt that has not begun, that another run has begun, or that has an end, stays as it is;
    and one on several workers, as only the scheduler knows when the last of them has nothing of it.
    What cannot be noted is a warning in the log: the dispatcher learns of the death by the
    scheduler, too.

    On cancellation it returns at once, and a disk that does not answer goes on in its thread.

    Args:
        why: how the process died, as one clause.
    """
    for job in jobs:
        try:
            await trio.to_thread.run_sync(_note, job, why, abandon_on_cancel=True)
        except (OSError, QueueError) as error:
            _log.warning(
                "job %d was lost with its process, and that cannot be noted: %s", job.number, error
            )


def _note(job: JobBegins, why: str) -> None:
    queue = Queue.open(Path(job.queue))
    key = job.number, job.task, job.job_attempt
    begun = queue.begun(*key)
    if begun is not None and begun.run == job.attempt and not begun.others:
        queue.end(*key, Ended(how="lost", at=time.time(), message=why))
