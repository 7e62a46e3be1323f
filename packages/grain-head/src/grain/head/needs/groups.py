"""All groups of a scheduler: what their requests ask for on the workers that are here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from grain.edge.questions import NeedRow
from grain.facts.needs import FinishedRun, usual
from grain.head.needs.group import LearningGroup, Terms
from grain.resource import Cores, Memory, learned
from grain.resource.figures import amount as gigabytes
from grain.resource.figures import several_maxima

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.resource import Resource

_UNKNOWN = 1.0
"""GB: the first amount of a group without a maximum, while no worker is here."""


class MemoryUse(msgspec.Struct, frozen=True, gc=False):
    """The use of a run: the peak of its memory in GB, and True if it needed more than it had."""

    peak: float
    exceeded: bool = False


class Needs:
    """The groups by name.

    Attributes:
        groups: those that were asked for, or whose runs have ended.
        largest: the memory in GB and the cores of the worker here that has most memory.
    """

    def __init__(self) -> None:
        self.groups: dict[str, LearningGroup] = {}
        self._forgotten = 0  # changes of groups that are not here any more
        self.largest = (0.0, 0.0)

    def group(self, name: str) -> LearningGroup:
        """Return a group, a new one at its first request."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = LearningGroup(name)
        return group

    @property
    def changes(self) -> int:
        """The number of times that a run of a group has ended, or a group was forgotten."""
        return self._forgotten + sum(map(_ends, self.groups.values()))

    def on_workers(self, totals: Iterable[Resource]) -> bool:
        """Note what the workers here have in all; return True if amounts may be others now."""
        largest = max(((_memory(total), _cores(total)) for total in totals), default=(0.0, 0.0))
        changed = largest != self.largest
        self.largest = largest
        return changed

    def amount(self, request: Resource) -> float:
        """Return the GB that the next attempt of a request in a group gets."""
        memory = learned(request)
        assert memory is not None
        assert memory.group is not None
        return _next(self.group(memory.group), self.terms(request), memory)

    def terms(self, request: Resource) -> Terms:
        """Return what a request in a group is worth here."""
        memory = learned(request)
        assert memory is not None
        most, cores = self.largest
        wanted = request.get(Cores)
        part = 1.0
        if isinstance(wanted, Cores) and not wanted.is_all and cores:
            part = min(wanted.N / cores, 1.0)
        maximum = self.maximum(memory)
        return Terms(most * part or maximum, maximum, memory.size or 0.0, most or math.inf)

    def maximum(self, memory: Memory) -> float:
        """Return the GB that no attempt of a request in a group goes beyond."""
        return memory.most if memory.most < math.inf else self.largest[0] or _UNKNOWN

    def forget(self, name: str) -> None:
        """Forget what a group has learned."""
        group = self.groups.pop(name, None)
        if group is not None:
            self._forgotten += _ends(group) + 1

    def row(self, name: str, request: Resource | None) -> NeedRow:
        """Return a group for display.

        Args:
            name: of the group.
            request: one that names it; None if none is here.
        """
        group = self.groups[name]
        middle, largest = usual(group.runs)
        return NeedRow(
            group=name,
            runs=group.finished,
            exceeded=group.exceeded,
            median=middle,
            largest=largest,
            asks=None if request is None else group.amount(self.terms(request)),
            text="" if request is None else self.explain(request),
            maxima=group.maxima if len(group.maxima) > 1 else (),
        )

    def disagreement(self, name: str) -> str:
        """Return in a sentence that requests of a group have several maxima; "" if they have one.

        Those that no request has any more count until the group is forgotten.
        """
        group = self.groups.get(name)
        if group is None or len(group.maxima) < 2:
            return ""
        return several_maxima(name, group.maxima)

    def explain_given(self, request: Resource, given: Memory) -> str:
        """Return in one line what a run of a request in a group has got, and why."""
        attempt, failed = given.tried
        got = f"it got {gigabytes(given.M)} GB"
        if attempt > 1:
            return (
                f"{got} in attempt {attempt} of its group {given.group}, as {gigabytes(failed)} GB "
                "were too little"
            )
        now = self.explain(request)
        if given.M == given.given(self.amount(request)).M:
            return now
        return f"{got}, as its group {given.group} asked for then; now {now}"

    def explain(self, request: Resource) -> str:
        """Return in one line what a request in a group asks for, and why."""
        memory = learned(request)
        assert memory is not None
        assert memory.group is not None
        terms = self.terms(request)
        attempt, failed = memory.tried
        if attempt > 1:
            asked = self.amount(request)
            text = (
                f"{memory.group} asks for {gigabytes(asked)} GB in attempt {attempt}, as "
                f"{gigabytes(failed)} GB were too little"
            )
            if asked > terms.worker:
                text += f". That is more than any worker here has ({gigabytes(terms.worker)})"
            return text
        text = self.group(memory.group).explain(terms)
        if terms.maximum > terms.worker:
            text += (
                f". Its maximum, {terms.maximum:g} GB, is more than any worker here has "
                f"({terms.worker:g}): a run that needs more than that waits for a larger one"
            )
        return text


