"""Classes by value: first the class with its bases, then its methods, then its variables.

So a method may mention its own class, directly or in a table that has all classes, and classes may
mention each other; and a variable may be an object of the class, or a table with such objects as
keys: when these are loaded, their ``__new__``, ``__hash__`` and ``__setstate__`` are there. dill
makes a class with all that is in it at once, which is impossible then; and makes named tuples again
from their fields, without their methods.

What a script's own code did when the class was made, it does not do again, as the results travel:
``__set_name__`` of descriptors, ``__init_subclass__`` of bases, ``__new__`` and ``__init__`` of
metaclasses. Bases and metaclasses that are imported do it again, since their tables stay where they
are; they may ask for plain values of the class body, which are there from the beginning, and do not
get the keywords of the class statement, which Python does not keep.
"""

from __future__ import annotations

import contextlib
import threading
import types

# CPython's own, since version 3.7: nothing else lists the classes that `ABCMeta.register` was
# called with, without which `isinstance` would have another result elsewhere.
from _abc import _get_dump as dump_abstract  # type: ignore[import-not-found,unused-ignore]
from abc import ABCMeta
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from grain.worker.pickling.functions import Functions

    ClassState = tuple[tuple[Any, ...], dict[str, Any], tuple[type, ...]]
    """The parts that gave it its methods when loaded; its variables; its virtual subclasses."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
# Two threads that load at the same time, such as the threads of two executors, would each restore
# what they found, and the last one to end would restore the other's replacement.
_SILENCING = threading.RLock()
# What making a class makes again.
_GENERATED = {"__dict__", "__weakref__", "__slots__", "__orig_bases__", "_abc_impl"}


def reduce_class(cls: type, functions: Functions, importable: Callable[[object], bool]) -> Any:
    """Return the reduction of a class that is not an enumeration."""
    own = {name: value for name, value in vars(cls).items() if not _is_generated(cls, name, value)}
    first = {name: value for name, value in own.items() if type(value) in _PLAIN}
    first["__qualname__"] = cls.__qualname__
    if "__slots__" in vars(cls):
        slots = vars(cls)["__slots__"]
        first["__slots__"] = slots if isinstance(slots, str) else tuple(slots)
    later = {name: value for name, value in own.items() if name not in first}
    virtual: tuple[type, ...] = ()
    if isinstance(cls, ABCMeta):
        registered = (reference() for reference in dump_abstract(cls)[0])
        virtual = tuple(sorted(filter(None, registered), key=lambda one: one.__qualname__))
    methods = {name: value for name, value in later.items() if any(_functions(value))}
    variables = {name: value for name, value in later.items() if name not in methods}
    # As the fields of a dataclass, which its objects ask for when they are loaded.
    special = {name: value for name, value in variables.items() if name.startswith("__")}
    rest = {name: value for name, value in variables.items() if name not in special}
    # What makes and hashes objects before methods that have such objects among their variables.
    in_order = sorted(methods, key=lambda name: not name.startswith("__"))
    completions = functions.postpone(fn for name in in_order for fn in _functions(methods[name]))
    before = (Attributes(cls, methods), Attributes(cls, special), completions)
    state = (before, rest, virtual)
    make, bases = _making(cls, importable)
    arguments = (type(cls), make, cls.__name__, bases, first, _silent(cls, importable))
    return make_class, arguments, state, None, None, complete_class


class Attributes(NamedTuple):
    """Attributes of a class that is in the pickle already."""

    cls: type
    attributes: dict[str, Any]

    def __reduce__(self) -> Any:
        """Return a call that gives the class its attributes."""
        return set_attributes, (self.cls, self.attributes)


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the functions of a method, class method, static method or property."""
    parts: tuple[Any, ...] = (value,)
    if isinstance(value, classmethod | staticmethod):
        parts = (value.__func__,)
    elif isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
    return (part for part in parts if type(part) is FunctionType)


def _making(cls: type, importable: Callable[[object], bool]) -> tuple[type, tuple[Any, ...]]:
    """Return the metaclass whose code makes the class elsewhere, and the bases for it."""
    if "__required_keys__" in vars(cls):
        return type, cls.__bases__  # a TypedDict: its metaclass refuses the bases that it gave it
    # As written, since `Generic[T]` stands for just Generic among the bases. NamedTuple would make
    # a named tuple of fields that do not stand there.
    written = vars(cls).get("__orig_bases__", cls.__bases__)
    bases = tuple(tuple if base is NamedTuple else base for base in written)
    metaclass: Any = type(cls)
    return next(one for one in metaclass.__mro__ if importable(one)), bases


def _silent(cls: type, importable: Callable[[object], bool]) -> type | None:
    """Return the base whose `__init_subclass__` must not run again, if there is one."""
    one = next(base for base in cls.__mro__[1:] if "__init_subclass__" in vars(base))
    return None if importable(one) else one


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


def _is_generated(cls: type, name: str, value: Any) -> bool:
    if name in _GENERATED:
        return True
    # The places of slots.
    return isinstance(value, types.MemberDescriptorType) and value.__objclass__ is cls


# ---- loading


def make_class(
    metaclass: Any,
    make: Any,
    name: str,
    bases: tuple[Any, ...],
    first: dict[str, Any],
    silent: type | None,
) -> type:
    """Return a class with the plain values of its body.

    Args:
        make: the metaclass among the bases of `metaclass` whose code makes it.
        silent: the base whose `__init_subclass__` must not run, as it did where the class was made.
    """
    resolved = types.resolve_bases(bases)
    body = first | ({"__orig_bases__": bases} if resolved is not bases else {})
    with contextlib.nullcontext() if silent is None else silenced(silent):
        if make is metaclass:
            keywords = {"metaclass": metaclass}
            return types.new_class(name, resolved, keywords, lambda ns: ns.update(body))
        cls: type = make.__new__(metaclass, name, resolved, body)
        make.__init__(cls, name, resolved, body)
        return cls


@contextlib.contextmanager
def silenced(base: type) -> Iterator[None]:
    """Within the context, this thread makes subclasses of a base without its `__init_subclass__`.

    The base is changed for that moment, as Python looks there and nowhere else: another base in
    front would change the layout of objects. It may be a class of this very program, when a task
    returns a subclass; what other threads make of it meanwhile is made as ever.
    """
    thread = threading.get_ident()
    with _SILENCING:
        hook = vars(base).get("__init_subclass__")
        if hook is None:
            yield  # not there yet
            return

        def quiet(cls: type, /, **keywords: Any) -> None:
            if threading.get_ident() != thread:
                hook.__get__(None, cls)(**keywords)

        type.__setattr__(base, "__init_subclass__", classmethod(quiet))
        try:
            yield
        finally:
            type.__setattr__(base, "__init_subclass__", hook)


def set_attributes(cls: type, attributes: dict[str, Any]) -> None:
    """Give a class attributes."""
    for name, value in attributes.items():
        # Not `setattr`: a metaclass may have ideas about that.
        type.__setattr__(cls, name, value)


def complete_class(cls: type, state: ClassState) -> None:
    """Give a class its variables; its methods are there, complete."""
    _, variables, virtual = state
    set_attributes(cls, variables)
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
