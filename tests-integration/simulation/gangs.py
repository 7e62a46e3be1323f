"""The real processes of gangs in a world: roots, seats, and the connections between them.

A root begins its task when the seats that were opened to it are there. It notices within 20 s that
one has gone, and a seat that its root has; a process that is frozen notices nothing meanwhile.
Nothing of this goes through a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grain.edge.questions import pack, unpack
from grain.worker.messages import Ended, SeatOpen

if TYPE_CHECKING:
    from grain.worker.messages import Attempt, GangPart, MemberOpen
    from simulation.clock import Clock
    from simulation.peers import SimulatedRun
    from simulation.surroundings import Judge

SILENCE = 20.0
"""Seconds after which a member is lost, and a third of those in which all have to join."""


class GangWorld(Protocol):
    """The world, as its gangs see it."""

    clock: Clock
    laws: Judge


class SimulatedGang:
    """The processes of one gang that are there, and what their messages have said.

    Attributes:
        opened: the runs that keep seats, by index, as the root has learnt of them.
        joined: True from when the task has begun.
    """

    def __init__(self, part: GangPart) -> None:
        self.root: SimulatedRun | None = None
        self.seats: dict[int, SimulatedRun] = {}
        self.size = part.size
        self.opened: dict[int, Attempt] = {}
        self.joined = False
        self.ended = False


class SimulatedGangs:
    """All gangs of a world, by the runs of their roots."""

    def __init__(self, world: GangWorld) -> None:
        self.world = world
        self._gangs: dict[Attempt, SimulatedGang] = {}

    def of(self, part: GangPart) -> SimulatedGang:
        return self._gangs.setdefault(part.root, SimulatedGang(part))

    def begin(self, run: SimulatedRun) -> None:
        """Begin a part of a gang."""
        part = run.lease.gang
        assert part is not None
        gang = self.of(part)
        clock = self.world.clock
        if part.index:
            gang.seats[part.index] = run
            clock.after(clock.chance.random(), lambda: self._open(run))
        else:
            gang.root = run
        clock.after(3 * SILENCE, lambda: self._give_up(gang, run))

    def on_open(self, message: MemberOpen) -> None:
        """Let a root learn of a seat."""
        gang = self._gangs[message.attempt]
        epoch, number = unpack(message.invitation, list)
        gang.opened[message.index] = epoch, number
        self.world.clock.after(self.world.clock.chance.random(), lambda: self._join(gang))

    def _open(self, run: SimulatedRun) -> None:
        if self._acts(run):
            seat = SeatOpen(run.lease.attempt, pack(list(run.lease.attempt)))
            run.worker.session.on_seat_open(seat)
            run.worker.flush()

    def _join(self, gang: SimulatedGang) -> None:
        root = gang.root
        if root is None or gang.joined or gang.ended or len(gang.opened) < gang.size - 1:
            return
        if not self._acts(root):
            return
        seats = [gang.seats[index] for index in gang.opened]
        if not all(self._runs(seat) for seat in seats):
            self._finish(root, Ended(root.lease.attempt, "returned"))
            return
        gang.joined = True
        self.world.laws.demand(
            "a gang has all of its members, each on a worker of its own",
            len({run.worker for run in (root, *seats)}) == gang.size,
            root.lease,
        )
        seconds = root.behaviour.seconds * (0.5 + self.world.clock.chance.random())
        self.world.clock.after(seconds, lambda: root.worker.end(root))

    def _give_up(self, gang: SimulatedGang, run: SimulatedRun) -> None:
        """End a part that waits for others which have not come."""
        if gang.joined or not self._runs(run):
            return
        if run.worker.frozen:
            self.world.clock.at(run.worker.frozen_until, lambda: self._give_up(gang, run))
            return
        index = run.lease.gang.index if run.lease.gang else 0
        attempt = run.lease.attempt
        self._finish(run, Ended(attempt, "done" if index else "returned"))

    def tick(self) -> None:
        """Let members notice, at some time, that others have gone."""
        for root, gang in list(self._gangs.items()):
            if not gang.joined:
                continue
            seats = [run for run in gang.seats.values() if self._runs(run)]
            missing = [run for run in gang.seats.values() if run not in seats or self._silent(run)]
            there = gang.root is not None and self._runs(gang.root)
            if not there and not seats:
                del self._gangs[root]
                continue
            if there and missing and gang.root is not None and self._notices(gang.root):
                how = f"a member has gone at {self.world.clock.now:.0f} s"
                name = missing[0].worker.session.name
                ended = Ended(root, "done", failed=True, crash=how, lost=name)
                self._finish(gang.root, ended)
                there = False
            if not there or (gang.root is not None and self._silent(gang.root)):
                for run in seats:
                    if self._notices(run):
                        self._finish(run, Ended(run.lease.attempt, "done"))

    def _notices(self, run: SimulatedRun) -> bool:
        return self._acts(run) and self.world.clock.chance.random() < 0.2

    def _silent(self, run: SimulatedRun) -> bool:
        return run.worker.frozen_until > self.world.clock.now + SILENCE

    def _runs(self, run: SimulatedRun) -> bool:
        return run.worker.alive and run.worker.runs.get(run.lease.attempt) is run

    def _acts(self, run: SimulatedRun) -> bool:
        return self._runs(run) and not run.worker.frozen and not run.ending

    def _finish(self, run: SimulatedRun, ended: Ended) -> None:
        """End a part by itself."""
        worker = run.worker
        del worker.runs[run.lease.attempt]
        payload = pack(None) if ended.status == "done" else None
        worker.session.on_ended(ended, payload, worker.now)
        worker.flush()
