"""``grain ls``: list workers, missions, and waiting tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from grain.cli.options import config_option, json_option, load_config, patience_option, source_text
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json, terminal_width

if TYPE_CHECKING:
    from grain.cli.workers.jobs import OwnJob
    from grain.edge.questions import StateAnswer


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Each worker, however many.")
@json_option
@patience_option
@config_option
@click.pass_context
def ls(
    ctx: click.Context, everything: bool, as_json: bool, patience: float, config_file: str | None
) -> None:
    """List workers, missions, and what waits and why.

    Of more than 20 workers it has a summary, by state and size; --all lists each.

    \b
    Examples:
      grain ls
      watch -n 5 grain ls
      grain ls --json | jq '.tasks'
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.batch import state_folder, submitted_names
        from grain.cli.local_missions import local_missions, local_missions_text
        from grain.cli.query import NobodyThere, NoScheduler, ask_state
        from grain.cli.queue.tickets import with_jobs
        from grain.cli.status.ls_text import jobs_text, scaling_text, state_text
        from grain.cli.workers.jobs import BackgroundQuery, own_jobs, warning
        from grain.cli.workers.scaling_state import read_state

        config = load_config(ctx, config_file)
        scaling = read_state(state_folder(), config.worker.dial)
        looking = BackgroundQuery(lambda: own_jobs(config, hurry=True))
        try:
            state = with_jobs(ask_state(config, patience=patience))
        except NoScheduler as error:
            # Hosts are given up one by one, and a batch system that is down as a whole.
            jobs, problem = looking.wait(5.0 if config.system == "ssh" else 1.0)
            if as_json:
                raise
            width = terminal_width()
            text = scaling_text(scaling, width) + jobs_text(
                alive(jobs), set(), width, everything=everything
            )
            click.echo(text, nl=False)
            if problem:
                click.echo(f"Note: jobs are not shown: {problem}", err=True)
            elif quiet := silent(jobs):
                click.echo(f"Note: {quiet}", err=True)
            if not alive(jobs) or not isinstance(error, NobodyThere):
                raise
            # As it is after `grain up` and before the first mission.
            click.echo("No scheduler runs yet: the first mission starts it, and workers join it.")
            if beside := local_missions_text(local_missions(config)):
                click.echo(f"Besides, {beside}.")
            return
        jobs, problem = looking.wait(5.0)
        if as_json:
            place = {"address": config.worker.cli_dial, "config": config.source}
            others = [one.data() for one in local_missions(config, state.missions)]
            data = {**place, "jobs": plain(alive(jobs)), "scaling": scaling, "alone": others}
            print_json({**state_data(state), **data})
            return
        here = submitted_names(worker.name for worker in state.workers)
        most = terminal_width()
        demand = scaling_text(scaling, most)
        click.echo(
            state_text(state, most, everything=everything)
            + demand
            + jobs_text(alive(jobs), here, most, everything=everything)
        )
        click.echo(f"The scheduler is at {clean(config.worker.cli_dial)}; {source_text(config)}.")
        if beside := local_missions_text(local_missions(config, state.missions)):
            click.echo(f"Beside it, {beside}.")
    if problem:
        click.echo(f"Note: jobs are not shown: {problem}", err=True)
    elif quiet := silent(jobs):
        click.echo(f"Note: {quiet}", err=True)
    elif failure := warning(jobs):
        click.echo(f"Note: {failure}", err=True)


def alive(jobs: list[OwnJob]) -> list[OwnJob]:
    """Return the jobs that have not ended, as far as the batch system knows."""
    from grain.cli.batch import JobPhase

    return [job for job in jobs if job.alive and job.state.phase is not JobPhase.UNKNOWN]


def silent(jobs: list[OwnJob]) -> str:
    """Return a sentence on the hosts that did not answer for their jobs; "" if all did."""
    from grain.cli.batch import JobPhase

    states = [job.state for job in jobs]
    unknown = {one.node: one for one in states if one.phase is JobPhase.UNKNOWN and one.node}
    if not unknown:
        return ""
    count = sum(one.node in unknown for one in states)
    hosts = "; ".join(f"{host}: {one.reason}" for host, one in sorted(unknown.items()))
    return clean(f"{count} job{'s' * (count != 1)} not shown: {hosts}")


def plain(jobs: list[OwnJob]) -> list[dict[str, Any]]:
    """Convert jobs to plain data."""
    return [
        {
            "id": job.record.id,
            "name": job.record.name,
            "state": job.state.phase.value,
            "reason": job.state.reason,
            "node": job.state.node,
            "submitted": job.record.submitted,
            "log_file": job.record.log_file,
        }
        for job in jobs
    ]


def state_data(state: StateAnswer) -> dict[str, Any]:
    """Return an answer as plain data, each row with the fields that ``--json`` has always had."""
    import msgspec

    tables = {
        name: [{field: getattr(row, _NAMED.get(field, field)) for field in fields} for row in rows]
        for name, fields in _FIELDS.items()
        for rows in [getattr(state, name)]
    }
    data: dict[str, Any] = {**msgspec.to_builtins(state), **tables}
    plain: dict[str, Any] = msgspec.to_builtins(data)
    return plain


_NAMED = {"at": "ended"}
_FIELDS = {
    "workers": (
        "id", "name", "label", "host", "cluster", "state", "backlog", "total", "free", "used",
        "left", "running", "computing", "tasks", "versions",
    ),
    "missions": (
        "done", "failed", "retried", "id", "name", "label", "host", "connected", "unconfirmed",
        "unconfirmed_bytes", "paused", "running", "waiting", "versions", "number",
    ),
    "queues": (
        "request", "interpreter", "mission", "priority", "waiting", "running", "oldest", "never",
        "why",
    ),
    "ended": ("name", "host", "at", "done", "failed", "retried"),
}  # fmt: skip
