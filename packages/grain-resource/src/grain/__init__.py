"""Grain: a resource-aware scheduler for parallel external computing on clusters.

The top level has this file and ``_gvar.py`` only; the distribution grain-resource ships them. Every
other distribution ships subpackages of ``grain`` (``grain.edge``, ``grain.worker``, ...), which
``extend_path`` below joins wherever they lie. docs/architecture.md has the reasons against the
alternatives.
"""

from pkgutil import extend_path
from typing import TYPE_CHECKING

from grain._gvar import GVAR as GVAR

if TYPE_CHECKING:
    from grain.head import GrainExecutor as GrainExecutor
else:
    # Hidden from type checkers: a module-level __getattr__ that they can see makes them accept
    # any name. It is the one upward reference in the project, and lazy, so that installs without
    # grain-head work; there, "No module named 'grain.head'" reaches the user unchanged.
    def __getattr__(name: str) -> object:
        if name == "GrainExecutor":
            from grain.head import GrainExecutor

            return GrainExecutor
        raise AttributeError(f"module 'grain' has no attribute {name!r}")


# GrainExecutor is not listed: `from grain import *` has to work where grain-head is not installed.
__all__ = ["GVAR"]

# Last, as submodules found from here on may lie in the other distributions.
__path__ = extend_path(__path__, __name__)