class LearnedMemory:
    """The memory of a request in a group, kept beside it so that each run costs little.

    What it has of the group and of the workers is true until `renew` is called.

    Args:
        needs: the groups.
        request: names a group.

    Attributes:
        group: the name of the group.
        amount: GB that the next attempt gets.
        memory: the same, as a part of a request. What is allocated by it has this very object.
    """

    __slots__ = (
        *("_after", "_asked", "_learning", "_maximum", "_most", "_needs", "_request", "_size"),
        *("_stated", "_terms", "_workers", "amount", "group", "memory"),
    )

    def __init__(self, needs: Needs, request: Resource, memory: Memory) -> None:
        assert memory.group is not None
        self._needs = needs
        self._request = request
        self._stated = memory
        self.group = memory.group
        self._size = memory.size or 0.0
        self._after = memory.tried[1]
        self.amount = self._asked = -1.0
        self.memory = memory
        self._workers: tuple[float, float] | None = None
        self._learning = needs.group(self.group)
        self._learning.on_stated(memory.most)
        self.renew()

    @property
    def certain(self) -> bool:
        """True if the group asks for the maximum: that is found at once, and it may not wait."""
        return self._learning.guarded or self._learning.obeys

    def renew(self) -> bool:
        """Set the amount to what the group needs now; return True if it is another one."""
        needs = self._needs
        learning = needs.group(self.group)
        if learning is not self._learning:  # that was forgotten
            self._learning = learning
            learning.on_stated(self._stated.most)
        if self._workers is not needs.largest:
            self._workers = needs.largest
            self._terms = needs.terms(self._request)
            self._maximum, self._most = self._terms.maximum, self._terms.most
        asked = _next(self._learning, self._terms, self._stated)
        last = asked >= self._maximum
        if asked == self._asked and last is self.memory.last:  # most often
            return False
        self._asked = asked
        memory = self._stated.given(asked, last=last)
        if self.amount == memory.M and last is self.memory.last:
            return False
        self.amount = float(memory.M)
        self.memory = memory
        return True

    def on_ended(self, had: Resource | None, use: MemoryUse, seconds: float) -> bool:
        """Count a run of the request; return True if amounts of its group may be others now.

        Args:
            had: the memory that it had.
            use: what it has used.
            seconds: how long it ran.
        """
        if had is self.memory:  # most often
            amount = self.amount
        elif isinstance(had, Memory):
            amount = float(had.M)
        else:
            return False
        if use.exceeded:
            return self._learning.on_exceeded(amount, seconds, self._size, self._after)
        run = FinishedRun(use.peak, amount, seconds, self._size)
        # What no worker has would never have been taken.
        return self._learning.on_finished(run, self._most, self._after)


def _next(group: LearningGroup, terms: Terms, memory: Memory) -> float:
    """Return the GB that the next attempt of a request gets, whose memory names the group."""
    attempt, failed = memory.tried
    if attempt == 1:
        return group.amount(terms)
    after = group.amount_after(terms, failed, attempt)
    # The maximum of a group without one has become less since, as a worker has left.
    return terms.maximum if after is None else after


def _ends(group: LearningGroup) -> int:
    return group.finished + group.exceeded


def _memory(total: Resource) -> float:
    part = total.get(Memory)
    return float(part.M) if isinstance(part, Memory) else 0.0


def _cores(total: Resource) -> float:
    part = total.get(Cores)
    return float(part.N) if isinstance(part, Cores) else 0.0
