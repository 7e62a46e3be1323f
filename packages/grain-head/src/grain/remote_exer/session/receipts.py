"""`Receipts`: the outcomes that a mission has, and has yet to confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import AckTasks

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = 65536
"""Tasks in one message: at nine bytes each they fit."""


class Receipts:
    """The outcomes that have arrived on a connection and are not confirmed.

    Attributes:
        arrived: their tasks, also those that had an outcome before: their workers keep it until it
            is confirmed.
        retried: those of them that have failed and are tried again. It outlives a connection, as
            their outcomes arrive again on the next one.
    """

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self.retried: set[int] = set()

    def take(self) -> Iterator[AckTasks]:
        """Yield the messages that confirm all of them, once."""
        tasks, self.arrived = self.arrived, []
        again = []
        if self.retried:
            again = [task for task in tasks if task in self.retried]
            tasks = [task for task in tasks if task not in self.retried]
            self.retried.difference_update(again)
        for at in range(0, len(again), AT_ONCE):
            yield AckTasks((), tuple(again[at : at + AT_ONCE]))
        for at in range(0, len(tasks), AT_ONCE):
            yield AckTasks(tuple(tasks[at : at + AT_ONCE]))
