"""Tables, and text that cannot control a terminal."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.cli.show import clean, print_json, resources, table, typed


@given(st.text())
def test_clean_text_controls_nothing(text: str) -> None:
    """Nothing is left of it, the length stays, and what is harmless, too.

    Tried: Escapes in what is listed.
    Result: question marks.
    """
    shown = clean(text)

    assert len(text) == len(shown)
    assert not {unicodedata.category(one) for one in shown} & {"Cc", "Cf", "Zl", "Zp"}
    assert not {"\x1b", "\x9b", "\n", "\u202e", "\u2028"} & set(shown)
    assert clean(shown) == shown


def test_what_is_kept() -> None:
    """Letters of any language are harmless."""
    assert "Müller 水 ?[0m" == clean("Müller 水 \x1b[0m")
    assert "a\nb?" == clean("a\nb\t", keep="\n")


def test_columns_are_as_wide_as_needed_and_no_rows_give_no_table() -> None:
    """Columns are as wide as they need to be; without rows there is no table."""
    assert "T\nA    B\n1    2\nxxx  4\n" == table("T", ("A", "B"), [(1, 2), ("xxx", 4)])
    assert "" == table("T", ("A",), [])


def test_elastic_columns_are_shortened_before_the_others() -> None:
    rows = [("a function of a long name", "0.0126 of 0.1 GB")]

    assert "a fu...name  0.0126 of 0.1 GB" == table("T", ("A", "B"), rows, 29, (0,)).split("\n")[2]
    assert "a...e  0.0... GB" == table("T", ("A", "B"), rows, 16, (0,)).split("\n")[2]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"Cores": 4, "Memory": 8}, "Cores(4) & Memory(8)"),
        ({"Cores": [1, 3]}, "Cores(2)"),
        ({"Streams": {"orca": 3}}, 'Streams({"orca": 3})'),
        ({}, "Ø"),
        ({"Cores": "many"}, '{"Cores": "many"}'),
        ("nonsense", '"nonsense"'),
    ],
)
def test_unknown_kinds_and_nonsense_are_shown_as_they_came(data: object, shown: str) -> None:
    """Kinds without a class here are shown, and nonsense as it came."""
    assert shown == resources(data)


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """There are no infinities in JSON."""
    print_json({"a": [math.inf, (1.5,)], "b": math.nan})

    assert {"a": [None, [1.5]], "b": None} == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("/usr/bin/python", "-P", "-m", "grain.cli", "map", "gzip"), "grain map gzip"),
        (("/x/python3.11", "/x/bin/grain", "map", "wc {}"), "grain map 'wc {}'"),
        (("/x/python3.11", "opt.py", "a b"), "python opt.py 'a b'"),
        (("./job.sh", "1"), "./job.sh 1"),
        ((), ""),
    ],
)
def test_a_command_is_shown_as_it_is_typed(command: tuple[str, ...], shown: str) -> None:
    assert shown == typed(command)
