"""The processes of workers and missions, around the real sessions.

Each records what really took place (runs, with what they were given), which the laws compare with
the messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from grain.edge.errors import RemoteProtocolError
from grain.edge.mission_ids import lasts
from grain.edge.questions import pack, unpack
from grain.head.messages import Crashed, RegisterMission, Request, Resolved, Started, WorkerEnded
from grain.remote_exer.lanes import is_plain
from grain.remote_exer.session import taken
from grain.resource import Supply, from_data, to_data
from grain.worker.agent.session.records import Wish
from grain.worker.agent.spool import SpooledOutcome
from grain.worker.messages import (
    LANE,
    Backlog,
    Cancel,
    Drain,
    Ended,
    ForgetFunctions,
    Inventory,
    InventoryRun,
    Lease,
    MemberOpen,
    RegisterWorker,
    RunOver,
    StartRun,
)
from grain.worker.payload import Function
from grain_testkit.submitted_tasks import SessionLog, remote_task

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from grain.head.run_log import RunLog
    from grain.remote_exer import MissionSession, Resolution
    from grain.remote_exer.lanes import Lane, MissionLanes
    from grain.resource import Resource
    from grain.worker.agent.session import WorkerSession
    from grain.worker.lanes.calls import LaneCalls
    from grain.worker.messages import Attempt
    from simulation.clock import Clock
    from simulation.nonsense import Nonsense
    from simulation.surroundings import Post
    from simulation.wire import HeadEnd, Mail, Wire


class Behaviour(NamedTuple):
    """The behaviour of a task, the same in every run of it."""

    seconds: float
    kind: str  # "value", "error" or "poison"


@dataclass(eq=False)
class SimulatedRun:
    """One run that really takes place on a worker."""

    worker: SimulatedWorker
    lease: Lease
    behaviour: Behaviour
    space: Resource
    run: StartRun
    ending: bool = False
    # True if another run of the task goes on or has ended, which the files of its mission say.
    refused: bool = False
    # True from when it uses its resources no more.
    over: bool = False


class RunOfLane(Protocol):
    """The run of a lane on a worker, see `simulation.lanes.served`.

    Attributes:
        peer: the worker.
        process: the run.
        wire: its connection to its mission, as long as it has not noticed its loss.
        call: the call under way.
        recalled: True from when its worker was told so.
        closing: True from when it is to end with its call, or without one at once.
        over: True from when it has ended, or died.
        died: True from when it has died with its runner.
        blamed: True if it had not been told to end, and all outcomes before were confirmed.
        noted: what it has noted for its agent, as `Beginnings`.
    """

    peer: SimulatedPeer
    process: SimulatedRun
    wire: Wire | None
    call: SimulatedCall | None
    recalled: bool
    closing: bool
    over: bool
    died: bool
    blamed: bool
    noted: memoryview

    @property
    def key(self) -> tuple[str, int]:
        """Its mission, and its number there."""

    @property
    def draining(self) -> bool:
        """True if its worker takes no more runs."""

    def recall(self) -> None:
        """End it when the call that it has is over."""

    def revoke(self) -> None:
        """End it, and the call that it has."""

    def die(self, *, blamed: bool = False) -> None:
        """Die with its runner; it is to blame if the worker has not told it to end."""

    def crash(self) -> None:
        """Let its runner die."""

    def drain(self) -> None:
        """Let its worker take no more runs."""

    def kill_program(self) -> None:
        """Let the supervisor of what the call runs be killed, which does not end the lane."""


@dataclass(eq=False)
class SimulatedCall:
    """A call that really takes place in a lane.

    Attributes:
        how: how it has ended: "done", "cancelled", "crashed" by itself, or "died" with its lane;
            empty before.
        ending: True from when it is told to end.
    """

    lane: RunOfLane
    task: int
    behaviour: Behaviour
    how: str = ""
    ending: bool = False


class EndOfLane(Protocol):
    """A mission's end of the connection of a lane, see `simulation.lanes.mission_end`."""

    def hang_up(self) -> None:
        """Close this end."""

    def leave(self) -> None:
        """Close this end, and let the mission know."""


