"""`Executor`: what CPython's tests do not ask."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent import futures
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

import grain.delayed
from grain import GVAR
from grain.config import ConfigError
from grain.delayed import Executor
from grain.delayed._engine import Engine
from grain.remote_exer import HostingExecutor
from grain.resource import Cores, Infeasible, Memory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


def executor(local: int = 2, **options: Any) -> Executor:
    return Executor(local=Cores(local), config_file=False, progress=False, **options)


def look() -> tuple[str, str]:
    return repr(GVAR.res), GVAR.instance


def test_a_call_has_its_resources() -> None:
    """A function in a thread sees them as a tasklet does, and may call trio's."""

    async def tasklet(x: int, *, y: int) -> tuple[int, str]:
        await trio.lowlevel.checkpoint()
        return x + y, look()[0]

    def calls_back() -> Any:
        return trio.from_thread.run(partial(tasklet, 1, y=2))

    with executor(request=Cores(2), name="mine") as pool:
        assert ("CPU_Cores([0-1])", "mine(local)") == pool.submit(look).result()
        assert (7, "CPU_Cores([0-1])") == pool.submit(tasklet, 3, y=4).result()
        assert (3, "CPU_Cores([0-1])") == pool.submit(calls_back).result()
    with executor() as pool:
        assert "CPU_Cores([0])" == pool.submit(look).result()[0]


def test_overload_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls that wait are counted as those of delayed functions are, and told of once."""
    go = threading.Event()
    with executor(local=1, warn_queued=20) as pool:
        waiting = [pool.submit(go.wait) for _ in range(100)]
        go.set()
        futures.wait(waiting)
    assert 1 == capsys.readouterr().err.count("wait to be started (more than warn_queued=20)")


def test_no_more_run_than_fit() -> None:
    """The resources are the limit; no thread pool has a smaller one."""
    barrier = threading.Barrier(50)
    most: list[int] = []
    running: set[int] = set()

    def run(i: int) -> None:
        running.add(i)
        most.append(len(running))
        time.sleep(0.001)
        running.remove(i)

    with executor(local=3) as pool:
        list(pool.map(run, range(30)))
    assert 3 >= max(most)
    with executor(local=50) as pool:
        assert set(range(50)) == {
            f.result() for f in [pool.submit(barrier.wait) for _ in range(50)]
        }


def test_submitting_from_many_threads() -> None:
    """No call is lost, and each future has the result of its own."""
    found: list[int] = []

    def submit(pool: Executor, start: int) -> None:
        waiting = [pool.submit(abs, -x) for x in range(start, start + 100)]
        found.extend(f.result() for f in waiting)

    with executor() as pool:
        threads = [threading.Thread(target=submit, args=(pool, 100 * i)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert list(range(500)) == sorted(found)


def test_asyncio_run_in_executor() -> None:
    """A library that takes an executor."""

    async def main() -> int:
        loop = asyncio.get_running_loop()
        with executor() as pool:
            return await loop.run_in_executor(pool, pow, 2, 5)

    assert 32 == asyncio.run(main())


# ---- map


def test_map_in_chunks() -> None:
    """Several calls make one leaf; the results are the same."""
    seen: list[str] = []

    def thread(x: int, y: int) -> int:
        seen.append(threading.current_thread().name)
        return x * y

    with executor() as pool:
        assert [0, 2, 6, 12] == list(pool.map(thread, range(4), range(1, 9), chunksize=3))
        assert [] == list(pool.map(thread, [], [], chunksize=3))
        results = pool.map(divmod, [1, 1, 1], [1, 0, 1], chunksize=1)
        assert (1, 0) == next(results)
        with pytest.raises(ZeroDivisionError):
            next(results)
        with pytest.raises(ZeroDivisionError):
            list(pool.map(divmod, [1, 1, 1], [1, 0, 1], chunksize=2))


@pytest.mark.parametrize("chunksize", [0, -1])
def test_a_bad_chunksize(chunksize: int) -> None:
    async def tasklet(x: int) -> int:
        return x

    with executor() as pool:
        with pytest.raises(ValueError, match=f"chunksize={chunksize}: it is at least 1"):
            pool.map(abs, [1], chunksize=chunksize)
        with pytest.raises(ValueError, match="chunksize=2: calls of an async function"):
            pool.map(tasklet, [1], chunksize=2)
        results: list[Any] = list(pool.map(tasklet, [1]))
        assert [1] == results


# ---- cancelling and ending


def test_cancelling() -> None:
    """A call that waits never runs; one that runs goes on."""
    begun, go = threading.Event(), threading.Event()
    ran: list[int] = []

    def hold() -> str:
        begun.set()
        go.wait()
        return "held"

    with executor(local=1) as pool:
        first = pool.submit(hold)
        second, third = pool.submit(ran.append, 2), pool.submit(ran.append, 3)
        assert begun.wait(120)
        assert second.cancel()
        assert not first.cancel()
        waited: list[futures.Future[Any]] = [first, second]
        assert {second} == futures.wait(waited, return_when="FIRST_COMPLETED").done
        go.set()
        assert "held" == first.result()
        third.result()
    assert [3] == ran


def test_cancelling_at_once() -> None:
    """Whether it has begun by then or not: the future tells what became of it."""
    with executor(local=1) as pool:
        made: list[futures.Future[int]] = []
        for _ in range(200):
            made.append(future := pool.submit(int))
            if not future.cancel():
                assert 0 == future.result()
        assert set() == futures.wait(made, timeout=120).not_done
        assert 0 == pool.submit(int).result()


def test_shutdown_cancels_what_waits() -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> str:
        begun.set()
        go.wait()
        return "held"

    pool = executor(local=1)
    first, *others = pool.submit(hold), pool.submit(int), pool.submit(int)
    assert begun.wait(120)
    pool.shutdown(wait=False, cancel_futures=True)
    assert [True, True] == [f.cancelled() for f in others]
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        pool.submit(int)
    go.set()
    pool.shutdown()
    assert "held" == first.result(timeout=0)


def test_an_executor_that_nobody_holds_ends() -> None:
    """What was submitted is computed, and its thread is gone."""
    pool = executor()
    results = pool.map(abs, range(-5, 5))
    thread = pool._engine._thread
    del pool
    gc.collect()
    thread.join(120)
    assert not thread.is_alive()
    assert [5, 4, 3, 2, 1, 0, 1, 2, 3, 4] == list(results)


PROGRAM = """
import atexit, sys, threading
from grain.delayed import Executor
from grain.resource import Cores

