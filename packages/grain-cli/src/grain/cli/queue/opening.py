"""The queue, the jobs in it that a command means, and its errors as messages."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

import click

from grain.cli.show import clean
from grain.cli.streams import elsewhere
from grain.files.whole import FULL
from grain.resource.figures import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from grain.queue.book import Book
    from grain.queue.dispatchers import Dispatchers, LiveDispatcher
    from grain.queue.folder import Queue
    from grain.queue.selectors import Selected

F = TypeVar("F", bound="Callable[..., Any]")

LATE = 45.0
"""Seconds without a sign of life of a dispatcher after which the next one is overdue."""

_NOW = 5.0  # seconds since a sign of life for which it is as good as a look


@contextlib.contextmanager
def queue_errors() -> Iterator[None]:
    """End the command with a message and exit code 1 on errors of the queue and of submissions."""
    try:
        yield
    except Exception as error:
        from grain.queue.errors import CannotWrite, QueueError

        if isinstance(error, QueueError):
            text = str(error)
            if isinstance(error, CannotWrite) and error.errno in FULL:
                from grain.queue.folder import DEFAULT, queue_folder

                where = queue_folder(DEFAULT).parent
                text += f"; queues are in {where}: {elsewhere('set XDG_STATE_HOME')}"
            raise click.ClickException(clean(text, keep="\n")) from None
        raise


def queue_option(function: F) -> F:
    """Add ``--queue NAME``."""
    return click.option(
        "--queue", "queue_name", metavar="NAME", envvar="GRAIN_QUEUE",
        help="Name of the queue.  [default: queue]",
    )(function)  # fmt: skip


def open_queue(name: str | None, *, make: bool = False) -> Queue:
    """Return the queue of a name, or the default one.

    Raises:
        grain.queue.errors.QueueError: it is not there, or cannot be used.
    """
    from grain.queue.folder import DEFAULT, Queue, queue_folder

    return Queue.open(queue_folder(name or DEFAULT), make=make)


def queue_with_jobs(words: Sequence[str], name: str | None) -> tuple[Queue, list[Selected]]:
    """Return the queue of which words name jobs and tasks, as ``12`` or ``night:12``, and these.

    Args:
        words: as of `selected`, each with the name of the queue before it or not.
        name: that of the queue where a word has none; None for the default one.

    Raises:
        click.ClickException: there is no such job or task, or they are of several queues.
        grain.queue.errors.QueueError: as of `open_queue` and `selected`.
    """
    from grain.queue.folder import DEFAULT

    pairs = [word.rpartition(":") for word in words]
    names = {of or name or DEFAULT for of, _, _ in pairs} or {name or DEFAULT}
    if len(names) > 1:
        raise click.ClickException(
            f"these are jobs of several queues ({', '.join(sorted(names))}): name those of one"
        )
    queue = open_queue(names.pop())
    return queue, selected(queue, [jobs for _, _, jobs in pairs])


def selected(queue: Queue, words: Iterable[str]) -> list[Selected]:
    """Return the jobs and tasks that words name; ranges end at the last job that there is.

    Raises:
        click.ClickException: there is no such job, or no such task.
        grain.queue.errors.QueueError: a word names none, or the files cannot be read.
    """
    from grain.cli.queue.tickets import FIRST_TICKET, job_of
    from grain.queue.selectors import parse_selector

    newest = queue.jobs.end() - 1
    found = [one for word in words for one in parse_selector(word, newest)]
    jobs = []
    for one in found:
        if one.first >= FIRST_TICKET and (job := job_of(queue, one.first)) is not None:
            jobs.append(job)  # as top, history and report name an attempt
        elif one.first > newest:
            there = f"the last one is {newest}" if newest else "the queue is empty"
            raise click.ClickException(f"there is no job {one.first}: {there}")
        else:
            _check_tasks(queue, one)
            jobs.append(one._replace(last=min(one.last, newest)))
    return jobs


def _check_tasks(queue: Queue, one: Selected) -> None:
    """Refuse tasks that a job does not have."""
    from grain.queue.arrays import array_text, task_numbers

    if not one.tasks:
        return
    array = queue.job(one.first).array
    if array is None:
        raise click.ClickException(f"job {one.first} is not an array: it has no tasks with numbers")
    if not any(first <= task <= last for task in task_numbers(array) for first, last in one.tasks):
        raise click.ClickException(
            f"job {one.first} has no such task: its array is {array_text(array)}"
        )


def warn_of_damage(book: Book) -> None:
    """Say on standard error which packed files of the queue could not be read."""
    for sentence in book.damaged:
        click.echo(f"Note: {clean(sentence)}", err=True)


def dispatcher_state(queue: Queue) -> str:
    """Return where the dispatcher of a queue runs, as the end of a sentence; "" if none does."""
    from grain.queue.dispatchers import Dispatchers

    dispatchers = Dispatchers(queue.files)
    alive = dispatchers.alive()
    if alive is None:
        return ""
    host = clean(alive.dispatcher.host)
    silence = 0.0 if alive.is_here else silence_of(dispatchers, alive)
    if silence < _NOW:
        return f"runs on {host}"
    if silence < LATE:
        return f"runs on {host}, with a sign of life {span(silence)} ago"
    return f"ran on {host}, without a sign of life for {span(silence)}"


def silence_of(dispatchers: Dispatchers, alive: LiveDispatcher) -> float:
    """Return for how many seconds a dispatcher has given no sign of life; 0 if it is not known."""
    with contextlib.suppress(OSError):
        return max(dispatchers.silence(alive.number), 0.0)
    return 0.0


def dispatcher_host(queue: Queue) -> str | None:
    """Return the host on which the dispatcher of a queue runs; None if none does."""
    from grain.queue.dispatchers import Dispatchers

    alive = Dispatchers(queue.files).alive()
    return None if alive is None else alive.dispatcher.host
