"""A runner at one end of a channel, a test as the head at the other."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.subproc.errors import BrokenSubprocessError
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.errors import ExternalError, Failure
from grain.worker.messages import Cancel, Ended, StartRun
from grain.worker.runner.runner import LATE_SIGNAL, by_sigterm

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trio.testing import MockClock

    from grain.edge.channel import MemoryChannel
    from grain.edge.messages import Message
    from grain.worker.call import Outcome

    HeadChannel = MemoryChannel[Call | None, Outcome | None]
    RunnerChannel = MemoryChannel[Outcome | None, Call | None]


@asynccontextmanager
async def runner() -> AsyncGenerator[tuple[HeadChannel, trio.Nursery]]:
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        yield head, nursery
        nursery.cancel_scope.cancel()


def call(fn: Callable[..., Any], *args: object) -> Call:
    return Call(fn, args, {})


def without_report(message: Message) -> Message:
    return msgspec.structs.replace(message, report=b"")


class Tally:
    """A tasklet that counts how often it began and ended, and waits to be let go."""

    def __init__(self) -> None:
        self.began = self.ended = 0
        self.go = trio.Event()

    async def run(self) -> int:
        self.began += 1
        try:
            await self.go.wait()
        finally:
            self.ended += 1
        return self.began


async def test_the_end_of_a_run_is_reported_with_its_outcome() -> None:
    tally = Tally()
    tally.go.set()
    async with runner() as (head, _):
        head.post([(StartRun((1, 5), ZERO), call(tally.run))])

        ((ended, value),) = await head.receive()
        assert (without_report(ended), value) == (Ended((1, 5), "done"), outcome.Value(1))
        assert isinstance(ended, Ended)
        assert 0 < ended.report.started <= ended.report.ended


async def test_a_run_that_is_ordered_twice_is_executed_once() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(StartRun((1, 5), ZERO), call(tally.run))] * 2)
        await wait_all_tasks_blocked()
        tally.go.set()

        assert len(await head.receive()) == tally.began == 1


async def test_another_attempt_at_a_task_that_still_runs_is_a_run_of_its_own() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post(
            [(StartRun((1, 5), ZERO), call(tally.run)), (StartRun((1, 6), ZERO), call(tally.run))]
        )
        await wait_all_tasks_blocked()
        tally.go.set()
        ends = [without_report(message) for message, _ in await head.receive()]

        assert len(ends) == 2
        assert Ended((1, 5)) in ends
        assert Ended((1, 6)) in ends


async def test_a_cancelled_run_has_ended_when_that_is_reported_and_other_attempts_go_on() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(StartRun((1, 5), ZERO), call(tally.run))])
        head.post([(Cancel((1, 4)), None), (Cancel((2, 5)), None)])
        await wait_all_tasks_blocked()
        assert (tally.began, tally.ended) == (1, 0)

        head.post([(Cancel((1, 5)), None)])

        ((ended, value),) = await head.receive()
        assert (without_report(ended), value) == (Ended((1, 5), "cancelled"), None)
        assert tally.ended == 1


async def test_when_the_head_closes_the_channel_the_runner_returns_after_its_runs_have_ended() -> (
    None
):
    tally = Tally()
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        head.post([(StartRun((1, 5), ZERO), call(tally.run))])
        await wait_all_tasks_blocked()
        await head.aclose()
        await wait_all_tasks_blocked()
        assert tally.ended == 0
        tally.go.set()

    assert tally.ended == 1


async def test_a_runner_that_is_cancelled_returns_after_its_runs_have_ended() -> None:
    tally = Tally()
    async with runner() as (head, _):
        head.post([(StartRun((1, 5), ZERO), call(tally.run))])
        await wait_all_tasks_blocked()

    assert (tally.began, tally.ended) == (1, 1)


async def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("returncode", "interruptible", "expected"),
    [(-15, False, LATE_SIGNAL), (143, False, LATE_SIGNAL), (1, False, 0.0), (-15, True, 0.0)],
)
async def test_a_worker_reports_a_program_that_sigterm_ended_when_it_has_the_signal_itself(
    autojump_clock: MockClock, returncode: int, interruptible: bool, expected: float
) -> None:
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    error = ExternalError(Failure(("xtb",), "n17", returncode=returncode))
    serves = Runner("w", theirs, MemoryTranslation(), interruptible=interruptible)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serves.serve)
        began = trio.current_time()
        # One after the other: the second is executed in another way.
        for number in (1, 2):
            head.post([(StartRun((number, 1), ZERO), call(raises, error))])
            ((ended, _),) = await head.receive()
            assert isinstance(ended, Ended)
            assert ((number, 1), True) == (ended.attempt, ended.failed)
            assert expected * number == pytest.approx(trio.current_time() - began)
        nursery.cancel_scope.cancel()


async def test_a_run_that_is_cancelled_after_its_program_died_ends_once(
    autojump_clock: MockClock,
) -> None:
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    error = ExternalError(Failure(("xtb",), "n17", returncode=-15))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation(), interruptible=False).serve)
        for number in (1, 2):
            head.post([(StartRun((number, 1), ZERO), call(raises, error))])
            await trio.sleep(LATE_SIGNAL / 2)
            head.post([(Cancel((number, 1)), None)])
            ((ended, _),) = await head.receive()
            assert isinstance(ended, Ended)
            assert ((number, 1), True) == (ended.attempt, ended.failed)
        nursery.cancel_scope.cancel()


class Odd(Exception):
    @property
    def returncode(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (subprocess.CalledProcessError(-15, "xtb"), True),
        (subprocess.CalledProcessError(1, "xtb"), False),
        (BrokenSubprocessError("f", "it ended", -15, "", "n17"), True),
        (ExceptionGroup("", [ValueError(), subprocess.CalledProcessError(143, "sh")]), True),
        (Odd(), False),
    ],
)
def test_the_signal_is_found_in_errors_of_every_sort(error: Exception, expected: bool) -> None:
    behind = ValueError("no energy")
    behind.__cause__ = error
    behind.__context__ = behind

    assert [expected] * 2 == [by_sigterm(one) for one in (error, behind)]
