"""The real processes of gangs in a world: roots, seats, and the connections between them.

A root begins its task when the seats that were opened to it are there. It notices within 20 s that
one has gone, and a seat that its root has; a process that is frozen notices nothing meanwhile.
Nothing of this goes through a head.

In some worlds one of five workers has no way to the others, until the world is calm, and the loop
of another one's runner is blocked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from grain.edge.questions import pack, unpack
from grain.eventlog.causes import RunFailure
from grain.head.scheduler.outlived import GANGS
from grain.worker.gang.messages import JOIN, LEAD, SILENCE
from grain.worker.messages import Ended, GangBegun, SeatOpen

if TYPE_CHECKING:
    from grain.worker.messages import Attempt, GangPart, MemberOpen
    from simulation.clock import Clock
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedRun, SimulatedWorker
    from simulation.surroundings import Judge


class GangWorld(Protocol):
    """The world, as its gangs see it."""

    clock: Clock
    laws: Judge
    heads: list[HeadProcess]
    workers: list[SimulatedWorker]

    @property
    def calm(self) -> bool:
        """True when nothing goes wrong any more."""


class SimulatedGang:
    """The processes of one gang that are there, and what their messages have said.

    Attributes:
        opened: the runs that keep seats, by index, as the root has learnt of them.
        joined: True from when the task has begun.
        failed: True from when a part has given up as another has not joined.
    """

    def __init__(self, part: GangPart) -> None:
        self.root: SimulatedRun | None = None
        self.seats: dict[int, SimulatedRun] = {}
        self.size = part.size
        self.opened: dict[int, Attempt] = {}
        self.joined = False
        self.failed = False
        self.ended = False


class SimulatedGangs:
    """All gangs of a world, by the runs of their roots.

    Args:
        world: the world.
        parts: True if some workers have no way to others, or are blocked.
    """

    def __init__(self, world: GangWorld, *, parts: bool) -> None:
        self.world = world
        self._parts = parts
        self._gangs: dict[Attempt, SimulatedGang] = {}
        self._failures: Counter[tuple[str, int]] = Counter()

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
        patience = JOIN if part.index == 0 else LEAD
        clock.after(patience * SILENCE, lambda: self._give_up(gang, run))

    def never_begins(self, root: Attempt) -> bool:
        """Return True if a part of a gang has given up, or its root has died, before it began."""
        gang = self._gangs.get(root)
        if gang is None or gang.joined:
            return False
        return gang.failed or gang.root is None or not self._runs(gang.root)

    def has_begun(self, root: Attempt) -> bool:
        """Return True unless a run is the root of a gang that has not begun."""
        gang = self._gangs.get(root)
        return gang is None or gang.joined

    def _place(self, worker: SimulatedWorker) -> int:
        """Return the number of a worker among those of its kind, of which there are five."""
        return self.world.workers.index(worker) % 5 if self._parts else 0

    def _has_way(self, one: SimulatedWorker, other: SimulatedWorker) -> bool:
        """Return True if two workers reach each other."""
        return self.world.calm or 1 not in (self._place(one), self._place(other))

    def _blocked(self, worker: SimulatedWorker) -> bool:
        """Return True if the loop of a worker's runner is blocked."""
        return self._place(worker) == 3 and not self.world.calm

    def on_open(self, message: MemberOpen) -> None:
        """Let a root learn of a seat."""
        gang = self._gangs[message.attempt]
        epoch, number = unpack(message.invitation, list)
        gang.opened[message.index] = epoch, number
        self.world.clock.after(self.world.clock.chance.random(), lambda: self._join(gang))

    def _open(self, run: SimulatedRun) -> None:
        if self._blocked(run.worker):
            self.world.clock.after(1.0, lambda: self._open(run))
        elif self._acts(run):
            seat = SeatOpen(run.lease.attempt, pack(list(run.lease.attempt)))
            run.worker.session.on_run_message(seat)
            run.worker.flush()

    def _join(self, gang: SimulatedGang) -> None:
        root = gang.root
        if root is None or gang.joined or gang.ended or len(gang.opened) < gang.size - 1:
            return
        if self._blocked(root.worker):
            self.world.clock.after(1.0, lambda: self._join(gang))
            return
        if not self._acts(root):
            return
        seats = [gang.seats[index] for index in gang.opened]
        for index, seat in zip(gang.opened, seats, strict=True):
            if not self._runs(seat) or not self._has_way(root.worker, seat.worker):
                self._fail(gang, root, index)
                return
        law = "a gang of which a part has given up does not begin"
        self.world.laws.demand(law, not gang.failed, root.lease)
        gang.joined = True
        root.worker.session.on_run_message(GangBegun(root.lease.attempt))
        root.worker.flush()
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
        if self._blocked(run.worker):
            self.world.clock.after(1.0, lambda: self._give_up(gang, run))
            return
        index = run.lease.gang.index if run.lease.gang else 0
        absent = next((k for k in range(1, gang.size) if k not in gang.opened), 1)
        self._fail(gang, run, 0 if index else absent)

    def _fail(self, gang: SimulatedGang, run: SimulatedRun, absent: int) -> None:
        """End a part as another one has not joined."""
        if not gang.failed:
            gang.failed = True
            task = run.lease.mission, run.lease.task
            self._failures[task] += 1
            # Each head begins to count for itself what the last one had no time to pass on.
            few = self._failures[task] <= GANGS * (1 + len(self.world.heads))
            self.world.laws.demand("a gang that does not begin is tried a few times", few, task)
        why = RunFailure(message="silence")
        ended = Ended(run.lease.attempt, "returned", failure=why, absent=absent)
        self._finish(run, ended)

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
