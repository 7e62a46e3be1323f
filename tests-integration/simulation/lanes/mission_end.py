"""A mission's end of a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.messages import LaneOpen, StartRun
from simulation.lanes.ends import LaneEnd

if TYPE_CHECKING:
    from grain.remote_exer.lanes import Lane
    from simulation.peers import SimulatedMission
    from simulation.wire import Mail


class MissionEnd(LaneEnd):
    """A mission's end of the connection of a lane, as `grain.remote_exer.lanes.door` has it."""

    def __init__(self, mission: SimulatedMission) -> None:
        super().__init__(mission)
        self._mission = mission
        self._lane: Lane | None = None

    def post(self, batch: Mail) -> None:
        """See `grain.remote_exer.lanes.Connection`."""
        for one, _ in batch:
            if isinstance(one, StartRun):
                self._mission.sent.setdefault(one.task, set()).add(one.attempt[0])
        self.send(list(batch))

    def read(self, mail: Mail) -> None:
        mission, now = self._mission, self._mission.world.clock.now
        if self._lane is not None:
            mission.lanes.on_batch(self._lane, list(mail), now)
            mission.flush()
            return
        for message, _ in mail:
            assert isinstance(message, LaneOpen)
            self._lane = mission.lanes.connect(message.task, self, now)
            if self._lane is None:
                self.hang_up()
                return
            mission.ends[self._lane] = self
        mission.flush()

    def lost(self) -> None:
        self.wire = None
        self.leave()
        self._mission.flush()

    def leave(self) -> None:
        """Close this end, and let the mission know."""
        self.hang_up()
        if self._lane is not None and self._mission.ends.pop(self._lane, None) is not None:
            self._mission.lanes.on_disconnected(self._lane)
