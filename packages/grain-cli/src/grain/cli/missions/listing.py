"""``grain missions``: list the missions that `grain` has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grain.cli.batch import JobPhase
from grain.cli.missions.jobs import output_file
from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import NARROW, Row, clean, minute, print_json, table, terminal_width, typed
from grain.cli.workers.submission import job_words
from grain.resource.figures import clock

if TYPE_CHECKING:
    from grain.cli.mission_records import StartRecord
    from grain.cli.missions.state import State
    from grain.cli.workers.jobs import OwnJob
    from grain.config import Config

_SHOWN = 20  # that have ended
_NARROWEST = 40  # columns of a terminal
_JOB_STATES = {
    JobPhase.PENDING: "waiting",
    JobPhase.STUCK: "waiting",
    JobPhase.RUNNING: "running",
    JobPhase.ENDING: "ending",
    JobPhase.GONE: "ended",
    JobPhase.UNKNOWN: "unknown",
}


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also missions that ended long ago.")
@json_option
@config_option
@click.pass_context
def missions(ctx: click.Context, everything: bool, as_json: bool, config_file: str | None) -> None:
    """List missions that can be followed, ended or resumed.

    These are the missions that `grain run` and `grain start` have started on any host that shares
    the home directory: the running ones, and those that ended within the last 30 days, with their
    state, since when, and where. `grain history` lists all missions, however they were started,
    with what they have done; names and states are the same there.

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
        most = terminal_width(_NARROWEST)
        narrow = most < NARROW
        started = [
            _Listed(
                state.phase.alive,
                record.start.at,
                _row(record, state, now, narrow=narrow),
                as_data(record, state),
            )
            for record in read(missions_folder())
            for state in [state_of(record)]
        ]
        submitted = [
            _Listed(
                job.alive, job.record.submitted, _job_row(job, now, narrow=narrow), _job_data(job)
            )
            for job in mission_jobs(_config_if_right(ctx, config_file))
        ]
        # What waits and runs stands above what has ended.
        listed = sorted(started + submitted, key=lambda one: (one.alive, one.at), reverse=True)
        alive = sum(one.alive for one in listed)
        shown = listed if everything else listed[: alive + _SHOWN]
        if as_json:
            print_json([one.data for one in shown])
            return
        heads = ("NAME", "STATE", "HOST") if narrow else _HEADS
        nothing = (
            "no mission was started by `grain run` or `grain start` yet: `grain run -d opt.py` "
            "starts one; `grain history` lists missions that were started in another way\n"
        )
        rows = [one.row for one in shown]
        click.echo(table("MISSIONS", heads, rows, most) or nothing, nl=False)
        if hidden := len(listed) - len(shown):
            click.echo(f"and {hidden} earlier ones: grain missions --all")


class _Listed(NamedTuple):
    """A mission: whether it waits or runs, when it was started, and how it is shown."""

    alive: bool
    at: float
    row: Row
    data: dict[str, Any]


def _config_if_right(ctx: click.Context, config_file: str | None) -> Config | None:
    """Return the configuration; where it is wrong print why, as missions are listed anyway."""
    from grain.config import ConfigError

    try:
        return load_config(ctx, config_file)
    except ConfigError as error:
        why = " ".join(str(error).split())
        click.echo(f"Note: the batch system is not asked for missions: {clean(why)}", err=True)
        return None


def as_data(record: StartRecord, state: State) -> dict[str, Any]:
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


def _job_row(job: OwnJob, now: float, *, narrow: bool) -> Row:
    record, state = job
    length = clock(now - record.submitted) if job.alive else "-"
    began, node = minute(record.submitted), state.node or "-"
    reason = f": {state.reason}" if state.reason else ""
    more = [f"{job_words(record)}{reason}; output in {output_file(record)}"]
    return _columns(record.name, began, length, _JOB_STATES[state.phase], node, more, narrow=narrow)


def _row(record: StartRecord, state: State, now: float, *, narrow: bool) -> Row:
    start, end = record.start, record.end
    seen = now if state.phase.alive else max(record.alive, start.at)
    last = end.at if end is not None else seen
    host = record.process.host if record.process is not None else "-"
    began, took, name = minute(start.at), clock(last - start.at), record.label
    command = typed(start.command)
    more = [command] if state.phase.alive else [f"{command}: it {state.detail}"]
    return _columns(name, began, took, state.phase.value, host, more, narrow=narrow)


_HEADS = ("NAME", "BEGAN", "TOOK", "STATE", "HOST")


def _columns(
    name: str, began: str, took: str, state: str, host: str, more: list[str], *, narrow: bool
) -> Row:
    if narrow:
        return Row((name, state, host), [f"began {began}, took {took}", *more])
    return Row((name, began, took, state, host), more)
