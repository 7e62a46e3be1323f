"""Runs that count as crashed though their process lives: a supervisor of theirs was killed."""

from __future__ import annotations

import sys

import pytest

from grain.eventlog.causes import RunFailure
from grain.worker.errors import (
    ExternalError,
    ExternalLostError,
    ExternalMemoryError,
    ExternalTimeoutError,
    Failure,
    MemberLost,
)
from grain.worker.runner.runner import crash_behind, failure_in_short, lost_worker
from grain_testkit.runner_station import station

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

LOST = ExternalLostError(Failure(("xtb", "a.xyz"), "n17", unwatched=True))
ODD = ExternalLostError(Failure(("xtb", "caf\udce9"), "n17", unwatched=True))
STUCK = ExternalLostError(Failure(("xtb", "a.xyz"), "n17"))
WHY = "the process that watched over xtb a.xyz was killed"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LOST, WHY),
        (ODD, "the process that watched over xtb 'caf?' was killed"),
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


def failed(command: str, stderr: str = "", returncode: int = 128) -> ExternalError:
    argv = tuple(command.split())
    return ExternalError(Failure(argv, "n1", returncode=returncode, stderr_tail=stderr))


XTB = "exit 128: no room"
LONG = f"{'x' * 98}...{'x' * 98}"


@pytest.mark.parametrize(
    ("error", "message", "words"),
    [
        (ValueError("odd\nand more"), "odd", "ValueError: odd"),
        (ValueError(), "", "ValueError"),
        (Unprintable(), "", "Unprintable"),
        (ValueError("no file \udcff"), "no file \\udcff", "ValueError: no file \\udcff"),
        (ExceptionGroup("", [ExceptionGroup("", [KeyError("k")])]), "'k'", "KeyError: 'k'"),
        (ExceptionGroup("2", [OSError(), OSError()]), "2 (2 sub-exceptions)", "ExceptionGroup: "),
        (type("E" * 500, (Exception,), {})(), "", f"{'E' * 117}..."),
        (ValueError("x" * 1000), LONG, f"ValueError: {LONG}"),
        (failed("/a/xtb b", "1\nno room\n## 2 ##"), "/a/xtb b: exit code 128: no room", XTB),
        (failed("xtb"), "xtb: exit code 128", "exit 128: xtb"),
        (failed("pw.x", returncode=-11), "pw.x: ended by signal SIGSEGV", "SIGSEGV: pw.x"),
        (
            failed(f"xtb {'x' * 300}", "no room"),
            f"xtb {'x' * 90}...{'x' * 79}: exit code 128: no room", XTB,
        ),
        (
            ExternalTimeoutError(Failure(("g",), "n1", reason="late")), "g: late",
            "ExternalTimeoutError: g: late",
        ),
        (
            ExternalMemoryError(Failure(("g",), "n1", returncode=-9)), "g: killed for want of mem",
            "out of memory, SIGKILL: g",
        ),
    ],
)  # fmt: skip
def test_a_failure_has_the_first_line_of_its_exception_and_how_its_program_ended(
    error: BaseException, message: str, words: str
) -> None:
    failure = failure_in_short(error)

    assert failure.message.startswith(message)
    assert failure.words().startswith(words)
    assert len(failure.message) <= 200


async def test_the_end_of_a_run_that_has_failed_says_why() -> None:
    async def fail() -> None:
        raise LookupError("no such basis set\n  in line 3")

    async with station() as s:
        number = s.start(fail)
        await s.witness.until(lambda: number in s.witness.outcomes)
        ended, _ = s.witness.outcomes[number]
        assert ended.failed
        assert RunFailure("LookupError", "no such basis set") == ended.failure


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
