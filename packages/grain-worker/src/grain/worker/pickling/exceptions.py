"""Exceptions that survive pickling, whatever arguments their classes want.

By default an exception is made again by calling its class with ``args``, which are what was
passed to `Exception.__init__`: a class whose own ``__init__`` takes something else cannot be
loaded, though it could be dumped. Here it is made without that ``__init__``.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any


def reduce_exception(error: BaseException) -> Any:
    """How to pickle an exception; NotImplemented where pickle's own way will do."""
    cls = type(error)
    if not _is_python(cls, "__init__") or _has_own_reduction(cls):
        return NotImplemented
    reduction = error.__reduce__()
    if isinstance(reduction, str):
        return NotImplemented
    _, args, *state = reduction
    return remake, (cls, args), *state


def _has_own_reduction(cls: type) -> bool:
    """Whether a class, or one that it inherits from, was written with pickling in mind."""
    names = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
    return any(_is_python(cls, name) for name in names)


def _is_python(cls: type, name: str) -> bool:
    """Whether a method of a class is written in Python, as builtin classes' are not."""
    return isinstance(getattr(cls, name, None), FunctionType)


def remake(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception of a class with these arguments, made without the class's own ``__init__``."""
    builtin: Any = next(c for c in cls.__mro__ if not _is_python(c, "__init__"))
    error: BaseException = _new(cls, builtin, args)
    builtin.__init__(error, *args)
    return error


def _new(cls: type[BaseException], builtin: Any, args: tuple[Any, ...]) -> BaseException:
    try:
        return cls.__new__(cls, *args)
    except TypeError:  # its __new__ wants something else, too
        made: BaseException = builtin.__new__(cls, *args)
        return made
