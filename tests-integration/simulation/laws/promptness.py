"""The laws of promptness: what may be so for a moment, and not for long.

Once a second each state that is not to last is listed, with the time for which it may last. One
that was listed each time is reported when that is over. Peers count only while nothing is in the
way of their messages (`Setting.settled`), so a cut, a frozen process or a new head starts the time
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.edge.mission_ids import lasts
from grain.worker.agent.session.records import Wish
from grain.worker.messages import LANE
from simulation.laws.lanes import LanePromptness
from simulation.surroundings import Passing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.head.hub.state import TaskRecord, WorkerRecord
    from grain.worker.messages import Attempt, Lease
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedMission, SimulatedWorker
    from simulation.setting import Setting

    Runs = dict[tuple[HeadProcess, str, int], list[Attempt]]
    """The runs on workers in contact with a head that a mission there wants, by task."""


_NOTICED = 25.0  # seconds in which each end of a wire that was cut notices that, and some more


class Promptness:
    """The observer of all states that are not to last."""

    def __init__(self, world: Setting) -> None:
        self.world = world
        self._since: dict[Passing, float] = {}
        # The seconds that a message and its answer take, and some that the processes take.
        self._trip = 2 * world.slow + 3.0
        self._lanes = LanePromptness(world, self._trip, _NOTICED)

    def check(self) -> None:
        """Look at everything, once a second."""
        now = self.world.clock.now
        since, self._since = self._since, {}
        for passing in self._passing():
            began = self._since[passing] = since.get(passing, now)
            self.world.laws.demand(passing.law, now - began <= passing.seconds, passing.key)

    def _passing(self) -> Iterator[Passing]:
        by_id = {mission.session.id: mission for mission in self.world.missions}
        for mission in self.world.missions:
            head = self.world.settled(mission)
            if head is not None:
                yield from self._of_mission(head, mission)
        wanted: Runs = {}
        for worker in self.world.workers:
            head = self.world.settled(worker)
            if head is not None:
                key = (id(head), head.stopped, worker.wire_number)
                yield from self._of_worker(head, worker, key)
                yield from self._of_runs(head, worker, by_id, wanted, key)
        for (head, name, number), attempts in wanted.items():
            if len(attempts) > 1 and not lasts(name):
                law = "of two runs of one task one is told to end"
                yield Passing(law, self._trip, (id(head), name, number, *attempts))
        for head in self.world.heads:
            if head.alive and not head.frozen:
                yield from self._of_head(head)
        for worker in self.world.workers:
            if worker.alive and not worker.frozen:
                yield from self._of_runner(worker)
        if self.world.bridge is not None:
            yield from self.world.bridge.passing()
        yield from self._lanes.passing()

    def _of_runner(self, worker: SimulatedWorker) -> Iterator[Passing]:
        """List what is not to last on a worker, whether it is in contact with a head or not."""
        for run in worker.runs.values():
            if not run.ending and worker.leave_by <= worker.now:
                yield Passing("a worker that leaves ends what runs there", 2.0, (id(run),))

    def _of_runs(
        self,
        head: HeadProcess,
        worker: SimulatedWorker,
        missions: dict[str, SimulatedMission],
        wanted: Runs,
        own: tuple[Any, ...],
    ) -> Iterator[Passing]:
        """List the runs of a worker that are to end, and the outcomes to be acknowledged."""
        for run in worker.session.runs.values():
            if run.wish is not Wish.COMPLETE:
                continue
            lease = run.lease
            owner = missions[lease.mission]
            if lasts(lease.mission) and not self._cancelled(head, owner, lease):
                continue  # it goes on, whether a process wants it or not
            if self.world.settled(owner) is not head:
                if not owner.alive and not lasts(lease.mission):
                    law = "the runs of a mission that has ended are told to end"
                    seconds = self.world.grace + _NOTICED + self._trip
                    yield Passing(law, seconds, (*own, lease.attempt))
            elif lease.gang is not None and lease.gang.index:
                continue  # a seat ends with its root, see `Laws.check_hub`
            elif self._wanted(head, owner, lease):
                wanted.setdefault((head, lease.mission, lease.task), []).append(lease.attempt)
            else:
                law = "a run that nobody wants is told to end"
                yield Passing(law, self._trip, (*own, owner.wire_number, lease.attempt))
        for _, _, lease in worker.session.kept.by_attempt.values():
            owner = missions[lease.mission]
            if self.world.settled(owner) is head:
                law = "an outcome is acknowledged soon"
                # That of a lasting mission may be one for which no process asks.
                kept = 3 * self.world.grace if lasts(lease.mission) else 0.0
                key = (*own, owner.wire_number, lease.attempt)
                yield Passing(law, 2 * self._trip + kept, key)

    def _cancelled(self, head: HeadProcess, mission: SimulatedMission, lease: Lease) -> bool:
        """Return True if a run of a lasting mission is to end, as its head knows."""
        pending = mission.session.pending.get(lease.task)
        record = head.hub.registry.missions.get(lease.mission)
        ended = record is not None and record.cancelled_by != ""
        return ended or (pending is not None and pending.retracted)

    def _wanted(self, head: HeadProcess, mission: SimulatedMission, lease: Lease) -> bool:
        pending = mission.session.pending.get(lease.task)
        cancelled = (lease.mission, lease.task) in head.cancelled
        ended = head.has_cancelled(lease.mission)
        return pending is not None and not (pending.retracted or cancelled or ended)

    def _of_mission(self, head: HeadProcess, mission: SimulatedMission) -> Iterator[Passing]:
        session = mission.session
        record = head.hub.registry.missions.get(session.id)
        tasks = {} if record is None else record.tasks
        own = (id(head), head.stopped, mission.wire_number)
        if head.has_cancelled(session.id) and not session.cancelled_by:
            yield Passing("a mission learns that somebody has cancelled it", self._trip, own)
        for number, pending in session.pending.items():
            if number in session.aboard:
                continue  # its head has the lane
            task = tasks.get(number)
            key = (*own, number)
            if task is None or not task.claimed:
                law = "what a connected mission wants is at its head"
                yield Passing(law, self._trip, key)
                continue
            # It is over, wherever it runs. A mission that is cancelled retracts no lanes itself. A
            # process of a lasting one retracts nothing that was cancelled before it submitted that.
            assert record is not None
            refused = task.function == LANE or number in record.refused
            if pending.retracted or (task.retracted and refused):
                continue
            lease = task.lease
            runs_on = "" if lease is None else lease.worker.id
            if pending.worker != runs_on and task.ending is None and task.awaits != pending.worker:
                law = "a connected mission knows where its tasks run"
                yield Passing(law, self._trip, (*key, runs_on, lease and lease.attempt))
            by = 0 if lease is None else head.hub.runs.alternative(lease)
            known = runs_on != pending.worker or pending.alternative == by
            # One that runs alone holds all of a worker, which does not tell it to the next head.
            # One that has ended holds nothing any more, and its outcome is to come.
            holds = lease is not None and lease.scheduler_id is not None and not lease.alone
            if lease is not None and holds and not known:
                law = "a connected mission knows which alternatives its tasks have taken"
                yield Passing(law, self._trip, (*key, runs_on, lease.attempt))
            assert mission.wire is not None
            if runs_on and runs_on not in head.facts.get(mission.wire, ()):
                law = "a connected mission has the facts of the workers where its tasks run"
                yield Passing(law, 2.0, (*key, runs_on))
            if {crash.attempt for crash in task.crashes} - {c.attempt for c in pending.crashes}:
                law = "a connected mission knows of crashes"
                yield Passing(law, self._trip, (*key, len(task.crashes)))

    def _of_worker(
        self, head: HeadProcess, worker: SimulatedWorker, own: tuple[Any, ...]
    ) -> Iterator[Passing]:
        session = worker.session
        record = head.hub.registry.workers.get(session.id)
        leases = {} if record is None else record.leases
        for attempt in leases.keys() - session.runs.keys() - session.kept.by_attempt.keys():
            law = "what a head has leased is on its worker"
            yield Passing(law, self._trip, (*own, attempt))
        for attempt in session.runs.keys() - leases.keys():
            law = "what is on a worker is on its head's books"
            yield Passing(law, self._trip, (*own, attempt))
        if record is not None and record.arrived != worker.leases_read:
            law = "a head knows which leases have arrived"
            yield Passing(law, self._trip, (*own, worker.leases_read))
        if record is not None and record.told_to_drain is not None and not session.draining:
            yield Passing("a worker leaves that is asked to", self._trip, own)
        if record is not None and (record.backlog is not None) != session.kept.paused:
            law = "a head knows which workers keep too many outcomes"
            # A worker whose runs take whole seconds may begin another pause at each look.
            yield Passing(law, self._trip, (*own, worker.backlogs_sent))
        if record is not None and record.draining != session.draining:
            yield Passing("a head knows which workers drain", self._trip, own)

    def _of_head(self, head: HeadProcess) -> Iterator[Passing]:
        hub = head.hub
        workers = hub.registry.workers
        own = (id(head), head.stopped)
        for name in hub.waiting.awaiting_report:
            reported = name in workers and workers[name].serving
            if reported or name in head.departed:
                law = "what awaits the report of a worker starts when that has reported or left"
                yield Passing(law, 0.0, (*own, name))
            law = "nothing awaits a report for longer than the grace period"
            yield Passing(law, self.world.grace + 2.0, (*own, name))
        waiting = hub.quarantine.waiting
        # A gang may have to wait for a worker on which a suspect runs, and others behind it.
        runs_alone = any(one.alone for worker in workers.values() for one in worker.leases.values())
        if waiting and not runs_alone and not any(worker.reserved for worker in workers.values()):
            law = "a task that is to run alone gets its workers"
            if any(self._suffice(head, workers.values(), task) for task in waiting):
                yield Passing(law, 2.0, own)

    def _suffice(
        self, head: HeadProcess, workers: Iterable[WorkerRecord], task: TaskRecord
    ) -> bool:
        """Return True if a task may run alone on some of the workers, as soon as they are empty."""
        assert task.queue is not None
        scheduler = head.hub.scheduler
        here = [
            scheduler.workers[worker.number]
            for worker in workers
            if worker.takes_runs and not any(lease.alone for lease in worker.leases.values())
        ]
        for one in task.queue.alternatives:
            able = [worker for worker in here if one.fits("", worker.supply.total)]
            # Others wait until workers may be tried together again, or for licences.
            some = scheduler.apart.choose(able, one.count, lambda worker: worker.id, able)
            if len(some) == one.count and scheduler.cluster.gives(one):
                return True
        return False
