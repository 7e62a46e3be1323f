"""``--halt fail=N``: the rest of an array is cancelled when so many of its tasks have failed.

Only a wish counts, as of a user who cancels the job; so it is a fact in the files, and it does no
harm if two dispatchers make it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grain.queue.records import Wish
from grain.queue.states import outcome
from grain.resource.figures import counted

if TYPE_CHECKING:
    from grain.queue.book import Entry


def halting(entry: Entry) -> Wish | None:
    """Return the wish that cancels the rest of a job; None as long as it may go on.

    Tasks that a user has had run again count only if they fail again, after that wish.
    """
    counts, most = entry.counts, entry.job.halt
    failed = counts.failed + counts.timeout + counts.memory + counts.lost
    if not most or failed < most or entry.is_final:
        return None
    since = 0.0
    cancelled = False
    for wish in entry.wishes:
        if wish.what == "again":
            since, cancelled = wish.at, False
        elif wish.what == "cancel" and not wish.tasks:
            cancelled = True
    if cancelled:
        return None
    if since:
        failed = 0
        for task, runs in entry.runs.items():
            last, granted = runs[-1], entry.asked(task).granted
            # By the attempt that the user has asked for, where there is one, as clocks differ.
            again = last.attempt >= granted if granted else last.ended > since
            ended = entry.standing(task, 0.0).state not in ("PENDING", "RUNNING")
            failed += again and ended and outcome(last) not in ("COMPLETED", "CANCELLED")
        if failed < most:
            return None
    have = "has" if failed == 1 else "have"
    return Wish(
        what="cancel",
        jobs=((entry.number, entry.number),),
        by=f"--halt fail={most}",
        at=time.time(),
        why=f"as {counted(failed, 'task')} {have} failed",
    )
