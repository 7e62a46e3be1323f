"""The door of a member: ranks that come by it, their stand-ins, and the end of their call."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.worker.gang import srun
from grain.worker.gang.control import JsonLines, accept, connect, listen
from grain.worker.gang.door import RankDoor
from grain.worker.processes.mpi import EDGE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class ServedDoor:
    """A door, and the nursery in which its programs are."""

    def __init__(self, programs: trio.Nursery) -> None:
        self.programs = programs
        self.door = RankDoor(programs)

    async def rank(self, folder: Path, call: int) -> JsonLines:
        """Ask as a stand-in does for a program that goes on; return when that has begun."""
        begun = folder / f"begun-{call}"
        os.mkfifo(begun)
        lines = await self.ask(call, "sh", "-c", f"echo here > '{begun}'; exec sleep 600")
        assert "here\n" == await trio.to_thread.run_sync(begun.read_text)
        return lines

    async def ask(self, call: int, *words: str) -> JsonLines:
        lines = await connect(self.door.name)
        await lines.send(call=str(call), words=words, cwd="/")
        return lines


@asynccontextmanager
async def served() -> AsyncIterator[ServedDoor]:
    with trio.fail_after(120):
        async with trio.open_nursery() as programs:
            place = ServedDoor(programs)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(place.door.serve)
                yield place
                nursery.cancel_scope.cancel()


async def test_a_rank_ends_with_its_stand_in(tmp_path: Path) -> None:
    async with served() as place:
        lines = await place.rank(tmp_path, 1)
        assert place.programs.child_tasks

        async with lines:
            pass

        while place.programs.child_tasks:
            await trio.lowlevel.checkpoint()
        used = (await place.door.end_call(1)).usage
        assert (1, True) == (used.programs, used.peak_memory > 0)
        assert 0 == (await place.door.end_call(2)).usage.programs


async def test_a_call_has_ended_when_its_stand_ins_have_gone(tmp_path: Path) -> None:
    async with served() as place, trio.open_nursery() as nursery:
        other = await place.rank(tmp_path, 2)
        lines = await place.rank(tmp_path, 1)
        ended = trio.Event()

        async def end() -> None:
            await place.door.end_call(1)
            ended.set()

        nursery.start_soon(end)
        async with lines:
            assert "status" in await lines.receive()
            await wait_all_tasks_blocked()
            assert not ended.is_set()
        await ended.wait()

        assert 1 == len(place.programs.child_tasks)  # that of the other call
        async with other:
            pass


async def test_a_stand_in_that_comes_after_the_end_of_its_call_starts_nothing() -> None:
    async with served() as place:
        await place.door.end_call(1)

        async with await place.ask(1, "true") as lines:
            late = await lines.receive()
        async with await place.ask(2, "true") as lines:
            other = await lines.receive()

    assert (255, "grain: the program that asked for it has ended\n") == (
        late["status"],
        late["output"],
    )
    assert 0 == other["status"]


@pytest.mark.parametrize("stated", ["1", "0", "", None])
async def test_a_stand_in_says_at_the_door_what_its_call_says_of_memory(stated: str | None) -> None:
    name, listener = listen()
    variables = {"GRAIN_GANG_DOORS": json.dumps({"n1": name}), "SLURMD_NODENAME": "n1"}
    if stated is not None:
        variables["GRAIN_GANG_ENFORCE"] = stated
    words = [sys.executable, "-SEs", srun.__file__, EDGE, "1", "1", "true"]
    with trio.fail_after(120):
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.run_process, words, env=variables))
            async with await accept(listener) as lines:
                assert (stated or None) == (await lines.receive())["enforce"]
                await lines.send(status=0, output="")


async def test_a_rank_is_held_to_its_memory_as_its_call_says() -> None:
    """Here the task has no amount: only a rank that is to be held to it fails for that."""
    async with served() as place:
        for stated, status in ("1", 255), ("0", 0), (None, 0):
            async with await connect(place.door.name) as lines:
                await lines.send(call="1", words=["true"], cwd="/", enforce=stated)
                answer = await lines.receive()
            assert status == answer["status"]
            assert ("the task asks for no memory" in answer["output"]) == (stated == "1")
