"""Cancel jobs of the queue: for `grain cancel`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.queue.opening import open_queue, selected
from grain.cli.queue.wishes import ask
from grain.files.processes import user_and_host
from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.queue.book import Entry
    from grain.queue.folder import Queue
    from grain.queue.selectors import Selected

_JOBS = re.compile(
    r"(?:([A-Za-z][\w.-]*):)?(\d[\d,_\-\[\]]*)|([A-Za-z][\w.-]*):(last|all)", re.ASCII
)


def jobs_named(word: str, queue_name: str | None) -> tuple[Queue, list[Selected]] | None:
    """Return the jobs that a word means, as ``12``, ``12_3``, ``queue:12``; None if it means none.

    A name before the colon is that of a queue; of a mission it means a task. ``last`` and ``all``
    need the name of the queue, as missions may have these names.

    Raises:
        click.ClickException: there is no such job.
        grain.queue.errors.QueueError: the queue cannot be used.
    """
    from grain.queue.folder import DEFAULT, queue_folder

    match = _JOBS.fullmatch(word)
    if match is None:
        return None
    given = match[1] or match[3]
    name = given or queue_name or DEFAULT
    if given and not queue_folder(name).is_dir():
        return None
    queue = open_queue(name)
    return queue, selected(queue, [match[2] or match[4]])


class JobCancelled(NamedTuple):
    """The effect of a cancellation on a job.

    Attributes:
        job: its number.
        waited: the number of tasks that waited, and never begin.
        ran: the number of those that end within seconds.
        text: a sentence for the user.
    """

    job: int
    waited: int
    ran: int
    text: str


def cancel_jobs(queue: Queue, jobs: Iterable[Selected], why: str) -> list[JobCancelled]:
    """Cancel jobs; return the effect on each.

    What waits never begins, from now on. What runs is ended by its worker within seconds.

    Raises:
        grain.queue.errors.QueueError: the files of the queue cannot be written; what was cancelled
            until then stays so.
    """
    from grain.queue.book import Book

    book = Book.read(queue)
    found = []
    for one in jobs:
        ask(queue, "cancel", one, why=why)
        for number in range(one.first, one.last + 1):
            entry = book.entries.get(number)
            if entry is None or entry.is_final:
                found.append(JobCancelled(number, 0, 0, f"job {number} has ended already"))
            else:
                waited, ran = book.cancel(number, one.has, by=user_and_host(), why=why)
                found.append(JobCancelled(number, waited, ran, _text(entry, waited, ran)))
    return found


def _text(entry: Entry, made: int, running: int) -> str:
    number = entry.number
    if not made and not running:
        return f"these tasks of job {number} have ended already"
    if entry.job.array is None:
        return f"job {number} is cancelled; it " + ("ran, and ends now" if running else "waited")
    parts = [f"{counted(made, 'task')} waited"] if made else []
    parts += [f"{counted(running, 'task')} ran, and end{'s' * (running == 1)} now"] * bool(running)
    return f"job {number} is cancelled; {', '.join(parts)}"
