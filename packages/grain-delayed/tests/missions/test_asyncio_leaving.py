"""Leaving a mission in asyncio: its tasks are waited for, or cancelled and waited for."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest
import trio

from grain.delayed import delayed, each
from grain.head import TaskCancelled
from grain.resource import Cores
from grain_testkit.asyncio_programs import add, asyncio_run, fail, here, record_end, until, wait_for

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


def test_leaving_the_block_waits_for_its_tasks() -> None:
    ended = []

    @delayed
    async def slow() -> None:
        await trio.sleep(0.01)
        ended.append(True)

    async def main() -> None:
        async with here(Cores(1)):
            slow()
            (slow @ Cores(1))()
        assert [True, True] == ended

    asyncio_run(main)


def test_leaving_by_an_exception_cancels() -> None:
    """The tasks are cancelled, their ends are awaited, and the exception is the block's own."""
    log: list[str] = []
    error = KeyError("mine")

    async def main() -> None:
        async with here(Cores(1)):
            record_end(log)
            (record_end @ Cores(1))(log)
            await until(log, 2)
            raise error

    with pytest.raises(KeyError) as caught:
        asyncio_run(main)
    assert error is caught.value
    assert ["begins", "begins", "ends", "ends"] == log


def test_cancelling_the_asyncio_task_cancels_the_mission_and_waits_for_it() -> None:
    log: list[str] = []
    kept: list[Any] = []

    async def block() -> None:
        async with here():
            kept.append(record_end(log))
            await kept[0]

    async def main() -> None:
        task = asyncio.create_task(block())
        await until(log, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ["begins", "ends"] == log
        with pytest.raises(TaskCancelled):
            await kept[0]

    asyncio_run(main)


def test_cancellation_while_leaving() -> None:
    """It may come when the block has ended well, and again while the tasks end."""
    log: list[str] = []

    async def block() -> None:
        async with here():
            record_end(log)

    async def main() -> None:
        task = asyncio.create_task(block())
        await until(log, 1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ["begins", "ends"] == log

    asyncio_run(main)


@pytest.mark.parametrize("steps", range(12))
def test_cancellation_while_entering(steps: int) -> None:
    """Whenever it comes, nothing is left of the mission."""

    async def block() -> None:
        async with here(Cores(1)):
            await (add @ Cores(1))(1, 2)

    async def main() -> None:
        task = asyncio.create_task(block())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio_run(main)


def test_a_timeout_gives_up_the_await_only() -> None:
    """The task goes on, and can be awaited again."""

    async def main() -> None:
        event = trio.Event()
        async with here():
            r_ = wait_for(event)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(r_, 0.01)
            event.set()
            assert "waited" == await r_

    asyncio_run(main)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup: Python 3.11")
def test_a_task_group_of_asyncio_cancels_an_await() -> None:
    log: list[str] = []

    async def main() -> None:
        async with here():
            r_ = record_end(log)
            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined,unused-ignore]
                    group.create_task(each(r_))
                    group.create_task(each(fail(ValueError("sibling"))))
            assert ["sibling"] == [str(e) for e in caught.value.exceptions]
            assert "<Delayed record_end: not known yet, await it>" == repr(r_)
            await until(log, 1)
            raise KeyError

    with pytest.raises(KeyError):
        asyncio_run(main)
    assert ["begins", "ends"] == log


# Not in one task with the group above: in Python 3.11.2 one leaves the task's count of
# cancellations at 1, and timeouts after it raise CancelledError.
@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout: Python 3.11")
def test_a_timeout_of_asyncio_ends_a_mission_within_another() -> None:
    log: list[str] = []

    async def main() -> None:
        async with here():
            record_end(log)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:  # type: ignore[attr-defined,unused-ignore]
                    async with here():
                        record_end(log)
                        await until(log, 2)
                        limit.reschedule(0)
            assert 1 == log.count("ends")
            raise KeyError

    with pytest.raises(KeyError):
        asyncio_run(main)
    assert 2 == log.count("ends")


def status_of(pid: int) -> int:
    """Return the exit status of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("back", ["waits", "calls", "raises", "leaves"])
def test_a_copy_that_comes_back_to_asyncio_ends_and_the_original_goes_on(back: str) -> None:
    """A loop of asyncio that closes in the copy would never wake the original again."""
    process, not_ended = os.getpid(), 99

    async def main() -> tuple[int, int]:
        async with here(Cores(1)):
            assert 3 == await (add @ Cores(1))(1, 2)
            pid = os.fork()
            if not pid:
                if back == "waits":
                    await asyncio.sleep(0)
                    os._exit(not_ended)
                if back == "calls":
                    await (add @ Cores(1))(1, 3)
                    os._exit(not_ended)
                if back == "raises":
                    raise ValueError("in the copy")
            else:
                return status_of(pid), await (add @ Cores(1))(2, 3)
        os._exit(not_ended)  # the copy has left

    try:
        status, five = asyncio_run(main)
    finally:
        if os.getpid() != process:
            os._exit(not_ended)
    assert (status, five) == (0 if back in ("waits", "leaves") else 1, 5)