def later():
    try:
        pool.submit(int)
    except RuntimeError as error:
        print(error)

started, go = threading.Event(), threading.Event()

def work(x):
    started.set()
    go.wait()
    print(x, flush=True)

atexit.register(later)
pool = Executor(local=Cores(1), config_file=False, progress=False)
pool.submit(work, "apple")
pool.submit(work, "pear")
{end}
"""


@pytest.mark.parametrize(
    ("end", "printed"),
    [
        ("go.set()", ["apple", "pear"]),
        ("pool.shutdown(wait=False); go.set()", ["apple", "pear"]),
        (
            "started.wait(); pool.shutdown(wait=False, cancel_futures=True); go.set()",
            ["apple"],
        ),
        ("go.set(); raise SystemExit(0)", ["apple", "pear"]),
    ],
)
def test_the_end_of_the_program(end: str, printed: list[str], tmp_path: Path) -> None:
    """It waits for what was submitted, as with the executors of Python, and then ends."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(end=end)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=True,
    )
    assert [*printed, "cannot schedule new futures after shutdown"] == done.stdout.splitlines()
    assert "Traceback" not in done.stderr


# ---- errors


def test_waiting_in_a_call() -> None:
    """It would wait for ever: an error says so. Submitting there is no problem."""

    def waits(pool: Executor) -> Any:
        return pool.submit(int).result()

    def asks(pool: Executor) -> Any:
        return pool.submit(int).exception()

    with executor(local=1) as pool:
        for fn in (waits, asks):
            with pytest.raises(RuntimeError, match="it would hold its resources meanwhile"):
                pool.submit(fn, pool).result()
        inner = pool.submit(pool.submit, int).result()
        assert 0 == inner.result()
        with executor(local=1) as other:
            assert 0 == other.submit(waits, pool).result()


def test_bad_options(tmp_path: Path) -> None:
    """They are errors of the constructor, not of the first result, and leave no thread."""
    before = set(threading.enumerate())
    with pytest.raises(TypeError, match=r"request=2: give the resources of each call"):
        Executor(2, Cores(1), config_file=False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"local=2: give the resources of the local worker"):
        Executor(Cores(1), 2, config_file=False)  # type: ignore[arg-type]
    config = tmp_path / "grain.toml"
    config.write_text("nonsense = 1")
    with pytest.raises(ConfigError, match="nonsense"):
        Executor(local=Cores(1), config_file=str(config))
    new = set(threading.enumerate()) - before
    assert "grain.delayed.Executor" not in {t.name for t in new}
    with pytest.raises(AttributeError, match="has no attribute 'Exekutor'"):
        _ = grain.delayed.Exekutor


def test_a_request_that_is_never_met() -> None:
    with executor(request=Memory(1)) as pool, pytest.raises(Infeasible):
        pool.submit(int).result()


def test_what_a_call_raises() -> None:
    """The exception itself; and what would end the process does not."""
    error = KeyError("mine")

    def fail(error: BaseException) -> None:
        raise error

    with executor() as pool:
        assert error is pool.submit(fail, error).exception()
        with pytest.raises(grain.worker.TaskletAborted, match=r"fail raised SystemExit\(3\)"):
            pool.submit(fail, SystemExit(3)).result()


