"""Travel by value, of what cannot be imported elsewhere: what `__main__` defines, and closures.

dill does it, and is imported for the first such object. By itself, dill makes a new class of every
copy that it loads, so that a script's ``except MyError`` would not catch its own exception when
that comes back from a worker. Hence *bundles*:

1. A bundle is a tuple of classes, dilled together once, with a key that no other bundle has.
   Everywhere else such a class is written as ``restore(key, blob, number)``.
2. When a class is met that is in no bundle, it becomes one together with the classes without a
   bundle that it reaches. So classes that mention each other are in one bundle, and a bundle
   mentions only older ones: there are no cycles between them.
3. `Classes` remembers the classes of all bundles that it made or loaded, by their keys. So a class
   that comes back is the very class that was sent.

What is dilled begins with the origin of the bytecode in it, if it has any
(`grain.worker.pickling.origin`). A class without methods has none, and may travel between any two
versions of Python; a class of a known bundle is not loaded, so its origin does not matter.

Functions have a module of their own (`grain.worker.pickling.functions`).
"""

from __future__ import annotations

import functools
import io
import pickle
import secrets
import sys
import warnings
import weakref
from enum import EnumMeta
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, TypeVar

from grain.worker.pickling.class_objects import reduce_class, reduce_type_variable
from grain.worker.pickling.enums import reduce_enum
from grain.worker.pickling.exceptions import reduce_exception
from grain.worker.pickling.functions import CachedFunction, Functions
from grain.worker.pickling.in_process import (
    LOCKS,
    is_in_process,
    new_lock,
    owned_locks,
    reduce_in_process,
    refusal,
)
from grain.worker.pickling.origin import dilled_code, with_origin, without_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


TYPING: frozenset[type] = frozenset({TypeVar, NewType})
NAMED: frozenset[type] = frozenset({FunctionType, CachedFunction}) | TYPING
"""The types whose objects go by their names where these can be imported, as classes do."""

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set})


class ClassPlace(NamedTuple):
    """The place of a class: the key and the bytes of its bundle, and its number there."""

    key: str
    blob: bytes
    number: int


class Classes:
    """The classes that travel by value, of one end: a mission or a runner."""

    def __init__(self) -> None:
        self._places: weakref.WeakKeyDictionary[type, ClassPlace] = weakref.WeakKeyDictionary()
        self._classes_by_key: weakref.WeakValueDictionary[tuple[str, int], type]
        self._classes_by_key = weakref.WeakValueDictionary()

    # ---- writing

    def reduce(self, obj: Any, copy_all: bool = False) -> Any:
        """Return the reduction of what has a name, for a C pickler's ``reducer_override``.

        Args:
            obj: a class, or an object of one of the types `NAMED`.
            copy_all: True to copy also what connects threads or tasks of this process.

        Returns:
            It, or NotImplemented for what travels by name; `reduces_to_code` looks into it.
        """
        if importable(obj):
            return NotImplemented
        if isinstance(obj, type):
            if obj not in self._places:
                self._bundle(obj, copy_all=copy_all)
            return restore, self._places[obj]
        return undill, (self.dill(obj, copy_all=copy_all),)

    def dill(
        self,
        obj: Any,
        buffer_callback: Callable[[Any], Any] | None = None,
        *,
        copy_all: bool = False,
    ) -> bytes:
        """Return an object by value, wholly by dill; its classes in bundles."""
        data, unknown = self._dilled(obj, frozenset(), buffer_callback, copy_all)
        if not unknown:
            return data
        self._bundle(*unknown, copy_all=copy_all)
        return self._dilled(obj, frozenset(), buffer_callback, copy_all)[0]

    def _bundle(self, *classes: type, copy_all: bool) -> None:
        """Make one bundle of these classes, and of all that they reach and that are in none."""
        reached = classes
        while True:
            blob, unknown = self._dilled(reached, frozenset(reached), None, copy_all)
            if not unknown:
                break
            reached += unknown
        key = secrets.token_hex(12)
        for number, cls in enumerate(reached):
            self._places[cls] = ClassPlace(key, blob, number)
            self._classes_by_key[key, number] = cls

    def _dilled(
        self,
        obj: Any,
        inline: frozenset[type],
        buffer_callback: Callable[[Any], Any] | None,
        copy_all: bool,
    ) -> tuple[bytes, tuple[type, ...]]:
        """Dill an object, with these classes in place; return the bytes, and unknown classes.

        The bytes are of no use where there are unknown classes.
        """
        reducer = Reducer(self._places, inline, copy_all=copy_all)
        file = io.BytesIO()
        pickler = self._dill_pickler(file, reducer.reduce, buffer_callback)
        with warnings.catch_warnings():
            # It warns where it writes a reference that no other process can follow.
            warnings.simplefilter("error", self._dill.PicklingWarning)
            pickler.dump(obj)
        return with_origin(file.getvalue(), code=reducer.code), tuple(reducer.unknown)

    # ---- reading

    def find_class(self, module: str, name: str) -> Any:
        """Return the meaning of a name that stands for something of this end; else None."""
        if (module, name) == ("dill._dill", "_create_filehandle"):
            raise pickle.UnpicklingError("it would open a file when loaded")
        if module == __name__:
            return {"restore": self._restore, "undill": self.undill}.get(name)
        return None

    def undill(self, data: Any, buffers: Any = None) -> Any:
        """Return the object behind bytes of `dill`.

        Raises:
            ForeignCode: they have bytecode of another interpreter; nothing was loaded.
        """
        return self._dill_unpickler(self, without_origin(data), buffers).load()

    def _restore(self, key: str, blob: bytes, number: int) -> type:
        cls = self._classes_by_key.get((key, number))
        if cls is not None:
            return cls
        loaded = self.undill(blob)
        for i, new in enumerate(loaded):
            if self._classes_by_key.setdefault((key, i), new) is new:
                self._places[new] = ClassPlace(key, blob, i)
        return self._classes_by_key[key, number]

    @functools.cached_property
    def _dill(self) -> Any:
        import dill

        return dill

    @functools.cached_property
    def _dill_pickler(self) -> Any:
        class Pickler(self._dill.Pickler):  # type: ignore[misc,name-defined]
            """A pickler in Python, to which a reduction can be given as a function."""

            def __init__(
                self,
                file: io.BytesIO,
                override: Callable[[Any], Any],
                buffer_callback: Callable[[Any], Any] | None,
            ) -> None:
                super().__init__(file, 5, recurse=True, buffer_callback=buffer_callback)
                self.reducer_override = override

        return Pickler

    @functools.cached_property
    def _dill_unpickler(self) -> Any:
        class Unpickler(self._dill.Unpickler):  # type: ignore[misc,name-defined]
            """An unpickler that resolves names of this end before it searches modules."""

            def __init__(self, classes: Classes, data: Any, buffers: Any) -> None:
                # ignore: do not look for classes of the same name in this process's __main__.
                super().__init__(io.BytesIO(data), ignore=True, buffers=buffers)
                self._classes = classes

            def find_class(self, module: str, name: str) -> Any:
                return self._classes.find_class(module, name) or super().find_class(module, name)

        return Unpickler