class Observer(Protocol):
    """The observer of what peers really do."""

    def on_begun(self, run: SimulatedRun) -> None:
        """Check a run that begins."""

    def on_stopping(self, run: SimulatedRun) -> None:
        """Check a run that is told to end."""

    def on_completed(self, run: SimulatedRun, outcome: bytes) -> None:
        """Note the outcome of a run that comes to an end of its own."""

    def on_crashed(self, run: SimulatedRun) -> None:
        """Note a run that dies with its runner or worker."""

    def on_call_begun(self, call: SimulatedCall) -> None:
        """Check a call that begins in a lane."""

    def on_call_completed(self, outcome: bytes) -> None:
        """Note the outcome of a call in a lane that comes to an end of its own."""

    def on_left(self, worker: SimulatedWorker, seconds: float) -> None:
        """Check a worker that leaves, so long after it could."""

    def on_resolved(self, mission: SimulatedMission, resolution: Resolution) -> None:
        """Check an outcome that a mission gets."""


class Way(Protocol):
    """A peer's way to heads by a bridge.

    Attributes:
        direct: True if it can connect to heads.
        back: True if heads can connect to it.
        called: the connection that a head has made because of a call.
    """

    direct: bool
    back: bool
    called: Wire | None

    def dial(self) -> None:
        """Begin an attempt, unless one is under way."""

    def close(self) -> None:
        """End the attempt."""


class Gangs(Protocol):
    """The real processes of gangs, see `simulation.gangs`."""

    def begin(self, run: SimulatedRun) -> None:
        """Begin a part of a gang."""

    def on_open(self, message: MemberOpen) -> None:
        """Let a root learn of a seat."""


class Surroundings(Protocol):
    """The world, as peers see it."""

    clock: Clock
    nonsense: Nonsense
    requests: list[Resource]
    slow: float
    has_lanes: bool
    lane_slow: float
    lane_slice: float
    lane_brevity: float
    has_floods: bool
    widths: tuple[int, ...]
    more_linger: float
    run_log: type[RunLog]
    lane_calls: type[LaneCalls]
    mission_lanes: type[MissionLanes]

    @property
    def gangs(self) -> Gangs:
        """The processes of gangs."""

    @property
    def head(self) -> HeadEnd | None:
        """The head that is there."""

    @property
    def laws(self) -> Observer:
        """The observer."""

    @property
    def faults(self) -> Post:
        """The office that carries messages."""

    def behaviour(self, mission: str, task: int) -> Behaviour:
        """Return what a task does."""

    def on_numbered(self, mission: str, task: int, place: int) -> None:
        """Note the number of the task at a place in the plan of its mission, from 0."""

    def serve_lane(
        self, worker: SimulatedWorker, process: SimulatedRun, invitation: Payload
    ) -> RunOfLane:
        """Begin to serve a lane."""

    def lane_host(self, mission: str) -> SimulatedMission | None:
        """Return a mission to which a runner connects; None if it cannot."""

    def begins(self, run: SimulatedRun) -> bool:
        """Return False if the files of a lasting mission refuse a run."""

    def ended(self, run: SimulatedRun) -> None:
        """Note in the files of a lasting mission that a run has ended by itself."""

    def connect(self, head: HeadEnd, peer: SimulatedPeer) -> Wire:
        """Return a new wire between the two."""

    def way(self, peer: SimulatedPeer) -> Way | None:
        """Return the way of a new peer by a bridge, in a world that has one."""


