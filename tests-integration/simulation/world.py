"""A world: missions, workers and heads, and a seed's worth of bad luck.

Each seed draws how likely each fault is (some worlds have only one kind), how slow messages are
and how much is to be done. Faults stop at `CALM`; after that everything has to come to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.questions import Ask
from grain.head.hub.hub import Hub, Parts
from grain.head.hub.tasks import MAX_UNCONFIRMED
from grain.remote_exer import MissionSession
from grain.resource import Cores, Memory
from grain.worker.agent.session import WorkerSession
from simulation.clock import Clock
from simulation.heads import HeadProcess
from simulation.laws import Laws
from simulation.peers import Behaviour, SimulatedMission, SimulatedPeer, SimulatedWorker
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.resource import Resource

GRACE = 30.0
CALM = 300.0
"""Seconds of virtual time after which nothing goes wrong any more."""

MOST_STEPS = 12_000  # several times what the busiest seeds need
END = CALM + 20 * GRACE

FAULTS = (
    "cut", "part", "kill head", "replace head", "kill worker", "crash runner", "freeze worker",
    "drain worker", "kill mission", "cancel", "jump head", "jump worker", "freeze mission",
    "kill mission here", "cancel from outside",
)  # fmt: skip


class World:
    """One seed.

    Args:
        seed: of all chance.
        parts: the classes of the hub's parts; tests put faulty ones here, and into the next two.
        worker: the class of the workers' sessions.
        mission: the class of the missions' sessions.
        log: called with a line for each thing that happens.
    """

    def __init__(
        self,
        seed: int,
        *,
        parts: Parts = Parts(),  # noqa: B008 - it cannot change
        worker: type[WorkerSession] = WorkerSession,
        mission: type[MissionSession] = MissionSession,
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.clock = Clock(seed)
        self.laws = Laws(self)
        self.log = log
        self._parts, self._worker, self._mission = parts, worker, mission
        # In some worlds missions are paused, and go on. Not drawn: the stories of seeds stay.
        self.max_unconfirmed = 2 if seed % 8 == 7 else MAX_UNCONFIRMED
        chance = self.clock.chance
        self.slow = chance.choice((0.01, 0.3, 3.0))
        self.twice = chance.choice((0.0, 0.0, 0.05, 0.3))
        kinds: list[Resource] = [Cores(1), Cores(2), Cores(1) & Memory(2), Cores(3)]
        # Where all ask for the same, tasks are sent ahead: how much, and how long that may wait.
        self.requests = chance.choice((kinds, kinds, kinds[1:2], kinds[3:]))
        self.prefetch_seconds = chance.choice((5.0, 100.0))
        self.chain_patience = chance.choice((0.1, 3.0, 100.0))
        self.heads: list[HeadProcess] = []
        self.head: HeadProcess | None = None
        self.workers: list[SimulatedWorker] = []
        self.missions: list[SimulatedMission] = []
        self._behaviours: dict[str, list[Behaviour]] = {}
        self._epoch = 0
        self._connections = 0
        self.start_head()
        for _ in range(chance.randint(2, 4)):
            self.start_worker()
        for _ in range(chance.randint(1, 3)):
            self.start_mission()
        self.often = {fault: chance.choice((0, 0, 1, 3)) for fault in FAULTS}
        if not any(self.often.values()):
            self.often["cut"] = 1
        self.clock.after(chance.expovariate(1 / 10), self.go_wrong)
        self.clock.after(1.0, self.tick)

    def run(self) -> Laws:
        """Run it to the end.

        Raises:
            Broken: a law does not hold.
        """
        while self.clock.step(END):
            self.laws.check(deeply=self.clock.steps % 16 == 0)
            self.laws.demand("it comes to rest", self.clock.steps < MOST_STEPS)
        self.laws.check(deeply=True)
        self.laws.check_end()
        return self.laws

    def behaviour(self, mission: str, task: int) -> Behaviour:
        """Return what a task does."""
        return self._behaviours[mission][task - 1]

    # ---- processes start

    def start_head(self) -> None:
        self._epoch += 1
        hub = Hub(
            self._epoch,
            self.clock.now,
            grace=GRACE,
            prefetch_seconds=self.prefetch_seconds,
            parts=self._parts,
        )
        hub.tasks.max_unconfirmed = self.max_unconfirmed
        head = HeadProcess(self, hub, 0.0)
        self.heads.append(head)
        self.head = head
        self.log(f"head {self._epoch} starts")

    def restart_head(self) -> None:
        """Start one unless there is one."""
        if self.head is None:
            self.start_head()

    def start_worker(self) -> None:
        chance = self.clock.chance
        number = len(self.workers) + 1
        total = Cores([2 * k + 1 for k in range(chance.randint(3, 5))]) & Memory(8)
        session = self._worker(
            f"id{number}",
            f"w{number}",
            "host",
            total,
            self.clock.now,
            chain_patience=self.chain_patience,
        )
        worker = SimulatedWorker(self, session)
        self.workers.append(worker)
        self.log(f"worker w{number} starts with {total!r}")
        worker.dial()

    def start_mission(self) -> None:
        chance = self.clock.chance
        number = len(self.missions) + 1
        kinds = ["value"] * 12 + ["error"] * 2 + ["poison"] * (chance.random() < 0.3)
        # Many brief ones where all ask for the same.
        alike = len(self.requests) == 1
        times = (0.0, 0.5, 5.0) if alike else (0.0, 0.5, 5.0, 60.0)
        plan = [
            Behaviour(chance.choice(times), chance.choice(kinds))
            for _ in range(chance.randint(4, 14) * (3 if alike else 1))
        ]
        session = self._mission(f"m{number}", f"mission {number}")
        self._behaviours[session.id] = plan
        mission = SimulatedMission(self, session, plan)
        self.missions.append(mission)
        self.log(f"mission m{number} starts with {len(plan)} tasks")
        mission.dial()
        mission.submit(chance.randint(1, len(plan)))
        for _ in range(len(plan)):
            self.clock.after(chance.uniform(0, CALM), lambda: mission.submit(1))

    def connect(self, head: HeadProcess, peer: SimulatedPeer) -> Wire:
        self._connections += 1
        wire = Wire(self.clock, head, peer, self._connections, self.slow, self.twice)
        head.wires[wire] = None
        return wire

    def tick(self) -> None:
        """Let time pass for every process, once a second; missions that are done leave."""
        for head in self.heads:
            head.tick()
        for worker in self.workers:
            worker.tick()
        for mission in self.missions:
            mission.tick()
            if mission.alive and mission.done and self.clock.now > CALM + 5 * GRACE:
                mission.session.depart()
                mission.flush()
        if self.clock.now > CALM and self.head is None:
            self.start_head()
        if self.clock.now > CALM and not any(worker.alive for worker in self.workers):
            self.start_worker()
        if self.clock.now > CALM + 5 * GRACE and len(self.heads) > 1:
            for head in self.heads:
                if head.alive and head is not self.head:
                    head.kill()
        self.clock.after(1.0, self.tick)

    # ---- what goes wrong

    def go_wrong(self) -> None:
        chance = self.clock.chance
        if self.clock.now > CALM:
            return
        names = list(self.often)
        fault = chance.choices(names, [self.often[name] for name in names])[0]
        self.log(f"{self.clock.now:.3f}: {fault}")
        getattr(self, fault.replace(" ", "_"))()
        self.clock.after(chance.expovariate(1 / 9), self.go_wrong)

    def peer(self) -> SimulatedPeer:
        peers = [p for p in (*self.workers, *self.missions) if p.alive]
        return self.clock.chance.choice(peers or self.workers)

    def worker(self) -> SimulatedWorker:
        return self.clock.chance.choice([w for w in self.workers if w.alive] or self.workers)

    def cut(self) -> None:
        peer = self.peer()
        if peer.wire is not None:
            peer.wire.cut()
        # Its next connections are lost, too, maybe while its registration is under way.
        peer.jinxed = self.clock.chance.choice((0, 4))

    def part(self) -> None:
        peer = self.peer()
        peer.parted_until = self.clock.now + self.clock.chance.choice((5.0, 25.0, 45.0, 100.0))
        peer.parted_until = min(peer.parted_until, CALM)
        if peer.wire is not None:
            peer.wire.cut()

    def kill_head(self) -> None:
        if self.head is not None:
            self.head.kill()
            self.head = None
            later = self.clock.chance.choice((0.0, 2.0, 20.0))
            self.clock.after(later, self.restart_head)

    def replace_head(self) -> None:
        """Let another head take over; the old one goes on with the peers connected to it."""
        old = self.head
        if old is not None:
            self.start_head()
            for wire in list(old.wires):
                self.clock.after(self.clock.chance.uniform(0, 20), wire.cut)
            self.clock.after(25, old.kill)

    def kill_worker(self) -> None:
        self.worker().kill()
        self.clock.after(self.clock.chance.choice((0.0, 10.0, 50.0)), self.start_worker)

    def crash_runner(self) -> None:
        worker = self.worker()
        if worker.alive:
            worker.crash()

    def freeze_worker(self) -> None:
        worker = self.worker()
        until = self.clock.now + self.clock.chance.choice((2.0, 20.0, 50.0))
        worker.frozen_until = max(worker.frozen_until, until)

    def drain_worker(self) -> None:
        worker = self.worker()
        if worker.alive:
            later = worker.now + self.clock.chance.choice((0.0, 5.0, 30.0))
            worker.session.drain(worker.now, later)
            worker.flush()
            self.clock.after(5.0, self.start_worker)

    def kill_mission(self) -> None:
        mission = self.clock.chance.choice(self.missions)
        if mission.alive:
            mission.kill()
            self.start_mission()

    def kill_mission_here(self) -> None:
        """Kill a mission on the head's host: the head sees that its process has ended."""
        mission = self.clock.chance.choice(self.missions)
        if mission.alive:
            mission.seen = True
            mission.kill()
            self.start_mission()

    def freeze_mission(self) -> None:
        mission = self.clock.chance.choice(self.missions)
        until = self.clock.now + self.clock.chance.choice((2.0, 50.0, 150.0))
        mission.frozen_until = max(mission.frozen_until, until)

    def cancel(self) -> None:
        self.clock.chance.choice(self.missions).cancel()

    def cancel_from_outside(self) -> None:
        """Cancel a task as `grain cancel` does, by a question to the head."""
        mission = self.clock.chance.choice(self.missions)
        waiting = list(mission.session.pending)
        if self.head is not None and waiting:
            task = self.clock.chance.choice(waiting)
            mission.story.cancelled_outside.add(task)
            ask = Ask("cancel", mission=mission.session.id, task=task, by="somebody")
            self.head.ask(ask)

    def jump_head(self) -> None:
        if self.head is not None:
            self.head.offset += self.clock.chance.choice((5.0, 100.0, 3600.0))

    def jump_worker(self) -> None:
        self.worker().offset += self.clock.chance.choice((5.0, 3600.0))
