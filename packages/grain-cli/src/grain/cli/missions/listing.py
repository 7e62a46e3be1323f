"""``grain missions``: list the missions that `grain` has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from grain.cli.batch import JobPhase
from grain.cli.missions.jobs import output_file
from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import Row, clean, moment, print_json, span, table, terminal_width
from grain.cli.workers.submission import job_words

if TYPE_CHECKING:
    from grain.cli.mission_records import Record, Start
    from grain.cli.missions.state import State
    from grain.cli.workers.jobs import OwnJob

_SHOWN = 20  # ended starts
_JOB_STATES = {
    JobPhase.PENDING: "waiting",
    JobPhase.RUNNING: "running",
    JobPhase.ENDING: "ending",
    JobPhase.GONE: "ended",
    JobPhase.UNKNOWN: "unknown",
}


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that ended long ago.")
@json_option
@config_option
@click.pass_context
def missions(ctx: click.Context, everything: bool, as_json: bool, config_file: str | None) -> None:
    """List missions, past and present.

    Those that `grain run` and `grain start` have started on any host that shares the home
    directory: those that run, and those of the last 30 days that have ended, with their state,
    since when, and where.

    \b
    Examples:
      grain missions
      grain attach night              the output of one
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        import time

        from grain.cli.mission_records import missions_folder, read
        from grain.cli.missions.jobs import mission_jobs
        from grain.cli.missions.starting import state_of

        now = time.time()
        started = [(record, state_of(record)) for record in read(missions_folder())]
        started.sort(key=lambda one: (one[1].phase.alive, one[0].start.at), reverse=True)
        alive = sum(state.phase.alive for _, state in started)
        shown = started if everything else started[: alive + _SHOWN]
        jobs = mission_jobs(load_config(ctx, config_file))
        jobs = [job for job in reversed(jobs) if everything or job.alive]
        if as_json:
            print_json([as_data(*one) for one in shown] + [_job_data(job) for job in jobs])
            return
        rows = [_row(record, state, now) for record, state in shown]
        rows += [_job_row(job, now) for job in jobs]
        text = table(
            "MISSIONS", ["NAME", "STATE", "STARTED", "FOR", "HOST"], rows, terminal_width()
        )
        click.echo(
            text or "no mission was started yet: `grain run -d opt.py` starts one\n", nl=False
        )
        if hidden := len(started) - len(shown):
            click.echo(f"and {hidden} earlier ones: grain missions --all")


def as_data(record: Record, state: State) -> dict[str, Any]:
    """Return a start and its state as plain data, for programs."""
    start, process, end = record.start, record.process, record.end
    return {
        "name": start.name,
        "label": record.label,
        "state": state.phase.value,
        "detail": state.detail,
        "started": start.at,
        "ended": end.at if end is not None else None,
        "status": end.status if end is not None else None,
        "host": process.host if process is not None else "",
        "pid": process.pid if process is not None else None,
        "detached": start.detached,
        "command": list(start.command),
        "directory": start.directory,
        "output": str(record.output) if start.detached else "",
    }


def _job_data(job: OwnJob) -> dict[str, Any]:
    record, state = job
    return {
        "name": record.name,
        "label": record.name,
        "state": _JOB_STATES[state.phase],
        "detail": state.reason,
        "started": record.submitted,
        "ended": None,
        "status": None,
        "host": state.node,
        "pid": None,
        "detached": True,
        "command": [],
        "directory": "",
        "output": record.log_file,
        "job": record.id,
    }


def _job_row(job: OwnJob, now: float) -> Row:
    record, state = job
    length = span(now - record.submitted) if job.alive else "-"
    cells = [
        record.name, _JOB_STATES[state.phase], moment(record.submitted), length, state.node or "-"
    ]  # fmt: skip
    reason = f": {state.reason}" if state.reason else ""
    return Row(cells, [f"{job_words(record)}{reason}; output in {output_file(record)}"])


def _row(record: Record, state: State, now: float) -> Row:
    start, end = record.start, record.end
    seen = now if state.phase.alive else max(record.alive, start.at)
    last = end.at if end is not None else seen
    host = record.process.host if record.process is not None else "-"
    cells = [record.label, state.phase.value, moment(start.at), span(last - start.at), host]
    command = " ".join(map(clean, typed(start)))
    more = [command] if state.phase.alive else [f"{command}: it {state.detail}"]
    return Row(cells, more)


def typed(start: Start) -> tuple[str, ...]:
    """Return the command line of a start as a user types it, without the interpreter."""
    if "grain.cli" in start.command[:4]:  # `grain map -d`
        return ("grain", *start.command[start.command.index("grain.cli") + 1 :])
    return start.command[1:] if start.program.endswith(".py") else start.command
