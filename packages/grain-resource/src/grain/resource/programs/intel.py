"""Intel.

Level Zero specification, "Environment Variables" of the core programming guide: ZE_AFFINITY_MASK
lists devices by their numbers, or parts of them as ``0.1``. An empty list means all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.programs.lists import names_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MASK = "ZE_AFFINITY_MASK"


def visible(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of the GPUs that a process sees; None if its environment does not say."""
    return names_in(environ, MASK) or None


def variables(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG001
    """Return the variables of a program that is to see only these."""
    return {MASK: ",".join(names)}
