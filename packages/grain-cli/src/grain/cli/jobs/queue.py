"""``grain queue``: start, stop and look at the dispatcher of a queue."""

from __future__ import annotations

import click

from grain.cli.options import config_option, json_option
from grain.cli.plugin import chosen_config, print_json, report_errors
from grain.cli.queue.opening import (
    dispatcher_host,
    dispatcher_state,
    open_queue,
    queue_errors,
    queue_option,
)


@click.group()
def queue() -> None:
    """Start, stop or look at the dispatcher of the queue.

    The dispatcher hands jobs to the scheduler. You need not care for it: `grain submit` starts it,
    and if it dies, the next command that uses the queue starts another one. Jobs that run go on
    meanwhile.

    \b
    Examples:
      grain queue status
      grain queue stop
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped


@queue.command()
@queue_option
@config_option
@click.pass_context
def start(ctx: click.Context, queue_name: str | None, config_file: str | None) -> None:
    """Start a dispatcher here, if none runs.

    \b
    Examples:
      grain queue start
      grain queue start --queue night
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import await_dispatcher, start_dispatcher

    with report_errors(), queue_errors():
        opened = open_queue(queue_name, make=True)
        if state := dispatcher_state(opened):
            click.echo(f"the dispatcher {state} already")
            return
        start_dispatcher(opened, config_file or chosen_config(ctx))
        await_dispatcher(opened)
        click.echo("the dispatcher runs here now")


@queue.command()
@queue_option
def stop(queue_name: str | None) -> None:
    """Stop the dispatcher. Jobs that run go on, and the others wait.

    Give the command on the host where it runs; `grain queue status` names that.

    \b
    Examples:
      grain queue stop
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import stop_dispatcher

    with report_errors(), queue_errors():
        click.echo(stop_dispatcher(open_queue(queue_name)))


@queue.command()
@json_option
@queue_option
def status(as_json: bool, queue_name: str | None) -> None:
    """Say where the dispatcher runs, and how many tasks wait and run.

    \b
    Examples:
      grain queue status
      grain queue status --json
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import no_dispatcher
    from grain.queue.book import Book

    with report_errors(), queue_errors():
        opened = open_queue(queue_name)
        book = Book.read(opened)
        counts = [entry.counts for entry in book.open_entries()]
        waiting, running = sum(one.pending for one in counts), sum(one.running for one in counts)
        if as_json:
            folder = str(opened.folder)
            print_json(
                {
                    "queue": opened.name, "folder": folder, "waiting": waiting, "running": running,
                    "dispatcher": dispatcher_host(opened),
                }
            )  # fmt: skip
            return
        wait = "task waits" if waiting == 1 else "tasks wait"
        runs = "runs" if running == 1 else "run"
        click.echo(f"queue {opened.name}: {waiting:,} {wait}, {running:,} {runs}")
        state = dispatcher_state(opened)
        click.echo(f"the dispatcher {state}" if state else no_dispatcher(opened))
