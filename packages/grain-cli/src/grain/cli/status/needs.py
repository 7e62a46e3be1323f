"""``grain needs``: what groups have learned of the memory of their tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json
from grain.resource.figures import amount, counted, too_little

if TYPE_CHECKING:
    from grain.edge.questions import NeedRow


@click.command()
@json_option
@patience_option
@config_option
@click.option(
    "--forget",
    metavar="PATTERN",
    help="Forget the groups whose names match, as for files: they learn again from the beginning.",
)
@click.pass_context
def needs(
    ctx: click.Context,
    as_json: bool,
    patience: float,
    config_file: str | None,
    forget: str | None,
) -> None:
    """List the groups that learn how much memory their tasks need.

    A task is in a group if its request says so, as in Memory(32, group="opt"). The groups of a
    scheduler belong to all missions that it serves, and its successors know them.

    \b
    Examples:
      grain needs
      grain needs --json                 with all figures
      grain needs --forget 'test-*'
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.query import ask
        from grain.edge.questions import Ask, NeedRow

        if forget == "":
            raise click.UsageError("--forget needs the name of a group, or '*' for all")
        config = load_config(ctx, config_file)
        question = Ask("needs", pattern=forget or "")
        rows = ask(config, question, list[NeedRow], patience=patience)
        if as_json:
            print_json(msgspec.to_builtins(rows))
            return
        if forget is not None and not rows:
            raise click.ClickException(f"no group's name matches {forget!r}; see `grain needs`")
        if not rows:
            click.echo('no group has learned anything yet; as in Memory(32, group="opt")')
        for row in rows:
            click.echo(_line(row) if forget is None else f"{clean(row.group)} is forgotten")


def _line(row: NeedRow) -> str:
    if row.text:
        return clean(row.text)
    if row.median is None or row.largest is None:
        return f"{clean(row.group)}: no run has ended yet"
    return (
        f"{clean(row.group)}: {counted(row.runs, 'run')}, median {amount(row.median)} GB, largest "
        f"{amount(row.largest)}{too_little(row.exceeded)}"
    )
