"""Digests of values and of functions that are the same in every process.

Python's own `hash` differs from process to process, and so may the pickles of equal values: sets
and dicts have an order, strings are shared or not. Here every value is written with its type and
its length, and the items of sets and dicts are sorted by their digests.

An object of another type is digested as pickle would keep it: its class by name, and its state. An
object that pickle refuses (a lock, an open file, a generator) has no digest.

The digest of a function covers its bytecode, constants and defaults, and those of the functions
inside of it; not its place (file, line), its comments and its docstring. `marshal` would not do: it
writes file and line numbers, and equal code in different ways.
"""

from __future__ import annotations

import collections
import copyreg
import dis
import functools
import hashlib
import struct
import sys
import types
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    type(Ellipsis): lambda _: b"",
    type(NotImplemented): lambda _: b"",
    bool: lambda v: b"1" if v else b"0",
    int: lambda v: b"%x" % v,  # hexadecimal: any length, and quick
    float: struct.Struct("<d").pack,
    complex: lambda v: struct.pack("<dd", v.real, v.imag),
    str: lambda v: v.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
}


class Undigestible(TypeError):
    """A value without a digest that would be the same in another process; names it and why."""


def digest(value: object, what: str) -> bytes:
    """Return the digest of a value: 32 bytes, equal for equal values in every process.

    Args:
        value: anything that pickle could keep. All attributes of an object count, also those in
            which it keeps values that it computed.

    Raises:
        Undigestible: the value, or a part of it, has no digest.
    """
    digester = _Digester()
    digester.feed(value, what)
    return digester.hash.digest()


def code_digest(fn: Callable[..., Any], what: str) -> bytes:
    """Return the digest of the code of a function.

    Args:
        fn: a function of Python. If it wraps another (`functools.wraps`), both count.

    Raises:
        Undigestible: one of its defaults has no digest.
    """
    digester = _Digester()
    digester.code_of(fn, what)
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
        digester.code_of(fn, what)
    return digester.hash.digest()


