"""Runs that wait in line: in the session, in the runner, and in the handle on its process."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio
from msgspec import structs
from trio.testing import wait_all_tasks_blocked

from grain import GVAR
from grain.edge.channel import memory_channels
from grain.resource import ZERO, Cores
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.agent.chains import Chains
from grain.worker.call import RunSettings
from grain.worker.messages import (
    ArrivedCount,
    Cancel,
    DefineFunction,
    Ended,
    Inventory,
    Lease,
    Revoke,
    RunEnded,
    StartRun,
)
from grain.worker.runner.chains import WaitingRuns
from grain.worker.session import WorkerSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grain.edge.channel import MemoryChannel
    from grain.worker.call import Outcome

    HeadChannel = MemoryChannel[Call | None, Outcome | None]
    RunnerChannel = MemoryChannel[Outcome | None, Call | None]

M = TypeVar("M")


def joined_session() -> WorkerSession:
    session = WorkerSession("id", "w", "host", Cores(4), 0.0, chain_patience=0.1)
    session.on_connected(0.0)
    session.take_mail()
    session.on_message(DefineFunction(b"f"), b"code", 0.0)
    return session


def lease(number: int, line: int = 0) -> Lease:
    return Lease("m", number, (1, number), b"f", {"Cores": 1}, chain=line)


def sent(session: WorkerSession, kind: type[M]) -> list[M]:
    return [message for message, _ in session.to_head if isinstance(message, kind)]


def ordered(session: WorkerSession, kind: type[M]) -> list[M]:
    return [message for message, _ in session.to_runner if isinstance(message, kind)]


def statuses(session: WorkerSession) -> dict[int, str]:
    return {settled.task: settled.status for settled in sent(session, RunEnded)}


def three() -> WorkerSession:
    """Three leases of one line."""
    session = joined_session()
    for number, line in ((1, 0), (2, 1), (3, 1)):
        session.on_message(lease(number, line), b"", 0.0)
    return session


async def test_a_run_for_an_empty_chain_begins_at_once_and_the_next_one_waits_for_it() -> None:
    session = joined_session()
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    steps = Steps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        for new in ((7, 8), (9, 10)):
            for number in new:
                session.on_message(lease(number, 7 * (number > 7)), b"", 0.0)
            orders = session.take_orders()
            for number, (run, _) in zip((1, 2), orders, strict=True):
                assert isinstance(run, StartRun)
                decoded = structs.replace(run, res=ZERO)
                head.post([(decoded, Call(steps.run, (number,), {}))])
            await wait_all_tasks_blocked()
            assert ["1 begins"] == steps.log
            steps.go[1].set()
            steps.go[2].set()
            while session.runs:
                for message, _ in await head.receive():
                    assert isinstance(message, Ended)
                    session.on_ended(message, b"", 0.1)
            assert ["1 begins", "1 ends", "2 begins", "2 ends"] == steps.log
            steps = Steps()
        nursery.cancel_scope.cancel()


def test_a_waiting_run_counts_as_arrived_and_is_reported_with_its_chain() -> None:
    session = three()
    session.on_tick(session.next_tick())
    assert [ArrivedCount(3)] == sent(session, ArrivedCount)

    session.on_disconnected()
    session.on_connected(2.0)
    assert [(1, 0), (2, 1), (3, 1)] == [(r.task, r.chain) for r in sent(session, Inventory)[0].runs]


def test_a_run_that_waits_for_long_is_recalled_once() -> None:
    """The one under way is left alone."""
    session = three()
    session.on_ended(Ended((1, 1)), b"", 0.01)  # the second runs now
    session.take_orders()
    while session.next_tick() < 1.0:
        session.on_tick(session.next_tick())
    assert [Cancel((1, 3), waiting=True)] == ordered(session, Cancel)

    session.on_ended(Ended((1, 3), "returned"), None, 1.0)
    assert {1: "value", 3: "returned"} == statuses(session)


def test_runs_behind_many_brief_ones_are_recalled_as_well() -> None:
    session = joined_session()
    for number in range(1, 10):
        session.on_message(lease(number, number > 1), b"", 0.0)
    now = 0.0
    for number in range(1, 4):
        now += 0.09
        session.on_ended(Ended((1, number)), b"", now)
        while session.next_tick() <= now:
            session.on_tick(now)

    assert [5, 6, 7, 8, 9] == [cancel.attempt[1] for cancel in ordered(session, Cancel)][-5:]


def test_no_run_is_recalled_behind_brief_ones() -> None:
    """The time counts from the end of the run before."""
    session = three()
    session.on_ended(Ended((1, 1)), b"", 0.05)
    session.on_tick(0.09)

    assert [] == ordered(session, Cancel)


def test_a_run_that_comes_late_behind_a_long_one_is_recalled_as_well() -> None:
    session = three()
    session.on_tick(0.2)
    session.on_message(lease(4, 1), b"", 0.3)
    session.take_orders()
    session.on_tick(0.5)

    assert Cancel((1, 4), waiting=True) in ordered(session, Cancel)


def test_a_chain_that_began_just_after_a_look_at_the_others_waits_no_longer() -> None:
    """Each is recalled at its own time, and not at the next look at all of them."""
    session = three()
    session.on_message(lease(4), b"", 0.09)
    session.on_message(lease(5, 4), b"", 0.09)
    session.on_tick(0.1)
    assert [2, 3] == [cancel.attempt[1] for cancel in ordered(session, Cancel)]
    assert 0.19 == pytest.approx(session.next_tick())

    session.on_tick(0.19)
    assert [2, 3, 5] == [cancel.attempt[1] for cancel in ordered(session, Cancel)]


def test_a_crash_is_that_of_the_first_run_of_a_chain_and_the_others_are_returned() -> None:
    session = three()
    session.on_runner_crashed("SIGSEGV", 1.0)

    assert {1: "crashed", 2: "returned", 3: "returned"} == statuses(session)


def test_a_crash_is_reported_after_the_runs_that_did_not_begin_because_of_it() -> None:
    """The connection may be lost between the two; a head would take the second run for begun."""
    session = three()
    session.on_runner_crashed("SIGSEGV", 1.0)

    assert [3, 2, 1] == [ended.attempt[1] for ended in sent(session, RunEnded)]


def test_a_draining_worker_recalls_waiting_runs_and_returns_new_ones() -> None:
    session = three()
    session.drain(0.0)
    session.on_message(lease(4, 1), b"", 0.0)

    assert [(2, True), (3, True)] == [(c.attempt[1], c.waiting) for c in ordered(session, Cancel)]
    assert {4: "returned"} == statuses(session)


def test_a_waiting_run_can_be_revoked() -> None:
    session = three()
    session.on_message(Revoke((1, 2)), None, 0.0)
    assert [Cancel((1, 2))] == ordered(session, Cancel)

    session.on_ended(Ended((1, 2), "cancelled"), None, 0.0)
    assert {2: "cancelled"} == statuses(session)


# ---- the runner


class Steps:
    """Tasklets that wait to be let go one by one, and what happened."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go = {number: trio.Event() for number in range(1, 65)}

    async def run(self, number: int) -> int:
        self.log.append(f"{number} begins")
        try:
            await self.go[number].wait()
        finally:
            self.log.append(f"{number} ends")
        return number


