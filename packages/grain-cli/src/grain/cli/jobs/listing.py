"""``grain jobs``: list the jobs of the queue."""

from __future__ import annotations

import sys
import time

import click

from grain.cli import completion
from grain.cli.options import json_option
from grain.cli.plugin import chosen_config, print_json, report_errors
from grain.cli.queue.opening import queue_errors, queue_option, queue_with_jobs, warn_of_damage
from grain.cli.show import terminal_width

_RECENT = 86400.0  # seconds since the end of a job, until a plain list leaves it out


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that ended long ago.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a table of tasks with their outputs.")
@json_option
@queue_option
@click.argument("words", nargs=-1, metavar="[JOB...]", shell_complete=completion.queued)
@click.pass_context
def jobs(
    ctx: click.Context,
    everything: bool,
    as_csv: bool,
    as_json: bool,
    queue_name: str | None,
    words: tuple[str, ...],
) -> None:
    """List jobs, or the tasks of one job.

    Without a name, these are the jobs that wait or run, and those that ended within a day. The list
    needs no dispatcher.

    \b
    Examples:
      grain jobs
      grain jobs 12             the tasks of job 12
      grain jobs night:12-20    jobs of queue night
      grain jobs --json all     for programs
      grain jobs --csv 12 > results.csv
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors(), queue_errors():
        from grain.cli.jobs.dispatcher import dispatcher_text
        from grain.cli.queue.fitting import blocks_of
        from grain.cli.queue.rows import as_data, job_row, jobs_text, task_rows, tasks_text
        from grain.queue.book import Book
        from grain.queue.folder import DEFAULT, queue_folder
        from grain.queue.selectors import Selected

        if not words and queue_name is None and not queue_folder().exists():
            click.echo("[]" if as_json else _nothing(DEFAULT, 0, named=False))
            return
        queue, chosen = queue_with_jobs(words, queue_name)
        book = Book.read(queue)
        now = time.time()
        if words or everything:
            ranges = [(one.first, one.last) for one in chosen] or [(1, book.next_job - 1)]
            numbers = sorted({n for first, last in ranges for n in range(first, last + 1)})
            # Those that were removed long after their ends are left out.
            entries = [entry for number in numbers if (entry := book.find(number)) is not None]
            warn_of_damage(book)
        else:
            entries = [
                entry
                for entry in book.entries.values()
                if not entry.is_final or entry.ended > now - _RECENT
            ]
        # Whoever asks for jobs that wait makes sure that they are taken.
        waits = not all(entry.is_final for entry in entries)
        hint = dispatcher_text(queue, chosen_config(ctx)) if waits else ""
        blocks = blocks_of(book, chosen_config(ctx))
        if as_csv:
            from grain.cli.jobs.csv_table import table_lines
            from grain.cli.streams import write_data

            if as_json:
                raise click.UsageError("--csv and --json exclude each other")
            meant = chosen or [Selected(one.number, one.number) for one in entries]
            for line in table_lines(queue, book, entries, meant, now, blocks):
                write_data(line)
            return
        if as_json:
            print_json([as_data(book, entry, now, blocks) for entry in entries])
            return
        if not entries:
            click.echo(_nothing(queue.name, book.next_job - 1, named=bool(words)))
            return
        width = terminal_width() if sys.stdout.isatty() else None
        if len(chosen) == 1 and chosen[0].first == chosen[0].last:
            [entry] = entries
            rows = task_rows(book, entry, chosen[0], now, blocks)
            text = tasks_text(entry.number, entry.job.name, rows, width)
        else:
            job_rows = [job_row(book, entry, now, blocks) for entry in entries]
            text = jobs_text(queue.name, job_rows, width)
        click.echo(text, nl=False)
        if hint:
            click.echo(hint)


def _nothing(name: str, last: int, *, named: bool) -> str:
    if named:
        return "these jobs ended long ago, and their files were removed"
    if not last:
        return f"no jobs are in queue {name}: `grain submit` puts one there"
    return "no jobs wait or run, and none has ended within a day: `grain jobs --all` lists others"