class _Digester:
    def __init__(self, inside: tuple[int, ...] = ()) -> None:
        self.hash = hashlib.sha256()
        # The ids of the objects around the present one, to notice an object that contains itself.
        self._inside = list(inside)

    def feed(self, value: Any, where: str) -> None:
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            self._write(kind.__name__, plain(value))
            return
        if id(value) in self._inside:  # it contains itself, or is a function that calls itself
            above = len(self._inside) - self._inside.index(id(value))
            self._write("above", b"%d" % above)
            return
        self._inside.append(id(value))
        try:
            self._compound(kind, value, where)
        except RecursionError:
            raise Undigestible(f"{where} has no stable digest: it is nested too deeply") from None
        finally:
            self._inside.pop()

    def _compound(self, kind: type, value: Any, where: str) -> None:
        if kind is list or kind is tuple:
            self._items(kind.__name__, value, where)
        elif kind is dict:
            self._unordered("dict", value.items(), where)
        elif kind is set or kind is frozenset:
            self._unordered(kind.__name__, value, where)
        elif isinstance(value, types.CodeType):
            self._code(value, where)
        elif isinstance(value, Enum):
            self._items("enum", (kind, value.name), where)
        elif not (self._callable(value, where) or self._array(value, where)):
            self._reduced(kind, value, where)

    def _callable(self, value: Any, where: str) -> bool:
        kind = type(value)
        if isinstance(value, types.FunctionType):
            self.code_of(value, where)
            self.closure_of(value, where)
        elif isinstance(value, types.GenericAlias):  # list[int]: to Python 3.10 a type
            return False
        elif isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
            # A class counts by its name, and so does a module.
            self._write(kind.__name__, _name(value).encode())
            if isinstance(value, types.BuiltinMethodType):
                owner = value.__self__
                if owner is not None and not isinstance(owner, types.ModuleType):
                    self.feed(owner, where)
        elif isinstance(value, types.MethodType):
            self._items("method", (value.__func__, value.__self__), where)
        elif isinstance(value, functools.partial):
            self._items("partial", (value.func, value.args, value.keywords), where)
        else:
            return False
        return True

    def _items(self, kind: str, values: Iterable[Any], where: str) -> None:
        items = tuple(values)
        self._write(kind, b"%d" % len(items))
        for i, item in enumerate(items):
            self.feed(item, f"{where}[{i}]" if kind in ("list", "tuple") else where)

    def _unordered(self, kind: str, values: Iterable[Any], where: str) -> None:
        digests = []
        for item in values:
            own = _Digester(tuple(self._inside))
            if kind == "dict":
                own.feed(item[0], f"a key of {where}")
                own.feed(item[1], f"{where}[{_short(item[0])}]")
            else:
                own.feed(item, f"an item of {where}")
            digests.append(own.hash.digest())
        self._write(kind, b"".join(sorted(digests)))

    def _array(self, value: Any, where: str) -> bool:
        """Digest an array or a number of NumPy by content, not by its layout in memory."""
        numpy = sys.modules.get("numpy")
        if numpy is None or not (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
            return False
        dtype = value.dtype
        # `dtype.str` of a structured type has only its size.
        named = str(dtype) if dtype.fields else dtype.str
        self._write(type(value).__name__, f"{named}{value.shape}".encode())
        if dtype.hasobject:
            self.feed(value.tolist(), where)
        else:
            self._write("data", value.tobytes())
        return True

    def _reduced(self, kind: type, value: Any, where: str) -> None:
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
            if not isinstance(reduced, str):
                maker, args, state, items, pairs = (*reduced, None, None, None)[:5]
                if isinstance(value, set | frozenset):  # a subclass, whose items have no order
                    args = (frozenset(value),)
                # These are iterators.
                items = None if items is None else list(items)
                if pairs is not None:
                    pairs = (list if isinstance(value, collections.OrderedDict) else dict)(pairs)
        except Exception as error:
            raise Undigestible(
                f"{where} has no stable digest: {_short(value)}, of type {_name(kind)} "
                f"({type(error).__name__}: {error})"
            ) from error
        if isinstance(reduced, str):
            self._write("global", f"{_name(kind)} {reduced}".encode())
            return
        self._write("object", _name(kind).encode())
        if isinstance(maker, types.FunctionType):
            self._write("maker", _name(maker).encode())
        else:
            self.feed(maker, where)
        self.feed(args, where)
        if isinstance(state, dict):
            self._write("state", b"%d" % len(state))
            for name in sorted(state, key=str):
                self.feed(name, where)
                self.feed(state[name], f"{where}.{name}")
        else:
            self.feed(state, where)
        self.feed(items, where)
        self.feed(pairs, where)

    # ---- functions

    def code_of(self, fn: Any, where: str) -> None:
        code = getattr(fn, "__code__", None)
        if code is None:
            self.feed(type(fn), where)
            return
        self._code(code, where, getattr(fn, "__doc__", None))
        self.feed(fn.__defaults__, f"a default of {where}")
        self.feed(fn.__kwdefaults__, f"the defaults of {where}")

    def closure_of(self, fn: types.FunctionType, where: str) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                self._write("empty", name.encode())
                continue
            self._write("cell", name.encode())
            self.feed(content, f"{name}, which {where} closes over,")

    def _code(self, code: types.CodeType, where: str, doc: str | None = None) -> None:
        consts = code.co_consts
        if doc is not None and consts and consts[0] == doc and not _loads_first(code):
            consts = (None, *consts[1:])
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        exceptions = getattr(code, "co_exceptiontable", b"")
        self._items("code", (code.co_code, exceptions, counts, names, consts), where)

    def _write(self, kind: str, data: bytes) -> None:
        self.hash.update(f"{kind} {len(data)}:".encode())
        self.hash.update(data)


def _loads_first(code: types.CodeType) -> bool:
    """Return True if code uses its first constant, which may be its docstring as well."""
    # Python 3.12 has several instructions that use a constant: LOAD_CONST, RETURN_CONST.
    return any(i.opcode in dis.hasconst and i.arg == 0 for i in dis.get_instructions(code))


def _name(obj: Any) -> str:
    module = getattr(obj, "__module__", None) or ""
    return f"{module}.{getattr(obj, '__qualname__', None) or getattr(obj, '__name__', '?')}"


def _short(obj: object) -> str:
    try:
        return f"{obj!r:.100}"
    except Exception:  # a __repr__ of the user's may raise anything
        return "an object"
