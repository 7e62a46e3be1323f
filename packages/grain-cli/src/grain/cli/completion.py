"""Completion of names in a shell: workers, missions and tasks, of the scheduler and the records.

Nothing is printed but names: a shell that completes has no place for errors. The scheduler has half
a second to answer.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    from grain.config import Config
    from grain.edge.questions import StateAnswer

PATIENCE = 0.5
"""Seconds for the answer of the scheduler."""


def workers(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a worker that is here, or of a job that was submitted."""
    return names_within(incomplete, lambda: [*here(_state(ctx)), *recorded()])


def jobs(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a job that was submitted."""
    return names_within(incomplete, recorded)


def tasks(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a task; without a number, also the name of a mission."""
    from grain.cli.queue.tickets import with_jobs

    return names_within(incomplete, lambda: named_tasks(with_jobs(_state(ctx))))


def queued(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the number of a job of the queue, the last one first."""

    def look() -> list[str]:
        from grain.cli.queue.opening import open_queue
        from grain.queue.book import Book

        book = Book.read(open_queue(ctx.params.get("queue_name")))
        return [str(number) for number in reversed(book.entries)]

    return names_within(incomplete, look)


def missions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a mission."""
    return names_within(incomplete, lambda: [one.label for one in _state(ctx).missions])


def here(state: StateAnswer) -> list[str]:
    """Return the names of the workers that are here."""
    return [worker.name for worker in state.workers]


def named_tasks(state: StateAnswer) -> list[str]:
    """Return the tasks that a snapshot names: the longest waiting, and some running ones."""
    waiting = [queue.oldest for queue in state.queues if queue.oldest]
    running = [task for worker in state.workers for task in worker.tasks]
    return [*waiting, *running]


def recorded() -> list[str]:
    """Return the names of the jobs that were submitted, the last first, each once."""
    from grain.cli.batch import JobRecords, state_folder

    records = JobRecords(state_folder() / "jobs").read()
    return list(dict.fromkeys(record.name for record in reversed(records)))


def config_of(ctx: click.Context) -> Config:
    """Return the configuration of a command line that is still typed."""
    from grain.config import load

    # Nothing was invoked yet, so `ctx.obj` has no file.
    return load(ctx.params.get("config_file") or ctx.find_root().params.get("config_file"))


def _state(ctx: click.Context) -> StateAnswer:
    from grain.cli.query import ask_state

    return ask_state(config_of(ctx), patience=PATIENCE, answer=PATIENCE)


def names_within(incomplete: str, look: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names with a beginning; none if they cannot be found soon.

    Args:
        look: returns all names; runs in a thread of its own.
    """
    from grain.cli.show import clean

    listed: list[str] = []

    def run() -> None:
        try:
            listed.extend(look())
        except BaseException:  # noqa: S110 - as above: there is no place for errors
            pass

    # A file system that hangs must not hold up the shell.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2 * PATIENCE)
    return [
        name
        for name in dict.fromkeys(listed)
        if name.startswith(incomplete) and name == clean(name)
    ]
