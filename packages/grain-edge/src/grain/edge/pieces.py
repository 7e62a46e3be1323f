"""A payload that nobody has put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Pieces:
    """Bytes that follow one another, and travel as one payload.

    To put a hundred megabytes together takes as long as to send them; and of bytes, which nobody
    can change, a sender needs no copy of its own. Whoever receives it gets one piece.

    Args:
        parts: `bytes` only: what could still be changed while it waits to be sent is refused.

    Attributes:
        parts: those that are not empty.

    Raises:
        TypeError: a part is of another type.
    """

    __slots__ = ("_size", "parts")

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = tuple(part for part in parts if type(part) is not bytes or part)
        for part in self.parts:
            if type(part) is not bytes:
                raise TypeError(f"a piece must be bytes, not {type(part).__name__}")
        self._size = sum(map(len, self.parts))

    def __len__(self) -> int:
        """Bytes of all of them."""
        return self._size

    def __repr__(self) -> str:
        return f"<Pieces, {len(self.parts)} of {self._size} bytes>"
