"""Reports to missions of workers: those that run their tasks, and those of other versions. No I/O.

1.  A mission is informed of a worker before the first `Started` that names it, once on each
    connection, and of the end of those workers; of `MOST_WORKERS` at most.
2.  Tasks with bytecode wait for workers with the interpreter of their mission: the scheduler sees
    to that. Here each mission learns why, and of differences that concern data alone: once for all
    workers of the same versions, when the first of them is there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.messages import OtherVersions, WorkerEnded, WorkerFacts
from grain.resource import to_data

if TYPE_CHECKING:
    from grain.head.hub.state import MissionRecord, Outgoing, Registry, WorkerRecord
    from grain.head.scheduler.scheduler import Scheduler

MOST_WORKERS = 1000
"""Workers of which one connection of a mission is informed."""


class WorkerReports:
    """The reports to all missions.

    Args:
        wall: the difference between the clock of Unix and that of the hub, in seconds.
        registry: the missions and workers.
        scheduler: has the resources of the workers.
        outgoing: takes the messages.
    """

    def __init__(
        self, wall: float, registry: Registry, scheduler: Scheduler, outgoing: Outgoing
    ) -> None:
        self._wall = wall
        self._registry = registry
        self._scheduler = scheduler
        self._outgoing = outgoing

    # ---- workers that run tasks

    def on_run(self, mission: MissionRecord, worker: WorkerRecord) -> None:
        """Inform a mission of a worker that has a run of it, unless it knows."""
        informed = mission.workers
        if worker.id in informed or len(informed) >= MOST_WORKERS or mission.link is None:
            return
        informed.add(worker.id)
        self._outgoing.post(mission.link, self.facts(worker))

    def facts(self, worker: WorkerRecord) -> WorkerFacts:
        """Return what missions learn of a worker."""
        scheduled = self._scheduler.workers[worker.number]
        return WorkerFacts(
            worker.id,
            worker.unique_name,
            worker.host,
            to_data(scheduled.supply.total),
            None if scheduled.end == math.inf else self._wall + scheduled.end,
            worker.job,
        )

    def on_worker_left(
        self, worker: WorkerRecord, why: str, silent: float | None = None, told: str = ""
    ) -> None:
        """Inform the missions that know of a worker of its end, before those of its runs.

        Args:
            why: as of `WorkerEnded`.
            silent: likewise.
            told: likewise.
        """
        for mission in self._registry.missions.values():
            if worker.id in mission.workers:
                mission.workers.remove(worker.id)
                handed_back = worker.handed_back.get(mission.id, 0)
                ended = WorkerEnded(worker.id, why, silent, handed_back, told)
                self._outgoing.post(mission.link, ended)

    # ---- workers of other versions

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
