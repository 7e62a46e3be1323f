"""The laws on lanes: calls take place once, and what is lent comes back.

A call is in one lane at most, and only there, or it is the scheduler's. It begins elsewhere when
its lane is over, and has left no outcome of it. If the lane crashed, that counts for this call.

A lane that is retracted while it waits gives its turn back, if nothing of its mission came later.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

from grain.head.hub.fair_share import FairShare
from grain.remote_exer.lanes import LINGER
from grain.worker.lanes.run import CONFIRM
from grain.worker.messages import LANE
from simulation.laws.overtaking import serves
from simulation.surroundings import Passing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.edge.messages import Payload
    from grain.head.hub.fair_share import Share
    from grain.head.hub.hub import Hub
    from grain.head.hub.state import MissionRecord, WorkerRecord
    from grain.head.messages import Retract
    from grain.remote_exer import Resolution
    from grain.worker.messages import Attempt, Lease
    from simulation.heads import HeadProcess
    from simulation.peers import RunOfLane, SimulatedCall, SimulatedMission
    from simulation.setting import Setting


class RunLaws(Protocol):
    """What the laws on all runs know.

    Attributes:
        attempts: the runs of each task, by its mission and number.
    """

    attempts: dict[tuple[str, int], list[Attempt]]

    def demand(self, law: str, holds: object, what: object = "") -> None:
        """Raise an exception if a law does not hold."""


def anything_waits(hub: Hub) -> bool:
    """Return True if a task waits for what lanes may hold: for room on a worker that is here."""
    workers = [one for one in hub.scheduler.workers.values() if not one.draining]
    queues = [queue for *_, queue in hub.scheduler.in_order_of_service]
    wants = any(serves(worker, queue) for worker in workers for queue in queues)
    return wants or bool(hub.quarantine.waiting)


class LaneLaws:
    """The observer of the calls in lanes.

    Args:
        laws: those on all runs.
        world: the world.
    """

    def __init__(self, laws: RunLaws, world: Setting) -> None:
        self._laws = laws
        self._world = world
        self._calls: dict[tuple[str, int], SimulatedCall] = {}
        self._outcomes: set[Payload] = set()
        # The lane that each attempt is the run of: its mission, and its number there.
        self._lanes: dict[Attempt, tuple[str, int]] = {}
        # The call for which the crash of each attempt counts.
        self._blamed: dict[Attempt, int] = {}
        # The records of worker and mission with which heads have begun them, or learnt of them
        # before they took them for over.
        self._known: dict[tuple[HeadProcess, Attempt], tuple[WorkerRecord, MissionRecord]] = {}
        # The share of a mission that retracts tasks, and what it is to be when that is done.
        self._shares: tuple[Share, Share] | None = None

    def on_leased(self, head: HeadProcess, lease: Lease) -> None:
        """Check a lease that a head sends."""
        demand = self._laws.demand
        if lease.function == LANE:
            key = (lease.mission, lease.task)
            demand("a lane has one run", key not in self._lanes.values(), lease)
            task = head.hub.registry.missions[lease.mission].tasks[lease.task]
            waits = task.course.slices or not anything_waits(head.hub)
            demand("a lane is lent while nothing waits", waits, lease)
            plain = lease.gang is None and lease.limit is None and "Licences" not in lease.res
            demand("a lane has a part of one worker, without a limit", plain, lease)
            self._lanes[lease.attempt] = key
            mission = head.hub.registry.missions[lease.mission]
            demand("a paused mission gets no lane", not mission.paused, lease)
            run = mission.tasks[lease.task].lease
            assert run is not None
            self._known[head, lease.attempt] = run.worker, mission
            return
        task = head.hub.registry.missions[lease.mission].tasks[lease.task]
        crashes = {crash.attempt for crash in task.crashes}
        call = self._calls.get((lease.mission, lease.task))
        if call is not None and self._knows(head, call.lane):
            lane, attempt = call.lane, call.lane.process.lease.attempt
            record, _ = self._known[head, attempt]
            # Its worker reports that it has ended once more, if the answer to that was lost.
            run = record.leases.get(attempt)
            over = lane.over and (run is None or not (run.current or run.scheduler_id))
            demand("a call begins elsewhere only when its lane is over", over, (lease, attempt))
            kept = call.how == "done" and lane.peer.alive and not lane.died
            demand("an outcome that a lane has kept is not lost", not kept, (lease, attempt))
            died = call.how == "died" and lane.blamed
            demand("a crash of a lane counts", not died or attempt in crashes, (lease, attempt))
            alone = call.how == "crashed" and lane.peer.alive and not lane.died
            left = (lane.key[1], lease.task)
            law = "a crash of a call counts that has not ended its lane"
            demand(law, not alone or left in crashes, (lease, attempt))
        owners = [one for one in self._world.missions if one.session.id == lease.mission]
        had = owners[0].sent.get(lease.task, set())
        wrong = [
            attempt
            for attempt in crashes
            if (lane_of := self._lanes.get(attempt)) is not None
            and not (lane_of[0] == lease.mission and lane_of[1] in had)
        ]
        demand("a crash of a lane counts for the call that it had", not wrong, (lease, wrong))
        named = all(crash.call in (0, lease.task) for crash in task.crashes)
        law = "a crash of a lane counts for the call that began last"
        demand(law, named, (lease, task.crashes))
        for attempt in crashes & self._lanes.keys():
            only = self._blamed.setdefault(attempt, lease.task) == lease.task
            demand("a crash of a lane counts for one of its calls", only, (lease, attempt))
        twice = len([a for a in crashes if a in self._lanes or a[0] in had]) > 1
        demand("a crash of a lane counts once", not twice, (lease, crashes))

    def on_reported(
        self, head: HeadProcess, attempt: Attempt, worker: WorkerRecord, mission: MissionRecord
    ) -> None:
        """Note a run that a head has learnt of from its worker."""
        lease = worker.leases.get(attempt)
        if lease is not None and lease.current:
            self._known.setdefault((head, attempt), (worker, mission))

    def _knows(self, head: HeadProcess, lane: RunOfLane) -> bool:
        """Return True if a head knows the run of a lane, and has not given up who belongs to it."""
        key = head, lane.process.lease.attempt
        record, mission = self._known.get(key, (None, None))
        registry = head.hub.registry
        # Or a head before it may have given up the worker.
        return (
            self._counts(lane)
            and record is not None
            and mission is not None
            and registry.workers.get(record.id) is record
            and registry.missions.get(mission.id) is mission
        )

    def _counts(self, lane: RunOfLane) -> bool:
        """Return True if the mission of a lane takes its worker to have it."""
        owners = [one for one in self._world.missions if one.session.id == lane.key[0]]
        return bool(owners[0].story.workers.get(lane.key[1]))

    def on_retract(
        self, head: HeadProcess, mission: MissionRecord | None, message: Retract
    ) -> None:
        """Note the turns that come back with the lanes which a mission retracts."""
        self._shares = None
        if mission is None:
            return
        share = deepcopy(mission.share)
        for number in message.tasks:
            task = mission.tasks.get(number)
            if task is not None and task.function is LANE and task.scheduler_id is not None:
                assert task.queue is not None
                age = head.hub.scheduler.tasks[task.scheduler_id].age
                FairShare.return_turn(share, age, task.queue.priority)
        self._shares = mission.share, share

    def on_retracted(self) -> None:
        """Check that these turns have come back."""
        if self._shares is not None:
            share, wanted = self._shares
            law = "a lane that is retracted gives its turn back"
            self._laws.demand(law, share._last == wanted._last, (share._last, wanted._last))

    def on_begun(self, call: SimulatedCall) -> None:
        """Check a call that begins in a lane."""
        demand, lane = self._laws.demand, call.lane
        key = (lane.process.lease.mission, call.task)
        what = (*key, lane.process.lease.attempt)
        demand("a lane has one call at a time", lane.call is None, what)
        ends = lane.recalled or lane.closing or lane.over
        demand("a lane that is to end begins no call", not ends, what)
        demand("a worker that drains begins nothing", not lane.draining, what)
        before = self._calls.get(key)
        owners = [one for one in self._world.missions if one.session.id == key[0]]
        wire = owners[0].wire
        head = next((h for h in self._world.heads if wire is not None and wire.head is h), None)
        # A worker that is given up, as it was frozen or has not come to a new head, may read on
        # what it had received: its mission has closed the connection, and may be cut off from it.
        counts = self._counts(lane)
        if before is not None and counts and head is not None and self._knows(head, before.lane):
            first = before.lane
            ended = before.how or not first.peer.alive or first.over
            demand("a call begins again only when its lane is over", ended, what)
            kept = before.how == "done" and first.peer.alive and not first.died
            demand("an outcome that a lane has kept is not lost", not kept, what)
            blamed = before.how == "died" and first.blamed
            demand("a call that crashed with its lane has no other", not blamed, what)
        elsewhere = self._laws.attempts.get(key) and counts
        demand("a call of a lane is not the scheduler's", not elsewhere, what)
        self._calls[key] = call

    def on_completed(self, outcome: Payload) -> None:
        """Note the outcome of a call that comes to an end of its own."""
        self._outcomes.add(outcome)

    def has(self, outcome: Payload) -> bool:
        """Return True if that is the outcome of a call."""
        return outcome in self._outcomes

    def on_resolved(self, mission: SimulatedMission, resolution: Resolution) -> None:
        """Check an outcome that a mission gets."""
        call = self._calls.get((mission.session.id, resolution.task))
        if resolution.ending != "cancelled" or call is None:
            return
        runs = not call.how and call.lane.peer.alive
        head = None if mission.wire is None else mission.wire.head
        known = runs and any(
            one is head and self._knows(one, call.lane) for one in self._world.heads
        )
        demand = self._laws.demand
        demand("nothing is left of a call that is resolved as cancelled", not known, resolution)


class LanePromptness:
    """The observer of what may be so for a moment in lanes, and not for long.

    Args:
        world: the world.
        trip: the seconds that a message and its answer take.
        noticed: those in which each end of a wire that was cut notices that.
    """

    def __init__(self, world: Setting, trip: float, noticed: float) -> None:
        self._world = world
        self._trip = trip
        self._noticed = noticed
        # Since when tasks wait beside a lane, and it is in the state that follows: whether it knows
        # that it is to end, and if so, the call that it has.
        self._waits: dict[tuple[Any, ...], tuple[float, bool, SimulatedCall | None]] = {}

    def passing(self) -> Iterator[Passing]:
        """List what is not to last."""
        missions = {mission.session.id: mission for mission in self._world.missions}
        served = {
            lane.key: (worker, lane)
            for worker in self._world.workers
            if worker.alive
            for lane in worker.lanes.values()
        }
        for mission in missions.values():
            if mission.alive and not mission.frozen:
                yield from self._of_mission(mission, set(served))
        waits, self._waits = self._waits, {}
        for worker, lane in served.values():
            head = self._world.settled(worker)
            if head is None:
                continue
            own = (id(head), head.stopped, worker.wire_number)
            if not self._has_slice(head, lane):
                self._check_waits(head, lane, own, waits)  # also while its mission is away
            owner = missions[lane.key[0]]
            if self._world.settled(owner) is head:
                yield from self._of_call(owner, lane, (*own, owner.wire_number))

    @staticmethod
    def _has_slice(head: HeadProcess, lane: RunOfLane) -> bool:
        mission = head.hub.registry.missions.get(lane.key[0])
        task = None if mission is None else mission.tasks.get(lane.key[1])
        return task is not None and task.course.slices

    def _of_mission(
        self, mission: SimulatedMission, served: set[tuple[str, int]]
    ) -> Iterator[Passing]:
        for lane in mission.lanes._lanes.values():
            if lane.open and lane.number not in mission.session.aboard.values() and not lane.over:
                law = "a lane without a call is given back"
                seconds = LINGER + self._world.more_linger + 2.0
                yield Passing(law, seconds, (mission.session.id, lane.number, *lane.unconfirmed))
        head = self._world.settled(mission)
        # A worker that is frozen says nothing of a lane that has ended there, and is not lost.
        frozen = {one.session.id for one in self._world.workers if one.alive and one.frozen}
        if head is not None:
            for lane in mission.lanes._lanes.values():
                record = mission.session.pending.get(lane.number)
                waits = lane.waits and record is not None and not record.worker
                if waits and not mission.lanes._next_held(lane.traffic):
                    law = "a lane for which no call is held is retracted"
                    own = (id(head), mission.wire_number, mission.session.id, lane.number)
                    yield Passing(law, 2 * self._trip + 2.0, own)
            for task, number in mission.session.aboard.items():
                record = mission.session.pending.get(number)
                there = record is not None and record.worker in frozen
                if number and not there and (mission.session.id, number) not in served:
                    law = "a call whose lane is over goes on"
                    seconds = self._world.grace + self._noticed + 2 * self._trip
                    key = (id(head), head.stopped, mission.wire_number, mission.session.id, task)
                    yield Passing(law, seconds, key)

    def _of_call(
        self, mission: SimulatedMission, lane: RunOfLane, own: tuple[Any, ...]
    ) -> Iterator[Passing]:
        call = lane.call
        if call is not None and not call.ending:
            pending = mission.session.pending.get(call.task)
            if pending is None or pending.retracted:
                law = "a call that is not wanted is told to end"
                connected = any(one.number == lane.key[1] for one in mission.ends)
                if not connected:
                    seconds = 2 * self._trip  # by the scheduler
                elif lane.wire is None or lane.wire.cut_off:
                    seconds = self._noticed + 2 * self._trip
                else:
                    seconds = 2.0
                yield Passing(law, seconds, (*own, id(call), seconds))

    def _check_waits(
        self,
        head: HeadProcess,
        lane: RunOfLane,
        own: tuple[Any, ...],
        before: dict[tuple[Any, ...], tuple[float, bool, SimulatedCall | None]],
    ) -> None:
        """Check that a lane beside which tasks wait is told to end, and ends with its call.

        The call may begin after tasks have begun to wait: while the recall is on its way.
        """
        now = self._world.clock.now
        if not anything_waits(head.hub):
            return
        key = (*own, lane.key)
        told = lane.recalled or lane.closing
        call = lane.call if told else None
        since, *state = before.get(key, (now, told, call))
        if state != [told, call]:
            since = now
        self._waits[key] = since, told, call
        # That it begins no call any more is a law of its own.
        late = call is None and now - since > self._trip + CONFIRM + 2.0
        law = "a lane beside which tasks wait ends with its call"
        self._world.laws.demand(law, not late, (lane.key, lane.process.lease.attempt))
