"""Kinds without identities: memory, the number of tasks that a worker takes, licences, and labels.

The labels are tags and hosts, of which nothing is used up.
"""

from __future__ import annotations

import copy
import math
import operator
import re
from collections.abc import Mapping
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal

from grain.resource.base import Resource, with_usage
from grain.resource.identities import Cores

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_KB_PER_MB = 1_000


class Memory(Amount):
    """Memory in GB, with a resolution of 1 kB (a millionth of a GB).

    A request may name a group of tasks that need similar amounts. Then the scheduler learns from
    the runs of the group how much to ask for, and M is the most that an attempt gets:
    ``Memory(32, group="opt")``. A run that needs more than it got is repeated with more, up to M.

    Args:
        M: the amount, an int or a float; not negative. With a group it may be left out: then the
            memory of the largest worker is the most.
        group: the name of the group.
        size: the size of this problem in any unit, such as its number of atoms, if the memory of
            the group's tasks grows with it; a positive number.

    Attributes:
        M: GB; ``m`` is the same value. None for a request that names a group and no amount.
        group: the group, or None.
        size: the size, or None.
        tried: for a further attempt: the number of the attempt to come, and the GB that were too
            little; (1, 0.0) for the first.
        last: of what an attempt of a group has got: True if no worker had more, or none may have.

    Raises:
        ValueError: M is negative, infinite or not a number, or 0 in a group; the size is not
            positive; or there is a size without a group.
        TypeError: M or the size is not a number at all, the group is not a name, or there is
            neither M nor a group.
    """

    __slots__ = ("_stated", "group", "last", "size", "tried")
    _kind = "Memory"
    _exports = ("M", "m")
    # Slots that only requests of a group set.
    group: str | None
    size: float | None
    tried: tuple[int, float]
    last: bool
    _stated: bool

    @with_usage(lambda _: "the memory in GB, as in Memory(8), or Memory(8, group='opt')")
    def __init__(
        self,
        M: float | None = None,  # noqa: N803 - the user's name for it
        *,
        group: str | None = None,
        size: float | None = None,
    ) -> None:
        if group is not None and not isinstance(group, str):
            raise TypeError(f"Memory(group={group!r}): a group is a name, a str")
        if M is None and group is None:
            raise TypeError("Memory(None): give the memory in GB as a number, as in Memory(8)")
        if group is not None and M == 0:
            raise ValueError(
                f"Memory(0, group={group!r}): state the most that a run may get; without a number, "
                "it is the memory of the largest worker"
            )
        if group is not None and (not group or group != group.strip()):
            raise ValueError(
                f"Memory(group={group!r}): a group is a name, without blanks around it"
            )
        self._units = self._owned = 0 if M is None else _units(M)
        self._stated = M is not None
        self.group = group
        self.size = None if size is None else _size(size, group)
        self.tried = FIRST_TRY
        self.last = False

    @classmethod
    def _of_units(cls, units: int) -> Self:
        new = super()._of_units(units)
        new._stated, new.group, new.size, new.tried = True, None, None, FIRST_TRY
        new.last = False
        return new

    @property
    def M(self) -> int | float:  # noqa: N802 - the user's name for it
        """GB; an int where it is a whole number. Of a group without a maximum: 0."""
        whole, rest = divmod(self._units, _KB_PER_GB)
        return self._units / _KB_PER_GB if rest else whole

    m = M

    @property
    def most(self) -> float:
        """The GB that no attempt goes beyond; infinite for a group without an amount."""
        return float(self.M) if self._stated else math.inf

    def given(self, amount: float, *, last: bool = False) -> Memory:
        """Return what an attempt of this request gets: an amount in GB, still of its group."""
        new = Memory(amount, group=self.group, size=self.size)
        new.tried = self.tried
        new.last = last
        return new

    def after(self, failed: float, *, last: bool = False) -> Memory | None:
        """Return the request of the next attempt, after one for which some GB were too little.

        Args:
            failed: what it had, in GB.
            last: as of what it had.

        Returns:
            None if that was the most that an attempt gets, or the last of the attempts.
        """
        if last or failed >= self.most or self.tried[0] >= LAST_ATTEMPT:
            return None
        new = copy.copy(self)
        new.tried = (self.tried[0] + 1, failed)
        return new

    def _repr(self) -> str:
        amount = [f"{self.M}GB"] if self._stated else []
        return f"Memory({', '.join(amount + self._words())})"

    def _ask(self) -> str:
        amount = [f"{self.M}"] if self._stated else []
        return f"Memory({', '.join(amount + self._words())})"

    def _variables(self, worker: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        return {"GRAIN_MEMORY_MB": str(self._units // _KB_PER_MB)} if self._stated else {}

    def _words(self) -> list[str]:
        words = [] if self.group is None else [f"group={self.group!r}"]
        return words if self.size is None else [*words, f"size={self.size:g}"]

    def _data(self) -> Any:
        """Return the amount; with a group a dict of what is stated."""
        if self.group is None:
            return self.M
        data: dict[str, Any] = {"M": self.M} if self._stated else {}
        data["group"] = self.group
        if self.size is not None:
            data["size"] = self.size
        if self.tried != FIRST_TRY:
            data["tried"] = list(self.tried)
        if self.last:
            data["last"] = True
        return data

    @classmethod
    def _from_data(cls, data: Any) -> Self:
        if isinstance(data, str) and (match := _OF_GROUP.fullmatch(data)):
            return cls(float(match[2]) if match[2] else None, group=match[1])
        if not isinstance(data, dict):
            if isinstance(data, str) and (match := _NAME.match(data)):
                name = match[0]
                raise ValueError(
                    f"write {name}:32 to have the memory learned in the group {name}, 32 GB at "
                    f"most; or {name}: for as much as the largest worker has"
                )
            return cls(data)
        given = dict(data)
        tried, last = given.pop("tried", FIRST_TRY), given.pop("last", False)
        new = cls(**given)
        new.last = bool(last)
        number, failed = tried
        new.tried = (operator.index(number), float(failed))
        later = 1 < new.tried[0] <= LAST_ATTEMPT and 0 < new.tried[1] < math.inf
        if new.tried != FIRST_TRY and not later:
            raise ValueError(f"Memory(tried={tried!r}): there is no such attempt")
        return new


FIRST_TRY = (1, 0.0)

LAST_ATTEMPT = 5
"""The attempt of a request of a group that gets the most, after which there is none."""

AUTO = "auto"
"""The group of a command line that stands for the name of its command."""

# As opt:32 in a list of Kind=value; without a number, the largest worker has the most.
_NAME = re.compile(r"[A-Za-z_][\w.+-]*")
_OF_GROUP = re.compile(rf"({_NAME.pattern}):(\d+(?:\.\d*)?|\.\d+)?")


def with_group(data: Any, name: str) -> Any:
    """Return a request as plain data, in which the group `AUTO` has another name."""
    if isinstance(data, list | tuple):
        return [with_group(one, name) for one in data]
    if not isinstance(data, dict):
        return data
    made = {key: with_group(value, name) for key, value in data.items()}
    memory = made.get("Memory")
    if isinstance(memory, dict) and memory.get("group") == AUTO:
        made["Memory"] = {**memory, "group": name}
    return made


def _units(M: object) -> int:  # noqa: N803 - the user's name for it
    try:
        amount = float(M)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        amount = math.nan
    except OverflowError:
        amount = math.inf
    if isinstance(M, str | bytes | bool) or (amount != amount and not isinstance(M, float)):
        raise TypeError(f"Memory({M!r}): give the memory in GB as a number, as in {_corrected(M)}")
    if not 0 <= amount * _KB_PER_GB < math.inf:
        raise ValueError(f"Memory({M!r}): memory in GB cannot be negative, infinite or NaN")
    return round(amount * _KB_PER_GB) or (1 if amount else 0)


def _size(size: object, group: str | None) -> float:
    try:
        # A text is not a number, though `float` reads one.
        given: Any = None if isinstance(size, str | bytes | bool) else size
        number = float(given)
    except (TypeError, ValueError):
        raise TypeError(f"Memory(size={size!r}): the size of a problem is a number") from None
    except OverflowError:
        raise ValueError(
            f"Memory(size=...): this number is beyond {float_info.max:.1e}: state the size of the "
            "problem in a larger unit"
        ) from None
    if not 0 < number < math.inf:
        raise ValueError(
            f"Memory(size={number:g}): the size of a problem is a positive number, as its atoms"
        )
    if group is None:
        raise ValueError(
            f"Memory(size={size!r}): a size says how the memory of a group grows; name the group, "
            'as in Memory(32, group="opt", size=120)'
        )
    return number


def _corrected(given: object) -> str:
    """Return what to write for an amount with a unit."""
    match = _WITH_UNIT.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return "Memory(8)"
    return f"Memory({float(match[1]) * _GB[match[2][:1].upper()]:g})"


_WITH_UNIT = re.compile(r" *([0-9]+(?:\.[0-9]+)?) *([KMGT]?)i?B? *", re.IGNORECASE)
_GB = {"": 1.0, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


def learned(request: Resource) -> Memory | None:
    """Return the memory of a request, or of each member, if it is of a group; else None."""
    part = request.parts().get(Memory._kind)
    return part if isinstance(part, Memory) and part.group is not None else None


def learns(request: Resource) -> bool:
    """Return True if a request, or one of its alternatives, is of a group that learns a part."""
    return any(
        learned(one) is not None or getattr(one.parts().get("WTime"), "group", None) is not None
        for one in request.alternatives()
    )


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
                "Licences: either all of them have a name, as in Licences(vasp=1, orca=2), or "
                "there is one sort without a name"
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

    def _variables(self, worker: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        words = [f"{name}:{n}" if name else str(n) for name, n in self.counts.items()]
        return {"GRAIN_LICENCES": ",".join(words)}

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


class _Label(Resource):
    """A property of a worker, of which nothing is used up."""

    __slots__ = ()

    def _alloc(self, res: Self) -> Self:
        return res

    def _dealloc(self, res: Self) -> None:
        pass

    def _stat(self) -> tuple[int, int]:
        return (1, 1)


class Token(_Label):
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

    def _repr(self) -> str:
        return f"Token({self.token!r})"

    def _data(self) -> str:
        return self.token


class Host(_Label):
    """The host of a worker: a task that names hosts runs only on one of them.

    A worker offers its own, without a domain. As the scheduler treats workers alike that offer the
    same, each host is then looked at by itself. A task on several workers has one on each host that
    it names before it has two on any.

    Args:
        names: one of these hosts; empty for any host but `exclude`.
        exclude: none of these.
        others: True for a task on several workers that takes other hosts, too, once it has `names`.

    Attributes:
        names: the hosts.
        exclude: the hosts that it does not take.
        others: True if other hosts do, too.

    Raises:
        TypeError: a name is not a str.
        ValueError: it names no host, or `names` and `exclude` both do, without `others`.
    """

    __slots__ = ("exclude", "names", "others")
    _kind = "Host"
    _exports = ()

    def __init__(
        self,
        names: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        others: bool = False,
    ) -> None:
        self.names = (names,) if isinstance(names, str) else tuple(names)
        self.exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        self.others = others
        given = (*self.names, *self.exclude)
        if not all(isinstance(name, str) for name in given):
            raise TypeError(f"Host({names!r}, {exclude!r}): the name of a host is a str")
        one_of_both = self.names if others else bool(self.names) != bool(self.exclude)
        if not all(given) or not one_of_both:
            raise ValueError("write Host('n1'), Host(['n1', 'n2']) or Host(exclude=['n3'])")

    def _request(self, res: Self) -> bool:
        if len(self.names) != 1:
            return False  # no worker is on several
        any_other = res.others or bool(res.exclude)
        return self.names[0] in res.names or (any_other and self.names[0] not in res.exclude)

    def _alloc(self, res: Self) -> Self:  # noqa: ARG002 - it is one of these
        return self

    def _repr(self) -> str:
        words = {"names": self.names, "exclude": self.exclude}
        shown = [
            f"{'exclude=' * (word == 'exclude')}{names[0] if len(names) == 1 else list(names)!r}"
            for word, names in words.items()
            if names
        ]
        return f"Host({', '.join([*shown, *['others=True'] * self.others])})"

    def _data(self) -> Any:
        names = self.names[0] if len(self.names) == 1 else list(self.names)
        if not self.exclude and not self.others:
            return names
        found: dict[str, Any] = {"names": names} if self.names else {}
        found |= {"exclude": list(self.exclude)} if self.exclude else {}
        return found | ({"others": True} if self.others else {})


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
