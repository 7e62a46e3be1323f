"""`Executor`: missions for libraries that take an executor of `concurrent.futures`."""

from __future__ import annotations

import weakref
from concurrent import futures
from functools import partial
from itertools import islice
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from grain.delayed.function import is_async
from grain.delayed.futures.engine import Engine
from grain.delayed.missions.ending import SIGNALS, ExitHandler
from grain.delayed.missions.opening import mission
from grain.delayed.overload import WARN_QUEUED
from grain.resource import Cores, Resource
from grain.worker.blocking import call_each

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from grain.delayed.futures.engine import Future

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """An executor of `concurrent.futures` whose calls are leaves of a mission.

    It is for libraries that take an executor; for a program of your own, use `delayed`. Leave its
    ``with`` block, or call `shutdown`, to end the mission. The mission also ends when nothing
    refers to the executor any more, and with the program. In each case the calls that were
    submitted end first, unless the block is left by Ctrl-C, SIGTERM or SIGHUP, which cancel them.

    Args:
        request: the resources of each call; by default one core.
        local: the resources of the local worker, as for `mission`.
        config_file: as for `mission`; so are name, prioritized, progress, warn_queued, isolated and
            env.

    Raises:
        TypeError: request or local is not a resource.
        grain.config.ConfigError: the configuration is not usable.
        Exception: the mission cannot begin for another reason.
    """

    def __init__(
        self,
        request: Resource | None = None,
        local: Resource | None = None,
        *,
        config_file: str | Literal[False] | None = None,
        name: str | None = None,
        prioritized: bool = False,
        progress: bool | None = None,
        warn_queued: int | None = WARN_QUEUED,
        isolated: bool = False,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self._request = _checked(Cores(1) if request is None else request)
        self._engine = Engine(
            partial(
                mission,
                local,
                config_file=config_file,
                name=name,
                prioritized=prioritized,
                progress=progress,
                warn_queued=warn_queued,
                isolated=isolated,
                env=env,
                cache=False,  # the calls of an executor have no cache_hfn
            ),
        )
        self._handlers: list[ExitHandler] = []
        # The mission ends when nothing refers to the executor that has begun it.
        self._whole: Executor | None = None
        self._engine.begin()
        weakref.finalize(self, self._engine.close, cancel=False)

    @overload
    def submit(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]: ...

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call, and return at once. Any thread may call this.

        Args:
            fn: a function, which runs in a thread of a worker; or an async function, which runs as
                the tasklet that it is.

        Returns:
            The future of the call. Its ``result()`` raises the exception of the call, or
            `grain.resource.Infeasible` if the request can never be met. ``cancel()`` cancels a call
            that waits. A call that runs is cancelled only where this process does not learn that
            it runs, which is with workers elsewhere.

        Raises:
            RuntimeError: after `shutdown`, after the end of the program's main thread, or in a
                process that was forked.
            concurrent.futures.BrokenExecutor: the mission has failed, with the exception that is
                the cause of this one.
        """
        return self._engine.submit(self._request, fn, args, kwargs)

    def __matmul__(self, request: Resource) -> Executor:
        """Return an executor whose calls have another request, as in ``executor @ Cores(4)``.

        The two have one mission: `shutdown` of either one ends both.

        Raises:
            TypeError: request is not a resource.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._request = _checked(request)
        other._handlers = []
        other._whole = self._whole or self
        return other

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Map like the built-in function, but submit all calls at once.

        Args:
            fn: as for `submit`.
            iterables: its arguments; they are read to their ends at once.
            timeout: seconds from now for which the iterator waits for results; None for no limit.
            chunksize: the number of calls that make one leaf and run one after another: for calls
                that take less time than a leaf costs, some 0.1 ms here and 1 ms elsewhere. It is 1
                for async functions.

        Raises:
            TimeoutError: in the iterator: a call did not end in time.
            Exception: in the iterator: the exception of a call. The calls that wait are cancelled
                then.
            ValueError: chunksize is less than one, or more for an async function.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize={chunksize}: it is at least 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        if is_async(fn):
            raise ValueError(f"chunksize={chunksize}: calls of an async function run one by one")
        tuples = _chunks(zip(*iterables, strict=False), chunksize)
        return _unchunked(super().map(partial(call_each, fn), tuples, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the mission when the submitted calls have ended.

        Args:
            wait: wait for that end.
            cancel_futures: cancel the calls that wait.
        """
        self._engine.close(cancel=cancel_futures)
        if wait:
            self._engine.join()

    def __enter__(self) -> Self:
        """Have SIGTERM and SIGHUP leave the block by `SystemExit`, where that is possible."""
        if not self._handlers and current_thread() is main_thread():
            self._handlers = [ExitHandler(number, self._engine.interrupt) for number in SIGNALS]
            for handler in self._handlers:
                handler.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        """Shut down; after Ctrl-C or a signal cancel all calls, which may be days' worth."""
        try:
            if kind is not None and issubclass(kind, KeyboardInterrupt):
                self._engine.interrupt()
            self.shutdown()
        except (KeyboardInterrupt, SystemExit):
            # Ctrl-C or a signal while the calls that were submitted end.
            self._engine.interrupt()
            self._engine.join()
            raise
        finally:
            for handler in self._handlers:
                handler.remove()
            self._handlers = []
        return False

    def __reduce__(self) -> Any:
        raise TypeError("an executor cannot be passed to a worker or pickled")


def _checked(request: object) -> Resource:
    if not isinstance(request, Resource):
        raise TypeError(f"request={request!r}: give the resources of each call, as Cores(1)")
    return request


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items, several at a time."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _unchunked(results: Iterator[list[T]]) -> Generator[T]:
    """Yield the results one by one, and keep no reference to yielded ones."""
    for result in results:
        result.reverse()
        while result:
            yield result.pop()
