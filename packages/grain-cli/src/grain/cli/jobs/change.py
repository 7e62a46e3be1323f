"""``grain hold``, ``release`` and ``resubmit``: what a user asks of jobs in the queue."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from grain.cli import completion
from grain.cli.options import config_option, json_option
from grain.cli.plugin import chosen_config, print_json, report_errors
from grain.cli.queue.opening import queue_errors, queue_option, queue_with_jobs, warn_of_damage
from grain.cli.queue.wishes import ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.queue.book import Book, Entry
    from grain.queue.folder import Queue
    from grain.queue.selectors import Selected

_jobs = click.argument(
    "jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completion.queued
)


class JobChange(NamedTuple):
    """The effect of a wish on a job.

    Attributes:
        job: its number.
        tasks: the number of its tasks on which the wish has an effect.
        text: a sentence for the user.
    """

    job: int
    tasks: int
    text: str


@click.command()
@json_option
@queue_option
@_jobs
def hold(as_json: bool, queue_name: str | None, jobs: tuple[str, ...]) -> None:
    """Keep jobs from beginning until `grain release`.

    Tasks that run go on.

    \b
    Examples:
      grain hold 12
      grain hold 12-20,25
      grain hold 12_3         task 3 of array 12
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors(), queue_errors():
        queue, chosen = queue_with_jobs(jobs, queue_name)
        _show(_changed(queue, chosen, "hold"), as_json=as_json)


@click.command()
@json_option
@queue_option
@config_option
@_jobs
@click.pass_context
def release(
    ctx: click.Context,
    as_json: bool,
    queue_name: str | None,
    config_file: str | None,
    jobs: tuple[str, ...],
) -> None:
    """Let held jobs begin.

    \b
    Examples:
      grain release 12
      grain release all
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import wake_dispatcher

    with report_errors(), queue_errors():
        queue, chosen = queue_with_jobs(jobs, queue_name)
        _show(_changed(queue, chosen, "release"), as_json=as_json)
        if trouble := wake_dispatcher(queue, config_file or chosen_config(ctx)):
            click.echo(f"they wait: {trouble}", err=True)


@click.command()
@click.option("--failed", is_flag=True, help="Only tasks that did not succeed.")
@click.option(
    "--lost", is_flag=True, help="Also tasks on a worker that is silent, and known to be dead."
)
@json_option
@queue_option
@config_option
@_jobs
@click.pass_context
def resubmit(
    ctx: click.Context,
    failed: bool,
    lost: bool,
    as_json: bool,
    queue_name: str | None,
    config_file: str | None,
    jobs: tuple[str, ...],
) -> None:
    """Run jobs again that have ended.

    They keep their numbers. What still waits or runs is left alone.

    \b
    Examples:
      grain resubmit 12
      grain resubmit --failed 12    only the tasks that did not succeed
      grain resubmit --lost 12      the worker is silent, and you know it is dead
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import wake_dispatcher

    with report_errors(), queue_errors():
        queue, chosen = queue_with_jobs(jobs, queue_name)
        again, settled, alive = run_again(queue, chosen, only_failed=failed, lost=lost)
        count = len(again)
        if as_json:
            print_json({"tasks": again})
        else:
            click.echo(f"{count} {'task runs' if count == 1 else 'tasks run'} again")
        if count and (reason := wake_dispatcher(queue, config_file or chosen_config(ctx))):
            click.echo(f"they wait: {reason}", err=True)
        trouble = [_settled_text(settled)] if settled else []
        if alive:
            trouble.append(
                f"{', '.join(alive)}: the worker lives on this host, so nothing is lost; grain "
                "cancel ends a task"
            )
        if trouble:
            raise click.ClickException("\n".join(trouble))


def _changed(
    queue: Queue, jobs: Sequence[Selected], what: Literal["hold", "release"]
) -> Iterator[JobChange]:
    """Hold or release jobs; yield the effect on each.

    Raises:
        grain.queue.errors.QueueError: it was not asked; what was asked before stays so.
    """
    from grain.queue.book import Book

    for one in jobs:
        ask(queue, what, one)
    book = Book.read(queue)
    for one in jobs:
        for number in range(one.first, one.last + 1):
            yield _change(book.entries.get(number), number, one, what)


