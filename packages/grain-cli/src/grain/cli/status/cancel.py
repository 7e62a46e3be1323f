"""``grain cancel``: end a mission, or one task of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import click

from grain.cli import completion
from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import print_json, report_errors
from grain.cli.queue.cancelling import cancel_jobs, jobs_named
from grain.cli.queue.opening import queue_errors, queue_option
from grain.cli.show import clean

if TYPE_CHECKING:
    from pathlib import Path

    from grain.cli.local_missions import LocalMission
    from grain.cli.mission_records import StartRecord
    from grain.config import Config
    from grain.facts.rows import Mission


@click.command()
@click.option("-y", "--yes", is_flag=True, help="End a mission without asking.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for lists of jobs.")
@json_option
@queue_option
@patience_option
@config_option
@click.argument(
    "words", metavar="NAME[:NUMBER] | JOB...", nargs=-1, shell_complete=completion.tasks
)
@click.pass_context
def cancel(
    ctx: click.Context,
    yes: bool,
    reason: str,
    as_json: bool,
    queue_name: str | None,
    patience: float,
    config_file: str | None,
    words: tuple[str, ...],
) -> None:
    """End a mission, one task of it, or jobs of the queue.

    Both are named as `grain ls` names them, or a mission as `grain missions` does. A mission ends
    as by Ctrl-C: its tasks and their programs end, and then itself; the command asks before it does
    so. A mission that has only its local worker gets SIGTERM, on its host. A task ends without a
    question, and the code that awaits it gets an exception that says who has cancelled it. So does
    a job: what waits never begins.

    \b
    Examples:
      grain cancel opt:17      one task
      grain cancel opt         the whole mission
      grain cancel -y opt@2    without a question
      grain cancel 12          job 12
      grain cancel 12_3,14-20  task 3 of array 12, and jobs
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors(), queue_errors():
        named = [jobs_named(word, queue_name) for word in words]
        if named and all(named):
            done = [one for jobs in named if jobs for one in cancel_jobs(*jobs, reason)]
            if as_json:
                print_json([one._asdict() for one in done])
            else:
                for one in done:
                    click.echo(one.text)
            return
    if len(words) > 1:
        raise click.UsageError(
            "name several jobs of the queue, as 12 14-20, or one mission or task"
        )
    if as_json:
        raise click.UsageError("--json is for jobs of the queue")
    what = words[0] if words else None
    _cancel_mission(ctx, what, yes=yes, patience=patience, config_file=config_file)


def _cancel_mission(
    ctx: click.Context, what: str | None, *, yes: bool, patience: float, config_file: str | None
) -> None:
    """End a mission, or one task of it."""
    mission, task = parse(what) if what is not None else ("", 0)
    with report_errors():
        from grain.cli.mission_names import id_of
        from grain.cli.query import NoScheduler
        from grain.files.processes import user_and_host

        config = load_config(ctx, config_file)
        if what is None:
            raise click.UsageError(_missing(config, patience))
        record = None
        if (unasked := _local_mission(config, mission, patience)) is not None:
            click.echo(_end_local_mission(unasked, task, yes=yes))
            return
        meant = id_of(config, mission)
        if meant != mission:
            _refuse_several(config, mission, meant, patience)
        if task:
            mission = meant
        else:
            name, record = _whose(config, mission, meant, patience)
            if not name:
                click.echo(_end_started(config, mission, yes=yes))
                return
            try:
                mission = _confirmed(config, name, patience, yes=yes)
            except NoScheduler as error:
                if record is not None:
                    raise
                raise NoScheduler(
                    f"`grain` has started no mission {clean(mission)}, and {error}"
                ) from None
        # Before: the program may end, and with an exit status of its own, before this goes on.
        note = None if record is None else _note(record)
        try:
            found, state = _put(config, "cancel", mission, patience, task=task, by=user_and_host())
        except BaseException:
            if note is not None:
                note.unlink(missing_ok=True)
            raise
    label = clean(found.label)
    if task:
        was = "ran, and its programs end" if state == "running" else "waited"
        click.echo(f"task {label}:{task} is cancelled; it {was}")
    elif found.connected:
        click.echo(f"mission {label} is told to end; {_tasks(found)} end with it")
    else:
        click.echo(
            f"mission {label} is away: {_tasks(found)} end now, and the mission when it comes back"
        )


