"""``grain drain``: let workers go."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from grain.cli import completion
from grain.cli.options import config_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.show import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.workers.jobs import OwnJob
    from grain.config import Config
    from grain.facts.rows import Worker

_LISTED = 20  # names at most in a message


_WILD = frozenset("*?[")


@click.command()
@click.option(
    "-f", "--force", is_flag=True, help="Now: what runs there is ended, and runs again elsewhere."
)
@patience_option
@config_option
@click.argument("pattern", metavar="PATTERN", required=False, shell_complete=completion.workers)
@click.pass_context
def drain(
    ctx: click.Context, force: bool, patience: float, config_file: str | None, pattern: str | None
) -> None:
    """Let workers go.

    Workers go whose names, or whose jobs' names, match a PATTERN, as for files. They take no more
    tasks, and leave when their tasks are done. Jobs that wait in the batch system are cancelled.
    Where several workers have one name, each goes by name@1, name@2 and so on, as `grain ls` shows
    them.

    \b
    Examples:
      grain drain w093015-0
      grain drain '*'                  all of them, when their tasks are done
      grain drain -f 'w09*'            at once; their tasks run again elsewhere
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.batch import BatchError
        from grain.cli.query import NoScheduler, ask, ask_state
        from grain.edge.questions import Ask
        from grain.facts.rows import Worker

        config = load_config(ctx, config_file)
        if pattern is None:
            raise click.UsageError(_missing(config, patience))
        absent: NoScheduler | None = None
        workers: list[Worker] = []
        try:
            if not set(pattern) & _WILD:
                state = ask_state(config, patience=patience)
                refuse_ambiguous(state.workers, pattern)
            for name in (pattern, *_of_several_nodes(pattern)):
                question = Ask("drain", pattern=name, at_once=force)
                workers += ask(config, question, list[Worker], patience=patience)
        except NoScheduler as error:
            absent = error
        for worker in workers:
            name = clean(worker.label)
            click.echo(f"{name} on {clean(worker.host)}: {_farewell(worker, force)}")
        try:
            jobs = unjoined(config, pattern, {worker.name for worker in workers})
        except BatchError as error:
            if not workers:
                raise
            raise click.ClickException(f"jobs that wait were not looked for: {error}") from None
        done = list(_end(config, jobs, force))
        for line in done:
            click.echo(line)
        if absent is not None and not done:
            raise absent
        if not workers and not jobs:
            raise click.ClickException(f"no worker's name matches {pattern!r}; see `grain ls`")


def _of_several_nodes(pattern: str) -> list[str]:
    """Return the pattern for the workers of matching jobs, where one has several; else none."""
    from grain.cli.workers.jobs import records

    jobs = [one for one in records().read() if one.nodes > 1 and one.kind == "worker"]
    # A pattern that matches the name of a worker, as `*`, has it let go already.
    several = any(
        fnmatchcase(one.name, pattern) and not fnmatchcase(f"{one.name}.0", pattern) for one in jobs
    )
    return [f"{pattern}.*"] if several else []


def refuse_ambiguous(workers: list[Worker], name: str) -> None:
    """Refuse a name, without a wildcard, that several workers have."""
    same = [worker for worker in workers if worker.name == name]
    if len(same) > 1:
        which = ", ".join(f"{clean(one.label)} on {clean(one.host)}" for one in same)
        raise click.ClickException(
            f"{len(same)} workers are called {name!r}: {which}; "
            f"`grain drain '{clean(name)}@*'` lets all of them go"
        )


def _missing(config: Config, patience: float) -> str:
    """Return the message for a command line without a pattern, which lists the workers."""
    from grain.cli.batch import BatchError
    from grain.cli.query import state_if_any

    state = state_if_any(config, patience=patience)
    names = [] if state is None else completion.here(state)
    with suppress(BatchError):
        names += [job.record.name for job in unjoined(config, "*", set(names))]
    if not names:
        return "no worker is here, and none waits for its job; `grain up` submits some"
    listed = ", ".join(clean(name) for name in names[:_LISTED])
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"name the workers, as in: grain drain {clean(names[0])}; there are: {listed}{more}"


def _farewell(worker: Worker, force: bool) -> str:
    count = worker.running
    tasks = "1 task" if count == 1 else f"{count} tasks"
    later = " once it is back" if worker.state == "away" else ""
    if not count:
        return f"leaves{later}"
    if force:
        return f"leaves now{later}; {tasks} will run again elsewhere"
    return f"leaves{later}, when {tasks} {'has' if count == 1 else 'have'} ended"


def unjoined(config: Config, pattern: str, joined: set[str]) -> list[OwnJob]:
    """List the jobs of matching workers that have not joined the scheduler.

    Raises:
        BatchError: the batch system does not answer.
    """
    from grain.cli.batch import JobPhase, submitted_names
    from grain.cli.workers.jobs import own_jobs, records

    joined = submitted_names(joined)
    matches = [one for one in records().read() if fnmatchcase(one.name, pattern)]
    if all(one.name in joined for one in matches):
        return []
    return [
        job
        for job in own_jobs(config)
        if job.alive
        and job.state.phase is not JobPhase.UNKNOWN
        and job.record.name not in joined
        and fnmatchcase(job.record.name, pattern)
    ]


def _end(config: Config, jobs: list[OwnJob], force: bool) -> Iterator[str]:
    """Cancel waiting jobs; running ones only by force, or where a signal is gentle."""
    from grain.cli.batch import WAITING, open_system
    from grain.cli.workers.submission import job_words

    for job in jobs:
        what = f"{clean(job.record.name)}: {job_words(job.record)}"
        pending = job.state.phase in WAITING
        local = job.record.system == "local"
        if not (pending or local or force):
            yield (
                f"{what} runs, but is not with the scheduler (yet); "
                f"`grain drain -f {clean(job.record.name)}` cancels it"
            )
            continue
        open_system(config).cancel([job.record.id])
        yield f"{what} {'waited and is cancelled' if pending else 'is asked to end'}"
