"""Runs that count as crashed though their process lives: a supervisor of theirs was killed."""

from __future__ import annotations

import sys

import pytest

from grain.worker.errors import ExternalLostError, Failure
from grain.worker.runner.runner import crash_behind
from grain_testkit.runner_station import station

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

LOST = ExternalLostError(Failure(("xtb", "a.xyz"), "n17", unwatched=True))
STUCK = ExternalLostError(Failure(("xtb", "a.xyz"), "n17"))
WHY = "the process that watched over xtb a.xyz was killed"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LOST, WHY),
        (STUCK, ""),
        (ValueError(), ""),
        (BaseExceptionGroup("", [LOST, ExceptionGroup("", [LOST])]), WHY),
        (ExceptionGroup("", [LOST, ValueError()]), ""),
    ],
)
def test_a_run_counts_as_crashed_if_nothing_else_went_wrong(
    error: BaseException, expected: str
) -> None:
    """In a group, as a nursery raises it, too; not where processes may be left."""
    assert expected == crash_behind(error)


async def test_a_run_whose_supervisor_is_killed_counts_as_crashed() -> None:
    """The others of the runner go on; a tasklet that catches the error has not crashed."""

    async def kill_supervisor(catches: bool) -> str:
        from grain.worker.external import ExternalLostError, run_external

        try:
            await run_external(["sh", "-c", "kill -KILL $PPID; sleep 1000"])
        except ExternalLostError:
            if not catches:
                raise
            return "caught"
        return "ended"

    async with station() as s:
        number = s.start(kill_supervisor, False)
        assert "caught" == await s.result(kill_supervisor, True)
        await s.witness.until(lambda: number in s.witness.outcomes)
        ended, _ = s.witness.outcomes[number]
        assert "the process that watched over sh -c" in ended.crash
        assert [] == s.witness.deaths
