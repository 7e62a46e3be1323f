"""What tests of a file use one after the other, as its start is dear."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")


class Kept(Generic[T]):
    """A thing that is made for the first test, and made again if a test has left it broken.

    So a test that fails is the only one that does, and tests may run alone and in any order.

    Args:
        make: makes it; it ends with the block.
        is_whole: returns True if it is as it was made.
    """

    def __init__(
        self, make: Callable[[], AbstractContextManager[T]], is_whole: Callable[[T], bool]
    ) -> None:
        self._make = make
        self._is_whole = is_whole
        self._ends = ExitStack()
        self._kept: list[T] = []

    def get(self) -> T:
        """Return it, for a test."""
        if self._kept and not self._is_whole(self._kept[0]):
            self.close()
        if not self._kept:
            self._kept.append(self._ends.enter_context(self._make()))
        return self._kept[0]

    def close(self) -> None:
        """End it."""
        self._kept.clear()
        self._ends.close()
