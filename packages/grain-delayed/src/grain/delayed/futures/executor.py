"""`Executor`: missions for libraries that take an executor of `concurrent.futures`."""

from __future__ import annotations

import weakref
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from grain.delayed.function import _is_async
from grain.delayed.futures.chunks import chunks, flat
from grain.delayed.futures.engine import Engine
from grain.delayed.missions.mission import mission
from grain.delayed.missions.overload import WARN_QUEUED
from grain.resource import Cores, Resource
from grain.worker.blocking import call_each

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from types import TracebackType

    from grain.delayed.futures.engine import Future

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """An executor as `concurrent.futures` has them, whose calls are leaves of a mission.

    For libraries that take one; a program of your own is better off with `delayed`. Leave its
    ``with`` block, or call `shutdown`, to end the mission. It ends, too, when nobody holds the
    executor any more, and with the program; in each case the calls that were submitted end first,
    unless the block is left by Ctrl-C, which cancels them.

    Args:
        request: the resources of each call; by default one core.
        local: the resources of the local worker, as for `mission`.
        config_file: as for `mission`; so are name, prioritized, progress and
            warn_queued.

    Raises:
        TypeError: request or local is no resource.
        grain.config.ConfigError: the configuration is not usable.
        Exception: whatever else keeps the mission from beginning.
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
    ) -> None:
        request = Cores(1) if request is None else request
        if not isinstance(request, Resource):
            raise TypeError(f"request={request!r}: give the resources of each call, as Cores(1)")
        self._engine = Engine(request)
        self._engine.begin(
            partial(
                mission,
                local,
                config_file=config_file,
                name=name,
                prioritized=prioritized,
                progress=progress,
                warn_queued=warn_queued,
                cache=False,  # what it keeps is for functions with cache_hfn
            )
        )
        weakref.finalize(self, self._engine.close, cancel=False)

    @overload
    def submit(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]: ...

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; returns at once. It may be called in any thread.

        Args:
            fn: a function, which runs in a thread of a worker; or an async function, which runs as
                the tasklet that it is.

        Returns:
            The future of the call. What the call raised is raised by its ``result()``; of a
            request that can never be met that is `grain.resource.Infeasible`. ``cancel()`` cancels
            a call that waits. One that runs is cancelled only where this process cannot know that
            it runs, which is with workers elsewhere.

        Raises:
            RuntimeError: after `shutdown`, after the end of the program's main thread, or in a
                process that was forked.
            concurrent.futures.BrokenExecutor: the mission has failed; its cause is why.
        """
        return self._engine.submit(fn, args, kwargs)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Like the built-in map, but all calls are submitted at once.

        Args:
            fn: as for `submit`.
            iterables: its arguments; they are taken at once.
            timeout: seconds from now within which the results have to be there; None for ever.
            chunksize: how many calls make one leaf, one after another: for those that take less
                time than a leaf costs, some 0.1 ms here and 1 ms elsewhere. Not of async functions.

        Raises:
            TimeoutError: in the iterator: a result was not there in time.
            Exception: in the iterator: what a call raised. Those that wait are cancelled then.
            ValueError: chunksize is less than one, or more for an async function.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize={chunksize}: it is at least 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        if _is_async(fn):
            raise ValueError(f"chunksize={chunksize}: calls of an async function run one by one")
        tuples = chunks(zip(*iterables, strict=False), chunksize)
        return flat(super().map(partial(call_each, fn), tuples, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the mission when those there are have ended.

        Args:
            wait: whether to wait for that end.
            cancel_futures: whether calls that wait are cancelled.
        """
        self._engine.close(cancel=cancel_futures)
        if wait:
            self._engine.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        """Shut down; after Ctrl-C without waiting for calls, of which there may be days' worth."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._engine.interrupt()
        self.shutdown()
        return False

    def __reduce__(self) -> Any:
        raise TypeError("an executor cannot be passed to a worker or pickled")
