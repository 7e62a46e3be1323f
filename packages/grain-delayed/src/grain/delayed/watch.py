"""Being told when the tasks behind a delayed object have ended, without awaiting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import outcome

from grain.delayed.graph import sources_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.graph import Node


class Watch:
    """Calls a function once, when the tasks of a node have ended; at once if they have.

    Args:
        node: what is watched.
        told: called without arguments, possibly in the executor's trio task: it must return soon
            and raise nothing.
        first_failure: whether one task that failed is enough, as it is for an await of the node.

    Attributes:
        pending: the tasks that it waits for.
    """

    __slots__ = ("_first_failure", "_missing", "_told", "pending")

    def __init__(
        self, node: Node, told: Callable[[], object], *, first_failure: bool = False
    ) -> None:
        self._told: Callable[[], object] | None = told
        self._first_failure = first_failure
        sources = sources_of([node])
        self.pending = [source for source in sources if source.outcome is None]
        self._missing = len(self.pending)
        failed = any(type(source.outcome) is outcome.Error for source in sources)
        if not self.pending or (failed and first_failure):
            self.pending = []
            self._tell()
        for source in self.pending:
            if source.waiting is None:
                source.waiting = [self]
            else:
                source.waiting.append(self)

    def arrived(self, ended: outcome.Value[Any] | outcome.Error) -> None:
        """One more task has ended."""
        self._missing -= 1
        if not self._missing or (self._first_failure and type(ended) is outcome.Error):
            self._tell()

    def stop(self) -> None:
        """Tell nothing any more, and leave nothing behind in the tasks that still run."""
        self._told = None
        for source in self.pending:
            if source.waiting is not None and self in source.waiting:
                source.waiting.remove(self)
        self.pending = []

    def _tell(self) -> None:
        told = self._told
        self.stop()
        if told is not None:
            told()
