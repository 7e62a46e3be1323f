"""`Resource`: the interface of a kind, the fit of kinds, and requests made of several resources.

A resource object plays one of three roles, and the same class serves all of them:

- a *request*, which a task carries (``Cores(3)``: any three cores);
- a *supply*, which a worker owns and which changes as parts of it are handed out;
- an *allocation*, which a run holds (``Cores([1, 3, 4])``: these cores).

Requests and allocations are values: they are never changed once made, and an allocation can be
used as a request. Only supplies change, and only through `Resource.alloc` and `Resource.dealloc`.
Alternatives (`Either`) play only the first role: a task asks for one of several requests.

Fit is decided kind by kind. A request for only memory fits a supply of memory and
cores; what the request does not mention stays free. Two class attributes make the exceptions:
``_unlimited_if_absent`` (a worker without a time limit meets every time limit) and
``_implied`` (on a worker that takes at most so many tasks, each task counts as one).
"""

from __future__ import annotations

import copy
import functools
import math
from contextlib import suppress
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from grain.resource.errors import DuplicateKind, Infeasible, Insufficient
from grain.resource.spans import clock_seconds, on_clock, unit_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

F = TypeVar("F", bound="Callable[..., Any]")

_INTERFACE = ("_request", "_alloc", "_dealloc", "_repr", "_stat")

_AMOUNT = "write the amount itself, as in Cores(4)"
_ONE_WORKER = (
    "a task runs on one worker, so what it asks for never spans nodes. Submit a task for each "
    "node, ask for more of one, or for several workers at once, as in 4 * (Cores(32) & Memory(100))"
)


