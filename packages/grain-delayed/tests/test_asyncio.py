"""Missions in asyncio programs; the tasklets are trio's."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain import GVAR
from grain.combine import exec1, open_waitgroup
from grain.config import ConfigError
from grain.delayed import NotInMission, delayed, delayedval, each, mission, run
from grain.delayed._asyncio import hosted
from grain.head import Cancelled
from grain.resource import Cores, Infeasible
from grain.util import QueueLimiter, as_completed, open_nursery_with_capacity
from grain.util._capacity import Room

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from grain.delayed import Mission


def here(local: Cores | None = None, **options: Any) -> Any:
    return mission(local, config_file=False, progress=False, **options)


def asyncio_run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a program with asyncio's own checks, and see that nothing of trio is left."""

    async def checked() -> Any:
        try:
            return await main()
        finally:
            assert not trio.lowlevel.in_trio_run()

    return asyncio.run(checked(), debug=True)


@delayed
async def add(x: int, y: int) -> int:
    await trio.lowlevel.checkpoint()
    return x + y


@delayed
async def fail(error: Exception) -> None:
    raise error


@delayed
async def wait_for(event: trio.Event) -> str:
    await event.wait()
    return "waited"


@delayed
async def record_end(log: list[str]) -> None:
    log.append("begins")
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()  # its end takes a while
        log.append("ends")


async def until(log: list[str], length: int) -> None:
    while len(log) < length:
        await asyncio.sleep(0.001)


# ---- values


def test_awaiting() -> None:
    """Branches and leaves run on trio, and what they return is awaited in asyncio."""

    @delayed
    async def branch(x: int) -> int:
        total: int = await (add(x, 1) + (add @ Cores(1))(x, 2))
        return total

    @delayed
    async def look() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return repr(GVAR.res), GVAR.instance

    async def main() -> None:
        async with here(Cores(2), name="mine"):
            assert 9 == await branch(3)
            assert ("Ø", "") == await look()
            assert ("CPU_Cores([0-1])", "mine(local)") == await (look @ Cores(2))()
            r_, s_ = add(1, 2), (add @ Cores(1))(3, 4)
            assert 10 == await (r_ + s_)
            assert [3, 7] == await each([r_], s_)
            first, second = await asyncio.gather(r_, s_)
            assert (3, 7) == (first, second)
            assert 3 == await asyncio.wait_for(r_, 60)
            assert "<Delayed: 3>" == repr(r_)

    asyncio_run(main)


def test_asyncio_goes_on_meanwhile() -> None:
    """Tasks of asyncio and of trio run side by side, and each wakes the other."""

    async def main() -> str:
        event = trio.Event()
        async with here():
            r_ = wait_for(event)
            asyncio.get_running_loop().call_later(0.01, event.set)
            return await r_

    assert "waited" == asyncio_run(main)


def test_a_branch_sees_context_variables() -> None:
    """A task inherits the context of who called it, as tasks do in both libraries."""
    variable = contextvars.ContextVar("variable", default="outside")

    @delayed
    async def look() -> str:
        return variable.get()

    async def main() -> str:
        async with here():
            variable.set("inside")
            return await look()

    assert "inside" == asyncio_run(main)


def test_a_value_that_is_there_can_be_awaited_anywhere() -> None:
    """Also after the mission, and by a program without one."""

    async def main() -> Any:
        async with here():
            r_ = add(1, 2)
        assert 3 == await r_
        return r_

    async def main_of_trio() -> Any:
        async with here():
            return add(3, 4)

    async def wait(r_: Any) -> Any:
        return await r_

    assert 3 == asyncio.run(wait(asyncio_run(main)))
    assert 7 == asyncio.run(wait(trio.run(main_of_trio)))


# ---- several missions


def test_missions_share_the_loop() -> None:
    """One inside another, side by side in tasks, and one after another."""

    async def one(x: int) -> int:
        async with here(Cores(1)):
            return await (add @ Cores(1))(x, 0) + await add(x, 0)

    async def main() -> None:
        assert [2, 4, 6] == await asyncio.gather(*map(one, (1, 2, 3)))
        async with here(Cores(1)) as outer:
            async with here(Cores(3)) as inner:
                assert inner is not outer
                assert 3 == await (add @ Cores(3))(1, 2)
            with pytest.raises(Infeasible):
                (add @ Cores(3))(1, 2)
        for x in range(3):
            assert 2 * x == await one(x)

    asyncio_run(main)
    asyncio_run(main)  # in another loop


