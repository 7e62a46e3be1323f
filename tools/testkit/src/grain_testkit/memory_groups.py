"""Requests of groups that learn their memory, in later attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.resource import Memory


def after(memory: Memory, *amounts: float) -> Memory:
    """Return the request of the attempt after some for which these GB were too little."""
    for amount in amounts:
        following = memory.after(amount)
        assert following is not None
        memory = following
    return memory
