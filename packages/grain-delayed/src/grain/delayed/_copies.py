"""Copies of calls, in which large arrays that are equal are one: thousands of leaves may have it.

What is copied is what `copy.deepcopy` copies; what a call has twice its copy has twice, too, and
two objects that are equal stay two.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections import Counter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed._digest import digest
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
