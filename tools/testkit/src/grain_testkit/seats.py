"""A kind of resource for tests: named seats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource import Resource, resource_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


@resource_kind("Seats")
class Seats(Resource):
    """Named seats, with nothing but the five methods that a kind must have."""

    def __init__(self, names: int | Iterable[str]) -> None:
        self.names = sorted(map(str, range(names)) if isinstance(names, int) else names)
        self._owned = len(self.names)

    def _request(self, res: Self) -> bool:
        return len(res.names) <= len(self.names)

    def _alloc(self, res: Self) -> Self:
        n = len(res.names)
        taken, self.names = self.names[:n], self.names[n:]
        return type(self)(taken)

    def _dealloc(self, res: Self) -> None:
        self.names = sorted(self.names + res.names)

    def _repr(self) -> str:
        return f"Seats({self.names})"

    def _stat(self) -> tuple[int, int]:
        return len(self.names), self._owned