@asynccontextmanager
async def serving(runs: list[StartRun]) -> AsyncGenerator[tuple[HeadChannel, Steps]]:
    """Start a runner with these runs; yield its head's channel and the log of the steps."""
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    steps = Steps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        head.post([(run, Call(steps.run, (run.attempt[1],), {})) for run in runs])
        yield head, steps
        nursery.cancel_scope.cancel()


async def reports(head: HeadChannel) -> list[Any]:
    """Return the next messages of the runner."""
    return list(await head.receive())


async def test_the_runs_of_a_chain_take_place_one_after_the_other_in_their_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    runs = [
        StartRun((1, 1), ZERO),
        StartRun((1, 2), ZERO, chain=1),
        StartRun((1, 3), ZERO),
        StartRun((1, 4), ZERO, chain=1),
    ]
    async with serving(runs) as (head, steps):
        await wait_all_tasks_blocked()
        assert ["1 begins", "3 begins"] == sorted(steps.log)
        for number in (3, 1, 2, 4):
            steps.go[number].set()
            await wait_all_tasks_blocked()
        assert ["3 ends", "1 ends", "2 begins", "2 ends", "4 begins", "4 ends"] == steps.log[2:]
        ends: list[Any] = []
        while len(ends) < 4:
            ends += [message.attempt[1] for message, _ in await reports(head)]
        assert [3, 1, 2, 4] == ends


