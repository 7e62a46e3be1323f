"""Types whose objects are bound to one process, and are of no use as copies.

dill copies many of their objects without an error, and pickle those of trio and asyncio: nothing
sets the copy of an event, and a copied lock locks nothing. So they are refused on the way to a
task.

In what a task returns or raises, those are allowed that are only memory: this process has never had
the originals, so copies are as good, and to refuse them would lose the result or the exception.
But a copy of some *acts* on the world when it is loaded or collected: it opens or connects, closes
the descriptor that has the original's number here, or writes what the original had still to write.
Of files, closed ones come back (`grain.worker.pickling.files`); the others are refused.
"""

from __future__ import annotations

import pickle
import threading
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

import trio

from grain.worker.pickling.files import is_file, reduce_file, reduce_standard

if TYPE_CHECKING:
    from collections.abc import Callable

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
    trio.lowlevel.FdStream: _CONNECTION,
    AsyncGeneratorType: "is half-way through its work here. Pass a list of what it yields",
    GeneratorType: "is half-way through its work here. Pass a list of what it yields",
    CoroutineType: (
        "is a call that waits here. Pass the function and its arguments, or await it and pass the "
        "result"
    ),
}
_PROGRAM = "is a program that runs here. Start it in the function, and wait for it there"
_SHARED = "belongs to this machine, and each process attaches to it. Pass its name"
# By name, as importing these modules takes its time; all types of asyncio's two modules. Also
# subclasses.
_NAMED_REMEDIES: dict[str, dict[str, str]] = {
    "asyncio.locks": {},
    "asyncio.queues": {},
    "ctypes": {"CDLL": "is loaded into this process. Load it in the function"},
    "dbm.dumb": {"_Database": _CONNECTION},
    "fileinput": {"FileInput": _FILE},
    "mmap": {"mmap": _FILE},
    "multiprocessing.connection": {"_ConnectionBase": _CONNECTION},
    "multiprocessing.managers": {"BaseProxy": _CONNECTION},
    "multiprocessing.shared_memory": {"SharedMemory": _SHARED, "ShareableList": _SHARED},
    "socket": {"socket": _CONNECTION},
    "sqlite3": {"Connection": _CONNECTION, "Cursor": _CONNECTION},
    "ssl": {"SSLSocket": _CONNECTION},
    "subprocess": {"Popen": _PROGRAM},
    "tarfile": {"TarFile": _FILE},
    "tempfile": {"_TemporaryFileCloser": _FILE},
    "trio": {"Process": _PROGRAM},
    "urllib.request": {"URLopener": _CONNECTION},
    "zipfile": {"ZipFile": _FILE},
}

# What a copy does, unless the original is closed.
_ACTING: dict[str, Callable[[Any], bool]] = {
    "CDLL": lambda _: True,  # calls what has the original's address here
    "FdStream": lambda stream: stream.fileno() >= 0,  # closes its descriptor when collected
    "FileInput": lambda _: True,  # removes its backup
    "Popen": lambda program: program.returncode is None,  # waits for its process
    "TarFile": lambda archive: not archive.closed,  # of a stream, as FdStream
    "URLopener": lambda _: True,  # removes what it has retrieved
    "ZipFile": lambda archive: archive.fp is not None,  # writes its table
    "BaseProxy": lambda _: True,  # connects
    "ShareableList": lambda _: True,  # attaches, and is removed with the first process that does
    "SharedMemory": lambda _: True,
    "_ConnectionBase": lambda connection: not connection.closed,  # as FdStream
    "_Database": lambda database: database._index is not None,  # writes its table
    # Removes the file when collected; from Python 3.12 on, closing need not have removed it.
    "_TemporaryFileCloser": lambda closer: (
        closer.delete and not getattr(closer, "cleanup_called", closer.close_called)
    ),
}

IN_PROCESS: frozenset[type] = frozenset(_REMEDIES) - LOCKS
"""The types whose objects are refused wherever they stand."""


def is_in_process(kind: type) -> bool:
    """Return True if objects of a type are bound to one process, wherever they stand."""
    return kind in IN_PROCESS or is_file(kind) or _named(kind) is not None


def _named(kind: type) -> tuple[str, str] | None:
    """Return the name and the remedy that a type, or a base of it, has in `_NAMED_REMEDIES`."""
    for base in kind.__mro__:
        named = _NAMED_REMEDIES.get(base.__module__)
        if named is not None and (not named or base.__qualname__ in named):
            return base.__qualname__, named.get(base.__qualname__, _CONNECTING)
    return None


def reduce_in_process(obj: Any, copy_all: bool) -> Any:
    """Return the reduction of an object of such a type, where one may travel.

    Args:
        copy_all: True for what a task returns or raises.

    Returns:
        It, or NotImplemented for what pickle or dill copies.

    Raises:
        pickle.PicklingError: the object is not to travel.
    """
    kind = type(obj)
    if is_file(kind):
        reduction = reduce_standard(obj) or (reduce_file(obj) if copy_all else None)
        if reduction is not None:
            return reduction
    elif copy_all and not acts(obj):
        return NotImplemented
    raise refusal(obj)


def acts(obj: Any) -> bool:
    """Return True if a copy of an object acts on the world when it is loaded or collected."""
    kind = type(obj)
    name, _ = _named(kind) or (kind.__name__, "")
    return is_file(kind) or (is_in_process(kind) and name in _ACTING and _ACTING[name](obj))


def refusal(obj: Any) -> pickle.PicklingError:
    """Return the error for an object that is not to travel."""
    kind = type(obj)
    if is_file(kind):
        return pickle.PicklingError(f"an open file {_FILE}")
    remedy = _REMEDIES.get(kind) or (_named(kind) or ("", _CONNECTING))[1]
    return pickle.PicklingError(f"{_noun(kind)} {remedy}")


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
    module = kind.__module__.partition(".")[0]
    if kind in LOCKS:
        return "a threading.Lock" if "R" not in kind.__name__ else "a threading.RLock"
    if module == "builtins":
        return f"a {kind.__name__.replace('_', ' ')}".replace("a async", "an async")
    article = "an" if module[0] in "aeiou" else "a"
    return f"{article} {module}.{kind.__qualname__}"
