"""Resources as one word of a command line."""

from __future__ import annotations

import pytest

from grain.resource import Cores, Memory, Token, WTime, from_text


def test_a_text_of_kinds_and_values_is_a_resource() -> None:
    expected = Cores(4) & Memory(8) & WTime(T=3600)

    assert expected == from_text("Cores=4,Memory=8,WTime=1:00:00")
    assert Cores([2, 3]) == from_text(" Cores = [2, 3] ")
    assert Token("a,b") == from_text('Token="a,b"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no list"),
        ("Cores", "'Cores' in 'Cores': write Kind=value"),
        ("Cores=1,Cores=2", "twice"),
        ("Cores(4)", "is Python"),
        ("cores=4", "Did you mean Cores"),
        ("Node=4", "cores and memory"),
        ("Cores=-1", "negative"),
    ],
)
def test_a_text_that_is_none_is_refused_with_the_part_that_is_wrong(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)
