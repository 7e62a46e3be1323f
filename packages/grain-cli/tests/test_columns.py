"""Columns over rows, as tables and formats."""

from __future__ import annotations

from grain.cli.columns import Column, fields, rows_text
from grain.resource.figures import clock

COLUMNS: tuple[Column[tuple[str, float, str]], ...] = (
    Column("NAME", lambda row: row[0], least=5),
    Column("TOOK", lambda row: row[1], clock, rank=1, under="took {}"),
    Column("WHY", lambda row: row[2], rank=1, under="{}", least=5),
)
ROWS = [("a" * 30, 90.0, "exit status 3"), ("b", 2.0, "")]


def test_a_sentence_stands_in_a_column_where_there_is_room_and_under_the_row_otherwise() -> None:
    wide = rows_text("T", COLUMNS, ROWS).splitlines()
    assert ["T", f"{'NAME':30}  TOOK      WHY"] == wide[:2]
    assert wide[2].endswith("00:01:30  exit status 3")
    tight = rows_text("T", COLUMNS, ROWS, 50).splitlines()
    assert ["NAME"] == tight[1].split()
    assert "  took 00:01:30, exit status 3" == tight[3]
    assert ["b", "  took 2 s"] == tight[4:]
    middle = rows_text("T", COLUMNS, [("a" * 60, 90.0, "why"), ROWS[1]], 70).splitlines()
    assert ["NAME", "TOOK"] == middle[1].split()
    assert "  why" == middle[3]
    assert 70 == len(middle[2])


def test_fields_have_widths_and_ends_and_titles_are_cut_like_values() -> None:
    columns = [
        Column[str]("TITLE", lambda row: row, width=4, after="|"),
        Column[str]("TITLE", lambda row: row, width=-4, cut="+", after="|"),
        Column[str]("TITLE", lambda row: row, width=4, cut=None, after="|"),
        Column[str]("TITLE", lambda row: row),
    ]
    assert [
        "TITL|TIT+|TITL|TITLE",
        "----|----|----|",
        "  ab|ab  |  ab|ab",
        "abcd|abc+|abcdef|abcdef",
    ] == list(fields(columns, ["ab", "abcdef"], heads=True, rule=True))
    assert ["  a?|"] == list(fields(columns[:1], ["a\n"], heads=False))
