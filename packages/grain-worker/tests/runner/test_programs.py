"""The external programs of a run, for those who ask."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.edge.channel import memory_channels
from grain.resource import ZERO, Cores, Memory
from grain.subproc import subprocify
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.external import run_external
from grain.worker.messages import Cancel, Ended, Inspect, Inspected, StartRun
from grain.worker.node.shortage import MemoryRoom
from grain.worker.processes.environment import USABLE
from grain.worker.runner.programs import CLOSE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from grain.edge.channel import MemoryChannel


async def alone(word: str) -> None:
    """A tasklet with a program."""
    await run_external(["/bin/sh", "-c", f"exec sleep 1000 # {word}"])


async def beside_each_other(word: str) -> None:
    """A tasklet with two programs, in trio tasks of its own."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alone, f"{word}-a")
        nursery.start_soon(alone, f"{word}-b" + "x" * 1000)


async def in_another_nursery(word: str, nursery: trio.Nursery) -> None:
    """A tasklet with a program in a trio task that may live longer than the run."""
    nursery.start_soon(alone, word)
    await trio.sleep_forever()


async def none_at_all(_: str) -> None:
    """A tasklet without a program."""
    await trio.sleep_forever()


async def computing() -> None:
    """A tasklet with a program that computes."""
    await run_external(["/bin/sh", "-c", "while :; do :; done"])


async def programs(head: Any, attempt: tuple[int, int], count: int) -> list[str]:
    """Ask for the programs of a run until there are as many; return their commands, sorted."""
    while True:
        await head.send([(Inspect(7, attempt), None)])
        [(answer, _)] = await head.receive()
        assert isinstance(answer, Inspected)
        assert 7 == answer.question
        if len(answer.programs) == count:
            assert all(one.seconds >= 0 for one in answer.programs)
            return sorted(one.command for one in answer.programs)
        await trio.sleep(0.01)


@pytest.mark.parametrize("before", [0, 3], ids=["its first runs", "runs after others"])
async def test_each_program_belongs_to_its_run(before: int) -> None:
    """Where runs have a nursery of their own and where they use one that is pooled."""
    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        for number in range(before):
            brief = Call(trio.lowlevel.checkpoint, (), {})
            await head.send([(StartRun((0, number), ZERO), brief)])
            [(ended, _)] = await head.receive()
            assert isinstance(ended, Ended)
        for number, tasklet in enumerate((alone, beside_each_other, none_at_all)):
            await head.send([(StartRun((1, number), ZERO), Call(tasklet, (f"t{number}",), {}))])

        assert ["/bin/sh -c 'exec sleep 1000 # t0'"] == await programs(head, (1, 0), 1)
        first, second = await programs(head, (1, 1), 2)
        assert "/bin/sh -c 'exec sleep 1000 # t1-a'" == first
        assert second.startswith("/bin/sh -c 'exec sleep 1000 # t1-bxxx")
        assert second.endswith("xxx ...")
        assert len(second) < 400
        assert [] == await programs(head, (1, 2), 0)
        assert [] == await programs(head, (5, 5), 0)
        await head.send([(Cancel((1, 0)), None)])
        [(ended, _)] = await head.receive()
        assert [] == await programs(head, (1, 0), 0)
        nursery.cancel_scope.cancel()


async def test_a_program_belongs_to_the_run_that_has_started_its_task_in_whatever_nursery() -> None:
    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        await head.send([(StartRun((1, 1), ZERO), Call(in_another_nursery, ("t1", nursery), {}))])

        with trio.fail_after(60):
            assert ["/bin/sh -c 'exec sleep 1000 # t1'"] == await programs(head, (1, 1), 1)
        nursery.cancel_scope.cancel()


async def test_the_answer_has_what_a_program_uses_now() -> None:
    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
        await head.send([(StartRun((1, 1), ZERO), Call(computing, (), {}))])
        cpu = 0.0
        while cpu < 0.1:
            await head.send([(Inspect(7, (1, 1)), None)])
            [(answer, _)] = await head.receive()
            assert isinstance(answer, Inspected)
            for program in answer.programs:
                cpu = program.cpu or 0.0
                assert program.memory is None or 0 < program.memory < 0.1
        assert program.memory is not None
        assert cpu <= program.seconds + 0.1
        nursery.cancel_scope.cancel()


EATS = "x = bytearray(int({})); open({!r}, 'w'); import time; time.sleep(1000)"


async def eats(size: float, ready: Path) -> None:
    """A tasklet with a program that has so many bytes."""
    await run_external([sys.executable, "-S", "-c", EATS.format(size, str(ready))])


@subprocify
def held(size: float, ready: Path) -> None:
    """A function in a process that has so many bytes."""
    kept = bytearray(int(size))
    ready.touch()
    time.sleep(1000)
    del kept


@pytest.mark.parametrize(("tasklet", "share"), [(eats, 0.05), (held, 0.1)])
async def test_where_the_node_is_short_the_run_most_over_its_share_is_ended(
    tasklet: Callable[[float, Path], Awaitable[None]], share: float, tmp_path: Path
) -> None:
    """And reported as a crash; those within their amounts go on, however much they have."""
    rooms = [MemoryRoom(1.0, 1.0)]
    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    sizes = {1: (200, Memory(0.5)), 2: (100, Cores([0])), 3: (150, Cores([0])), 4: (5, Cores([0]))}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            Runner("w", theirs, MemoryTranslation(), rooms=lambda: list(rooms)).serve
        )
        for number, (size, res) in sizes.items():
            work = Call(tasklet, (size * 1e6, tmp_path / str(number)), {})
            await head.send([(StartRun((1, number), res), work)])
        with trio.fail_after(60):
            while len(list(tmp_path.iterdir())) < len(sizes):
                await trio.sleep(0.01)
            for most_over in (3, 2):
                # Its cores have the share or less: one of at least two CPUs.
                rooms[:] = [MemoryRoom(share * len(USABLE), 0.0)]
                [(ended, _)] = await head.receive()
                rooms[:] = [MemoryRoom(1.0, 1.0)]
                assert isinstance(ended, Ended)
                assert ((1, most_over), "cancelled") == (ended.attempt, ended.status)
                assert "short" == ended.interruption
                assert ended.crash.startswith("ended as its node was short of memory: it had 0.")
            rooms[:] = [MemoryRoom(share * len(USABLE), 0.0)]
            with trio.move_on_after(3 * CLOSE):
                pytest.fail(f"{await head.receive()}")
        nursery.cancel_scope.cancel()
