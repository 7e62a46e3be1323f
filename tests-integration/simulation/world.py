"""A world: missions, workers and heads, and a seed's worth of bad luck.

Each seed draws how likely each fault is (some worlds have only one kind), how slow messages are,
what is to be done, and what its heads' clocks say. Faults stop at `CALM`; after that everything has
to come to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.hub.tasks import MAX_UNCONFIRMED, MAX_UNCONFIRMED_BYTES
from grain.resource import Cores, Memory
from grain.worker.agent.session import MAX_KEPT
from simulation.bridge.introductions import HeadAtBridge, PeerAtBridge
from simulation.bridge.server import Bridge
from simulation.clock import Clock
from simulation.faults import Faults
from simulation.heads import HeadProcess
from simulation.laws.laws import Laws
from simulation.laws.promptness import Promptness
from simulation.mistakes.cast import Cast
from simulation.nonsense import Nonsense
from simulation.peers import Behaviour, SimulatedMission, SimulatedPeer, SimulatedWorker
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.resource import Resource

GRACE = 30.0
CALM = 300.0
"""Seconds of virtual time after which nothing goes wrong any more."""

MOST_STEPS = 12_000  # twice what the busiest seeds need

PATIENCE = 30 * GRACE
"""Seconds without an outcome, from the calm on, within which everything has to come to its end.

