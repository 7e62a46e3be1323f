"""Exceptions that survive pickling, whatever arguments their classes take.

By default pickle makes an exception again by a call of its class with ``args``, the arguments of
`Exception.__init__`: a class whose own ``__init__`` takes others can be dumped, but not loaded. The
reduction of this module makes it without that ``__init__``.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any


def reduce_exception(error: BaseException) -> Any:
    """Return the reduction of an exception; NotImplemented where pickle's own will do."""
    cls = type(error)
    if not _is_python(cls, "__init__") or _has_own_reduction(cls):
        return NotImplemented
    reduction = error.__reduce__()
    if isinstance(reduction, str):
        return NotImplemented
    _, args, *state = reduction
    return remake, (cls, args), *state


def _has_own_reduction(cls: type) -> bool:
    """Return True if a class, or a base of it, has a reduction in Python."""
    names = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
    return any(_is_python(cls, name) for name in names)


def _is_python(cls: type, name: str) -> bool:
    """Return True if a method of a class is written in Python, unlike those of builtin classes."""
    return isinstance(getattr(cls, name, None), FunctionType)


def remake(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Return an exception of a class with these arguments, without a call of its ``__init__``."""
    builtin: Any = next(c for c in cls.__mro__ if not _is_python(c, "__init__"))
    error: BaseException = _new(cls, builtin, args)
    builtin.__init__(error, *args)
    return error


def _new(cls: type[BaseException], builtin: Any, args: tuple[Any, ...]) -> BaseException:
    try:
        return cls.__new__(cls, *args)
    except TypeError:  # its __new__ takes other arguments, too
        pass
    error: BaseException
    try:
        error = builtin.__new__(cls, *args)
    except TypeError:
        # Of several builtin bases, CPython lets only one make it, and that may be another one:
        # `class E(Exception)`, `class M(E, MemoryError)`.
        error = BaseException.__new__(cls, *args)
    return error
