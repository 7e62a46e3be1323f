"""The laws: what holds whatever goes wrong. A broken law is reported by its name."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

from grain.edge.mission_ids import lasts
from grain.edge.questions import unpack
from grain.head.hub.state import TaskState
from grain.head.messages import (
    AckTasks,
    Crashed,
    MissionRegistered,
    Retract,
    Retracted,
    Started,
    WorkerEnded,
    WorkerFacts,
)
from grain.head.scheduler.apart import FIRST
from grain.head.scheduler.outlived import blamed
from grain.worker.agent.session import FLUSH
from grain.worker.messages import LANE, AckRuns, Disconnect, Lease, Revoke
from grain_testkit.scheduler_harness import check_hub, is_in_one_state
from simulation.laws.endurance import Endurance
from simulation.laws.lanes import LaneLaws
from simulation.peers import (
    SimulatedCall,
    SimulatedMission,
    SimulatedRun,
    SimulatedWorker,
    fits,
)
from simulation.setting import LICENCES
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.messages import Message
    from grain.head.errors import BadMessage
    from grain.head.hub.state import LeaseRecord, MissionRecord, WorkerRecord
    from grain.head.messages import Crash
    from grain.remote_exer import Resolution
    from grain.worker.messages import Attempt, Inventory
    from simulation.heads import HeadProcess
    from simulation.setting import Setting


def counts_of(lease: Lease) -> dict[str, int]:
    """Return the licences that a lease has, by name."""
    counts: dict[str, int] = lease.res.get("Licences", {})
    return counts


def _is_seat(lease: Lease) -> bool:
    return lease.gang is not None and lease.gang.index > 0


class Broken(AssertionError):
    """A law does not hold."""


class Laws:
    """The observer of a world: checks every message and every step."""

    def __init__(self, world: Setting) -> None:
        self.world = world
        self.leased: set[Attempt] = set()
        self.begun: dict[Attempt, SimulatedRun] = {}
        self.completed: dict[Attempt, bytes] = {}
        self.revoked: set[tuple[HeadProcess, Attempt]] = set()
        # The runs that died after they had been told to end.
        self.ending: set[Attempt] = set()
        # By task, the process of the mission that has retracted it.
        self.retracted: dict[tuple[HeadProcess, str, int], SimulatedMission] = {}
        # When workers drained as heads know, by the clocks for people of these.
        self.drained: dict[tuple[HeadProcess, object], float] = {}
        # The head by whose clock a crash has its time; its mission tells it to later ones.
        self.crashed: dict[tuple[Attempt, float], HeadProcess] = {}
        self.reported: dict[tuple[HeadProcess, Attempt], tuple[WorkerRecord, MissionRecord]] = {}
        self.attempts: dict[tuple[str, int], list[Attempt]] = {}
        # The runs whose outcomes are over: their workers may forget them, or would be told so if
        # they were not away.
        self.acknowledged: set[Attempt] = set()
        # The licences that each lease has, by name.
        self.licences: dict[Attempt, dict[str, int]] = {}
        self.executions = 0
        self.endurance = Endurance(world)
        self.lanes = LaneLaws(self, world)
        # When a mission got an outcome for the last time.
        self.last_outcome = 0.0

    def demand(self, law: str, holds: object, what: object = "") -> None:
        """Raise `Broken` if a law does not hold."""
        if not holds:
            raise Broken(f"{law} (at {self.world.clock.now:.3f} s): {what}")

    # ---- as it happens

    def on_sent(self, head: HeadProcess, wire: Wire, message: Message) -> None:
        """Check a message that a head sends."""
        newest = wire.number == head.newest.get(wire.peer)
        disconnected = isinstance(message, Disconnect)
        refused = wire in head.refused
        law = "nothing but the reason is sent on a connection that was replaced"
        self.demand(law, newest or disconnected, message)
        law = "no connection in use is disconnected, but those of peers that talk nonsense"
        self.demand(law, not newest or disconnected == refused, message)
        if isinstance(message, Lease):
            self.on_leased(head, wire, message)
        elif isinstance(message, MissionRegistered):
            mission = head.hub.missions.links[wire]
            unwanted = mission.tasks.keys() - head.wanted.get(wire, set())
            if mission.lasts:  # what runs, or is over, another process of it has submitted
                unwanted = {
                    task
                    for task in unwanted
                    if mission.tasks[task].state in (TaskState.WAITING, TaskState.SUSPECT)
                }
            self.demand("nothing is kept that its mission does not want", not unwanted, unwanted)
        elif isinstance(message, Started):
            self.on_started(head, wire, message)
        elif isinstance(message, WorkerFacts):
            head.facts.setdefault(wire, set()).add(message.worker)
        elif isinstance(message, WorkerEnded):
            head.facts.setdefault(wire, set()).discard(message.worker)
        elif isinstance(message, Revoke):
            self.on_revoked(head, wire, message)
        elif isinstance(message, AckRuns):
            for attempt in message.attempts:
                self.on_acknowledged(head, attempt)
        elif isinstance(message, Crashed):
            assert isinstance(wire.peer, SimulatedMission)
            self.check_blame(head, wire, message)
        elif (
            isinstance(message, Retracted)
            and isinstance(wire.peer, SimulatedMission)
            # A process of a lasting mission may yet submit, and retract, what another one had.
            and message.task in wire.peer.story.submitted
        ):
            self.retracted[head, wire.peer.session.id, message.task] = wire.peer

    def on_leased(self, head: HeadProcess, wire: Wire, lease: Lease) -> None:
        """Check a lease that a head sends."""
        self.demand("an attempt is used once", lease.attempt not in self.leased, lease)
        self.leased.add(lease.attempt)
        self.demand("no lease before the worker has reported", wire in head.ready, lease)
        self.endurance.on_leased(head, lease)
        self.lanes.on_leased(head, lease)
        mission = head.hub.registry.missions[lease.mission]
        by = self.retracted.get((head, lease.mission, lease.task))
        # Another process of a lasting mission may have looked at its tasks before that.
        submitted_by = mission.link.peer if isinstance(mission.link, Wire) else by
        retracted = by is not None and by is submitted_by
        self.demand("what is retracted does not start", not retracted, lease)
        cancelled = (lease.mission, lease.task) in head.cancelled
        cancelled = cancelled or head.has_cancelled(lease.mission)
        self.demand("what a command has cancelled does not start", not cancelled, lease)
        task = mission.tasks[lease.task]
        suspect = blamed(task.crashes) >= 2
        self.demand("a suspect runs alone", lease.alone == suspect, lease)
        law = "nothing of a mission starts that leaves too much unconfirmed"
        ended = [one for one in mission.tasks.values() if one.ending is not None]
        outcomes = [one.outcome or b"" for one in ended if one.function != LANE]
        most, most_bytes = self.world.max_unconfirmed, self.world.max_unconfirmed_bytes
        few = len(outcomes) <= most and sum(map(len, outcomes)) <= most_bytes
        self.demand(law, few, lease)
        self.check_vacated(head, lease)
        self.check_licences(head, lease)
        record = head.hub.workers.links[wire]
        informed = head.informed.get((mission, lease.task))
        law = "a mission is informed of the worker before that has the lease"
        self.demand(law, informed == record.id or _is_seat(lease), lease)
        law = "nothing is sent to a worker that drains"
        self.demand(law, (head, wire.peer) not in self.drained, lease)
        law = "nothing is sent to a worker that keeps too many outcomes"
        self.demand(law, wire not in head.paused, lease)
        self.check_stated(head, lease)
        self.check_needed(head, lease)
        self.reported[head, lease.attempt] = (head.hub.workers.links[wire], mission)

    def check_licences(self, head: HeadProcess, lease: Lease) -> None:
        """Check that no more licences are in use than there are, as far as the head can know.

        It cannot know of runs that their workers have yet to report, or whose workers are lost.
        """
        asked = counts_of(lease)
        self.licences[lease.attempt] = asked
        if not asked:
            return
        law = "a new head hands out no licences before workers had time to report"
        self.demand(law, head.served - head.started >= self.world.grace - 2.0, lease)
        used = dict(asked)
        for (other, attempt), (record, _) in self.reported.items():
            if other is not head or head.hub.registry.workers.get(record.id) is not record:
                continue
            run = self.begun.get(attempt)
            runs = run is not None and run.worker.runs.get(attempt) is run and run.worker.alive
            runs = runs and run is not None and not run.over
            known = record.leases.get(attempt)
            comes = run is None and known is not None and known.scheduler_id is not None
            if runs or comes:
                for name, count in self.licences.get(attempt, {}).items():
                    used[name] = used.get(name, 0) + count
        more = {name: n for name, n in used.items() if n > LICENCES.counts[name] and name in asked}
        self.demand("no more licences are in use than there are", not more, (lease, used))

    def check_vacated(self, head: HeadProcess, lease: Lease) -> None:
        """Check that nothing is left of an earlier gang of a task that starts again."""
        for attempt in self.attempts.get((lease.mission, lease.task), ()):
            run = self.begun[attempt]
            part = run.lease.gang
            if part is None or (lease.gang is not None and part.root == lease.gang.root):
                continue
            if self.world.gangs.never_begins(part.root):
                continue  # it has never begun
            record = next(
                (w for w in head.hub.registry.workers.values() if w.id == run.worker.session.id),
                None,
            )
            there = run.worker.alive and run.worker.runs.get(attempt) is run
            # That of a mission that was given up, and comes back, is not of this task any more.
            kept = None if record is None else record.leases.get(attempt)
            known = kept is not None and kept.task is not None
            # A head that knows a root knows how many seats there are.
            early = head.served - head.started < self.world.grace - 2.0
            counted = early and (head, part.root) in self.reported
            law = "a task starts again when all members of its gang are vacated"
            self.demand(law, not (there and (known or counted)), (lease, attempt))

    def on_started(self, head: HeadProcess, wire: Wire, message: Started) -> None:
        """Check that a mission has the facts of a worker that is named to it, if that is here."""
        record = head.hub.missions.links[wire]
        for task in message.tasks:
            head.informed[record, task] = message.worker
            lease = record.tasks[task].lease if task in record.tasks else None
            there = lease is not None and lease.worker.id == message.worker
            has_facts = message.worker in head.facts.get(wire, ())
            law = "a mission has the facts of a worker before that is named to it"
            self.demand(law, has_facts or not there, message)

    def on_revoked(self, head: HeadProcess, wire: Wire, message: Revoke) -> None:
        """Check which of two runs of one task is revoked."""
        lease = head.hub.workers.links[wire].leases.get(message.attempt)
        first = (head, message.attempt) not in self.revoked
        self.revoked.add((head, message.attempt))
        other = lease.task.lease if first and lease is not None and lease.task is not None else None
        if lease is None or other is None or other is lease:
            return
        if lease.member or self.world.gangs.never_begins(lease.attempt):
            return  # it goes with its root, or will never begin
        if other.task is not None and other.task.retracted:
            return  # both are to end
        law = "of two runs of one task the older one goes on"
        self.demand(law, other.began <= lease.began, (lease, other))

    def check_stated(self, head: HeadProcess, lease: Lease) -> None:
        """Check a lease by what its mission knew when it registered at the head."""
        [owner] = [
            one
            for one in self.world.missions
            if one.session.id == lease.mission and head.newest.get(one, 0) > 0
        ]
        [wire] = [one for one in owner.stated if one.number == head.newest[owner]]
        workers, crashes = owner.stated[wire]
        mission = head.hub.registry.missions[lease.mission]
        attempts = crashes.get(lease.task, set()) | head.crashes.get((mission, lease.task), set())
        if not mission.lasts:  # else they are forgotten while no process of it is there
            self.demand("five crashes are enough", len(attempts) < 5, lease)
            self.demand("two crashes make a suspect", len(attempts) < 2 or lease.alone, lease)
        worker = workers.get(lease.task, "")
        if not worker or head.served - head.started >= self.world.grace - 2.0:
            return
        # A worker that has registered here has reported what it has: see `check_needed`.
        for attempt in self.attempts.get((lease.mission, lease.task), ()):
            run = self.begun[attempt]
            there = run.worker
            runs = there.runs.get(attempt) is run and not run.ending
            if there.session.id == worker and there.alive and there not in head.newest:
                law = "nothing starts again whose worker has yet to report"
                self.demand(law, not runs, (lease, attempt))

    def check_blame(self, head: HeadProcess, wire: Wire, message: Crashed) -> None:
        """Check that a task is rightly blamed for a crash."""
        attempt = message.crash.attempt
        if message.crash.absent:
            law = "a gang counts as one that did not begin only if it never will"
            self.demand(law, self.world.gangs.never_begins(attempt), message)
            return
        key = (head.hub.missions.links[wire], message.task)
        head.crashes.setdefault(key, set()).add(attempt)
        begun = attempt in self.begun and self.world.gangs.has_begun(attempt)
        self.demand("a run that has not begun cannot crash", begun, message)
        law = "a run that was told to end cannot crash"
        lost = "lost" in message.crash.how
        self.demand(law, lost or attempt not in self.ending, message)
        if "has gone" in message.crash.how:
            root = self.begun[attempt].worker.session.name
            law = "a crash is blamed on the member that has gone, and not on the root"
            self.demand(law, message.crash.worker != root, message)
        if lost:
            worker = self.begun[attempt].worker
            # The message may be late: a mission that was away gets it when it is back.
            drained = self.drained.get((head, worker), math.inf)
            if self.crashed.setdefault((attempt, message.crash.at), head) is head:
                self.demand("a drain is no crash", message.crash.at < drained, message)

    def on_disconnected(self, head: HeadProcess, wire: Wire) -> None:
        """Check that a peer that was disconnected is detached."""
        here = wire in head.hub.missions.links or wire in head.hub.workers.links
        self.demand("a peer that was disconnected is detached", not here)

    def on_given_up(self, peer: str, seconds: float) -> None:
        """Check that a peer that is given up was away for long, while its head could see that."""
        if any(one.session.id == peer and one.seen for one in self.world.missions):
            return  # its process has ended
        law = "a peer that is away is waited for"
        self.demand(law, seconds >= self.world.grace - 2.0, (peer, seconds))

    def on_retract(
        self, head: HeadProcess, mission: MissionRecord | None, message: Retract
    ) -> None:
        """Note what a mission retracts, before its head does."""
        self.lanes.on_retract(head, mission, message)

    def on_taken(self, message: Message) -> None:
        """Check a message that a head has taken without complaint."""
        if isinstance(message, Retract):
            self.lanes.on_retracted()
        refused = id(message) in self.world.nonsense.refused
        self.demand("nonsense is refused", not refused, message)

    def on_refused(self, message: Message, error: BadMessage) -> None:
        """Check a message that a head has refused."""
        nonsense = id(message) in self.world.nonsense.refusable
        self.demand("what makes sense is not refused", nonsense, (message, error))

    def on_inventory(self, head: HeadProcess, wire: Wire, message: Inventory) -> None:
        """Note the runs that a head learns of from a worker."""
        worker = head.hub.workers.links.get(wire)
        if worker is not None:
            for held in message.runs:
                mission = head.hub.registry.missions.get(held.mission)
                before, _ = self.reported.get((head, held.attempt), (None, None))
                # Where a mission was given up its runs were revoked, also those of a worker that
                # reports them again when the mission is back.
                if mission is not None and before is not worker:
                    self.reported[head, held.attempt] = (worker, mission)
                    self.lanes.on_reported(head, held.attempt, worker, mission)

    def on_mission_ended(self, head: HeadProcess, mission: str) -> None:
        """Check what a head has of a mission whose process has ended, as the head knows."""
        if lasts(mission):
            return  # `Endurance` looks at its runs
        here = mission in head.hub.registry.missions
        self.demand("a mission that has ended is not waited for", not here, mission)
        for worker in head.hub.registry.workers.values():
            for lease in worker.leases.values():
                owned = lease.task is not None and lease.task.mission.id == mission
                runs = owned and lease.scheduler_id is not None and not lease.revoked
                self.demand("the runs of a mission that has ended are revoked", not runs, lease)

    def check_needed(self, head: HeadProcess, lease: Lease) -> None:
        """Check that a task is not started while this head should know a run of it that goes on."""
        for attempt in self.attempts.get((lease.mission, lease.task), ()):
            record, mission = self.reported.get((head, attempt), (None, None))
            run = self.begun[attempt]
            worker = run.worker
            runs = worker.runs.get(run.run.attempt) is run
            kept = attempt in self.completed and attempt not in self.acknowledged
            if record is None or not worker.alive or not (runs or kept):
                continue
            registry = head.hub.registry
            given_up = registry.missions[lease.mission] is not mission
            if registry.workers.get(record.id) is record and not given_up:
                leased = attempt in record.leases
                self.demand("nothing is started again without need", leased, (lease, attempt))

    def on_confirmed(self, mission: MissionRecord, message: AckTasks) -> None:
        """Note the outcomes that a mission has, before its head forgets them.

        Another process of a lasting mission may not know yet, and submit such a task again.
        """
        for number in (*message.tasks, *message.retried):
            task = mission.tasks.get(number)
            if task is not None and task.kept_by is not None:
                self.acknowledged.add(task.kept_by[1])

    def on_unclaimed(self, attempt: Attempt, seconds: float) -> None:
        """Check that an outcome is forgotten which no process of its lasting mission has wanted.

        The worker that keeps it is not told so while it is away. The outcome is in the files of the
        mission, but a process may have an old look at them, and submit the task again.
        """
        law = "an outcome is kept for the next process of a lasting mission"
        self.demand(law, seconds >= self.world.grace - 2.0, (attempt, seconds))
        self.acknowledged.add(attempt)

    def on_acknowledged(self, head: HeadProcess, attempt: Attempt) -> None:
        """Check that an outcome which a worker may forget is where it belongs."""
        self.acknowledged.add(attempt)
        lease = self.begun[attempt].lease if attempt in self.begun else None
        outcome = self.completed.get(attempt)
        if lease is None or outcome is None or unpack(outcome, list)[3] != "value":
            return
        if lasts(lease.mission):
            return  # it is in the files of its mission
        record = head.hub.registry.missions.get(lease.mission)
        for mission in self.world.missions:
            waits = mission.alive and lease.task in mission.session.pending
            story = mission.story
            wanted = waits and lease.task not in story.cancelled | story.cancelled_outside
            wanted = wanted and not story.ended_outside
            if mission.session.id == lease.mission and wanted and record is not None:
                task = record.tasks.get(lease.task)
                has = task is not None and task.kept_by is not None and task.kept_by[1] != attempt
                here = record.link is mission.wire and record.synced
                self.demand("what is acknowledged has arrived", has or not here, lease)

    def on_begun(self, run: SimulatedRun) -> None:
        """Check a run that begins."""
        lease = run.lease
        self.executions += 1
        self.demand("a run begins once", lease.attempt not in self.begun, lease)
        self.begun[lease.attempt] = run
        self.attempts.setdefault((lease.mission, lease.task), []).append(lease.attempt)
        worker = run.worker
        self.demand("a worker that drains begins nothing", not worker.session.draining, lease)
        if not run.refused:
            self.endurance.on_begun(run)
        there = list(worker.runs.values())
        users = [one for one in there if not one.over]
        self.demand(
            "no more is used than there is", fits(worker.session.registration.total, users), users
        )
        if any(other.lease.alone for other in there):
            self.demand("a run that is to be alone is alone", len(there) == 1, there)

    def on_call_begun(self, call: SimulatedCall) -> None:
        """Check a call that begins in a lane."""
        self.executions += 1
        self.lanes.on_begun(call)

    def on_call_completed(self, outcome: bytes) -> None:
        """Note the outcome of a call in a lane that comes to an end of its own."""
        self.lanes.on_completed(outcome)

    def on_stopping(self, run: SimulatedRun) -> None:
        """Check a run that is told to end."""
        self.endurance.on_stopping(run)

    def on_completed(self, run: SimulatedRun, outcome: bytes) -> None:
        """Note the outcome of a run that comes to an end of its own."""
        self.completed[run.lease.attempt] = outcome

    def on_crashed(self, run: SimulatedRun) -> None:
        """Note a run that dies with its runner or worker.

        That of a job counts as crashed even while its worker hands it back, as it may have no
        receipt of its end: its dispatcher follows the crash.
        """
        handed_back = run.worker.leave_by <= run.worker.now
        if run.ending and not (handed_back and lasts(run.lease.mission)):
            self.ending.add(run.lease.attempt)

    def on_left(self, worker: SimulatedWorker, seconds: float) -> None:
        """Check a worker that leaves.

        Args:
            worker: which.
            seconds: for which it has had nothing to do but to wait for acknowledgements.
        """
        self.demand("a worker left while something ran on it", not worker.runs)
        law = "a worker waits for a while until its outcomes have arrived"
        # A lease that arrives behind the order to leave is returned, which no head has to read.
        kept = [
            ended
            for ended, *_ in worker.session.kept.by_attempt.values()
            if ended.status != "returned"
        ]
        self.demand(law, not kept or seconds > FLUSH - 0.001, worker.session.name)

    def on_resolved(self, mission: SimulatedMission, resolution: Resolution) -> None:
        """Check an outcome that a mission gets."""
        self.last_outcome = self.world.clock.now
        task = resolution.task
        story = mission.story
        self.demand("a task resolves once", task not in story.resolved, resolution)
        self.demand("only what was submitted resolves", task in story.submitted, resolution)
        self.lanes.on_resolved(mission, resolution)
        if task in story.cancelled:
            self.demand("cancelled is cancelled", resolution.ending == "cancelled", resolution)
            return
        lasting = lasts(mission.session.id)
        if resolution.ending == "cancelled":
            if lasting and task in self.endurance.files(mission.session.id).cancelled:
                return  # by another process of it
            asked = (task in story.cancelled_outside or story.ended_outside) and resolution.by
            self.demand("nothing is cancelled unasked", asked, resolution)
            return
        kind = self.world.behaviour(mission.session.id, task).kind
        if lasting and resolution.payload and unpack(resolution.payload, list)[3] == "refused":
            files = self.endurance.files(mission.session.id)
            # Before any run has begun, another process may have heard that the task was cancelled,
            # from a head to which this one was not connected.
            over = task in files.begun or (task in files.cancelled and task in files.ended)
            law = "a run is refused only if another has begun, or its task was cancelled"
            self.demand(law, over, resolution)
            kind = "error"
        if resolution.ending == "crashed":
            attempts = {crash.attempt for crash in resolution.crashes}
            self.demand("a crash counts once", len(attempts) == len(resolution.crashes))
            crashes = blamed(resolution.crashes)
            absent = len(attempts) - crashes
            self.demand("five crashes fail a task", max(crashes, absent) >= 5, resolution)
            had = mission.sent.get(task, set())
            left = {attempt for attempt in attempts if attempt[0] in had}
            self.demand("crashes were begun", attempts - left <= self.begun.keys(), resolution)
            return
        self.demand("the outcome is that of the task", resolution.ending == kind, resolution)
        real = resolution.payload in self.completed.values()
        real = real or self.lanes.has(resolution.payload)
        self.demand("the outcome is that of a run", real, resolution)
        own = unpack(resolution.payload, list)[:2] == [mission.session.id, task]
        self.demand("the outcome is that of the task's own run", own, resolution)

    # ---- after a step

    def check(self, *, deeply: bool) -> None:
        """Check what can be seen at any time."""
        if self.world.touched:
            for head in self.world.heads:
                if head.alive and head in self.world.touched:
                    self.check_hub(head, deeply=deeply)
            self.world.touched.clear()
        for worker in self.world.workers:
            if worker.alive:
                there = set(worker.runs)
                known = set(worker.session.runs)
                self.demand("a session knows what runs", there == known, worker.session.name)

    def check_hub(self, head: HeadProcess, *, deeply: bool) -> None:
        """Check that the records of a head agree with each other."""
        hub = head.hub
        if deeply and not head.frozen:
            check_hub(hub, head.now)
        waiting = [task.id for task in hub.scheduler.tasks.values() if task.record is not None]
        ids = [*waiting, *hub.runs.holding]
        self.demand("scheduler ids agree", sorted(ids) == sorted(hub.scheduler.tasks))
        for mission in hub.registry.missions.values():
            for task in mission.tasks.values():
                self.demand("one state", is_in_one_state(task), task)
                if task.crashes:
                    attempts = {crash.attempt for crash in task.crashes}
                    self.demand("a crash counts once", len(attempts) == len(task.crashes), task)
                    self.check_apart(task.crashes, task)
        for mission in hub.missions.links.values():
            kept = hub.registry.missions.get(mission.id) is mission
            self.demand("a mission that is connected is kept", kept, mission.id)
        numbers = hub.registry.numbered.keys()
        self.demand("the scheduler has the workers", hub.scheduler.workers.keys() == numbers)
        for worker in hub.registry.workers.values():
            serves = worker.takes_runs and not worker.reserved
            used = not hub.scheduler.workers[worker.number].draining
            self.demand("a worker is in use that serves, and no other", used == serves, worker.name)
            for lease in worker.leases.values():
                if lease.current and lease.scheduler_id is not None and not lease.alone:
                    self.check_queue(head, lease)
                if lease.member:
                    gang = lease.gang
                    assert gang is not None
                    waits = gang.absent and gang.stand_in is not None and gang.stand_in.current
                    law = "a task waits for nothing of a gang that has not begun"
                    self.demand(law, not waits, lease)
                    unwanted = gang.ended and not lease.revoked
                    self.demand("the seats of a gang that has ended are revoked", not unwanted)
                elif not lease.current:
                    owner = None if lease.task is None else lease.task.mission
                    late = lease.revoked or lease.scheduler_id is None
                    late = late or (owner is not None and bool(owner.beside))
                    self.demand("what nobody waits for is revoked", late, lease)

    def check_apart(self, crashes: Sequence[Crash], task: object) -> None:
        """Check that no head begins a gang again on two workers that have just failed."""
        failed = [crash for crash in crashes if crash.absent]
        for one, other in combinations(failed, 2):
            same = {one.worker, one.absent} == {other.worker, other.absent} != {one.worker}
            soon = abs(other.at - one.at) < FIRST and one.attempt[0] == other.attempt[0]
            law = "two workers that did not reach each other are apart for a time"
            self.demand(law, not (same and soon), task)

    def check_queue(self, head: HeadProcess, lease: LeaseRecord) -> None:
        """Check that a run counts among those that ask for the same as its task."""
        task = lease.task
        if task is not None and task.claimed and not task.retracted:
            queues = task.queue, head.hub.scheduler.tasks[lease.scheduler_id or 0].queue
            kinds = {(one.priority, one.request, one.share) for one in queues if one is not None}
            self.demand("a run counts for what its task asks for", len(kinds) == 1, lease)

    # ---- at the end

    def check_end(self) -> None:
        """Check what holds when faults have stopped long ago, and all missions have left."""
        for mission in self.world.missions:
            if mission.alive:
                missing = set(mission.story.submitted) - mission.story.resolved.keys()
                self.demand("every task resolves", not missing, (mission.session.id, missing))
        for worker in self.world.workers:
            if worker.alive:
                self.demand("nothing runs for nobody", not worker.runs, worker.session.name)
                self.demand(
                    "nothing is kept for nobody",
                    not worker.session.kept.by_attempt,
                    worker.session.kept.by_attempt,
                )
                left = tuple(worker.session.functions)
                self.demand("no function is kept for nobody", not left, left)
        self.endurance.check_end()
        head = self.world.head
        assert head is not None
        self.demand(
            "no mission is left", not head.hub.registry.missions, head.hub.snapshot(head.now)
        )
        for scheduled in head.hub.scheduler.workers.values():
            scheduled.give_back()
            self.demand("all is free in the end", scheduled.supply.idle(), scheduled.name)
        in_use = head.hub.scheduler.cluster.held
        self.demand("no licence is in use in the end", not in_use, in_use)
