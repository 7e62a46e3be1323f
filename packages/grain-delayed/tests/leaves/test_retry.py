"""Retries: which failures are tried again, when, and with which request. Decisions alone."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.delayed import delayed
from grain.delayed.leaves.retry import Attempts, GiveUp, NextAttempt, Retry, RetryLines
from grain.head import TaskCancelled
from grain.head.errors import TaskCrashed, TaskOutlivesWorkers
from grain.resource import ZERO, Cores, Infeasible, Memory
from grain.worker.errors import ExternalMemoryError, Failure, PayloadError

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


def decide(error: Exception, attempt: int = 1, **options: Any) -> NextAttempt | GiveUp:
    return Retry(2, wait=1.0, **options).decide(attempt, Cores(1), error, random.Random(0))


@pytest.mark.parametrize(
    "error", [ValueError(), OSError(), RuntimeError(), MemoryError(), trio.TooSlowError()]
)
def test_what_is_tried_again(error: Exception) -> None:
    """By default, what another attempt may not meet again."""
    assert isinstance(decide(error), NextAttempt)


@pytest.mark.parametrize(
    "error",
    [
        TypeError(), NameError(), UnboundLocalError(), AttributeError(), TaskCrashed(""),
        TaskOutlivesWorkers(""),
    ],
)  # fmt: skip
def test_what_is_not(error: Exception) -> None:
    """A mistake in the program is not, nor what crashed again and again; unless one asks for it."""
    assert GiveUp() == decide(error)
    assert isinstance(decide(error, on=type(error)), NextAttempt)


def test_a_program_that_ran_out_of_memory_is_caught_as_any_want_of_memory() -> None:
    error = ExternalMemoryError(Failure(argv=("xtb",), host="n1", returncode=-9))

    def more(request: Any, error: Exception) -> Any:
        return request & Memory(8) if isinstance(error, ExternalMemoryError) else None

    decided = decide(error, on=MemoryError, escalate=more)
    assert isinstance(decided, NextAttempt)
    assert Cores(1) & Memory(8) == decided.request


@pytest.mark.parametrize("error", [TaskCancelled(""), Infeasible(""), PayloadError("")])
def test_an_error_that_must_recur_is_never_retried(error: Exception) -> None:
    assert GiveUp() == decide(error, on=Exception)
    assert GiveUp() == decide(error, on=lambda _: True)


def test_as_often_as_it_may() -> None:
    """Two retries are three attempts."""
    assert isinstance(decide(ValueError(), attempt=2), NextAttempt)
    assert GiveUp() == decide(ValueError(), attempt=3)


@pytest.mark.parametrize("on", [ValueError, (OSError, ValueError), lambda e: e.args == ("yes",)])
def test_retry_on_is_a_type_or_several_or_a_predicate(on: Any) -> None:
    assert isinstance(decide(ValueError("yes"), on=on), NextAttempt)
    assert GiveUp() == decide(RuntimeError("no"), on=on)


def test_a_group_is_retried_if_all_its_exceptions_would_be() -> None:
    inner = ValueError("x")
    one = ExceptionGroup("", [ExceptionGroup("", [inner])])
    mixed = ExceptionGroup("", [ValueError("x"), TypeError("y")])
    seen: list[Exception] = []

    def escalate(request: Any, error: Exception) -> Any:
        seen.append(error)
        return Cores(2)

    assert isinstance(decide(one, on=ValueError, escalate=escalate), NextAttempt)
    assert [inner] == seen
    assert GiveUp() == decide(mixed, on=ValueError)
    assert isinstance(decide(mixed, on=(ValueError, TypeError)), NextAttempt)


def test_a_group_that_is_named_is_retried_whatever_is_in_it() -> None:
    """Errors that are never retried are the exception."""
    several = ExceptionGroup("several", [OSError(1), TypeError(2)])
    assert isinstance(decide(several, on=ExceptionGroup), NextAttempt)
    assert isinstance(decide(several, on=(KeyError, ExceptionGroup)), NextAttempt)
    assert isinstance(decide(several, on=OSError), GiveUp)
    never = ExceptionGroup("several", [OSError(1), Infeasible("too much")])
    assert isinstance(decide(never, on=ExceptionGroup), GiveUp)


def test_of_very_many_attempts_the_first_and_the_last_are_noted() -> None:
    attempts = Attempts(Cores(1))
    for i in range(1, 1000):
        attempts.failed(ValueError(i), NextAttempt(Cores(1), 0.0), Cores(1))

    lines = attempts.note().splitlines()

    assert "This was attempt 1000, with Cores(1). Before:" == lines[0]
    assert [f"  attempt {i}: ValueError: {i}, with Cores(1)" for i in range(1, 11)] == lines[1:11]
    assert "  and 979 more" == lines[11]
    assert [f"  attempt {i}: ValueError: {i}, with Cores(1)" for i in range(990, 1000)] == lines[
        12:
    ]


def test_few_lines_of_many_retries() -> None:
    """The first lines of each sort are printed, then ever fewer, with their number."""
    lines = RetryLines()

    printed = [lines.line("f", ValueError(), f"retry {i}") for i in range(1, 1001)]

    at = {i: line for i, line in enumerate(printed, 1) if line is not None}
    assert [1, 2, 3, 10, 100, 1000] == list(at)
    assert "retry 2" == at[2]
    assert at[3].startswith("retry 3; further ones like this")
    assert "retry 100; 100 like this so far" == at[100]
    assert "another" == lines.line("f", OSError(), "another")
    assert "another" == lines.line("g", ValueError(), "another")


def test_retry_with_makes_the_next_request_and_none_gives_up() -> None:
    again = decide(MemoryError(), escalate=lambda request, _: request & Memory(8))
    assert isinstance(again, NextAttempt)
    assert Cores(1) & Memory(8) == again.request
    assert GiveUp() == decide(MemoryError(), escalate=lambda *_: None)


@pytest.mark.parametrize("answer", [3, ZERO, "Memory(8)"])
def test_an_escalation_to_nonsense_is_noted(answer: Any) -> None:
    """The task's own exception is raised."""
    final = decide(MemoryError(), escalate=lambda *_: answer)
    assert isinstance(final, GiveUp)
    assert f"retry_with returned {answer!r}" in final.note


