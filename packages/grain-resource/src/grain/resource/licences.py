"""`Licences`: what the whole cluster has so many of, whichever worker a task runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from grain.resource.base import Resource

if TYPE_CHECKING:
    from typing_extensions import Self


class Licences(Resource):
    """Licences of a program, connections of a database, streams of a file server: a number of them.

    ``Licences(2)``; where there are several sorts, by their names: ``Licences(vasp=1, orca=2)``, or
    ``Licences({"vasp-6": 1})`` for names that are not Python's. ``Licences("vasp")`` is one, and
    ``Licences("vasp:2")`` are two, as a word of a command line.

    Most often the scheduler owns them for the whole cluster, as ``[head.res]`` of grain.toml says.
    A worker may have some of its own instead.

    Args:
        number: how many; or by name, how many of each; or one such name as a word.
        named: the same by keyword.

    Attributes:
        counts: how many of each sort, by name; that without a name is ``""``.

    Raises:
        ValueError: a number is negative, a name is empty, or there is no number at all.
        TypeError: a number is not an integer, or a name is not a str.
    """

    __slots__ = ("_owned", "counts")
    _kind = "Licences"
    _exports = ()  # res.get(Licences).counts; another kind may have an attribute of this name

    counts: dict[str, int]

    def __init__(
        self, number: int | str | Mapping[str, int] | None = None, /, **named: int
    ) -> None:
        counts = dict(named)
        if isinstance(number, str):
            number = _by_name(number)
        if isinstance(number, Mapping):
            if "" in number:
                raise ValueError(f"Licences({dict(number)!r}): a sort of licences has a name")
            counts = {**number, **named}
        elif number is not None:
            counts = {"": number, **named}
        if not counts:
            raise ValueError("Licences(): say how many, as in Licences(1) or Licences(vasp=1)")
        for name, count in counts.items():
            shown = f"{name}={count!r}" if name else repr(count)
            if not isinstance(name, str):
                raise TypeError(f"Licences: {name!r} is not the name of a sort of licences")
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"Licences({shown}): a number of licences is a whole number")
            if count < 0:
                raise ValueError(f"Licences({shown}): a number of licences cannot be negative")
        if "" in counts and len(counts) > 1:
            raise ValueError(
                "Licences: either all of them have a name, as in Licences(vasp=1, orca=2), or there "
                "is one sort without a name"
            )
        self.counts = dict(sorted(counts.items()))
        self._owned = sum(counts.values())

    def owe(self, res: Self, times: int = 1) -> None:
        """Take out of this supply what it may not have: it hands out none until that is back."""
        for name, count in res.counts.items():
            if count:
                self.counts[name] = self.counts.get(name, 0) - count * times

    def _request(self, res: Self) -> bool:
        own = self.counts
        return all(count <= own.get(name, 0) or not count for name, count in res.counts.items())

    def _alloc(self, res: Self) -> Self:
        self.owe(res)
        return res

    def _dealloc(self, res: Self) -> None:
        if sum(self.counts.values()) + sum(res.counts.values()) > self._owned:
            raise ValueError(f"{res!r} was given back twice, or not allocated from here")
        self.owe(res, -1)

    def _repr(self) -> str:
        if "" in self.counts:
            return f"Licences({self.counts['']})"
        if all(name.isidentifier() for name in self.counts):
            return f"Licences({', '.join(f'{name}={n}' for name, n in self.counts.items())})"
        return f"Licences({self.counts!r})"

    def _stat(self) -> tuple[int, int]:
        return (max(sum(self.counts.values()), 0), self._owned)

    def _data(self) -> int | dict[str, int]:
        return self.counts.get("", 0) if "" in self.counts else dict(self.counts)

    def _supplied(self) -> Self:
        new = type(self).__new__(type(self))
        new.counts, new._owned = dict(self.counts), sum(self.counts.values())
        return new


def _by_name(word: str) -> dict[str, int]:
    """Return the number of one sort of licences that a word states."""
    name, colon, count = word.partition(":")
    if not name or (colon and not (count.isascii() and count.isdigit())):
        raise ValueError(f"Licences({word!r}): write a name, or a name and a number, as vasp:2")
    return {name: int(count) if colon else 1}
