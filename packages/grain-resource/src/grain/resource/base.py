"""`Resource`: the interface of one kind, how kinds fit together, and several kinds as one resource.

A resource object plays one of three roles, and the same class serves all of them:

- a *request*, which a task carries (``Cores(3)``: any three cores);
- a *supply*, which a worker owns and which changes as parts of it are handed out;
- an *allocation*, which a run holds (``Cores([1, 3, 4])``: these cores).

Requests and allocations are values: they are never changed once made, and an allocation can be
used as a request. Only supplies change, and only through `Resource.alloc` and `Resource.dealloc`.

Who fits whom is decided kind by kind. A request for memory alone fits a supply of memory and
cores; what the request does not mention is left alone. Two class attributes make the exceptions:
``_unlimited_if_absent`` (a worker without a time limit meets every time limit) and
``_implied`` (on a worker that takes at most so many tasks, each task counts as one).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar

from grain.resource.errors import Infeasible, Insufficient

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from typing_extensions import Self


class Resource:
    """One kind of resource; subclass it to add another (docs/resources.md is the guide).

    A subclass implements ``_request``, ``_alloc``, ``_dealloc``, ``_repr`` and ``_stat``, which
    only ever see their own kind, and is registered by `grain.resource.resource_kind` or by an
    entry point. Users call ``&``, `request`, `alloc`, `dealloc` and `stat`.
    """

    __slots__ = ()

    # The name of the kind, in messages and on the wire; set by registration.
    _kind: ClassVar[str] = ""
    # The attributes that an allocation of several kinds passes on from this one.
    _exports: ClassVar[tuple[str, ...] | None] = None
    _unlimited_if_absent: ClassVar[bool] = False
    _implied: ClassVar[Resource | None] = None

    # ---- the interface of a kind

    def _request(self, res: Self) -> bool:
        """Whether this supply can hand out ``res`` now; must agree with ``_alloc``."""
        raise NotImplementedError

    def _alloc(self, res: Self) -> Self:
        """Take ``res`` out of this supply and return what was taken; called if `_request`."""
        raise NotImplementedError

    def _dealloc(self, res: Self) -> None:
        """Give back to this supply what ``_alloc`` returned."""
        raise NotImplementedError

    def _repr(self) -> str:
        """How this resource shows itself, alone and joined to others by `` & ``."""
        raise NotImplementedError

    def _stat(self) -> tuple[int, int]:
        """``(p, q)``: p/q is the share of this supply that is free."""
        raise NotImplementedError

    # ---- optional parts of the interface

    def _data(self) -> Any:
        """Plain data (numbers, strings, lists, dicts) from which `_from_data` makes an equal one.

        By default the public attributes, which are then the arguments of the class.
        """
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def _from_data(cls, data: Any) -> Self:
        """Make a resource from what `_data` returned, or from a configuration file's entry."""
        make: Any = cls  # whose arguments are the subclass's business
        return make(**data) if isinstance(data, dict) else make(data)  # type: ignore[no-any-return]

    def _level(self) -> Hashable:
        """Two supplies of equal level answer every `_request` alike.

        The scheduler looks for room once per level instead of once per worker. The default is
        right for every kind; a coarser level (for cores: how many, not which) is faster.
        """
        return freeze(self._data())

    def _slack(self, res: Self) -> float:  # noqa: ARG002 - an interface
        """How loosely ``res`` fits this supply, from 0 (nothing remains) to 1; for tightest fit."""
        return 0.0

    def _supplied(self) -> Self:
        """This resource as a supply of its own, as a worker joins with it."""
        return copy.deepcopy(self)

    def _reclaim(self, res: Self) -> None:
        """Take out exactly what another supply like this one allocated.

        The default is right for every kind without identities.

        Raises:
            ValueError: part of it is in use.
        """
        if not self._request(res):
            raise ValueError(f"{res!r} is not free in {self!r}")
        self._alloc(res)

    def _ask(self) -> str:
        """How this resource reads as a request, in messages."""
        return self._repr()

    # ---- what users call

    def parts(self) -> Mapping[str, Resource]:
        """This resource by kind; several kinds if it was made by ``&``, none for ``ZERO``.

        Raises:
            TypeError: the class is not registered, so it has no kind.
        """
        if not self._kind:
            name = type(self).__name__
            raise TypeError(f'{name} has no kind yet: decorate it with @resource_kind("{name}")')
        return {self._kind: self}

    def request(self, res: Resource) -> bool:
        """Whether this supply can hand out all of ``res`` now."""
        return gives(self.parts(), self._wanted(res))

    def alloc(self, res: Resource) -> Resource:
        """Take ``res`` out of this supply.

        Returns:
            What was taken, with identities where the kind has them.

        Raises:
            Infeasible: a kind that ``res`` names is not supplied here at all.
            Insufficient: there is not enough now. In both cases nothing was changed. Whether
                there ever could be enough is known to `grain.resource.Supply`.
        """
        if type(self) is type(res) and self._implied is None and self._kind:
            # One kind on both sides, most often cores: this is the scheduler's hot path.
            if not self._request(res):
                raise Insufficient(f"{self!r} cannot give {res._ask()} now")
            return self._alloc(res)
        have, wanted = self.parts(), self._wanted(res)
        if not gives(have, wanted):
            raise self._refusal(res)
        return take(have, wanted)

    def dealloc(self, res: Resource) -> None:
        """Give back an allocation of this supply, whole.

        Raises:
            ValueError: ``res`` is no allocation of this supply, or was given back already.
        """
        if type(self) is type(res) and self._kind:
            self._dealloc(res)
            return
        own = self.parts()
        for kind, part in res.parts().items():
            if kind in own:
                own[kind]._dealloc(part)
            elif not part._unlimited_if_absent:
                raise ValueError(f"{part!r} was not allocated from {self!r}")

    def stat(self) -> dict[str, tuple[int, int]]:
        """By kind, ``(p, q)``: the share p/q of it that is free."""
        return {kind: part._stat() for kind, part in self.parts().items()}

    def get(self, kind: type[Resource]) -> Resource | None:
        """The part of one kind, as in ``res.get(Cores)``, or None."""
        return self.parts().get(kind._kind)

    def ask(self) -> str:
        """How this resource reads as a request, in messages."""
        return self._ask()

    def _wanted(self, res: Resource) -> Mapping[str, Resource]:
        """The parts of a request, with those that this supply makes it imply."""
        wanted = res.parts()
        for kind, implied in self._implying():
            if kind not in wanted:
                wanted = {**wanted, kind: implied}
        return wanted

    def _implying(self) -> Iterable[tuple[str, Resource]]:
        """By kind, what a request that does not mention a part of this supply implies of it."""
        return [
            (kind, own._implied) for kind, own in self.parts().items() if own._implied is not None
        ]

    def _refusal(self, res: Resource) -> Infeasible | Insufficient:
        """Why there is no plan; worked out only now, as most refusals are never shown."""
        have, wanted = self.parts(), res.parts()
        for kind, want in wanted.items():
            if kind not in have and not want._unlimited_if_absent:
                return Infeasible(f"{self!r} has no {kind}, asked for {want._ask()}")
        for kind, own in have.items():
            asked = wanted.get(kind, own._implied)
            if asked is not None and not own._request(asked):
                return Insufficient(f"{own!r} cannot give {asked._ask()} now")
        return Insufficient(f"{self!r} cannot give {res.ask()} now")

    def __and__(self, other: Resource) -> Resource:
        """Both resources together; they must be of different kinds.

        Raises:
            ValueError: a kind appears on both sides.
        """
        if not isinstance(other, Resource):
            return NotImplemented
        return join((self, other))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        mine, theirs = self.parts(), other.parts()
        return mine.keys() == theirs.keys() and all(
            part is theirs[kind]  # a countdown differs even from itself a moment later
            or (type(part) is type(theirs[kind]) and part._data() == theirs[kind]._data())
            for kind, part in mine.items()
        )

    def __hash__(self) -> int:
        # A supply's hash changes with it: requests and allocations, being values, go into sets.
        return hash(frozenset((k, freeze(part._data())) for k, part in self.parts().items()))

    def __repr__(self) -> str:
        return self._repr()

    def __getattr__(self, name: str) -> Any:
        # Reached only for what the class lacks. It tells type checkers that an allocation may
        # have any kind's attributes, and users of GVAR.res what they forgot to ask for.
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{self!r} has no attribute {name!r}: no such resource was asked for")


