"""Objects that mean something in their own process only do not travel as copies."""

from __future__ import annotations

import asyncio
import threading
from concurrent import futures
from queue import Queue
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain.worker.errors import PayloadError
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable

MAKE: dict[str, Callable[[], Any]] = {
    "threading.Barrier": lambda: threading.Barrier(2),
    "threading.BoundedSemaphore": threading.BoundedSemaphore,
    "threading.Condition": threading.Condition,
    "threading.Event": threading.Event,
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
        with pytest.raises(PayloadError, match=r"Make it where it is used") as caught:
            dump()
        assert f"a {name} is of use in its own process only" in str(caught.value)
    with pytest.raises(PayloadError, match=r"thing \(a variable of .*uses_it\)"):
        Payloads().dump_function(uses_it)


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
