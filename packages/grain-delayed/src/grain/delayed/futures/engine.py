"""The mission of an `Executor`, in a thread of its own, and the futures of its calls.

An `Engine` is shared by all threads; a `_Worksite` lives in the engine's thread, as long as the
mission is open. Calls travel from one to the other in deques that the engine's lock guards, and the
engine wakes the worksite in its trio loop.

Neither refers to the `Executor`: so the garbage collector finds an executor that is not referenced
any more, and its finalizer closes the engine.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent import futures
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import outcome
import trio

from grain.delayed.function import is_async
from grain.head import ExecutorClosed, TaskCancelled
from grain.worker import Call
from grain.worker.blocking import InThread, call_in_thread
from grain.worker.call import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from grain.delayed.graph import Outcome
    from grain.delayed.missions.mission import Mission
    from grain.resource import Resource

    Open = Callable[[], AbstractAsyncContextManager[Mission]]

T = TypeVar("T")

# Seconds between two looks at the main thread, which may have ended.
_LOOK = 0.1

# Seconds between two moments at which a thread that waits runs its signal handlers. A signal that
# arrives just before Python begins to wait for a lock does not end that wait.
_WAKE = 1.0

# The engine whose call this thread runs; also in threads that inherit its context.
_working_for: ContextVar[Engine | None] = ContextVar("grain.delayed engine", default=None)


class Future(futures.Future[T]):
    """A future that refuses to be waited for in a call of the same executor.

    Such a call would hold its resources while it waits for another that may never get them.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._begun = False

    def begin(self) -> bool:
        """Mark the call as running; return False if it was cancelled before that."""
        if not self._begun:
            self._begun = True
            return self.set_running_or_notify_cancel()
        return not self.cancelled()

    def result(self, timeout: float | None = None) -> T:
        """Return the result of the call, as `concurrent.futures.Future`."""
        self._wait(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception of the call, as `concurrent.futures.Future`."""
        self._wait(timeout)
        return super().exception(timeout)

    def _wait(self, timeout: float | None) -> None:
        """Check the wait; if it may last without end, have signals handled during it."""
        self._engine.check_wait(self)
        while timeout is None and not self.done():
            with suppress(futures.TimeoutError, futures.CancelledError):
                super().exception(_WAKE)


class _Submitted(NamedTuple):
    """A call that the worksite has yet to submit."""

    future: Future[Any]
    call: Call
    request: Resource


class _Orders(NamedTuple):
    """News for the worksite."""

    submitted: deque[_Submitted]
    cancelled: deque[Future[Any]]
    closed: bool  # it takes no more calls; the present ones go on
    interrupted: bool  # what runs is cancelled, as well as what waits


class Engine:
    """The part of an executor that all threads share."""

    def __init__(self, open_mission: Open) -> None:
        self._open_mission = open_mission
        self._pid = os.getpid()
        self._began: futures.Future[None] = futures.Future()
        self._thread = threading.Thread(target=self._run, name="grain.delayed.Executor")
        # Reentrant: the garbage collector may call `close` at any point.
        self._lock = threading.RLock()
        # Under the lock: news for the worksite, the calls that are not resolved, and whether no
        # more are taken.
        self._submitted: deque[_Submitted] = deque()
        self._cancelled: deque[Future[Any]] = deque()
        self._unresolved: set[Future[Any]] = set()
        self._closed = False
        # The tasklets of functions that modules have, each by the id of its function.
        self._tasklets: dict[int, InThread] = {}
        # Apart from that: a signal may set it in the middle of a change of the others.
        self._interrupted = False
        self._error: BaseException | None = None
        # Wakes the worksite; None if there is none.
        self._wake: Callable[[], object] | None = None
        # Under the lock: True from a wake-up until the worksite looks. Each would be a system call,
        # after which the two threads take turns.
        self._woken = False

    def begin(self) -> None:
        """Start the thread, and return when the mission has begun.

        Raises:
            BaseException: the mission could not begin. The thread has ended then.
        """
        self._thread.start()
        if self._began.exception() is not None:
            self._thread.join()  # it has nothing left to do
        self._began.result()

    def submit(
        self, request: Resource, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call; see `Executor.submit`."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this executor belongs to the process that this one was forked from: make another"
            )
        future: Future[Any] = Future(self)
        call = self._call(fn, args, kwargs)
        with self._lock:
            if self._error is not None:
                raise futures.BrokenExecutor("the executor's mission has failed") from self._error
            if self._closed or self._interrupted:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._unresolved.add(future)
            self._submitted.append(_Submitted(future, call, request))
            self._notify()
        future.add_done_callback(self._on_done)
        return future

    def _call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the call of a tasklet that calls a function, in a thread if it is not async.

        A function that a module has by its name travels once. Any other may have been made for this
        call, and would be kept as long as the mission: it goes with the arguments.
        """
        if is_async(fn):
            return Call(fn, args, kwargs)
        if not is_of_module(fn):
            return Call(call_in_thread, (fn, args, kwargs), {})
        # By identity: the function may be compared by rules of its own.
        tasklet = self._tasklets.get(id(fn))
        if tasklet is None:  # two threads may come here, and then use the same one
            tasklet = self._tasklets.setdefault(id(fn), InThread(fn))
        return Call(tasklet, args, kwargs)

    def close(self, *, cancel: bool) -> None:
        """Take no more calls; the thread ends when those that there are have ended."""
        with self._lock:
            self._closed = True
            waiting = list(self._unresolved) if cancel else []
            self._notify()
        for future in waiting:
            future.cancel()

    def interrupt(self) -> None:
        """Cancel the mission: what runs as well as what waits. A signal handler may call this."""
        with self._lock:
            self._interrupted = True
            self._notify()

    def join(self) -> None:
        """Wait for the end of the thread, unless this is it."""
        if threading.current_thread() is not self._thread:
            while self._thread.is_alive():
                self._thread.join(_WAKE)

    def check_wait(self, future: Future[Any]) -> None:
        """Check that the calling code may wait for a future.

        Raises:
            RuntimeError: the calling code is a call of this executor.
        """
        if _working_for.get() is self and not future.done():
            raise RuntimeError(
                "a call of this executor waits for another: it would hold its resources meanwhile, "
                "and both could wait without end. Return first, and wait where the calls are "
                "submitted"
            )

    def orders(self) -> _Orders:
        """Return the news since the last time."""
        with self._lock:
            self._woken = False
            submitted, self._submitted = self._submitted, deque()
            cancelled, self._cancelled = self._cancelled, deque()
            return _Orders(submitted, cancelled, self._closed, self._interrupted)

    def _notify(self) -> None:
        """Wake the worksite; the lock is held."""
        if self._wake is not None and not self._woken:
            self._woken = True  # first: a signal handler may come in between
            try:
                self._wake()
            except trio.RunFinishedError:
                pass  # `_run` resolves what is left

    def _on_done(self, future: Any) -> None:
        with self._lock:
            self._unresolved.discard(future)
            if future.cancelled():
                self._cancelled.append(future)
                self._notify()

    # ---- in the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._main)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._wake = None
            self._closed = True
            self._error = error
            left = list(self._unresolved)
        if error is not None and not self._began.done():
            self._began.set_exception(error)
        for future in left:
            _resolve(future, outcome.Error(_broken(error)))

    async def _main(self) -> None:
        with trio.CancelScope() as scope:
            async with self._open_mission() as mission, trio.open_nursery() as nursery:
                site = _Worksite(self, mission, scope)
                token = trio.lowlevel.current_trio_token()
                with self._lock:
                    self._wake = partial(token.run_sync_soon, site.look, idempotent=True)
                nursery.start_soon(self._close_with_the_program)
                self._began.set_result(None)
                site.look()
                await site.wait_until_closed()
                nursery.cancel_scope.cancel()

    async def _close_with_the_program(self) -> None:
        """Close when the main thread ends.

        Python waits for this thread then, without a call before: its hooks for the exit come
        afterwards, too late to start the threads that the remaining calls need.
        """
        while threading.main_thread().is_alive():  # noqa: ASYNC110 - a thread's end sets no event
            await trio.sleep(_LOOK)
        self.close(cancel=False)


class _Worksite:
    """The part of an engine that lives in its thread, while the mission is open.

    Args:
        scope: cancelled for an interrupt.
    """

    def __init__(self, engine: Engine, mission: Mission, scope: trio.CancelScope) -> None:
        self._engine = engine
        self._mission = mission
        self._scope = scope
        self._closed = trio.Event()
        self._failing = False
        self._tasks: dict[Future[Any], int] = {}

    async def wait_until_closed(self) -> None:
        """Wait until the engine takes no more calls.

        Raises:
            BaseException: the mission fails or is cancelled. The calls that it takes with it are
                then resolved in the end, with that exception.
        """
        try:
            await self._closed.wait()
        except BaseException:
            self._failing = True
            raise

    def look(self) -> None:
        """Do what has been ordered since the last look."""
        orders = self._engine.orders()
        if orders.interrupted:
            self._scope.cancel()
            return
        while orders.submitted:
            self._submit(*orders.submitted.popleft())
        for future in orders.cancelled:
            task = self._tasks.get(future)
            if task is not None:
                self._mission.executor.cancel(task)
            else:
                future.begin()  # which notifies the waiters of a cancelled future
        if orders.closed:
            self._closed.set()

    def _submit(self, future: Future[Any], call: Call, request: Resource) -> None:
        if future.cancelled():
            return  # it is among the cancelled ones, too
        if self._mission.runs_in_process:
            call = Call(_Observed(self._engine, future, call), (), {})
        try:
            self._tasks[future] = self._mission.submit(
                request, call, partial(self._deliver, future)
            )
        except ExecutorClosed:
            pass  # the mission is failing: its exception is the outcome, in the end
        except Exception as error:  # as Infeasible; or a part of the call cannot travel
            _resolve(future, outcome.Error(error))

    def _deliver(self, future: Future[Any], ended: Outcome) -> None:
        self._tasks.pop(future, None)
        if (
            self._failing
            and isinstance(ended, outcome.Error)
            and type(ended.error) is TaskCancelled
        ):
            return  # cancelled by the failing mission, whose exception is the outcome, in the end
        _resolve(future, ended)


class _Observed:
    """A call in this process that marks its future as running. It has its function's name."""

    def __init__(self, engine: Engine, future: Future[Any], call: Call) -> None:
        self.__qualname__ = name_of(call.args[0] if call.fn is call_in_thread else call.fn)
        self._engine = engine
        self._future = future
        self._call = call

    async def __call__(self) -> Any:
        if not self._future.begin():
            return None
        _working_for.set(self._engine)
        return await self._call.fn(*self._call.args, **self._call.kwargs)


def is_of_module(fn: Any) -> bool:
    """Return True if a module has a function by the name that the function has."""
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    return getattr(module, getattr(fn, "__qualname__", ""), None) is fn


def _resolve(future: Future[Any], ended: Outcome) -> None:
    if not future.begin():
        return
    if isinstance(ended, outcome.Value):
        future.set_result(ended.value)
    else:
        future.set_exception(ended.error)


def _broken(error: BaseException | None) -> BaseException:
    broken = futures.BrokenExecutor("the executor's mission ended before this call")
    broken.__cause__ = error
    return broken
