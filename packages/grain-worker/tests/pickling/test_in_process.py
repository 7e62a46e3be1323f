"""Objects that mean something in their own process only do not travel as copies."""

from __future__ import annotations

import asyncio
import importlib
import mmap
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property, partial
from queue import Queue
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain.worker.errors import PayloadError
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAKE: dict[str, Callable[[], Any]] = {
    "threading.Barrier": lambda: threading.Barrier(2),
    "threading.BoundedSemaphore": threading.BoundedSemaphore,
    "threading.Condition": threading.Condition,
    "threading.Event": threading.Event,
    "threading.Lock": threading.Lock,
    "threading.RLock": threading.RLock,
    "threading.Semaphore": threading.Semaphore,
    "trio.CancelScope": trio.CancelScope,
    "trio.CapacityLimiter": lambda: trio.CapacityLimiter(1),
    "trio.Condition": trio.Condition,
    "trio.Event": trio.Event,
    "trio.Lock": trio.Lock,
    "trio.MemoryReceiveChannel": lambda: trio.open_memory_channel[int](1)[1],
    "trio.MemorySendChannel": lambda: trio.open_memory_channel[int](1)[0],
    "trio.Semaphore": lambda: trio.Semaphore(1),
    "trio.StrictFIFOLock": trio.StrictFIFOLock,
    "trio.ParkingLot": trio.lowlevel.ParkingLot,
    "asyncio.Condition": asyncio.Condition,
    "asyncio.Event": asyncio.Event,
    "asyncio.Lock": asyncio.Lock,
    "asyncio.Queue": asyncio.Queue,
    "asyncio.Semaphore": asyncio.Semaphore,
}


@pytest.mark.parametrize("name", MAKE)
def test_objects_that_connect_threads_or_tasks_are_refused_on_the_way_to_a_task(name: str) -> None:
    """In a closure and as an argument; the message says which, and what to do."""
    thing = MAKE[name]()

    def uses_it() -> object:
        return thing

    for dump in (
        lambda: Payloads().dump_function(uses_it),
        lambda: Payloads().dump_arguments((1, [thing]), {}),
        lambda: Payloads().dump_arguments((1, {"f": uses_it}), {}),
    ):
        with pytest.raises(PayloadError, match=r"Make it in the function that uses it") as caught:
            dump()
        article = "an" if name.startswith("asyncio") else "a"
        assert f" {article} {name} is of use in its own process only" in str(caught.value)
    with pytest.raises(PayloadError, match=r"thing \(a variable of .*uses_it\)"):
        Payloads().dump_function(uses_it)


async def coroutine() -> None:
    """Do nothing."""


BELONGS: dict[str, tuple[Callable[[], Any], str]] = {
    "file": (
        lambda: open(__file__),  # noqa: PTH123, SIM115 - an open file
        "an open file belongs to this process. Pass the path",
    ),
    "binary file": (
        lambda: open(__file__, "rb"),  # noqa: PTH123, SIM115
        "an open file belongs to this process. Pass the path",
    ),
    "temporary file": (
        lambda: tempfile.NamedTemporaryFile("w"),  # noqa: SIM115
        "an open file belongs to this process. Pass the path",
    ),
    "memory map": (lambda: mmap.mmap(-1, 10), "a mmap.mmap belongs to this process"),
    "socket": (socket.socket, "a socket.socket belongs to this process. Pass its path or address"),
    "database": (
        lambda: sqlite3.connect(":memory:"),
        "a sqlite3.Connection belongs to this process. Pass its path or address, and connect in",
    ),
    "generator": (
        lambda: (i for i in range(3)),
        "a generator is half-way through its work here. Pass a list",
    ),
    "coroutine": (
        coroutine,
        "a coroutine is a call that waits here. Pass the function and its arguments",
    ),
    "program": (
        lambda: subprocess.Popen(["true"]),
        "a subprocess.Popen is a program that runs here. Start it in the function",
    ),
}


def end(thing: Any) -> None:
    """Close a thing, or wait for it."""
    if isinstance(thing, subprocess.Popen):
        thing.wait()
    else:
        thing.close()


@pytest.mark.parametrize("name", BELONGS)
def test_what_belongs_to_a_process_is_refused_by_name_with_a_remedy(name: str) -> None:
    make, words = BELONGS[name]
    thing = make()

    def uses_it() -> object:
        return (lambda: thing)()

    with ExitStack() as stack:
        stack.callback(end, thing)
        with pytest.raises(PayloadError, match=rf"thing \(a variable of .*uses_it\)[^\0]*{words}"):
            Payloads().dump_function(uses_it)
        with pytest.raises(PayloadError, match=r"argument 0\['out'\]"):
            Payloads().dump_arguments(({"out": thing},), {})
        with pytest.raises(PayloadError, match=r"args\[0\]"):
            Payloads().dump_function(partial(print, thing))


