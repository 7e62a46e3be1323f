"""The surroundings of functions in processes: the allocation, signals of the terminal."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from grain import GVAR
from grain.resource import ZERO, Cores
from grain.subproc import subprocify
from grain_testkit.pool_scope import pool, process_id


@subprocify
def surroundings() -> tuple[set[int], str | None, Any, str]:
    return os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS"), GVAR.res, GVAR.instance


async def test_a_call_is_bound_to_the_cpus_of_its_allocation() -> None:
    """All threads are bound, for each call; without an allocation to all CPUs."""
    usable = sorted(os.sched_getaffinity(0))

    def keep_a_thread() -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def by_thread() -> list[set[int]]:
        return [os.sched_getaffinity(int(tid)) for tid in os.listdir("/proc/self/task")]

    async with pool():
        await subprocify(keep_a_thread)()
        free = await process_id()
        assert [set(usable)] * 2 == await subprocify(by_thread)()
        pids = set()
        for cpu in usable:
            with GVAR.scope(Cores([cpu]), "w7"):
                assert ({cpu}, "1", Cores([cpu]), "w7") == await surroundings()
                pids.add(await process_id())
        assert 1 == len(pids)
        assert free not in pids
        assert (set(usable), os.environ.get("OMP_NUM_THREADS"), ZERO, "") == await surroundings()


async def test_successive_allocations_are_kept_apart() -> None:
    """They may alternate, or be more than a pool keeps."""
    usable = sorted(os.sched_getaffinity(0))
    some = [Cores([cpu]) for cpu in usable]
    async with pool():
        for res in (*some, *some):
            for name in ("w1", "w2"):
                with GVAR.scope(res, name):
                    assert ({*res.c}, "1", res, name) == await surroundings()
        for number in range(1000, 1100):
            with GVAR.scope(Cores([number])):
                assert Cores([number]) == (await surroundings())[2]


async def test_a_process_serves_one_number_of_threads() -> None:
    """Libraries read that number once. Nothing is bound to CPUs that do not exist."""
    async with pool():
        pids_by_count: dict[int, set[int]] = {}
        for count in (1, 2, 1, 2):
            with GVAR.scope(Cores(range(1000, 1000 + count))):
                affinity, threads, _, _ = await surroundings()
                assert (os.sched_getaffinity(0), str(count)) == (affinity, threads)
                pids_by_count.setdefault(count, set()).add(await process_id())
    assert [1, 1] == [len(pids) for pids in pids_by_count.values()]
    assert pids_by_count[1] != pids_by_count[2]


async def test_signals_of_the_terminal_are_for_the_caller() -> None:
    """A call goes on after Ctrl-C or a hang-up, which reach every process of a session."""

    @subprocify
    def signalled() -> str:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        return "done"

    async with pool():
        assert "done" == await signalled()
        assert os.getsid(0) != await subprocify(os.getsid)(0)
