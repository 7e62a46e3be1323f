"""A seat: how long it waits for its root, and how it says that none has come."""

from __future__ import annotations

import base64
import math
import os
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
import trio

from grain import GVAR
from grain.edge.errors import EdgeError
from grain.edge.invitation import accept
from grain.resource import Cores
from grain.worker.errors import ExternalError, MemberLost
from grain.worker.gang.control import JsonLines, listen
from grain.worker.gang.member import keep
from grain.worker.gang.messages import (
    CODEC,
    LEAD,
    UNWATCHED,
    CallEnded,
    EndCall,
    MemberEnds,
    MemberPlace,
    ProgramOrder,
    SpawnProgram,
    heartbeat,
)
from grain.worker.gang.session import keep_seat, tell_end
from grain.worker.processes.account import RunAccount, WorkerEnd
from grain_testkit.local_processes import alive

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from grain.edge.messages import Message


async def stays() -> bool:
    return False


async def test_a_seat_gives_its_root_up_that_has_not_connected_in_time(
    autojump_clock: MockClock,
) -> None:
    kept: list[bool] = []
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:

        async def seat() -> None:
            kept.append(await keep(name, 20.0))

        nursery.start_soon(seat)
        async with JsonLines(await listener.accept()) as tasklet:
            assert "invitation" in await tasklet.receive()
            began = trio.current_time()
            while not kept:
                await trio.sleep(1)

    assert [False] == kept
    assert LEAD * 20 <= trio.current_time() - began <= LEAD * 20 + 1


@pytest.mark.parametrize("ends", [False, True])
async def test_a_seat_says_of_a_call_that_has_failed_if_its_worker_is_being_ended(
    ends: bool,
) -> None:
    invited = trio.Event()
    invitations: list[bytes] = []

    def announce(invitation: bytes) -> None:
        invitations.append(invitation)
        invited.set()

    async def asked() -> bool:
        await trio.lowlevel.checkpoint()
        return ends

    with GVAR.scope(Cores([0])), trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_seat, announce, asked)
            await invited.wait()
            async with accept(invitations[0], CODEC, heartbeat(60.0)) as (root, _, _):
                for failed in (True, False):
                    root.post([(EndCall(3, failed), None)])
                    told: list[Message] = []
                    while not told or not isinstance(told[-1], CallEnded):
                        told += [message for message, _ in await root.receive()]
                    assert CallEnded(3, ends and failed) == told[-1]


_KILLS_ITS_GUARDS = """
supervisor=$PPID
read -r _ _ _ fork_server _ < /proc/$supervisor/stat
echo $$ > "$0"
kill -9 $fork_server $supervisor
exec sleep 1000
"""


async def test_a_seat_ends_with_a_program_whose_guards_were_killed(tmp_path: Path) -> None:
    """Else it would go on beside the next attempt of its gang."""
    invited = trio.Event()
    invitations: list[bytes] = []
    failed: list[int | None] = []
    mark = tmp_path / "pid"

    def announce(invitation: bytes) -> None:
        invitations.append(invitation)
        invited.set()

    async def keeps() -> None:
        with pytest.raises(ExternalError, match="no other process could end it") as caught:
            await keep_seat(announce, stays)
        failed.append(caught.value.returncode)

    words = b"/bin/sh", b"-c", _KILLS_ITS_GUARDS.encode(), os.fsencode(mark)
    order = ProgramOrder(words, tuple(os.environb.items()), os.fsencode(tmp_path))
    with GVAR.scope(Cores([0])), trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeps)
            await invited.wait()
            async with accept(invitations[0], CODEC, heartbeat(60.0)) as (root, _, _):
                root.post([(SpawnProgram(1), msgspec.msgpack.encode(order))])
                with pytest.raises((EdgeError, trio.EndOfChannel)):
                    while True:
                        for message, _ in await root.receive():
                            assert isinstance(message, MemberPlace)

    assert [UNWATCHED] == failed
    assert not alive(int(mark.read_text()))


async def test_a_seat_says_when_its_worker_ends() -> None:
    invited = trio.Event()
    invitations: list[bytes] = []
    end = WorkerEnd(lambda: None)

    def announce(invitation: bytes) -> None:
        invitations.append(invitation)
        invited.set()

    async def keeps() -> None:
        GVAR.enter(Cores([0]), "w", None, RunAccount(Cores([0]), end=end))
        await keep_seat(announce, stays)

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeps)
            await invited.wait()
            async with accept(invitations[0], CODEC, heartbeat(60.0)) as (root, _, _):
                [(place, _)] = await root.receive()
                assert isinstance(place, MemberPlace)
                end.announce(trio.current_time() + 100.0, now=False)
                [(told, _)] = await root.receive()
                assert isinstance(told, MemberEnds)
                assert told.left is not None
                assert 90 < told.left <= 100
                end.announce(math.inf, now=True)
                assert [(MemberEnds(None, True), None)] == list(await root.receive())


async def test_an_end_that_changes_while_it_is_being_told_is_told_again() -> None:
    end = WorkerEnd(lambda: None)
    told: list[tuple[bool, bool]] = []

    class Process:
        """The process of a seat: while it takes the first line, its worker is to warn at once."""

        async def send(self, *, left: float | None, now: bool) -> None:
            await trio.lowlevel.checkpoint()
            if not told:
                end.announce(math.inf, now=True)
            told.append((left is None, now))

    end.announce(trio.current_time() + 100.0, now=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell_end, end, cast("JsonLines", Process()))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [(False, False), (True, True)] == told


async def test_the_run_of_a_seat_to_which_no_root_came_has_not_begun() -> None:
    invitations: list[bytes] = []
    with GVAR.scope(Cores([0])), pytest.raises(MemberLost) as caught:
        await keep_seat(invitations.append, stays, silence=0.05)

    assert 1 == len(invitations)
    assert (0, False) == (caught.value.index, caught.value.joined)
    assert "the root has not joined: it has not connected within 0 s" == str(caught.value)


async def test_a_root_that_has_come_in_time_may_stay_for_as_long_as_it_gives_signs_of_life() -> (
    None
):
    clock = trio.testing.MockClock()
    silence = 20.0

    async def stay() -> None:
        name, listener = listen()
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(keep, name, silence)
            async with JsonLines(await listener.accept()) as tasklet:
                invitation = base64.b85decode((await tasklet.receive())["invitation"])
                async with accept(invitation, CODEC, heartbeat(silence)) as (root, _, _):
                    assert isinstance((await root.receive())[0][0], MemberPlace)
                    for call in range(LEAD * 10 + 10):
                        clock.jump(silence / 10)
                        root.post([(EndCall(call), None)])
                        assert [(CallEnded(call), None)] == list(await root.receive())

    # In a loop of its own, whose clock stands still but for the jumps.
    await trio.to_thread.run_sync(partial(trio.run, stay, clock=clock))
