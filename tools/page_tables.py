"""Tables of pages that follow from the code: `docs/extensions/tables.py` puts them into the site.

A page has a comment such as ``<!-- table: the metrics -->`` in the place of each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.top.prompts import KEYS
from grain.head.gnaw.metrics import METRICS
from grain.worker.agent.command import parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PLACE = re.compile(r"^<!-- table: (.*) -->$", re.MULTILINE)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def keys_of_top() -> str:
    """Return the keys of `grain top`, as its help has them."""
    return table(["key", ""], KEYS)


def metrics() -> str:
    """Return the metrics that a scheduler serves."""
    rows = [
        [f"`{one.name}`", one.kind, f"`{one.label}`" if one.label else "", one.help]
        for one in METRICS
    ]
    return table(["metric", "kind", "label", ""], rows)


def options_of_a_worker() -> str:
    """Return the options of `grain-worker`, as its help has them."""
    rows = []
    # argparse has no public list of options; a test of grain-worker reads this one as well.
    for action in parser()._actions:
        if action.dest != "help":
            words = f"{action.option_strings[-1]} {action.metavar or ''}".strip()
            text = (action.help or "") % vars(action)
            rows.append([f"`{words}`", text.replace("|", "\\|").replace("$", "\\$")])
    return table(["option", ""], rows)


TABLES: dict[str, Callable[[], str]] = {
    "the keys of grain top": keys_of_top,
    "the metrics": metrics,
    "the options of grain-worker": options_of_a_worker,
}
"""The tables, by the names in the comments."""


def filled(text: str) -> str:
    """Return a page with its tables; a name that is not known is a `KeyError`."""
    return PLACE.sub(lambda place: TABLES[place[1]](), text)
