"""Hosts of several nodes in one word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource.figures import hostlist, repeated

_WORDS = re.compile(r"([^,\[\]]*)\[([^\]]*)\]|([^,\[\]]+)")


@pytest.mark.parametrize(
    ("names", "word"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2", "n4"], "n[1-2,4]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10"], "n[9-10]"),
        (["n4", "n1"], "n[4,1]"),
        (["a", "b"], "a,b"),
        (["a", "a"], "a,a"),
        (["n1", "n1"], "n[1,1]"),
        (["n1", "gpu1", "n2"], "n1,gpu1,n2"),
        (["n1", "n01"], "n[1,01]"),
        (["n099", "n100", "n101", "n7"], "n[099-101,7]"),
    ],
)
def test_hosts_with_ascending_numbers_join(names: list[str], word: str) -> None:
    assert word == hostlist(names)


def test_equal_numbers_in_a_row_join() -> None:
    assert "8(x3),4,8" == repeated([8, 8, 8, 4, 8])


@given(st.lists(st.from_regex(r"[a-z-]{0,3}[0-9]{0,3}", fullmatch=True).filter(bool), max_size=9))
def test_a_word_has_the_hosts_that_it_was_made_of(names: list[str]) -> None:
    found = []
    for prefix, inner, plain in _WORDS.findall(hostlist(names)):
        for span in inner.split(",") if inner else [""]:
            first, _, last = span.partition("-")
            numbers = range(int(first), int(last or first) + 1) if first else []
            found += [f"{prefix}{str(number).zfill(len(first))}" for number in numbers]
        found += [plain] if plain else []

    assert names == found
