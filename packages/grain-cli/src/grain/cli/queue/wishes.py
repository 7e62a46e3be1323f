"""A wish of the user for jobs of the queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from grain.files.processes import user_and_host

if TYPE_CHECKING:
    from grain.queue.folder import Queue
    from grain.queue.selectors import Selected


def ask(
    queue: Queue,
    what: Literal["hold", "release", "cancel", "again", "signal"],
    one: Selected,
    **more: Any,
) -> None:
    """Ask something of jobs, or of tasks of one job.

    Raises:
        grain.queue.errors.QueueError: it was not asked.
    """
    from grain.queue.records import Wish

    queue.wish(
        Wish(
            what=what,
            jobs=((one.first, one.last),),
            tasks=one.tasks,
            by=user_and_host(),
            at=time.time(),
            **more,
        )
    )