def parse(what: str) -> tuple[str, int]:
    """Return the mission and the number of the task, 0 for the whole mission."""
    mission, _, number = what.rpartition(":")
    if mission and number.isdecimal() and len(number) <= 18 and int(number):
        return mission, int(number)
    if not what or what.endswith(":") or what.startswith(":"):
        raise click.UsageError(f"{what!r} is neither a mission nor a task; `grain ls` names them")
    return what, 0


def _refuse_several(config: Config, word: str, meant: str, patience: float) -> None:
    """Refuse a name that another mission here has besides the one that logs tell of.

    The log of a mission that has just begun may not be on the disk yet: its scheduler knows it.
    """
    from grain.cli.query import state_if_any

    if meant.startswith(word):  # an id
        return
    state = state_if_any(config, patience=patience)
    here = [] if state is None else state.missions
    _refuse_if_several(word, [_listed(one) for one in here if one.connected and one.name == word])


def _listed(one: Mission) -> str:
    return f"{one.label} (id {one.id[:8]}, on {one.host})"


def _refuse_if_several(word: str, missions: list[str]) -> None:
    from grain.eventlog.store import several_run

    if len(missions) > 1:
        raise click.ClickException(clean(several_run(word, missions, len(missions))))


def _local_mission(config: Config, word: str, patience: float) -> LocalMission | None:
    """Return the mission that a word means, if no scheduler has it; else None.

    Raises:
        click.ClickException: several missions that run are meant.
    """
    from grain.cli.local_missions import local_missions, named
    from grain.cli.mission_names import start_of, starts
    from grain.cli.mission_records import find
    from grain.cli.query import state_if_any

    if not named(local_missions(config, ()), word):
        return None
    state = state_if_any(config, patience=patience)
    here = None if state is None else state.missions
    found = named(local_missions(config, here), word)
    if not found:
        return None
    others = [_listed(one) for one in here or () if one.goes_by(word)]
    _refuse_if_several(word, [*others, *(one.label for one in found)])
    # A mission of `grain run` has the state of its start besides.
    start = start_of(found[0].log)
    return None if start is not None and find(starts(), word) == start else found[0]


def _end_local_mission(mission: LocalMission, task: int, *, yes: bool) -> str:
    """End a mission that no scheduler has; return a sentence for the user.

    Raises:
        click.ClickException: a task is meant, or its process cannot be reached.
    """
    from grain.cli.local_missions import end
    from grain.cli.show import typed

    name = clean(mission.header.name)
    if task:
        raise click.ClickException(
            f"mission {name} has only its local worker, and no command ends one task of it; "
            f"`grain cancel {name}` ends the mission"
        )
    if not yes:
        command = clean(typed(mission.header.command))
        click.confirm(f"End mission {mission.label}: {command}?", abort=True)
    end(mission)
    return f"mission {mission.label} is told to end, by SIGTERM"


def _whose(
    config: Config, word: str, meant: str, patience: float
) -> tuple[str, StartRecord | None]:
    """Return what the scheduler calls a mission, and its start if `grain run` has started it.

    The first is empty if no scheduler has it: it may run only on its own machine, have no
    scheduler yet, or wait for its job.

    Args:
        meant: its id by its log, as of `id_of`; else the word.

    Raises:
        click.ClickException: the start does not run.
    """
    from grain.cli.mission_names import log_of, starts, store_of
    from grain.cli.mission_records import find
    from grain.cli.missions.jobs import find_job
    from grain.cli.missions.starting import state_of
    from grain.cli.query import state_if_any

    record = find(starts(), word)
    job = find_job(config, word) if record is None else None
    if record is None and (job is None or not job.alive):
        return meant, None
    state = state_if_any(config, patience=patience)
    if state is None:
        return "", record
    here = state.missions
    if record is not None and word == record.label:
        now = state_of(record)
        if not now.phase.alive:
            raise click.ClickException(f"{clean(record.label)} does not run: it {now.detail}")
    # The one of the start, where others have its name.
    log = None if record is None else log_of(store_of(config), record)
    known = {one.id for one in here}
    if log is not None and log.id in known and meant in (word, log.id):
        return log.id, record
    if meant in known:
        return meant, None  # `grain run` has not started it
    return (word if any(one.goes_by(word) for one in here) else ""), record


