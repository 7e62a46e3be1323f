"""A dispatcher that is a batch job: its successor, and its end without work."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from grain.dispatcher.lifetime import Lifetime, outlive, run_command

if TYPE_CHECKING:
    from trio.testing import MockClock

WORDS = ("grain", "queue", "start")
IDLE = 1800.0  # as docs/jobs.md says


class Submissions:
    """The times of submissions, of which the first ones fail.

    Args:
        failing: how many fail.
    """

    def __init__(self, failing: int = 0) -> None:
        self.times: list[float] = []
        self._failing = failing

    async def __call__(self, words: tuple[str, ...]) -> str:
        assert words == WORDS
        self.times.append(trio.current_time())
        return "no sbatch here" if len(self.times) <= self._failing else ""


async def lived(seconds: float, busy_until: float, submit: Submissions) -> float:
    """Return for how long a dispatcher went on that had jobs until some time."""
    began = trio.current_time()

    def busy_at() -> float:
        return min(trio.current_time(), began + busy_until)

    await outlive(Lifetime(seconds, WORDS), busy_at, submit)
    submit.times = [at - began for at in submit.times]
    return trio.current_time() - began


async def test_a_successor_is_submitted_once_after_half_of_the_time(
    autojump_clock: MockClock,
) -> None:
    submit = Submissions()
    assert await lived(36_000, 30_000, submit) == pytest.approx(30_000 + IDLE, abs=20)
    assert submit.times == [pytest.approx(18_000, abs=20)]


async def test_without_jobs_there_is_no_successor(autojump_clock: MockClock) -> None:
    submit = Submissions()
    assert await lived(6_000, 2_000, submit) == pytest.approx(2_000 + IDLE, abs=20)
    assert submit.times == []


async def test_a_submission_that_failed_is_tried_again(autojump_clock: MockClock) -> None:
    submit = Submissions(failing=2)
    await lived(1_000, 10_000, submit)
    assert submit.times == [pytest.approx(500 + 600 * n, abs=20) for n in range(3)]


async def test_a_job_without_a_known_end_has_no_successor(autojump_clock: MockClock) -> None:
    submit = Submissions()
    await lived(math.inf, 1e5, submit)
    assert submit.times == []


async def test_a_command_that_fails_says_why() -> None:
    def command(text: str) -> tuple[str, ...]:
        return (sys.executable, "-c", text)

    assert await run_command(command("print('job 7')")) == ""
    assert await run_command(command("import sys; sys.exit('one\\nrefused')")) == "refused"
    assert await run_command(command("raise SystemExit(3)")) == "exit status 3"
