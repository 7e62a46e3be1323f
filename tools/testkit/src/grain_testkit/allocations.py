"""Allocations that a test writes down: the fields that programs are told of, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from grain.resource import Resource


class _Allocation(SimpleNamespace):
    def parts(self) -> dict[str, Resource]:
        """Return no part: nothing of it was learned."""
        return {}


def allocation(**fields: object) -> Resource:
    """Return an allocation of fields: ``c`` for CPUs, ``g`` for GPUs, ``M`` for GB of memory."""
    return cast("Resource", _Allocation(**fields))
