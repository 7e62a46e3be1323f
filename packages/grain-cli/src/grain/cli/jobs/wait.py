"""``grain wait``: wait for the ends of jobs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grain.cli import completion
from grain.cli.options import json_option
from grain.cli.plugin import Interrupted, chosen_config, print_json, report_errors
from grain.cli.queue.opening import queue_errors, queue_option, queue_with_jobs, warn_of_damage
from grain.cli.show import clean
from grain.cli.streams import plain
from grain.files.whole import FULL
from grain.queue.selectors import Selected
from grain.queue.states import StateCounts
from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.queue.book import Block, Blocks, Book, Entry
    from grain.queue.folder import Queue

_END = 4096  # bytes, more than the end of a job takes
_MOST = 100  # the exit status for more failures than it could tell
_NEVER = 102  # that of a task that never begins
_TROUBLE = 255  # that of anything but a task without success


class _Trouble(click.ClickException):
    exit_code = _TROUBLE


class _Misuse(click.UsageError):
    exit_code = _TROUBLE


@contextlib.contextmanager
def trouble() -> Iterator[None]:
    """Give errors exit status 255, so that they do not look like failed tasks."""
    try:
        yield
    except Interrupted:
        raise
    except click.UsageError as error:
        raise _Misuse(error.format_message(), error.ctx) from None
    except click.ClickException as error:
        raise _Trouble(error.format_message()) from None


@contextlib.contextmanager
def going_on(queue: Queue, jobs: Sequence[Selected]) -> Iterator[None]:
    """Have Ctrl-C say that jobs which are waited for go on, and which command ends them.

    Raises:
        Interrupted: on Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        from grain.cli.queue.rows import number_text

        text = ",".join(map(str, jobs))
        name = number_text(queue.name, text)
        one = text.isdecimal()
        what, go, them = (f"job {text}", "goes", "it") if one else (f"jobs {text}", "go", "them")
        raise Interrupted(
            f"{what} {go} on: `grain wait {name}` waits for {them} again, `grain cancel {name}` "
            f"ends {them}"
        ) from None


class _WaitCommand(click.Command):
    """A command whose usage errors, too, have the exit status of trouble."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line.

        Raises:
            click.UsageError: the command line makes no sense.
        """
        with trouble():
            return super().make_context(*args, **kwargs)


