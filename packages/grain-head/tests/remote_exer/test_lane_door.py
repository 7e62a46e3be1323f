from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import trio.testing

from grain.edge.invitation import _Invitation, accept
from grain.head.messages import Resolved, Started
from grain.remote_exer.lanes import ALONE, LINGER, MissionLanes
from grain.remote_exer.lanes.door import _GREETING, LaneDoor
from grain.remote_exer.session import MissionSession
from grain.worker.messages import LANE_CODEC, LaneOpen, LaneOutcome, Recall
from grain.worker.payload import whole
from grain_testkit.submitted_tasks import remote_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Mission:
    """A mission whose calls of request 0 would be served by lanes."""

    def __init__(self, beside: str = "") -> None:
        self.session = MissionSession("id", "m")
        self.session.on_connected()
        self.lanes = MissionLanes(self.session)
        self.lanes.add_request()
        self.session.request({"Cores": 1})
        self.door = LaneDoor(self.lanes, lambda: None, self.on_change, beside)
        self.lanes.traffic[0].on_ended(0.001)
        self.changes = 0

    def on_change(self) -> None:
        self.changes += 1
        self.door.close_closing()

    def submit(self) -> None:
        for _ in range(ALONE):
            self.door.on_submitting(remote_task(0, b"f", b""))

    async def asked(self) -> tuple[int, bytes]:
        """Return the number and the invitation of the lane that is asked for next."""
        while True:
            self.submit()
            await trio.testing.wait_all_tasks_blocked(0.01)
            for number, record in self.session.pending.items():
                return number, bytes(whole(record.arguments or b""))

    def over(self, lane: int, *, unreachable: bool) -> None:
        outcome = msgspec.msgpack.encode(LaneOutcome(unreachable=unreachable))
        self.session.on_message(Resolved(lane, "value"), outcome)
        self.lanes.on_news(trio.current_time())


@asynccontextmanager
async def serving(beside: str = "") -> AsyncIterator[Mission]:
    mission = Mission(beside)
    with trio.fail_after(60):
        async with mission.door.open():
            yield mission


def addresses(invitation: bytes) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = msgspec.msgpack.decode(invitation)[0]
    return found


async def test_a_mission_listens_on_its_network_once_a_runner_could_not_come_within_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next lane is asked for with the new addresses, and not before they are there."""
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with serving() as mission:
        lane, invitation = await mission.asked()
        assert [] == addresses(invitation)

        mission.over(lane, unreachable=True)
        lane, invitation = await mission.asked()
        assert {"127.0.0.1"} <= {host for host, _ in addresses(invitation)}


async def test_a_runner_that_cannot_connect_comes_by_the_directory_of_the_meeting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with serving(f"edge://{tmp_path}/meeting") as mission:
        for _ in range(2):
            lane, _ = await mission.asked()
            mission.over(lane, unreachable=True)
            assert [] == list(tmp_path.iterdir())  # no file as long as another way may be one
        lane, invitation = await mission.asked()
        # As on another host that reaches no address.
        content = msgspec.msgpack.decode(invitation, type=_Invitation)
        apart = msgspec.structs.replace(content, addresses=(), boot="another")
        async with accept(msgspec.msgpack.encode(apart), LANE_CODEC) as visit:
            mission.session.on_message(Started("w", (lane,)), None)
            await visit.channel.send([(LaneOpen(lane), None)])
            while mission.lanes.traffic[0].lanes[lane].connection is None:
                await trio.sleep(0.01)

    assert [] == list((tmp_path / "meeting.d").iterdir())


async def test_lanes_are_looked_after_by_one_task_also_if_there_are_two_doors(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAIN_INTERFACES", "lo")
    async with serving() as mission:
        lane, _ = await mission.asked()
        mission.over(lane, unreachable=True)
        mock_clock.jump(LINGER)
        await mission.asked()
        mission.changes = 0
        mock_clock.jump(LINGER)
        await trio.testing.wait_all_tasks_blocked(0.01)

    assert 1 == mission.changes


async def test_a_runner_that_is_recalled_as_it_comes_is_heard() -> None:
    """What it says with its greeting counts: no call goes into its lane."""
    async with serving() as mission:
        lane, invitation = await mission.asked()
        mission.session.on_message(Started("w", (lane,)), None)
        async with accept(invitation, LANE_CODEC) as visit:
            await visit.channel.send([(LaneOpen(lane), None), (Recall((1, 1)), None)])
            taken_in = mission.lanes.traffic[0].lanes[lane]
            while not taken_in.open:
                await trio.sleep(0.01)
            assert taken_in.over


async def test_a_runner_that_does_not_say_its_lane_is_let_go(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving() as mission:
        lane, invitation = await mission.asked()
        with trio.fail_after(2 * _GREETING):
            async with accept(invitation, LANE_CODEC) as visit:
                with pytest.raises((trio.EndOfChannel, trio.BrokenResourceError)):
                    await visit.channel.receive()
        assert lane in mission.session.pending
