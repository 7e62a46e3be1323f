"""A world: missions, workers and heads, and a seed's worth of bad luck.

Each seed draws how likely each fault is (some worlds have only one kind), how slow messages are,
what is to be done, and what its heads' clocks say. Faults stop at `CALM`; after that everything has
to come to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.mission_ids import lasting_id
from grain.resource import Cores, GPUs, Memory
from simulation.bridge.introductions import HeadAtBridge, PeerAtBridge
from simulation.bridge.server import Bridge
from simulation.cast import Cast
from simulation.faults import Faults
from simulation.heads import HeadProcess
from simulation.lanes.served import ServedLane
from simulation.lasting.dispatcher import Dispatcher
from simulation.lasting.files import Files
from simulation.laws.displays import Displays
from simulation.laws.laws import Laws
from simulation.laws.licences import KeptLicences
from simulation.laws.overtaking import Overtaking
from simulation.laws.promptness import Promptness
from simulation.laws.turns import Turns
from simulation.peers import Behaviour, SimulatedMission, SimulatedWorker, Stranger
from simulation.setting import CALM, GRACE, LICENCES, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from simulation.peers import SimulatedPeer, SimulatedRun

MOST_STEPS = 50_000  # twice what the busiest seeds need

PATIENCE = 30 * GRACE
"""Seconds without an outcome, from the calm on, within which everything has to come to its end.

