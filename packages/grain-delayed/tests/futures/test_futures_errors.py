"""Errors of an `Executor`: of its options, of calls, and of the mission behind it."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent import futures
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

import grain.delayed
from grain.config import ConfigError
from grain.delayed import Executor
from grain.delayed.futures.engine import Engine
from grain.resource import Cores, Infeasible, Memory
from grain_testkit.quiet_executor import executor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


def test_waiting_in_a_call() -> None:
    """It would wait without end: an error says so. Submitting there is no problem."""

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


def test_bad_options_are_errors_of_the_constructor_and_leave_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(TypeError, match=r"request=2: give the resources of each call"):
        Executor(2, Cores(1), config_file=False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"local=2: give the resources of the local worker"):
        Executor(Cores(1), 2, config_file=False)  # type: ignore[arg-type]
    with executor() as pool, pytest.raises(TypeError, match="resources of each call"):
        pool @ 2  # type: ignore[operator]
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


def test_a_mission_that_breaks() -> None:
    """Every future is resolved, with the reason."""
    breaks = threading.Event()

    @asynccontextmanager
    async def breaking() -> AsyncGenerator[Any]:
        mission = grain.delayed.mission(Cores(1), config_file=False, progress=False)
        async with trio.open_nursery() as nursery, mission as active:

            @nursery.start_soon
            async def _() -> None:
                await trio.to_thread.run_sync(breaks.wait)
                raise OSError("broken")

            yield active

    engine = Engine(breaking)
    engine.begin()
    waiting = [engine.submit(Cores(1), trio.sleep_forever, (), {}) for _ in range(3)]
    breaks.set()
    for future in waiting:
        error = future.exception(timeout=120)
        assert error is not None
    engine.join()
    with pytest.raises(futures.BrokenExecutor, match="the executor's mission has failed") as caught:
        engine.submit(Cores(1), int, (), {})
    assert "broken" in repr(caught.value.__cause__)