@click.command(cls=_WaitCommand)
@json_option
@queue_option
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completion.queued)
@click.pass_context
def wait(ctx: click.Context, as_json: bool, queue_name: str | None, jobs: tuple[str, ...]) -> None:
    """Wait until jobs have ended.

    The exit status is the number of tasks that did not succeed, 101 for more than 100; 102 if a
    job never begins, as another one did not end as it wants, or it fits no worker and none that
    grain.toml describes; 130 after Ctrl-C, which ends the
    waiting and not the jobs; 255 for other errors.

    \b
    Examples:
      grain wait 12
      grain wait 12-20 && grain submit next.sh
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with trouble(), report_errors(), queue_errors():
        queue, chosen = queue_with_jobs(jobs, queue_name)
        with going_on(queue, chosen):
            config = chosen_config(ctx)
            ctx.exit(wait_for(queue, chosen, as_json=as_json, config=config))


class _Awaited(NamedTuple):
    """A job, or tasks of it, for which the command waits."""

    entry: Entry
    meant: Selected

    def block(self, blocks: Blocks) -> Block | None:
        """Return why none of the tasks begins any more; None if one may, or runs, or none waits."""
        return blocks.of(self.entry, self.meant.has if self.meant.tasks else None)

    @property
    def counts(self) -> StateCounts:
        """The number of tasks in each state."""
        if not self.meant.tasks:
            return self.entry.counts
        states = [
            self.entry.standing(task, 0.0).state
            for task in self.entry.task_numbers()
            if self.meant.has(task)
        ]
        counts = StateCounts(pending=len(states))
        for state in states:
            counts = counts.moved("PENDING", state)
        return counts


def wait_for(
    queue: Queue, chosen: Iterable[Selected], *, as_json: bool = False, config: str | None = None
) -> int:
    """Wait until jobs have ended, with progress on a terminal; return the exit status.

    It does not wait for a job that never begins. If the dispatcher is killed meanwhile, it starts
    another one.

    Args:
        config: the configuration file of that; None for the usual one.
        as_json: True to print all jobs as JSON in the end; by default, those without success are
            named in sentences.

    Raises:
        grain.queue.errors.QueueError: the files of the queue cannot be read.
    """
    from grain.cli.jobs.dispatcher import revive_dispatcher
    from grain.cli.queue.fitting import blocks_of
    from grain.cli.queue.looks import Looks
    from grain.queue.book import Book

    book = Book.read(queue)
    wanted = dict.fromkeys(
        Selected(number, number, one.tasks)
        for one in chosen
        for number in range(one.first, one.last + 1)
    )
    # Jobs that were removed long after their ends are not waited for.
    found = [
        _Awaited(entry, one)
        for one in sorted(wanted)
        if (entry := book.find(one.first)) is not None
    ]
    warn_of_damage(book)
    looks, shown, full = Looks(), "", ""
    _tell_held(book, found, blocks_of(book, config))
    progress = sys.stderr.isatty()
    try:
        while True:
            counts = [one.counts for one in found]
            if progress and (text := _progress(counts)) != shown:
                shown = text
                click.echo(f"\r\033[K{text}", plain(sys.stderr), nl=False)
            blocks = blocks_of(book, config)
            if all(
                of.is_final or one.block(blocks) is not None
                for of, one in zip(counts, found, strict=True)
            ):
                break
            looks.wait()
            book.refresh()
            if looks.revival_is_due():
                revive_dispatcher(queue, config)
                before, full = full, _no_room(queue)
                if full and not before:
                    click.echo(clean(f"{chr(10) * bool(shown)}{full}", keep="\n"), err=True)
                    shown = ""
    finally:
        if shown:
            click.echo(err=True)
    if as_json:
        from grain.cli.queue.rows import as_data

        print_json([as_data(book, one.entry, time.time(), blocks) for one in found])
    else:
        _report(book, found, blocks)
    if any(one.block(blocks) is not None for one in found):
        return _NEVER
    return min(sum(one.counts.unsuccessful for one in found), _MOST + 1)


def _no_room(queue: Queue) -> str:
    """Return that the end of a job cannot be noted, as the disk is full; "" if it is not.

    The job may have filled it by its own output, and its worker waits for room, too.
    """
    from grain.queue.errors import CannotWrite

    try:
        with queue.files.prepared(bytes(_END)):
            return ""
    except CannotWrite as error:
        if error.errno not in FULL:
            return ""
        return (
            f"{queue.folder}: {os.strerror(error.errno)}. What has ended cannot be noted there "
            "until you make room; nothing is lost"
        )


def _progress(counts: Sequence[StateCounts]) -> str:
    ended, tasks = sum(one.ended for one in counts), sum(one.tasks for one in counts)
    running, failed = sum(one.running for one in counts), sum(one.unsuccessful for one in counts)
    text = f"{ended:,} of {counted(tasks, 'task')} ended, {running:,} running"
    return f"{text}, {failed:,} without success" if failed else text


def _tell_held(book: Book, found: Sequence[_Awaited], blocks: Blocks) -> None:
    """Name each job on hold, here or before one of these, and the command that releases it."""
    from grain.cli.queue.rows import job_row, number_text

    entries = {one.entry.number: one.entry for one in found}
    behind = list(entries.values())
    while behind:
        before = {number for one in behind.pop().job.after for number in one.jobs} - entries.keys()
        waited_for = [entry for one in before if (entry := book.find(one)) is not None]
        entries |= {entry.number: entry for entry in waited_for}
        behind += [entry for entry in waited_for if not entry.is_final]
    for _, entry in sorted(entries.items()):
        if not entry.is_final and not entry.running:
            row = job_row(book, entry, time.time(), blocks)
            if row.waits == "held":
                name = number_text(book.queue.name, row.number)
                text = f"job {row.number} ({row.name}) is on hold: `grain release {name}`"
                click.echo(clean(f"{text} lets it begin"), err=True)


def _report(book: Book, found: Sequence[_Awaited], blocks: Blocks) -> None:
    """Name the jobs that did not succeed, or never begin."""
    from grain.cli.queue.rows import block_text, job_row

    for one in found:
        counts = one.counts
        if (block := one.block(blocks)) is not None:
            click.echo(clean(block_text(book, one.entry, block)), err=True)
        if not counts.unsuccessful:
            continue
        row = job_row(book, one.entry, time.time(), blocks)
        end = f"{row.state}: {row.end}" if row.end else row.state
        if row.tasks > 1:
            end = (
                f"{counts.unsuccessful:,} of {counted(counts.tasks, 'task')} without success; "
                f"`grain jobs {row.number}` lists them"
            )
        click.echo(clean(f"job {row.number} ({row.name}) {end}"), err=True)
