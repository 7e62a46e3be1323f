"""Records out of bytes: lines, columns and CSV rows."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.inputs.errors import InputError
from grain.inputs.splitting import Columns, Splitter


def splitted(splitter: Splitter, data: bytes, cuts: list[int]) -> list[tuple[str, ...]]:
    """The records of data that comes in pieces."""
    records, begin = [], 0
    for end in [*sorted(cuts), len(data)]:
        records += splitter.feed(data[begin:end])
        begin = max(begin, end)
    return records + splitter.end()


def test_a_bad_expression_and_two_ways_to_split_are_refused() -> None:
    with pytest.raises(InputError, match="regular expression"):
        Columns("(")
    with pytest.raises(InputError, match="exclude"):
        Columns(",", csv=True)


@given(st.binary(), st.lists(st.integers(0, 50)), st.booleans())
def test_pieces_do_not_matter(data: bytes, cuts: list[int], null: bool) -> None:
    """Lines are the same however the bytes arrive."""
    whole = splitted(Splitter(Columns(), null=null), data, [])

    assert whole == splitted(Splitter(Columns(), null=null), data, cuts)


CELLS = st.text(st.sampled_from('ab",\n \u00e9'))


@given(st.lists(st.lists(CELLS, min_size=1, max_size=3), max_size=4), st.lists(st.integers(0, 50)))
def test_the_output_of_a_csv_writer_is_read_back(rows: list[list[str]], cuts: list[int]) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)

    records = splitted(Splitter(Columns(csv=True)), file.getvalue().encode(), cuts)

    assert [tuple(row) for row in rows] == records
