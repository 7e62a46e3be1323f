"""Cores and GPUs: requested by number, allocated by identity; and parts of one of them.

A supply is a mask of the ids that are wholly free. Most supplies, requests and allocations are only
that, and the scheduler's hot path knows nothing else. All else is in a `_More`, which few have: the
ids that are free in part, a wish, and the topology of a worker.
"""

from __future__ import annotations

import math
import numbers
import operator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from grain.resource.base import Resource, with_usage
from grain.resource.programs.gpus import gpu_variables
from grain.resource.programs.variables import SLOTS, THREADS
from grain.resource.topology import MOST, Topology, bits, lowest, mask_of, spans

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from typing_extensions import Self


_OF_CORES = ("GRAIN_CORES", *THREADS, *SLOTS)

_WHOLE = 1_000_000
"""The units of one core or GPU: parts are exact, in millionths."""


class _More(NamedTuple):
    """The rest of a resource beside the mask of whole ids. It is replaced, never changed.

    Attributes:
        parts: units by id, of ids that are free, asked for or held in part: more than none of one,
            and less than all.
        owned: of a supply, the same of ids that it never had whole.
        topology: of a supply, the ids that are near each other.
        stated: True if the topology is a part of the value, as a worker states it. In the account
            of what a worker has it is not, so accounts look alike with and without one.
        is_all: True for a request for whatever the worker has.
        spread: True for a request for ids that are far from each other.
    """

    parts: Mapping[int, int] = {}
    owned: Mapping[int, int] = {}
    topology: Topology | None = None
    stated: bool = False
    is_all: bool = False
    spread: bool = False


_NOTHING = _More()


