"""CPython's own tests of executors, as they are, against `Executor`.

Only what they leave to a race of threads is decided, see `Pool` and `OfGrain`.

They are in the standard library's package ``test``, which some distributions leave out, or have
in a package of their own: on Debian, libpython3.11-testsuite has those of that version.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import time
import unittest
import weakref
from concurrent import futures
from typing import Any

import pytest

from grain.delayed import Executor
from grain.resource import Cores

_WHOLE = "test.test_concurrent_futures"
_DEBIAN = f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}/test"
# Where the classes are: in modules of a package since Python 3.12, in one module before.
_MODULES = {
    "ExecutorTest": "executor",
    "ExecutorShutdownTest": "test_shutdown",
    "WaitTests": "test_wait",
    "AsCompletedTests": "test_as_completed",
}
_SCRIPT = "its program imports the class from concurrent.futures and calls it as Class(5)"
# Each of these fails, or it would not have to be here.
NOT_APPLICABLE = {
    "test_max_workers_negative": "no max_workers: the workers' resources are the limit",
    "test_interpreter_shutdown": _SCRIPT,
    "test_submit_after_interpreter_shutdown": _SCRIPT,
    "test_hang_issue83386": _SCRIPT,  # until 3.11
    "test_hang_gh83386": _SCRIPT,
}
# Fails or not, depending on which thread is faster.
UNDECIDED = {
    "test_cancel_futures": "of calls that are cancelled in the instant in which they were "
    "submitted, it wants one to run; here, all are cancelled if none has begun"
}


# They wait for five seconds each.
SLOW = {"test_map_timeout", "test_timeout"}

# These want a call that sleeps to be still running when they look. Here, it runs until the test has
# ended, however long that takes.
OUTLASTED = {
    "test_first_completed",
    "test_first_completed_some_already_completed",
    "test_first_exception",
    "test_first_exception_some_already_complete",
    "test_first_exception_one_already_failed",
    "test_timeout",
    "test_map_timeout",
    "test_zero_timeout",  # until 3.12
    "test_future_times_out",  # since then
}
# Of these, some want other calls to have ended by a certain time. They do when they are submitted.
PUNCTUAL = {"test_first_exception": "mul", "test_timeout": "mul", "test_map_timeout": "sleep"}


class Pool(Executor):
    """As the tests make executors: by the number of calls at a time.

    Args:
        max_workers: that number.
        test: the name of the test.
    """

    def __init__(self, max_workers: int = 5, test: str = "") -> None:
        super().__init__(Cores(1), Cores(max_workers), config_file=False, progress=False)
        self.test_has_ended = threading.Event()
        self._outlasted = test in OUTLASTED
        self._punctual = PUNCTUAL.get(test)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self._outlasted and fn is time.sleep and args[0] > 0:
            return super().submit(self.test_has_ended.wait)
        future = super().submit(fn, *args, **kwargs)
        if self._punctual == getattr(fn, "__name__", None):
            futures.wait([future])
        return future


class OfGrain:
    """The executor that replaces the one of the mixins of those tests."""

    executor_type = Pool
    worker_count = 5
    _testMethodName: str

    def setUp(self) -> None:
        if "free_reference" in self._testMethodName:
            gc.freeze()  # each of its many collections would go through all that earlier tests left
        self.executor = self.executor_type(self.worker_count, self._testMethodName)

    def tearDown(self) -> None:
        self.executor.test_has_ended.set()
        self.executor.shutdown()
        if "free_reference" in self._testMethodName:
            gc.unfreeze()


class Anything:
    """A class whose instances can be referred to weakly."""


def _free_reference(self: OfGrain) -> None:
    """As CPython's, but the thread that handed a result over may take its time to let go of it."""
    for result in self.executor.map(lambda _: Anything(), range(10)):
        reference = weakref.ref(result)
        del result
        deadline = time.monotonic() + 120
        while reference() is not None:
            gc.collect()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def case_of(name: str) -> Any:
    """Return the tests of one of CPython's classes, against `Executor`."""
    whole = sys.version_info < (3, 12)
    where = _WHOLE if whole else f"{_WHOLE}.{_MODULES[name]}"
    try:
        package = importlib.import_module("test")
        if _DEBIAN not in package.__path__:
            package.__path__.append(_DEBIAN)  # where this Python's own has it, that comes first
        theirs = getattr(importlib.import_module(where), name)
    except ModuleNotFoundError as missing:
        reason = f"this Python lacks {missing.name}"
        skipped = type(f"{name}OfGrain", (unittest.TestCase,), {"test_all": lambda _: None})
        return unittest.skip(reason)(skipped)
    members: dict[str, Any] = {"__module__": __name__}
    if hasattr(theirs, "test_free_reference"):
        members["test_free_reference"] = _free_reference
    for test in NOT_APPLICABLE:
        if hasattr(theirs, test):
            members[test] = unittest.expectedFailure(_again(test))
    for test, reason in UNDECIDED.items():
        if hasattr(theirs, test):
            members[test] = unittest.skip(reason)(_again(test))
    for test in SLOW:
        if hasattr(theirs, test):
            members[test] = pytest.mark.nightly(_again(test))
    return type(f"{name}OfGrain", (OfGrain, theirs, unittest.TestCase), members)


def _again(test: str) -> Any:
    def method(self: Any) -> None:
        getattr(super(type(self), self), test)()

    return method


ExecutorTestOfGrain = case_of("ExecutorTest")
ExecutorShutdownTestOfGrain = case_of("ExecutorShutdownTest")
WaitTestsOfGrain = case_of("WaitTests")
AsCompletedTestsOfGrain = case_of("AsCompletedTests")


def test_the_list_is_exact() -> None:
    """Every test that is listed is one that CPython has; that each fails is seen as it runs."""
    cases = [
        ExecutorTestOfGrain,
        ExecutorShutdownTestOfGrain,
        WaitTestsOfGrain,
        AsCompletedTestsOfGrain,
    ]
    if any(getattr(case, "__unittest_skip__", False) for case in cases):
        pytest.skip("this Python lacks the package test")
    theirs = {name for case in cases for name in dir(case) if name.startswith("test_")}
    assert UNDECIDED.keys() <= theirs
    assert OUTLASTED >= PUNCTUAL.keys()
    assert 7 <= len(OUTLASTED & theirs)
    assert len(NOT_APPLICABLE.keys() - theirs) <= 1  # one was renamed
