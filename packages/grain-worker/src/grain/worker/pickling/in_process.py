"""What connects the threads or tasks of one process, and would be cut off from them by a copy.

dill copies these, and pickle those of trio and asyncio, without a word: the copy of an event is
set by nobody, and a copied limiter limits nothing. So they are refused on the way to a task.
What a task returns or raises is another matter: nobody here has had what its process made, so the
copy is as good; to refuse it would lose what was computed, or which exception it was.
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
"""The types. Plain locks are none of them: many an object has one for itself alone."""

# All that they have is of this sort; named, as to import them takes its time.
_ASYNCIO = frozenset({"asyncio.locks", "asyncio.queues"})


def is_in_process(kind: type) -> bool:
    """Whether objects of a type connect threads or tasks of one process."""
    return kind in IN_PROCESS or kind.__module__ in _ASYNCIO


def refuse(obj: Any) -> None:
    """Say why such an object does not travel.

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
