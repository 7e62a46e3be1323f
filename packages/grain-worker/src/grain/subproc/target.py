"""The function behind a subprocified one, and how it travels.

A decorator hides the function that it decorates: the function's name leads to the decorated one,
from which ``__wrapped__`` leads back. So a target travels as the name and the number of such steps,
where these lead to the very function; elsewhere, as in `__main__`, it travels by value (by dill).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.worker.call import name_of
from grain.worker.runner.context import load

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 20
"""Decorators to look through, at most."""


class Target:
    """A function to call in a process; equal to nothing but itself."""

    __slots__ = ("__weakref__", "fn")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __repr__(self) -> str:
        return name_of(self.fn)

    def __reduce__(self) -> Any:
        path = path_of(self.fn)
        return (Target, (self.fn,)) if path is None else (find, path)


def path_of(fn: Callable[..., Any]) -> tuple[str, str, int, str] | None:
    """Return a function's module, name, steps and module file; None if these do not lead to it."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if module == "__main__" or not isinstance(module, str) or not isinstance(name, str):
        return None
    loaded = sys.modules.get(module)
    value: Any = loaded
    for part in name.split("."):
        value = getattr(value, part, None)
    for steps in range(_STEPS):
        if value is fn:
            return module, name, steps, getattr(loaded, "__file__", None) or ""
        value = getattr(value, "__wrapped__", None)
    return None


def find(module: str, name: str, steps: int, file: str) -> Target:
    """Return the target to which `path_of` leads.

    A worker's context module is imported from its file, and may be on no search path.
    """
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module or "." in module or not Path(file).is_file():
            raise
        value = load(file)
    for part in name.split("."):
        value = getattr(value, part)
    for _ in range(steps):
        value = value.__wrapped__
    return Target(value)