class Composite(Resource):
    """What ``&`` makes: parts of different kinds, which are never composites themselves.

    It has the attributes of its parts. The order of the parts shows in the representation only.
    """

    __slots__ = ("_implied_parts", "_parts")

    def __init__(self, parts: dict[str, Resource]) -> None:
        self._parts = parts
        self._implied_parts: Iterable[tuple[str, Resource]] | None = None

    def _implying(self) -> Iterable[tuple[str, Resource]]:
        # Kept: a supply is asked at each allocation, and its parts are never replaced.
        if self._implied_parts is None:
            self._implied_parts = super()._implying()
        return self._implied_parts

    def parts(self) -> Mapping[str, Resource]:
        return self._parts

    def _repr(self) -> str:
        return " & ".join(part._repr() for part in self._parts.values()) or "Ø"

    def _ask(self) -> str:
        return " & ".join(part._ask() for part in self._parts.values()) or "Ø"

    def _supplied(self) -> Composite:
        return Composite({kind: part._supplied() for kind, part in self._parts.items()})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for part in self._parts.values():
                exports = part._exports
                if (hasattr(part, name)) if exports is None else (name in exports):
                    return getattr(part, name)
        return super().__getattr__(name)

    def __reduce__(self) -> tuple[type[Composite], tuple[dict[str, Resource]]]:
        return (Composite, (self._parts,))


