"""docs/top.md and docs/metrics.md have the keys and the metrics of the code."""

from __future__ import annotations

import re
from pathlib import Path

from grain.cli.top.prompts import KEYS
from grain.head.gnaw.metrics import METRICS

DOCS = Path(__file__).parents[1] / "docs"


def rows(page: str, heads: str) -> list[list[str]]:
    """Return the cells of the rows of the table with these heads."""
    _, _, after = (DOCS / page).read_text(encoding="utf-8").partition(heads + "\n")
    lines = after.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_the_keys_on_the_page_are_those_of_the_help() -> None:
    assert [list(pair) for pair in KEYS] == rows("top.md", "| key | |")


def test_the_metrics_on_the_page_are_those_that_are_served() -> None:
    assert [list(metric) for metric in METRICS] == rows("metrics.md", "| metric | kind | label | |")


def test_the_page_names_every_part_of_an_overview() -> None:
    from grain.edge.questions import OverviewAnswer

    protocol = (DOCS / "protocol.md").read_text(encoding="utf-8")
    assert all(re.search(rf"`{name}`", protocol) for name in OverviewAnswer.__struct_fields__)