Counted from the last outcome and not from the calm: a world of two workers and many tasks that each
crash five times, alone on their worker, has more to do than any fixed time allows; and its missions
stay for a while when they have all outcomes. That work which could go on waits is for the laws of
promptness to find.
"""

BRIDGED = 4
"""Of so many seeds one has a world whose processes meet at a bridge, and not by a file."""

LASTING = 5
"""Of so many seeds one has a world with a lasting mission, besides others."""

_DEEPLY = 48  # steps from one look at everything to the next


class World(Setting):
    """One seed.

    Args:
        seed: of all chance.
        cast: the classes of hubs and sessions; tests put faulty ones here.
        log: called with a line for each thing that happens.
    """

    def __init__(
        self,
        seed: int,
        cast: Cast = Cast(),  # noqa: B008 - it cannot change
        *,
        log: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__(seed, cast, log)
        self.laws: Laws = Laws(self)
        self._cast = cast
        self.promptness = Promptness(self)
        self.displays = Displays(self)
        self.over = False
        bridged = seed % BRIDGED == BRIDGED - 1
        self.bridge = Bridge(self, cast.switchboard) if bridged else None
        chance = self.clock.chance
        lasting = seed % LASTING == 1
        if lasting:
            self.files[lasting_id("queue", "1")] = self._plan()
        self.faults = Faults(self)
        self.start_head()
        for _ in range(chance.randint(2, 4)):
            self.start_worker()
        for _ in range(chance.randint(1, 3)):
            self.start_mission()
        for files in self.files.values():
            self.start_next(files)
        self.faults.start()
        self.clock.after(1.0, self.tick)

    def run(self) -> Laws:
        """Run it to the end.

        Raises:
            Broken: a law does not hold.
        """
        # The next process of a lasting mission may come ten minutes later, and has runs to begin.
        patience = 2 * PATIENCE if self.files else PATIENCE
        while not self.over and self.clock.step(max(CALM, self.laws.last_outcome) + patience):
            self.laws.check(deeply=self.clock.steps % _DEEPLY == 0)
            self.laws.demand("it comes to rest", self.clock.steps < MOST_STEPS)
        self.touched.update(self.heads)
        self.laws.check(deeply=True)
        self.laws.check_end()
        return self.laws

    # ---- processes start

    def start_head(self) -> None:
        chance = self.clock.chance
        number = len(self.heads) + 1
        # The clock of its host, by people's time, which may be that of another head's start.
        wall = {"ascend": 1e9 + self.clock.now, "equal": 1e9, "descend": 1e9 - 100.0 * number}
        epoch = self._cast.epoch(int(wall[self.clocks] * 1e9), chance.getrandbits(20))
        # The other one counts from the start of the host, whenever that was.
        offset = chance.choice((0.0, 1e3, 1e6)) + number
        hub = self._cast.hub(
            epoch,
            self.clock.now + offset,
            grace=GRACE,
            wall=wall[self.clocks],
            max_overtakes=self.max_overtakes,
            cluster=self._cast.cluster({"Licences": LICENCES} if self.has_licences else {}),
            parts=self._cast.parts,
        )
        hub.outcomes.max_unconfirmed = self.max_unconfirmed
        hub.outcomes.max_unconfirmed_bytes = self.max_unconfirmed_bytes
        head = HeadProcess(self, hub, offset)
        head.observers = Turns(self, head), Overtaking(self, head), KeptLicences(self, head)
        self.heads.append(head)
        self.head = head
        self.log(f"head {number} starts, of epoch {epoch}")
        if self.bridge is not None:
            leader = self._cast.leader(self.bridge.keys, int(wall[self.clocks] * 1e3))
            head.at_bridge = HeadAtBridge(self.bridge, head, leader)

    def restart_head(self) -> None:
        if self.head is None:
            self.start_head()

    def end_head(self, head: HeadProcess) -> None:
        head.kill()
        if self.head is head:
            self.head = next((one for one in reversed(self.heads) if one.alive), None)
            if self.head is None:
                self.start_head()

    def start_worker(self) -> None:
        chance = self.clock.chance
        number = len(self.workers) + 1
        total = Cores([2 * k + 1 for k in range(chance.randint(3, 5))]) & Memory(8)
        if self.has_alternatives and number % 2:
            total = total & GPUs(2)
        offset = chance.choice((0.0, 1e3, 1e6))
        session = self._cast.worker(
            f"id{number}",
            f"w{number}",
            "host",
            total,
            self.clock.now + offset,
        )
        session.kept.most = self.max_kept
        worker = SimulatedWorker(self, session, offset)
        self.workers.append(worker)
        self.log(f"worker w{number} starts with {total!r}")
        worker.dial()

    def start_mission(self) -> None:
        chance = self.clock.chance
        number = len(self.missions) + 1
        kinds = ["value"] * 12 + ["error"] * 2
        kinds += ["poison"] * self.poison * (chance.random() < 0.3 + 0.1 * self.poison)
        # Many brief ones where all ask for the same.
        alike = len(self.requests) == 1
        times: tuple[float, ...] = (0.0, 0.5, 5.0) if alike else (0.0, 0.5, 5.0, 60.0)
        plan = []
        count = chance.randint(4, 14) * (3 if alike else 1)
        if self.has_lanes:  # many brief calls, of which few wait
            count, times = chance.randint(12, 40), (0.0, 0.0, 0.5, 0.5, 5.0, 5.0, 20.0, 40.0)
        for _ in range(count):
            kind = chance.choice(kinds)
            # Each poisoned one runs alone five times: that is to end.
            plan.append(Behaviour(chance.choice(times[:3] if kind == "poison" else times), kind))
        if self.long_tasks:
            plan[0] = Behaviour(5 * GRACE, "value")
        # As with real ids, none is the beginning of another: a command takes the beginning of an id
        # for that, and would mean the tenth mission by the id of the first, once that has gone.
        session = self._cast.mission(f"{number}m", f"mission {number}")
        self.behaviours[session.id] = plan
        mission = SimulatedMission(self, session, list(plan))
        self.missions.append(mission)
        self.log(f"mission {number}m starts with {len(plan)} tasks")
        mission.dial()
        mission.submit(chance.randint(1, 3 if self.has_lanes else len(plan)))
        for _ in range(len(plan) // (9 if self.has_lanes else 1)):
            self.clock.after(chance.uniform(0, CALM), lambda: mission.submit(1))

    def _plan(self) -> Files:
        """Return the files of a lasting mission that is to come."""
        chance = self.clock.chance
        kinds = ["value"] * 6 + ["error"]
        times = (0.5, 5.0, 60.0, 300.0)
        count = chance.randint(4, 12)
        name = lasting_id("queue", "1")
        plan = [Behaviour(chance.choice(times), chance.choice(kinds)) for _ in range(count)]
        self.behaviours[name] = plan
        return Files(name, plan)

    def start_next(self, files: Files) -> None:
        if files.over:
            return
        chance = self.clock.chance
        files.processes += 1
        others = [one for one in self.missions if one.session.id == files.name]
        outside = others[0].story.cancelled_outside if others else set()
        session = self._cast.mission(files.name, "queue", generation=files.processes)
        dispatcher = Dispatcher(self, session, files, outside)
        # Its head cancels it, too, if a command has cancelled the mission before.
        dispatcher.story.ended_outside = any(one.story.ended_outside for one in others)
        self.missions.append(dispatcher)
        self.log(f"process {files.processes} of {files.name} starts")
        dispatcher.submit(chance.randint(0, len(files.plan)))
        dispatcher.dial()
        for _ in range(len(files.plan)):
            self.clock.after(chance.uniform(0, 60.0), lambda: dispatcher.submit(1))

    def start_stranger(self, number: int, *, mission: bool) -> None:
        Stranger(self, number, mission=mission).dial()

    def serve_lane(
        self, worker: SimulatedWorker, process: SimulatedRun, invitation: Payload
    ) -> ServedLane:
        return ServedLane(worker, process, invitation)

    def way(self, peer: SimulatedPeer) -> PeerAtBridge | None:
        """Return the way of a new peer to heads by way of the bridge, in a world that has one."""
        if self.bridge is None:
            return None
        chance, bridge = self.clock.chance, self.bridge
        direct, back = chance.random() < bridge.directly, chance.random() < bridge.back
        return PeerAtBridge(bridge, peer, direct=direct, back=back)

    def tick(self) -> None:
        """Let time pass for every process, once a second."""
        for head in self.heads:
            head.tick()
        for worker in self.workers:
            worker.tick()
        self.gangs.tick()
        for mission in self.missions:
            mission.tick()
        if self.bridge is not None:
            self.bridge.tick()
        self.promptness.check()
        self.displays.check()
        if self.clock.now > CALM:
            if self.head is None:
                self.start_head()
            least = 2 if self.has_gangs else 1
            if sum(worker.alive for worker in self.workers) < least:
                self.start_worker()
            for files in self.files.values():
                self._see_to(files)
        if self.clock.now > CALM + 2 * GRACE:
            for head in self.heads:
                if head.alive and head is not self.head:
                    head.kill()
            self.over = self._at_rest()
        self.clock.after(1.0, self.tick)

    def _see_to(self, files: Files) -> None:
        """Start a process of a lasting mission if none is there, and none is to come later."""
        lives = any(one.alive for one in self.missions if one.session.id == files.name)
        if not lives and files.expected < self.clock.now:
            self.start_next(files)

    def _at_rest(self) -> bool:
        """Return True if there is nothing left to be done."""
        head = self.head
        return (
            head is not None
            and head.hub.idle
            # A stranger by way of a bridge may have come late, and be waited for.
            and all(worker.link for worker in head.hub.registry.workers.values())
            and not any(mission.alive for mission in self.missions)
            and all(files.over for files in self.files.values())
            and not any(
                w.session.runs or w.session.kept.by_attempt or list(w.session.functions)
                for w in self.workers
                if w.alive
            )
        )
