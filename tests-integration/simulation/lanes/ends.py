"""The connection of a lane, and what both of its ends have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.clock import Clock
    from simulation.peers import SimulatedPeer
    from simulation.wire import End, Mail


class LaneWire(Wire):
    """A connection between a mission and a runner.

    Args:
        clock: the time.
        mission: the mission's end.
        runner: the other one.
        slow: as of `Wire`.
    """

    def __init__(self, clock: Clock, mission: LaneEnd, runner: LaneEnd, slow: float) -> None:
        super().__init__(clock, mission, runner, 0, slow, 0.0)  # type: ignore[arg-type]

    def close(self, end: End) -> None:
        """Close one end, most often in good order: what is under way arrives, and soon."""
        other = self.peer if end is self.head else self.head
        if self.cut_off or self._clock.chance.random() < 0.3:
            super().close(end)
            return
        self.closed_for.add(id(end))
        self.cut(at_once=True)
        self._passing[id(other)] = self._under_way[id(other)]


class LaneEnd:
    """One end of a connection, which reads nothing while its process is frozen.

    Args:
        peer: its process.

    Attributes:
        wire: the connection, as long as this end has not noticed its loss, or closed it.
    """

    def __init__(self, peer: SimulatedPeer) -> None:
        self.peer = peer
        self.wire: Wire | None = None
        self._later: list[Callable[[], object]] = []

    def on_mail(self, wire: Wire, mail: Mail) -> None:
        self.when_it_runs(lambda: self.read(mail) if self.wire is wire else None)

    def on_cut(self, wire: Wire) -> None:
        self.when_it_runs(lambda: self.lost() if self.wire is wire else None)

    def when_it_runs(self, action: Callable[[], object]) -> None:
        """Do something now, or in its turn once the process is not frozen any more."""
        if self.peer.alive and (self._later or self.peer.frozen):
            self._later.append(action)
            if len(self._later) == 1:
                self.peer.world.clock.at(self.peer.frozen_until, self._thaw)
        elif self.peer.alive:
            action()

    def _thaw(self) -> None:
        if self.peer.frozen:
            self.peer.world.clock.at(self.peer.frozen_until, self._thaw)
            return
        later, self._later = self._later, []
        for action in later:
            if self.peer.alive:
                action()

    def send(self, mail: Mail) -> None:
        """Send messages to the other end, if there is a connection as far as this one knows."""
        if self.wire is not None:
            ends = self.wire.head, self.wire.peer
            [other] = [end for end in ends if end is not self]
            self.wire.send(other, mail)

    def hang_up(self) -> None:
        """Close this end."""
        if self.wire is not None:
            self.wire.close(self)
            self.wire = None

    def read(self, mail: Mail) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        raise NotImplementedError