class Reducer:
    """The reductions of the parts of one object that dill pickles.

    Args:
        places: the classes that are in bundles.
        inline: the classes that are written in place.

    Attributes:
        unknown: the classes that were met and are in no bundle.
        code: True if bytecode was met.
    """

    def __init__(
        self, places: Mapping[type, ClassPlace], inline: frozenset[type], *, copy_all: bool
    ) -> None:
        self.unknown: dict[type, None] = {}
        self.code = False
        self._places = places
        self._inline = inline
        self._copy_all = copy_all
        self._functions = Functions()
        # The locks of objects that were met: an object is met before its attributes.
        self._owned: set[int] = set()
        # The types that were met whose objects are not bound to this process.
        self._free: set[type] = set()

    def reduce(self, part: Any) -> Any:
        """Return the reduction of a part; NotImplemented leaves it to dill."""
        kind = type(part)
        if kind in _PLAIN:
            return NotImplemented  # first, as a large variable has millions of them
        if kind is CodeType:
            self.code = True
            return NotImplemented
        if isinstance(part, BaseException):
            return reduce_exception(part)
        if kind not in self._free:
            if is_in_process(kind):
                reduction = reduce_in_process(part, self._copy_all)
                if reduction is not NotImplemented:
                    return reduction
            else:
                self._free.add(kind)
        if not self._copy_all:
            if kind in LOCKS and id(part) not in self._owned:
                raise refusal(part)
            self._owned.update(owned_locks(part))
        if kind in LOCKS:
            return new_lock(kind), ()  # dill's copy of an RLock is held without end
        if isinstance(part, type):
            return self._reduce_class(part)
        if kind in NAMED and importable(part):
            return NotImplemented
        return reduce_type_variable(part) if kind in TYPING else self._functions.reduce(part)

    def _reduce_class(self, cls: type) -> Any:
        if importable(cls):
            return NotImplemented
        if cls in self._inline:
            if isinstance(cls, EnumMeta):
                return reduce_enum(cls)
            return reduce_class(cls, self._functions, importable)
        place = self._places.get(cls)
        if place is None:
            self.unknown[cls] = None
            return restore, ("", b"", 0)
        self.code = self.code or dilled_code(place.blob)
        return restore, place


def reduces_to_code(reduction: Any) -> bool:
    """Return True if a reduction by `Classes.reduce` has bytecode."""
    arguments = reduction[1]
    return dilled_code(arguments.blob if isinstance(arguments, ClassPlace) else arguments[0])


def importable(obj: Any) -> bool:
    """Return True if what has a name can be imported by that, elsewhere too.

    What `__main__` defines cannot: elsewhere another program is `__main__`.
    """
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if module == "builtins":
        return True  # as pickle assumes
    if module == "__main__" or not isinstance(module, str) or not isinstance(name, str):
        return False
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value is obj


def restore(key: str, blob: bytes, number: int) -> type:
    """Stand in a pickle for a class of a bundle; `Classes.find_class` gives it its meaning."""
    raise NotImplementedError(f"read by something else than Grain: {key} {len(blob)} {number}")


def undill(data: bytes) -> Any:
    """Stand in a pickle for what was dilled; `Classes.find_class` gives it its meaning."""
    raise NotImplementedError(f"read by something else than Grain: {len(data)} bytes")