class SimulatedPeer:
    """A process that dials a head, again and again, until it ends."""

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.wire: Wire | None = None
        self.alive = True
        self.frozen_until = 0.0
        self.unread: list[tuple[Wire, Mail]] = []
        self.jinxed = 0
        self.parted_until = 0.0
        self.way = world.way(self)

    @property
    def frozen(self) -> bool:
        """True while its process is stopped; its connection stays open."""
        return self.frozen_until > self.world.clock.now

    def dial(self) -> None:
        """Try to reach the head, now and later until that succeeds."""
        if not self.alive or self.wire is not None:
            return
        if self.frozen:
            self.world.clock.at(self.frozen_until, self.dial)
            return
        world = self.world
        head = world.head
        if head is None or self.parted_until > world.clock.now:
            world.clock.after(1.0 + 2.0 * world.clock.chance.random(), self.dial)
        elif self.way is not None:
            self.way.dial()
        else:
            self.join(world.connect(head, self))

    def join(self, wire: Wire) -> None:
        """Use a connection to a head."""
        self.wire = wire
        world = self.world
        self.joined()
        self.flush()
        if self.jinxed:
            self.jinxed -= 1
            world.clock.after(world.slow * world.clock.chance.random() ** 3, self.wire.cut)

    def on_mail(self, wire: Wire, mail: Mail) -> None:
        if not self.alive or wire is not self.wire:
            return
        if self.unread or self.frozen:
            self.unread.append((wire, mail))
            if len(self.unread) == 1:
                self.world.clock.at(self.frozen_until, self.thaw)
            return
        self.read(mail)
        self.flush()

    def thaw(self) -> None:
        """Handle what came while the process was frozen, in its order."""
        if self.frozen:
            self.world.clock.at(self.frozen_until, self.thaw)
            return
        unread, self.unread = self.unread, []
        for wire, mail in unread:
            self.on_mail(wire, mail)

    def on_cut(self, wire: Wire) -> None:
        if self.frozen:
            self.world.clock.at(self.frozen_until, lambda: self.on_cut(wire))
        elif self.alive and wire is self.wire:
            self.wire = None
            self.left()
            self.flush()
            self.world.clock.after(0.1, self.dial)

    def kill(self) -> None:
        self.alive = False
        if self.wire is not None:
            self.wire.close(self)
        if self.way is not None:
            self.way.close()

    def send(self, mail: Mail) -> None:
        if self.wire is not None and mail:
            self.world.faults.post(self, self.wire, self.wire.head, mail)

    @property
    def wire_number(self) -> int:
        """The number of its wire; 0 if there is none."""
        return 0 if self.wire is None else self.wire.number

    def joined(self) -> None:
        raise NotImplementedError

    def left(self) -> None:
        raise NotImplementedError

    def read(self, mail: Mail) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError


