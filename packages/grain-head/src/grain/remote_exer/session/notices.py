"""`Notices`: what heads report of requests, workers and themselves, for users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from grain.head.messages import LastAway, OtherVersions, SeveralMaxima, Trouble, Unschedulable

if TYPE_CHECKING:
    from grain.edge.version import Versions

K = TypeVar("K")
M = TypeVar("M")


_Notice = Unschedulable | OtherVersions | SeveralMaxima | Trouble | LastAway


class _Holding(Generic[K, M]):
    """Reports that hold until the head takes them back, by what they are about.

    A head's successor knows nothing of them. It repeats those that hold for it before it answers
    the registration: only then is it known which of the others are over.

    Attributes:
        now: the reports of this connection.
        before: those of earlier connections, until the head has registered the mission.
    """

    def __init__(self) -> None:
        self.now: dict[K, M] = {}
        self.before: dict[K, M] = {}

    def put(self, about: K, report: M, *, holds: bool) -> None:
        if holds:
            self.now[about] = report
        else:
            self.now.pop(about, None)
            # If this head says it again, that is news: users know that it was over.
            self.before.pop(about, None)

    def on_registered(self) -> list[K]:
        """Return what those reports were about that this head has not repeated."""
        over = [about for about in self.before if about not in self.now]
        self.before = {}
        return over

    def on_disconnected(self) -> None:
        # Of several connections without a registration in between, each report counts.
        self.before.update(self.now)
        self.now = {}


class Notices:
    """The notices of heads, each of which a mission hands on once.

    Attributes:
        arrived: requests that cannot start, by number, with the reason; workers of other versions;
            groups with several maxima; troubles of the head; and tasks whose workers are away. To
            be emptied by `taken`.
    """

    def __init__(self) -> None:
        self.arrived: list[_Notice] = []
        self._stuck: _Holding[int, Unschedulable] = _Holding()
        self._troubles: _Holding[str, Trouble] = _Holding()
        self._versions: set[Versions] = set()
        self._groups: set[str] = set()

    @property
    def stuck(self) -> dict[int, Unschedulable]:
        """The last message about each request that no worker can meet, by its number."""
        return self._stuck.now

    def on_message(self, message: _Notice) -> None:
        """Handle a notice of the head."""
        match message:
            case Unschedulable():
                self._stuck.put(message.request, message, holds=bool(message.why))
            case OtherVersions():
                if message.versions in self._versions:
                    return  # another head has said so
                self._versions.add(message.versions)
            case SeveralMaxima():
                if message.group in self._groups or len(message.maxima) < 2:
                    return  # a connection before has said so, or there is nothing to say
                self._groups.add(message.group)
            case Trouble():
                self._troubles.put(message.what, message, holds=bool(message.why))
                if message.why and message.what in self._troubles.before:
                    return  # the head before has reported it, and it lasts
            case LastAway():
                pass
        self.arrived.append(message)

    def on_registered(self) -> None:
        """Take back what earlier heads have reported and this one has not repeated."""
        self.arrived += [Unschedulable(request, "") for request in self._stuck.on_registered()]
        self.arrived += [Trouble(what, "") for what in self._troubles.on_registered()]

    def on_disconnected(self) -> None:
        """End a connection: until the next head has answered, all reports may still hold."""
        self._stuck.on_disconnected()
        self._troubles.on_disconnected()