def test_a_lock_among_the_globals_of_a_script_is_refused_by_name() -> None:
    """Also one that only a function within the function mentions."""
    script = {"__name__": "__main__", "guard": threading.Lock()}
    exec("def outer():\n    def inner():\n        return guard\n    return inner\n", script)
    with pytest.raises(PayloadError, match=r"guard \(a global of outer\) cannot.*threading\.Lock"):
        Payloads().dump_function(script["outer"])


def test_a_lock_among_defaults_and_of_bound_methods_is_refused_by_name() -> None:
    class Table:
        def __init__(self) -> None:
            self.locks = {"a": threading.Lock()}

        def rows(self) -> int:
            return len(self.locks)

    def waits(lock: object = threading.Lock()) -> object:
        return lock

    with pytest.raises(PayloadError, match="because a default of .*waits cannot"):
        Payloads().dump_function(waits)
    with pytest.raises(PayloadError, match=r"because the object of .*rows\.locks\['a'\] cannot"):
        Payloads().dump_function(Table().rows)


def test_standard_streams_travel_by_their_names() -> None:
    stream = sys.__stdout__

    def names() -> object:
        return stream

    copy = Payloads().load_function(Payloads().dump_function(names).payload)()
    assert "<stdout>" == copy.name


@pytest.mark.parametrize("make", [Queue, futures.Future, threading.Thread])
def test_queues_futures_and_threads_are_refused_as_well(make: Callable[[], Any]) -> None:
    thing = make()
    with pytest.raises(PayloadError, match="of use in its own process only"):
        Payloads().dump_function(lambda: thing)


def test_an_object_with_a_lock_of_its_own_travels() -> None:
    class Counter:
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.count = 3

    counter = Counter()
    ours = Payloads()
    copy = Payloads().load_function(ours.dump_function(lambda: counter).payload)()
    assert 3 == copy.count
    with copy.lock:
        assert not counter.lock.locked()


def test_a_reentrant_lock_of_an_object_is_free_in_its_copy() -> None:
    """As that of a cached property, before Python 3.12."""

    class Molecule:
        def __init__(self) -> None:
            self.lock = threading.RLock()

        @cached_property
        def atoms(self) -> int:
            return 3

    molecule = Molecule()
    molecule.lock.acquire()
    copy = Payloads().load_function(Payloads().dump_function(lambda: molecule).payload)()
    assert copy.lock.acquire(blocking=False)
    with ThreadPoolExecutor(1) as other:
        assert 3 == other.submit(lambda: copy.atoms).result(60)


@pytest.mark.parametrize("name", MAKE)
def test_a_result_or_exception_with_such_objects_comes_back(name: str) -> None:
    """By name or by value: neither is lost for it."""
    worker, ours = Payloads(), Payloads()

    class Failure(Exception):
        """Keeps what it was raised by."""

    thing = MAKE[name]()
    error = ValueError("no convergence")
    error.solver = thing  # type: ignore[attr-defined]

    came = ours.load_outcome(worker.dump_outcome(outcome.Value((3, [thing], lambda: thing))))
    assert isinstance(came, outcome.Value)
    three, [copy], function = came.value
    assert 3 == three
    assert type(copy) is type(thing) is type(function())

    failed = ours.load_outcome(worker.dump_outcome(outcome.Error(error)))
    assert isinstance(failed, outcome.Error)
    assert type(failed.error) is ValueError
    assert ("no convergence",) == failed.error.args

    failed = ours.load_outcome(worker.dump_outcome(outcome.Error(Failure(thing, 4))))
    assert isinstance(failed, outcome.Error)
    assert "Failure" == type(failed.error).__name__
    assert 4 == failed.error.args[1]


def test_a_lock_of_an_imported_module_keeps_none_of_its_functions_from_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dill copies with a function what the functions that it calls refer to."""
    (tmp_path / "module_with_lock.py").write_text(
        "import threading\nlock = threading.Lock()\n"
        "def locked(x):\n    with lock:\n        return x\n"
        "def wrapped(x):\n    return locked(x)\n"
        "hidden, wrapped = wrapped, None\n"  # so it goes by value, as a decorated one does
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_with_lock")

    assert b"locked" in Payloads().dump_function(module.hidden).payload
