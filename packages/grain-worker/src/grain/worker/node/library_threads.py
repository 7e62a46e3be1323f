"""The numbers of threads that numeric libraries use in this process.

An environment variable such as ``OMP_NUM_THREADS`` gives a program the number of its cores. It
cannot for what tasks compute in the worker's own process: the libraries have read it, and tasks of
different sizes run side by side. There each library is told by its own function, and what that does
differs:

- OpenMP and MKL have a number for each thread that calls them. So each function in a thread has
  the number of its own cores, whatever runs beside it.
- OpenBLAS with threads of its own, as in the wheels of NumPy and SciPy, has one number for the
  process; its ``set_num_threads_local`` sets the same one. There it is the smallest number of cores
  of all that compute, so that none uses more threads than it has cores.

No number is made larger than the library had it: a user may have set it.

What computes are the functions in threads (`grain.worker.blocking`). While there are none, runs
that have cores count, as their code in the event loop may call a library as well; while there are,
runs do not, since most of them wait for programs.

Threadpoolctl, which does the first half of this, is not used: it knows MKL's number only for the
process, and would have to be installed with every worker.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The names of the files of OpenBLAS, of MKL, and of the OpenMP of GCC, LLVM and Intel. A wheel has
# its own copy of each, with some letters behind the name.
_KINDS = r"/lib(?:scipy_|flexiblas_)?(openblas|mkl_|gomp|i?omp)[^/\n]*\.so[^/\n]*$"
_LOADED = re.compile(rf"/.*{_KINDS}".encode(), re.MULTILINE)
_KIND = re.compile(_KINDS)

# OpenBLAS as built for NumPy, for 64 bits and by distributions: symbols have a prefix, a suffix.
_OPENBLAS = [(prefix, suffix) for prefix in ("", "scipy_") for suffix in ("", "64_", "_64", "_64_")]
_OWN_THREADS = 1  # what openblas_get_parallel returns; 2 for OpenMP, whose number then holds


class ProcessNumber:
    """The number of threads of a library that has one for the process."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], object]) -> None:
        self._get = get
        self._put = put
        self._before = 0  # the number before a limit; 0 while there is none
        self._ours = 0

    @property
    def number(self) -> int:
        """The number of threads."""
        return self._get()

    @number.setter
    def number(self, value: int) -> None:
        self._put(value)

    def limit(self, cores: int) -> None:
        """Set the number to this at most; 0 to what it was before."""
        if not cores:
            # What the user's own code has set meanwhile stays.
            if self._before and self.number == self._ours:
                self.number = self._before
            self._before = self._ours = 0
            return
        self._before = self._before or self.number
        wanted = min(cores, self._before)
        if wanted != self._ours:
            self.number = self._ours = wanted


