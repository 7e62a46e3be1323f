"""Reports to missions of workers that have other versions than theirs. No I/O.

Tasks with bytecode wait for workers with the interpreter of their mission: the scheduler sees to
that. Here each mission learns why, and of differences that concern data alone: once for all workers
of the same versions, when the first of them is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import OtherVersions

if TYPE_CHECKING:
    from grain.head.hub.state import MissionRecord, Outgoing, Registry, WorkerRecord


class VersionReports:
    """The reports to all missions.

    Args:
        registry: the missions and workers.
        outgoing: takes the messages.
    """

    def __init__(self, registry: Registry, outgoing: Outgoing) -> None:
        self._registry = registry
        self._outgoing = outgoing

    def on_worker(self, worker: WorkerRecord) -> None:
        """Report a worker that serves to the missions that are here."""
        for mission in self._registry.missions.values():
            self._compare(mission, worker)

    def on_mission(self, mission: MissionRecord) -> None:
        """Report the workers that are here to a mission that has registered."""
        for worker in self._registry.workers.values():
            self._compare(mission, worker)

    def _compare(self, mission: MissionRecord, worker: WorkerRecord) -> None:
        ours, theirs = mission.versions, worker.versions
        if theirs in mission.reported or mission.link is None:
            return
        if not (ours.runs_code_of(theirs) and ours.loads_arrays_of(theirs)):
            mission.reported.add(theirs)
            message = OtherVersions(worker.name, worker.host, theirs)
            self._outgoing.post(mission.link, message)
