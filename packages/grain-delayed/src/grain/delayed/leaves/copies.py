"""Copies of calls, in which large arrays that are equal are one: thousands of leaves may have it.

What is copied is what `copy.deepcopy` copies; what a call has twice its copy has twice, too, and
two objects that are equal stay two. A function is copied with the variables that it closes over, as
far as they may be assigned to; what they hold stays the same.
"""

from __future__ import annotations

import copy
import dis
import sys
import weakref
from collections import Counter
from functools import partial, update_wrapper
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed.cache.digest import digest
from grain.worker import Call
from grain.worker.job import name_of, not_async

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONSTANT = frozenset({int, float, complex, str, bytes, bool, type(None)})
# Bytes; smaller arrays are copied for each call.
_LARGE = 4096


class Snapshot(NamedTuple):
    """A call that does not change with its arguments.

    Attributes:
        call: the call.
        shared: arrays in it that other calls may have, too: nobody may change them.
    """

    call: Call
    shared: tuple[Any, ...] = ()


class Copies:
    """Makes copies of calls. Forgets an array with the last call that has it."""

    def __init__(self) -> None:
        self._arrays: weakref.WeakValueDictionary[tuple[object, ...], Any]
        self._arrays = weakref.WeakValueDictionary()
        self._functions: weakref.WeakValueDictionary[tuple[object, str], FunctionType]
        self._functions = weakref.WeakValueDictionary()

    def bound(self, call: Call, digest_of_bound: str) -> Call:
        """A call whose function goes on with the variables that it closes over as they are now.

        Calls with one digest have one such function, so it travels once. One that assigns to such
        a variable stays as it is: that is what it is there for.

        Args:
            call: the call.
            digest_of_bound: of what its function is bound to.
        """
        fn = call.fn
        if type(fn) is partial:
            inner = self._detached(fn.func, digest_of_bound)
            return call._replace(fn=partial(inner, *fn.args, **fn.keywords))
        return call._replace(fn=self._detached(fn, digest_of_bound))

    def _detached(self, fn: Any, digest_of_bound: str) -> Any:
        if not isinstance(fn, FunctionType):
            return fn
        known = self._functions.get((fn, digest_of_bound))
        if known is None:
            if not _is_detachable(fn):
                return fn
            known = self._functions[fn, digest_of_bound] = _detached(fn, {})
        return known

    def snapshot(self, call: Call) -> Snapshot:
        """Copy a call. One that cannot be copied is given back: pickling it will tell why."""
        values: tuple[object, ...] = (*call.args, *call.kwargs.values())
        if isinstance(call.fn, FunctionType) and all(type(v) in _CONSTANT for v in values):
            return Snapshot(call)
        memo: dict[int, Any] = {}  # of `copy.deepcopy`: copies by the id of what they are of
        seen: Counter[tuple[object, ...]] = Counter()
        for array in _arrays(values):
            if id(array) not in memo:
                # In memory, equal arrays may differ.
                key = (digest(array, "an array"), array.strides)
                seen[key] += 1
                memo[id(array)] = self._copy(array, (*key, seen[key]))
        shared = tuple(memo.values())
        copied = copy_of(call, memo)
        return Snapshot(call) if copied is None else Snapshot(copied, shared)

    def _copy(self, array: Any, key: tuple[object, ...]) -> Any:
        known = self._arrays.get(key)
        if known is None:
            known = self._arrays[key] = copy.deepcopy(array)
        return known


class OnCopies:
    """A tasklet that copies its arguments when it begins, as other calls have them, too."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.__qualname__ = name_of(call.fn)

    async def __call__(self) -> Any:
        """Run the call on copies."""
        fn, args, kwargs = Call._make(copy.deepcopy(tuple(self._call)))
        awaitable = fn(*args, **kwargs)
        if not hasattr(awaitable, "__await__"):
            raise not_async(fn)
        return await awaitable


def copy_of(call: Call, memo: dict[int, Any] | None = None) -> Call | None:
    """A copy, or None if there can be none. What is in the memo is taken from there."""
    try:
        return Call._make(copy.deepcopy(tuple(call), memo))
    except Exception:  # it will hardly be pickled, either
        return None


def _detached(fn: FunctionType, made: dict[int, FunctionType]) -> FunctionType:
    """A function with variables of its own, and those that it closes over likewise."""
    if id(fn) in made:
        return made[id(fn)]
    cells = tuple(CellType() for _ in fn.__closure__ or ())
    copied = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
    made[id(fn)] = copied
    copied.__kwdefaults__ = fn.__kwdefaults__
    update_wrapper(copied, fn)
    copied.__dict__.pop("__wrapped__")
    copied.__dict__.update(fn.__dict__)
    for cell, original in zip(cells, fn.__closure__ or (), strict=True):
        try:
            content = original.cell_contents
        except ValueError:  # not assigned yet
            continue
        cell.cell_contents = _detached(content, made) if _is_detachable(content) else content
    return copied


def _is_detachable(fn: object) -> bool:
    """Whether a function closes over what others may assign to, and it does not itself.

    One that stands in a module, if decorated, is found there by its name, as no copy would be.
    """
    if not isinstance(fn, FunctionType) or not fn.__closure__ or "<locals>" not in fn.__qualname__:
        return False
    return not _assigns(fn.__code__, fn.__code__.co_freevars)


def _assigns(code: CodeType, names: tuple[str, ...]) -> bool:
    """Whether code, or a function within it, assigns to some of the variables around it."""
    names = tuple(name for name in names if name in code.co_freevars)
    return any(
        i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in names
        for i in dis.get_instructions(code)
    ) or any(_assigns(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))


def _arrays(values: tuple[object, ...]) -> Iterator[Any]:
    """Large arrays among some values, and in lists, tuples and dicts among them."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    met: set[int] = set()
    left: list[Any] = list(values)
    while left:
        value = left.pop()
        kind = type(value)
        if kind is numpy.ndarray:
            if value.nbytes >= _LARGE and not value.dtype.hasobject:
                yield value
        elif kind in (list, tuple, dict) and id(value) not in met:
            met.add(id(value))
            left.extend(value.values() if kind is dict else value)
