"""`run`: a mission as a whole program."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import trio

from grain.delayed.missions.opening import mission
from grain.delayed.missions.traceback_filter import shortened_tracebacks
from grain.delayed.missions.turns import Turns
from grain.delayed.overload import WARN_QUEUED
from grain.delayed.value import Delayed
from grain.worker.call import not_async

if TYPE_CHECKING:
    import os

    from grain.delayed.display.total import Stated
    from grain.resource import Resource

T = TypeVar("T")
Subtask = Callable[[], Awaitable[T]]


@overload
def run(
    subtasks: Subtask[T],
    local: Resource | None = None,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    progress: bool | None = None,
    warn_queued: int | None = WARN_QUEUED,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    isolated: bool = False,
    env: Mapping[str, str | None] | None = None,
    event_log: bool | str | os.PathLike[str] | None = None,
    echo: bool = False,
    total: Stated | None = None,
) -> T: ...


@overload
def run(
    subtasks: Iterable[Subtask[T]],
    local: Resource | None = None,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    progress: bool | None = None,
    warn_queued: int | None = WARN_QUEUED,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    isolated: bool = False,
    env: Mapping[str, str | None] | None = None,
    event_log: bool | str | os.PathLike[str] | None = None,
    echo: bool = False,
    total: Stated | None = None,
) -> list[T]: ...


def run(
    subtasks: Subtask[Any] | Iterable[Subtask[Any]],
    local: Resource | None = None,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    progress: bool | None = None,
    warn_queued: int | None = WARN_QUEUED,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    isolated: bool = False,
    env: Mapping[str, str | None] | None = None,
    event_log: bool | str | os.PathLike[str] | None = None,
    echo: bool = False,
    total: Stated | None = None,
) -> Any:
    """Run your root async function(s), which start everything else: the main entry point.

    It returns when they and all tasks that they started have ended. If one raises, and on Ctrl-C,
    everything is cancelled first, and no process of a task is left behind. Inside of a trio
    program, use `mission` instead.

    Args:
        subtasks: an async function without arguments (bind them with `functools.partial`), or an
            iterable of such functions, which begin in this order and run concurrently.
        local: the resources of the local worker, as ``Cores(2)``; without it tasks run on workers
            of the cluster, which ``grain up`` starts.
        config_file: as for `mission`; so are name, prioritized, progress, warn_queued, cache,
            isolated, env, event_log, echo and total.

    Returns:
        The result of the function, or a list of the results of the functions.

    Raises:
        Exception: the exception of a function, or of a task that was not awaited, as in `mission`.
        TypeError: subtasks is not an async function, and no iterable of them.
        RuntimeError: called inside of a trio program.
    """
    __tracebackhide__ = True  # from pytest and IPython
    with shortened_tracebacks():
        functions, single = _functions(subtasks)
    options: dict[str, Any] = {
        "config_file": config_file,
        "name": name,
        "prioritized": prioritized,
        "progress": progress,
        "warn_queued": warn_queued,
        "cache": cache,
        "isolated": isolated,
        "env": env,
        "event_log": event_log,
        "echo": echo,
        "total": total,
    }

    async def main() -> list[Any]:
        __tracebackhide__ = True
        results: list[Any] = [None] * len(functions)
        turns = Turns()

        async def root(i: int, function: Subtask[Any], number: int) -> None:
            __tracebackhide__ = True
            await turns.wait(number)
            results[i] = await _called(function)

        async with mission(local, **options):
            if single:
                await root(0, functions[0], turns.take())
            else:
                async with trio.open_nursery() as nursery:
                    for i, function in enumerate(functions):
                        nursery.start_soon(root, i, function, turns.take(), name=function)
        return results

    results = trio.run(main)
    return results[0] if single else results


def _called(function: Subtask[Any]) -> Awaitable[Any]:
    awaitable = function()
    if not hasattr(awaitable, "__await__"):
        raise not_async(function)
    return awaitable


def _functions(subtasks: Any) -> tuple[list[Subtask[Any]], bool]:
    """Return the functions to run, and True for a single function that was not in a list.

    Raises:
        TypeError, RuntimeError: as `run`.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "run() begins a trio program, and this is one already: use "
            "`async with grain.delayed.mission(...)` in it"
        )
    if callable(subtasks) and not isinstance(subtasks, Delayed):
        return [subtasks], True
    # It may be a generator, which can be read only once.
    awaitable = hasattr(subtasks, "__await__")
    functions = [subtasks] if awaitable or not isinstance(subtasks, Iterable) else list(subtasks)
    wrong = [f for f in functions if not callable(f) or isinstance(f, Delayed)]
    if not wrong:
        return functions, False
    name = getattr(wrong[0], "__name__", "") if inspect.iscoroutine(wrong[0]) else ""
    text = (
        f"{f'{name}()' if name else repr(wrong[0])} cannot be run: give run() an async function, "
        f"not its call: run({name or 'main'}), or with arguments "
        f"run(functools.partial({name or 'main'}, 1)); or a list of async functions"
    )
    for coroutine in wrong:
        if inspect.iscoroutine(coroutine):
            coroutine.close()  # or Python warns that it was never awaited
    raise TypeError(text)