@pytest.mark.parametrize("which", ["on", "escalate"])
def test_a_function_that_fails(which: str) -> None:
    """So is what the user's own functions raise."""

    def fails(*_: Any) -> Any:
        raise KeyError("oops")

    options: dict[str, Any] = {which: fails}
    final = decide(MemoryError(), **options)
    assert isinstance(final, GiveUp)
    assert "raised KeyError: 'oops'; so it was not retried" in final.note


@settings(deadline=None)
@given(
    st.integers(1, 10_000), st.just(0.0) | st.floats(0.001, 1e6), st.randoms(use_true_random=False)
)
def test_waits_double_up_to_the_longest_and_are_shortened_by_at_most_a_half(
    attempt: int, wait: float, source: random.Random
) -> None:
    whole = min(max(300.0, wait), wait * 2 ** min(attempt - 1, 100))

    delay = Retry(10_000, wait=wait).delay(attempt, source)

    assert whole / 2 <= delay <= whole


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"retries": -1}, TypeError, "retries=-1: .* 0 or more"),
        ({"retries": 1.5}, TypeError, "retries=1.5"),
        ({"retries": True}, TypeError, "retries=True"),
        ({"retries": 1, "retry_on": "ValueError"}, TypeError, "retry_on='ValueError'"),
        ({"retries": 1, "retry_on": int}, TypeError, "retry_on=<class 'int'>"),
        ({"retries": 1, "retry_on": (ValueError, 3)}, TypeError, "retry_on="),
        ({"retries": 1, "retry_on": KeyboardInterrupt}, TypeError, "retry_on="),
        ({"retries": 1, "retry_with": Memory(3)}, TypeError, "retry_with=Memory"),
        ({"retries": 1, "retry_wait": "1s"}, TypeError, "number of seconds"),
        ({"retries": 1, "retry_wait": -1.0}, ValueError, "0 or more seconds"),
        ({"retries": 1, "retry_wait": float("nan")}, ValueError, "0 or more seconds"),
        ({"retry_on": ValueError}, TypeError, "nothing without retries=N"),
        ({"retry_with": lambda *_: None}, TypeError, "nothing without retries=N"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_the_decorator(
    options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        delayed(**options)
