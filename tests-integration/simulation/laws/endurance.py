"""The laws on the runs of lasting missions: they end by themselves, or because they are to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.mission_ids import lasts

if TYPE_CHECKING:
    from grain.worker.messages import Lease
    from simulation.heads import HeadProcess
    from simulation.lasting.files import Files
    from simulation.peers import SimulatedRun
    from simulation.setting import Setting


class Endurance:
    """The observer of the runs of lasting missions.

    Args:
        world: the world.
    """

    def __init__(self, world: Setting) -> None:
        self._world = world

    def files(self, mission: str) -> Files:
        """Return the files of a lasting mission."""
        return self._world.files[mission]

    def on_stopping(self, run: SimulatedRun) -> None:
        """Check a run that is told to end, by whatever message."""
        mission, task, worker = run.lease.mission, run.lease.task, run.worker
        if not lasts(mission):
            return
        leaves = worker.session.draining and worker.leave_by <= worker.now
        stories = [one.story for one in self._world.missions if one.session.id == mission]
        ended = any(story.ended_outside for story in stories)
        ended = ended or any(task in story.cancelled_outside for story in stories)
        law = "a run of a lasting mission ends by itself, with its worker, or by a cancellation"
        asked = ended or task in self.files(mission).cancelled
        self._world.laws.demand(law, leaves or asked, run.lease)

    def on_begun(self, run: SimulatedRun) -> None:
        """Check a run that begins and is not refused."""
        if lasts(run.lease.mission):
            law = "of a task of a lasting mission one run is under way at a time"
            others = [
                one
                for worker in self._world.workers
                if worker.alive
                for one in worker.runs.values()
                if one is not run and not one.refused
                if (one.lease.mission, one.lease.task) == (run.lease.mission, run.lease.task)
            ]
            self._world.laws.demand(law, not others, run.lease)

    def on_leased(self, head: HeadProcess, lease: Lease) -> None:
        """Check that a task is not started whose run the head knows, which goes on."""
        if not lasts(lease.mission):
            return
        for worker in head.hub.registry.workers.values():
            for other in worker.leases.values():
                task = other.task
                known = task is not None and not other.revoked and other.scheduler_id is not None
                if known and other.attempt != lease.attempt and task is not None:
                    key = (task.mission.id, task.number)
                    beside = other in task.mission.beside.get(task.number, ())
                    law = "a run of a lasting mission is adopted"
                    same = key == (lease.mission, lease.task)
                    self._world.laws.demand(law, not same or beside, (lease, other))

    def check_end(self) -> None:
        """Check that every task of a mission that was not cancelled is over, by the files.

        A task that was cancelled is over when no run of it is under way: the head may have taken
        its worker for lost, and that may have died then, before it could write how the run ended.
        """
        for files in self._world.files.values():
            stories = [m.story for m in self._world.missions if m.session.id == files.name]
            if not any(story.ended_outside for story in stories):
                tasks = range(1, len(files.plan) + 1)
                left = [task for task in tasks if not files.is_over(task)]
                missing = [t for t in left if t not in files.cancelled or files.holds(t)]
                law = "every task of a lasting mission is over in the end"
                self._world.laws.demand(law, not missing, (files.name, missing))
