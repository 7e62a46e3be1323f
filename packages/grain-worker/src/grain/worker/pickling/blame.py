"""The search for the part of an object that cannot be pickled, or that makes it large."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from grain.worker.call import name_of
from grain.worker.pickling.functions import global_names
from grain.worker.pickling.in_process import is_in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEPTH, _LOOKS = 12, 2000


def find_unpicklable(
    obj: Any, name: str, dump: Callable[[Any], object]
) -> tuple[str, Any, BaseException] | None:
    """Return the innermost part of an object that cannot be dumped.

    Args:
        dump: raises an exception for what cannot be dumped.

    Returns:
        The part's path, as ``result['grid'].lock``, the part, and the exception that dumping it
        raises; None if the object can be dumped after all.
    """
    looks = _LOOKS

    def why(part: Any) -> BaseException | None:
        nonlocal looks
        looks -= 1
        try:
            dump(part)
        except Exception as error:
            return error
        return None

    reason = why(obj)
    if reason is None:
        return None
    seen = {id(obj)}
    for _ in range(_DEPTH):
        for path, part in _parts(obj, name):
            if looks > 0 and id(part) not in seen and (error := why(part)) is not None:
                seen.add(id(part))
                name, obj, reason = path, part, error
                break
        else:
            break
    return name, obj, reason


def find_large(
    obj: Any, name: str, dump: Callable[[Any], bytes | memoryview], least: int
) -> list[tuple[str, int]]:
    """Return the parts that make an object large, with their sizes in bytes, the largest first."""
    large = []
    for path, part in _parts(obj, name):
        if isinstance(part, ModuleType):
            continue  # it travels by its name
        try:
            size = len(dump(part))
        except Exception:  # noqa: S112 - as an attribute that the object itself does not take along
            continue
        if size >= least:
            inner = []
            if isinstance(part, FunctionType | MethodType | functools.partial):
                inner = find_large(part, name_of(part), dump, least)
            large += inner or [(path, size)]
    return sorted(large, key=lambda one: -one[1])


def _parts(obj: Any, name: str) -> Iterator[tuple[str, Any]]:
    if is_in_process(type(obj)):
        return  # it is to blame itself
    if isinstance(obj, dict):
        yield from ((f"{name}[{key!r:.60}]", value) for key, value in obj.items())
        yield from ((f"a key of {name}", key) for key in obj)
    elif isinstance(obj, tuple | list):
        yield from ((f"{name}[{i}]", value) for i, value in enumerate(obj))
    elif isinstance(obj, set | frozenset):
        yield from ((f"a member of {name}", value) for value in obj)
    if isinstance(obj, FunctionType):
        yield from _variables(obj, name)
        return
    if isinstance(obj, MethodType):
        yield f"the object of {name}", obj.__self__
        return
    if isinstance(obj, functools.partial):
        yield from ((f"{name}.func", obj.func), (f"{name}.args", obj.args))
        yield f"{name}.keywords", obj.keywords
    if isinstance(obj, BaseException):
        yield f"{name}.args", obj.args
    if not isinstance(obj, type):
        yield from ((f"{name}.{key}", value) for key, value in _attributes(obj))


def _variables(fn: FunctionType, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function refers to."""
    for variable, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        try:
            yield f"{variable} (a variable of {name})", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for value in fn.__defaults__ or ():
        yield f"a default of {name}", value
    for parameter, value in (fn.__kwdefaults__ or {}).items():
        yield f"the default of {parameter} in {name}", value
    for variable in sorted(global_names(fn.__code__)):
        if variable in fn.__globals__:
            yield f"{variable} (a global of {name})", fn.__globals__[variable]


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(obj, "__dict__", {}).items()
    for base in type(obj).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(obj, slot):
                yield slot, getattr(obj, slot)
