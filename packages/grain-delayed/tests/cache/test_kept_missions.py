"""Missions look up and keep results: shared, in the end, at once, on other workers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from grain.delayed import delayed, each, mission
from grain.head import TaskCancelled
from grain.resource import Cores
from grain_testkit.kept_calls import CALLS, again, square

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grain.delayed.cache.key import Key
    from grain.delayed.cache.store import LookupResult

pytestmark = pytest.mark.usefixtures("here")


async def test_found_and_shared() -> None:
    """Leaves with one key share one task, when it was found, too."""
    async with mission(Cores(1), config_file=False):
        await (square @ Cores(1))(3)
    async with mission(Cores(1), config_file=False) as active:
        a, b = (square @ Cores(1))(3), (square @ Cores(1))(3)
        await each(a, b)
        assert a._node is b._node
        assert (1, 0) == (active.statistics().done, active.executor.statistics().done)


async def test_leaving_a_mission_waits_for_lookups_runs_and_writes() -> None:
    async with mission(Cores(1), config_file=False):
        (square @ Cores(1))(3)
    assert [3] == CALLS
    async with mission(Cores(1), config_file=False):
        (square @ Cores(1))(3)
    assert [3] == CALLS


async def test_calls_without_a_result_run_in_the_order_of_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the lookup of the last eight, a batch of their own, ends first."""
    from grain.delayed.cache.cache import Cache
    from grain.delayed.cache.store import MISSING

    last = trio.Event()

    async def look_up(_: Cache, keys: Sequence[Key]) -> list[LookupResult]:
        if len(keys) == 8:
            last.set()
        await last.wait()
        await trio.testing.wait_all_tasks_blocked()
        if len(keys) == 32:
            await trio.testing.wait_all_tasks_blocked()
        return [MISSING] * len(keys)

    monkeypatch.setattr(Cache, "look_up", look_up)
    async with mission(Cores(1), config_file=False):
        await each([(square @ Cores(1))(x) for x in range(40)])
    assert list(range(40)) == CALLS


async def test_cancelled_while_it_is_looked_up(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling a mission does not wait for a file system that does not answer."""
    from grain.delayed.cache.store import MISSING, Store
    from grain.head import TaskCancelled

    asked, answer = threading.Event(), threading.Event()

    def read(*_: object) -> LookupResult:
        asked.set()
        answer.wait()
        return MISSING

    monkeypatch.setattr(Store, "read", read)
    with trio.fail_after(300), trio.CancelScope() as scope:
        async with mission(Cores(1), config_file=False):
            waits = (square @ Cores(1))(3)
            while not asked.is_set():
                await trio.sleep(0.01)
            scope.cancel()
    with pytest.raises(TaskCancelled, match="square was cancelled"):
        await waits
    answer.set()


def test_many_missions_at_once(here: Path) -> None:
    """Missions that keep the same results at the same time do not hurt each other."""
    threads = [
        threading.Thread(target=again, args=(square, *((i,) for i in range(20)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    CALLS.clear()

    assert [i * i for i in range(20)] == again(square, *((i,) for i in range(20)))
    assert [] == CALLS


@dataclass
class Result:
    value: int


@delayed(cache_hfn=lambda _, k: k)
async def remote(items: list[int], k: str) -> Result:
    return Result(sum(items))


async def test_on_other_workers(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the workers of a cluster are kept, too; arguments are those of the call."""
    from grain.remote_exer import HostingExecutor

    monkeypatch.setenv("HOME", str(here))
    address = f"edge://{here}/meeting"
    (here / "grain.toml").write_text(f'address = "{address}"\n')
    async with HostingExecutor(Cores(1), address=address, name="cluster"):
        async with mission():
            items = [1]
            leaves = []
            for k in "abc":
                leaves.append((remote @ Cores(1))(items, k))
                items.append(1)
            assert [Result(1), Result(2), Result(3)] == await each(leaves)
        async with mission() as second:
            assert Result(2) == await (remote @ Cores(1))([], "b")
            assert 0 == second.executor.statistics().done


async def test_a_call_of_a_shielded_clean_up_is_cancelled_as_others_are(tmp_path: Path) -> None:
    """Another call was not resolved when the mission was cancelled."""

    @delayed(cache_hfn="args")
    async def forever(_: int) -> None:
        await trio.sleep_forever()

    @delayed(cache_hfn="args")
    async def tidy(x: int) -> int:
        return x

    cancelled = []
    with trio.fail_after(60), trio.CancelScope() as scope:
        async with mission(Cores(2), config_file=False, cache=str(tmp_path / "cache")):
            (forever @ Cores(1))(1)
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                    try:
                        await (tidy @ Cores(1))(2)
                    except TaskCancelled:
                        cancelled.append(True)

    assert [True] == cancelled
