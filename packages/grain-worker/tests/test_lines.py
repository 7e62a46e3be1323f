"""Runs that wait in line: in the session, in the runner, and in the handle on its process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.resource import ZERO, Cores
from grain.worker import Call, Runner
from grain.worker.messages import (
    BegunCount,
    Cancel,
    DefineFunction,
    Ended,
    Inventory,
    Lease,
    Revoke,
    Run,
    RunEnded,
)
from grain.worker.runner.chains import Lines, Waiting
from grain.worker.session import WorkerSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grain.edge.channel import Channel

M = TypeVar("M")


def made() -> WorkerSession:
    session = WorkerSession("id", "w", "host", Cores(4), 0.0)
    session.on_connected(0.0)
    session.to_head.clear()
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
    session = made()
    for number, line in ((1, 0), (2, 1), (3, 1)):
        session.on_message(lease(number, line), b"", 0.0)
    return session


def test_the_runner_is_told_of_lines_by_its_own_numbers() -> None:
    """What comes when the line is empty begins one of its own."""
    session = made()
    session.on_message(lease(7), b"", 0.0)
    session.on_message(lease(8, 7), b"", 0.0)
    assert [0, 1] == [run.chain for run in ordered(session, Run)]

    for number in (1, 2):
        session.on_ended(Ended(number, number), b"", 0.1)
    session.on_message(lease(9, 7), b"", 0.2)
    session.on_message(lease(10, 7), b"", 0.2)
    assert [0, 3] == [run.chain for run in ordered(session, Run)][2:]


def test_what_waits_was_not_begun() -> None:
    """So it is not counted, and reported as what it is."""
    session = three()
    session.on_tick(session.next_tick())
    assert [BegunCount(1)] == sent(session, BegunCount)

    session.on_disconnected(1.0)
    session.on_connected(2.0)
    assert [(1, 0), (2, 1), (3, 1)] == [(r.task, r.chain) for r in sent(session, Inventory)[0].runs]


def test_nobody_waits_for_long() -> None:
    """The runner is asked once to return what waits; what has begun is left alone."""
    session = three()
    session.on_ended(Ended(1, 1), b"", 0.01)  # the second runs now
    session.to_runner.clear()
    while session.next_tick() < 1.0:
        session.on_tick(session.next_tick())
    assert [Cancel(3, 3, waiting=True)] == ordered(session, Cancel)

    session.on_ended(Ended(3, 3, "returned"), None, 1.0)
    assert {1: "value", 3: "returned"} == statuses(session)


def test_nobody_waits_for_many_others() -> None:
    """Each of which may be brief enough."""
    session = made()
    for number in range(1, 10):
        session.on_message(lease(number, number > 1), b"", 0.0)
    now = 0.0
    for number in range(1, 4):
        now += 0.09
        session.on_ended(Ended(number, number), b"", now)
        while session.next_tick() <= now:
            session.on_tick(now)

    assert [5, 6, 7, 8, 9] == [cancel.task for cancel in ordered(session, Cancel)][-5:]


def test_brief_runs_are_not_disturbed() -> None:
    """The time counts from the end of the run before."""
    session = three()
    session.on_ended(Ended(1, 1), b"", 0.05)
    session.on_tick(0.09)

    assert [] == ordered(session, Cancel)


def test_who_comes_late_into_a_long_line_is_returned_as_well() -> None:
    """The run in front takes as long for it as for the others."""
    session = three()
    session.on_tick(0.2)
    session.on_message(lease(4, 1), b"", 0.3)
    session.to_runner.clear()
    session.on_tick(0.5)

    assert Cancel(4, 4, waiting=True) in ordered(session, Cancel)


def test_a_crash_is_that_of_the_run_in_front() -> None:
    """The others were in no position to crash anything."""
    session = three()
    session.on_runner_crashed("SIGSEGV", 1.0)

    assert {1: "crashed", 2: "returned", 3: "returned"} == statuses(session)


def test_who_drains_begins_nothing() -> None:
    """Neither what waits, nor what comes."""
    session = three()
    session.drain(0.0)
    session.on_message(lease(4, 1), b"", 0.0)

    assert [(2, True), (3, True)] == [(c.task, c.waiting) for c in ordered(session, Cancel)]
    assert {4: "returned"} == statuses(session)


def test_what_waits_can_be_revoked() -> None:
    """The runner knows whether it has begun."""
    session = three()
    session.on_message(Revoke((1, 2)), None, 0.0)
    assert [Cancel(2, 2)] == ordered(session, Cancel)

    session.on_ended(Ended(2, 2, "cancelled"), None, 0.0)
    assert {2: "cancelled"} == statuses(session)


# ---- the runner


class Steps:
    """Tasklets that wait to be let go one by one, and what happened."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.go = {number: trio.Event() for number in range(1, 5)}

    async def run(self, number: int) -> int:
        self.said.append(f"{number} begins")
        try:
            await self.go[number].wait()
        finally:
            self.said.append(f"{number} ends")
        return number


