"""The tables of a page: columns over rows. Their names and remarks are marked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from grain.cli.columns import Column
from grain.cli.report.figures import NOTHING, hours, share
from grain.cli.show import clean
from grain.resource.figures import amount, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.cli.report.collecting import WorkerTrack
    from grain.facts.amounts import Histogram
    from grain.facts.rows import Function

NAMELESS = "(unknown function)"

_SHORT_NAME = 16  # characters of a name that is never cut
_COUNT = "{:,}".format


def _name(text: str, style: str = "") -> Markup:
    """Return a name, which may be cut in the page, with the key of its colour."""
    key = Markup('<i class="key {}"></i>').format(style) if style else Markup("")
    short = " short" if len(text) <= _SHORT_NAME else ""
    return key + Markup('<span class="name{}">{}</span>').format(short, clean(text, keep="\n\t"))


def _gone(worker: WorkerTrack) -> str:
    """Return when and why a worker has left."""
    left = "" if worker.left is None else span(worker.left)
    if not worker.why:
        return left
    why = clean(worker.why, keep="\n\t")
    return Markup('<span class="text">{}<span class="bad">: {}</span></span>').format(left, why)


def _bad(count: int) -> str:
    return Markup('<span class="bad">{}</span>').format(f"{count:,}") if count else "0"


def _known(text: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda number: NOTHING if number is None else text(number)


def waits_of(one: Function) -> Iterator[tuple[Function, Histogram, str]]:
    """Yield the waits for runs, and those of tasks that never ran."""
    for waited, note in ((one.waited, ""), (one.never_ran, "never ran")):
        if waited.count:
            yield one, waited, note


def _wait_name(one: Function, note: str) -> Markup:
    hint = Markup(' <span class="hint">({})</span>').format(note) if note else ""
    return _function(one.name) + hint


def _function(name: str, style: str = "") -> Markup:
    return _name(name or NAMELESS, style)


def _done(one: Function) -> str:
    cached = f" ({one.cached:,} from the cache)" if one.cached else ""
    return f"{one.done:,}{cached}"


def _median(histogram: Histogram) -> float | None:
    return histogram.quantile(0.5) if histogram.count else None


def _most(histogram: Histogram) -> float | None:
    return histogram.most if histogram.count else None


def _cpu(one: Function) -> str:
    return share(one.cpu_seconds, one.core_seconds) if one.cpu_seconds else NOTHING


WORKERS: tuple[Column[WorkerTrack], ...] = (
    Column("worker", lambda one: one.name, _name),
    Column("host", lambda one: one.host, _name),
    Column("job", lambda one: one.job, _name),
    Column(
        "offers", lambda one: " & ".join(f"{k}({n:g})" for k, n in one.resources.items()), _name
    ),
    Column("joined after", lambda one: one.joined, span, right=True),
    Column("left after", _gone),
    Column("runs", lambda one: one.runs, _COUNT, right=True),
    Column("core-hours", lambda one: one.core_seconds, hours, right=True),
    Column("busy", lambda one: share(one.core_seconds, one.offered), right=True),
)
WAITS: tuple[Column[tuple[Function, Histogram, str]], ...] = (
    Column("function", lambda one: _wait_name(one[0], one[2])),
    Column("waits", lambda one: one[1].count, _COUNT, right=True),
    Column("median wait", lambda one: one[1].quantile(0.5), span, right=True),
    Column("90\u202f% within", lambda one: one[1].quantile(0.9), span, right=True),
    Column("longest", lambda one: one[1].most, span, right=True),
)
FUNCTIONS: tuple[Column[tuple[Function, str]], ...] = (
    Column("function", lambda one: _function(one[0].name, one[1])),
    Column("tasks", lambda one: one[0].tasks, _COUNT, right=True),
    Column("done", lambda one: _done(one[0]), right=True),
    Column("failed", lambda one: one[0].failed, _bad, right=True),
    Column("retries", lambda one: one[0].retried, _COUNT, right=True),
    Column("core-hours", lambda one: one[0].core_seconds, hours, right=True),
    Column(
        "wasted", lambda one: share(one[0].wasted_core_seconds, one[0].core_seconds), right=True
    ),
    Column("median time", lambda one: _median(one[0].seconds), _known(span), right=True),
    Column("longest", lambda one: _most(one[0].seconds), _known(span), right=True),
    Column(
        "memory, median",
        lambda one: _median(one[0].memory),
        _known(lambda number: f"{amount(number)} GB"),
        right=True,
    ),
    Column(
        "largest",
        lambda one: _most(one[0].memory),
        _known(lambda number: f"{amount(number)} GB"),
        right=True,
    ),
    Column("CPU use", lambda one: _cpu(one[0]), right=True),
)
GRAPH: tuple[Column[tuple[str, str, int]], ...] = (
    Column("function", lambda one: one[1], _function),
    Column("comes after", lambda one: one[0], _function),
    Column("tasks", lambda one: one[2], _COUNT, right=True),
)