Counted from the last outcome and not from the calm: a world of two workers and many tasks that each
crash five times, alone on their worker, has more to do than any fixed time allows; and its missions
stay for a while when they have all outcomes. That work which could go on waits is for the laws of
promptness to find.
"""

BRIDGED = 4
"""Of so many seeds one has a world whose processes meet at a bridge, and not by a file."""

_OVERTAKES = (None, 1, 4)
"""How often tasks may be overtaken, by the seed: None for as often as outside of simulations."""

_DEEPLY = 48  # steps from one look at everything to the next


class World:
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
        self.clock = Clock(seed)
        self.laws = Laws(self)
        self.nonsense = Nonsense(self.clock.chance)
        self.log = log
        self._cast = cast
        self.end_of_faults = CALM
        self.grace = GRACE
        chance = self.clock.chance
        self.slow = chance.choice((0.01, 0.3, 3.0))
        self.twice = chance.choice((0.0, 0.0, 0.05, 0.3))
        kinds: list[Resource] = [Cores(1), Cores(2), Cores(1) & Memory(2), Cores(3)]
        # Where all ask for the same, tasks are sent ahead: how much, and how long that may wait.
        self.requests = chance.choice((kinds, kinds, kinds[:1], kinds[1:2], kinds[3:]))
        self.prefetch_seconds = chance.choice((5.0, 100.0))
        self.max_overtakes = _OVERTAKES[seed % len(_OVERTAKES)]
        self.chain_patience = chance.choice((0.1, 3.0, 100.0))
        # In some worlds missions are paused that leave two outcomes unconfirmed, or 100 bytes.
        self.max_unconfirmed = chance.choice((2, *[MAX_UNCONFIRMED] * 7))
        self.max_unconfirmed_bytes = chance.choice((100, *[MAX_UNCONFIRMED_BYTES] * 7))
        # In some workers take no more runs that keep two outcomes.
        self.max_kept = chance.choice((2, *[MAX_KEPT] * 7))
        # In some there are jobs that take much longer than the grace period, and in some tasks
        # that crash are more than a few.
        self.long_jobs = chance.random() < 0.2
        self.poison = chance.choice((1, 1, 1, 8))
        # The clocks of the hosts of heads that start one after the other.
        self.clocks = chance.choice(("ascend", "ascend", "equal", "descend"))
        self.promptness = Promptness(self)
        self.heads: list[HeadProcess] = []
        self.head: HeadProcess | None = None
        # The heads whose records may have changed in this step.
        self.touched: set[HeadProcess] = set()
        # The heads that have leased each task, by mission and number.
        self.leased: dict[tuple[str, int], set[HeadProcess]] = {}
        self.over = False
        self.workers: list[SimulatedWorker] = []
        self.missions: list[SimulatedMission] = []
        self._behaviours: dict[str, list[Behaviour]] = {}
        self._connections = 0
        bridged = seed % BRIDGED == BRIDGED - 1
        self.bridge = Bridge(self, cast.switchboard) if bridged else None
        self.faults = Faults(self)
        self.start_head()
        for _ in range(chance.randint(2, 4)):
            self.start_worker()
        for _ in range(chance.randint(1, 3)):
            self.start_mission()
        self.faults.start()
        self.clock.after(1.0, self.tick)

    def run(self) -> Laws:
        """Run it to the end.

        Raises:
            Broken: a law does not hold.
        """
        while not self.over and self.clock.step(max(CALM, self.laws.last_outcome) + PATIENCE):
            self.laws.check(deeply=self.clock.steps % _DEEPLY == 0)
            self.laws.demand("it comes to rest", self.clock.steps < MOST_STEPS)
        self.touched.update(self.heads)
        self.laws.check(deeply=True)
        self.laws.check_end()
        return self.laws

    @property
    def calm(self) -> bool:
        """True when nothing goes wrong any more."""
        return self.clock.now > self.end_of_faults

    def behaviour(self, mission: str, task: int) -> Behaviour:
        """Return what a task does."""
        return self._behaviours[mission][task - 1]

    def settled(self, peer: SimulatedPeer) -> HeadProcess | None:
        """Return the head with which a peer is in contact; None if anything is in the way."""
        wire = peer.wire
        if wire is None or not peer.alive or peer.frozen or peer.unread or wire.cut_off:
            return None
        if wire.held:
            return None
        head = wire.head
        if not head.alive or head.frozen or head.newest.get(peer) != wire.number:
            return None
        return head

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
            prefetch_seconds=self.prefetch_seconds,
            max_overtakes=self.max_overtakes,
            parts=self._cast.parts,
        )
        hub.tasks.max_unconfirmed = self.max_unconfirmed
        hub.tasks.max_unconfirmed_bytes = self.max_unconfirmed_bytes
        head = HeadProcess(self, hub, offset)
        self.heads.append(head)
        self.head = head
        self.log(f"head {number} starts, of epoch {epoch}")
        if self.bridge is not None:
            leader = self._cast.leader(self.bridge.keys, int(wall[self.clocks] * 1e3))
            head.at_bridge = HeadAtBridge(self, head, leader)

    def restart_head(self) -> None:
        """Start one unless there is one."""
        if self.head is None:
            self.start_head()

    def end_head(self, head: HeadProcess) -> None:
        """End a head; start one if it was the one that is there."""
        head.kill()
        if self.head is head:
            self.head = next((one for one in reversed(self.heads) if one.alive), None)
            if self.head is None:
                self.start_head()

    def start_worker(self) -> None:
        chance = self.clock.chance
        number = len(self.workers) + 1
        total = Cores([2 * k + 1 for k in range(chance.randint(3, 5))]) & Memory(8)
        offset = chance.choice((0.0, 1e3, 1e6))
        session = self._cast.worker(
            f"id{number}",
            f"w{number}",
            "host",
            total,
            self.clock.now + offset,
            chain_patience=self.chain_patience,
        )
        session.max_kept = self.max_kept
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
        times = (0.0, 0.5, 5.0) if alike else (0.0, 0.5, 5.0, 60.0)
        plan = []
        for _ in range(chance.randint(4, 14) * (3 if alike else 1)):
            kind = chance.choice(kinds)
            # Each poisoned one runs alone five times: that is to end.
            plan.append(Behaviour(chance.choice(times[:3] if kind == "poison" else times), kind))
        if self.long_jobs:
            plan[0] = Behaviour(5 * GRACE, "value")
        # As with real ids, none is the beginning of another: a command takes the beginning of an id
        # for that, and would mean the tenth mission by the id of the first, once that has gone.
        session = self._cast.mission(f"{number}m", f"mission {number}")
        self._behaviours[session.id] = plan
        mission = SimulatedMission(self, session, list(plan))
        self.missions.append(mission)
        self.log(f"mission {number}m starts with {len(plan)} tasks")
        mission.dial()
        mission.submit(chance.randint(1, len(plan)))
        for _ in range(len(plan)):
            self.clock.after(chance.uniform(0, CALM), lambda: mission.submit(1))

    def connect(self, head: HeadProcess, peer: SimulatedPeer) -> Wire:
        wire = Wire(self.clock, head, peer, self.number_connection(), self.slow, self.twice)
        head.wires[wire] = None
        return wire

    def number_connection(self) -> int:
        """Return the number of the next connection, which ascend."""
        self._connections += 1
        return self._connections

    def way(self, peer: SimulatedPeer) -> PeerAtBridge | None:
        """Return the way of a new peer to heads by way of the bridge, in a world that has one."""
        if self.bridge is None:
            return None
        chance, bridge = self.clock.chance, self.bridge
        direct, back = chance.random() < bridge.directly, chance.random() < bridge.back
        return PeerAtBridge(peer, direct=direct, back=back)

    def tick(self) -> None:
        """Let time pass for every process, once a second."""
        for head in self.heads:
            head.tick()
        for worker in self.workers:
            worker.tick()
        for mission in self.missions:
            mission.tick()
        if self.bridge is not None:
            self.bridge.tick()
        self.promptness.check()
        if self.clock.now > CALM:
            if self.head is None:
                self.start_head()
            if not any(worker.alive for worker in self.workers):
                self.start_worker()
        if self.clock.now > CALM + 2 * GRACE:
            for head in self.heads:
                if head.alive and head is not self.head:
                    head.kill()
            self.over = self._at_rest()
        self.clock.after(1.0, self.tick)

    def _at_rest(self) -> bool:
        """Return True if there is nothing left to be done by anybody."""
        head = self.head
        return (
            head is not None
            and head.hub.idle
            and not any(mission.alive for mission in self.missions)
            and not any(
                w.session.runs or w.session.kept or list(w.session.functions)
                for w in self.workers
                if w.alive
            )
        )
