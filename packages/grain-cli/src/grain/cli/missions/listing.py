"""``grain missions``: list the missions that `grain` has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grain.cli.batch import JobPhase
from grain.cli.columns import Column, rows_text
from grain.cli.missions.jobs import output_file
from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json, terminal_width, typed
from grain.cli.workers.submission import job_words
from grain.resource.figures import clock, minute

if TYPE_CHECKING:
    from grain.cli.mission_records import StartRecord
    from grain.cli.missions.state import State
    from grain.cli.workers.jobs import OwnJob
    from grain.config import Config

_SHOWN = 20  # that have ended
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
        most = terminal_width()
        listed = [_of_start(record, state_of(record), now) for record in read(missions_folder())]
        listed += [_of_job(job, now) for job in mission_jobs(_config_if_right(ctx, config_file))]
        # What waits and runs stands above what has ended.
        listed.sort(key=lambda one: (one.alive, one.data["started"]), reverse=True)
        alive = sum(one.alive for one in listed)
        shown = listed if everything else listed[: alive + _SHOWN]
        if as_json:
            print_json([one.data for one in shown])
            return
        nothing = (
            "no mission was started by `grain run` or `grain start` yet: `grain run -d opt.py` "
            "starts one; `grain history` lists missions that were started in another way\n"
        )
        text = rows_text("MISSIONS", _COLUMNS, shown, most, lambda one: [one.more])
        click.echo(text or nothing, nl=False)
        if hidden := len(listed) - len(shown):
            click.echo(f"and {hidden} earlier ones: grain missions --all")


class _Listed(NamedTuple):
    """A mission that is listed.

    Attributes:
        alive: True if it waits or runs.
        took: the time since it was started, as text.
        more: the line below its row.
        data: what there is to know of it, for programs.
    """

    alive: bool
    took: str
    more: str
    data: dict[str, Any]


_COLUMNS: tuple[Column[_Listed], ...] = (
    Column("NAME", lambda one: one.data["label"], least=5),
    Column("BEGAN", lambda one: one.data["started"], minute, rank=1, under="began {}"),
    Column("TOOK", lambda one: one.took, rank=1, under="took {}"),
    Column("STATE", lambda one: one.data["state"]),
    Column("HOST", lambda one: one.data["host"] or "-"),
)


def _config_if_right(ctx: click.Context, config_file: str | None) -> Config | None:
    """Return the configuration; where it is wrong print why, as missions are listed anyway."""
    from grain.config import ConfigError

    try:
        return load_config(ctx, config_file)
    except ConfigError as error:
        why = " ".join(str(error).split())
        click.echo(f"Note: the batch system is not asked for missions: {clean(why)}", err=True)
        return None


def _of_start(record: StartRecord, state: State, now: float) -> _Listed:
    """Return a mission that `grain run` has started."""
    start, process, end, alive = record.start, record.process, record.end, state.phase.alive
    seen = now if alive else max(record.alive, start.at)
    last = end.at if end is not None else seen
    command = typed(start.command)
    data = {
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
    more = command if alive else f"{command}: it {state.detail}"
    return _Listed(alive, clock(last - start.at), more, data)


def _of_job(job: OwnJob, now: float) -> _Listed:
    """Return a mission that `grain start` has submitted."""
    record, state = job
    took = clock(now - record.submitted) if job.alive else "-"
    reason = f": {state.reason}" if state.reason else ""
    more = f"{job_words(record)}{reason}; output in {output_file(record)}"
    data = {
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
    return _Listed(job.alive, took, more, data)
