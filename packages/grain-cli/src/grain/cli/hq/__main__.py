"""``python -m grain.cli.hq [WORDS]``: the command ``hq``, as tools call it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from grain.cli.hq import answers
from grain.cli.hq.submission import options_of_submit
from grain.cli.jobs.submission import directives, read_script, submit_options
from grain.cli.plugin import report_errors
from grain.cli.queue.cancelling import cancel_jobs
from grain.cli.queue.opening import open_queue, queue_errors, selected, warn_of_damage
from grain.cli.queue.submission import SubmittedFrom, make_job
from grain.cli.show import one_line
from grain.cli.slurm.reading import revive_dispatcher, wake_dispatcher
from grain.cli.streams import announced, harmless_streams, open_missing, write_answer
from grain.queue.book import Book
from grain.queue.folder import DEFAULT, queue_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.queue.book import Entry
    from grain.queue.folder import Queue


def main(words: Sequence[str]) -> int:
    """Run a command, and return its exit status."""
    open_missing()
    with harmless_streams():
        return _run(words)


def _run(words: Sequence[str]) -> int:
    chosen = SimpleNamespace(mode="cli")
    try:
        with report_errors(), queue_errors():
            # It is None at the end of a command, else the status with which that has left.
            code = hq.main(list(words), prog_name="hq", obj=chosen, standalone_mode=False)
    except click.Abort:  # Ctrl-C
        return 130
    except click.ClickException as error:
        if chosen.mode == "json" and not isinstance(error, click.UsageError):
            said = json.dumps({"error": error.format_message()}, indent=2)
            if write_answer("Error:", f"{said}\n") is None:
                return error.exit_code
        with suppress(OSError):
            error.show()
        return error.exit_code
    return code or 0


def with_mode(function: Callable[..., Any], variable: str | None = None) -> Callable[..., Any]:
    """Add ``--output-mode``, which may stand before and after each command."""

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value:
            ctx.obj.mode = value

    return click.option(
        "--output-mode", type=click.Choice(["cli", "json", "quiet"]), callback=keep,
        envvar=variable, expose_value=False, is_eager=True,
    )(function)  # fmt: skip


@click.group()
@click.version_option("0.26.2", prog_name="hq", message="%(prog)s %(version)s")
def hq() -> None:
    """Submit jobs to the queue of Grain as `hq` of HyperQueue does.

    It is for tools, and has four commands; `grain submit`, `grain jobs` and others have more.
    """


with_mode(hq, "HQ_OUTPUT_MODE")


@hq.group()
@with_mode
def job() -> None:
    """List and cancel jobs."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--name")
@click.option("--cwd")
@click.option("--stdout")
@click.option("--stderr")
@click.option("--stream")
@click.option("--cpus")
@click.option("--resource", multiple=True)
@click.option("--time-limit")
@click.option("--time-request")
@click.option("--priority", type=int)
@click.option("--env", multiple=True)
@click.option("--pin")
@click.option("--crash-limit")
@click.option("--directives", "where", type=click.Choice(["auto", "file", "off"]), default="auto")
@with_mode
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_context
def submit(ctx: click.Context, /, words: tuple[str, ...], where: str, **given: Any) -> None:
    """Put a job into the queue, and print its number."""
    around = SubmittedFrom.here()
    script, name = read_script(words[0], given["cwd"]), ""
    if script:
        name, *left = words
        words = tuple(left)
        if where == "file" or (where == "auto" and name.endswith(".sh")):
            of_script = directives(script, "#HQ")
            inner = submit.make_context("#HQ", [*of_script, name], parent=ctx).params
            given = {
                option: (*inner[option], *value)
                if isinstance(value, tuple)
                else value or inner[option]
                for option, value in given.items()
            }
    options = submit_options(options_of_submit(given, around.directory), around)
    made = make_job(options, around, words=words, script=script, script_name=name)
    queue = open_queue(_name(), make=True)
    number = queue.submit(made)
    wake_dispatcher(queue)
    said = {"id": number}, str(number), f"Job submitted successfully, job ID: {number}"
    if not announced(f"Error: job {number}", partial(sys.stdout.write, _text(ctx, *said))):
        ctx.exit(1)


hq.add_command(submit)
job.add_command(submit)


@job.command(name="list")
@click.option("--all", "everything", is_flag=True)
@click.option("--filter", "states", default="")
@with_mode
@click.pass_context
def list_(ctx: click.Context, everything: bool, states: str) -> None:
    """List jobs that wait or run, or those in some states, as in `--filter failed,canceled`."""
    wanted = {word for word in states.lower().split(",") if word} or {"waiting", "running"}
    if wrong := wanted.difference(answers.STATUSES):
        raise click.UsageError(f"{min(wrong)} is not one of {', '.join(answers.STATUSES)}")
    found = [
        entry
        for entry in _entries()
        if (everything and not states) or answers.status(entry) in wanted
    ]
    lines = [f"{entry.number} {answers.status(entry).upper()}" for entry in found]
    named = [f"{line} {one_line(entry.job.name)}" for line, entry in zip(lines, found, strict=True)]
    _say(ctx, [answers.info(entry) for entry in found], "\n".join(lines), "\n".join(named))


@job.command()
@with_mode
@click.argument("jobs")
@click.pass_context
def info(ctx: click.Context, jobs: str) -> None:
    """Show jobs, as 12, 12-20,25, last or all; with --output-mode=json only."""
    queue = open_queue(_name())
    book = _read(queue)
    numbers = [n for one in selected(queue, [jobs]) for n in range(one.first, one.last + 1)]
    found = [answers.detail(entry) for number in numbers if (entry := book.find(number))]
    warn_of_damage(book)
    _say(ctx, found, "", "\n".join(json.dumps(one, indent=2) for one in found))


@job.command()
@click.option("--reason", default="")
@with_mode
@click.argument("jobs")
@click.pass_context
def cancel(ctx: click.Context, jobs: str, reason: str) -> None:
    """Cancel jobs, as 12, 12-20,25, last or all."""
    queue = open_queue(_name())
    cancelled = cancel_jobs(queue, selected(queue, [jobs]), reason)
    _say(ctx, {}, "", "\n".join(one.text for one in cancelled))


def _name() -> str:
    return os.environ.get("GRAIN_QUEUE") or DEFAULT


def _entries() -> list[Entry]:
    """Return the jobs that are not packed; none if nothing was ever submitted."""
    if not queue_folder(_name()).exists():
        return []
    return list(_read(open_queue(_name())).entries.values())


def _read(queue: Queue) -> Book:
    """Return the book of a queue; jobs that wait are taken from now on."""
    book = Book.read(queue)
    if book.open_entries():
        revive_dispatcher(queue)
    return book


def _say(ctx: click.Context, data: object, quiet: str, text: str) -> None:
    """Print an answer in the output mode that was chosen."""
    lost = write_answer("Error:", _text(ctx, data, quiet, text))
    if lost is not None:
        ctx.exit(lost)


def _text(ctx: click.Context, data: object, quiet: str, text: str) -> str:
    """Return an answer in the output mode that was chosen; "" if there is nothing to print."""
    mode = ctx.obj.mode
    said = quiet if mode == "quiet" else text
    if mode == "json":
        said = json.dumps(data, indent=2)
    return said and f"{said}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