class ThreadNumber:
    """The number of threads of a library that has one for each thread that calls it, as OpenMP."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], int]) -> None:
        self._get = get
        self._put = put

    def limit(self, cores: int) -> int:
        """Set the number of the calling thread to this at most; return what undoes that."""
        before = self._get()
        self._put(min(cores, before))
        return before

    def undo(self, before: int) -> None:
        """Set the number of the calling thread as it was."""
        self._put(before)


class MKL(ThreadNumber):
    """The number of MKL, which returns the one before when it is set: 0 where there was none."""

    def limit(self, cores: int) -> int:
        """Set the number of the calling thread to this at most; return what undoes that."""
        return self._put(min(cores, self._get()))


class Libraries:
    """The numeric libraries that this process has loaded."""

    def __init__(self) -> None:
        self.process: list[ProcessNumber] = []
        self.threads: list[ThreadNumber] = []
        self._modules = 0  # at the last look: libraries come with modules
        self._looked_at: set[str] = set()
        self._addresses: set[int] = set()

    @property
    def changed(self) -> bool:
        """True if there may be others since the last look."""
        return len(sys.modules) != self._modules

    def look(self) -> None:
        """Add libraries that were loaded since the last look."""
        self._modules = len(sys.modules)
        new = _loaded_files() - self._looked_at
        self._looked_at |= new
        for path in sorted(new):
            address, number = _number_of(path) or (0, None)
            if number is None or address in self._addresses:
                continue
            self._addresses.add(address)
            if isinstance(number, ProcessNumber):
                self.process.append(number)
            else:
                self.threads.append(number)


class LibraryThreads:
    """The numbers of threads that libraries use for the runs and functions of this process.

    One for each trio run: two that run at a time in one process do not know of each other.
    """

    def __init__(self, libraries: Libraries | None = None) -> None:
        self._libraries = libraries or Libraries()
        self._lock = threading.Lock()
        self._functions = _Claims()
        self._runs = _Claims()
        # What undoes the limits of the event loop's thread.
        self._undo_in_loop: list[tuple[ThreadNumber, int]] = []

    def begin_run(self, res: object) -> int:
        """Note the start of a run, in the event loop's thread.

        Returns:
            What `end_run` takes; 0 if there is nothing to end.
        """
        libraries = self._libraries
        if libraries.changed:
            self._look()
        if not libraries.process and not libraries.threads:
            return 0
        cores = len(getattr(res, "c", None) or ())
        if cores:
            with self._lock:
                changed = self._runs.add(cores)
                if changed:
                    self._limit_process()
            if changed or len(libraries.threads) != len(self._undo_in_loop):
                self._limit_loop()
        return cores

    def end_run(self, cores: int) -> None:
        """Note the end of a run, in the event loop's thread."""
        with self._lock:
            changed = self._runs.remove(cores)
            if changed:
                self._limit_process()
        if changed:
            self._limit_loop()

    @contextmanager
    def of_function(self, cores: int) -> Iterator[None]:
        """Limit the libraries for what the calling thread computes in this block."""
        if self._libraries.changed:
            self._look()
        threads = [(number, number.limit(cores)) for number in self._libraries.threads]
        with self._lock:
            if self._functions.add(cores):
                self._limit_process()
        try:
            yield
        finally:
            with self._lock:
                if self._functions.remove(cores):
                    self._limit_process()
            for number, before in reversed(threads):
                number.undo(before)

    def _limit_process(self) -> None:
        cores = self._functions.smallest or self._runs.smallest
        for number in self._libraries.process:
            number.limit(cores)

    def _limit_loop(self) -> None:
        for number, before in self._undo_in_loop:
            number.undo(before)
        cores = self._runs.smallest
        limited = self._libraries.threads if cores else []
        self._undo_in_loop = [(number, number.limit(cores)) for number in limited]

    def _look(self) -> None:
        with self._lock:
            self._libraries.look()
            self._limit_process()


class _Claims:
    """Numbers of cores, each as often as something has it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.smallest = 0

    def add(self, cores: int, times: int = 1) -> bool:
        """Add a number so many times; return True if the smallest is another now."""
        self._counts[cores] += times
        if not self._counts[cores]:
            del self._counts[cores]
        before, self.smallest = self.smallest, min(self._counts, default=0)
        return self.smallest != before

    def remove(self, cores: int) -> bool:
        """Remove a number; return True likewise."""
        return self.add(cores, -1)


_OF_RUN: trio.lowlevel.RunVar[LibraryThreads | None] = trio.lowlevel.RunVar(
    "grain.worker library threads"
)


def library_threads() -> LibraryThreads:
    """Return the numbers of threads, as this trio run sets them."""
    threads = _OF_RUN.get(None)
    if threads is None:
        threads = LibraryThreads()
        _OF_RUN.set(threads)
    return threads


def _loaded_files() -> set[str]:
    """Return the paths of the numeric libraries that this process has loaded."""
    try:
        maps = Path("/proc/self/maps").read_bytes()
    except OSError:  # no /proc here
        return set()
    return {os.fsdecode(found[0]) for found in _LOADED.finditer(maps)}


def _number_of(path: str) -> tuple[int, ProcessNumber | ThreadNumber] | None:
    """Return the number of threads of a library, and the address of the function that sets it.

    Libraries that are linked with another share its functions. None if it has no such function.
    """
    import ctypes  # a worker without numeric libraries never needs it

    try:
        (kind,) = _KIND.findall(path)
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if kind == "mkl_":
            put = library.MKL_Set_Num_Threads_Local
            number: ProcessNumber | ThreadNumber = MKL(library.MKL_Get_Max_Threads, put)
        elif kind == "openblas":
            name = _openblas_name(library)
            if library[name.format("get_parallel")]() != _OWN_THREADS:
                return None
            put = library[name.format("set_num_threads")]
            number = ProcessNumber(library[name.format("get_num_threads")], put)
        else:
            put = library.omp_set_num_threads
            number = ThreadNumber(library.omp_get_max_threads, put)
    except (OSError, AttributeError):  # replaced since; no library of that kind after all
        return None
    return ctypes.cast(put, ctypes.c_void_p).value or 0, number


def _openblas_name(library: Any) -> str:
    """Return the name of a function of an OpenBLAS, with ``{}`` where its own part stands."""
    for prefix, suffix in _OPENBLAS:
        name = f"{prefix}openblas_{{}}{suffix}"
        if hasattr(library, name.format("get_num_threads")):
            return name
    raise AttributeError("openblas_get_num_threads")