class Resource:
    """One kind of resource; subclass it to add another (docs/resources.md is the guide).

    A subclass that has ``_request``, ``_alloc``, ``_dealloc``, ``_repr`` and ``_stat``, which only
    ever see their own kind, is a kind of the name of the class, unless
    `grain.resource.resource_kind` or an entry point gives it another. A class that lacks one of
    them is a helper for subclasses. Users call ``&``, `request`, `alloc`, `dealloc` and `stat`.

    The other parts have a default. Write `_data` if the public attributes differ from the arguments
    of the class, `_from_data` if the class is not made by calling it, `_level` where fewer data
    decide what fits, `_slack` for how loosely a request fits (the scheduler takes the tightest
    worker), `_supplied` for the supply of a worker that states the resource, `_ask` for how a
    request reads in messages, and `_variables` for what programs are told of their allocation.
    ``_exports`` names the attributes that a combination passes on, ``_unlimited_if_absent`` is True
    if a worker that does not state the kind meets every request for it, and ``_implied`` is a
    request that counts if a task does not ask for the kind.
    """

    __slots__ = ()

    # The name of the kind, in messages and on the wire; empty for a class that is none. Never
    # inherited: see `__init_subclass__`.
    _kind: ClassVar[str] = ""
    # True if that name was given, by the class body, the decorator or an entry point, and is not
    # just that of the class; then nothing gives it another.
    _kind_is_given: ClassVar[bool] = False
    # The attributes that an allocation of several kinds passes on from this one.
    _exports: ClassVar[tuple[str, ...] | None] = None
    _unlimited_if_absent: ClassVar[bool] = False
    # True for a limit of a whole task, on however many workers it runs.
    _limits_whole: ClassVar[bool] = False
    _implied: ClassVar[Resource | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Make a class that has the interface a kind of its own, named after the class.

        A name that another class has already does not make an error here, as a decorator may be
        about to give another name; without one, `parts` raises it at the first use.
        """
        super().__init_subclass__(**options)
        cls._kind_is_given = "_kind" in cls.__dict__
        if not cls._kind_is_given:
            cls._kind = ""
            with suppress(TypeError, DuplicateKind):
                name_kind(cls, cls.__name__)

    # ---- the interface of a kind

    def _request(self, res: Self) -> bool:
        """Return True if this supply can hand out ``res`` now; must agree with ``_alloc``."""
        raise NotImplementedError

    def _alloc(self, res: Self) -> Self:
        """Take ``res`` out of this supply and return what was taken; called if `_request`."""
        raise NotImplementedError

    def _dealloc(self, res: Self) -> None:
        """Give back to this supply what ``_alloc`` returned."""
        raise NotImplementedError

    def _repr(self) -> str:
        """Return the text that shows this resource, by itself and joined to others by `` & ``."""
        raise NotImplementedError

    def _stat(self) -> tuple[int, int]:
        """Return ``(p, q)``: p/q is the share of this supply that is free."""
        raise NotImplementedError

    # ---- optional parts of the interface

    def _data(self) -> Any:
        """Return plain data (numbers, strings, lists, dicts) for `_from_data`.

        By default they are the public attributes, which are then the arguments of the class.
        """
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def _from_data(cls, data: Any) -> Self:
        """Make a resource from what `_data` returned, or from a configuration file's entry."""
        make: Any = cls  # whose arguments are the subclass's business
        return make(**data) if isinstance(data, dict) else make(data)  # type: ignore[no-any-return]

    def _level(self) -> Hashable:
        """Return something that two supplies have in common only if they answer requests alike.

        The scheduler looks for room once per level instead of once per worker. The default is
        right for every kind; a coarser level (for cores: how many, not which) is faster.
        """
        return freeze(self._data())

    def _slack(self, res: Self) -> float:  # noqa: ARG002 - an interface
        """Return how loosely ``res`` fits this supply, from 0 (nothing remains) to 1."""
        return 0.0

    def _supplied(self) -> Self:
        """Return a supply of its own, with which a worker that states this resource joins."""
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
        """Return the text that shows this resource as a request, in messages."""
        return self._repr()

    def _variables(self, worker: Mapping[str, str]) -> Mapping[str, str]:  # noqa: ARG002
        """Return the environment variables by which programs find this allocation.

        Args:
            worker: the environment of the worker, for names that only that knows.
        """
        return {}

    def _cpus(self) -> Sequence[int]:
        """Return the ids of the CPUs that this allocation holds, to which programs are bound."""
        return ()

    # ---- what users call

    def parts(self) -> Mapping[str, Resource]:
        """Return the parts by kind: several if it was made by ``&``, none for ``ZERO``.

        Raises:
            TypeError: the class lacks part of the interface, so it is not a kind.
            DuplicateKind: another class has the kind that this one is named after.
        """
        if not self._kind:
            name_kind(type(self), type(self).__name__)
        return {self._kind: self}

    def request(self, res: Resource) -> bool:
        """Return True if this supply can hand out all of ``res`` now."""
        return gives(self.parts(), self._wanted(res))

    def alloc(self, res: Resource) -> Resource:
        """Take ``res`` out of this supply.

        Returns:
            What was taken, with identities where the kind has them.

        Raises:
            Infeasible: a kind that ``res`` names is not supplied here at all.
            Insufficient: there is not enough now. In both cases nothing was changed.
                `grain.resource.Supply` distinguishes a request that never fits from a request that
                does not now.
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
            ValueError: ``res`` is not an allocation of this supply, or was given back already.
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
        """Return ``(p, q)`` by kind: the share p/q of it that is free."""
        return {kind: part._stat() for kind, part in self.parts().items()}

    def alternatives(self) -> tuple[Resource, ...]:
        """Return the requests of which a task takes one, the first choice first; most often one."""
        return (self,)

    @property
    def count(self) -> int:
        """The number of workers at once that a task asks for; most often one."""
        return 1

    def get(self, kind: type[Resource]) -> Resource | None:
        """Return the part of one kind, as in ``res.get(Cores)``, or None."""
        return self.parts().get(kind._kind)

    def ask(self) -> str:
        """Return the text that shows this resource as a request, in messages."""
        return self._ask()

    def _wanted(self, res: Resource) -> Mapping[str, Resource]:
        """Return the parts of a request, with the parts that it implies on this supply."""
        wanted = res.parts()
        for kind, implied in self._implying():
            if kind not in wanted:
                wanted = {**wanted, kind: implied}
        return wanted

    def _implying(self) -> Iterable[tuple[str, Resource]]:
        """Return, by kind, what a request implies of the parts of this supply that it lacks."""
        return [
            (kind, own._implied) for kind, own in self.parts().items() if own._implied is not None
        ]

    def _refusal(self, res: Resource) -> Infeasible | Insufficient:
        """Return the error for a request that was refused; most refusals are never shown."""
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
        """Return both resources together; they must be of different kinds.

        Raises:
            ValueError: a kind appears on both sides.
        """
        if not isinstance(other, Resource):
            return NotImplemented
        return join((self, other))

    def __or__(self, other: Resource) -> Either:
        """Return a request for this or the other, see `Either`.

        Raises:
            TypeError: the other is not a resource.
            ValueError: both are the same, or one of them asks for nothing.
        """
        return Either(self, other)

    def __rmul__(self, count: int) -> Gang:
        """Return a request for so many workers at once, each with this, see `Gang`.

        Raises:
            TypeError, ValueError: as of `Gang`.
        """
        return Gang(count, self)

    if not TYPE_CHECKING:  # type checkers are to find these mistakes by themselves

        def __add__(self, other):
            if not isinstance(other, Resource):
                return NotImplemented
            both = f"{self._ask()} and {other._ask()}"
            shared = len(self.parts().keys() & other.parts().keys())
            if shared > 1:
                raise TypeError(f"{both} cannot be joined: {_ONE_WORKER}")
            if shared:
                raise TypeError(f"{both} cannot be joined: {_AMOUNT}")
            raise TypeError(f"resources are joined by &: write {self._ask()} & {other._ask()}")

        def __ror__(self, other):
            return Either(other, self)

        def __mul__(self, other):
            raise TypeError(
                f"{_bracketed(self)} * {other!r}: write the number of workers first, as in "
                f"4 * {_bracketed(self)}"
            )

        def __rmatmul__(self, other):
            if not callable(other):
                return NotImplemented
            if isinstance(other, MethodType) and hasattr(type(other.__func__), "__matmul__"):
                # A delayed class method, as Python 3.13 and later bind it.
                return other.__func__.__get__(other.__self__) @ self
            name = getattr(other, "__name__", type(other).__name__)
            raise TypeError(
                f"{name} is not a delayed function: decorate it with @delayed (from grain.delayed "
                f"import delayed), then write {name} @ {_bracketed(self)}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource) or type(other) in (Either, Gang):
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

    @property
    def nodes(self) -> Sequence[Member]:
        """The members of the running task, the root first; of ``GVAR.res`` only.

        A task on one worker has one member, so it need not know whether it is a gang's.
        """
        import socket

        from grain import GVAR

        return [Member(GVAR.instance, socket.gethostname(), self, "127.0.0.1")]

    def __getattr__(self, name: str) -> Any:
        # Reached only for what the class lacks. Type checkers see by it that an allocation may
        # have any kind's attributes; users of GVAR.res see what they forgot to ask for.
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotAskedForError(self, name)


class NotAskedForError(AttributeError):
    """An allocation has no such attribute.

    The text is made where it is read: code that only asks whether there are GPUs, for each program
    that it starts, needs none. What travels is a plain `AttributeError` with the text.
    """

    def __init__(self, res: Resource, name: str) -> None:
        super().__init__(res, name)

    def __str__(self) -> str:
        res, name = self.args
        return f"{res!r} has no attribute {name!r}: no such resource was asked for"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


def _bracketed(res: Resource) -> str:
    """Return the text of a request as it stands after @, with brackets where it needs them."""
    plain = type(res) not in (Either, Gang) and len(res.parts()) < 2
    return res.ask() if plain else f"({res.ask()})"


def with_usage(correct: Callable[[tuple[Any, ...]], str]) -> Callable[[F], F]:
    """Make a function refuse arguments that it does not take with the call as it should be.

    Args:
        correct: returns that call; its argument are the positional arguments that were given.
    """

    def decorate(function: F) -> F:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        method = names[0] == "self"

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # not by the call, but in the function
                name = type(args[0]).__name__ if method else function.__name__
                given = args[1:] if method else args
                words = [*map(repr, given), *(f"{k}={v!r}" for k, v in kwargs.items())]
                raise TypeError(f"{name}({', '.join(words)}): write {correct(given)}") from None

        return checked  # type: ignore[return-value]

    return decorate


def defined_kinds() -> dict[str, type[Resource]]:
    """Return every kind with a class by now; the latest definition of a class defined again.

    There is no table of kinds: Python keeps the list of subclasses.
    """
    return {
        cls.__dict__["_kind"]: cls for cls in _subclasses(Resource) if cls.__dict__.get("_kind")
    }


def _subclasses(cls: type[Resource]) -> Iterator[type[Resource]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def path_of(cls: type[Resource]) -> str:
    """Return the module and the name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def name_kind(cls: type[Resource], kind: str) -> None:
    """Make a class a kind of this name.

    Raises:
        TypeError: it lacks part of the interface.
        DuplicateKind: another class has this kind, unless it is an earlier definition of this one.
    """
    missing = [method for method in _INTERFACE if getattr(cls, method) is getattr(Resource, method)]
    if missing:
        raise TypeError(
            f"{cls.__qualname__} is not a kind of resource: it lacks {', '.join(missing)}"
        )
    taken = defined_kinds().get(kind)
    if taken is not None and path_of(taken) != path_of(cls):
        raise DuplicateKind(
            f"the kind {kind} is {path_of(taken)} already; give {path_of(cls)} another name, "
            f'as with @resource_kind("My{kind}")'
        )
    cls._kind = kind


class Composite(Resource):
    """Parts of different kinds, joined by ``&``; they are never composites themselves.

    It has the attributes of its parts. The order of the parts shows in the representation only.
    """

    __slots__ = ("_implied_parts", "_parts")

    def __init__(self, parts: dict[str, Resource]) -> None:
        self._parts = parts
        self._implied_parts: Iterable[tuple[str, Resource]] | None = None

    def _implying(self) -> Iterable[tuple[str, Resource]]:
        # Cached: each allocation asks for it, and the parts of a supply are never replaced.
        if self._implied_parts is None:
            self._implied_parts = super()._implying()
        return self._implied_parts

    def parts(self) -> Mapping[str, Resource]:
        """Return the parts by kind."""
        return self._parts

    def get(self, kind: type[Resource]) -> Resource | None:
        """Return the part of one kind; a scheduler asks at each end of a run."""
        return self._parts.get(kind._kind)

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


# Each has a place of its own in all tables of the scheduler.
_MOST_ALTERNATIVES = 16
_MOST_MEMBERS = 10_000
_FOR_TASKS = "are alternatives, which only a task can ask for"


class Either(Resource):
    """A request for one of several resources: ``GPUs(1) | Cores(16)``.

    A task takes the first alternative for which there is room on any worker. ``GVAR.res`` is what
    it got. ``&`` distributes: ``Memory(8) & (a | b)`` is ``Memory(8) & a | Memory(8) & b``, and
    of two joined requests with alternatives the choice of the left one goes first.

    Args:
        alternatives: two or more requests, the first choice first; alternatives among them are
            taken one by one.
        prefer: for how long a task waits for the first alternative before it takes another, in
            seconds or as ``[d]-hh:mm:ss``. It does not wait if no worker could serve the first.

    Attributes:
        prefer: that time in seconds.

    Raises:
        TypeError: an alternative is not a resource, or prefer is not a time.
        ValueError: two of them are the same, one asks for nothing, there are too few or too many,
            or only a part of them has a ``prefer``.
    """

    __slots__ = ("_alternatives", "prefer")
    prefer: float
    _kind = "Either"  # in plain data; and so no other class can be of this name

    def __init__(self, *alternatives: Resource, prefer: float | str = 0) -> None:
        flat: list[Resource] = []
        waits: float = _waits(prefer)
        for given in alternatives:
            if not isinstance(given, Resource):
                shown = " | ".join(
                    one.ask() if isinstance(one, Resource) else repr(one) for one in alternatives
                )
                raise TypeError(f"{shown}: each alternative is a resource, and {given!r} is not")
            if isinstance(given, Either) and given.prefer:
                if flat or waits:
                    raise ValueError(
                        f"{given.ask()} among alternatives: state prefer once, for all of them, as "
                        "in Either(GPUs(1), Cores(16), Cores(8), prefer=60)"
                    )
                waits = given.prefer
            flat += given.alternatives()
        if len(flat) < 2:
            raise ValueError(
                "Either needs two alternatives or more, as in Either(GPUs(1), Cores(16))"
            )
        if len(flat) > _MOST_ALTERNATIVES:
            raise ValueError(
                f"{len(flat)} alternatives of one task; {_MOST_ALTERNATIVES} are the most"
            )
        for k, one in enumerate(flat):
            if one == ZERO:
                raise ValueError(
                    "Ø asks for nothing, so a task would never wait for the other alternatives"
                )
            if one in flat[:k]:
                raise ValueError(f"{one.ask()} is among the alternatives twice; state it once")
        self._alternatives = tuple(flat)
        self.prefer = float(waits)

    def alternatives(self) -> tuple[Resource, ...]:
        """Return the alternatives, the first choice first; none of them has alternatives."""
        return self._alternatives

    def parts(self) -> Mapping[str, Resource]:
        """Refuse: only each of the `alternatives` has parts, and can be allocated.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.ask()} {_FOR_TASKS}, and which no worker can have")

    def _request(self, res: Self) -> bool:
        return bool(self.parts() or res)

    def _dealloc(self, res: Self) -> None:  # noqa: ARG002 - an interface
        self.parts()

    def _supplied(self) -> Self:
        self.parts()
        return self

    def _repr(self) -> str:
        return self._joined([one._repr() for one in self._alternatives])

    def _ask(self) -> str:
        return self._joined([one._ask() for one in self._alternatives])

    def _joined(self, texts: list[str]) -> str:
        if self.prefer:
            return f"Either({', '.join(texts)}, prefer={self.prefer:g})"
        return " | ".join(texts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            isinstance(other, Either)
            and self._alternatives == other._alternatives
            and self.prefer == other.prefer
        )

    def __hash__(self) -> int:
        return hash((self._alternatives, self.prefer))

    if not TYPE_CHECKING:

        def __add__(self, other):
            if not isinstance(other, Resource):
                return NotImplemented
            raise TypeError(
                f"resources are joined by &: write {_bracketed(self)} & {_bracketed(other)}"
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"{self!r} has no attribute {name!r}: each of its alternatives() may have it"
        )


def _waits(prefer: Any) -> float:
    """Return the seconds for which a task waits for its first alternative."""
    seconds: float | None = None
    if isinstance(prefer, str):
        seconds = clock_seconds(prefer.strip())
    elif isinstance(prefer, int | float) and not isinstance(prefer, bool):
        seconds = prefer
    if seconds is None or not 0 <= seconds < math.inf:
        span = unit_seconds(prefer.replace(" ", "")) if isinstance(prefer, str) else None
        write = f'so write prefer="{on_clock(span)}"' if span else "as in 60 or 00:01:00"
        error = TypeError if seconds is None and not isinstance(prefer, str) else ValueError
        raise error(
            f"prefer={prefer!r}: the wait for the first alternative is a number of seconds or a "
            f"str of the form [d]-hh:mm:ss, {write}"
        )
    return seconds


class Gang(Resource):
    """A request for several workers at once, each with the same: ``4 * Node(N=32, M=100)``.

    The task starts when all of them have room, and runs on the first one, the *root*; its programs
    may start others on all members. ``GVAR.res`` is what it has on the root, and `nodes` of it has
    all members. A time limit is that of the whole; it may stand beside it.

    Args:
        count: the number of workers, at least 1.
        member: what each of them gives; no alternatives and no gang.
        same: ``"group"``: all are of one group of workers, most often a cluster; ``"job"``: all are
            in one batch job, as some interconnects demand.

    Raises:
        TypeError: the number is not an integer, or the member is not a resource.
        ValueError: the number is not positive, the member asks for nothing or is itself a gang or
            alternatives, or `same` is something else.
    """

    __slots__ = ("_count", "_member", "same")
    _kind = "Gang"  # in plain data; and so no other class can be of this name
    same: str

    def __init__(self, count: int, member: Resource, same: str = "group") -> None:
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"{count!r} * ...: the number of workers is a whole number, as in 4")
        if not isinstance(member, Resource):
            raise TypeError(f"{count} * {member!r}: each worker gives a resource, as in Cores(32)")
        text = _bracketed(member)
        if count < 1:
            raise ValueError(f"{count} * {text}: a task needs one worker or more")
        if count > _MOST_MEMBERS:
            raise ValueError(f"{count} * {text}: {_MOST_MEMBERS} workers are the most")
        if isinstance(member, Gang):
            raise ValueError(  # noqa: TRY004 - a resource, though none that a member gives
                f"{count} * {text}: write one number, as in {count * member.count}"
            )
        if isinstance(member, Either):
            raise ValueError(  # noqa: TRY004
                f"{count} * {text}: the members are alike, so write the alternatives outside, as "
                f"in {count} * Cores(16) | {count} * GPUs(1)"
            )
        if not member.parts():
            raise ValueError(f"{count} * Ø: a member that gives nothing cannot run anything")
        if same not in ("group", "job"):
            raise ValueError(f"same={same!r}: members are in the same 'group' or the same 'job'")
        self._count, self._member, self.same = count, member, same

    @property
    def count(self) -> int:
        """The number of workers."""
        return self._count

    @property
    def member(self) -> Resource:
        """The part of each of them, with the time limit of the whole."""
        return self._member

    def parts(self) -> Mapping[str, Resource]:
        """Return the parts of one member by kind: what a worker must have to be one."""
        return self._member.parts()

    def _repr(self) -> str:
        return self._ask()

    def _ask(self) -> str:
        if self.same == "group":
            return f"{self._count} * {_bracketed(self._member)}"
        return f'gang({self._count}, {self._member.ask()}, same="{self.same}")'

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            isinstance(other, Gang)
            and (self._count, self.same) == (other._count, other.same)
            and self._member == other._member
        )

    def __hash__(self) -> int:
        return hash((self._count, self.same, self._member))

    def __and__(self, other: Resource) -> Resource:
        """Return it with a time limit; all else goes to the members.

        Raises:
            ValueError: the other is not a time limit.
        """
        if not isinstance(other, Resource):
            return NotImplemented
        return join((self, other))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{self!r} has no attribute {name!r}: its member may have it")


class Member(NamedTuple):
    """A worker of a gang, as the task sees it.

    Attributes:
        name: of the worker.
        host: on which it runs.
        res: what it has for the task.
        address: its IP address, in the network by which the members are connected.
    """

    name: str
    host: str
    res: Resource
    address: str = ""

    @property
    def c(self) -> list[int]:
        """The CPU ids, ascending; none if the task asked for no cores."""
        return list(getattr(self.res, "c", ()))

    @property
    def g(self) -> list[int]:
        """The GPU ids, ascending."""
        return list(getattr(self.res, "g", ()))

    @property
    def M(self) -> float:  # noqa: N802 - the user's name for it
        """GB of memory; 0 if the task asked for none."""
        return getattr(self.res, "M", 0)


class RootAllocation(Composite):
    """The allocation of a gang's task on its root, with the members of the gang.

    Attributes:
        nodes: the members, the root first.
    """

    __slots__ = ("_nodes",)

    def __init__(self, own: Resource, nodes: Sequence[Member]) -> None:
        super().__init__(dict(own.parts()))
        self._nodes = nodes

    @property
    def nodes(self) -> Sequence[Member]:
        """See there."""
        return self._nodes

    def __reduce__(self) -> tuple[Any, ...]:
        return (RootAllocation, (joined(self._parts), self._nodes))


def gang(count: int, member: Resource, *, same: str = "group") -> Gang:
    """Return a request for several workers at once; arguments and errors as of `Gang`."""
    return Gang(count, member, same)


def gives(have: Mapping[str, Resource], wanted: Mapping[str, Resource]) -> bool:
    """Return True if the parts of a supply can hand out those of a request now, kind by kind."""
    for kind in wanted:
        own = have.get(kind)
        if own is None:
            if not wanted[kind]._unlimited_if_absent:
                return False
        elif not own._request(wanted[kind]):
            return False
    return True


def take(have: Mapping[str, Resource], wanted: Mapping[str, Resource]) -> Resource:
    """Take the parts of a request out of the parts of a supply, which `gives` them: all or none."""
    taken: dict[str, Resource] = {}
    try:
        for kind in wanted:
            own = have.get(kind)
            # A limit that nothing has to meet is taken from nothing, but the allocation has it.
            taken[kind] = wanted[kind] if own is None else own._alloc(wanted[kind])
    except BaseException:
        for kind, got in taken.items():
            if kind in have:
                have[kind]._dealloc(got)
        raise
    return joined(taken)


def freeze(data: Any) -> Hashable:
    """Return plain data as something hashable, equal for equal data."""
    if isinstance(data, dict):
        return frozenset((key, freeze(value)) for key, value in data.items())
    if isinstance(data, list | tuple):
        return tuple(freeze(value) for value in data)
    return data  # type: ignore[no-any-return]


def join(resources: Iterable[Resource]) -> Resource:
    """Return all of the resources together, ``ZERO`` if there are none.

    Raises:
        ValueError: two of them are of one kind.
    """
    parts: dict[str, Resource] = {}
    rest = iter(resources)
    for resource in rest:
        if type(resource) is Either:
            return _distributed([joined(parts), resource, *rest])
        if type(resource) is Gang:
            return _limited(resource, [joined(parts), *rest])
        if len(resource.parts().keys() & parts.keys()) > 1:
            both = f"{joined(parts).ask()} with {resource.ask()}"
            raise ValueError(f"cannot combine {both}: {_ONE_WORKER}")
        for kind, part in resource.parts().items():
            if kind in parts:
                raise ValueError(
                    f"cannot combine {parts[kind].ask()} with {part.ask()}: "
                    f"both are of the kind {kind}; state one of them"
                )
            parts[kind] = part
    return joined(parts)


def _limited(gang: Gang, others: list[Resource]) -> Resource:
    """Return a gang with the time limits, or the alternatives, that are joined to it."""
    if any(type(one) is Either for one in others):
        return _distributed([gang, *others])
    for one in others:
        if type(one) is Gang:
            raise ValueError(f"{gang.ask()} & {one.ask()}: a task is one gang")
    whole = join((gang.member, *others))  # refuses a kind that a member has already
    for one in others:
        if not all(part._limits_whole for part in one.parts().values()):
            raise ValueError(
                f"{gang.ask()} & {_bracketed(one)}: each member has the same, so write it inside, "
                f"as in {gang.count} * ({gang.member.ask()} & {one.ask()})"
            )
    return Gang(gang.count, whole, gang.same)


def _distributed(resources: list[Resource]) -> Either:
    """Return resources together, some of which have alternatives: each choice of one of each."""
    choices = [one for one in resources if type(one) is Either]
    prefer = choices[0].prefer
    if len(choices) > 1 and any(one.prefer for one in choices):
        shown = " & ".join(f"({one.ask()})" for one in choices)
        raise ValueError(
            f"{shown}: which of the combinations is preferred is not clear. State them one by one, "
            "as in Either(GPUs(1) & Memory(8), Cores(16) & Memory(64), prefer=60)"
        )
    combined: list[Resource] = [ZERO]
    for resource in resources:
        combined = [join((whole, one)) for whole in combined for one in resource.alternatives()]
        if len(combined) > _MOST_ALTERNATIVES:
            break  # `Either` refuses them; no need to make a million first
    return Either(*combined, prefer=prefer)


def joined(parts: dict[str, Resource]) -> Resource:
    """Return parts by kind as one resource: ``ZERO`` for none, the part itself for one."""
    if len(parts) > 1:
        return Composite(parts)
    return next(iter(parts.values())) if parts else ZERO
