"""Enumerations by value, which dill cannot pickle: members and class need each other."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enum import Enum, EnumMeta


def reduce_enum(cls: EnumMeta) -> Any:
    """Return the reduction of an enumeration: first its members, then, as state, its methods.

    The state comes when the pickle has the class, so methods may mention it.
    """
    named: dict[str, Any] = dict(cls.__members__)
    members = {name: member.value for name, member in named.items()}
    own = {name: value for name, value in vars(cls).items() if _is_method(value)}
    # The `__new__` that the class was written with; the metaclass has put another in its place.
    new = vars(cls).get("__new_member__")
    namespace = {"__new__": new} if _is_method(new) and new is not object.__new__ else {}
    own.pop("__new__", None)
    own.pop("__new_member__", None)
    args = (cls.__bases__, cls.__name__, cls.__qualname__, cls.__module__, members, namespace)
    return make_enum, args, own, None, None, set_methods


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
    methods: dict[str, Any],
) -> type[Enum]:
    """Return an enumeration with these members."""
    meta: Any = type(bases[-1])
    namespace = meta.__prepare__(name, bases)
    namespace["__module__"], namespace["__qualname__"] = module, qualname
    for key, value in (methods | members).items():
        namespace[key] = value
    cls: type[Enum] = meta(name, bases, namespace)
    return cls


def set_methods(cls: type, methods: dict[str, Any]) -> None:
    """Give an enumeration the methods that it was written with."""
    for name, value in methods.items():
        setattr(cls, name, value)
