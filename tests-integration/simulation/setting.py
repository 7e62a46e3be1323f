"""The setting of a world: what its seed has drawn, and the processes that are there.

Those who watch a world and let things go wrong see it as this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from grain.head.hub.tasks.outcomes import MAX_UNCONFIRMED, MAX_UNCONFIRMED_BYTES
from grain.resource import Cores, Either, GPUs, Licences, Memory
from grain.worker.agent.session import MAX_KEPT
from simulation.clock import Clock
from simulation.gangs import SimulatedGangs
from simulation.heads import HeadProcess
from simulation.nonsense import Nonsense
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.resource import Resource
    from simulation.bridge.server import Bridge
    from simulation.cast import Cast
    from simulation.lasting.files import Files
    from simulation.peers import (
        Behaviour,
        SimulatedMission,
        SimulatedPeer,
        SimulatedRun,
        SimulatedWorker,
    )
    from simulation.surroundings import Judge
    from simulation.wire import HeadEnd

GRACE = 30.0
CALM = 300.0
"""Seconds of virtual time after which nothing goes wrong any more."""

_WORLDS = 5
_ALTERNATIVES: dict[Resource, Resource] = {
    Cores(1): GPUs(1) | Cores(1),
    Cores(2): Either(GPUs(1) & Memory(1), Cores(2), Cores(1) & Memory(5), prefer=4),
    Cores(3): GPUs(2) | Cores(3),
}
"""The requests of tasks in one of `_WORLDS` worlds, in the places of others."""

_GANGS: dict[Resource, Resource] = {Cores(2): 2 * Cores(2), Cores(3): 2 * Cores(1)}
"""Those in another one of them: two workers at once."""

_LICENCES: dict[Resource, Resource] = {
    Cores(1): Cores(1) & Licences(a=1),
    Cores(2): Cores(2) & Licences(a=2) | Cores(3),
    Cores(3): Cores(3) & Licences(b=1),
    Cores(1) & Memory(2): 2 * (Cores(1) & Licences(a=1)),
}
"""Those in one of ten worlds."""

_SCARCE: list[Resource] = [
    Cores(1),
    Cores(3) & Licences(b=1),
    Cores(1) & Licences(b=1),
    Cores(2) & Licences(a=2),
    Cores(1) & Memory(2) & Licences(b=1),
    Cores(1) & Licences(a=1),
]
"""Those in four of 20 of the first worlds, where tasks lack workers as well as licences."""

FIRST, _FIRST = 80, (1, 3, 6, 13)
"""The first worlds, and which of 20 of them are such."""

LICENCES = Licences(a=3, b=1)
"""What the whole cluster has in such a world."""

_OVERTAKES = (None, 1, 4)
"""How often tasks may be overtaken, by the seed: None for as often as outside of simulations."""


class Setting(ABC):
    """What a seed has drawn, and the processes that are there.

    Args:
        seed: of all chance.
        log: called with a line for each thing that happens.
    """

    laws: Judge
    bridge: Bridge | None

    def __init__(self, seed: int, cast: Cast, log: Callable[[str], object]) -> None:
        self.clock = Clock(seed)
        self.nonsense = Nonsense(self.clock.chance)
        self.log = log
        self.end_of_faults = CALM
        self.grace = GRACE
        chance = self.clock.chance
        self.slow = chance.choice((0.01, 0.3, 3.0))
        self.twice = chance.choice((0.0, 0.0, 0.05, 0.3))
        kinds: list[Resource] = [Cores(1), Cores(2), Cores(1) & Memory(2), Cores(3)]
        # In some worlds all ask for the same.
        self.requests = chance.choice((kinds, kinds, kinds[:1], kinds[1:2], kinds[3:]))
        # In some, tasks have alternatives, and half of the workers have GPUs. This takes no chance,
        # so the stories of the other worlds stay.
        self.has_alternatives = seed % _WORLDS == 4
        if self.has_alternatives:
            self.requests = [_ALTERNATIVES.get(one, one) for one in self.requests]
            if seed % 2:
                self.requests = [
                    Either(*some, prefer=4) if len(some := one.alternatives()) > 1 else one
                    for one in self.requests
                ]
        self.has_gangs = seed % _WORLDS == 2
        if self.has_gangs:
            self.requests = [_GANGS.get(one, one) for one in self.requests]
        # In some, tasks use licences of the whole cluster: two sorts, of which some need several.
        # In some, missions submit one call after the other, and have lanes: there are two of five
        # with plain requests, and some where others are refused.
        # One of seven is left out, as are the seeds that tests name for what happened there.
        self.has_lanes = (seed % _WORLDS in (0, 3) and seed % 7 != 4) or seed % 15 == 2
        self.nonsense.of_lanes = self.has_lanes
        scarce = seed < FIRST and seed % 20 in _FIRST
        self.has_licences = seed % 10 == 8 or scarce
        if seed % 10 == 8:
            self.requests = [_LICENCES.get(one, one) for one in self.requests]
            self.has_gangs = True
        if scarce:
            self.requests, self.has_gangs = _SCARCE, False
        self.max_overtakes = 1 if scarce else _OVERTAKES[seed % len(_OVERTAKES)]
        # In some worlds missions are paused that leave two outcomes unconfirmed, or 100 bytes.
        self.max_unconfirmed = chance.choice((2, *[MAX_UNCONFIRMED] * 7))
        self.max_unconfirmed_bytes = chance.choice((100, *[MAX_UNCONFIRMED_BYTES] * 7))
        # In some workers take no more runs that keep two outcomes.
        self.max_kept = chance.choice((2, *[MAX_KEPT] * 7))
        # In some there are tasks that take much longer than the grace period, and in some tasks
        # that crash are more than a few.
        self.long_tasks = chance.random() < 0.2
        self.poison = chance.choice((1, 1, 1, 8))
        # The clocks of the hosts of heads that start one after the other.
        self.clocks = chance.choice(("ascend", "ascend", "equal", "descend"))
        # How long messages take in a lane, and how likely runners can connect.
        self.lane_slow = chance.choice((0.001, 0.01, 0.3)) if self.has_lanes else 0.0
        self.lanes_reach = chance.choice((*[1.0] * 7, 0.8, 0.0)) if self.has_lanes else 0.0
        # By how much longer than outside of simulations lanes wait for their next call.
        self.more_linger = chance.choice((0.0, 5.0, 30.0)) if self.has_lanes else 0.0
        # In one of four of these missions submit many calls that seem to be brief, and hold those
        # that wait. A window is a part of the slice as missions have it.
        self.has_floods = self.has_lanes and seed % 4 == 3 and seed % 84 != 83
        self.lane_brevity = 1e-3 if self.has_floods else 1.0
        self.lane_slice = (0.02, 40.0, 400.0)[seed % 3]
        self.widths: tuple[int, ...] = (3, 12, 40) if self.has_floods else (1, 3, 6)
        self.run_log = cast.run_log
        self.fold = cast.fold
        self.lane_calls = cast.calls
        self.mission_lanes = cast.lanes
        # Where lanes have numbers among the tasks: the place in its mission's plan, by number.
        self._places: dict[tuple[str, int], int] = {}
        self.heads: list[HeadProcess] = []
        self.head: HeadProcess | None = None
        # The heads whose records may have changed in this step.
        self.touched: set[HeadProcess] = set()
        # The heads that have leased each task, by mission and number.
        self.leased: dict[tuple[str, int], set[HeadProcess]] = {}
        self.gangs = SimulatedGangs(self, parts=seed % 25 == 17)
        self.workers: list[SimulatedWorker] = []
        self.missions: list[SimulatedMission] = []
        # The files of lasting missions, by their ids.
        self.files: dict[str, Files] = {}
        self.behaviours: dict[str, list[Behaviour]] = {}
        self._connections = 0

    @property
    def calm(self) -> bool:
        """True when nothing goes wrong any more."""
        return self.clock.now > self.end_of_faults

    def behaviour(self, mission: str, task: int) -> Behaviour:
        """Return what a task does."""
        return self.behaviours[mission][self._places.get((mission, task), task - 1)]

    def on_numbered(self, mission: str, task: int, place: int) -> None:
        """Note the number of the task at a place in the plan of its mission, from 0."""
        self._places[mission, task] = place

    def lane_host(self, mission: str) -> SimulatedMission | None:
        """Return a mission to which a runner connects; None if it cannot."""
        for one in self.missions:
            if one.session.id == mission and one.alive:
                return one if self.clock.chance.random() < self.lanes_reach else None
        return None

    def begins(self, run: SimulatedRun) -> bool:
        """Return False if the files of a lasting mission refuse a run."""
        files = self.files.get(run.lease.mission)
        return files is None or files.begins(run)

    def ended(self, run: SimulatedRun) -> None:
        """Note in the files of a lasting mission that a run has ended by itself."""
        files = self.files.get(run.lease.mission)
        if files is not None and not run.refused:
            files.ended[run.lease.task] = self.clock.now

    def settled(self, peer: SimulatedPeer) -> HeadProcess | None:
        """Return the head with which a peer is in contact; None if anything is in the way."""
        wire = peer.wire
        if wire is None or not peer.alive or peer.frozen or peer.unread or wire.cut_off:
            return None
        if wire.held:
            return None
        head = wire.head
        assert isinstance(head, HeadProcess)
        if not head.alive or head.frozen or head.newest.get(peer) != wire.number:
            return None
        return head

    def connect(self, head: HeadEnd, peer: SimulatedPeer) -> Wire:
        wire = Wire(self.clock, head, peer, self.number_connection(), self.slow, self.twice)
        head.wires[wire] = None
        return wire

    def number_connection(self) -> int:
        """Return the number of the next connection, which ascend."""
        self._connections += 1
        return self._connections

    # ---- processes start and end

    @abstractmethod
    def start_head(self) -> None:
        """Start one, which is the one that is there from then on."""

    @abstractmethod
    def restart_head(self) -> None:
        """Start one unless there is one."""

    @abstractmethod
    def end_head(self, head: HeadProcess) -> None:
        """End a head; start one if it was the one that is there."""

    @abstractmethod
    def start_worker(self) -> None:
        """Start a worker, which dials."""

    @abstractmethod
    def start_mission(self) -> None:
        """Start a mission, which dials, with tasks that it submits by and by."""

    @abstractmethod
    def start_next(self, files: Files) -> None:
        """Start a process of a lasting mission, unless none is to come any more."""

    @abstractmethod
    def start_stranger(self, number: int, *, mission: bool) -> None:
        """Start a process that registers, maybe, and sends nonsense."""
