"""Calls by an `Executor`, one by one and by `map`: what CPython's tests do not ask."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.delayed import Executor, mission
from grain.delayed.futures.engine import Engine
from grain.remote_exer import HostingExecutor
from grain.resource import Cores
from grain.worker.blocking import call_in_thread
from grain.worker.call import name_of
from grain_testkit.quiet_executor import executor

if TYPE_CHECKING:
    from pathlib import Path


def look() -> tuple[str, str]:
    return repr(GVAR.res), GVAR.instance


def count_cores(_: int = 0) -> int:
    return len(GVAR.res.c)


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


def test_other_requests_share_the_mission_which_lasts_as_long_as_one_of_them() -> None:
    pool = executor(local=2)
    wide = pool @ Cores(2)
    one = wide @ Cores(1)
    assert "CPU_Cores([0-1])" == wide.submit(look).result()[0]
    assert [1, 1] == list(one.map(count_cores, range(2)))
    del pool, wide
    gc.collect()
    assert 1 == one.submit(count_cores).result()
    two = one @ Cores(2)
    one.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        two.submit(look)


def test_calls_that_are_submitted_together_wake_the_mission_once() -> None:
    """Each wake-up is a system call, after which the two threads take turns."""
    engine, woken = Engine(mission), []
    engine._wake = lambda: woken.append("submit")
    for _ in range(3):
        engine.submit(Cores(1), look, (), {})
    together = list(woken)
    orders = engine.orders()
    engine.submit(Cores(1), look, (), {})

    assert ["submit"] == together
    assert 3 == len(orders.submitted)
    assert ["submit", "submit"] == woken


def test_a_function_of_a_module_travels_once_and_one_made_for_a_call_with_that() -> None:
    """Functions that a loop makes would be kept as long as the mission."""
    engine = Engine(mission)
    fn: Any
    for fn in (look, count_cores, int):
        engine.submit(Cores(1), fn, (7,), {"a": 1})
        engine.submit(Cores(1), fn, (7,), {"a": 1})
    made: tuple[Any, ...] = (lambda: 1, partial(int, 1), [].append)
    for fn in made:
        engine.submit(Cores(1), fn, (7,), {"a": 1})
    calls = [call for _, call, _ in engine.orders().submitted]
    lasting, others = calls[:6], calls[6:]

    assert ["look", "count_cores", "int"] == [name_of(call.fn) for call in lasting[::2]]
    assert all(one.fn is other.fn for one, other in zip(lasting[::2], lasting[1::2], strict=True))
    assert [((7,), {"a": 1})] * 6 == [(call.args, call.kwargs) for call in lasting]
    assert {call_in_thread} == {call.fn for call in others}
    assert b"look" in pickle.dumps(lasting[0].fn)  # by its name


def test_overload_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Calls that wait are counted as those of delayed functions are, and reported once."""
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
    numbers: list[int] = []

    def submit(pool: Executor, start: int) -> None:
        waiting = [pool.submit(abs, -x) for x in range(start, start + 100)]
        numbers.extend(f.result() for f in waiting)

    with executor() as pool:
        threads = [threading.Thread(target=submit, args=(pool, 100 * i)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert list(range(500)) == sorted(numbers)


def test_asyncio_run_in_executor() -> None:
    """A library that takes an executor."""

    async def main() -> int:
        loop = asyncio.get_running_loop()
        with executor() as pool:
            return await loop.run_in_executor(pool, pow, 2, 5)

    assert 32 == asyncio.run(main())


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


def test_waits_that_time_out_leave_the_call_alone() -> None:
    """CPython's own tests of that wait for five seconds each, at night."""
    ends = threading.Event()
    with executor() as pool:
        future = pool.submit(ends.wait, 120)
        results = pool.map(lambda _: ends.wait(120), [0], timeout=0.01)
        with pytest.raises(futures.TimeoutError):
            next(results)
        assert {future} == futures.wait([future], timeout=0.01).not_done
        with pytest.raises(futures.TimeoutError):
            next(futures.as_completed([future], timeout=0.01))
        ends.set()
        assert future.result(120)


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
