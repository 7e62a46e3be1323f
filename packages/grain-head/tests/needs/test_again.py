"""The request of another attempt, by the error of the one that had too little."""

from __future__ import annotations

import sys

import pytest
import trio

from grain.head.needs.again import Larger, larger
from grain.resource import Cores, Gang, Memory, Resource, WTime, to_data
from grain_testkit.memory_groups import after

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

OPT = Memory(8, group="opt")


def noted(error: Exception, **notes: float) -> Exception:
    for name, value in notes.items():
        setattr(error, name, value)
    return error


def too_little(amount: float) -> Exception:
    return noted(MemoryError(), memory_request=amount)


def too_slow(limit: float) -> Exception:
    return noted(trio.TooSlowError(), limit=limit)


@pytest.mark.parametrize(
    ("request_", "error", "next_", "what"),
    [
        (Cores(2) & OPT, too_little(4.0), Cores(2) & after(OPT, 4.0), "more memory than 4 GB"),
        (
            Cores(2) & after(OPT, 2.0), ExceptionGroup("", [ValueError(), too_little(4.0)]),
            Cores(2) & after(OPT, 2.0, 4.0), "more memory than 4 GB",
        ),
        (
            Gang(3, Cores(2) & OPT, same="job"), too_little(4.0),
            Gang(3, Cores(2) & after(OPT, 4.0), same="job"), "more memory than 4 GB",
        ),
        (
            OPT & WTime(group="opt"), too_slow(30.0),
            OPT & WTime(group="opt").after(30.0), "more time than 30 s",
        ),
        (
            WTime(T=60, group="opt"), too_slow(30.0),
            WTime(T=60, group="opt").after(30.0), "more time than 30 s",
        ),
    ],
)  # fmt: skip
def test_another_attempt_asks_for_more_of_what_was_too_little(
    request_: Resource, error: Exception, next_: Resource, what: str
) -> None:
    found = larger(request_, error)
    assert isinstance(found, Larger)
    assert to_data(next_) == to_data(found.request)
    assert what == found.what


@pytest.mark.parametrize(
    ("request_", "error", "why"),
    [
        (
            Memory(group="opt"), noted(too_little(16.0), memory_last=True),
            "It had 16 GB, the most that its group may ask for.",
        ),
        (OPT, too_little(8.0), "It had 8 GB, the most that its group may ask for."),
        (
            after(Memory(group="opt"), 1, 2, 4, 8), too_little(16.0),
            "It had 16 GB, the most that its group may ask for.",
        ),
        (
            after(OPT, 0.5, 1, 2, 3), too_little(4.0),
            "It had 4 GB in attempt 5, which was the last.",
        ),
        (
            WTime(group="opt").after(30.0), too_slow(90.0),
            "It had 90 s, three times the limit that was estimated for its group.",
        ),
    ],
)  # fmt: skip
def test_there_is_no_attempt_beyond_the_most_and_it_says_so(
    request_: Resource, error: Exception, why: str
) -> None:
    assert why == larger(request_, error)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (OPT, ValueError()),
        (OPT, noted(ValueError(), memory_request=4.0)),
        (OPT, ExceptionGroup("", [noted(ValueError(), memory_request=4.0), MemoryError()])),
        (OPT, MemoryError()),  # of Python itself
        (Memory(8), too_little(4.0)),
        (WTime(T=60), too_slow(60.0)),
        (WTime(T=60, group="opt"), too_slow(60.0)),  # the user's own
        (WTime(group="opt"), trio.TooSlowError()),
    ],
)
def test_any_other_failure_is_not_that_of_what_is_learned(
    request_: Resource, error: Exception
) -> None:
    assert larger(request_, error) is None