class SimulatedWorker(SimulatedPeer):
    """A worker: the session, and the runs that really take place."""

    def __init__(self, world: Surroundings, session: WorkerSession, offset: float) -> None:
        super().__init__(world)
        self.session = session
        # The time by its own clock when that of the world is 0.
        self.offset = offset
        self.runs: dict[Attempt, SimulatedRun] = {}
        # The leases that have arrived on this connection, and the last of them.
        self.leases_read = 0
        self._last_lease: Attempt = (0, 0)
        # How often it has stated that it takes no more runs, or takes them again.
        self.backlogs_sent = 0
        # When its runs are to end, by its own clock, and since when it only waits to leave.
        self.leave_by = math.inf
        self._waits_since = math.inf
        # The lanes among its runs, and the functions that its runner has by way of lanes.
        self.lanes: dict[Attempt, RunOfLane] = {}
        self.learnt: set[bytes] = set()

    @property
    def now(self) -> float:
        """The time by its own clock."""
        return self.world.clock.now + self.offset

    def joined(self) -> None:
        self.leases_read = 0
        self.session.on_connected(self.now)

    def left(self) -> None:
        self.session.on_disconnected()

    def read(self, mail: Mail) -> None:
        for message, payload in mail:
            if isinstance(message, Lease) and message.attempt != self._last_lease:
                self.leases_read += 1
                self._last_lease = message.attempt
            elif isinstance(message, Drain) and message.at_once:
                self.leave_by = min(self.leave_by, self.now)
            self.session.on_message(message, payload, self.now)

    def flush(self) -> None:
        for message, payload in self.session.take_orders():
            if isinstance(message, StartRun):
                self.begin(message, payload)
            elif isinstance(message, Cancel):
                self.cancel(message)
            elif isinstance(message, ForgetFunctions):
                self.learnt.difference_update(message.digests)
            elif isinstance(message, MemberOpen) and message.attempt in self.runs:
                self.world.gangs.on_open(message)
        self.session.on_tick(self.now)
        if self.session.to_runner:
            self.flush()
            return
        mail = self.session.take_mail()  # without a spool there is no spooled outcome
        self.backlogs_sent += sum(isinstance(message, Backlog) for message, _ in mail)
        self.send([(m, body) for m, body in mail if not isinstance(body, SpooledOutcome)])
        if self.session.draining and (not self.runs or self.leave_by <= self.now):
            self._waits_since = min(self._waits_since, self.now)
        if self.session.finished and self.alive:
            self.alive = False
            self.world.laws.on_left(self, self.now - self._waits_since)
            if self.wire is not None:
                wire = self.wire
                self.world.clock.after(30.0, lambda: wire.close(self))

    def tick(self) -> None:
        """Let time pass, as its shell does once a second."""
        if self.alive and not self.frozen:
            self.flush()

    def begin(self, run: StartRun, payload: Payload) -> None:
        lease = self.session.runs[run.attempt].lease
        if lease.function == LANE:
            self.begin_lane(run, lease, payload)
            return
        if lease.gang is not None and lease.gang.index:
            self.begin_seat(run, lease)
            return
        function = self.session.functions.get(run.function)
        assert function is not None, f"the function of {lease} is missing"
        behaviour = self.world.behaviour(lease.mission, lease.task)
        assert unpack(payload, list) == [lease.mission, lease.task], "the arguments of another task"
        process = SimulatedRun(self, lease, behaviour, from_data(run.res), run)
        if not self.world.begins(process):
            process.refused = True
            process.behaviour = behaviour = Behaviour(0.0, "refused")
        self.runs[run.attempt] = process
        self.world.laws.on_begun(process)
        if lease.gang is not None:
            self.world.gangs.begin(process)
            return
        seconds = behaviour.seconds * (0.5 + self.world.clock.chance.random())
        if behaviour.kind == "value" and lasts(lease.mission) and lease.attempt[1] % 2:
            # As a job is that has yet to note how its program has ended.
            self.world.clock.after(seconds * 0.8, lambda: self.end_use(process))
        self.world.clock.after(seconds, lambda: self.end(process))

    def end_use(self, process: SimulatedRun) -> None:
        """Let a run use its resources no more, if it is not to end; soon after it ends."""
        under_way = self.alive and self.runs.get(process.run.attempt) is process
        if under_way and not self.frozen and not process.ending:
            process.over = True
            self.session.on_run_message(RunOver(process.run.attempt))
            self.flush()

    def begin_seat(self, run: StartRun, lease: Lease) -> None:
        """Keep a seat of a gang, until its root or its head ends that."""
        process = SimulatedRun(self, lease, Behaviour(0.0, "seat"), from_data(run.res), run)
        self.runs[run.attempt] = process
        self.world.laws.on_begun(process)
        self.world.gangs.begin(process)

    def begin_lane(self, run: StartRun, lease: Lease, invitation: Payload) -> None:
        """Begin a lane, which takes calls until it is to end."""
        process = SimulatedRun(self, lease, Behaviour(0.0, "lane"), from_data(run.res), run)
        self.runs[run.attempt] = process
        self.world.laws.on_begun(process)
        self.lanes[run.attempt] = self.world.serve_lane(self, process, invitation)

    def end_lane(self, lane: RunOfLane, outcome: bytes | None) -> None:
        """End a lane.

        Args:
            lane: which; no call goes on in it.
            outcome: of its run; None if it was revoked.
        """
        attempt = lane.process.run.attempt
        del self.lanes[attempt]
        del self.runs[attempt]
        ended = Ended(attempt, "cancelled" if outcome is None else "done")
        self.session.on_ended(ended, outcome, self.now)
        self.flush()

    def end(self, process: SimulatedRun) -> None:
        """End a run whose program comes to its natural end."""
        if not self.alive or self.runs.get(process.run.attempt) is not process:
            return
        if self.frozen:
            self.world.clock.at(self.frozen_until, lambda: self.end(process))
            return
        if process.behaviour.kind == "poison":
            self.crash()
            return
        del self.runs[process.run.attempt]
        lease = process.lease
        outcome = pack((lease.mission, lease.task, lease.attempt, process.behaviour.kind))
        self.world.laws.on_completed(process, outcome)
        self.world.ended(process)
        failed = process.behaviour.kind in ("error", "refused")
        ended = Ended(process.run.attempt, "done", failed)
        self.session.on_ended(ended, outcome, self.now)
        self.flush()

    def cancel(self, message: Cancel) -> None:
        """End a run, or let it not begin."""
        lane = self.lanes.get(message.attempt)
        if lane is not None:
            if message.waiting:
                lane.recall()
            else:
                self.world.laws.on_stopping(lane.process)
                lane.process.ending = True
                lane.revoke()
        elif not message.waiting:
            self.stop(message.attempt)

    def stop(self, attempt: Attempt) -> None:
        """Cancel a run; its program takes a while to end."""
        process = self.runs.get(attempt)
        if process is not None and not process.ending:
            self.world.laws.on_stopping(process)
            process.ending = True
            slow = self.world.clock.chance.choice((0.0, 0.1, 5.0))
            self.world.clock.after(slow, lambda: self.stopped(process))

    def stopped(self, process: SimulatedRun) -> None:
        if self.alive and self.runs.get(process.run.attempt) is process:
            del self.runs[process.run.attempt]
            ended = Ended(process.run.attempt, "cancelled")
            self.session.on_ended(ended, None, self.now)
            self.flush()

    def crash(self) -> None:
        """Let the runner's process die, with all that runs in it."""
        for process in self.runs.values():
            self.world.laws.on_crashed(process)
        begun = {attempt: lane.noted[0] for attempt, lane in self.lanes.items()}
        for attempt, lane in self.lanes.items():
            lane.die(blamed=self.session.runs[attempt].wish is Wish.COMPLETE)
        self.lanes.clear()
        self.learnt.clear()
        self.runs.clear()
        self.session.on_runner_crashed("SIGSEGV", self.now, begun=begun)
        self.flush()

    def kill(self) -> None:
        super().kill()
        for process in self.runs.values():
            self.world.laws.on_crashed(process)
        for lane in self.lanes.values():
            lane.die()
        self.lanes.clear()
        self.runs.clear()