def test_a_mission_begins_while_the_last_one_ends() -> None:
    """The trio run of the loop is replaced: nobody enters one that is about to end."""

    async def one(delay: int) -> int:
        for _ in range(delay):
            await asyncio.sleep(0)
        async with here():
            return await add(delay, 0)

    async def main() -> None:
        assert list(range(60)) == await asyncio.gather(*map(one, range(60)))

    asyncio_run(main)


def test_a_mission_in_a_branch() -> None:
    """There, it is trio code like any other."""

    @delayed
    async def branch() -> int:
        async with here(Cores(1)):
            return await (add @ Cores(1))(1, 2)

    async def main() -> int:
        async with here():
            return await branch()

    assert 3 == asyncio_run(main)


# ---- leaving


def test_leaving_waits() -> None:
    """What was started in the block has ended when it is left."""
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


def test_cancellation() -> None:
    """Cancelling the asyncio task cancels the mission's, and waits for them."""
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
        with pytest.raises(Cancelled):
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
def test_task_groups() -> None:
    """A failing sibling cancels an await; `asyncio.timeout` around a block works."""
    log: list[str] = []

    async def main() -> None:
        async with here():
            r_ = record_end(log)
            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined,unused-ignore]
                    group.create_task(each(r_))
                    group.create_task(each(fail(ValueError("sibling"))))
            assert ["sibling"] == [str(e) for e in caught.value.exceptions]
            assert "<Delayed: pending>" == repr(r_)
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


# ---- errors


def test_a_failure_is_raised_where_it_is_awaited() -> None:
    """The exception itself, as often as it is awaited."""
    error = ValueError("mine")

    async def main() -> None:
        async with here(Cores(1)):
            for r_ in (fail(error), (fail @ Cores(1))(error)):
                for _ in range(2):
                    with pytest.raises(ValueError) as caught:
                        await r_
                    assert error is caught.value

    asyncio_run(main)


def test_failures_that_nobody_awaited() -> None:
    """One is raised as it is, several as a group, when the block is left."""

    async def main(*errors: Exception) -> None:
        async with here():
            for error in errors:
                fail(error)

    first, second = ValueError(1), KeyError(2)
    with pytest.raises(ValueError) as caught:
        asyncio_run(lambda: main(first))
    assert first is caught.value
    with pytest.raises(ExceptionGroup) as group:
        asyncio_run(lambda: main(first, second))
    assert {first, second} == set(group.value.exceptions)


def test_a_bad_option(tmp_path: Path) -> None:
    """What is wrong with the options is raised as in a trio program."""
    config = tmp_path / "grain.toml"
    config.write_text("nonsense = 1")

    async def main(**options: Any) -> None:
        async with mission(**options):
            raise AssertionError("not entered")

    with pytest.raises(ConfigError, match="nonsense"):
        asyncio_run(lambda: main(config_file=str(config)))
    with pytest.raises(TypeError, match=r"local=3: give the resources"):
        asyncio_run(lambda: main(local=3, config_file=False))


@asynccontextmanager
async def failing(error: BaseException, fails: trio.Event) -> AsyncGenerator[Mission]:
    """A mission that breaks."""
    async with trio.open_nursery() as nursery, here() as made:

        @nursery.start_soon
        async def _() -> None:
            await fails.wait()
            raise error

        try:
            yield made
        finally:
            nursery.cancel_scope.cancel()


def test_a_mission_that_breaks_cancels_its_block() -> None:
    """As in a trio program; asyncio does not count that as a cancellation of its own."""
    log = []

    async def main() -> None:
        fails = trio.Event()
        with pytest.raises(OSError, match="broken"):
            async with hosted(lambda: failing(OSError("broken"), fails)):
                fails.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    log.append("cancelled")
                    raise
        if sys.version_info >= (3, 11):
            task = asyncio.current_task()
            assert task is not None
            assert 0 == task.cancelling()
        await asyncio.sleep(0)

    asyncio_run(main)
    assert ["cancelled"] == log


