"""The same as plain text, for a pipe and for a terminal that cannot be drawn on."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import click

from grain.cli.show import clean
from grain.cli.top.link import Link, Seen
from grain.cli.top.picture import head_line, places, row_line
from grain.cli.top.rates import Rates
from grain.cli.top.tables import PANES, tables, totals

if TYPE_CHECKING:
    from grain.cli.top.picture import Marks

_ROWS = 20  # of each table
_PATIENCE = 10.0  # seconds for the first answer, beside those for finding the scheduler


def text(answer: dict[str, Any], rates: Rates, width: int, by: Marks) -> str:
    """Return an answer as text, a table below the other, without those that have no rows."""
    lines = [time.strftime("%H:%M:%S  ") + ", ".join(totals(answer, rates))]
    lines += [f"Note: {clean(trouble)}." for trouble in answer.get("troubles", ())]
    by_name = tables(answer, rates, {})
    for name in PANES:
        table = by_name[name]
        if not table.rows:
            continue
        shown = table.rows[:_ROWS]
        where = places(table.columns, shown, width)
        lines += ["", table.title, head_line(table.columns, where).rstrip()]
        lines += [row_line(table.columns, where, row, by).rstrip() for row in shown]
        if len(table.rows) > len(shown):
            lines.append(f"... and {len(table.rows) - len(shown)} more")
    return "\n".join([*lines, ""])


def watch(address: str, *, seconds: float | None, patience: float, width: int, by: Marks) -> None:
    """Print an answer every so many seconds, until Ctrl-C; only once if there is no number.

    Raises:
        NoScheduler: there is none at the start.
    """
    from grain.cli.query import NoScheduler

    answers: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    link = Link(address, answers.put, seconds=seconds or 1.0, patience=patience)
    link.start()
    rates = Rates()
    try:
        seen = answers.get(timeout=patience + _PATIENCE)
        if seen.answer is None:
            raise NoScheduler(seen.problem)
        while seconds is None and (seen.answer or {}).get("more_workers"):
            seen = answers.get()
        _print(seen, rates, width, by)
        while seconds is not None:
            _print(answers.get(), rates, width, by)
    except queue.Empty:
        raise NoScheduler(f"the scheduler at {address} does not answer") from None
    finally:
        link.stop()


def _print(seen: Seen, rates: Rates, width: int, by: Marks) -> None:
    if seen.answer is None:
        click.echo(f"{time.strftime('%H:%M:%S')}  {clean(seen.problem)}; looking again")
        return
    rates.look(seen.answer)
    click.echo(text(seen.answer, rates, width, by))