@dataclass(eq=False)
class Story:
    """The history of the tasks of a mission."""

    submitted: list[int] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    cancelled_outside: set[int] = field(default_factory=set)
    # The worker of each task, and its crashes, as the messages of heads have said.
    workers: dict[int, str] = field(default_factory=dict)
    crashes: dict[int, set[Attempt]] = field(default_factory=dict)
    # True if a command has cancelled the mission, and if the mission has ended because of that.
    ended_outside: bool = False
    over: bool = False
    resolved: dict[int, Resolution] = field(default_factory=dict)


class SimulatedMission(SimulatedPeer):
    """A mission: the session, and what its program sees."""

    def __init__(self, world: Surroundings, session: MissionSession, plan: list[Behaviour]) -> None:
        super().__init__(world)
        self.session = session
        self.story = Story()
        self.plan = plan
        self.requests: dict[Any, int] = {}
        # True if it was killed on the host of its head, which sees that.
        self.seen = False
        # The seconds for which it stays when all is done, and when they are over; 0 before.
        self.linger = world.clock.chance.choice((0.0, 20.0, 200.0))
        self.leave_at = 0.0
        # The content of `Story.workers` and `Story.crashes` when it registered on a connection.
        self.stated: dict[Wire, tuple[dict[int, str], dict[int, set[Attempt]]]] = {}
        session.define(Function(b"f" + session.id.encode(), b"code", "f"))
        self.log = SessionLog(session, lambda: world.clock.now, 1e9, world.run_log)
        # The decisions on lanes, the connections of lanes, and the lanes to which each task was
        # sent.
        self.lanes = world.mission_lanes(session)
        self.lanes.slice = world.lane_slice
        self.lanes.invitation = lambda: pack(session.id)
        self.ends: dict[Lane, EndOfLane] = {}
        self.sent: dict[int, set[int]] = {}
        # The number of the request of each task.
        self._asked: dict[int, int] = {}
        self._width = world.clock.chance.choice(world.widths) if world.has_lanes else 0

    def joined(self) -> None:
        assert self.wire is not None
        crashes = {task: set(attempts) for task, attempts in self.story.crashes.items()}
        self.stated[self.wire] = (dict(self.story.workers), crashes)
        self.session.on_connected()

    def left(self) -> None:
        self.session.on_disconnected()

    def read(self, mail: Mail) -> None:
        self.session.now = self.world.clock.now
        for message, payload in mail:
            if isinstance(message, Started):
                self.story.workers.update(dict.fromkeys(message.tasks, message.worker))
            elif isinstance(message, WorkerEnded):
                # Lanes are over with their worker; of other tasks a message of their own says that.
                for lane in self.lanes._lanes:
                    if self.story.workers.get(lane) == message.worker:
                        self.story.workers[lane] = ""
            elif isinstance(message, Resolved) and message.task in self.lanes._lanes:
                if message.ending == "crashed" and not message.crashes:
                    # Its worker has not come to this head, which gives it up.
                    self.story.workers[message.task] = ""
            elif isinstance(message, Crashed) and not message.crash.absent:
                self.story.crashes.setdefault(message.task, set()).add(message.crash.attempt)
            try:
                self.session.on_message(message, payload)
            except RemoteProtocolError:  # its shell ends the connection, and comes again
                assert self.wire is not None
                self.wire.close(self)
                self.wire = None
                self.left()
                self.world.clock.after(0.1, self.dial)
                return
        self.log.on_news()
        self._hear_of_lanes()
        if self.world.clock.chance.random() < 0.7:  # else with the next mail
            self.session.confirm()

    def tick(self) -> None:
        """Let time pass, as its shell does now and then; leave when all is done."""
        if not self.alive or self.frozen:
            return
        self.log.kept.flush()
        if self.session.cancelled_by and not self.story.over:
            self.give_up()
        self.session.confirm()
        self.lanes.close_idle(self.world.clock.now - self.world.more_linger)
        self.lanes.take_back(self.world.clock.now)
        self.lanes.report(self.world.clock.now)
        self.flush()
        if self.done and self.wire is not None:
            if self.leave_at == 0.0:
                self.leave_at = self.world.clock.now + self.linger
            if self.leave_at <= self.world.clock.now:
                self.leave()

    def give_up(self) -> None:
        """End the program as by Ctrl-C: a user has cancelled the mission from outside."""
        self.story.over = True
        del self.plan[len(self.story.submitted) :]
        for task in self.calls():
            self._cancel(task)

    def calls(self) -> list[int]:
        """Return the tasks that are not resolved, without lanes."""
        return [task for task, one in self.session.pending.items() if one.function != LANE]

    def _cancel(self, task: int) -> None:
        self.story.cancelled.add(task)
        if not self.lanes.cancel(task):
            self.session.cancel(task)

    def kill(self) -> None:
        super().kill()
        for end in list(self.ends.values()):
            end.hang_up()

    def leave(self) -> None:
        """Leave: the process ends when it has said so."""
        for end in list(self.ends.values()):
            end.leave()
        self.session.depart()
        self.flush()
        self.alive = False
        wire = self.wire
        if wire is not None:
            self.world.clock.after(1.0, lambda: wire.close(self))

    def submit(self, count: int) -> None:
        """Submit some more tasks of the plan."""
        if not self.alive or self.story.over:
            return
        if self.frozen:
            self.world.clock.at(self.frozen_until, lambda: self.submit(count))
            return
        chance = self.world.clock.chance
        for _ in range(count):
            if len(self.story.submitted) == len(self.plan):
                break
            request = chance.choice(self.world.requests)
            if self.requests and self.world.has_lanes and chance.random() < 0.9:
                request = next(iter(self.requests))  # most calls of a sequence are alike
            number = self.requests.get(request)
            if number is None:
                number = self.session.request(to_data(request), chance.choice((0, 0, 1)))
                self.lanes.add_request(plain=is_plain(request))
                self.requests[request] = number
            traffic = self.lanes.traffic[number]
            now = self.world.clock.now
            held = self.world.has_floods and (traffic.holding or traffic.may_hold(now))
            idle = traffic.idle and not traffic.held
            plain = self.world.has_lanes and not idle and not held
            wanted = plain and self._wants_lane(number)
            at_once = wanted and (traffic.refused or chance.random() < 0.3)
            task = self.session._last_task + 1 + at_once  # behind the number of the lane
            arguments = pack((self.session.id, task))
            function = b"f" + self.session.id.encode()
            urgency = chance.choice((0.0, 0.0, 5.0))
            self.world.on_numbered(self.session.id, task, len(self.story.submitted))
            self.story.submitted.append(task)
            self._asked[task] = number
            record = remote_task(number, function, arguments, urgency, request)
            invitation = pack(self.session.id)
            if idle:
                assert task == self.lanes.board(traffic, record, now)
            elif held:
                assert task == self.lanes.hold(traffic, record, now)
            elif at_once:
                assert task == self.lanes.ask_for(record, invitation, now)
            else:
                assert task == self.session.submit(record)
                if wanted:
                    self.lanes.ask(number, invitation, now)
            self.log.on_submitted(task, record)
        self.flush()

    def _wants_lane(self, request: int) -> bool:
        """Return True if an executor would ask for a lane, and at times as this world wants it."""
        now, chance = self.world.clock.now, self.world.clock.chance
        traffic = self.lanes.traffic[request]
        wanted = self.lanes.wants_lane(request, now)
        wished = self.session.connected and len(traffic.lanes) < 3 and chance.random() < 0.7
        return wanted or wished

    def cancel(self, task: int = 0) -> None:
        """Cancel one task that is not resolved, and no lane; 0 for any."""
        waiting = self.calls()
        if self.alive and waiting and not self.frozen:
            self._cancel(task or self.world.clock.chance.choice(waiting))
            self.flush()

    def _hear_of_lanes(self) -> None:
        session = self.session
        if session.lanes_started or session.lanes_over or session.calls_cancelled:
            self.lanes.on_news(self.world.clock.now)

    def flush(self) -> None:
        self._hear_of_lanes()
        for lane in taken(self.lanes.closing):
            if lane in self.ends:
                self.ends[lane].leave()
        clock = self.world.clock
        self.log.on_news()
        for resolution in taken(self.session.resolved):
            self.log.on_resolved(resolution)
            self.world.laws.on_resolved(self, resolution)
            self.story.resolved[resolution.task] = resolution
            if self.world.has_lanes and resolution.task in self._asked:
                seconds = self.world.behaviour(self.session.id, resolution.task).seconds
                seconds *= self.world.lane_brevity
                self.lanes.traffic[self._asked[resolution.task]].on_ended(seconds)
                # Its program submits one call after the other, and few at a time.
                pause = clock.chance.choice((*[0.0] * 8, 0.2, 0.2, 2.0, 20.0))
                clock.after(pause, lambda: self.submit(int(len(self.calls()) < self._width)))
        while self.session.to_head:
            self.send(self.session.take_mail())

    @property
    def done(self) -> bool:
        """True if all of its tasks were submitted and are resolved."""
        return len(self.plan) == len(self.story.submitted) == len(self.story.resolved)


