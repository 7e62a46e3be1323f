"""``grain needs``: what groups have learned of the memory of their tasks."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from grain.cli.options import config_option, json_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json
from grain.resource.figures import amount, counted, several_maxima, too_little

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain.edge.questions import NeedRow

_REMEDY = (
    "The next scheduler puts this file aside, and groups learn their memory again. Move the file "
    "elsewhere if you want what it has, and else remove it"
)


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
    scheduler belong to all missions that it serves, and its successors know them. Where no
    scheduler runs, this is about the file that the last one has kept.

    \b
    Examples:
      grain needs
      grain needs --json                 with all figures
      grain needs --forget 'test-*'
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.query import NobodyThere, ask
        from grain.edge.address import parse_address
        from grain.edge.questions import Ask, NeedRow
        from grain.facts.needs import path_of

        if forget == "":
            raise click.UsageError("--forget needs the name of a group, or '*' for all")
        config = load_config(ctx, config_file)
        question = Ask("needs", pattern=forget or "")
        look = partial(ask, config, question, list[NeedRow], patience=patience)
        try:
            rows = look()
        except NobodyThere:
            where = parse_address(config.worker.cli_dial)
            path = path_of(where.edge, str(where))
            if path is None or not path.exists():
                raise
            rows = kept_rows(path, forget or "", look)
            if forget is None and not as_json:
                click.echo("No scheduler runs: this is what the last one has kept", err=True)
        if as_json:
            print_json(msgspec.to_builtins(rows))
            return
        if forget is not None and not rows:
            raise click.ClickException(f"no group's name matches {forget!r}; see `grain needs`")
        if not rows:
            click.echo('no group has learned anything yet; as in Memory(32, group="opt")')
        for row in rows:
            click.echo(_line(row) if forget is None else f"{clean(row.group)} is forgotten")


def kept_rows(path: Path, forget: str, ask: Callable[[], list[NeedRow]]) -> list[NeedRow]:
    """Return the groups in the file of a scheduler that has ended.

    Args:
        path: of the file.
        forget: a pattern of names: those are removed from it, and returned; "" for none.
        ask: asks a scheduler to do so. One that has started meanwhile may have read the file as it
            was, and would write it so.

    Raises:
        click.ClickException: the file cannot be read or written.
    """
    from grain.cli.query import NobodyThere
    from grain.edge import questions
    from grain.facts import needs as kept_needs

    try:
        if forget:
            groups = kept_needs.forget(path, lambda name: fnmatchcase(name, forget))
        else:
            groups = kept_needs.read(path)
    except kept_needs.Unreadable as error:
        raise click.ClickException(f"{error}. {_REMEDY}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    if groups and forget:
        with suppress(NobodyThere):
            ask()
    rows = []
    for one in sorted(groups, key=lambda group: group.name):
        middle, largest = kept_needs.usual(one.runs)
        counts = one.finished, one.exceeded
        rows.append(questions.NeedRow(one.name, *counts, middle, largest, asks=None, text=""))
    return rows


def _line(row: NeedRow) -> str:
    if row.text:
        # Before the first run has finished, the text has these attempts.
        line = row.text + (too_little(row.exceeded) if row.runs else "")
    elif row.median is None or row.largest is None:
        line = f"{row.group}: no run has finished yet{too_little(row.exceeded)}"
    else:
        line = (
            f"{row.group}: {counted(row.runs, 'run')}, median {amount(row.median)} GB, largest "
            f"{amount(row.largest)}{too_little(row.exceeded)}"
        )
    if row.maxima:
        line += f". Note: {several_maxima(row.group, row.maxima)}"
    return clean(line)
