"""``grain why``: explain the state of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from grain.cli import completion
from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.show import clean, moment, print_json, span

if TYPE_CHECKING:
    from grain.config import Config

_LISTED = 10  # tasks at most in a message


@click.command()
@json_option
@patience_option
@config_option
@click.argument("task", metavar="MISSION:NUMBER", required=False, shell_complete=completion.tasks)
@click.pass_context
def why(
    ctx: click.Context, as_json: bool, patience: float, config_file: str | None, task: str | None
) -> None:
    """Explain why a task waits or runs.

    A task is named as `grain ls` names it, by its mission and its number.

    \b
    Examples:
      grain why opt:17
      grain why --json opt:17
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    mission, _, number = (task or "").rpartition(":")
    if task is not None and (not mission or not number.isdecimal() or len(number) > 18):
        raise click.UsageError(f"{task!r} is no task; `grain ls` names some, as in opt:17")
    with report_errors():
        from grain.cli.query import ask
        from grain.edge.questions import Ask

        config = load_config(ctx, config_file)
        if task is None:
            raise click.UsageError(_missing(config, patience))
        question = Ask("why", mission=mission, task=int(number))
        others = [
            Ask("arguments", mission=mission, task=int(number)),
            Ask("programs", mission=mission, task=int(number)),
        ]
        [explanation, *more] = ask(config, question, patience=patience, others=others)
        for answer in more:
            explanation |= {key: value for key, value in (answer or {}).items() if value}
    if as_json:
        print_json({**explanation, "mission": mission})
    else:
        click.echo(f"task {clean(task or '')} {state_text(explanation)}")
        for line in [*facts_text(explanation), *explanation["reasons"]]:
            click.echo(f"  {clean(line)}")
    if explanation["state"] == "unknown":
        ctx.exit(1)


_ENDINGS = {"value": "is done", "error": "has failed", "crashed": "was given up after crashes"}


def state_text(explanation: dict[str, Any]) -> str:
    """Return the state of a task as the end of a sentence."""
    return _ENDINGS.get(explanation.get("ended", ""), "") or f"is {clean(explanation['state'])}"


def facts_text(explanation: dict[str, Any]) -> list[str]:
    """Return what is known of a task beside the reasons for its state, a line each."""
    lines = []
    if call := explanation.get("call") or explanation.get("function"):
        lines.append(f"it calls {call}")
    if worker := explanation.get("worker"):
        host = f" (host {explanation['host']})" if explanation.get("host") else ""
        began, seconds = moment(explanation["began"]), span(explanation["seconds"])
        verb = "ran" if "ended" in explanation else "runs"
        lines.append(f"it {verb} on worker {worker}{host}, from {began}, for {seconds}")
    lines += [
        f"it has run for {span(seconds)}: {command}"
        for command, seconds in explanation.get("programs", ())
    ]
    return lines


def _missing(config: Config, patience: float) -> str:
    """Return the message for a command line without a task, which lists some.

    Raises:
        NoScheduler: There is none.
    """
    from grain.cli.query import ask
    from grain.edge.questions import Ask

    [state] = ask(config, Ask("state"), patience=patience)
    waiting = [clean(queue["oldest"]) for queue in state["queues"] if queue["oldest"]]
    running = [clean(task) for worker in state["workers"] for task in worker["tasks"]]
    missions = [clean(mission["label"]) for mission in state["missions"]]
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