async def test_the_end_of_a_run_is_reported_while_its_successors_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It may wait for company, but not for the end of a long run."""
    runs = [
        StartRun((1, 1), ZERO),
        StartRun((1, 2), ZERO, chain=1),
        StartRun((1, 3), ZERO, chain=1),
    ]
    async with serving(runs) as (head, steps):
        steps.go[1].set()
        with trio.fail_after(1.0):
            ((ended, _),) = await reports(head)
        assert (1, 1) == ended.attempt
        assert "2 ends" not in steps.log


async def test_a_flood_is_reported_while_half_of_its_chain_waits(
    mock_clock: trio.testing.MockClock,
) -> None:
    """Else the chain would be empty until the answer comes."""
    runs = [StartRun((1, number), ZERO, chain=int(number > 1)) for number in range(1, 65)]
    async with serving(runs) as (head, steps):
        for number in range(1, 65):
            steps.go[number].set()
        ends = await reports(head)
        assert list(range(1, 33)) == [message.attempt[1] for message, _ in ends]
        assert "64 begins" not in steps.log


async def test_a_runner_does_not_wake_up_for_ends_that_are_sent(
    mock_clock: trio.testing.MockClock,
) -> None:
    runs = [StartRun((1, 1), ZERO), StartRun((1, 2), ZERO, chain=1)]
    async with serving(runs) as (head, steps):
        steps.go[1].set()
        steps.go[2].set()
        assert [1, 2] == [message.attempt[1] for message, _ in await reports(head)]
        await wait_all_tasks_blocked()
        assert math.inf == trio.lowlevel.current_statistics().seconds_to_next_deadline


@pytest.mark.parametrize(("waiting", "status"), [(True, "returned"), (False, "cancelled")])
async def test_a_waiting_run_that_is_cancelled_never_begins(waiting: bool, status: str) -> None:
    """And a run that has begun is left alone where only waiting ones are to be cancelled."""
    runs = [
        StartRun((1, 1), ZERO),
        StartRun((1, 2), ZERO, chain=1),
        StartRun((1, 3), ZERO, chain=1),
    ]
    async with serving(runs) as (head, steps):
        head.post([(Cancel((1, 2), waiting), None), (Cancel((1, 1), waiting=True), None)])
        ((ended, _),) = await reports(head)
        assert ((1, 2), status) == (ended.attempt, ended.status)
        steps.go[1].set()
        await wait_all_tasks_blocked()
        assert ["1 begins", "1 ends", "3 begins"] == steps.log


async def test_waiting_runs_do_not_begin_when_the_head_has_left() -> None:
    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    steps = Steps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        runs = [StartRun((1, 1), ZERO), StartRun((1, 2), ZERO, chain=1)]
        head.post([(run, Call(steps.run, (run.attempt[1],), {})) for run in runs])
        await wait_all_tasks_blocked()
        await head.aclose()
        steps.go[1].set()
    assert ["1 begins", "1 ends"] == steps.log


NOTE: ContextVar[int] = ContextVar("note", default=0)


class Brief:
    """Tasklets that never wait: what each finds, and the trio task that it runs in."""

    def __init__(self, count: int) -> None:
        self.seen: list[tuple[int, str]] = []
        self.tasks: list[trio.lowlevel.Task] = []
        self.runs = [StartRun((1, one), ZERO, chain=int(one > 1)) for one in range(1, count + 1)]

    async def run(self, number: int, sets: tuple[str, ...]) -> None:
        self.seen.append((NOTE.get(), GVAR.cwd))
        self.tasks.append(trio.lowlevel.current_task())
        if "a variable" in sets:
            NOTE.set(number)
        if "its directory" in sets:
            GVAR.surroundings = RunSettings("/else")

    async def serve(self, *sets: str) -> None:
        head: HeadChannel
        theirs: RunnerChannel
        head, theirs = memory_channels()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
            head.post([(run, Call(self.run, (run.attempt[1], sets), {})) for run in self.runs])
            ended = 0
            while ended < len(self.runs):
                ended += len(await head.receive())
            nursery.cancel_scope.cancel()


async def test_brief_runs_that_follow_each_other_have_one_trio_task() -> None:
    brief = Brief(20)
    await brief.serve()
    assert 20 == len(brief.tasks)
    assert len(set(brief.tasks[2:])) == 1


@pytest.mark.parametrize("sets", ["a variable", "its directory"])
async def test_a_run_does_not_see_the_variables_of_the_one_before_it(sets: str) -> None:
    brief = Brief(6)
    await brief.serve(sets)
    assert {(0, str(Path.cwd()))} == set(brief.seen)


async def test_other_tasks_have_a_turn_each_millisecond_while_brief_runs_follow_each_other(
    mock_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []

    async def brief() -> None:
        log.append("run")
        mock_clock.jump(0.0004)

    async def other() -> None:
        while True:
            log.append(" ")
            await trio.lowlevel.checkpoint()

    head: HeadChannel
    theirs: RunnerChannel
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        nursery.start_soon(other)
        runs = [StartRun((1, one), ZERO, chain=int(one > 1)) for one in range(1, 41)]
        head.post([(run, Call(brief, (), {})) for run in runs])
        ended = 0
        while ended < len(runs):
            ended += len(await head.receive())
        nursery.cancel_scope.cancel()
    # Three of 0.4 ms, twice if the other task was the first in one turn and the last in the next.
    assert 6 >= max(stretch.count("run") for stretch in "".join(log).split())


# ---- bookkeeping


def test_nothing_is_kept_of_chains_that_are_over() -> None:
    waiting: WaitingRuns[None] = WaitingRuns()
    session = three()
    for run in ordered(session, StartRun):
        if run.chain:
            assert not waiting.admit(run, None, first_runs=True)
    runs = ordered(session, StartRun)
    assert runs[1] == waiting.pop_successor(runs[0])[0]  # type: ignore[index]
    assert runs[2] == waiting.pop_successor(runs[1])[0]  # type: ignore[index]
    assert None is waiting.pop_successor(runs[2])
    assert {} == waiting.chains
    assert 0 == waiting.count

    for run in runs:
        session.on_ended(Ended(run.attempt), b"", 0.0)
    assert {} == session._chains._chains
    assert [] == Chains().waiting()