def test_an_executor_stays_where_it_is() -> None:
    """Neither another process nor a fork of this one can use it."""
    with executor() as pool:
        with pytest.raises(TypeError, match="cannot be passed to a worker or pickled"):
            pickle.dumps(pool)
        engine = pool._engine
        engine._pid += 1
        with pytest.raises(RuntimeError, match="process that this one was forked from"):
            pool.submit(int)
        engine._pid = os.getpid()


@pytest.mark.parametrize("configured", [False, True], ids=["alone", "others may join"])
def test_a_call_that_ends_the_mission(configured: bool, tmp_path: Path) -> None:
    """Its own future, those that are open and those to come say so, and what ended it."""
    config = tmp_path / "grain.toml"
    config.write_text(f'address = "unix://{tmp_path}/socket"')

    both_submitted = tmp_path / "both submitted"  # no event: a copy may travel to the worker

    def interrupt() -> None:
        while not both_submitted.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    pool = Executor(local=Cores(1), config_file=str(config) if configured else False)
    called: list[futures.Future[Any]] = [pool.submit(interrupt), pool.submit(int)]
    both_submitted.touch()
    for future in called:
        error = future.exception(timeout=120)
        assert isinstance(error, futures.BrokenExecutor)
        assert isinstance(error.__cause__, KeyboardInterrupt)
    pool.shutdown()
    with pytest.raises(futures.BrokenExecutor):
        pool.submit(int)


def test_ctrl_c_in_the_block() -> None:
    """What runs and what waits is cancelled, instead of waited for."""
    began = threading.Event()

    async def long() -> None:
        began.set()
        await trio.sleep(20)  # or for days: it is not waited for

    called: list[futures.Future[Any]] = []
    with pytest.raises(KeyboardInterrupt), executor(local=1) as pool:
        called += [pool.submit(long), pool.submit(long), pool.submit(int)]
        began.wait()
        raise KeyboardInterrupt

    for future in called:
        assert isinstance(future.exception(timeout=0), futures.BrokenExecutor)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


def test_nothing_of_a_call_needs_this_package_on_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be grain-worker alone, and functions travel by their names."""
    calls: list[Any] = []

    def submit(*call: Any) -> futures.Future[Any]:
        calls.append(call)
        return futures.Future()

    with executor() as pool:
        monkeypatch.setattr(pool._engine, "submit", submit)
        pool.map(abs, [1, 2, 3], chunksize=2)
        pool.map(abs, [4])

    assert 3 == len(calls)
    assert b"grain.worker" in pickle.dumps(calls)
    assert b"grain.delayed" not in pickle.dumps(calls)


def test_a_mission_that_breaks() -> None:
    """Every future is resolved, and the reason is told."""
    breaks = threading.Event()

    @asynccontextmanager
    async def breaking() -> AsyncGenerator[Any]:
        mission = grain.delayed.mission(Cores(1), config_file=False, progress=False)
        async with trio.open_nursery() as nursery, mission as made:

            @nursery.start_soon
            async def _() -> None:
                await trio.to_thread.run_sync(breaks.wait)
                raise OSError("broken")

            yield made

    engine = Engine(Cores(1))
    engine.begin(breaking)
    waiting = [engine.submit(trio.sleep_forever, (), {}) for _ in range(3)]
    breaks.set()
    for future in waiting:
        error = future.exception(timeout=120)
        assert error is not None
    engine.join()
    with pytest.raises(futures.BrokenExecutor, match="the executor's mission has failed") as caught:
        engine.submit(int, (), {})
    assert "broken" in repr(caught.value.__cause__)


def test_calls_on_other_workers(tmp_path: Path) -> None:
    """They travel as tasklets do; here to a scheduler in another thread, with a worker."""
    address = f"edge://{tmp_path}/meeting"
    config = tmp_path / "mine.toml"
    config.write_text(f'address = "{address}"\n')
    begun, leave = threading.Event(), trio.Event()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def cluster() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        async with HostingExecutor(Cores(1), address=address, name="cluster"):
            begun.set()
            await leave.wait()

    thread = threading.Thread(target=trio.run, args=(cluster,))
    thread.start()
    try:
        assert begun.wait(120)
        with Executor(config_file=str(config), progress=False) as pool:
            assert ("CPU_Cores([0])", "cluster(local)") == pool.submit(look).result(120)
            assert [0, 1, 4] == list(pool.map(pow, range(3), [2] * 3, chunksize=2))
            with pytest.raises(ZeroDivisionError):
                pool.submit(divmod, 1, 0).result(120)
            # Whether it runs is not known here: it can be cancelled.
            future = pool.submit(trio.sleep_forever)
            assert future.cancel()
            assert 8 == pool.submit(pow, 2, 3).result(120)
    finally:
        tokens[0].run_sync_soon(leave.set)
        thread.join(300)
    assert not thread.is_alive()
