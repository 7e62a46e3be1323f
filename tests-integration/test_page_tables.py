"""Pages have the tables that follow from the code, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.page_tables import KINDS, PLACE, TABLES, filled

from grain.cli.top.prompts import KEYS
from grain.head.gnaw.metrics import METRICS
from grain.head.messages import HEAD as TO_MISSION
from grain.head.messages import MISSION
from grain.worker.messages import AGENT
from grain.worker.messages import HEAD as TO_AGENT

DOCS = Path(__file__).parents[1] / "docs"
PLACES = [name for page in DOCS.glob("*.md") for name in PLACE.findall(page.read_text("utf-8"))]


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table, without its heads."""
    lines = table.splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_each_table_has_one_place() -> None:
    assert sorted(TABLES) == sorted(PLACES)


def test_the_keys_are_those_of_the_help() -> None:
    assert [list(pair) for pair in KEYS] == rows(TABLES["the keys of grain top"]())


def test_the_metrics_are_those_that_are_served() -> None:
    assert [list(metric) for metric in METRICS] == rows(TABLES["the metrics"]())


def test_the_options_of_a_worker_are_explained_with_their_defaults() -> None:
    options = dict(rows(TABLES["the options of grain-worker"]()))

    assert "seconds without a scheduler after which to leave (600)" == options["--give-up S"]
    graces = "1.8 under PBS, 4.5 under Slurm and Flux, 9 under LSF, else 10"
    assert f"seconds between SIGTERM and SIGKILL ({graces})" == options["--term-grace S"]
    assert all(options.values())


def test_the_lines_of_a_log_have_their_fields_with_types_and_meanings() -> None:
    text = TABLES["the lines of an event log"]()

    assert "### `brief tasks`\n\nTasks of one function and request that are counted" in text
    assert "| `tasks` | number, always | how many there are. |" in text
    assert "| `usage` | object, see usage or null, optional | what it has used;" in text
    assert len(KINDS) == text.count("### ")


def test_a_page_has_its_tables_in_the_places_of_the_comments() -> None:
    page = filled("Before.\n\n<!-- table: the metrics -->\n\nAfter.\n")

    assert re.fullmatch(r"Before\.\n\n(\| .* \|\n)+\n\nAfter\.\n", page)


def test_a_table_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError, match="the weather"):
        filled("<!-- table: the weather -->")


def test_each_message_and_each_of_its_fields_is_named() -> None:
    text = TABLES["the messages"]()

    for kind in (*MISSION, *TO_MISSION, *AGENT, *TO_AGENT):
        [row, *_] = re.findall(rf"^\| `{kind.__name__}` \|.*$", text, re.MULTILINE)
        assert [] == [name for name in kind.__struct_fields__ if f"`{name}`" not in row]
