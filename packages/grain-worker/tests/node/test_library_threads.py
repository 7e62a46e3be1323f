"""The numbers of threads of numeric libraries, for what tasks compute in the worker's process."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
import trio

from grain import GVAR
from grain.edge.channel import memory_channels
from grain.resource import ZERO, Cores
from grain.worker import Call, MemoryTranslation, Runner
from grain.worker.blocking import call_in_thread
from grain.worker.messages import StartRun
from grain.worker.node.library_threads import (
    MKL,
    Libraries,
    LibraryThreads,
    ProcessNumber,
    ThreadNumber,
)

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.edge.channel import MemoryChannel
    from grain.worker.call import Outcome


class ForProcess(ProcessNumber):
    """A library with one number for the process."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(lambda: self.value, self.put)

    def put(self, value: int) -> None:
        self.value = value


class ForThread(threading.local):
    """A library with a number for each thread, which is 8 at first."""

    def __init__(self) -> None:
        self.number = 8

    def get(self) -> int:
        return self.number

    def put(self, number: int) -> int:
        before, self.number = self.number, number
        return before


class Fakes(Libraries):
    """Two libraries that are there from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = ForProcess(8), ForThread()
        self.process.append(self.shared)
        self.threads.append(ThreadNumber(self.own.get, self.own.put))
        self.loaded: list[ProcessNumber | ThreadNumber] = []

    @property
    def changed(self) -> bool:
        return bool(self.loaded)

    def look(self) -> None:
        while self.loaded:
            library = self.loaded.pop()
            if isinstance(library, ProcessNumber):
                self.process.append(library)
            else:
                self.threads.append(library)

    def numbers(self) -> tuple[int, int]:
        """Return what the calling thread would compute with."""
        return self.shared.number, self.own.number


def test_the_smallest_function_limits_a_library_of_the_process_and_each_its_own_thread() -> None:
    libraries = Fakes()
    threads = LibraryThreads(libraries)
    seen = []

    def small() -> None:
        with threads.of_function(2):
            seen.append(libraries.numbers())
            inside.set()
            leave.wait(60)

    inside, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=small)
    with threads.of_function(4):
        seen.append(libraries.numbers())
        other.start()
        assert inside.wait(60)
        seen.append(libraries.numbers())
        leave.set()
        other.join()
        seen.append(libraries.numbers())
    assert [(4, 4), (2, 2), (2, 4), (4, 4)] == seen
    assert (8, 8) == libraries.numbers()


def test_no_number_grows_above_that_of_the_user() -> None:
    libraries = Fakes()
    with LibraryThreads(libraries).of_function(64):
        assert (8, 8) == libraries.numbers()


def test_a_number_that_the_function_has_set_for_good_stays() -> None:
    libraries = Fakes()
    with LibraryThreads(libraries).of_function(2):
        libraries.shared.number = 1
    assert 1 == libraries.shared.number


def test_runs_count_while_no_function_is_in_a_thread() -> None:
    """Their code in the event loop has the number of the smallest in either library."""
    libraries = Fakes()
    threads = LibraryThreads(libraries)
    two, six = threads.begin_run(Cores([0, 1])), threads.begin_run(Cores(range(6)))
    assert (2, 6) == (two, six)
    seen = [libraries.numbers()]
    with threads.of_function(4):
        seen.append(libraries.numbers())
    threads.end_run(two)
    seen.append(libraries.numbers())
    threads.end_run(six)
    assert [(2, 2), (4, 2), (6, 6)] == seen
    assert (8, 8) == libraries.numbers()


def test_a_run_without_cores_has_no_limit() -> None:
    libraries = Fakes()
    assert 0 == LibraryThreads(libraries).begin_run(ZERO)
    assert (8, 8) == libraries.numbers()


def test_a_library_that_is_loaded_during_a_run_is_limited_from_the_next_one_on() -> None:
    libraries = Fakes()
    threads = LibraryThreads(libraries)
    first = threads.begin_run(Cores([0]))
    late, own = ForProcess(8), ForThread()
    libraries.loaded = [late, ThreadNumber(own.get, own.put)]
    second = threads.begin_run(Cores([1]))
    assert (1, 1) == (late.number, own.number)
    threads.end_run(first)
    threads.end_run(second)
    assert (8, 8) == (late.number, own.number)


def test_a_thread_without_a_number_of_its_own_has_none_afterwards_in_mkl() -> None:
    numbers = {"own": 0}  # 0 for that of the process, which is 6

    def put(number: int) -> int:
        before, numbers["own"] = numbers["own"], number
        return before

    mkl = MKL(lambda: numbers["own"] or 6, put)
    before = mkl.limit(4)
    assert 4 == numbers["own"]
    mkl.undo(before)
    assert 0 == numbers["own"]


@contextmanager
def openblas_with(number: int) -> Iterator[ProcessNumber]:
    """Have NumPy's OpenBLAS compute with so many threads, as on a large node."""
    libraries = Libraries()
    libraries.look()
    for library in libraries.process:
        before = library.number
        library.number = number
        try:
            yield library
        finally:
            library.number = before
        return
    pytest.skip(f"this NumPy has no OpenBLAS with threads of its own: {np.__config__.show()}")


async def test_openblas_in_a_function_in_a_thread_has_the_cores_of_the_task() -> None:
    with openblas_with(3) as library:

        def number() -> int:
            return library.number

        GVAR.res = Cores([0])
        assert 1 == await call_in_thread(number)
        GVAR.res = Cores([0, 1])
        assert 2 == await call_in_thread(number)
        GVAR.res = ZERO
        assert 3 == await call_in_thread(number)
        assert 3 == number()


async def test_openblas_in_a_run_has_its_cores_and_all_threads_afterwards() -> None:
    with openblas_with(3) as library:

        async def compute() -> int:
            return library.number

        async def interrupt() -> None:
            raise KeyboardInterrupt

        head: MemoryChannel[Call | None, Outcome | None]
        theirs: MemoryChannel[Outcome | None, Call | None]
        head, theirs = memory_channels()
        with pytest.raises(BaseExceptionGroup) as raised:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
                head.post([(StartRun((1, 1), Cores([0, 1])), Call(compute, (), {}))])
                ((_, outcome),) = await head.receive()
                assert outcome is not None
                assert (2, 3) == (outcome.unwrap(), library.number)
                head.post([(StartRun((2, 1), Cores([0, 1])), Call(interrupt, (), {}))])
        assert raised.value.subgroup(KeyboardInterrupt) is not None
        assert 3 == library.number