@asynccontextmanager
async def serving(runs: list[Run]) -> AsyncGenerator[tuple[Channel, Steps]]:
    """A runner that was told of these runs, as its head sees it, and what they do."""
    head, theirs = memory_channels()
    steps = Steps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs).serve)
        head.post([(run, Call(steps.run, (run.task,), {})) for run in runs])
        yield head, steps
        nursery.cancel_scope.cancel()


async def told(head: Channel) -> list[Any]:
    """What the runner says."""
    return list(await head.receive())


async def test_one_after_the_other(autojump_clock: trio.testing.MockClock) -> None:
    """In the order in which they came, whoever ends meanwhile elsewhere."""
    runs = [Run(1, 1, ZERO), Run(2, 2, ZERO, chain=1), Run(3, 3, ZERO), Run(4, 4, ZERO, chain=1)]
    async with serving(runs) as (head, steps):
        await wait_all_tasks_blocked()
        assert ["1 begins", "3 begins"] == sorted(steps.said)
        for number in (3, 1, 2, 4):
            steps.go[number].set()
            await wait_all_tasks_blocked()
        assert ["3 ends", "1 ends", "2 begins", "2 ends", "4 begins", "4 ends"] == steps.said[2:]
        ends: list[Any] = []
        while len(ends) < 4:
            ends += [message.task for message, _ in await told(head)]
        assert [3, 1, 2, 4] == ends


async def test_an_end_is_told_though_others_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It may wait for company, but not for the end of a long run."""
    runs = [Run(1, 1, ZERO), Run(2, 2, ZERO, chain=1), Run(3, 3, ZERO, chain=1)]
    async with serving(runs) as (head, steps):
        steps.go[1].set()
        with trio.fail_after(1.0):
            ((ended, _),) = await told(head)
        assert 1 == ended.task
        assert "2 ends" not in steps.said


@pytest.mark.parametrize(("waiting", "status"), [(True, "returned"), (False, "cancelled")])
async def test_what_waits_never_begins_once_it_is_cancelled(waiting: bool, status: str) -> None:
    """And what has begun is not touched by who wants only what waits."""
    runs = [Run(1, 1, ZERO), Run(2, 2, ZERO, chain=1), Run(3, 3, ZERO, chain=1)]
    async with serving(runs) as (head, steps):
        head.post([(Cancel(2, 2, waiting), None), (Cancel(1, 1, waiting=True), None)])
        ((ended, _),) = await told(head)
        assert (2, status) == (ended.task, ended.status)
        steps.go[1].set()
        await wait_all_tasks_blocked()
        assert ["1 begins", "1 ends", "3 begins"] == steps.said


async def test_what_waits_does_not_begin_when_the_head_has_left() -> None:
    """What runs may end."""
    head, theirs = memory_channels()
    steps = Steps()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs).serve)
        runs = [Run(1, 1, ZERO), Run(2, 2, ZERO, chain=1)]
        head.post([(run, Call(steps.run, (run.task,), {})) for run in runs])
        await wait_all_tasks_blocked()
        await head.aclose()
        steps.go[1].set()
    assert ["1 begins", "1 ends"] == steps.said


# ---- bookkeeping


def test_nothing_is_kept_of_lines_that_are_over() -> None:
    """However many there were."""
    waiting = Waiting()
    session = three()
    for run in ordered(session, Run):
        if run.chain:
            assert not waiting.admit(run, None, first_runs=True)
    runs = ordered(session, Run)
    assert runs[1] == waiting.ended(runs[0])[0]  # type: ignore[index]
    assert runs[2] == waiting.ended(runs[1])[0]  # type: ignore[index]
    assert None is waiting.ended(runs[2])
    assert {} == waiting.lines
    assert 0 == waiting.count

    for run in runs:
        session.on_ended(Ended(run.task, run.task), b"", 0.0)
    assert {} == session._lines._lines
    assert [] == Lines().waiting()
