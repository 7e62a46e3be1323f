"""Token and Host: labels that tasks and workers match by."""

from __future__ import annotations

from typing import Any

import pytest

from grain.resource import Cores, Fit, Host, Supply, Token, from_data, from_text, to_data


def test_a_task_with_a_token_fits_only_a_worker_with_exactly_that_one() -> None:
    supply = Supply(Cores(4) & Token("bigmem"))

    assert Fit.NOW is supply.fit(Cores(1) & Token("bigmem"))
    assert Fit.NEVER is supply.fit(Cores(1) & Token("Bigmem"))
    assert Fit.NEVER is Supply(Cores(4)).fit(Cores(1) & Token("bigmem"))


def test_any_number_of_tasks_may_carry_the_token_at_once() -> None:
    supply = Supply(Token("bigmem"))
    held = [supply.alloc(Token("bigmem")) for _ in range(3)]

    assert ["bigmem"] * 3 == [res.token for res in held]
    assert Fit.NOW is supply.fit(Token("bigmem"))
    assert {"Token": (1, 1)} == supply.free.stat()


def test_a_worker_with_a_token_takes_tasks_without_one() -> None:
    assert Cores([0]) == Supply(Cores(4) & Token("bigmem")).alloc(Cores(1))


def test_a_token_shows_its_tag() -> None:
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
def test_what_is_no_tag_is_refused(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        Token(given)

    assert text == str(raised.value)


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        (Host("n1"), True),
        (Host(["n2", "n1"]), True),
        (Host(["n2", "n3"]), False),
        (Host(exclude="n1"), False),
        (Host(exclude=["n2", "n3"]), True),
        (Host(["n2", "n3"], others=True), True),
        (Host("n2", exclude=["n1"], others=True), False),
    ],
)
def test_a_task_that_names_hosts_fits_only_workers_there(request_: Host, fits: bool) -> None:
    supply = Supply(Cores(4) & Host("n1"))

    assert (Fit.NOW if fits else Fit.NEVER) is supply.fit(Cores(1) & request_)
    assert Fit.NEVER is Supply(Cores(4)).fit(request_)
    assert Fit.NOW is supply.fit(Cores(1))
    assert request_.ask() == from_data(to_data(request_)).ask() == from_text(request_.ask()).ask()


def test_a_task_has_the_host_on_which_it_runs() -> None:
    assert Host("n1") == Supply(Host("n1")).alloc(Host(["n2", "n1"]))


@pytest.mark.parametrize(
    ("names", "exclude", "error"),
    [
        ((), (), ValueError), ("n1", "n2", ValueError), ([""], (), ValueError),
        ([1], (), TypeError),
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused(names: Any, exclude: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Host(names, exclude)
