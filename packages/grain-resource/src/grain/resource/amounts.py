"""Kinds without identities: memory, the number of tasks that a worker takes, and tags."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any, Literal

from grain.resource.base import Resource, with_usage
from grain.resource.identities import Cores

if TYPE_CHECKING:
    from typing_extensions import Self


class Amount(Resource):
    """A quantity, counted in whole units so that giving back restores exactly."""

    __slots__ = ("_owned", "_units")

    _units: int
    _owned: int

    @classmethod
    def _of_units(cls, units: int) -> Self:
        new = cls.__new__(cls)
        new._units = new._owned = units
        return new

    def _request(self, res: Self) -> bool:
        return res._units <= self._units

    def _alloc(self, res: Self) -> Self:
        self._units -= res._units
        return res

    def _dealloc(self, res: Self) -> None:
        if self._units + res._units > self._owned:
            raise ValueError(f"{res!r} was given back twice, or not allocated from here")
        self._units += res._units

    def _stat(self) -> tuple[int, int]:
        return (self._units, self._owned)

    def _level(self) -> int:
        return self._units

    def _slack(self, res: Self) -> float:
        return (self._units - res._units) / self._units if self._units else 0.0

    def _supplied(self) -> Self:
        return self._of_units(self._units)


_KB_PER_GB = 1_000_000


class Memory(Amount):
    """Virtual memory in GB, with a resolution of 1 kB (a millionth of a GB).

    Args:
        M: the amount, an int or a float; not negative.

    Attributes:
        M: GB; ``m`` is the same value.

    Raises:
        ValueError: M is negative, infinite or not a number.
        TypeError: M is not a number at all.
    """

    __slots__ = ()
    _kind = "Memory"
    _exports = ("M", "m")

    @with_usage(lambda _: "only the memory in GB, as in Memory(8)")
    def __init__(self, M: float) -> None:  # noqa: N803 - the user's name for it
        try:
            amount = float(M)
        except (TypeError, ValueError):
            amount = math.nan
        except OverflowError:
            amount = math.inf
        if isinstance(M, str | bytes | bool) or (amount != amount and not isinstance(M, float)):
            raise TypeError(
                f"Memory({M!r}): give the memory in GB as a number, as in {_corrected(M)}"
            )
        if not 0 <= amount * _KB_PER_GB < math.inf:
            raise ValueError(f"Memory({M!r}): memory in GB cannot be negative, infinite or NaN")
        units = round(amount * _KB_PER_GB)
        self._units = self._owned = units or (1 if amount else 0)

    @property
    def M(self) -> int | float:  # noqa: N802 - the user's name for it
        """GB; an int where it is a whole number."""
        whole, rest = divmod(self._units, _KB_PER_GB)
        return self._units / _KB_PER_GB if rest else whole

    m = M

    def _repr(self) -> str:
        return f"Memory({self.M}GB)"

    def _ask(self) -> str:
        return f"Memory({self.M})"

    def _data(self) -> int | float:
        return self.M


def _corrected(given: object) -> str:
    """Return what to write for an amount with a unit."""
    match = _WITH_UNIT.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return "Memory(8)"
    return f"Memory({float(match[1]) * _GB[match[2][:1].upper()]:g})"


_WITH_UNIT = re.compile(r" *([0-9]+(?:\.[0-9]+)?) *([KMGT]?)i?B? *", re.IGNORECASE)
_GB = {"": 1.0, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


class Capacity(Amount):
    """The number of tasks that a worker takes at a time, whatever else they need.

    A worker that states ``Capacity(V)`` runs at most V tasks at once: each task counts as one
    (``ONE_INSTANCE``) unless it asks for another share, as in ``Cores(1) & Capacity(2)``. A worker
    without it takes as many as its other resources allow.

    Attributes:
        V: the number.

    Raises:
        ValueError: V is negative.
        TypeError: V is not an integer.
    """

    __slots__ = ()
    _kind = "Capacity"
    _exports = ("V",)
    _unlimited_if_absent = True  # a worker that states no bound has none

    def __init__(self, V: int) -> None:  # noqa: N803 - as N and M
        try:
            units = operator.index(None if isinstance(V, bool) else V)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(f"Capacity({V!r}): a number of tasks is a whole number") from None
        if units < 0:
            raise ValueError(f"Capacity({V}): a number of tasks cannot be negative")
        self._units = self._owned = units

    @property
    def V(self) -> int:  # noqa: N802 - as N and M
        """The number of tasks."""
        return self._units

    def _repr(self) -> str:
        return f"Capacity({self.V})"

    def _data(self) -> Any:
        return self.V


ONE_INSTANCE = Capacity(1)
Capacity._implied = ONE_INSTANCE


class Token(Resource):
    """A tag: a task that carries one runs only on a worker with exactly that one.

    Any number of tasks may carry it at once, and a worker with a token also takes tasks without.

    Attributes:
        token: the tag.

    Raises:
        TypeError: the tag is not a str.
        ValueError: the tag is empty.
    """

    __slots__ = ("token",)
    _kind = "Token"
    _exports = ("token",)

    def __init__(self, token: str) -> None:
        if not isinstance(token, str):
            raise TypeError(f"Token({token!r}): a tag is a str")
        if not token:
            raise ValueError("Token(''): a tag cannot be empty")
        self.token = token

    def _request(self, res: Self) -> bool:
        return res.token == self.token

    def _alloc(self, res: Self) -> Self:
        return res

    def _dealloc(self, res: Self) -> None:
        pass

    def _repr(self) -> str:
        return f"Token({self.token!r})"

    def _stat(self) -> tuple[int, int]:
        return (1, 1)

    def _data(self) -> str:
        return self.token


@with_usage(lambda _: "Node(N=4, M=8), with the memory in GB, or Node() for a whole worker")
def Node(  # noqa: N802 - it stands for a resource class
    N: float | Literal["all"] = "all",  # noqa: N803
    M: float | None = None,  # noqa: N803
) -> Resource:
    """Return ``Cores(N) & Memory(M)``: N cores and M GB of memory.

    ``Node()`` is a whole worker: all of its cores, however many it has. ``Node(M=8)`` is one that
    has 8 GB free.
    """
    if M is not None:
        return Cores(N) & Memory(M)
    if N != "all":
        raise TypeError(
            f"Node({N!r}): write Node({N}, 8), with the memory in GB, or Cores({N}) for only the "
            "cores"
        )
    return Cores(N)
