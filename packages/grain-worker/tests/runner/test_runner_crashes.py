"""Runs that count as crashed though their process lives: a supervisor of theirs was killed."""

from __future__ import annotations

import sys

import pytest

from grain.worker.errors import ExternalError, ExternalLostError, Failure, MemberLost
from grain.worker.runner.runner import crash_behind, failure_text, lost_worker
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


@pytest.mark.parametrize(
    ("index", "worker", "expected"), [(1, "w2", "w2"), (0, "", "")], ids=["a seat", "the root"]
)
def test_the_worker_of_a_member_that_is_lost_is_named(
    index: int, worker: str, expected: str
) -> None:
    error = MemberLost(index, worker or "this worker", "silent", joined=True, worker=worker)

    assert f"{worker or 'this worker'} is lost: silent" == crash_behind(error)
    assert expected == lost_worker(error) == lost_worker(ExceptionGroup("", [error]))
    assert "" == lost_worker(LOST)


class Unprintable(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


def failed(*argv: str, stderr: str = "") -> ExternalError:
    return ExternalError(Failure(argv, "n1", returncode=128, stderr_tail=stderr))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("odd\nand more"), "ValueError: odd"),
        (ValueError(), "ValueError"),
        (Unprintable(), "Unprintable"),
        (ValueError("no file \udcff"), "ValueError: no file \\udcff"),
        (ExceptionGroup("", [ExceptionGroup("", [KeyError("k")])]), "KeyError: 'k'"),
        (ExceptionGroup("two", [OSError(), OSError()]), "ExceptionGroup: two (2 sub-exceptions)"),
        (ValueError("x" * 1000), f"ValueError: {'x' * 185}..."),
        (
            failed("xtb", "a.xyz", stderr="cycle 250\nSCF did not converge\n### done ###"),
            "ExternalError: xtb a.xyz: exit code 128: SCF did not converge",
        ),
        (failed("xtb"), "ExternalError: xtb: exit code 128"),
        (
            failed("xtb", "x" * 300, stderr="SCF did not converge"),
            f"ExternalError: xtb {'x' * 141}...: exit code 128: SCF did not converge",
        ),
    ],
)
def test_a_failure_has_the_class_and_the_first_line_of_its_exception(
    error: BaseException, expected: str
) -> None:
    assert expected == failure_text(error)


async def test_the_end_of_a_run_that_has_failed_says_why() -> None:
    async def fail() -> None:
        raise LookupError("no such basis set\n  in line 3")

    async with station() as s:
        number = s.start(fail)
        await s.witness.until(lambda: number in s.witness.outcomes)
        ended, _ = s.witness.outcomes[number]
        assert (True, "LookupError: no such basis set") == (ended.failed, ended.error)


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
