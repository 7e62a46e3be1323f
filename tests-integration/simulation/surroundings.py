"""The parts of a world that each of its processes sees, whoever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from simulation.wire import End, Mail, Wire


class Passing(NamedTuple):
    """A state that is not to last.

    Attributes:
        law: the law.
        seconds: for which it may last.
        key: by which it is the same state as a second ago.
    """

    law: str
    seconds: float
    key: tuple[Any, ...]


class Judge(Protocol):
    """The observer that holds a world to its laws."""

    def demand(self, law: str, holds: object, what: object = "") -> None:
        """Raise an exception if a law does not hold."""


class Post(Protocol):
    """The office that carries messages, as far as faults let it."""

    def post(self, sender: End, wire: Wire, to: End, mail: Mail) -> None:
        """Send messages; perhaps cut the wire, or kill the sender."""
