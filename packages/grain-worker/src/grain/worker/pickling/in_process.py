"""Types that connect the threads or tasks of one process, and are of no use as copies.

dill copies their objects without an error, and pickle those of trio and asyncio: nothing sets the
copy of an event, and a copied limiter limits nothing. So they are refused on the way to a task.
In what a task returns or raises they are allowed: this process has never had the originals, so
copies are as good, and to refuse them would lose the result or the exception.
"""

from __future__ import annotations

import pickle
import threading
from typing import Any

import trio

IN_PROCESS: frozenset[type] = frozenset(
    {
        threading.Barrier,
        threading.BoundedSemaphore,
        threading.Condition,  # so also queues, and futures of concurrent.futures
        threading.Event,  # so also threads
        threading.Semaphore,
        trio.CancelScope,
        trio.CapacityLimiter,
        trio.Condition,
        trio.Event,
        trio.Lock,
        trio.MemoryReceiveChannel,
        trio.MemorySendChannel,
        trio.Semaphore,
        trio.StrictFIFOLock,
        trio.lowlevel.ParkingLot,
    }
)
"""The types. Plain locks are not among them: many an object has one for itself alone."""

# All types of these modules are such; they are named, as to import them takes its time.
_ASYNCIO = frozenset({"asyncio.locks", "asyncio.queues"})


def is_in_process(kind: type) -> bool:
    """Return True if objects of a type connect threads or tasks of one process."""
    return kind in IN_PROCESS or kind.__module__ in _ASYNCIO


def refuse(obj: Any) -> None:
    """Raise the error for an object that is not to travel.

    Raises:
        pickle.PicklingError: always.
    """
    kind = type(obj)
    module = kind.__module__.partition(".")[0]
    raise pickle.PicklingError(
        f"a {module}.{kind.__qualname__} is of use in its own process only: "
        "nobody would hear of what happens to a copy. Make it where it is used; what all tasks of "
        "a worker are to share is made in a module that is imported there"
    )
