"""A log in memory, for writers of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.eventlog.schema import AnyLine


class KeptLines:
    """Lines that were written; a flush that was asked for takes place when `flush` is called.

    Attributes:
        lines: the lines.
        offset: what is added to readings of the clock.
        clock_was_set: the answer to the question for it.
    """

    def __init__(self, offset: float = 0.0) -> None:
        self.lines: list[AnyLine] = []
        self.offset = offset
        self.clock_was_set = False
        self._reminders: list[Callable[[], None]] = []

    def time_of(self, reading: float) -> float:
        """See `grain.eventlog.writer.LogWriter`."""
        return self.offset + reading

    def clock_is_off(self) -> bool:
        """See there."""
        return self.clock_was_set

    def write(self, lines: Sequence[AnyLine]) -> None:
        """See there."""
        self.lines += lines

    def remind(self, flush: Callable[[], None]) -> None:
        """See there."""
        self._reminders.append(flush)

    def flush(self) -> bool:
        """Flush what was asked for; return False if nothing was."""
        reminders, self._reminders = self._reminders, []
        for reminder in reminders:
            reminder()
        return bool(reminders)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the lines of a kind."""
        return [line for line in self.lines if isinstance(line, kind)]