class Stranger(SimulatedPeer):
    """A process that registers, sends nonsense and does not come again."""

    def __init__(self, world: Surroundings, number: int, *, mission: bool) -> None:
        super().__init__(world)
        self.name = f"stranger{number}"
        self.mission = mission

    def joined(self) -> None:
        assert self.wire is not None
        self.world.clock.after(10.0, lambda: self.kill())
        some: Mail
        if self.mission:
            some = [(RegisterMission(self.name, self.name), None)]
            some += [(Request(0, {"Cores": 2}), None)]
            nonsense = self.world.nonsense.of_mission()
        else:
            some = [(RegisterWorker(self.name, self.name, "host", {"Cores": 4}), None)]
            run = InventoryRun(f"of {self.name}", 1, (0, 1), {"Cores": 2}, 1.0)
            some += [(Inventory((run,)), None)]
            nonsense = self.world.nonsense.of_worker(self.wire.head.hub.registry.epoch)
        self.send([*some[: self.world.clock.chance.randint(0, 2)], *nonsense])

    def left(self) -> None:
        self.alive = False

    def read(self, mail: Mail) -> None:
        pass

    def flush(self) -> None:
        pass


def of_worker(space: Resource) -> Resource:
    """Return the part of what a run has that is of its worker, and not of the whole cluster."""
    return from_data({kind: part for kind, part in to_data(space).items() if kind != "Licences"})


def fits(total: Resource, runs: list[SimulatedRun]) -> bool:
    """Return True if runs can be on a worker at a time, each core used once."""
    supply = Supply(total)
    try:
        for process in runs:
            supply.reclaim(of_worker(process.space))
    except ValueError:
        return False
    return True
