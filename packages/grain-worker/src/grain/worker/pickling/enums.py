"""Enumerations by value, which dill cannot pickle: members and class need each other."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enum import Enum, EnumMeta


def reduce_enum(cls: EnumMeta) -> Any:
    """Return the reduction of an enumeration: first its members, then, as state, its methods.

    The state comes when the pickle has the class, so methods may mention it. A `__new__` or
    `__init__` of its own does not run again: a member's value need not be what they were given.
    """
    named: dict[str, Any] = dict(cls.__members__)
    own = {name: value for name, value in vars(cls).items() if _is_own(cls, name, value)}
    members = {name: member.value for name, member in named.items()}
    computed = None
    if _is_method(vars(cls).get("__new_member__")):
        # int, str and the like say what makes an equal object, object has nothing to say.
        arguments = getattr(cls._member_type_, "__getnewargs__", lambda _: ())  # type: ignore[attr-defined]
        computed = {name: arguments(member) for name, member in named.items()}
    attributes = {
        name: {key: one for key, one in vars(member).items() if not key.endswith("_")}
        for name, member in named.items()
    }
    for name in ("__new__", "__new_member__"):
        own.pop(name, None)
    boundary = vars(cls).get("_boundary_")
    names = (cls.__name__, cls.__qualname__, cls.__module__)
    args = (cls.__bases__, *names, members, computed, boundary)
    return make_enum, args, (own, attributes), None, None, complete_enum


def _is_own(cls: EnumMeta, name: str, value: Any) -> bool:
    """Return True for a method, and for a variable that the class got when it was complete."""
    if name.startswith("_") and name.endswith("_"):
        return name == "__doc__" or _is_method(value)
    # Of members, Python 3.11 has descriptors here.
    return name not in cls.__members__


def _is_method(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return value.__module__ != "enum"
    return isinstance(value, property | classmethod | staticmethod) and type(value).__module__ in (
        "builtins",
        "types",
    )


def make_enum(
    bases: tuple[type, ...],
    name: str,
    qualname: str,
    module: str,
    members: dict[str, Any],
    computed: dict[str, tuple[Any, ...]] | None,
    boundary: Any,
) -> type[Enum]:
    """Return an enumeration with these members.

    Args:
        computed: where a `__new__` has computed the members, what makes each as an object of the
            type that they extend.
        boundary: for flags, what becomes of bits that no member has; None where Python has one way.
    """
    meta: Any = type(bases[-1])
    body = meta.__prepare__(name, bases)
    body["__module__"], body["__qualname__"] = module, qualname
    if computed is not None:

        def new(cls: Any, *packed: Any) -> Any:
            # In one piece if members are tuples themselves.
            value, arguments = packed if len(packed) > 1 else packed[0]
            one = cls._member_type_.__new__(cls, *arguments)
            one._value_ = value
            return one

        body["__new__"] = new
        members = {key: (value, computed[key]) for key, value in members.items()}
    for key, value in members.items():
        body[key] = value
    keywords = {} if boundary is None else {"boundary": boundary}
    cls: type[Enum] = meta(name, bases, body, **keywords)
    return cls


def complete_enum(cls: type[Enum], state: tuple[dict[str, Any], dict[str, dict[str, Any]]]) -> None:
    """Give an enumeration the methods that it was written with, and members their attributes."""
    methods, attributes = state
    for name, value in methods.items():
        setattr(cls, name, value)
    for name, variables in attributes.items():
        vars(cls.__members__[name]).update(variables)