def _change(
    entry: Entry | None, number: int, one: Selected, what: Literal["hold", "release"]
) -> JobChange:
    done = "on hold" if what == "hold" else "released"
    if entry is None or entry.is_final:
        return JobChange(number, 0, f"job {number} has ended already")
    if one.tasks:
        waits = sum(
            entry.standing(task, 0.0).state == "PENDING"
            for task in entry.task_numbers()
            if one.has(task)
        )
        name = f"these tasks of job {number}"
        text = f"{name} are {done}" if waits else f"{name} run or have ended already"
    else:
        waits = entry.counts.pending
        text = f"job {number} " + (f"is {done}" if waits else "runs already, and goes on")
    return JobChange(number, waits, text)


def _show(changes: Iterable[JobChange], *, as_json: bool) -> None:
    if as_json:
        print_json([one._asdict() for one in changes])
    else:
        for one in changes:
            click.echo(one.text)


class _Rerun(NamedTuple):
    """The effect of a wish to run again.

    Attributes:
        tasks: the names of the tasks that run again.
        settled: jobs that ended so long ago that none of their tasks can.
        alive: the names of tasks that are not lost, as their worker lives.
    """

    tasks: list[str]
    settled: list[int]
    alive: list[str]


def run_again(queue: Queue, jobs: Iterable[Selected], *, only_failed: bool, lost: bool) -> _Rerun:
    """Have tasks run again that have ended.

    Args:
        only_failed: leave out tasks that have succeeded.
        lost: first end the attempts that seem to run, as the user knows that they do not. One
            whose worker lives, as far as this host can see, is left alone: its program would run
            twice at a time.

    Raises:
        grain.queue.errors.QueueError: the files cannot be written.
    """
    from grain.cli.queue.tasks import task_name
    from grain.queue.book import Book
    from grain.queue.errors import Settled
    from grain.queue.selectors import Selected
    from grain.queue.states import FINAL

    book = Book.read(queue)
    # Tasks by job and by the attempt that they may make, as one wish names one attempt.
    wanted: defaultdict[tuple[int, int], list[int | None]] = defaultdict(list)
    settled: dict[int, None] = {}
    alive: list[str] = []
    for one in jobs:
        for number in range(one.first, one.last + 1):
            entry = book.entries.get(number)
            if entry is None:
                packed = book.find(number)
                if packed is None or packed.counts.unsuccessful or not only_failed:
                    settled[number] = None
                continue
            for task in _tasks(entry, one):
                if lost and not _end_lost(queue, book, number, task):
                    alive.append(task_name(number, task))
                standing = entry.standing(task, time.time())
                if standing.state not in FINAL or (only_failed and standing.state == "COMPLETED"):
                    continue
                wanted[number, standing.attempt + 1].append(task)
    warn_of_damage(book)
    again: list[str] = []
    for (number, attempt), tasks in wanted.items():
        ranges = tuple((task, task) for task in tasks if task is not None)
        try:
            ask(queue, "again", Selected(number, number, ranges), attempt=attempt)
        except Settled:
            settled[number] = None
        else:
            again += [task_name(number, task) for task in tasks]
    return _Rerun(again, sorted(settled), alive)


def _settled_text(numbers: Sequence[int]) -> str:
    from grain.queue.arrays import array_text, as_ranges
    from grain.queue.records import ArraySpec

    which = array_text(ArraySpec(ranges=as_ranges(numbers)))
    if len(numbers) == 1:
        return f"job {which} ended days ago, so it does not run again: submit it as a new job"
    return f"jobs {which} ended days ago, so they do not run again: submit them as new jobs"


def _tasks(entry: Entry, one: Selected) -> Iterator[int | None]:
    for task in entry.task_numbers():
        if one.has(task):
            yield task


def _end_lost(queue: Queue, book: Book, number: int, task: int | None) -> bool:
    """End an attempt that seems to run; return False if it does."""
    from grain.queue.dispatchers import fate_of
    from grain.queue.records import Ended

    standing = book.read_task(number, task)
    if standing.state != "RUNNING":
        return True
    begun = queue.begun(number, task, standing.attempt)
    if begun is not None and fate_of(begun) == "runs":
        return False
    message = "its worker was silent, and the user said that it is dead"
    queue.end(number, task, standing.attempt, Ended(how="lost", at=time.time(), message=message))
    book.read_task(number, task)
    return True
