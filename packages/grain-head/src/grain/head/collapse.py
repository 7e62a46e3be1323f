"""An exception group never hides the one exception that matters."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup


def collapsed(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to raise instead of a group that a nursery raised.

    A keyboard interrupt counts more than what failed because of it. A single exception stands for
    itself, however deep the groups around it. Several stay a group.
    """
    leaves = list(_leaves(group))
    for leaf in leaves:
        if isinstance(leaf, KeyboardInterrupt):
            return leaf
    return leaves[0] if len(leaves) == 1 else group


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in _leaves(member)]
    return [error]
