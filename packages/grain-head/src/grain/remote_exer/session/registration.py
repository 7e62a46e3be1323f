"""`Registration`: a mission as its heads know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from grain.edge.mission_ids import lasts

if TYPE_CHECKING:
    from grain.head.messages import MissionRegistered, RegisterMission
    from grain.worker.messages import Disconnect

_CONNECTIONS = 2**32  # more than one process ever makes


class Registration:
    """The registration of a mission, which each connection repeats, and the answers to it.

    Args:
        message: it, but for the number of its connection.
        generation: of a lasting mission, the number of this process of it.

    Attributes:
        lasts: True if the mission is a lasting one, by its id.
        label: the mission's name in commands, as its head has it.
        epoch: the head's number; 0 before the first head has registered the mission.
        answer: the last answer to the registration; None again once it was reported.
        disconnect: why the head has ended the connection; None again once the link has read it.
    """

    def __init__(self, message: RegisterMission, generation: int = 0) -> None:
        self.message = message
        self.lasts = lasts(message.mission)
        self.label = message.name
        self.epoch = 0
        self.answer: MissionRegistered | None = None
        self.disconnect: Disconnect | None = None
        # A head takes a connection with a larger number for the later one: those of the next
        # process of a lasting mission are later than all of this.
        self._connections = generation * _CONNECTIONS

    def rename(self, id: str) -> None:  # noqa: A002 - its name
        """Take another id."""
        self.message = msgspec.structs.replace(self.message, mission=id)

    def next(self) -> RegisterMission:
        """Return the message that begins another connection."""
        self._connections += 1
        return msgspec.structs.replace(self.message, connection=self._connections)

    def on_registered(self, answer: MissionRegistered) -> None:
        """Record that a head has all tasks of the mission."""
        self.epoch = answer.epoch
        self.label = answer.label or self.message.name
        self.answer = answer
