"""The queue of these commands, read whole; and again until a job has ended."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from grain.cli.slurm.here import CommandFailed
from grain.queue.errors import QueueError, Unusable
from grain.queue.folder import DEFAULT, Queue, queue_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.slurm.here import Here
    from grain.queue.book import Book, Entry
    from grain.queue.dispatchers import LiveDispatcher
    from grain.queue.records import Dependency

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which files that cannot be read are tried again."""

_PAUSE = 1.0


def open_queue(here: Here, *, make: bool = False) -> Queue | None:
    """Return the queue; None if nothing was ever submitted to it.

    Raises:
        grain.queue.errors.QueueError: it cannot be used.
        OSError: it cannot be read.
    """
    folder = queue_folder(here.environment.get("GRAIN_QUEUE") or DEFAULT, here.environment)
    if not make and not folder.exists():
        return None
    return Queue.open(folder, make=make)


def read_book(here: Here, what: str = "slurm_load_jobs error") -> Book | None:
    """Return the book of the queue; None if nothing was ever submitted.

    Whoever asks so for jobs that wait makes sure that they are taken.

    Args:
        here: the process.
        what: the begin of the message if it cannot be read.

    Raises:
        CommandFailed: not everything could be read, for `PATIENCE` seconds.
    """
    from grain.queue.book import Book  # which sbatch begins without

    def read() -> Book | None:
        queue = open_queue(here)
        return None if queue is None else Book.read(queue)

    book = patiently(here, what, read)
    if book is not None and book.open_entries():
        revive_dispatcher(book.queue)
    return book


def patiently(
    here: Here,
    what: str,
    read: Callable[[], T],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what a function reads, which is tried again for `PATIENCE` seconds.

    Raises:
        CommandFailed: with Slurm's message and the reason.
    """
    last = clock() + PATIENCE
    while True:
        try:
            return read()
        except (QueueError, OSError, RuntimeError) as error:
            # What another version or another user has made stays as it is.
            lasting = isinstance(error, Unusable | RuntimeError)
            if lasting or clock() >= last:
                raise unreachable(here, what, error) from error
        sleep(_PAUSE)


def unreachable(here: Here, what: str, error: Exception) -> CommandFailed:
    """Return the failure of a command that could not read the queue."""
    return CommandFailed(
        f"{what}: Unable to contact slurm controller (connect failure)\n"
        f"{here.command}: (Grain) {error}"
    )


def dispatcher_runs(queue: Queue) -> bool:
    """Return True if the queue has a dispatcher, as far as can be seen from here."""
    from grain.queue.dispatchers import Dispatchers

    return Dispatchers(queue.files).alive() is not None


def takes_jobs(queue: Queue) -> bool:
    """Return True if a dispatcher runs or is starting, or there was none so far; it is revived."""
    from grain.queue.dispatchers import Dispatchers

    revive_dispatcher(queue)
    with suppress(OSError):
        if dispatcher_runs(queue) or Dispatchers(queue.files).last() is None:
            return True
        from grain.cli.jobs.dispatcher import is_starting

        return is_starting(queue)
    return False


def _seen(queue: Queue) -> LiveDispatcher | None:
    """Return the dispatcher if one runs for certain, as its process can be seen from here."""
    from grain.queue.dispatchers import Dispatchers

    alive = Dispatchers(queue.files).alive()
    return alive if alive is not None and alive.is_here else None


def wake_dispatcher(queue: Queue) -> str:
    """Start a dispatcher if none runs, or have it look at once; return why not, as a sentence."""
    with suppress(OSError):
        if (alive := _seen(queue)) is not None:
            alive.rouse()
            return ""
    from grain.cli.jobs import dispatcher

    try:
        return dispatcher.wake_dispatcher(queue, None)
    except Exception as error:  # the job is in the queue, whatever fails
        return f"no dispatcher could be started: {error}"


def revive_dispatcher(queue: Queue) -> None:
    """Make sure that jobs are taken that wait, see `grain.cli.jobs.dispatcher`."""
    # Whatever fails: the files still tell how it stands with the jobs.
    with suppress(Exception):
        if _seen(queue) is None:
            from grain.cli.jobs import dispatcher

            dispatcher.revive_dispatcher(queue, None)


def after_namesakes(book: Book, name: str, number: int) -> tuple[Dependency, ...]:
    """Return the wait of a job for all earlier ones of its name that have not ended.

    Args:
        book: the queue.
        name: the job's.
        number: the job's, or the next one.
    """
    from grain.queue.records import Dependency

    earlier = [one for one in book.open_entries() if one.number < number and one.job.name == name]
    return (Dependency(jobs=tuple(one.number for one in earlier), until="any"),) * bool(earlier)


class NeverBegins(CommandFailed):
    """The failure of a command that waits for a job which never begins."""


def wait_for(
    here: Here, queue: Queue, number: int, between: Callable[[], None] = lambda: None
) -> Entry:
    """Wait until a job has ended, and return it.

    If the dispatcher is killed meanwhile, another one is started.

    Args:
        here: the process.
        queue: the queue.
        number: the job's.
        between: is called between two looks.

    Raises:
        NeverBegins: it never begins, as another job did not end as it wants, or it fits nowhere.
        CommandFailed: the files of the queue cannot be read.
    """
    from grain.cli.queue.fitting import blocks_of
    from grain.cli.queue.looks import Looks
    from grain.queue.book import Book

    what = f"{here.command}: error"
    book = patiently(here, what, lambda: Book.read(queue))
    looks = Looks()
    while not book.entries[number].is_final:
        blocks = blocks_of(book, env=here.environment)
        if (block := blocks.of(book.entries[number])) is not None:
            from grain.cli.queue.rows import block_text

            why = block_text(book, book.entries[number], block)
            raise NeverBegins(f"{here.command}: error: (Grain) {why}")
        looks.wait()
        patiently(here, what, book.refresh)
        between()
        if looks.revival_is_due():
            revive_dispatcher(queue)
    between()
    return book.entries[number]


def exit_status(entry: Entry, *, otherwise: int | None = None) -> int:
    """Return the exit status of a job that has ended: the highest one of its tasks.

    Args:
        otherwise: that of a task which did not exit by itself; None for that of a shell.
    """
    worst = 0
    for task in entry.task_numbers():
        standing = entry.standing(task, 0.0)
        run = standing.run
        if standing.state == "COMPLETED" or run is None:
            continue
        of_shell = run.status or (128 + run.signal if run.how == "signal" and run.signal else 1)
        worst = max(worst, of_shell if run.how == "exit" or otherwise is None else otherwise)
    return worst
