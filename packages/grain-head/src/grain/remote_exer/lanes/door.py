"""The connections of lanes: runners connect to the mission, and `MissionLanes` decides."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import ChannelError
from grain.edge.invitation import invite
from grain.remote_exer.lanes.mission import LINGER
from grain.remote_exer.lanes.traffic import Way
from grain.remote_exer.session import taken
from grain.worker.messages import LANE_CODEC, LANE_HEARTBEAT, LaneOpen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.invitation import Door
    from grain.remote_exer.lanes.mission import MissionLanes
    from grain.remote_exer.lanes.traffic import Lane
    from grain.remote_exer.session import RemoteTask

_log = logging.getLogger("grain.remote_exer")

_GREETING = 10.0  # seconds for a runner that has connected to say for which lane


class LaneDoor:
    """The way of runners to the lanes of a mission.

    Args:
        wake: called when there are messages to send.
        on_change: called when there may be outcomes to hand over as well.
        beside: the address of the meeting by which runners come that cannot connect; empty for
            none.
    """

    def __init__(
        self,
        lanes: MissionLanes,
        wake: Callable[[], object],
        on_change: Callable[[], object],
        beside: str = "",
    ) -> None:
        self._lanes = lanes
        self._wake = wake
        self._on_change = on_change
        self._nursery: trio.Nursery | None = None
        self._door: Door | None = None
        self._beside = beside
        lanes.last_way = Way.BESIDE if beside else Way.NETWORK
        # That of the door that is open, or being opened; None for no door.
        self._way: Way | None = None
        self._tended = False
        self._scopes: dict[Lane, trio.CancelScope] = {}
        lanes.invitation = self._invitation

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Let runners connect during the block; at its end all connections are closed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            failed: BaseException | None = None
            try:
                yield
            except BaseException as error:
                failed = error
            self._nursery = None
            # Shielded, as a cancellation must not replace what the block has raised.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed

    def on_submitting(self, record: RemoteTask) -> int:
        """Record that a call is to go to the scheduler by itself; ask for a lane if that helps.

        Returns:
            The number of its task, if it has got that lane; 0 if it is to go all the same.
        """
        now = trio.current_time()
        if not self._lanes.wants_lane(record.asked, now):
            return 0
        invitation = self._invitation()
        if invitation is None:
            return 0
        task = 0
        if self._lanes.traffic[record.asked].refused:
            task = self._lanes.ask_for(record, invitation, now)
        else:
            self._lanes.ask(record.asked, invitation, now)
        self._wake()
        return task

    def _invitation(self) -> bytes | None:
        """Return the way for runners; None if there is none, or none yet."""
        if self._way != self._lanes.way and self._nursery is not None:
            self.start()
            self._way = self._lanes.way
            self._door = None  # runners elsewhere cannot come by it
            self._nursery.start_soon(self._keep, self._nursery, self._way)
        return None if self._door is None else self._door.invitation

    @property
    def is_open(self) -> bool:
        """True while runners may connect."""
        return self._nursery is not None

    def start(self) -> None:
        """Look after lanes, and calls that are held, from now on."""
        if self._nursery is not None and not self._tended:
            self._tended = True
            self._nursery.start_soon(self._tend)

    def close_closing(self) -> None:
        """Close the connections that are of no more use."""
        for lane in taken(self._lanes.closing):
            if lane in self._scopes:
                self._scopes[lane].cancel()

    async def _keep(self, nursery: trio.Nursery, way: Way) -> None:
        """Keep a door open, and let those who come by it be served in a nursery."""
        network, beside = way >= Way.NETWORK, self._beside if way >= Way.BESIDE else ""
        try:
            async with invite(
                LANE_CODEC, LANE_HEARTBEAT, within=True, network=network, beside=beside
            ) as door:
                self._door = door
                self._lanes.look(trio.current_time())
                self._on_change()
                while True:
                    await nursery.start(self._serve, door)
        except OSError as error:
            if self._way == way:  # else another one has its place
                self._door = None
            _log.info("no lanes: this host cannot listen: %s", error.strerror)
            self._lanes.on_no_way(trio.current_time())
            self._on_change()

    async def _tend(self) -> None:
        """Give back what is idle, and report."""
        while True:
            await trio.sleep(LINGER / 2)
            self._lanes.look(trio.current_time())
            self._on_change()

    async def _serve(
        self, door: Door, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve one lane; its start is over when a runner has come."""
        async with door.guest() as channel:
            task_status.started()
            first: WireBatch = []
            with trio.move_on_after(_GREETING):
                try:
                    first = await channel.receive()
                except (ChannelError, trio.EndOfChannel, trio.ClosedResourceError):
                    return
            lane = self._connect(channel, first)
            if lane is None:
                return
            with trio.CancelScope() as scope:
                self._scopes[lane] = scope
                try:
                    self._take(lane, first[1:])
                    await channel.receive_into(partial(self._take, lane))
                except (ChannelError, trio.ClosedResourceError) as error:
                    _log.debug("the connection of lane %d is lost: %s", lane.number, error)
                finally:
                    del self._scopes[lane]
                    self._lanes.on_disconnected(lane)
                    self._on_change()

    def _connect(self, channel: FramedChannel, first: WireBatch) -> Lane | None:
        """Return the lane that a runner has come for; None if there is none."""
        for opened, _ in first[:1]:
            if isinstance(opened, LaneOpen):
                return self._lanes.connect(opened.task, channel, trio.current_time())
        return None

    def _take(self, lane: Lane, batch: WireBatch) -> None:
        self._lanes.on_batch(lane, batch, trio.current_time())
        self._on_change()
