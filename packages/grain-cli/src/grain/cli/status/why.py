"""``grain why``: explain the state of a task; an ended task also by the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grain.cli import completion
from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import chosen_config, report_errors
from grain.cli.queue.cancelling import jobs_named
from grain.cli.queue.opening import queue_errors, queue_option
from grain.cli.show import clean, explanation_facts, explanation_state, print_json

if TYPE_CHECKING:
    from grain.cli.history.past_task import Logged
    from grain.config import Config
    from grain.edge.questions import WhyAnswer
    from grain.queue.folder import Queue
    from grain.queue.selectors import Selected

_LISTED = 10  # tasks at most in a message


@click.command()
@json_option
@patience_option
@config_option
@queue_option
@click.argument(
    "task", metavar="NAME:NUMBER | JOB", required=False, shell_complete=completion.tasks
)
@click.pass_context
def why(
    ctx: click.Context,
    as_json: bool,
    patience: float,
    config_file: str | None,
    queue_name: str | None,
    task: str | None,
) -> None:
    """Explain why a task waits or runs, or how it has ended.

    A task is named as `grain ls` names it, by its mission and its number; the mission also as
    `grain missions` or `grain history` name it. What the scheduler does
    not know any more is looked up in the event log of the mission: see `grain history`.

    \b
    Examples:
      grain why opt:17
      grain why --json opt:17
      grain why 12                job 12 of the queue, or 12_3, a task of it
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors(), queue_errors():
        if task is not None and (jobs := jobs_named(task, queue_name)) is not None:
            _explain_jobs(ctx, jobs, config_file, patience, as_json=as_json)
            return
    mission, _, number = (task or "").rpartition(":")
    if task is not None and (not mission or not number.isdecimal() or len(number) > 18):
        raise click.UsageError(f"{task!r} is not a task; `grain ls` names some, as in opt:17")
    with report_errors():
        import msgspec

        config = load_config(ctx, config_file)
        if task is None:
            raise click.UsageError(_missing(config, patience))
        explanation = _explanation(config, mission, int(number), patience)
    if as_json:
        data = msgspec.to_builtins(explanation)
        data.pop("mission_id", None)
        print_json({**data, "mission": mission})
    else:
        click.echo(f"task {clean(task or '')} {explanation_state(explanation)}")
        facts = explanation_facts(explanation, explanation.call, explanation.programs)
        for line in [*facts, *explanation.reasons]:
            click.echo(f"  {clean(line)}")
    if explanation.state == "unknown":
        ctx.exit(1)


def _explain_jobs(
    ctx: click.Context,
    jobs: tuple[Queue, list[Selected]],
    config_file: str | None,
    patience: float,
    *,
    as_json: bool,
) -> None:
    """Explain jobs of the queue; with the scheduler's reasons, if it can be asked."""
    from grain.cli.jobs.dispatcher import other_address, revive_dispatcher
    from grain.cli.query import NoScheduler, explain
    from grain.cli.queue.explaining import explained, jobs_as_data

    queue, chosen = jobs[0], config_file or chosen_config(ctx)
    if as_json:
        print_json(jobs_as_data(*jobs, chosen))
        return
    config = load_config(ctx, config_file)
    elsewhere = other_address(queue, chosen)

    def trouble() -> str:
        if revive_dispatcher(queue, chosen):
            return "no dispatcher was left: one starts now"
        return elsewhere

    def ask(mission: str, task: int) -> list[str]:
        if elsewhere:
            return []  # the scheduler here knows nothing of it
        try:
            return list(explain(config, mission, task, patience=patience, call=False).reasons)
        except NoScheduler as error:
            return [str(error)]

    for line in explained(*jobs, ask, trouble, chosen):
        click.echo(clean(line))


def _explanation(config: Config, mission: str, number: int, patience: float) -> WhyAnswer:
    """Return what the scheduler says of a task, or the log of its mission.

    Raises:
        NoScheduler: there is none, and no log of such a task.
        LogError: several missions of that name run.
    """
    from msgspec.structs import replace

    from grain.cli.mission_names import id_of
    from grain.cli.query import NoScheduler, explain

    word, mission = mission, id_of(config, mission)
    try:
        explanation = explain(config, mission, number, patience=patience)
    except NoScheduler as error:
        logged = _logged(config, mission, number)
        if logged is None or (logged.explanation.state == "unknown" and not logged.mission_runs):
            raise NoScheduler(f"{error}; and no event log has task {word}:{number}") from None
        return logged.explanation
    if explanation.state != "unknown" and explanation.ended is None:
        return explanation
    # Others may have had the same name, before or elsewhere.
    logged = _logged(config, explanation.mission_id or mission, number)
    if logged is None or (explanation.ended is not None and logged.explanation.ended is None):
        return explanation  # the log may not have its end yet
    found = logged.explanation
    if explanation.ended is not None:  # what the scheduler knows of its group
        found = replace(found, reasons=[*found.reasons, *explanation.reasons])
    # The mission may still know the arguments.
    return found if explanation.call is None else replace(found, call=explanation.call)


def _logged(config: Config, mission: str, number: int) -> Logged | None:
    """Look a task up in the log of its mission; None if there is no such log or task."""
    from grain.cli.history.past_task import past_in_log
    from grain.eventlog.errors import LogError

    try:
        return past_in_log(config, mission, number)
    except (LogError, OSError):
        return None


def _missing(config: Config, patience: float) -> str:
    """Return the message for a command line without a task, which lists some."""
    from grain.cli.query import ask_state
    from grain.cli.queue.tickets import with_jobs

    state = with_jobs(ask_state(config, patience=patience))
    waiting = [clean(queue.oldest) for queue in state.queues if queue.oldest]
    # Some have several workers.
    tasks_there = (clean(task) for worker in state.workers for task in worker.tasks)
    running = list(dict.fromkeys(tasks_there))
    missions = [clean(mission.label) for mission in state.missions]
    if not waiting and not running:
        what = (
            f"of {', '.join(missions)} waits or runs now"
            if missions
            else "is here, no mission either"
        )
        return f"name a task, as in: grain why opt:17; none {what}"
    parts = [f"name a task, as in: grain why {[*waiting, *running][0]}"]
    for what, tasks in ("waiting", waiting), ("running", running):
        if tasks:
            more = " ..." if len(tasks) > _LISTED else ""
            parts.append(f"{what}: {' '.join(tasks[:_LISTED])}{more}")
    return "; ".join(parts)
