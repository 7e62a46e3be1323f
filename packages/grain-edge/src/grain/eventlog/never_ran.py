"""Tasks that ended, or were left, without any run: how many there are, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIME = "WTime"  # a limit, which is not used up
_OFFERS = 1000  # different offers that are remembered

Amounts = tuple[tuple[str, float], ...]

CANCELLED, ENDED, WAITING = "cancelled", "ended", "waiting"
"""Ways in which a task came to never run: its caller cancelled it; it failed; it waited on."""

_OTHERWISE = {
    CANCELLED: "cancelled while waiting",
    ENDED: "ended before any run began",
    WAITING: "still waiting at the end",
}


class NeverRan:
    """The tasks that never ran, by what they asked for, and what workers offered meanwhile.

    Memory grows with different requests and offers, not with tasks.

    Args:
        among: others, whose workers are those of these.

    Attributes:
        all_workers: True if the log has all workers that were there. The log of a mission that
            shares workers has only the workers that took its tasks: others may have been busy all
            the time.
    """

    def __init__(self, among: NeverRan | None = None) -> None:
        self.all_workers: bool = True if among is None else among.all_workers
        self._offers: set[Amounts] = set() if among is None else among._offers
        self._tasks: Counter[tuple[Amounts, str]] = Counter()

    @property
    def tasks(self) -> int:
        """The number of tasks that never ran."""
        return self._tasks.total()

    def offered(self, resources: Mapping[str, float]) -> None:
        """Record what a worker offers."""
        if len(self._offers) < _OFFERS:
            self._offers.add(tuple(sorted(resources.items())))

    def add(self, request: Mapping[str, float], how: str = CANCELLED) -> None:
        """Count a task that never ran.

        Args:
            how: `CANCELLED`, `ENDED` or `WAITING`.
        """
        self._tasks[tuple(request.items()), how] += 1

    def add_any(self, alternatives: Sequence[Mapping[str, float]], how: str = CANCELLED) -> None:
        """Count a task that asked for one of several: by the first that some worker offered."""
        fitting = (one for one in alternatives if self.fits(one))
        self.add(next(fitting, alternatives[0]), how)

    def fits(self, request: Mapping[str, float]) -> bool:
        """Return True if some worker offered what a task asks for."""
        return any(_has(dict(offer), request) for offer in self._offers)

    def reasons(self, *, called_off: bool = True) -> dict[str, int]:
        """Return how many tasks never ran for which reason, the most frequent first.

        Args:
            called_off: False to leave out those for which there was room, and whose caller
                cancelled them.
        """
        counts: Counter[str] = Counter()
        for (request, how), tasks in self._tasks.items():
            if (lack := self._lack(dict(request))) or called_off or how != CANCELLED:
                counts[lack or _OTHERWISE[how]] += tasks
        return dict(counts.most_common())

    def _lack(self, request: Mapping[str, float]) -> str:
        """Return what every worker lacked for a request; nothing if one had it all."""
        if not self._offers:
            return "no worker was there" if self.all_workers else "no worker took a task"
        lack = "no worker had" if self.all_workers else "no worker that took other tasks had"
        lacking = self.lacking(request)
        return lacking and f"{lack} {lacking}"

    def lacking(self, request: Mapping[str, float]) -> str:
        """Return, as a noun, what every worker lacks for a request; "" if one has it all."""
        if self.fits(request):
            return ""
        most: dict[str, float] = {}
        for offer in self._offers:
            for kind, amount in offer:
                most[kind] = max(amount, most.get(kind, 0.0))
        asked = {kind: amount for kind, amount in request.items() if kind != _TIME and amount > 0}
        if absent := [kind for kind in asked if not most.get(kind)]:
            return " or ".join(map(_noun, absent))
        if short := [kind for kind in asked if asked[kind] > most[kind]]:
            return " or ".join(_amount(kind, asked[kind]) for kind in short)
        return f"{' and '.join(_amount(kind, asked[kind]) for kind in asked)} at once"


def sentences(reasons: Mapping[str, int]) -> list[str]:
    """Return a sentence for each of `NeverRan.reasons`.

    >>> sentences({"no worker had GPUs": 6})
    ['6 tasks never ran: no worker had GPUs']
    """
    return [f"{counted(tasks, 'task')} never ran: {reason}" for reason, tasks in reasons.items()]


def _has(offer: Mapping[str, float], request: Mapping[str, float]) -> bool:
    return all(offer.get(kind, 0.0) >= amount for kind, amount in request.items() if kind != _TIME)


def _noun(kind: str) -> str:
    return {"Cores": "cores", "Memory": "memory"}.get(kind, kind)


def _amount(kind: str, amount: float) -> str:
    return f"{amount:g} GB of memory" if kind == "Memory" else f"{amount:g} {_noun(kind)}"