def test_a_block_and_its_mission_both_fail() -> None:
    """Neither exception hides the other."""

    @asynccontextmanager
    async def fails_in_the_end() -> AsyncGenerator[Mission]:
        async with here() as made:
            try:
                yield made
            finally:
                raise OSError("mission")

    async def main() -> None:
        async with hosted(fails_in_the_end):
            raise KeyError("block")

    with pytest.raises(ExceptionGroup) as caught:
        asyncio_run(main)
    assert [KeyError, OSError] == [type(e) for e in caught.value.exceptions]


@pytest.mark.parametrize("steps", range(8))
def test_an_interrupt_that_trio_receives(steps: int) -> None:
    """It ends all missions of the loop, also one that just begins, and is what is raised."""

    async def late(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        async with here():
            await asyncio.sleep(60)

    async def main() -> None:
        fails = trio.Event()
        async with here(), hosted(lambda: failing(KeyboardInterrupt(), fails)):
            fails.set()
            other = asyncio.create_task(late(steps))
            other.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([other])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main(), debug=True)


# ---- where calls are possible


def test_a_call_elsewhere() -> None:
    """In another thread, in another loop, after the mission: an error that says so."""

    async def main() -> None:
        with pytest.raises(NotInMission, match="outside of a mission"):
            add(1, 2)
        async with here():
            r_ = wait_for(event := trio.Event())
            with pytest.raises(NotInMission, match="outside of a mission"):
                await asyncio.to_thread(contextvars.Context().run, add, 1, 2)
            with pytest.raises(NotInMission, match="in another thread"):
                await asyncio.to_thread(add, 1, 2)
            with pytest.raises(NotInMission, match="of another thread"):
                await asyncio.to_thread(asyncio.run, each(r_))
            event.set()
            later = contextvars.copy_context()
        with pytest.raises(NotInMission, match="outside of a mission"):
            add(1, 2)
        with pytest.raises(NotInMission, match="after its mission had ended"):
            later.run(add, 1, 2)

    asyncio_run(main)


def test_another_loop_in_the_same_thread() -> None:
    """What nobody there could set is not waited for."""
    ours, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    stack = AsyncExitStack()

    async def begin() -> Any:
        await stack.enter_async_context(here())
        return wait_for(event)

    event = trio.Event()
    try:
        r_ = ours.run_until_complete(begin())
        with pytest.raises(NotInMission, match="of another asyncio loop"):
            other.run_until_complete(each(r_))
        with pytest.raises(RuntimeError, match="has a trio run already"):
            other.run_until_complete(here().__aenter__())
        event.set()
        assert ["waited"] == ours.run_until_complete(each(r_))
        ours.run_until_complete(stack.aclose())
    finally:
        ours.close()
        other.close()


def test_run_inside_of_an_asyncio_mission() -> None:
    """A trio program has begun already."""

    async def nothing() -> None: ...

    async def main() -> None:
        async with here():
            with pytest.raises(RuntimeError, match="use `async with"):
                run(nothing, config_file=False)

    asyncio_run(main)


def test_without_any_loop() -> None:
    """Neither trio nor asyncio: an error that says what to use."""
    with pytest.raises(RuntimeError, match=r"there is neither: use grain\.delayed\.run"):
        here().__aenter__().send(None)


