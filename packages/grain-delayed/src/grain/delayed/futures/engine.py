"""The mission of an `Executor`, in a thread of its own, and the futures of its calls.

It knows nothing of the `Executor`: so one that nobody holds any more can be ended.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent import futures
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import outcome
import trio

from grain.delayed.function import _is_async
from grain.head import Cancelled, ExecutorClosed, GrainExecutor
from grain.worker import Call
from grain.worker.blocking import in_thread
from grain.worker.job import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.missions.mission import Mission
    from grain.resource import Resource

T = TypeVar("T")

# Seconds between two looks whether the program ends.
_LOOK = 0.1

# The engine whose call this thread runs; also in threads that inherit its context.
_working_for: ContextVar[Engine | None] = ContextVar("grain.delayed engine", default=None)


class Future(futures.Future[T]):
    """A future that is not waited for in a call of the same executor.

    Such a call would hold its resources while it waits for another that may never get them.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._told = False

    def begins(self) -> bool:
        """Whether the call goes on: it was not cancelled before it began."""
        if not self._told:
            self._told = True
            return self.set_running_or_notify_cancel()
        return not self.cancelled()

    def result(self, timeout: float | None = None) -> T:
        self._engine.check_wait(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._engine.check_wait(self)
        return super().exception(timeout)


class Engine:
    """The thread of a mission, and what is under way between it and others.

    Args:
        request: the resources of each call.
    """

    def __init__(self, request: Resource) -> None:
        self._request = request
        self._pid = os.getpid()
        # Reentrant: the garbage collector may call `close` at any point.
        self._lock = threading.RLock()
        # Under the lock: what the thread has not seen yet, all that is not resolved, and the state.
        self._submitted: deque[tuple[Future[Any], Call]] = deque()
        self._cancelled: deque[Future[Any]] = deque()
        self._open: set[Future[Any]] = set()
        self._closed = False
        self._interrupted = False
        self._error: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        # Only in the thread:
        self._failing = False
        self._jobs: dict[Future[Any], int] = {}
        self._leave: trio.Event
        self._scope: trio.CancelScope
        self._mission: Mission
        self._thread: threading.Thread

    # ---- in any thread

    def begin(self, open_mission: Callable[[], Any]) -> None:
        """Start the thread; returns when the mission has begun.

        Raises:
            BaseException: why it could not. The thread has ended then.
        """
        began: futures.Future[None] = futures.Future()
        self._thread = threading.Thread(
            target=self._run, args=(open_mission, began), name="grain.delayed.Executor"
        )
        self._thread.start()
        if began.exception() is not None:
            self._thread.join()  # it only has to end
        began.result()

    def submit(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        if os.getpid() != self._pid:
            raise RuntimeError(
                "this executor belongs to the process that this one was forked from: make another"
            )
        future: Future[Any] = Future(self)
        call = Call(fn, args, kwargs) if _is_async(fn) else Call(in_thread, (fn, args, kwargs), {})
        with self._lock:
            if self._error is not None:
                raise futures.BrokenExecutor("the executor's mission has failed") from self._error
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open.add(future)
            self._submitted.append((future, call))
            self._notify()
        future.add_done_callback(self._on_done)
        return future

    def close(self, cancel: bool) -> None:
        with self._lock:
            self._closed = True
            waiting = list(self._open) if cancel else []
            self._notify()
        for future in waiting:
            future.cancel()

    def interrupt(self) -> None:
        """Cancel the mission: what runs as well as what waits."""
        with self._lock:
            self._closed = self._interrupted = True
            self._notify()

    def join(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def check_wait(self, future: Future[Any]) -> None:
        if _working_for.get() is self and not future.done():
            raise RuntimeError(
                "a call of this executor waits for another: it would hold its resources meanwhile, "
                "and both could wait for ever. Return first, and wait where the calls are submitted"
            )

    def _notify(self) -> None:
        """Have the thread look; the lock is held."""
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._look, idempotent=True)
            except trio.RunFinishedError:
                pass  # `_run` sees to what is left

    def _on_done(self, future: Any) -> None:
        with self._lock:
            self._open.discard(future)
            if future.cancelled():
                self._cancelled.append(future)
                self._notify()

    # ---- in the mission's thread

    def _run(self, open_mission: Callable[[], Any], began: futures.Future[None]) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._main, open_mission, began)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._token = None
            self._closed = True
            self._error = error
            left = list(self._open)
        if error is not None and not began.done():
            began.set_exception(error)
        for future in left:
            _resolve(future, outcome.Error(_broken(error)))

    async def _main(self, open_mission: Callable[[], Any], began: futures.Future[None]) -> None:
        self._leave = trio.Event()
        self._scope = trio.CancelScope()
        with self._scope:
            await self._in_mission(open_mission, began)

    async def _in_mission(
        self, open_mission: Callable[[], Any], began: futures.Future[None]
    ) -> None:
        async with open_mission() as self._mission, trio.open_nursery() as nursery:
            with self._lock:
                self._token = trio.lowlevel.current_trio_token()
            nursery.start_soon(self._watch_program)
            began.set_result(None)
            self._look()
            try:
                await self._leave.wait()
            except BaseException:
                self._failing = True
                raise
            nursery.cancel_scope.cancel()

    async def _watch_program(self) -> None:
        """Close when the main thread ends.

        Python waits for this thread then, and calls nobody before: its hooks for the exit come
        afterwards, too late to start the threads that the remaining calls need.
        """
        while threading.main_thread().is_alive():  # noqa: ASYNC110 - a thread's end sets no event
            await trio.sleep(_LOOK)
        self.close(cancel=False)

    def _look(self) -> None:
        with self._lock:
            submitted, self._submitted = self._submitted, deque()
            cancelled, self._cancelled = self._cancelled, deque()
            closed = self._closed
            interrupted = self._interrupted
        if interrupted:
            self._scope.cancel()
            return
        while submitted:
            self._submit(*submitted.popleft())
        for future in cancelled:
            job = self._jobs.get(future)
            if job is not None:
                self._mission.executor.cancel(job)
            else:
                future.begins()
        if closed:
            self._leave.set()

    def _submit(self, future: Future[Any], call: Call) -> None:
        if future.cancelled():
            return  # its turn comes with what was cancelled
        if isinstance(self._mission.executor, GrainExecutor):  # every call runs in this process
            call = Call(_Observed(self, future, call), (), {})
        try:
            self._jobs[future] = self._mission.submit(
                self._request, call, partial(self._deliver, future)
            )
        except ExecutorClosed:
            pass  # the mission is failing: `_run` will tell why
        except Exception as error:  # as Infeasible; or it cannot be sent
            _resolve(future, outcome.Error(error))

    def _deliver(self, future: Future[Any], ended: outcome.Value[Any] | outcome.Error) -> None:
        self._jobs.pop(future, None)
        if self._failing and isinstance(ended, outcome.Error) and type(ended.error) is Cancelled:
            return  # as the mission is: `_run` will tell why
        _resolve(future, ended)


class _Observed:
    """A call in this process: its future is told when it begins. Goes by its function's name."""

    def __init__(self, engine: Engine, future: Future[Any], call: Call) -> None:
        self.__qualname__ = name_of(call.args[0] if call.fn is in_thread else call.fn)
        self._engine = engine
        self._future = future
        self._call = call

    async def __call__(self) -> Any:
        if not self._future.begins():
            return None
        _working_for.set(self._engine)
        return await self._call.fn(*self._call.args, **self._call.kwargs)


def _resolve(future: Future[Any], ended: outcome.Value[Any] | outcome.Error) -> None:
    if not future.begins():
        return
    if isinstance(ended, outcome.Value):
        future.set_result(ended.value)
    else:
        future.set_exception(ended.error)


def _broken(error: BaseException | None) -> BaseException:
    broken = futures.BrokenExecutor("the executor's mission ended before this call")
    broken.__cause__ = error
    return broken