class Identities(Resource):
    """Numbered things, such as cores or ports; subclass it for a kind of these.

    As a request only the number counts; as a supply, a number N stands for the ids 0 to N-1, and a
    number below 1 for a part of the id 0. A subclass may name one of them: ``_noun = "port"``.

    Args:
        N: as of `Cores`.
        spread: as of `Cores`.
    """

    # Of the ids, one bit each stands in ``_mask``, so that taking and giving back are exact.

    # The last one is there only if the resource was not stated by its ids.
    __slots__ = ("_mask", "_more", "_owned", "_stated")
    _kind = ""  # it has the interface, and yet only its subclasses are kinds

    _mask: int
    _owned: int
    _more: _More | None

    _noun: ClassVar[str] = "thing"
    _label: ClassVar[str] = ""  # in the text of an allocation, if it is not the name of the class
    _exports: ClassVar[tuple[str, ...] | None] = ()  # the names of the kinds below are theirs

    @with_usage(lambda _: "only the number, as in Cores(4) or GPUs(1)")
    def __init__(
        self,
        N: float | Literal["all"] | Iterable[int | list[float]],  # noqa: N803 - the user's name
        *,
        spread: bool = False,
    ) -> None:
        kind = type(self).__name__
        self._mask, self._more = _parsed(kind, self._noun, N)
        self._owned = self._mask
        if isinstance(N, str | numbers.Real) or hasattr(N, "__index__"):
            self._stated = True
        if spread:
            if self._more is not None or not self.by_number:
                raise ValueError(
                    f"{kind}({N!r}, spread=True): spread goes with a number of {self._noun}s, as "
                    f"in {kind}(4, spread=True)"
                )
            self._more = _More(spread=True)

    @classmethod
    def _of_mask(cls, mask: int, more: _More | None = None) -> Self:
        new = object.__new__(cls)
        new._mask = new._owned = mask
        new._more = more
        return new

    @property
    def N(self) -> int:  # noqa: N802 - the user's name for it
        """The number of them; one that is held in part counts as one."""
        more = self._more
        return self._mask.bit_count() + (0 if more is None else len(more.parts))

    @property
    def amount(self) -> int | float:
        """The number of them with the parts, such as 0.5 for half of one."""
        more = self._more
        if more is None or not more.parts:
            return self._mask.bit_count()
        return (self._mask.bit_count() * _WHOLE + sum(more.parts.values())) / _WHOLE

    @property
    def share(self) -> int | float:
        """The part of one that this is, such as 0.5; 1 if it is made of whole ones."""
        return self.amount if self._more is not None and self._more.parts else 1

    @property
    def is_all(self) -> bool:
        """True for a request for whatever the worker has; its number is 0."""
        return self._more is not None and self._more.is_all

    @property
    def by_number(self) -> bool:
        """True if no user chose the ids: ``Cores(2)``, not ``Cores([0, 1])``, its equal."""
        return hasattr(self, "_stated")

    @property
    def ids(self) -> list[int]:
        """The ids, ascending; also one of which there is only a part."""
        more = self._more
        return bits(self._mask if more is None else self._mask | mask_of(more.parts))

    def _request(self, res: Self) -> bool:
        if res._more is not None:
            return self._gives(res, res._more)
        return res._mask.bit_count() <= self._mask.bit_count()

    def _gives(self, res: Self, want: _More) -> bool:
        """Return True if this supply can hand out more than a number of whole ids."""
        if want.is_all:
            return self._all_free and bool(self.ids)
        new = self._begun(want)[1]
        return res._mask.bit_count() + new <= self._mask.bit_count()

    @property
    def _all_free(self) -> bool:
        more = self._more
        return self._mask == self._owned and (more is None or more.parts == more.owned)

    def _alloc(self, res: Self) -> Self:
        if self._more is not None or res._more is not None:
            got = self._choose(res)
            self._reclaim(got)
            return got
        # Attributes cost more than all else here, as the class has a `__getattr__`.
        free = self._mask
        n = res._mask.bit_count()
        # The lowest free ids, which most often are n in a row: n bits from the lowest free one on.
        taken = ((1 << n) - 1) * (free & -free)
        if taken & ~free:
            taken = lowest(free, n)
        self._mask = free ^ taken
        new = object.__new__(type(self))
        new._mask = new._owned = taken
        new._more = None
        return new

    def _choose(self, res: Self, prefer: int = 0) -> Self:
        """Return what a request would get now, without taking it.

        Args:
            prefer: ids that are taken before others.
        """
        want = res._more or _NOTHING
        if want.is_all:
            parts = (self._more or _NOTHING).parts
            return self._of_mask(self._mask, _More(parts, parts) if parts else None)
        taken = self._pick(self._mask, res._mask.bit_count(), want.spread, prefer)
        if not want.parts:
            return self._of_mask(taken)
        begun, new = self._begun(want)
        opened = bits(self._pick(self._mask & ~taken, new, want.spread, prefer))
        held = {opened[one] if one < 0 else one: units for one, units in begun.items()}
        mask, more = _of_units(held)
        return self._of_mask(taken | mask, more)

    def _pick(self, free: int, n: int, spread: bool, prefer: int) -> int:
        """Return ``n`` of some free ids."""
        topology = (self._more or _NOTHING).topology
        choose = lowest if topology is None else topology.spread if spread else topology.compact
        near = free & prefer
        if not near:
            return choose(free, n)
        if near.bit_count() >= n:
            return choose(near, n)
        return near | choose(free & ~near, n - near.bit_count())

    def _begun(self, want: _More) -> tuple[dict[int, int], int]:
        """Return the units to take by id, and the number of whole ids to begin: -1, -2 and so on.

        Each part is taken of the id with the least left that has enough, so that few are begun.
        """
        left = dict((self._more or _NOTHING).parts)
        taken: dict[int, int] = {}
        new = 0
        for units in sorted(want.parts.values(), reverse=True):
            room = [(free, one) for one, free in left.items() if free >= units]
            if not room:
                new += 1
            free, one = min(room) if room else (_WHOLE, -new)
            left[one] = free - units
            taken[one] = taken.get(one, 0) + units
        return taken, new

    def _dealloc(self, res: Self) -> None:
        if self._more is not None or res._more is not None:
            self._give_back(res)
            return
        mask, free = res._mask, self._mask
        if mask & ~self._owned:
            raise ValueError(f"{res!r} was not allocated from {self._of_mask(self._owned)!r}")
        if free & mask:
            raise ValueError(f"{res!r} was given back twice")
        self._mask = free | mask

    def _give_back(self, res: Self) -> None:
        more = self._more or _NOTHING
        mask, parts = self._mask, dict(more.parts)
        returned = dict.fromkeys(bits(res._mask), _WHOLE) if parts else {}
        if not parts:
            self._check_owned(res, res._mask & ~self._owned)
            if mask & res._mask:
                raise ValueError(f"{res!r} was given back twice")
            mask |= res._mask
        returned |= (res._more or _NOTHING).parts
        for one, units in returned.items():
            owned = _WHOLE if self._owned >> one & 1 else more.owned.get(one, 0)
            self._check_owned(res, not owned)
            free = (_WHOLE if mask >> one & 1 else parts.pop(one, 0)) + units
            if free > owned:
                raise ValueError(f"{res!r} was given back twice")
            if free == _WHOLE:
                mask |= 1 << one
            else:
                parts[one] = free
        self._mask = mask
        self._set_parts(parts)

    def _check_owned(self, res: Self, foreign: object) -> None:
        if foreign:
            more = self._more or _NOTHING
            owned = self._of_mask(self._owned, _More(more.owned) if more.owned else None)
            raise ValueError(f"{res!r} was not allocated from {owned!r}")

    def _reclaim(self, res: Self) -> None:
        mask = self._mask
        if res._mask & ~mask:
            raise ValueError(f"{res!r} is not free in {self!r}")
        mask ^= res._mask
        if res._more is not None and res._more.parts:
            parts = dict((self._more or _NOTHING).parts)
            for one, units in res._more.parts.items():
                free = _WHOLE if mask >> one & 1 else parts.pop(one, 0)
                if free < units:
                    raise ValueError(f"{res!r} is not free in {self!r}")
                mask &= ~(1 << one)
                if free > units:
                    parts[one] = free - units
            self._set_parts(parts)
        self._mask = mask

    def _set_parts(self, parts: dict[int, int]) -> None:
        more = (self._more or _NOTHING)._replace(parts=parts)
        self._more = None if more == _NOTHING else more

    def whole(self) -> Self:
        """Return a request for as many whole ones as this holds or asks for, whole or in part."""
        return self if self.is_all else self._of_mask((1 << self.N) - 1)

    def among(self, mask: int) -> Self:
        """Return what is free of some ids, which are given as a mask."""
        parts = (self._more or _NOTHING).parts
        some = {one: units for one, units in parts.items() if mask >> one & 1}
        return self._of_mask(self._mask & mask, _More(some, some) if some else None)

    def left_of(self, total: Identities) -> Self:
        """Return this as what is free of a worker: all of it is only what all of `total` is."""
        new = self._supplied()
        new._owned = total._owned
        return new

    def _repr(self) -> str:
        more = self._more or _NOTHING
        label = self._label or type(self).__name__
        if more.is_all:
            return f"{label}(all)"
        shown = [spans(bits(self._mask))] if self._mask else []
        shown += [f"{one}:{units / _WHOLE}" for one, units in sorted(more.parts.items())]
        return f"{label}([{','.join(shown)}]{', spread=True' if more.spread else ''})"

    def _ask(self) -> str:
        if self.is_all:
            return f'{type(self).__name__}("all")'
        spread = ", spread=True" if (self._more or _NOTHING).spread else ""
        amount = self.amount
        # Parts of several may add up to whole ones.
        shown = int(amount) if amount == int(amount) else amount
        return f"{type(self).__name__}({shown}{spread})"

    def _stat(self) -> tuple[int, int]:
        more = self._more
        if more is None or not (more.parts or more.owned):
            return (self._mask.bit_count(), self._owned.bit_count())
        return (
            self._mask.bit_count() * _WHOLE + sum(more.parts.values()),
            self._owned.bit_count() * _WHOLE + sum(more.owned.values()),
        )

    def _data(self) -> Any:
        n = self._mask.bit_count()
        data: Any = n if self._mask == (1 << n) - 1 else bits(self._mask)
        more = self._more
        if more is None:
            return data
        if more.is_all:
            return "all"
        if more.parts:
            parts = {one: units / _WHOLE for one, units in sorted(more.parts.items())}
            alone = not n and len(parts) == 1
            data = [*bits(self._mask), *([one, part] for one, part in parts.items())]
            data = parts.get(0, data) if alone else data
        if more.spread:
            return {"N": data, "spread": True}
        if more.stated and more.topology is not None:
            return {"ids": data, **more.topology.data(self.ids)}
        return data

    @classmethod
    def _from_data(cls, data: Any) -> Self:
        """Make it of a number, a list, or the ids of a worker with their topology."""
        if not isinstance(data, dict) or "ids" not in data:
            return super()._from_data(data)
        new = cls(data["ids"])
        if new._more is not None:
            raise ValueError("a topology goes with whole ids")
        topology = Topology.of_data(new.ids, data)
        if topology is not None:
            new._more = _More(topology=topology, stated=True)
        return new

    def _level(self) -> Hashable:
        mask, more = self._mask, self._more
        if more is not None and (more.parts or more.owned):
            return (mask.bit_count(), tuple(sorted(more.parts.values())), self._all_free)
        # A worker of which all is free answers a request for all of it, unlike a larger one.
        return ~mask.bit_count() if mask == self._owned else mask.bit_count()

    # Equal to those of Resource but faster, as requests are looked up at every submission.
    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if self._mask != other._mask:
            return False
        return self._more is other._more or self._data() == other._data()

    def __hash__(self) -> int:
        more = self._more
        if more is None:
            return hash((self._kind, self._mask))
        parts = frozenset(more.parts.items())
        if not parts and not more.is_all and not more.spread:
            return hash((self._kind, self._mask))
        return hash((self._kind, self._mask, parts, more.is_all, more.spread))

    def _slack(self, res: Self) -> float:
        free, n = self._mask.bit_count(), res._mask.bit_count()
        want = res._more
        if want is None:
            return (free - n) / free if free else 0.0
        if want.is_all:
            return 0.0
        begun, new = self._begun(want)
        left = (free - n - new) / free if free else 0.0
        if not want.parts:
            return left
        if new:  # ids that are begun go first, whatever they have left
            return 0.5 + left / 2
        have = (self._more or _NOTHING).parts
        return sum(have[one] - units for one, units in begun.items()) / _WHOLE / 2 / len(begun)

    def _supplied(self) -> Self:
        new = self._of_mask(self._mask)
        new._owned = self._owned  # what is free of a worker does not become all of another
        more = self._more
        if more is not None:
            more = _More(more.parts, more.owned, more.topology)
            new._more = None if more == _NOTHING else more
        return new


