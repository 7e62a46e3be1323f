"""``grain why``: explain the state of a task."""

from __future__ import annotations

import click

from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json


@click.command()
@json_option
@patience_option
@config_option
@click.argument("task", metavar="MISSION:NUMBER")
@click.pass_context
def why(
    ctx: click.Context, as_json: bool, patience: float, config_file: str | None, task: str
) -> None:
    """Explain why a task waits or runs.

    A task is named as `grain ls` names it, by its mission and its number: grain why opt:17
    """
    mission, _, number = task.rpartition(":")
    if not mission or not number.isdecimal() or len(number) > 18:
        raise click.UsageError(f"{task!r} is no task; `grain ls` names some, as in opt:17")
    with report_errors():
        from grain.cli.query import ask
        from grain.edge.questions import Ask

        config = load_config(ctx, config_file)
        question = Ask("why", mission=mission, task=int(number))
        [explanation] = ask(config, question, patience=patience)
    if as_json:
        print_json({**explanation, "mission": mission})
    else:
        click.echo(f"task {clean(task)} is {clean(explanation['state'])}")
        for reason in explanation["reasons"]:
            click.echo(f"  {clean(reason)}")
    if explanation["state"] == "unknown":
        ctx.exit(1)
