"""Intel.

Level Zero specification, "Environment Variables" of the core programming guide: ZE_AFFINITY_MASK
lists devices by their numbers, or parts of them as ``0.1``. An empty list means all of them. The
driver passes over numbers of devices that there are not (`parseAffinityMask` of Intel's
compute-runtime), so such a number by itself means none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.programs.lists import names_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MASK = "ZE_AFFINITY_MASK"
_NONE = "65535"  # more than any node has


def visible(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of the GPUs that a process sees; None if its environment does not say."""
    names = names_in(environ, MASK)
    return [name for name in names if name != _NONE] if names else None


def variables(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG001
    """Return the variables of a program that is to see only these."""
    return {MASK: ",".join(names) or _NONE}
