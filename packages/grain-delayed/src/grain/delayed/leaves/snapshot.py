"""Calls as they were made, for leaves that run later or more than once.

A cached leaf's result is kept as that of its arguments at the call, and a leaf that is retried
elsewhere must not depend on what an earlier attempt did. So such a call is pickled when it is made,
and each attempt runs on what its bytes contain. Large arrays are not in the bytes: thousands of
leaves may have the same array, which is kept once. Functions, classes and modules are the same
objects in each attempt.

A function goes with its variables, too: variables that it closes over keep the values that they
have at the call, unless the function assigns to them itself, as that is what they are there for.
"""

from __future__ import annotations

import dis
import io
import pickle
import sys
import weakref
from dataclasses import dataclass
from functools import partial, update_wrapper
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from grain.delayed.cache.digest import digest
from grain.worker import Call
from grain.worker.call import name_of, not_async
from grain.worker.payload import acts, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONSTANT = frozenset({int, float, complex, str, bytes, bool, type(None)})
_SAME_OBJECT = frozenset({FunctionType, BuiltinFunctionType, ModuleType, type})
# Bytes; smaller arrays are pickled with each call.
_LARGE = 4096


@dataclass(slots=True, eq=False, repr=False)
class Snapshot:
    """A call that does not change with its arguments.

    Attributes:
        arrays: the large arrays of the call, which other snapshots may have, too.
    """

    name: str
    data: bytes
    objects: Sequence[object]
    arrays: Sequence[Any]

    def call(self) -> Call:
        """Return the call, with arguments that no other code has."""
        fn, args, kwargs = _SnapshotUnpickler(self.data, self.objects, self.arrays).load()
        return Call(fn, args, kwargs)

    def call_in_process(self) -> Call:
        """Return a call that gets its arguments when it begins, as it may wait for long."""
        return Call(_OnArrival(self, self.name), (), {})