def _note(record: StartRecord) -> Path | None:
    """Leave word in the folder of a start that it was cancelled, since its exit status may not.

    Returns:
        The file, which is to be removed if nothing is cancelled; None if there is none.
    """
    from grain.cli.mission_records import Cancellation, write
    from grain.cli.missions.starting import state_of
    from grain.files.processes import user_and_host

    if state_of(record).phase.alive:
        with suppress(OSError):  # the mission ends all the same
            write(record.folder, "cancelled.json", Cancellation(by=user_and_host()))
            return record.folder / "cancelled.json"
    return None


def _end_started(config: Config, word: str, *, yes: bool) -> str:
    """End a mission that no scheduler has; return a sentence for the user."""
    from grain.cli.mission_names import starts
    from grain.cli.mission_records import find
    from grain.cli.missions.jobs import end_job, find_job
    from grain.cli.missions.starting import end

    record = find(starts(), word)
    label = clean(record.label if record is not None else word)
    if not yes:
        click.confirm(f"End mission {label}?", abort=True)
    if record is not None:
        end(record)
    elif (job := find_job(config, word)) is not None:
        end_job(config, job)
    return f"mission {label} is told to end"


def _missing(config: Config, patience: float) -> str:
    """Return the message for a command line without a mission, which lists the missions here."""
    from grain.cli.local_missions import local_missions
    from grain.cli.query import ask_state

    here = ask_state(config, patience=patience).missions
    names = [clean(mission.label) for mission in here]
    names += [clean(one.header.name) for one in local_missions(config, here)]
    if not names:
        return "name a mission, as in: grain cancel opt; none is here"
    return f"name a mission, as in: grain cancel {names[0]}; there are: {' '.join(names)}"


def _confirmed(config: Config, word: str, patience: float, *, yes: bool) -> str:
    """Ask whether a mission is to end, unless that is clear; return its id.

    Raises:
        click.ClickException: it is that of a queue, whose jobs would go on.
    """
    from grain.edge.mission_ids import lasts

    found, _ = _put(config, "find", word, patience)
    if lasts(found.id):
        name = clean(found.name)
        raise click.ClickException(
            f"{name} is a queue of jobs: `grain queue stop` ends its dispatcher and keeps its "
            f"jobs, `grain cancel {name}:all` cancels all of them"
        )
    if not yes:
        label, host = clean(found.label), clean(found.host)
        question = f"End mission {label} on {host or 'an unknown host'}, and {_tasks(found)}?"
        # Without a terminal, and at the end of input, that is a no.
        click.confirm(question, abort=True)
    return found.id


def _put(
    config: Config,
    about: Literal["find", "cancel"],
    mission: str,
    patience: float,
    *,
    task: int = 0,
    by: str = "",
) -> tuple[Mission, str]:
    """Return a mission, and the state of a task that is cancelled."""
    from grain.cli.query import ask
    from grain.edge.questions import Ask, FoundAnswer

    question = Ask(about, mission=mission, task=task, by=by)
    answer = ask(config, question, FoundAnswer, patience=patience)
    if answer.mission is None:
        raise click.ClickException(clean(answer.error))
    return answer.mission, answer.state


def _tasks(mission: Mission) -> str:
    running, waiting = mission.running, mission.waiting
    return f"{running} running and {waiting} waiting task{'' if waiting == 1 else 's'}"
