"""Registering kinds of resources, and resources as plain data.

Plain data is a dict from kind to what the kind's ``_data`` returned. It can be read, shown and
passed on without the kind's class (as `Opaque`); the class is needed only where it is allocated
from.

There is no table of kinds here: a class is registered by being a subclass of `Resource` that has
a kind of its own, and Python itself keeps the list of subclasses. Classes of installed packages
that nobody imported yet are found by their entry points, in the group ``grain.resources``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from grain.resource.base import Resource, join
from grain.resource.errors import DuplicateKind, UnknownKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Self

R = TypeVar("R", bound=Resource)

_INTERFACE = ("_request", "_alloc", "_dealloc", "_repr", "_stat")


def resource_kind(name: str) -> Callable[[type[R]], type[R]]:
    """Register a subclass of `Resource` under the name of its kind: a class decorator.

    Defining the same class once more, as a notebook does when a cell runs again, replaces it.

    Raises:
        TypeError: the class lacks part of the interface, or is no subclass of `Resource`.
        DuplicateKind: another class has this kind already, or this class has another kind.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f'the name of a kind is an identifier, as in "Licences", not {name!r}')

    def register(cls: type[R]) -> type[R]:
        if not (isinstance(cls, type) and issubclass(cls, Resource)):
            raise TypeError(f"{cls!r} is not a subclass of grain.resource.Resource")
        missing = [m for m in _INTERFACE if getattr(cls, m) is getattr(Resource, m)]
        if missing:
            raise TypeError(f"{cls.__qualname__} lacks {', '.join(missing)}")
        former = cls.__dict__.get("_kind", name)
        if former != name:
            raise DuplicateKind(f"{_path(cls)} is of the kind {former} already, not {name}")
        taken = _defined().get(name)
        if taken is not None and _path(taken) != _path(cls):
            raise DuplicateKind(
                f"the kind {name} is registered already, by {_path(taken)}; "
                f"give {_path(cls)} another name"
            )
        cls._kind = name
        return cls

    return register


def to_data(resource: Resource) -> dict[str, Any]:
    """A resource as plain data, from kind to numbers, strings, lists and dicts."""
    return {kind: part._data() for kind, part in resource.parts().items()}


def from_data(data: Mapping[str, Any], *, unknown: str = "error") -> Resource:
    """The resource that `to_data` was given, or that a configuration file states.

    Args:
        data: from kind to what the kind makes a resource of.
        unknown: ``"error"``, or ``"keep"`` to make an `Opaque` of a kind without a class here.

    Raises:
        UnknownKind: a kind has no class here.
        ValueError: a kind cannot make a resource of its data.
    """
    return join(_part(kind, value, unknown) for kind, value in data.items())


def kind_class(name: str) -> type[Resource]:
    """The class of a kind.

    Raises:
        UnknownKind: there is none, neither defined by now nor by an entry point.
        DuplicateKind: several installed packages claim the kind.
    """
    found = _defined().get(name) or _installed(name)
    if found is None:
        known = ", ".join(sorted(_defined()))
        raise UnknownKind(
            f"unknown kind of resource {name!r}; known are {known}. Import the module that "
            f"registers it, or install the package that has it as an entry point"
        )
    return found


class Opaque(Resource):
    """A resource of a kind that has no class here: it can be shown and passed on, not handed out.

    As a supply it meets no request, and no supply meets it as a request.
    """

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: Any) -> None:
        self.kind = kind
        self.data = data

    def parts(self) -> Mapping[str, Resource]:
        return {self.kind: self}

    def _request(self, res: Self) -> bool:  # noqa: ARG002 - an interface
        return False

    def _repr(self) -> str:
        return f"{self.kind}({json.dumps(self.data)})"

    def _stat(self) -> tuple[int, int]:
        return (0, 1)

    def _data(self) -> Any:
        return self.data


def _part(kind: str, data: Any, unknown: str) -> Resource:
    try:
        cls = kind_class(kind)
    except UnknownKind:
        if unknown == "keep":
            return Opaque(kind, data)
        raise
    try:
        return cls._from_data(data)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} = {data!r} is not a resource: {error}") from error


def _defined() -> dict[str, type[Resource]]:
    """Every kind with a class by now; of a class defined again, the latest definition."""
    return {
        cls.__dict__["_kind"]: cls for cls in _subclasses(Resource) if cls.__dict__.get("_kind")
    }


def _subclasses(cls: type[Resource]) -> Iterator[type[Resource]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _installed(name: str) -> type[Resource] | None:
    """The class that an installed package offers for a kind."""
    from importlib.metadata import entry_points

    # One package may be found twice on a path (editable and not); one class is one offer.
    offers = {point.value: point for point in entry_points(group="grain.resources", name=name)}
    if len(offers) > 1:
        raise DuplicateKind(
            f"several installed packages claim the kind {name}: {', '.join(sorted(offers))}; "
            "uninstall all but one"
        )
    for point in offers.values():
        return resource_kind(name)(point.load())
    return None


def _path(cls: type[Resource]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