class _OnArrival:
    """A tasklet that makes its call when it begins. It has its function's name."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self._snapshot = snapshot
        self.__qualname__ = name

    async def __call__(self) -> Any:
        fn, args, kwargs = self._snapshot.call()
        awaitable = fn(*args, **kwargs)
        if not hasattr(awaitable, "__await__"):
            raise not_async(fn)
        return await awaitable


class Snapshots:
    """The maker of snapshots; it drops a large array with the last snapshot that has it."""

    def __init__(self) -> None:
        self._arrays: weakref.WeakValueDictionary[tuple[object, ...], Any]
        self._arrays = weakref.WeakValueDictionary()
        self._functions: weakref.WeakValueDictionary[tuple[object, str], FunctionType]
        self._functions = weakref.WeakValueDictionary()

    def snapshot(self, call: Call) -> Snapshot | None:
        """Return a snapshot of a call; None if the call never changes, or cannot be pickled.

        What cannot be pickled cannot travel either, and pickling it for that raises a good error.
        """
        values = (*call.args, *call.kwargs.values())
        if isinstance(call.fn, FunctionType) and all(type(v) in _CONSTANT for v in values):
            return None
        file = io.BytesIO()
        pickler = _SnapshotPickler(file, self._shared_array)
        try:
            pickler.dump(tuple(call))
        except Exception:
            return None
        return Snapshot(name_of(call.fn), file.getvalue(), pickler.objects, pickler.arrays)

    def with_variables_of_now(self, call: Call, digest_of_bound: str) -> Call:
        """Return a call whose function keeps the present values of the variables it closes over.

        Calls of one function with one digest have one such function, so that it travels once, and
        its code is read once.
        """
        fn = call.fn
        if type(fn) is partial:
            inner = self._detached(fn.func, digest_of_bound)
            return call._replace(fn=partial(inner, *fn.args, **fn.keywords))
        return call._replace(fn=self._detached(fn, digest_of_bound))

    def _detached(self, fn: Any, digest_of_bound: str) -> Any:
        if not isinstance(fn, FunctionType):
            return fn
        detached = self._functions.get((fn, digest_of_bound))
        if detached is None:
            if not _is_detachable(fn):
                return fn
            detached = self._functions[fn, digest_of_bound] = _detached(fn, {})
        return detached

    def _shared_array(self, array: Any) -> Any:
        # Equal arrays may lie differently in memory, on which the result may depend.
        key = (digest(array, "an array"), array.strides)
        shared = self._arrays.get(key)
        if shared is None:
            shared = self._arrays[key] = array.copy(order="K")
        return shared


class _SnapshotPickler(pickle.Pickler):
    """A pickler that leaves out large arrays, and what is the same object in each attempt."""

    def __init__(self, file: io.BytesIO, shared_array: Any) -> None:
        super().__init__(file, 5)
        self.objects: list[object] = []
        self.arrays: list[Any] = []
        self._shared_array = shared_array
        self._numpy = sys.modules.get("numpy")
        self._ids: dict[int, tuple[str, int]] = {}

    def persistent_id(self, obj: Any) -> tuple[str, int] | None:
        kind = type(obj)
        if kind in _CONSTANT:
            return None
        if kind in _SAME_OBJECT or isinstance(obj, type):
            return self._id_in("object", self.objects, obj, obj)
        if self._numpy is None or kind is not self._numpy.ndarray:
            return None
        if obj.nbytes < _LARGE or obj.dtype.hasobject:
            return None
        # The key is the array itself: two equal arrays in one call stay two.
        persistent = self._ids.get(id(obj))
        return persistent or self._id_in("array", self.arrays, obj, self._shared_array(obj))

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is MethodType:
            # Not by its name, by which its instance may have something else: a delayed function.
            return MethodType, (obj.__func__, obj.__self__)
        if acts(obj):
            raise refusal(obj)
        return NotImplemented

    def _id_in(self, kind: str, items: list[Any], obj: object, item: object) -> tuple[str, int]:
        persistent = self._ids.get(id(obj))
        if persistent is None:
            persistent = self._ids[id(obj)] = kind, len(items)
            items.append(item)
        return persistent


class _SnapshotUnpickler(pickle.Unpickler):
    """The counterpart of `_SnapshotPickler`; it gives each array as a copy."""

    def __init__(self, data: bytes, objects: Sequence[object], arrays: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._objects = objects
        self._arrays = arrays
        self._copies: dict[int, Any] = {}

    def persistent_load(self, persistent_id: Any) -> Any:
        kind, index = persistent_id
        if kind == "object":
            return self._objects[index]
        if index not in self._copies:
            self._copies[index] = self._arrays[index].copy(order="K")
        return self._copies[index]


def _detached(fn: FunctionType, copies: dict[int, FunctionType]) -> FunctionType:
    """Return a function with variables of its own; functions among their values likewise."""
    if id(fn) in copies:
        return copies[id(fn)]
    cells = tuple(CellType() for _ in fn.__closure__ or ())
    copied = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
    copies[id(fn)] = copied
    copied.__kwdefaults__ = fn.__kwdefaults__
    update_wrapper(copied, fn)
    copied.__dict__.pop("__wrapped__")
    copied.__dict__.update(fn.__dict__)
    for cell, original in zip(cells, fn.__closure__ or (), strict=True):
        try:
            content = original.cell_contents
        except ValueError:  # not assigned yet
            continue
        cell.cell_contents = _detached(content, copies) if _is_detachable(content) else content
    return copied


def _is_detachable(fn: object) -> bool:
    """Return True if a function closes over variables that others, but not itself, may assign to.

    A decorated function of a module is none: it travels by its name, under which a copy would not
    be found.
    """
    if not isinstance(fn, FunctionType) or not fn.__closure__ or "<locals>" not in fn.__qualname__:
        return False
    return not _assigns(fn.__code__, fn.__code__.co_freevars)


def _assigns(code: CodeType, names: tuple[str, ...]) -> bool:
    """Return True if code, or a function within it, assigns to some of the variables around it."""
    names = tuple(name for name in names if name in code.co_freevars)
    return any(
        i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in names
        for i in dis.get_instructions(code)
    ) or any(_assigns(inner, names) for inner in code.co_consts if isinstance(inner, CodeType))
