"""Types whose objects are bound to one process, and are of no use as copies.

dill copies many of their objects without an error, and pickle those of trio and asyncio: nothing
sets the copy of an event, a copied lock locks nothing, and a copied file reads the file again. So
they are refused on the way to a task.

In what a task returns or raises they are allowed: this process has never had the originals, so
copies are as good, and to refuse them would lose the result or the exception.
"""

from __future__ import annotations

import io
import pickle
import threading
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import Any

import trio

_CONNECTING = (
    "is of use in its own process only: a copy would be connected with nothing. Make it in the "
    "function that uses it; if all tasks of a worker share it, in a module that they import"
)
_FILE = "belongs to this process. Pass the path, and open the file in the function"
_CONNECTION = "belongs to this process. Pass its path or address, and connect in the function"

LOCKS: frozenset[type] = frozenset({type(threading.Lock()), type(threading.RLock())})
"""Locks, which are refused by themselves. An object that has one among its attributes travels, as
the lock guards only that object: its copy has a lock of its own."""

_REMEDIES: dict[type, str] = {
    **dict.fromkeys(
        (
            *LOCKS,
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
        ),
        _CONNECTING,
    ),
    **dict.fromkeys(
        (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO),
        _FILE,
    ),
    AsyncGeneratorType: "is half-way through its work here. Pass a list of what it yields",
    GeneratorType: "is half-way through its work here. Pass a list of what it yields",
    CoroutineType: (
        "is a call that waits here. Pass the function and its arguments, or await it and pass the "
        "result"
    ),
}
# By name, as importing these modules takes its time; all types of asyncio's two modules.
_NAMED_REMEDIES: dict[str, dict[str, str]] = {
    "asyncio.locks": {},
    "asyncio.queues": {},
    "mmap": {"mmap": _FILE},
    "socket": {"socket": _CONNECTION},
    "sqlite3": {"Connection": _CONNECTION, "Cursor": _CONNECTION},
    "ssl": {"SSLSocket": _CONNECTION},
    "subprocess": {"Popen": "is a program that runs here. Start it in the function"},
    "trio": {"Process": "is a program that runs here. Start it in the function"},
}

IN_PROCESS: frozenset[type] = frozenset(_REMEDIES) - LOCKS
"""The types whose objects are refused wherever they stand."""

_STANDARD = ("<stdin>", "<stdout>", "<stderr>")


def is_in_process(kind: type) -> bool:
    """Return True if objects of a type are bound to one process, wherever they stand."""
    if kind in IN_PROCESS:
        return True
    named = _NAMED_REMEDIES.get(kind.__module__)
    return named is not None and (not named or kind.__qualname__ in named)


def refuse(obj: Any) -> None:
    """Raise the error for an object that is not to travel; the standard streams travel by name.

    Raises:
        pickle.PicklingError: the object is not a standard stream.
    """
    kind = type(obj)
    if kind is io.TextIOWrapper and getattr(obj, "name", None) in _STANDARD:
        return
    remedy = _REMEDIES.get(kind)
    if remedy is None:
        remedy = _NAMED_REMEDIES[kind.__module__].get(kind.__qualname__, _CONNECTING)
    raise pickle.PicklingError(f"{_noun(kind)} {remedy}")


def new_lock(kind: type) -> Any:
    """Return the function that makes a lock of a type, by which a copy of the lock is made."""
    return threading.RLock if kind is type(threading.RLock()) else threading.Lock


def owned_locks(part: Any) -> list[int]:
    """Return the identities of the locks that travel with an object, as copies."""
    if isinstance(part, FunctionType):
        return module_locks(part)
    return [] if isinstance(part, type) else attribute_locks(part)


def module_locks(function: FunctionType) -> list[int]:
    """Return the identities of the locks of the module of a function, but for the script's own.

    dill copies with a function what the functions that it calls refer to, although those go by
    their names: a lock that only they use must not keep the function from its worker.
    """
    if function.__module__ == "__main__":
        return []
    return [id(value) for value in function.__globals__.values() if type(value) in LOCKS]


def attribute_locks(obj: Any) -> list[int]:
    """Return the ids of the locks that an object has among its attributes."""
    values = list(getattr(obj, "__dict__", {}).values())
    for base in type(obj).__mro__:
        slots = base.__dict__.get("__slots__", ())
        values += [getattr(obj, slot, None) for slot in ((slots,) if type(slots) is str else slots)]
    return [id(value) for value in values if type(value) in LOCKS]


def _noun(kind: type) -> str:
    if _REMEDIES.get(kind) is _FILE:
        return "an open file"
    module = kind.__module__.partition(".")[0]
    if kind in LOCKS:
        return "a threading.Lock" if "R" not in kind.__name__ else "a threading.RLock"
    if module == "builtins":
        return f"a {kind.__name__.replace('_', ' ')}".replace("a async", "an async")
    article = "an" if module[0] in "aeiou" else "a"
    return f"{article} {module}.{kind.__qualname__}"