def test_the_guest_of_another_library() -> None:
    """A mission belongs inside of the trio run that there is."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        event = trio.Event()
        trio.lowlevel.start_guest_run(
            event.wait,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=done.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        with pytest.raises(RuntimeError, match="has a trio run already"):
            async with here():
                pass
        with pytest.raises(NotInMission):
            add(1, 2)
        event.set()
        ended = await done
        assert isinstance(ended, outcome.Value)

    asyncio_run(main)


def test_cells_of_a_notebook() -> None:
    """A mission that is opened in one task serves others, each with a context of its own."""

    async def main() -> None:
        stack = AsyncExitStack()

        async def cell(step: Callable[[], Awaitable[Any]]) -> Any:
            return await contextvars.Context().run(asyncio.create_task, step())  # type: ignore[arg-type]

        async def opens() -> None:
            await stack.enter_async_context(here(Cores(2)))

        async def uses() -> int:
            total: int = await (add(1, 2) + (add @ Cores(2))(3, 4))
            return total

        async def opens_another() -> None:
            async with here():
                with pytest.raises(NotInMission, match="outside of a mission"):
                    await cell(uses)
                assert 3 == await add(1, 2)

        async def leaves_one() -> None:
            record_end(log)

        log: list[str] = []
        await cell(opens)
        assert 10 == await cell(uses)
        await cell(opens_another)
        assert 10 == await cell(uses)
        await cell(leaves_one)
        closing = asyncio.create_task(cell(stack.aclose))
        await until(log, 1)
        for _ in range(10):  # it waits for the task that does not end
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(NotInMission, match="outside of a mission"):
            await cell(uses)

    asyncio.run(main())


# ---- real processes

PROGRAM = """
import asyncio, signal, trio
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain.delayed import delayed, mission
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def external():
    print("begins", flush=True)
    await run_external(["sleep", "1000.5"])

async def main():
    async with mission(Cores(2), config_file=False, progress=False):
        r_ = (external @ Cores(1))()
        {wait}

