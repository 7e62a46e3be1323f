"""Several calls as one, for `Executor.map` with ``chunksize``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

T = TypeVar("T")


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The items, so many at a time."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def flat(results: Iterator[list[T]]) -> Generator[T]:
    """The results one by one; none is kept after that."""
    for result in results:
        result.reverse()
        while result:
            yield result.pop()