class Cores(Identities):
    """CPU cores.

    Args:
        N: a number, to request any N of them; or a list of CPU ids, to state which ones a worker
            owns. A worker that states a number N owns the ids 0 to N-1.

    Attributes:
        c: the ids, a sorted list.
        N: the number of them.

    Raises:
        ValueError: N is negative, the ids are negative or not distinct, or they go beyond a
            million.
        TypeError: N is not an integer.
    """

    __slots__ = ()
    _kind = "Cores"
    _exports = ("c", "N")
    _noun = "core"
    _label = "CPU_Cores"

    @property
    def c(self) -> list[int]:
        """The CPU ids, ascending."""
        return self.ids

    def _cpus(self) -> list[int]:
        return self.ids

    def _variables(self, worker: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002
        number = self.N
        return dict.fromkeys(_OF_CORES, str(number)) if number else {}


class GPUs(Identities):
    """GPUs, with identities like `Cores`.

    Attributes:
        g: the ids, a sorted list.
        N: the number of them. In a combination with `Cores`, ``.N`` is that of cores; use
            ``len(res.g)``.
    """

    __slots__ = ()
    _kind = "GPUs"
    _exports = ("g",)
    _noun = "GPU"
    _label = "GPUs"

    @property
    def g(self) -> list[int]:
        """The GPU ids, ascending."""
        return self.ids

    def _variables(self, worker: Mapping[str, str]) -> dict[str, str]:
        ids = self.ids
        return {"GRAIN_GPUS": str(len(ids)), **gpu_variables(ids, worker)} if ids else {}

    @property
    def knows_near(self) -> bool:
        """True for a supply that knows which CPUs are near its GPUs."""
        return self._more is not None and bool(self._more.topology)

    def with_cores(self, cores: Cores, asked: Cores, asked_gpus: GPUs) -> tuple[Cores, GPUs]:
        """Return what two requests would get now: GPUs, and the cores near them.

        Args:
            cores: the free cores of the same worker; there are enough of both.
        """
        topology = (self._more or _NOTHING).topology or Topology()
        # Of the groups of GPUs with the same CPUs, one with enough of both, and as few as possible.
        fitting = []
        for group in topology.levels[0] if topology.levels else ():
            free = group & self._mask
            near = cores._mask & topology.near_any(group)
            if free.bit_count() >= asked_gpus.N and near.bit_count() >= asked.N:
                fitting.append((near.bit_count(), free.bit_count(), free))
        got = self._choose(asked_gpus, min(fitting)[-1] if fitting else 0)
        return cores._choose(asked, topology.near_any(mask_of(got.ids))), got


def _parsed(kind: str, noun: str, given: Any) -> tuple[int, _More | None]:
    """Return the mask of whole ids, and what else an argument states."""
    if isinstance(given, str) and given == "all":
        return 0, _More(is_all=True)
    if isinstance(given, (bool, str, bytes)):
        write = ""
        if isinstance(given, str) and given.strip().isdecimal():
            write = f": write {kind}({given.strip()})"
        raise TypeError(f"{kind} takes a number of {noun}s or a list of ids, not {given!r}{write}")
    try:
        n = operator.index(given)
    except TypeError:
        pass
    else:
        if n < 0:
            raise ValueError(f"{kind}({n}): a number of {noun}s cannot be negative")
        if n > MOST:
            raise ValueError(f"{kind}({n}): more than {MOST} {noun}s on one worker")
        return (1 << n) - 1, None
    if isinstance(given, numbers.Real) and math.isfinite(given):
        return _of_units({0: _units(f"{kind}({given})", kind, noun, float(given))})
    return _of_units(_listed(kind, noun, given))


def _listed(kind: str, noun: str, given: Any) -> dict[int, int]:
    """Return the units by id of a list."""
    try:
        items = [_item(i, kind, noun, given) for i in given]
    except TypeError:
        raise TypeError(
            f"{kind}({given!r}): a number of {noun}s is a whole number, as in {kind}(4), or a "
            f"part of one, as in {kind}(0.5), or a list of ids, as in {kind}([0, 2])"
        ) from None
    units_of: dict[int, int] = {}
    for i, units in items:
        if i < 0:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} is negative")
        if i >= MOST:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} is not below {MOST}")
        if i in units_of:
            raise ValueError(f"{kind}({given!r}): the {noun} id {i} appears twice")
        units_of[i] = units
    return units_of


