"""Kinds of resources by name, and resources as plain data.

Plain data are a dict from kind to what the kind's ``_data`` returned. They can be read, shown and
passed on without the kind's class (as `Opaque`); the class is needed only where it is allocated
from. Alternatives stand among them as ``{"Either": [...]}``, a list of such dicts; with a time to
wait for the first one as ``{"Either": {"of": [...], "prefer": 60}}``. A request for several
workers is ``{"Gang": {"count": 4, "of": {...}}}``.

A class is a kind as soon as it is defined (see `grain.resource.Resource`). Classes of installed
packages that are not imported yet are found by their entry points, in the group
``grain.resources``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from grain.resource.base import Either, Gang, Resource, defined_kinds, join, name_kind, path_of
from grain.resource.errors import DuplicateKind, UnknownKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Self

R = TypeVar("R", bound=Resource)


def resource_kind(name: str) -> Callable[[type[R]], type[R]]:
    """Give a subclass of `Resource` another name as a kind than that of the class: a decorator.

    Defining the same class once more, as a notebook does when a cell runs again, replaces it.

    Raises:
        TypeError: the class lacks part of the interface, or is not a subclass of `Resource`.
        DuplicateKind: another class has this kind already, or this class was given another.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f'the name of a kind is an identifier, as in "Licences", not {name!r}')

    def rename(cls: type[R]) -> type[R]:
        if not (isinstance(cls, type) and issubclass(cls, Resource)):
            raise TypeError(f"{cls!r} is not a subclass of grain.resource.Resource")
        if cls._kind_is_given and cls._kind != name:
            raise DuplicateKind(f"{path_of(cls)} is of the kind {cls._kind} already, not {name}")
        name_kind(cls, name)
        cls._kind_is_given = True
        return cls

    return rename


def to_data(resource: Resource) -> dict[str, Any]:
    """Return a resource as plain data, from kind to numbers, strings, lists and dicts."""
    if isinstance(resource, Either):
        of = [to_data(one) for one in resource.alternatives()]
        return {"Either": {"of": of, "prefer": resource.prefer} if resource.prefer else of}
    if isinstance(resource, Gang):
        return {
            "Gang": {
                "count": resource.count,
                "of": to_data(resource.member),
                **({} if resource.same == "group" else {"same": resource.same}),
            }
        }
    return {kind: part._data() for kind, part in resource.parts().items()}


def from_data(data: Mapping[str, Any], *, unknown: str = "error") -> Resource:
    """Return the resource that `to_data` was given, or that a configuration file states.

    Args:
        data: from kind to what the kind makes a resource of.
        unknown: ``"error"``, or ``"keep"`` to make an `Opaque` of a kind without a class here.

    Raises:
        UnknownKind: a kind has no class here.
        ValueError: a kind cannot make a resource of its data.
    """
    return join(_part(kind, value, unknown) for kind, value in data.items())


def kind_class(name: str) -> type[Resource]:
    """Return the class of a kind.

    Raises:
        UnknownKind: there is none, neither defined by now nor by an entry point.
        DuplicateKind: several installed packages claim the kind.
    """
    cls = defined_kinds().get(name) or _installed(name)
    if cls is None:
        known = sorted(defined_kinds().keys() - {Either._kind, Gang._kind})
        raise UnknownKind(
            f"unknown kind of resource {name!r}; known are {', '.join(known)}. {_hint(name, known)}"
        )
    return cls


def _hint(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that is not one of a kind."""
    if name == "Node":
        return "A node is cores and memory: Cores=4,Memory=8"
    from difflib import get_close_matches

    plain = {kind.lower(): kind for kind in known}
    if near := get_close_matches(name.lower(), plain, 1, 0.8):
        return f"Did you mean {plain[near[0]]}?"
    return "Import the module that defines it, or install the package that has it as an entry point"


class Opaque(Resource):
    """A resource of a kind that has no class here: it can be shown and passed on, not handed out.

    As a supply it meets no request, and no supply meets it as a request.
    """

    __slots__ = ("data", "kind")

    def __init__(self, kind: str, data: Any) -> None:
        self.kind = kind
        self.data = data

    def parts(self) -> Mapping[str, Resource]:
        """Return itself by the kind that its data name."""
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
    if kind == Either._kind:
        return _either(data, unknown)
    if kind == Gang._kind:
        return _gang(data, unknown)
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


def _either(data: Any, unknown: str) -> Either:
    """Return the alternatives that plain data state."""
    given = data if isinstance(data, dict) else {"of": data}
    of = given.get("of")
    if given.keys() - {"of", "prefer"} or not (
        isinstance(of, list | tuple) and all(isinstance(one, dict) for one in of)
    ):
        raise ValueError(
            f"Either = {data!r} is not a list of alternatives, as in "
            '[{"GPUs": 1}, {"Cores": 16}] or {"of": [{"GPUs": 1}, {"Cores": 16}], "prefer": 60}'
        )
    try:
        return Either(
            *(from_data(one, unknown=unknown) for one in of), prefer=given.get("prefer", 0)
        )
    except TypeError as error:
        raise ValueError(f"Either = {data!r}: {error}") from error


def _gang(data: Any, unknown: str) -> Gang:
    """Return the gang that plain data state."""
    if (
        not isinstance(data, dict)
        or not {"count", "of"} <= data.keys() <= {"count", "of", "same"}
        or not isinstance(data["of"], dict)
    ):
        raise ValueError(
            f"Gang = {data!r} is not a number of members, as in "
            '{"count": 4, "of": {"Cores": 8}}'
        )
    try:
        member = from_data(data["of"], unknown=unknown)
        return Gang(data["count"], member, data.get("same", "group"))
    except TypeError as error:
        raise ValueError(f"Gang = {data!r}: {error}") from error


def _installed(name: str) -> type[Resource] | None:
    """Return the class that an installed package offers for a kind."""
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
