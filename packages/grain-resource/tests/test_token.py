"""Token: a tag that tasks and workers match by."""

from __future__ import annotations

from typing import Any

import pytest

from grain.resource import Cores, Fit, Supply, Token, to_data


def test_exact_match() -> None:
    """A task with a token runs only on a worker with exactly that one."""
    supply = Supply(Cores(4) & Token("bigmem"))

    assert Fit.NOW is supply.fit(Cores(1) & Token("bigmem"))
    assert Fit.NEVER is supply.fit(Cores(1) & Token("Bigmem"))
    assert Fit.NEVER is Supply(Cores(4)).fit(Cores(1) & Token("bigmem"))


def test_not_used_up() -> None:
    """Any number of tasks may carry the token at once."""
    supply = Supply(Token("bigmem"))
    held = [supply.alloc(Token("bigmem")) for _ in range(3)]

    assert ["bigmem"] * 3 == [res.token for res in held]
    assert Fit.NOW is supply.fit(Token("bigmem"))
    assert {"Token": (1, 1)} == supply.free.stat()


def test_task_without() -> None:
    """A worker with a token takes tasks without one, too."""
    assert Cores([0]) == Supply(Cores(4) & Token("bigmem")).alloc(Cores(1))


def test_shown() -> None:
    """A token is its tag."""
    assert "Token('bigmem')" == repr(Token("bigmem"))
    assert {"Token": "bigmem"} == to_data(Token("bigmem"))


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (3, TypeError, "Token(3): a tag is a str"),
        (None, TypeError, "Token(None): a tag is a str"),
        ("", ValueError, "Token(''): a tag cannot be empty"),
    ],
)
def test_bad_input(given: Any, error: type[Exception], text: str) -> None:
    """What is no tag is refused."""
    with pytest.raises(error) as raised:
        Token(given)

    assert text == str(raised.value)