def _of_units(units_of: dict[int, int]) -> tuple[int, _More | None]:
    parts = {i: units for i, units in units_of.items() if units < _WHOLE}
    return mask_of(units_of.keys() - parts.keys()), _More(parts, parts) if parts else None


def _item(item: Any, kind: str, noun: str, given: Any) -> tuple[int, int]:
    """Return an id of a list and its units; an id with a part is a list of both."""
    if not isinstance(item, list | tuple):
        return operator.index(item), _WHOLE
    part = item[1] if len(item) == len(("id", "part")) else None
    if isinstance(part, bool) or not isinstance(part, numbers.Real) or not math.isfinite(part):
        raise TypeError
    return operator.index(item[0]), _units(f"{kind}({given!r})", kind, noun, float(part))


def _units(shown: str, kind: str, noun: str, part: float) -> int:
    """Return a part of one id in units."""
    if part < 0:
        raise ValueError(f"{shown}: a number of {noun}s cannot be negative")
    if part >= 1 and part == math.floor(part):
        raise ValueError(
            f"{shown}: a whole number of {noun}s has no decimal point: write {kind}({int(part)})"
        )
    if part > 1:
        raise ValueError(
            f"{shown}: a part of a {noun} is a part of one {noun}, so it is below 1, as in "
            f"{kind}(0.5). For more than one {noun}, ask for whole ones, as in "
            f"{kind}({math.ceil(part)})"
        )
    if part * _WHOLE < 1:
        raise ValueError(f"{shown}: a part of a {noun} is a millionth (0.000001) at least")
    return round(part * _WHOLE)
