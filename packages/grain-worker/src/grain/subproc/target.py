"""The function of a subprocified one, and how it travels.

A decorator hides the function that it decorates: by the function's name one finds the decorated
one, from which the way back is ``__wrapped__``. So a target travels as the name and the number of
such steps where that leads to the very function, and by value (by dill) elsewhere, as from
`__main__`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.worker.job import name_of
from grain.worker.runner.context import load

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 20


class Target:
    """What is called in the process; equal to nothing but itself."""

    __slots__ = ("__weakref__", "fn")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __repr__(self) -> str:
        return name_of(self.fn)

    def __reduce__(self) -> Any:
        place = place_of(self.fn)
        return (Target, (self.fn,)) if place is None else (find, place)


def place_of(fn: Callable[..., Any]) -> tuple[str, str, int, str] | None:
    """Where another process finds a function: its module, name, steps, and the module's file."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if module == "__main__" or not isinstance(module, str) or not isinstance(name, str):
        return None
    loaded = sys.modules.get(module)
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    for steps in range(_STEPS):
        if found is fn:
            return module, name, steps, getattr(loaded, "__file__", None) or ""
        found = getattr(found, "__wrapped__", None)
    return None


def find(module: str, name: str, steps: int, file: str) -> Target:
    """The target at such a place.

    A worker's context module is imported from its file, and may be on no search path.
    """
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module or "." in module or not Path(file).is_file():
            raise
        found = load(file)
    for part in name.split("."):
        found = getattr(found, part)
    for _ in range(steps):
        found = found.__wrapped__
    return Target(found)
