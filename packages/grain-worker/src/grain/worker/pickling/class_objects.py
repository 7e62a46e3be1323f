"""Classes by value: first the class with its bases, then, as state, its methods and variables.

So a method may mention its own class, directly or in a table that has all classes, and classes may
mention each other. dill makes a class with all that is in it at once, which is impossible then; and
makes named tuples anew from their fields, without their methods.

What a class body has of plain values is there from the beginning, as ``__init_subclass__`` and
metaclasses may ask for it. ``__set_name__`` is not called again: descriptors keep what it did.
"""

from __future__ import annotations

import types

# CPython's own, since version 3.7: nothing else lists the classes that `ABCMeta.register` was
# called with, without which `isinstance` would have another result elsewhere.
from _abc import _get_dump as dump_abstract  # type: ignore[import-not-found,unused-ignore]
from abc import ABCMeta
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    ClassState = tuple[dict[str, Any], tuple[type, ...]]
    """What is in a class, and the classes that count as its subclasses."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# What making a class makes anew.
_MADE = {"__dict__", "__weakref__", "__slots__", "__orig_bases__", "_abc_impl"}


def reduce_class(cls: type) -> Any:
    """Return the reduction of a class that is no enumeration."""
    own = {name: value for name, value in vars(cls).items() if not _is_made(cls, name, value)}
    first = {name: value for name, value in own.items() if type(value) in _PLAIN}
    first["__qualname__"] = cls.__qualname__
    if "__slots__" in vars(cls):
        slots = vars(cls)["__slots__"]
        first["__slots__"] = slots if isinstance(slots, str) else tuple(slots)
    # As written, since `Generic[T]` stands for Generic alone among the bases. NamedTuple would make
    # a named tuple of fields that do not stand there.
    written = vars(cls).get("__orig_bases__", cls.__bases__)
    bases = tuple(tuple if base is NamedTuple else base for base in written)
    later = {name: value for name, value in own.items() if name not in first}
    virtual: tuple[type, ...] = ()
    if isinstance(cls, ABCMeta):
        registered = (reference() for reference in dump_abstract(cls)[0])
        virtual = tuple(sorted(filter(None, registered), key=lambda one: one.__qualname__))
    arguments = (type(cls), cls.__name__, bases, first)
    return make_class, arguments, (later, virtual), None, None, complete_class


def reduce_type_variable(variable: Any) -> Any:
    """Return the reduction of a TypeVar or NewType that a script defines; else NotImplemented."""
    kind = type(variable)
    if kind is TypeVar:
        variances = (variable.__covariant__, variable.__contravariant__)
        bounds = (variable.__constraints__, variable.__bound__)
        return make_type_variable, (variable.__name__, *bounds, *variances)
    if kind is NewType:
        return NewType, (variable.__qualname__, variable.__supertype__)
    return NotImplemented


def _is_made(cls: type, name: str, value: Any) -> bool:
    if name in _MADE:
        return True
    # The places of slots.
    return isinstance(value, types.MemberDescriptorType) and value.__objclass__ is cls


# ---- loading


def make_class(metaclass: type, name: str, bases: tuple[Any, ...], first: dict[str, Any]) -> type:
    """Return a class with the plain values of its body."""
    return types.new_class(name, bases, {"metaclass": metaclass}, lambda body: body.update(first))


def complete_class(cls: type, state: ClassState) -> None:
    """Give a class the rest of what is in it."""
    own, virtual = state
    for name, value in own.items():
        # Not `setattr`: a metaclass may have ideas about that.
        type.__setattr__(cls, name, value)
    for one in virtual:
        ABCMeta.register(cls, one)  # type: ignore[arg-type]


def make_type_variable(
    name: str,
    constraints: Iterable[Any],
    bound: Any,
    covariant: bool,
    contravariant: bool,
) -> Any:
    """Return a type variable."""
    return TypeVar(
        name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant
    )
