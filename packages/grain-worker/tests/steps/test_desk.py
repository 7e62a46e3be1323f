"""Steps by a connection each: numbers, waiting, ends, and an srun that is lost."""

from __future__ import annotations

import signal
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from grain.worker.gang.control import connect, listen, serve
from grain.worker.steps.desk import StepDesk
from grain.worker.steps.orders import StepJob
from grain.worker.steps.shares import MemberRoom, StepShares

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.queue.notes.steps import StepRecord
    from grain.worker.gang.control import JsonLines

JOB = StepJob({"JOB_ID": "12"}, ("n1",), (True,))
WAITS = "srun: Job 12 step creation temporarily disabled, retrying (Requested nodes are busy)"


def program(name: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([f"/bin/{name}", *words])


class Site:
    """A desk of a job with two CPUs, and what it notes."""

    def __init__(
        self, name: str, desk: StepDesk, lines: list[StepRecord], opened: AsyncExitStack
    ) -> None:
        self._opened = opened
        self.name = name
        self.desk = desk
        self.lines = lines

    async def ask(self, **order: Any) -> JsonLines:
        srun = await self._opened.enter_async_context(await connect(self.name))
        await srun.send(**{"name": "x", "tasks": 1, "exact": True, **order})
        return srun

    async def begun(self, **order: Any) -> tuple[JsonLines, int]:
        srun = await self.ask(**order)
        return srun, (await srun.receive())["step"]


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    name, listener = listen()
    lines: list[StepRecord] = []
    shares = StepShares([MemberRoom((0, 1))])
    desk = StepDesk(shares, JOB, lines.append)
    async with trio.open_nursery() as nursery, AsyncExitStack() as opened:
        nursery.start_soon(serve, listener, desk.admit)
        yield Site(name, desk, lines, opened)
        nursery.cancel_scope.cancel()


async def end(srun: JsonLines, *statuses: int) -> None:
    await srun.send(ended=statuses or (0,))
    assert {"noted": True} == await srun.receive()


async def test_each_step_has_a_number_of_its_own() -> None:
    async with site() as job:
        found = []

        async def one() -> None:
            srun, number = await job.begun(quiet=True)
            found.append(number)
            await end(srun)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(one)
        assert [0, 1] == sorted(found)
        await end((await job.begun())[0], 3)
        assert (2, (3,), "") == (job.lines[-1].step, job.lines[-1].statuses, job.lines[-1].state)


async def test_what_a_step_uses_is_noted_while_it_runs_and_when_it_ends() -> None:
    with program("sleep", "1000") as sleeper:
        try:
            async with site() as job:
                for ended in True, False:
                    srun, number = await job.begun()
                    await srun.send(started=[sleeper.pid])
                    while not job.lines[-1].memory:
                        await job.desk.measure()
                        await trio.sleep(0.01)
                    line = job.lines[-1]
                    assert (number, 0.0) == (line.step, line.ended)
                    assert 0 < line.memory < 1
                    if ended:  # srun knows more by then
                        await srun.send(ended=(0,), cpu=7.0, memory=9.0)
                        assert {"noted": True} == await srun.receive()
                        assert (7.0, 9.0) == (job.lines[-1].cpu, job.lines[-1].memory)
            assert (line.memory, "CANCELLED") == (job.lines[-1].memory, job.lines[-1].state)
        finally:
            sleeper.kill()


async def test_a_step_that_srun_has_ended_is_cancelled() -> None:
    async with site() as job:
        srun, _ = await job.begun()
        await srun.send(ended=(-15,), cancelled=True)
        assert {"noted": True} == await srun.receive()
        assert ((-15,), "CANCELLED") == (job.lines[-1].statuses, job.lines[-1].state)


async def test_a_step_waits_for_room_and_is_told() -> None:
    async with site() as job:
        first, _ = await job.begun(tasks=2)
        second = await job.ask()
        quiet = await job.ask(quiet=True)
        assert {"wait": WAITS} == await second.receive()
        hasty = await job.ask(immediate=True)
        assert {
            "refused": "Unable to create step for job 12: Requested nodes are busy"
        } == await hasty.receive()
        await end(first)
        assert {"wait": "srun: Step created for job 12"} == await second.receive()
        # One that was refused has no number.
        assert {1, 2} == {(await srun.receive())["step"] for srun in (second, quiet)}


async def test_a_step_that_never_fits_is_refused() -> None:
    async with site() as job:
        large = await job.ask(tasks=3)
        assert "More processors requested than permitted" in (await large.receive())["refused"]
        odd = await job.ask(tasks="many")
        assert "not what was expected" in (await odd.receive())["refused"]
        assert 0 == (await job.begun())[1]


async def test_room_is_free_when_an_end_is_confirmed() -> None:
    async with site() as job:
        for number in range(3):
            srun, found = await job.begun(tasks=2)
            assert number == found
            await end(srun)


async def test_an_srun_that_is_lost_gives_back_when_its_processes_are_gone() -> None:
    async with site() as job:
        srun, _ = await job.begun(tasks=2)
        with program("sleep", "600") as one:
            await srun.send(started=[one.pid])
            waiting = await job.ask(quiet=True)
            await wait_all_tasks_blocked()
            await srun.__aexit__()
            assert 1 == (await waiting.receive())["step"]
            assert -signal.SIGKILL == one.wait()
        assert (0, (-signal.SIGKILL,)) == (job.lines[1].step, job.lines[1].statuses)


async def test_an_srun_that_is_lost_while_it_waits_leaves_nothing() -> None:
    async with site() as job:
        first, _ = await job.begun(tasks=2)
        lost = await job.ask()
        await lost.receive()
        await lost.__aexit__()
        await wait_all_tasks_blocked()
        await end(first)
        assert 1 == (await job.begun(tasks=2))[1]


async def test_a_process_that_has_taken_the_number_of_one_that_ended_is_spared() -> None:
    async with site() as job:
        srun, _ = await job.begun(tasks=2)
        with program("true") as one:
            one.wait()
        await srun.send(started=[one.pid])
        await srun.__aexit__()
        assert 1 == (await job.begun(tasks=2))[1]


async def test_a_step_ends_at_its_limit_and_on_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with site() as job:
        with program("sleep", "600") as one:
            srun, _ = await job.begun(limit=60.0)
            await srun.send(started=[one.pid])
            assert {"over": "TIME LIMIT"} == await srun.receive()
            await wait_all_tasks_blocked()
            assert -signal.SIGTERM == one.wait()
            await end(srun, -signal.SIGTERM)
        assert "TIMEOUT" == job.lines[-1].state
        with program("sleep", "600") as one:
            srun, number = await job.begun()
            await srun.send(started=[one.pid])
            await wait_all_tasks_blocked()
            assert not job.desk.signal(number + 1, signal.SIGTERM)
            assert job.desk.signal(number, signal.SIGINT, "CANCELLED")
            assert -signal.SIGINT == one.wait()
            await end(srun, -signal.SIGINT)
        assert "CANCELLED" == job.lines[-1].state
