"""``grain queue``: start, stop and look at the dispatcher of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from grain.cli.options import config_option, json_option
from grain.cli.plugin import chosen_config, clean, print_json, report_errors
from grain.cli.queue.opening import (
    dispatcher_host,
    dispatcher_state,
    open_queue,
    queue_errors,
    queue_option,
)

if TYPE_CHECKING:
    from grain.cli.workers.jobs import OwnJob
    from grain.queue.folder import Queue


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
      grain queue start --as-job
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped


@queue.command()
@click.option("--as-job", is_flag=True, help="As a job of the batch system, from now on.")
@click.option("--successor", is_flag=True, hidden=True)
@click.option("--dry", is_flag=True, help="Print the script of that job and submit nothing.")
@json_option
@queue_option
@config_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def start(
    ctx: click.Context,
    as_job: bool,
    successor: bool,
    dry: bool,
    as_json: bool,
    queue_name: str | None,
    config_file: str | None,
    options: tuple[str, ...],
) -> None:
    """Start a dispatcher here, if none runs.

    With --as-job, it is a job of the batch system, where login nodes end processes; what it asks
    for is in [head.script] of the configuration, with one core and 2 GB. It submits its successor
    in time. `grain queue stop` ends that. What follows `--` is for the batch system.

    \b
    Examples:
      grain queue start
      grain queue start --queue night
      grain queue start --as-job -- --qos=long
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import await_dispatcher, start_dispatcher, wake_dispatcher

    if (dry or options) and not as_job:
        raise click.UsageError("--dry and options for the batch system go with --as-job")
    config = config_file or chosen_config(ctx)
    with report_errors(), queue_errors():
        if as_job:
            opened = open_queue(queue_name, make=not dry)
            text = _start_job(opened, config, options, successor=successor, dry=dry)
        else:
            from grain.cli.jobs.as_job import choice

            opened = open_queue(queue_name, make=True)
            if state := dispatcher_state(opened):
                text = f"the dispatcher {state} already"
            elif choice(opened) is not None:
                if trouble := wake_dispatcher(opened, config):
                    raise click.ClickException(trouble)
                text = "the dispatcher is submitted as a job"
            else:
                start_dispatcher(opened, config)
                await_dispatcher(opened)
                text = "the dispatcher runs here now"
        if as_json and not dry:
            print_json(_status(opened))
        else:
            click.echo(text)


def _start_job(
    queue: Queue, config_file: str | None, options: tuple[str, ...], *, successor: bool, dry: bool
) -> str:
    """Submit the dispatcher as a job; return what the user reads.

    Args:
        successor: True if the dispatcher itself has asked for the next one.
        dry: True to return the script only.
    """
    from grain.cli.batch import WAITING
    from grain.cli.jobs.as_job import AsJob, choice, choose, jobs_of, prepare, submit
    from grain.cli.workers.submission import job_words
    from grain.cli.workers.up import refuse_words
    from grain.config import load

    refuse_words(options)
    chosen = choice(queue) if successor else None
    if successor and chosen is None:
        return "the dispatcher is not to be a job any more"
    config = load(config_file if chosen is None else chosen.config or None)
    if chosen is None:
        chosen = AsJob(config.source or "", options)
    if dry:
        system, job = prepare(queue, config, chosen)
        return system.script(job, 1).rstrip("\n")
    there = [one for one in jobs_of(queue, config) if not successor or one.state.phase in WAITING]
    if there:
        choose(queue, chosen)
        return f"the dispatcher is {job_words(there[-1].record)} of {config.system} already"
    record = submit(queue, config, chosen)
    choose(queue, chosen)
    text = f"the dispatcher is {job_words(record)} of {config.system}, output in {record.log_file}"
    if state := dispatcher_state(queue):
        text += f"; the dispatcher that {state} goes on until the new one begins"
    return text


@queue.command()
@json_option
@queue_option
def stop(as_json: bool, queue_name: str | None) -> None:
    """Stop the dispatcher. Jobs that run go on, and the others wait.

    Give the command on the host where it runs; `grain queue status` names that. If it is a job of
    the batch system, that is cancelled, and the next dispatcher is a process again.

    \b
    Examples:
      grain queue stop
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.jobs.dispatcher import stop_dispatcher

    with report_errors(), queue_errors():
        opened = open_queue(queue_name)
        text = stop_dispatcher(opened)
        if as_json:
            print_json(_status(opened))
        else:
            click.echo(text)


@queue.command()
@json_option
@queue_option
@click.pass_context
def status(ctx: click.Context, as_json: bool, queue_name: str | None) -> None:
    """Say where the dispatcher runs, and how many tasks wait and run.

    \b
    Examples:
      grain queue status
      grain queue status --json
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.cli.batch import BatchError
    from grain.cli.jobs.dispatcher import no_dispatcher, other_address

    with report_errors(), queue_errors():
        opened = open_queue(queue_name)
        if as_json:
            print_json(_status(opened))
            return
        waiting, running = _counts(opened)
        wait = "task waits" if waiting == 1 else "tasks wait"
        runs = "runs" if running == 1 else "run"
        click.echo(f"queue {opened.name}: {waiting:,} {wait}, {running:,} {runs}")
        state = dispatcher_state(opened)
        if not state:
            click.echo(no_dispatcher(opened))
            return
        click.echo(f"the dispatcher {state}")
        if trouble := other_address(opened, chosen_config(ctx)):
            click.echo(trouble)
        try:
            for one in _jobs(opened):
                click.echo(_job_line(one))
        except BatchError as error:
            click.echo(f"its batch job cannot be looked for: {clean(error.what)}")


def _counts(queue: Queue) -> tuple[int, int]:
    """Return the numbers of tasks that wait and that run."""
    from grain.queue.book import Book

    counts = [entry.counts for entry in Book.read(queue).open_entries()]
    return sum(one.pending for one in counts), sum(one.running for one in counts)


def _jobs(queue: Queue) -> list[OwnJob]:
    """Return the batch jobs of the dispatcher; none if it is not one."""
    from grain.cli.jobs.as_job import choice, jobs_of
    from grain.config import load

    chosen = choice(queue)
    return [] if chosen is None else jobs_of(queue, load(chosen.config or None))


def _job_line(job: OwnJob) -> str:
    from grain.cli.batch import WAITING
    from grain.cli.workers.submission import job_words

    words = f"{job_words(job.record)} of {job.record.system}"
    if job.state.phase in WAITING:
        return f"{words} waits, and takes over when it begins"
    node = f" on {job.state.node}" if job.state.node else ""
    return f"{words} runs{node}, output in {job.record.log_file}"


def _status(queue: Queue) -> dict[str, Any]:
    from grain.cli.jobs.as_job import as_data

    waiting, running = _counts(queue)
    return {
        "queue": queue.name,
        "folder": str(queue.folder),
        "waiting": waiting,
        "running": running,
        "dispatcher": dispatcher_host(queue),
        "jobs": as_data(_jobs(queue)),
    }