class Zero(Composite):
    """The type of ``ZERO``, which is the only one of it: copies and pickles are ``ZERO`` again."""

    __slots__ = ()

    def __reduce__(self) -> str:  # type: ignore[override]
        return "ZERO"

    def _supplied(self) -> Zero:
        return self


# Pickled by its public name, as GVAR is.
Zero.__module__ = "grain.resource"

# "No resource is required to run the tasklet", "the worker is holding no resource"; shown as Ø.
ZERO: Resource = Zero({})


def gives(have: Mapping[str, Resource], wanted: Mapping[str, Resource]) -> bool:
    """Whether the parts of a supply can hand out those of a request now, kind by kind."""
    for kind in wanted:
        own = have.get(kind)
        if own is None:
            if not wanted[kind]._unlimited_if_absent:
                return False
        elif not own._request(wanted[kind]):
            return False
    return True


def take(have: Mapping[str, Resource], wanted: Mapping[str, Resource]) -> Resource:
    """Take the parts of a request out of those of a supply, all or nothing; they are there."""
    taken: dict[str, Resource] = {}
    try:
        for kind in wanted:
            own = have.get(kind)
            # What nothing has to meet is not taken from anywhere, but the allocation tells it.
            taken[kind] = wanted[kind] if own is None else own._alloc(wanted[kind])
    except BaseException:
        for kind, got in taken.items():
            if kind in have:
                have[kind]._dealloc(got)
        raise
    return joined(taken)


def freeze(data: Any) -> Hashable:
    """Plain data as something hashable, equal for equal data."""
    if isinstance(data, dict):
        return frozenset((key, freeze(value)) for key, value in data.items())
    if isinstance(data, list | tuple):
        return tuple(freeze(value) for value in data)
    return data  # type: ignore[no-any-return]


def join(resources: Iterable[Resource]) -> Resource:
    """All of the resources together, ``ZERO`` if there are none.

    Raises:
        ValueError: two of them are of one kind.
    """
    parts: dict[str, Resource] = {}
    for resource in resources:
        for kind, part in resource.parts().items():
            if kind in parts:
                raise ValueError(
                    f"cannot combine {parts[kind].ask()} with {part.ask()}: "
                    f"both are of the kind {kind}; state one of them"
                )
            parts[kind] = part
    return joined(parts)


def joined(parts: dict[str, Resource]) -> Resource:
    """Parts by kind as one resource: ``ZERO`` for none, the part itself for one."""
    if len(parts) > 1:
        return Composite(parts)
    return next(iter(parts.values())) if parts else ZERO
