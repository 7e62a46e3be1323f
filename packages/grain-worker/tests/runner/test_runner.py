"""A runner at one end of a channel, a test as the head at the other."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import outcome
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.subproc.errors import BrokenSubprocessError
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.errors import CodeReplaced, ExternalError, Failure
from grain.worker.external import run_external
from grain.worker.messages import AskEnding, Cancel, Ended, EndingTold, EndOfWorker, StartRun
from grain.worker.processes import account
from grain.worker.processes.account import never_told
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.runner.runner import signal_behind
from grain.worker.runner.services import worker_ends

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

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


@asynccontextmanager
async def asking_runner(
    told_at: Callable[[], float] = never_told,
    replaced: Callable[[], str] = lambda: "",
) -> AsyncGenerator[HeadChannel]:
    """A runner that asks its agent, which is the test."""
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    serves = Runner(
        *("w", theirs, MemoryTranslation()), interruptible=False, told_at=told_at, replaced=replaced
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serves.serve)
        yield head
        nursery.cancel_scope.cancel()


def died(returncode: int) -> ExternalError:
    return ExternalError(Failure(("xtb",), "n17", returncode=returncode))


@pytest.mark.parametrize(
    ("error", "number"),
    [(died(-15), 15), (died(128 + 12), 12), (died(1), 0), (died(-11), 0), (ValueError("x"), 0)],
)
@pytest.mark.parametrize("ends", [False, True])
async def test_a_run_that_fails_asks_its_agent_and_is_handed_back_if_the_worker_ends(
    error: Exception, number: int, ends: bool
) -> None:
    async with asking_runner() as head:
        # One after the other: the second is executed in another way.
        for attempt in ((1, 1), (2, 1)):
            head.post([(StartRun(attempt, ZERO), call(raises, error))])
            assert [(AskEnding(attempt, number), None)] == await head.receive()
            head.post([(EndingTold(attempt, ends), None)])
            ((ended, payload),) = await head.receive()
            assert isinstance(ended, Ended)
            assert attempt == ended.attempt
            assert ("returned" if ends else "done", not ends) == (ended.status, ended.failed)
            assert (payload is None) == ends


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (CodeReplaced("by 1.1.0"), "by 1.1.0"),
        (ImportError("no module"), "by 1.1.0"),
        (ValueError("x"), ""),
    ],
)
async def test_a_run_that_may_have_failed_as_grain_was_replaced_says_so(
    error: Exception, why: str
) -> None:
    async with asking_runner(replaced=lambda: "by 1.1.0") as head:
        head.post([(StartRun((1, 1), ZERO), call(raises, error))])

        assert [(AskEnding((1, 1), 0, why), None)] == await head.receive()


@pytest.mark.parametrize("ends", [False, True])
async def test_a_run_whose_program_was_told_to_end_is_handed_back_if_the_worker_ends(
    ends: bool,
) -> None:
    """Whatever it makes of what the program did."""

    async def tries() -> str:
        for does in ("exit 0", "exit 3"):
            with suppress(ExternalError):
                await run_external(["sh", "-c", does])
        return "the best so far"

    before = time.monotonic()
    async with asking_runner(lambda: before) as head:
        for attempt in ((1, 1), (2, 1)):
            head.post([(StartRun(attempt, ZERO), call(tries))])
            assert [(AskEnding(attempt, signal.SIGTERM), None)] == await head.receive()
            head.post([(EndingTold(attempt, ends), None)])
            ((ended, payload),) = await head.receive()
            assert isinstance(ended, Ended)
            assert ("returned" if ends else "done") == ended.status
            assert (payload is None) == ends


async def test_a_script_that_ends_well_as_its_child_has_got_the_signal_first_is_handed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """A batch system signals one process after the other, this one last."""
    told_at = math.inf
    pid = tmp_path / "pid"
    monkeypatch.setattr(account, "_FOR_EACH", 1e6)  # as for a program that has run for long
    script = f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait; echo finished"

    async def computes() -> str:
        return (await run_external(["sh", "-c", script])).stdout_text

    async with asking_runner(lambda: told_at) as head:
        head.post([(StartRun((1, 1), ZERO), call(computes))])
        while not pid.exists():
            await trio.lowlevel.checkpoint()
        os.kill(int(pid.read_text()), signal.SIGTERM)
        while ForkServerClient.programs_of_this_run():
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        told_at = time.monotonic()
        mock_clock.jump(0.2)
        assert [(AskEnding((1, 1), signal.SIGTERM), None)] == await head.receive()
        head.post([(EndingTold((1, 1), True), None)])
        ((ended, _),) = await head.receive()
        assert isinstance(ended, Ended)
        assert "returned" == ended.status


@pytest.mark.parametrize("does", ["caught", "wrapped", "at once"])
async def test_a_run_whose_program_was_warned_of_the_workers_end_is_handed_back(
    tmp_path: Path, does: str
) -> None:
    """Whatever it makes of that; also of a program that the signal of the warning ends."""
    program = "until [ -e EXIT ]; do sleep 0.02; done; exit 1"
    warn = "SIGTERM" if does == "at once" else "EXIT"

    async def computes() -> str:
        try:
            await run_external(["sh", "-c", program], cwd=tmp_path, warn=warn, warn_before=1.0)
        except ExternalError as error:
            if does == "wrapped":
                raise RuntimeError("scf failed") from error
            if does == "at once":
                raise
        return "caught"

    async with asking_runner() as head:
        head.post([(EndOfWorker(None, now=True), None)])
        for attempt in ((1, 1), (2, 1)):
            head.post([(StartRun(attempt, ZERO), call(computes))])
            messages: list[object] = []
            while not any(isinstance(one, Ended) for one in messages):
                messages += [message for message, _ in await head.receive()]
            assert isinstance(messages[-1], Ended)
            assert (attempt, "stopped") == (messages[-1].attempt, messages[-1].interruption)


@pytest.mark.parametrize("after", [True, False])
async def test_a_run_whose_programs_ended_before_that_has_its_result(after: bool) -> None:
    told_at = math.inf

    async def computes() -> None:
        nonlocal told_at
        if after:
            await run_external(["true"])
        told_at = time.monotonic()

    async with asking_runner(lambda: told_at) as head:
        head.post([(StartRun((1, 1), ZERO), call(computes))])
        ((ended, _),) = await head.receive()
        assert isinstance(ended, Ended)
        assert "done" == ended.status


async def test_a_run_in_the_process_of_its_mission_asks_nobody() -> None:
    async with runner() as (head, _):
        head.post([(StartRun((1, 1), ZERO), call(raises, died(-15)))])
        ((ended, _payload),) = await head.receive()
        assert isinstance(ended, Ended)
        assert ended.failed


async def test_a_run_that_is_cancelled_while_it_asks_ends_once() -> None:
    async with asking_runner() as head:
        for attempt in ((1, 1), (2, 1)):
            head.post([(StartRun(attempt, ZERO), call(raises, died(-15)))])
            await head.receive()
            head.post([(Cancel(attempt), None), (EndingTold(attempt, False), None)])
            ((ended, _),) = await head.receive()
            assert isinstance(ended, Ended)
            assert (attempt, True) == (ended.attempt, ended.failed)


@pytest.mark.parametrize("number", [15, 0])
async def test_an_agent_that_is_gone_was_ended_as_the_program_was(number: int) -> None:
    found = []

    async def asks() -> None:
        found.append(await worker_ends(number))

    async with asking_runner() as head:
        head.post([(StartRun((1, 1), ZERO), call(asks))])
        await head.receive()
        await head.aclose()
        await wait_all_tasks_blocked()
    assert [number > 0] == found


class Odd(Exception):
    @property
    def returncode(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (subprocess.CalledProcessError(-15, "xtb"), 15),
        (subprocess.CalledProcessError(1, "xtb"), 0),
        (BrokenSubprocessError("f", "it ended", -15, "", "n17"), 15),
        (ExceptionGroup("", [ValueError(), subprocess.CalledProcessError(143, "sh")]), 15),
        (subprocess.CalledProcessError(-11, "xtb"), 0),
        (Odd(), 0),
    ],
)
def test_the_signal_is_found_in_errors_of_every_sort(error: Exception, expected: int) -> None:
    behind = ValueError("no energy")
    behind.__cause__ = error
    behind.__context__ = behind

    assert [expected] * 2 == [signal_behind(one) for one in (error, behind)]