asyncio.run(main())
"""


def processes_of(folder: Path) -> dict[int, str]:
    """The processes of the program and of its tasks, by their environment; and their names.

    Those that start and end other programs are in sessions of their own.
    """
    found = {}
    mark = f"GRAIN_TESTED_IN={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "comm").read_text().strip()
    return found


@pytest.mark.parametrize("wait", ["await r_", "await asyncio.sleep(1000)", "pass"])
def test_interrupt(wait: str, tmp_path: Path) -> None:
    """Ctrl-C in an asyncio program: no process of a task is left, no trace of trio is shown."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(wait=wait))
    child = subprocess.Popen(
        [sys.executable, "-W", "error", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GRAIN_TESTED_IN": str(tmp_path)},
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert "begins\n" == child.stdout.readline()
        deadline = time.monotonic() + 300
        while "sleep" not in processes_of(tmp_path).values() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "sleep" in processes_of(tmp_path).values()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()

    assert "" == out
    assert -signal.SIGINT == child.returncode
    assert err.endswith(("KeyboardInterrupt\n", "KeyboardInterrupt: \n"))
    assert "worker" in err
    assert "ExceptionGroup" not in err
    assert {} == processes_of(tmp_path)


def test_import_does_not_bring_in_asyncio() -> None:
    """A trio program does not pay for it."""
    code = "import sys, grain.delayed; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False\n" == done.stdout


def test_nothing_is_left_of_the_guest() -> None:
    """No thread, no file descriptor, whatever the number of missions."""

    def files() -> list[str]:
        return os.listdir("/proc/self/fd")

    async def main() -> None:
        for _ in range(3):
            async with here(Cores(1)):
                await (add @ Cores(1))(1, 2)

    asyncio_run(main)
    gc.collect()  # what other tests have left is not to go meanwhile
    before, threads = len(files()), set(threading.enumerate())
    asyncio_run(main)
    assert before == len(files())
    # Trio keeps a thread for the next one that wants it, for ten seconds. If those were over
    # between the two runs there is a new one, which ends as well.
    deadline = time.monotonic() + 120
    while not set(threading.enumerate()) <= threads and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(threading.enumerate()) <= threads


# ---- the helpers of grain.util and grain.combine


def test_as_completed() -> None:
    """They come as they finish, in asyncio's loop too."""

    async def main() -> None:
        first, second = trio.Event(), trio.Event()
        async with here():
            names = {wait_for(second): "late", wait_for(first): "soon", delayedval(1): "there"}
            names[fail(ValueError("failed"))] = "failed"
            found = []
            async for r_ in as_completed(names):
                found.append(names[r_])
                if names[r_] == "soon":
                    second.set()
                if names[r_] == "failed":
                    asyncio.get_running_loop().call_later(0.01, first.set)
                    with pytest.raises(ValueError, match="failed"):
                        await r_
            assert ["there", "failed", "soon", "late"] == found

    asyncio_run(main)


def test_as_completed_given_up() -> None:
    """A loop that was cancelled leaves its tasks alone, and can be begun again."""

    async def main() -> str:
        event = trio.Event()

        async def look() -> None:
            async for _ in as_completed(r_):
                pass

        async with here():
            r_ = wait_for(event)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(look(), 0.01)
            event.set()
            await look()
            return await r_

    assert "waited" == asyncio_run(main)


def test_queue_limiter() -> None:
    """It waits for room, and its end for all; tasks of asyncio and of trio share one."""
    running: list[int] = []
    most = [0]
    three_run = trio.Event()

    @delayed
    async def counted(i: int) -> int:
        running.append(i)
        most[0] = max(most[0], len(running))
        if len(running) == 3:
            three_run.set()
        with trio.fail_after(300):
            await three_run.wait()
        await trio.sleep(0.001)
        running.remove(i)
        return i

    @delayed
    async def branch(ql: QueueLimiter) -> list[int]:
        return await each([await ql(counted)(i) for i in range(100, 110)])

    async def main() -> None:
        async with here(), QueueLimiter(3) as ql:
            branch_ = branch(ql)
            mine = await asyncio.gather(*(ql(counted)(i) for i in range(10)))
            assert list(range(10)) == await each(mine)
            assert list(range(100, 110)) == await branch_
        assert 3 == most[0]
        assert "<QueueLimiter(3): 0 have not ended>" == repr(ql)

    asyncio_run(main)


def test_queue_limiter_cancelled() -> None:
    """Who gives up waiting takes no room with it, not even in the moment of getting it."""

    async def main() -> None:
        async with here():
            room = Room(1)
            await room.acquire()
            waiting = [asyncio.create_task(room.acquire()) for _ in range(3)]
            await asyncio.sleep(0.01)
            waiting[0].cancel()
            room.release()  # to the first, who leaves without taking it
            waiting[1].cancel()
            assert [True, True, None] == [
                isinstance(error, asyncio.CancelledError) or error
                for error in await asyncio.gather(*waiting, return_exceptions=True)
            ]
            assert 0 == room.free
            room.release()
            assert 1 == room.free

    asyncio_run(main)


def test_what_is_trio_says_so() -> None:
    """What opens a trio nursery belongs into a branch, where it works; the message says that."""

    @delayed
    async def branch() -> int:
        async with open_waitgroup() as wg, open_nursery_with_capacity(1) as nursery:
            wg.submit(Cores(1), add.__wrapped__, 1, 2)
            await nursery.start_once_acquired(trio.sleep, 0)
        value: int = wg.results[0]
        return value

    async def main() -> None:
        async with here(Cores(1)):
            with pytest.raises(NotInMission, match="in asyncio code. Open it in a branch"):
                async with open_waitgroup():
                    pass
            with pytest.raises(NotInMission, match="in asyncio code. Open it in a branch"):
                await exec1(Cores(1), add.__wrapped__, 1, 2)
            with pytest.raises(RuntimeError, match="no trio task.*open it in a branch"):
                async with open_nursery_with_capacity(1):
                    pass
            assert 3 == await branch()

    asyncio_run(main)


def test_retries_and_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both do for asyncio's code what they do elsewhere."""
    calls: list[str] = []

    @delayed(retries=2)
    async def flaky() -> int:
        calls.append("flaky")
        if calls.count("flaky") < 2:
            raise OSError("not yet")
        return calls.count("flaky")

    @delayed(cache_hfn="args")
    async def kept(x: int) -> int:
        print("computing", x)
        return 2 * x

    async def main() -> None:
        for _ in range(2):
            async with here(Cores(1), cache=tmp_path):
                assert 6 == await (kept @ Cores(1))(3)
        async with here(Cores(1)):
            assert 2 == await (flaky @ Cores(1))()

    asyncio_run(main)
    assert "computing 3\n" == capsys.readouterr().out


def test_a_group_of_one_around_what_failed() -> None:
    """It hides nothing: as in a trio program, what the nursery of a branch made of it is undone."""

    @delayed
    async def branch() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises)
            nursery.start_soon(trio.sleep_forever)

    async def raises() -> None:
        raise ValueError("no convergence")

    async def main() -> None:
        async with here():
            await branch()

    with pytest.raises(ValueError, match="no convergence"):
        asyncio_run(main)
