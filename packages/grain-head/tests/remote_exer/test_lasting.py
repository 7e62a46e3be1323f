"""The executor of a lasting mission: over memory, to a head that the test plays."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import memory_channels
from grain.edge.mission_ids import lasting_id
from grain.head.collapse import collapsing
from grain.head.errors import MissionReplaced
from grain.head.messages import (
    CancelTask,
    Depart,
    RegisterMission,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.head.run_log import RunLog
from grain.remote_exer import LastingMission, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain.worker.messages import Disconnect
from grain_testkit.kept_lines import KeptLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grain.edge.channel import WireChannel

# Nothing here takes time: what waits for ever fails.
pytestmark = pytest.mark.usefixtures("autojump_clock")

ID = lasting_id("queue", "1a2b")


async def nothing() -> None:
    """A tasklet."""


CALL = Call(nothing, (), {})


class Head:
    """The other end of the connections of a mission, and all that came there."""

    def __init__(self) -> None:
        self.ends: list[WireChannel] = []
        self.came: list[Any] = []

    @asynccontextmanager
    async def connect(self, _: str) -> AsyncGenerator[WireChannel]:
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        self.ends.append(theirs)
        with collapsing():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, theirs)
                try:
                    yield ours
                finally:
                    await ours.aclose()

    async def _receive(self, end: WireChannel) -> None:
        with suppress(trio.EndOfChannel, trio.ClosedResourceError):
            while True:
                self.came += [message for message, _ in await end.receive()]

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.came if isinstance(message, kind)]


def executor(head: Head, generation: int = 1, first: int = 1, **more: Any) -> RemoteExecutor:
    lasting = LastingMission(ID, generation, first)
    return RemoteExecutor(connect=head.connect, name="queue", lasting=lasting, **more)


@pytest.mark.parametrize("how", ["error", "cancelled"])
async def test_leaving_a_lasting_mission_retracts_nothing_and_resolves_nothing(how: str) -> None:
    head = Head()
    ended: list[Any] = []

    async def block(scope: trio.CancelScope) -> None:
        with scope, trio.fail_after(5):
            async with executor(head) as tasks:
                tasks.submit_call(Cores(1), CALL, ended.append)
                tasks.submit_call(Cores(1), CALL, ended.append)
                await wait_all_tasks_blocked()
                await head.ends[0].send([(Started("w", (1,)), None)])
                await wait_all_tasks_blocked()
                if how == "error":
                    raise RuntimeError("enough")
                scope.cancel()
                await trio.sleep_forever()

    if how == "error":
        with pytest.raises(RuntimeError, match="enough"):
            await block(trio.CancelScope())
    else:
        await block(trio.CancelScope())

    assert [] == ended
    assert [] == head.of(Retract)
    assert [Depart()] == head.of(Depart)


async def test_tasks_have_the_numbers_of_earlier_processes_and_then_new_ones() -> None:
    head = Head()
    with trio.CancelScope() as scope:
        async with executor(head, generation=3, first=3000) as tasks:
            assert 5 == tasks.submit_call(Cores(1), CALL, number=5, worker="w")
            assert 8 == tasks.submit_call(Cores(1), CALL, number=8)
            assert "on worker w" in tasks.why(5).reasons
            assert 1 == tasks.statistics().running
            with pytest.raises(ValueError, match="task 7 after task 8: the numbers of tasks asc"):
                tasks.submit_call(Cores(1), CALL, number=7)
            assert [3000, 3001] == [tasks.submit_call(Cores(1), CALL) for _ in range(2)]
            with pytest.raises(ValueError, match="task 9 after task 3001"):
                tasks.submit_call(Cores(1), CALL, number=9)
            await wait_all_tasks_blocked()
            tasks.submit_call(Cores(1), CALL, number=4000, worker="v")
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()

    [registration] = head.of(RegisterMission)
    assert (ID, (3 << 32) + 1) == (registration.mission, registration.connection)
    assert [(5, "w"), (8, ""), (3000, ""), (3001, ""), (4000, "v")] == [
        (one.task, one.worker) for one in head.of(Submit)
    ]


async def test_a_process_ends_whose_place_a_later_one_has_taken() -> None:
    """Under another id, as other missions go on, it would start its tasks a second time."""
    head = Head()
    ended: list[Any] = []

    async def block() -> None:
        async with executor(head) as tasks:
            tasks.submit_call(Cores(1), CALL, ended.append)
            await wait_all_tasks_blocked()
            assert head.of(Synced)
            await head.ends[0].send([(Disconnect("another", "replaced"), None)])
            await head.ends[0].aclose()
            await trio.sleep_forever()

    with (
        pytest.raises(MissionReplaced, match="another process of mission queue has taken over"),
        trio.fail_after(5),
    ):
        await block()

    assert [] == ended
    assert 1 == len(head.ends)


async def test_each_process_of_a_lasting_mission_has_a_log_of_its_own() -> None:
    head = Head()
    log = RunLog(KeptLines(), "log of this process")
    with trio.CancelScope() as scope:
        async with executor(head, run_log=log) as tasks:
            tasks.submit_call(Cores(1), CALL, number=5, worker="w")
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    log.close()

    assert [ID] == [one.mission for one in head.of(RegisterMission)]
    assert "log of this process" == log.id


async def test_a_task_that_is_not_here_is_retracted_if_the_mission_is_a_lasting_one() -> None:
    head = Head()
    with trio.CancelScope() as scope:
        async with executor(head, first=100) as tasks:
            tasks.submit_call(Cores(1), CALL)
            await wait_all_tasks_blocked()
            tasks.cancel(7)
            await wait_all_tasks_blocked()
            assert [Retract((7,))] == head.of(Retract)
            scope.cancel()
            await trio.sleep_forever()


async def test_a_cancellation_that_comes_before_its_task_names_who_has_cancelled_it() -> None:
    """The process before this one was killed before it had read that."""
    head = Head()
    ended: list[Any] = []
    async with executor(head) as tasks:
        tasks.submit_call(Cores(1), CALL, number=3)
        await wait_all_tasks_blocked()
        await head.ends[0].send([(CancelTask(5, "me@host"), None)])
        await wait_all_tasks_blocked()
        tasks.submit_call(Cores(1), CALL, ended.append, number=5)
        await wait_all_tasks_blocked()
        await head.ends[0].send([(Retracted(3), None), (Retracted(5), None)])

    assert "cancelled by me@host" in str(ended[0].error)
