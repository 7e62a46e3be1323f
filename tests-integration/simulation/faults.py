"""The things that go wrong in a world: which, how often, and to whom."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from grain.edge.questions import Ask
from grain.head import messages as of_mission
from grain.head.messages import Retract, Started, Synced
from grain.worker import messages as of_worker
from grain.worker.messages import LANE, Revoke
from simulation.bridge.server import RelayedWire
from simulation.heads import HeadProcess
from simulation.lasting.dispatcher import Dispatcher
from simulation.peers import Behaviour, SimulatedMission, SimulatedPeer, SimulatedWorker

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from simulation.bridge.server import Bridge
    from simulation.peers import RunOfLane, SimulatedCall
    from simulation.setting import Setting
    from simulation.wire import End, Mail, Wire

KINDS = (
    "cut", "part", "kill head", "replace head", "kill worker", "crash runner", "freeze worker",
    "drain worker", "kill mission", "cancel", "jump head", "jump worker", "freeze mission",
    "kill mission here", "cancel from outside", "freeze head", "ambush", "cancel mission",
    "ask to drain", "nonsense", "stranger", "odd message",
)  # fmt: skip

BRIDGE_KINDS = (
    "kill bridge", "freeze bridge", "cut at bridge", "hold at bridge", "lose introduction",
    "change way", "lose call", "repeat call", "delay call", "cut called",
    "kill bridge at introduction",
)  # fmt: skip
"""The faults of worlds that meet at a bridge, besides all others."""

LANE_KINDS = (
    "cut lane", "cancel lane", "crash lane", "kill program", "cancel call", "crowd", "drain lane",
    "kill head and crowd", "lose recall", "lose start of lane",
)  # fmt: skip
"""The faults of worlds with lanes, besides all others."""

LASTING_KINDS = ("kill dispatcher", "stop dispatcher", "second dispatcher")
"""The faults of worlds with a lasting mission, besides all others."""

MESSAGES = tuple(
    kind.__name__
    for kind in dict.fromkeys(
        (*of_mission.MISSION, *of_mission.HEAD, *of_worker.AGENT, *of_worker.HEAD)
    )
)
# Those whose loss hurts most are watched for more often.
_PREY = (
    *MESSAGES,
    *[kind.__name__ for kind in (Revoke, Revoke, Revoke, Retract, Started, Started, Synced)] * 2,
)


_LANE_STARTED = "Started, a lane"


def _kind(message: Message, to: End) -> str:
    """Return the name of a message to some process, by which it is watched for."""
    if isinstance(message, Started) and isinstance(to, SimulatedMission):
        pending = to.session.pending
        if any(task in pending and pending[task].function == LANE for task in message.tasks):
            return _LANE_STARTED
    return type(message).__name__


class Faults:
    """The faults of a world, which stop at its calm.

    Args:
        world: the world.

    Attributes:
        counts: how many there were, by kind.
    """

    def __init__(self, world: Setting) -> None:
        self.world = world
        self.chance = world.clock.chance
        self.counts: Counter[str] = Counter()
        kinds = KINDS if world.bridge is None else (*KINDS, *BRIDGE_KINDS)
        if world.files:
            kinds = (*kinds, *LASTING_KINDS)
        self._often = {kind: self.chance.choice((0, 0, 1, 3)) for kind in kinds}
        if world.has_lanes:
            self._often |= {kind: self.chance.choice((0, 1, 4)) for kind in LANE_KINDS}
        if not any(self._often.values()):
            self._often["cut"] = 1
        # The name of the message that is waited for, and whether its sender is to die of it; or a
        # head a moment later, before whoever did not get the message is back.
        self._prey = ""
        self._deadly = self._soon_dead = False
        self._strangers = 0

    def start(self) -> None:
        """Let the first fault come."""
        self.world.clock.after(self.chance.expovariate(1 / 9), self.strike)

    def strike(self) -> None:
        """Let one fault happen, and the next one come."""
        if self.world.calm:
            return
        names = list(self._often)
        kind = self.chance.choices(names, [self._often[name] for name in names])[0]
        self.counts[kind] += 1
        self.world.log(f"{self.world.clock.now:.3f}: {kind}")
        getattr(self, kind.replace(" ", "_"))()
        self.world.clock.after(self.chance.expovariate(1 / 8), self.strike)

    def post(self, sender: End, wire: Wire, to: End, mail: Mail) -> None:
        """Send messages; cut the wire, or kill the head that sends, at the one waited for."""
        at = None
        if self._prey and not self.world.calm:
            kinds = [_kind(message, to) for message, _ in mail]
            at = kinds.index(self._prey) if self._prey in kinds else None
        if at is None:
            wire.send(to, mail)
            return
        self._prey = ""
        self.world.log(f"{self.world.clock.now:.3f}: the ambush at {mail[at][0]}")
        wire.send(to, mail[: at + self.chance.randint(0, 1)])
        if not self._deadly or not isinstance(sender, HeadProcess):
            wire.cut()
            if self._soon_dead:
                self.world.clock.after(self.world.slow, self.kill_head)
        elif sender is self.world.head:
            self.kill_head()
        else:
            sender.kill()

    # ---- to whom

    def peer(self) -> SimulatedPeer:
        world = self.world
        peers = [p for p in (*world.workers, *world.missions) if p.alive]
        return self.chance.choice(peers or world.workers)

    def worker(self) -> SimulatedWorker:
        workers = self.world.workers
        return self.chance.choice([w for w in workers if w.alive] or workers)

    def mission(self) -> SimulatedMission:
        missions = self.world.missions
        return self.chance.choice([m for m in missions if m.alive] or missions)

    # ---- connections

    def cut(self) -> None:
        peer = self.peer()
        if peer.wire is not None:
            peer.wire.cut()
        # Its next connections are lost, too, maybe while its registration is under way.
        peer.jinxed = self.chance.choice((0, 4))

    def part(self) -> None:
        self._part(self.peer(), self.chance.choice((5.0, 25.0, 45.0, 100.0)))

    def _part(self, peer: SimulatedPeer, seconds: float) -> None:
        """Keep a peer from all heads for a while."""
        peer.parted_until = min(self.world.clock.now + seconds, self.world.end_of_faults)
        if peer.wire is not None:
            peer.wire.cut()

    def ambush(self) -> None:
        """Wait for a message of one kind: its connection is cut as it leaves, or its head dies."""
        self._prey = self.chance.choice(_PREY)
        self._deadly = self.chance.random() < 0.3
        self._soon_dead = self.chance.random() < 0.3

    # ---- heads

    def kill_head(self) -> None:
        world = self.world
        if world.head is not None:
            world.head.kill()
            world.head = None
            world.clock.after(self.chance.choice((0.0, 2.0, 20.0)), world.restart_head)

    def replace_head(self) -> None:
        """Let another head take over; the old one goes on with the peers connected to it."""
        old = self.world.head
        if old is not None:
            self.world.start_head()
            for wire in list(old.wires):
                self.world.clock.after(self.chance.uniform(0, 20), wire.cut)
            self.world.clock.after(25, lambda: self.world.end_head(old))

    def freeze_head(self) -> None:
        if self.world.head is not None:
            self.world.head.freeze(self.world.clock.now + self.chance.choice((2.0, 20.0, 50.0)))

    def jump_head(self) -> None:
        if self.world.head is not None:
            self.world.head.jump(self.chance.choice((5.0, 100.0, 3600.0)))

    # ---- workers

    def kill_worker(self) -> None:
        self.worker().kill()
        self.world.clock.after(self.chance.choice((0.0, 10.0, 50.0)), self.world.start_worker)

    def crash_runner(self) -> None:
        worker = self.worker()
        if worker.alive:
            worker.crash()

    def freeze_worker(self) -> None:
        worker = self.worker()
        until = self.world.clock.now + self.chance.choice((2.0, 20.0, 50.0))
        worker.frozen_until = max(worker.frozen_until, until)

    def drain_worker(self) -> None:
        worker = self.worker()
        if worker.alive:
            later = worker.now + self.chance.choice((0.0, 5.0, 30.0))
            worker.session.drain(worker.now, later)
            worker.leave_by = min(worker.leave_by, later)
            if self.chance.random() < 0.3:  # the batch system does not wait for long
                self.world.clock.after(2.0, worker.kill)
            worker.flush()
            self.world.clock.after(5.0, self.world.start_worker)

    def ask_to_drain(self) -> None:
        """Ask a worker to leave as `grain drain` does, by a question to the head."""
        # As often one that is away: it is to get the message when it is back.
        away = [w for w in self.world.workers if w.alive and w.wire is None]
        head = self.world.head
        worker = self.chance.choice(away) if away and self.chance.random() < 0.5 else self.worker()
        if head is not None and not head.frozen and worker.alive:
            at_once = self.chance.random() < 0.5
            head.ask(Ask("drain", pattern=worker.session.id, at_once=at_once))
            self.world.clock.after(5.0, self.world.start_worker)

    def jump_worker(self) -> None:
        self.worker().offset += self.chance.choice((5.0, 3600.0))

    # ---- missions

    def kill_mission(self) -> None:
        mission = self.chance.choice(self.world.missions)
        if mission.alive:
            mission.kill()
            self._follow(mission)

    def kill_mission_here(self) -> None:
        """Kill a mission on the head's host: the head sees that its process has ended."""
        mission = self.chance.choice(self.world.missions)
        if mission.alive:
            mission.seen = True
            mission.kill()
            self._follow(mission)

    def _follow(self, mission: SimulatedMission) -> None:
        """Start what comes after a mission that has ended: of a lasting one its next process."""
        if not isinstance(mission, Dispatcher):
            self.world.start_mission()
            return
        files, later = mission.files, self.chance.choice((0.0, 1.0, 40.0, 600.0))
        files.expected = max(files.expected, self.world.clock.now + later)
        self.world.clock.after(later, lambda: self.world.start_next(files))

    def freeze_mission(self) -> None:
        mission = self.mission()
        until = self.world.clock.now + self.chance.choice((2.0, 50.0, 150.0))
        mission.frozen_until = max(mission.frozen_until, until)

    def cancel(self) -> None:
        self.mission().cancel()

    def cancel_from_outside(self) -> None:
        """Cancel a task as `grain cancel` does, by a question to the head."""
        mission = self.mission()
        waiting = mission.calls()
        if self.world.head is not None and not self.world.head.frozen and waiting:
            task = self.chance.choice(waiting)
            mission.story.cancelled_outside.add(task)
            ask = Ask("cancel", mission=mission.session.id, task=task, by="somebody")
            self.world.head.ask(ask)

    def cancel_mission(self) -> None:
        """Cancel a mission as `grain cancel` does; its program ends when it gets the message."""
        mission = self.mission()
        if self.world.head is not None and not self.world.head.frozen and mission.alive:
            for one in self.world.missions:
                if one.session.id == mission.session.id:
                    one.story.ended_outside = True
            self.world.head.ask(Ask("cancel", mission=mission.session.id, by="somebody"))
            self.world.start_mission()

    # ---- lasting missions

    def _dispatcher(self) -> Dispatcher | None:
        """Return a living process of a lasting mission, if there is one."""
        alive = [m for m in self.world.missions if m.alive and isinstance(m, Dispatcher)]
        return self.chance.choice(alive) if alive else None

    def kill_dispatcher(self) -> None:
        dispatcher = self._dispatcher()
        if dispatcher is not None:
            dispatcher.seen = self.chance.random() < 0.5
            dispatcher.kill()
            self._follow(dispatcher)

    def stop_dispatcher(self) -> None:
        """Let a process leave as by SIGTERM, with its runs left alone."""
        dispatcher = self._dispatcher()
        if dispatcher is not None and not dispatcher.frozen:
            dispatcher.leave()
            self._follow(dispatcher)

    def second_dispatcher(self) -> None:
        """Start another process while one lives, as on another host that sees no sign of it."""
        dispatcher = self._dispatcher()
        if dispatcher is not None:
            self.world.start_next(dispatcher.files)

    # ---- lanes

    def _lane(self) -> RunOfLane | None:
        """Return a lane, one with a call if there is any; None if there is no lane."""
        lanes = [lane for one in self.world.workers if one.alive for lane in one.lanes.values()]
        with_call = [lane for lane in lanes if lane.call is not None]
        return self.chance.choice(with_call or lanes) if lanes else None

    def drain_lane(self) -> None:
        """Let the worker of a lane take no more runs, and wait for those that it has."""
        lane = self._lane()
        if lane is not None:
            lane.drain()
            self.world.clock.after(5.0, self.world.start_worker)

    def kill_head_and_crowd(self) -> None:
        """Let another head take over, where tasks soon wait: maybe before the lane's mission is."""
        lane = self._lane()
        if lane is not None and self.world.head is not None:
            for mission in self.world.missions:
                if mission.session.id == lane.key[0] and self.chance.random() < 0.5:
                    self._part(mission, 25.0)
            self.world.head.kill()
            self.world.head = None
            self.world.restart_head()
            for later in (5.0, 9.0, 13.0):
                self.world.clock.after(later, self.crowd)

    def cut_lane(self) -> None:
        lane = self._lane()
        if lane is not None and lane.wire is not None:
            lane.wire.cut()

    def crash_lane(self) -> None:
        """Let the runner die that serves a lane."""
        lane = self._lane()
        if lane is not None and not lane.peer.frozen:
            lane.crash()

    def kill_program(self) -> None:
        """Let what watches over the program of a call in a lane be killed."""
        lane = self._lane()
        if lane is not None and not lane.peer.frozen:
            lane.kill_program()

    def cancel_call(self) -> None:
        """Cancel a call in a lane, by its mission; at times its connection is lost just before."""
        lanes = [lane for one in self.world.workers if one.alive for lane in one.lanes.values()]
        lane = max(
            lanes, key=lambda one: one.call.behaviour.seconds if one.call else -1.0, default=None
        )
        if lane is None or lane.call is None:
            return
        if lane.wire is not None and self.chance.random() < 0.7:
            lane.wire.cut()
        call = lane.call
        later = self.chance.choice((0.0, 0.0, 1.0, 22.0))
        self.world.clock.after(later, lambda: self._cancel_call(call))

    def _cancel_call(self, call: SimulatedCall) -> None:
        for mission in self.world.missions:
            if mission.session.id == call.lane.key[0] and call.task in mission.session.pending:
                mission.cancel(call.task)

    def crowd(self) -> None:
        """Let a mission submit many tasks at once, which wait."""
        mission = self.mission()
        if self.world.calm or isinstance(mission, Dispatcher) or mission.story.over:
            return
        more = [Behaviour(self.chance.choice((0.5, 5.0, 5.0, 20.0)), "value") for _ in range(12)]
        self.world.behaviours[mission.session.id].extend(more)
        mission.plan.extend(more)
        mission.submit(12)

    def lose_recall(self) -> None:
        """Lose the connection by which the next lane is recalled, as tasks wait for a while."""
        self._prey, self._deadly, self._soon_dead = "Recall", False, False
        for later in (0.0, 4.0, 8.0):
            self.world.clock.after(later, self.crowd)

    def lose_start_of_lane(self) -> None:
        """Lose the word that a lane starts; then the head dies."""
        self._prey, self._deadly, self._soon_dead = _LANE_STARTED, False, True

    def cancel_lane(self) -> None:
        """Cancel a call in a lane as `grain cancel` does, which its mission may have reported."""
        lane, head = self._lane(), self.world.head
        if lane is None or lane.call is None or head is None or head.frozen:
            return
        mission, task = lane.key[0], lane.call.task
        for one in self.world.missions:
            if one.session.id == mission:
                one.story.cancelled_outside.add(task)
        head.ask(Ask("cancel", mission=mission, task=task, by="somebody"))

    # ---- a bridge

    @property
    def bridge(self) -> Bridge:
        assert self.world.bridge is not None
        return self.world.bridge

    def kill_bridge(self) -> None:
        self.bridge.server.kill()
        self.world.clock.after(self.chance.choice((0.0, 2.0, 20.0, 60.0)), self.bridge.restart)

    def freeze_bridge(self) -> None:
        until = self.world.clock.now + self.chance.choice((2.0, 20.0, 50.0))
        server = self.bridge.server
        server.frozen_until = max(server.frozen_until, min(until, self.world.end_of_faults))

    def cut_at_bridge(self) -> None:
        """Cut a connection of the server, on one side of a pair or of a head."""
        lines = list(self.bridge.server.lines.values())
        if lines:
            self.chance.choice(lines).cut()

    def hold_at_bridge(self) -> None:
        """Let what passes between two members wait."""
        wire = self.peer().wire
        if isinstance(wire, RelayedWire):
            until = self.world.clock.now + self.chance.choice((2.0, 10.0, 18.0))
            # One that ends earlier does not let go of what waits for the end of another.
            wire.held_until = max(wire.held_until, min(until, self.world.end_of_faults))

    def lose_introduction(self) -> None:
        """Let the head not take who comes next."""
        if self.world.head is not None and self.world.head.at_bridge is not None:
            self.world.head.at_bridge.deaf += self.chance.choice((1, 3))

    def lose_call(self) -> None:
        """Let the head not get the next calls."""
        self.bridge.lost_calls += self.chance.choice((1, 3))

    def repeat_call(self) -> None:
        """Let the head get the next calls twice."""
        self.bridge.repeated_calls += self.chance.choice((1, 3))

    def delay_call(self) -> None:
        """Let the next calls be late: the member has come another way, or another head leads."""
        self.bridge.late_calls += self.chance.choice((1, 3))

    def cut_called(self) -> None:
        """Cut a connection that a head has made because of a call; those by the server live."""
        wires = [
            peer.wire
            for peer in (*self.world.workers, *self.world.missions)
            if peer.alive and peer.way and peer.wire and peer.wire is peer.way.called
        ]
        if wires:
            self.chance.choice(wires).cut()

    def kill_bridge_at_introduction(self) -> None:
        """Kill the server at the next introduction or call, before the head gets it or after."""
        self.bridge.server.fragile = True

    def change_way(self) -> None:
        """Open or block a direct way between a peer and heads, which the next connection finds."""
        peer = self.peer()
        assert peer.way is not None
        if self.chance.random() < 0.5:
            peer.way.direct = not peer.way.direct
        else:
            peer.way.back = not peer.way.back
        if peer.wire is not None and self.chance.random() < 0.5:
            peer.wire.cut()

    # ---- nonsense

    def nonsense(self) -> None:
        """Let a peer say something that makes no sense."""
        peer = self.peer()
        if peer.wire is None or peer.frozen:
            return
        head = peer.wire.head
        if isinstance(peer, SimulatedMission):
            peer.send(self.world.nonsense.of_mission())
        else:
            peer.send(self.world.nonsense.of_worker(head.hub.registry.epoch))

    def stranger(self) -> None:
        """Let a process come that registers, maybe, and says something that makes no sense."""
        self._strangers += 1
        self.world.start_stranger(self._strangers, mission=self.chance.random() < 0.5)

    def odd_message(self) -> None:
        """Deliver a message that is to have no effect."""
        peer = self.peer()
        if peer.wire is None or peer.frozen:
            return
        mission = isinstance(peer, SimulatedMission)
        if self.chance.random() < 0.5:
            peer.send(self.world.nonsense.odd_to_head(mission=mission))
        else:
            peer.wire.send(peer, self.world.nonsense.odd(mission=mission))
