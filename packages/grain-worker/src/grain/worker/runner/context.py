"""The context module, whose context surrounds all runs of a runner."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import ModuleType

NAME = "grain_context"
"""The name that the module has to define: an async context manager without arguments."""


class ContextError(Exception):
    """The context module cannot be used; the message says what to change."""


@asynccontextmanager
async def user_context(module: str, unsearched: str = "") -> AsyncGenerator[None]:
    """Enter the context of a module, given by its name or the path of its file; none for "".

    Args:
        unsearched: why it may be missing, as a sentence for error messages.

    Raises:
        ContextError: there is no such module, or no context in it.
        Exception: whatever the module raises when it is imported, entered or left.
    """
    if not module:
        yield
        return
    make = getattr(load(module, unsearched), NAME, None)
    if not callable(make):
        raise ContextError(
            f"the context module {module} defines no {NAME}: it needs an async context manager "
            f"of this name, as `@asynccontextmanager async def {NAME}(): ... yield ...`"
        )
    context = make()
    if not hasattr(context, "__aenter__"):
        raise ContextError(
            f"{NAME}() of the context module {module} returns {context!r:.100}, which is not an "
            "async context manager: is `@asynccontextmanager` missing?"
        )
    async with context:
        yield


def load(module: str, unsearched: str = "") -> ModuleType:
    """Import a module by its name, or from its file; `unsearched` as in `user_context`."""
    if "/" not in module and not module.endswith(".py"):
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there, but not a module that it imports
            raise ContextError(
                f"the context module {module} is not found; give the path of its file "
                f"(it ends in .py), or make it importable from {Path.cwd()}"
                + (f". {unsearched}" if unsearched else "")
            ) from error
    path = Path(module).absolute()
    if not path.is_file():
        raise ContextError(f"the context module {path} is not a file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ContextError(f"the context module {path} is not a Python file: its name ends in .py")
    loaded = importlib.util.module_from_spec(spec)
    # Under its own name, so that what tasks import is the same module that was entered.
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded
