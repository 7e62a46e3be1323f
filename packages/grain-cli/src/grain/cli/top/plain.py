"""The same as plain text, for a pipe and for a terminal that cannot be drawn on."""

from __future__ import annotations

import functools
import queue
import time
from typing import TYPE_CHECKING

import click

from grain.cli.show import clean
from grain.cli.top.link import Link, Seen
from grain.cli.top.tables.overview import PANES, tables
from grain.cli.top.tables.picture import fitted, head_line, places, row_line
from grain.cli.top.tables.tasks import Use, use_of
from grain.cli.top.tables.verdict import totals, verdict
from grain.edge.questions import Ask, ProgramsAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.cli.top.tables.picture import Marks
    from grain.edge.questions import OverviewAnswer

    Uses = Mapping[tuple[str, int], Use]
    _Answers = queue.SimpleQueue[tuple[tuple[str, int], ProgramsAnswer]]

_ROWS = 20  # of each table
_WORKERS = 1.0  # seconds for what workers answer about the programs of their tasks
_PATIENCE = 10.0  # seconds for the first answer, beside those for finding the scheduler


def text(answer: OverviewAnswer, width: int, by: Marks, uses: Uses | None = None) -> str:
    """Return an answer as text, a table below the other, without empty tables."""
    first, *others = totals(answer)
    lines = [fitted([f"{time.strftime('%H:%M:%S')}  {first}", *others], width, ", ")]
    lines += [f"cluster: {clean(str(one))}" for one in answer.cluster]
    lines += [f"Note: {clean(trouble)}." for trouble in answer.troubles]
    lines += [f"Note: {finding.text}" for finding in verdict(answer)]
    by_name = tables(answer, uses or {})
    for name in PANES:
        table = by_name[name]
        if not table.rows:
            lines += ["", table.invitation] * bool(table.invitation)
            continue
        shown = table.rows[:_ROWS]
        where = places(table.columns, shown, width)
        lines += ["", table.title, head_line(table.columns, where).rstrip()]
        lines += [row_line(table.columns, where, row, by).rstrip() for row in shown]
        if more := len(table.rows) - len(shown) + table.more:
            lines.append(f"... and {more} more")
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
    printer = _Printer(link, width, by)
    try:
        seen = answers.get(timeout=patience + _PATIENCE)
        if seen.answer is None:
            raise NoScheduler(seen.problem)
        while seconds is None and seen.answer is not None and seen.answer.more_workers:
            seen = answers.get()
        printer.put(seen)
        while seconds is not None:
            printer.put(answers.get())
    except queue.Empty:
        raise NoScheduler(f"the scheduler at {address} does not answer") from None
    finally:
        link.stop()


class _Printer:
    """Prints answers, with what the programs of the tasks in them use."""

    def __init__(self, link: Link, width: int, by: Marks) -> None:
        self._link = link
        self._width = width
        self._by = by
        self._uses: Uses = {}

    def put(self, seen: Seen) -> None:
        """Print an answer, or that there is none."""
        if seen.answer is None:
            click.echo(f"{time.strftime('%H:%M:%S')}  {clean(seen.problem)}; looking again")
            return
        self._uses = self._ask(seen.answer)
        click.echo(text(seen.answer, self._width, self._by, self._uses))

    def _ask(self, answer: OverviewAnswer) -> Uses:
        """Return what the tasks use that are printed, as far as workers answer in time."""
        running = tables(answer, {})["running"].rows[:_ROWS]
        wanted = {(row.about.mission, row.about.task) for row in running if row.about is not None}
        answers: _Answers = queue.SimpleQueue()
        for key in wanted:
            question = Ask("programs", mission=key[0], task=key[1])
            done = functools.partial(_hand_over, answers, key)
            self._link.put(question, ProgramsAnswer, done)
        uses = {}
        end = time.monotonic() + _WORKERS
        try:
            for _ in wanted:
                key, one = answers.get(timeout=max(end - time.monotonic(), 0.0))
                uses[key] = use_of(one, self._uses.get(key))
        except queue.Empty:
            pass
        return uses


def _hand_over(answers: _Answers, key: tuple[str, int], answer: ProgramsAnswer) -> None:
    answers.put((key, answer))
