"""Text that fits: columns, bars, and the heights of panes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from grain.cli.top.tables.grid import Gauge, Tile
from grain.cli.top.tables.overview import tables
from grain.cli.top.tables.picture import (
    ASCII,
    UNICODE,
    ShownColumn,
    bar_text,
    cut,
    fitted,
    head_line,
    heights,
    marks,
    middle_cut,
    padded,
    places,
    row_line,
    tile_lines,
    width,
)
from grain_testkit.overviews import overview, worker


@pytest.mark.parametrize("room", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize(
    "name", ["workers", "missions", "functions", "running", "waiting", "failures"]
)
def test_a_line_never_takes_more_than_the_room(name: str, room: int) -> None:
    table = tables(overview(), {})[name]
    where = places(table.columns, table.rows, room)
    lines = [row_line(table.columns, where, row, UNICODE) for row in table.rows]

    assert all(width(line) <= room for line in lines)
    assert width(head_line(table.columns, where)) <= room
    # The name of the row is always there.
    assert any(table.columns[place.at].rank == 0 for place in where)


def test_with_forty_columns_a_worker_has_its_name_its_state_and_its_cores() -> None:
    table = tables(overview(), {})["workers"]
    heads = head_line(table.columns, places(table.columns, table.rows, 40)).split()

    assert ["NAME", "STATE", "RUNS", "CORES"] == heads


def test_with_much_room_all_columns_are_there() -> None:
    table = tables(overview(), {})["workers"]

    assert len(table.columns) == len(places(table.columns, table.rows, 200))


def test_a_star_stands_at_the_column_that_the_rows_are_sorted_by() -> None:
    table = tables(overview(), {})["workers"]
    where = places(table.columns, table.rows, 120)

    plain = head_line(table.columns, where)

    for column in table.columns[:-1]:
        head = column.name
        assert plain.replace(f"{head} ", f"{head}*", 1) == head_line(table.columns, where, head)


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "......... 0/4"),
        (0.01, "#........ 0/4"),
        (0.99, "########. 4/4"),
        (1.0, "######### 4/4"),
    ],
)
def test_a_bar_is_empty_or_full_only_if_nothing_or_all_is_used(share: float, shown: str) -> None:
    assert shown == bar_text(Gauge(share, f"{round(share * 4)}/4"), ShownColumn(0, 13, 3), ASCII)


def test_without_room_for_a_bar_its_text_is_there() -> None:
    assert " 3/4" == bar_text(Gauge(0.75, "3/4"), ShownColumn(0, 4, 3), ASCII)
    assert "   ?/3" == bar_text(Gauge(None, "?/3"), ShownColumn(0, 6, 3), ASCII)


def test_a_long_name_is_cut_with_a_mark() -> None:
    answer = replace(overview(), workers=[worker(0, label="w" * 300)])
    table = tables(answer, {})["workers"]
    [line] = [
        row_line(table.columns, places(table.columns, table.rows, 80), row, ASCII)
        for row in table.rows
    ]

    assert width(line) <= 80
    assert "w~w" in line


def test_a_long_name_keeps_its_end() -> None:
    assert "w09…-999" == middle_cut("w093015-999", 8)
    assert "w093015-999" == middle_cut("w093015-999", 11)
    assert "w…" == middle_cut("w093015-999", 2)


@given(st.text(), st.integers(0, 20))
def test_padded_text_takes_exactly_its_cells(text: str, cells: int) -> None:
    assert cells == width(padded(text, cells))
    assert cells == width(padded(text, cells, right=True))
    assert cells == width(padded(text, cells, tail=True))


def test_wide_characters_take_two_cells() -> None:
    assert 4 == width("分子")
    assert "分…" == cut("分子式", 4)
    assert "分… " == padded("分子式", 4)


def test_the_first_parts_that_fit_are_shown() -> None:
    assert "one  two" == fitted(["one", "two", "three"], 10)
    assert "one" == fitted(["one", "two"], 3)
    assert "o…" == fitted(["one", "two"], 2)
    assert "" == fitted([], 3)


def test_bars_are_of_ascii_where_the_terminal_has_nothing_else() -> None:
    assert ASCII == marks("ascii")
    assert ASCII == marks("no such encoding")
    assert UNICODE == marks("utf-8")


@pytest.mark.parametrize(
    ("tiles", "cells", "lines", "shown"),
    [
        (5, 10, 1, [".1234"]),
        (9, 3, 3, [".12", "345", "678"]),
        (30, 12, 2, [".12345678.12", "345 +15 more"]),
        (30, 4, 1, [" +30"]),
        (3, 10, 0, []),
        (0, 10, 1, []),
    ],
)
def test_rows_in_small_fill_lines_and_the_others_are_counted(
    tiles: int, cells: int, lines: int, shown: list[str]
) -> None:
    made = [Tile(number % 9) for number in range(tiles)]
    got = ["".join(text for text, _ in line) for line in tile_lines(made, cells, lines, ASCII)]

    assert shown == got


def test_a_tile_that_stands_out_is_its_letter() -> None:
    [line] = tile_lines([Tile(3, "a", "bad"), Tile(0)], 5, 1, UNICODE)

    assert [("a", "bad"), ("·", "")] == line


@given(
    st.integers(0, 60),
    st.lists(st.one_of(st.just(1), st.integers(3, 1000)), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_the_heights_of_panes_fill_the_room(room: int, wanted: list[int], focus: int) -> None:
    focus %= len(wanted)
    lines = heights(room, wanted, focus)

    assert room == sum(lines)
    assert all(line != 2 or at in (focus, len(lines) - 1) for at, line in enumerate(lines))
    if room >= len(wanted):
        assert all(lines)
    if room:
        assert lines[focus]


def test_the_pane_in_focus_has_the_most_lines() -> None:
    assert [3, 9, 4, 4, 1] == heights(21, [3, 1000, 200, 50, 1], 1)
