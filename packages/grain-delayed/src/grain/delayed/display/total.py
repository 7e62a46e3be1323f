"""`Total`: the calls that a program will make in all, as far as it has said so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grain.worker.call import name_of

if TYPE_CHECKING:
    from typing import Any

    Stated = int | Mapping[Any, int]
    """The number of all calls, or that of each function by itself or its name."""


class Total:
    """The number of calls that there will be, and those of each function that were made.

    Args:
        stated: the number of all calls, or a mapping from function, or its name, to its number.

    Raises:
        TypeError: it is none of these.
        ValueError: a number is negative.
    """

    def __init__(self, stated: Stated) -> None:
        self.by_function = isinstance(stated, Mapping)
        self._stated: dict[str, int] = {}
        self._calls = 0
        self._made: Counter[str] = Counter()
        if not isinstance(stated, Mapping):
            self._calls = _count(stated, stated)
            return
        for function, calls in stated.items():
            if not isinstance(function, str) and not callable(function):
                raise TypeError(
                    f"total={stated!r}: give each function, or its name, and the number of its "
                    "calls"
                )
            # A delayed function has the name of the function that it was made of.
            name = function if isinstance(function, str) else name_of(_inner(function))
            self._stated[name] = _count(calls, stated)

    def note(self, function: str) -> None:
        """Count a call of a function that was made."""
        self._made[function] += 1

    @property
    def calls(self) -> int:
        """The number of all calls; for functions that were not named, the calls so far."""
        if not self.by_function:
            return self._calls
        names = self._stated.keys() | self._made.keys()
        return sum(max(self._stated.get(name, 0), self._made[name]) for name in names)

    def coming(self) -> dict[str, int]:
        """Return how many calls of each function are yet to be made, where that is known."""
        return {name: max(calls - self._made[name], 0) for name, calls in self._stated.items()}


def _inner(function: object) -> object:
    return getattr(function, "fn", function)


def _count(calls: object, stated: object) -> int:
    if isinstance(calls, bool) or not isinstance(calls, int):
        raise TypeError(
            f"total={stated!r}: give the number of all calls, or that of each function as in "
            "total={optimise: 600, energy: 600}"
        )
    if calls < 0:
        raise ValueError(f"total={stated!r}: a number of calls is not negative")
    return calls
