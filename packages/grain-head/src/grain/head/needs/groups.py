"""All groups of a scheduler: what their requests ask for on the workers that are here."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from grain.edge.questions import NeedRow
from grain.head.needs.group import FinishedRun, LearningGroup, Terms
from grain.resource import Cores, Memory, learned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.resource import Resource

_UNKNOWN = 1.0
"""GB: the first amount of a group without a maximum, while no worker is here."""


class MemoryUse(NamedTuple):
    """The use of a run: the peak of its memory in GB, and True if it needed more than it had."""

    peak: float
    exceeded: bool = False


class Needs:
    """The groups by name.

    Attributes:
        groups: those that were asked for, or whose runs have ended.
        changes: how often what they have learned has changed.
    """

    def __init__(self) -> None:
        self.groups: dict[str, LearningGroup] = {}
        self.changes = 0
        # The memory and the cores of the worker here that has most memory.
        self._largest = (0.0, 0.0)

    def group(self, name: str) -> LearningGroup:
        """Return a group, a new one at its first request."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = LearningGroup(name)
        return group

    def on_workers(self, totals: Iterable[Resource]) -> bool:
        """Note what the workers here have in all; return True if amounts may be others now."""
        largest = max(((_memory(total), _cores(total)) for total in totals), default=(0.0, 0.0))
        changed = largest != self._largest
        self._largest = largest
        return changed

    def amount(self, request: Resource) -> float:
        """Return the GB that the next attempt of a request in a group gets."""
        memory = learned(request)
        assert memory is not None
        assert memory.group is not None
        group, terms = self.group(memory.group), self.terms(request)
        attempt, failed = memory.tried
        if attempt == 1:
            return group.amount(terms)
        after = group.amount_after(terms, failed, attempt)
        # The maximum of a group without one has become less since, as a worker has left.
        return terms.maximum if after is None else after

    def terms(self, request: Resource) -> Terms:
        """Return what a request in a group is worth here."""
        memory = learned(request)
        assert memory is not None
        most, cores = self._largest
        wanted = request.get(Cores)
        part = 1.0
        if isinstance(wanted, Cores) and not wanted.is_all and cores:
            part = min(wanted.N / cores, 1.0)
        maximum = self._maximum(memory)
        return Terms(most * part or maximum, maximum, memory.size or 0.0, most or math.inf)

    def _maximum(self, memory: Memory) -> float:
        return memory.most if memory.most < math.inf else self._largest[0] or _UNKNOWN

    def on_ended(
        self, request: Resource, held: Resource, use: MemoryUse, seconds: float
    ) -> str | None:
        """Count a run of a request in a group; return the group if its amounts may be others now.

        Args:
            request: of the run.
            held: what it had.
            use: what it has used.
            seconds: how long it ran.
        """
        memory, had = learned(request), held.get(Memory)
        if memory is None or memory.group is None or not isinstance(had, Memory):
            return None
        group, after = self.group(memory.group), memory.tried[1]
        self.changes += 1
        if use.exceeded:
            changed = group.on_exceeded(float(had.M), seconds, memory.size or 0.0, after)
        else:
            run = FinishedRun(use.peak, float(had.M), seconds, memory.size or 0.0)
            changed = group.on_finished(run, self._maximum(memory), after)
        return memory.group if changed else None

    def forget(self, name: str) -> None:
        """Forget what a group has learned."""
        if self.groups.pop(name, None) is not None:
            self.changes += 1

    def row(self, name: str, request: Resource | None) -> NeedRow:
        """Return a group for display.

        Args:
            name: of the group.
            request: one that names it; None if none is here.
        """
        group = self.groups[name]
        peaks = sorted(run.peak for run in group.runs)
        return NeedRow(
            group=name,
            runs=group.finished,
            exceeded=group.exceeded,
            median=median(peaks) if peaks else None,
            largest=peaks[-1] if peaks else None,
            asks=None if request is None else group.amount(self.terms(request)),
            text="" if request is None else group.explain(self.terms(request)),
        )

    def explain(self, request: Resource) -> str:
        """Return in one line what a request in a group asks for, and why."""
        memory = learned(request)
        assert memory is not None
        assert memory.group is not None
        attempt, failed = memory.tried
        if attempt > 1:
            return (
                f"{memory.group} asks for {self.amount(request):.3g} GB in attempt {attempt}, as "
                f"{failed:.3g} GB were too little"
            )
        terms = self.terms(request)
        text = self.group(memory.group).explain(terms)
        if terms.maximum > terms.worker:
            text += (
                f". Its maximum, {terms.maximum:g} GB, is more than any worker here has "
                f"({terms.worker:g}): a run that needs more than that waits for a larger one"
            )
        return text


def _memory(total: Resource) -> float:
    part = total.get(Memory)
    return float(part.M) if isinstance(part, Memory) else 0.0


def _cores(total: Resource) -> float:
    part = total.get(Cores)
    return float(part.N) if isinstance(part, Cores) else 0.0
