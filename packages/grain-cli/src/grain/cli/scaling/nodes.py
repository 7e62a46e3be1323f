"""The nodes on which jobs fail in a row: rule 7."""

from __future__ import annotations

IN_A_ROW = 2
"""Failures in a row that a node may not have."""


class NodeWatch:
    """The nodes that jobs ran on, and those to be avoided."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._avoided: list[str] = []

    @property
    def avoided(self) -> tuple[str, ...]:
        """The nodes to be avoided, in the order of their last failures."""
        return tuple(self._avoided)

    def on_failed(self, node: str) -> bool:
        """Note that a job failed soon after its start; return True if its node is avoided now."""
        if not node or node in self._avoided:
            return False
        self._failures[node] = self._failures.get(node, 0) + 1
        if self._failures[node] < IN_A_ROW:
            return False
        self._avoided.append(node)
        return True

    def on_proven(self, node: str) -> None:
        """Note that a job has run there for a while."""
        self._failures.pop(node, None)
