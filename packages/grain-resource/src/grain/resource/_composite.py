"""Several kinds as one resource, and none at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.resource._base import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping


class Composite(Resource):
    """What ``&`` makes: parts of different kinds, which are never composites themselves.

    It has the attributes of its parts. The order of the parts shows in the representation only.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: dict[str, Resource]) -> None:
        self._parts = parts

    def parts(self) -> Mapping[str, Resource]:
        return self._parts

    def _supplied(self) -> Composite:
        return Composite({kind: part._supplied() for kind, part in self._parts.items()})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for part in self._parts.values():
                exports = part._exports
                if (hasattr(part, name)) if exports is None else (name in exports):
                    return getattr(part, name)
        return super().__getattr__(name)

    def __reduce__(self) -> tuple[type[Composite], tuple[dict[str, Resource]]]:
        return (Composite, (self._parts,))


class Zero(Composite):
    """The type of ``ZERO``, which is the only one of it: copies and pickles are ``ZERO`` again."""

    __slots__ = ()

    def __reduce__(self) -> str:  # type: ignore[override]
        return "ZERO"

    def _supplied(self) -> Zero:
        return self


# Pickled by its public name, as GVAR is.
Zero.__module__ = "grain.resource"

# "No resource is required to run the tasklet", "the worker is holding no resource"; shown as Ø.
ZERO: Resource = Zero({})
