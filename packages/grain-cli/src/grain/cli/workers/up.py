"""``grain up``: submit workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from grain.cli.options import check_bridges, config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.scaling.configured import with_shape
from grain.cli.show import clean, print_json
from grain.cli.streams import announced
from grain.cli.workers.shapes import shape_option, shaped

if TYPE_CHECKING:
    from grain.cli.batch import JobRecord
    from grain.config import Config


@click.command()
@click.option(
    "-n", "count", default=1, show_default=True, metavar="N",
    type=click.IntRange(1, 100_000), help="How many jobs, each with a worker on each of its nodes.",
)  # fmt: skip
@shape_option
@click.option("--dry", is_flag=True, help="Print the script and submit nothing.")
@json_option
@config_option
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def up(
    ctx: click.Context,
    count: int,
    shape: str | None,
    dry: bool,
    as_json: bool,
    config_file: str | None,
    options: tuple[str, ...],
) -> None:
    """Submit workers, one per node.

    A job has one node, unless script.nodes says otherwise. What follows `--` is for the batch
    system.

    \b
    Examples:
      grain up --dry                  print the script of the job, submit nothing
      grain up -n 4
      grain up -s gpu -n 2            two workers of the [[shape]] gpu
      grain up -n 2 -- --exclusive
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    refuse_words(options, f"did you mean -n {options[0]}?" if options else "")
    with report_errors():
        config = load_config(ctx, config_file)
        if dry and shape is None and len(config.shape) > 1:
            for one in config.shape:
                click.echo(f"# ---- grain up -s {one.name}")
                show_script(with_shape(config, one), count, options)
            return
        config = shaped(config, shape)
        if dry:
            show_script(config, count, options)
            return
        submit(config, count, options, as_json=as_json)


def refuse_words(options: tuple[str, ...], guess: str = "") -> None:
    """Refuse options for the batch system that do not begin with a dash."""
    if options and not options[0].startswith("-"):
        number = options[0].isdecimal() and guess
        raise click.UsageError(
            f"{options[0]!r} is not an option for the batch system"
            + (f"; {guess}" if number else "")
        )


def show_script(config: Config, count: int, options: tuple[str, ...]) -> None:
    """Print the script that `submit` would submit."""
    from grain.cli.workers.submission import parts, prepare_workers

    system, job = prepare_workers(config, count, options)
    sizes = parts(config, count)
    click.echo(system.script(job, sizes[0]), nl=False)
    if len(sizes) > 1:
        text = f"the first of {len(sizes)} arrays, as this site allows {sizes[0]} tasks in one"
        click.echo(text, err=True)


def submit(config: Config, count: int, options: tuple[str, ...], *, as_json: bool) -> None:
    """Submit workers and print their jobs, also those before a refusal."""
    from grain.cli.batch import is_mark
    from grain.cli.workers.submission import job_words, submit_workers

    click.echo(using(config), err=True)
    check_bridges(config.worker.dial)
    look_back(config)
    jobs: list[JobRecord] = []
    known = True
    try:
        for record in submit_workers(config, count, options, note=_note):
            jobs.append(record)
            if not (as_json or is_mark(record.id)):
                where = f", output in {record.log_file}" if record.log_file else ""
                many = f" with {record.nodes} workers" if record.nodes > 1 else ""
                line = f"{record.name} is {job_words(record)}{many}{where}"
                if known:
                    known = announced(f"Error: {job_words(record)}", partial(click.echo, line))
                else:
                    click.echo(line, err=True)
    finally:
        if as_json:
            fields = ("id", "system", "name", "log_file", "address", "submitted", "nodes")
            answers = [{name: getattr(one, name) for name in fields} for one in jobs]
            # A script shall not take a mark for an id.
            answers = [{**one, "id": "" if is_mark(one["id"]) else one["id"]} for one in answers]
            if jobs:
                what = ", ".join(map(job_words, jobs))
                known = announced(f"Error: {what}", partial(print_json, answers))
            else:
                print_json(answers)
    if not known:
        raise SystemExit(1)


def _note(text: str) -> None:
    click.echo(f"Note: {clean(text)}", err=True)


def using(config: Config) -> str:
    """Return the sentence that names the configuration, as missions put it."""
    if config.source is None:
        return "No config file found, using default settings."
    return f"Using config file {clean(config.source)}."


def look_back(config: Config) -> None:
    """Warn if the last jobs have failed at once, and forget jobs that are long gone."""
    import time

    from grain.cli.batch import BatchError
    from grain.cli.workers.jobs import own_jobs, prune, records, warning

    if not records().read():
        return
    try:
        jobs = own_jobs(config)
        prune(records(), jobs, time.time())
    except (BatchError, OSError):
        return  # the submission that follows reports the same error
    if failure := warning(jobs):
        click.echo(f"Note: {failure}", err=True)
