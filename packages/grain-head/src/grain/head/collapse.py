"""An exception group never hides the one exception that matters."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def collapsing() -> Generator[None]:
    """Around a nursery: raise what `collapsed` says instead of the nursery's group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = collapsed(group)
        if error is group:
            raise
        # It keeps the context that it has, the exception that its own author was handling: being
        # raised here would replace that by the group.
        context = error.__context__
        try:
            raise error
        finally:
            with suppress(AttributeError):  # of an exception that refuses attributes
                error.__context__ = context


def collapsed(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to raise instead of a group that a nursery raised.

    A keyboard interrupt counts more than what failed because of it. A single exception stands for
    itself, however deep the groups around it. Several stay a group: the innermost that has all.
    """
    for leaf in flattened(group):
        if isinstance(leaf, KeyboardInterrupt):
            return leaf
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def flattened(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group and in the groups inside of it; of another, itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in flattened(member)]
    return [error]
