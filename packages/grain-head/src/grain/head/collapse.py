"""Exception groups of nurseries, made into the one exception that matters, where there is one."""

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
    """Raise, around a nursery, what `collapsed` makes of the nursery's group."""
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


def collapsed(error: BaseException) -> BaseException:
    """Return the exception to raise instead of an exception or a group of them.

    A keyboard interrupt counts more than what failed because of it. A single exception stands for
    itself, however deep the groups around it. Several stay a group: the innermost that has all.
    """
    for one in flattened(error):
        if isinstance(one, KeyboardInterrupt):
            return one
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def flattened(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group and in the groups inside of it; else itself."""
    if isinstance(error, BaseExceptionGroup):
        return [one for member in error.exceptions for one in flattened(member)]
    return [error]
