"""The meeting as a head and its diallers need it: with a meeting file, or at a bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grain.edge.meeting.block import MeetingRecord


class MeetingPlace(Protocol):
    """A meeting, where a head shows how it is reached.

    A head becomes its leader by a `claim`, which is each place's own: a file is claimed by its
    process, which others can look for, and a bridge by a connection.

    Attributes:
        path: a name of the meeting, for messages and logs.
        directory: a name of the place that peers have to reach, likewise.
    """

    path: str
    directory: str

    async def read(self) -> MeetingRecord:
        """Return the record of the head that leads, or that has led.

        Raises:
            MeetingError: there is none, or the place is not reached.
        """

    async def changed(self) -> None:
        """Wait until something was published, as far as this host learns of it by itself.

        It may never return: look from time to time. Cancel it when you have waited enough.
        """

    async def prepare(self) -> None:
        """Check that a head could lead here; claims nothing.

        Raises:
            MeetingError: it could not.
        """

    async def publish(self, record: MeetingRecord) -> None:
        """Show the head's record.

        Raises:
            Superseded: another head leads.
            MeetingError: it cannot be shown, and will not be by itself.
        """

    async def watch(self, record: MeetingRecord) -> None:
        """Check once that the head still leads, and repair what is missing or wrong.

        Raises:
            Superseded: another head leads.
            MeetingError: the place did not answer.
        """

    async def check(self, record: MeetingRecord) -> None:
        """Check that peers find the head.

        Raises:
            Superseded: another head leads.
            MeetingError: they do not.
        """
