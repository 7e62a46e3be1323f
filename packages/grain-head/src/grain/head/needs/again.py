"""The request of another attempt, after a run that a learned amount or limit was too little for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import trio

from grain.head.collapse import flattened
from grain.resource import ZERO, Gang, Resource, WTime, learned
from grain.worker.errors import noted_last

if TYPE_CHECKING:
    from collections.abc import Iterable


class Larger(NamedTuple):
    """Another attempt: its request, and what is larger in it, in words."""

    request: Resource
    what: str


def larger(request: Resource, error: BaseException) -> Larger | str | None:
    """Return what an attempt that failed asks for next, if its group learns what was too little.

    Args:
        request: of the attempt, without alternatives.
        error: by which it failed.

    Returns:
        The next attempt; or a sentence that says why there is none; or None for any other failure.
    """
    errors = flattened(error)
    memory = learned(request)
    if memory is not None and any(isinstance(one, MemoryError) for one in errors):
        failed = _noted(errors, MemoryError, "memory_request")
        if not failed:
            return None
        last = any(isinstance(one, MemoryError) and noted_last(one) for one in errors)
        next_ = memory.after(failed, last=last)
        if next_ is None:
            # It had a whole worker in the attempt before, and a larger one has come since.
            if not last and failed < memory.most < math.inf:
                return f"It had {failed:.3g} GB in attempt {memory.tried[0]}, which was the last."
            return f"It had {failed:.3g} GB, the most that its group may ask for."
        return Larger(replaced(request, next_), f"more memory than {failed:.3g} GB")
    time = request.get(WTime)
    if isinstance(time, WTime) and time.group is not None:
        limit = _noted(errors, trio.TooSlowError, "limit")
        if not limit or limit == time.T:  # not a limit that was estimated
            return None
        if time.tried:
            return f"It had {limit:g} s, three times the limit that was estimated for its group."
        return Larger(replaced(request, time.after(limit)), f"more time than {limit:g} s")
    return None


def replaced(request: Resource, part: Resource) -> Resource:
    """Return a request without alternatives, or that of a gang's members, with another part."""
    new = ZERO
    for old in request.parts().values():
        new = new & (part if type(old) is type(part) else old)
    return Gang(request.count, new, request.same) if isinstance(request, Gang) else new


def _noted(errors: Iterable[BaseException], kind: type[BaseException], name: str) -> float:
    """Return what an exception of a kind has noted; 0 if none has."""
    for one in errors:
        value = getattr(one, name, None) if isinstance(one, kind) else None
        if isinstance(value, float | int) and value > 0:
            return float(value)
    return 0.0
