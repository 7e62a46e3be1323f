"""The one way to run a task: set `GVAR`, apply the time limit, capture the outcome."""

from __future__ import annotations

import functools
import inspect
import math
import pickle
import re
import sys
from contextvars import ContextVar
from types import AsyncGeneratorType, CoroutineType, GeneratorType, MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import outcome
import trio

from grain import GVAR
from grain.worker.errors import TaskletAborted, add_note_once
from grain.worker.processes.account import RunAccount

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from grain.resource import Resource


program_listener: ContextVar[Callable[[Sequence[object]], object] | None] = ContextVar(
    "grain.worker.job program listener", default=None
)
"""Called with the command of each program that code without an allocation runs: in a mission's own
process. None elsewhere."""


class Call(NamedTuple):
    """A tasklet with its arguments, as it travels within a process."""

    fn: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class RunSettings(NamedTuple):
    """The settings of a run beside its resources.

    Attributes:
        cwd: the directory in which its programs start; empty for that of the process.
        env: changes to the environment of its programs; None as a value removes a variable.
        bind: False to bind no program to CPUs.
        label: names the mission and the task in front of lines that it prints; empty for none.
        function: what it calls, for the same.
        attempt: the identity of the run.
        echo: True if its mission wants the lines that it prints.
    """

    cwd: str = ""
    env: Mapping[str, str | None] = MappingProxyType({})
    bind: bool = True
    label: str = ""
    function: object = None
    attempt: tuple[int, int] = (0, 0)
    echo: bool = False


Outcome = outcome.Value[Any] | outcome.Error

# These end more than the task: an interrupt from the keyboard, and the worker's own shutdown.
_PASS = (KeyboardInterrupt, trio.Cancelled)


async def run_job(
    call: Call,
    res: Resource,
    instance: str,
    limit: float,
    scope: trio.CancelScope | None,
    settings: RunSettings | None = None,
    account: RunAccount | None = None,
    *,
    interruptible: bool = True,
) -> Outcome | None:
    """Run a task in the current trio task, whose context variables it sets.

    Args:
        call: the tasklet and its arguments.
        res: the resources that it may use, and sees as ``GVAR.res``.
        instance: the worker's name, which it sees as ``GVAR.instance``.
        limit: the hard time limit in seconds; inf for none.
        scope: a fresh cancel scope, by which the caller cancels the run; None if a scope around
            this call does that.
        settings: the other settings of the run; None for those of the calling task.
        account: the account of the run, which it sees as ``GVAR.usage``; None for one of its own.
        interruptible: False in a process that Ctrl-C has no effect on: a `KeyboardInterrupt` is the
            tasklet's own there, and a failure like any other.

    Returns:
        The value or the exception of the tasklet, `trio.TooSlowError` if it exceeded its limit;
        None if it was cancelled. In every case the tasklet has ended.

    Raises:
        KeyboardInterrupt: it struck in the tasklet, but concerns the whole process.
        trio.Cancelled: a scope around this call was cancelled.
    """
    GVAR.enter(res, instance, settings, account or RunAccount(res))
    timer = None
    result: Outcome | None = None
    try:
        if limit == math.inf:
            if scope is None:
                return await capture(call, leaf=True)
            with scope:
                result = await capture(call, leaf=True)
        else:
            with scope or trio.CancelScope(), trio.move_on_after(limit) as timer:
                result = await capture(call, leaf=True)
    except BaseException as error:
        # The scopes have removed their cancellation from the group; these exceptions remain.
        result = failure(call, error) if interruptible else _own_failure(call, error)
    if scope is not None and (scope.cancelled_caught or (result is None and scope.cancel_called)):
        return None
    if timer is not None and timer.cancel_called and not isinstance(result, outcome.Value):
        slow = trio.TooSlowError(f"{name_of(call.fn)} exceeded its hard time limit of {limit:g} s")
        # An exception that the tasklet raised when it was stopped is shown as the cause, although
        # the time limit is the reason of the failure.
        slow.__cause__ = result.error if result is not None else None
        return outcome.Error(slow)
    return result


async def capture(call: Call, *, leaf: bool = False) -> Outcome:
    """Call an async function and capture its outcome.

    Args:
        call: the call.
        leaf: True if its value goes to another process, or might.

    Raises:
        KeyboardInterrupt: it concerns the whole process.
        trio.Cancelled: a scope around this call was cancelled.
    """
    __tracebackhide__ = True
    fn, args, kwargs = call
    try:
        awaitable = fn(*args, **kwargs)
        if not hasattr(awaitable, "__await__"):
            return outcome.Error(not_async(fn))
        value = await awaitable
        if type(value) is CoroutineType:
            value.close()  # or Python warns that it was never awaited
            return outcome.Error(_not_awaited(fn, value))
        if leaf and type(value) in _GENERATORS:
            return outcome.Error(_generates(fn))
        return outcome.Value(value)
    except BaseException as error:
        return failure(call, error)


def _own_failure(call: Call, error: BaseException) -> outcome.Error:
    """Return the outcome of a call that raised an exception, where Ctrl-C has no effect.

    Raises:
        trio.Cancelled: a scope around this call was cancelled.
    """
    if isinstance(error, BaseExceptionGroup):
        cancelled, rest = error.split(trio.Cancelled)
        if cancelled is not None:
            raise cancelled
        error = rest or error
        if error.subgroup(KeyboardInterrupt) is not None:
            return aborted(call, error)
    return aborted(call, error) if isinstance(error, KeyboardInterrupt) else failure(call, error)


def failure(call: Call, error: BaseException) -> outcome.Error:
    """Return the outcome of a call that raised an exception.

    Raises:
        KeyboardInterrupt: the exception is one, or a group that has one.
        trio.Cancelled: likewise.
    """
    if isinstance(error, Exception):
        note_other_loop(error)
        _note_own_pool(error)
        return outcome.Error(error)
    if isinstance(error, _PASS) or (
        isinstance(error, BaseExceptionGroup) and error.subgroup(_PASS) is not None
    ):
        raise error
    return aborted(call, error)


def aborted(call: Call, error: BaseException) -> outcome.Error:
    """Return the outcome of a call that raised what is no `Exception`, but concerns it alone."""
    abort = TaskletAborted(
        f"{name_of(call.fn)} raised {error!r}, which would end the process that it runs in; "
        "a tasklet reports failure by an Exception"
    )
    abort.__cause__ = error
    return outcome.Error(abort)


def not_async(fn: object) -> TypeError:
    """Return the error for a function that returns instead of being awaited."""
    if inspect.isasyncgenfunction(fn):
        return TypeError(
            f"{name_of(fn)} is not an async function: a tasklet is defined with `async def`, and "
            "without `yield`, as it returns its value when it ends. Collect the values in a list, "
            "and return that"
        )
    return TypeError(
        f"{name_of(fn)} is not an async function: a tasklet is defined with `async def`. "
        "A function that computes becomes one by subprocify(fn) (grain.subproc), one that waits "
        "by in_thread(fn) (grain.worker.blocking)"
    )


def _not_awaited(fn: object, coroutine: CoroutineType[Any, Any, Any]) -> TypeError:
    return TypeError(
        f"{name_of(fn)} returned a coroutine: an await is missing, write "
        f"`return await {coroutine.__name__}(...)`"
    )


_GENERATORS = frozenset((GeneratorType, AsyncGeneratorType))


def _generates(fn: object) -> TypeError:
    return TypeError(
        f"{name_of(fn)} returned a generator, whose code would run where its values are taken, and "
        "which cannot go to another process: return the values, as in `return list(...)`"
    )


_IN_TRIO = (
    "Tasklets, branches and main functions run in trio, not in asyncio: write `await "
    "trio.sleep(1)` instead of `await asyncio.sleep(1)`, `await each(a_, b_)` instead of `await "
    "asyncio.gather(a_, b_)`. A coroutine function fn of a library that needs asyncio runs in a "
    "thread: `await in_thread(asyncio.run)(fn(x))` (grain.worker.blocking)"
)
_TWICE = "This code runs in trio already: await the function instead of giving it to trio.run"
_IN_ASYNCIO = (
    "This code runs in asyncio, not in trio: write `await asyncio.sleep(1)` instead of `await "
    "trio.sleep(1)`. Only delayed functions run in trio"
)
_OTHER_LOOP = {
    "no running event loop": _IN_TRIO,
    "There is no current event loop": _IN_TRIO,
    "trio.run received unrecognized yield message": _IN_TRIO,
    "Attempted to call run() from inside a run()": _TWICE,
    "must be called from async context": _IN_ASYNCIO,
}


def note_other_loop(error: BaseException) -> None:
    """Add a note to an error that comes of a call to the other event loop: what to write.

    Python, trio and asyncio raise these as `RuntimeError` or `TypeError`.
    """
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            note_other_loop(one)
    elif isinstance(error, (RuntimeError, TypeError)):
        text = str(error)
        for beginning, note in _OTHER_LOOP.items():
            # A thread, where neither loop runs, raises the same as code of asyncio.
            if text.startswith(beginning) and (note is not _IN_ASYNCIO or runs_asyncio()):
                add_note_once(error, note)


_OWN_POOL = (
    "A process pool of your own finds functions by their module, and those of the script are in no "
    "module on a worker: put the function into a module that the worker can import, or use "
    "`subprocify` instead of the pool (grain.subproc)"
)


def _note_own_pool(error: Exception) -> None:
    """Add a note to the error of `multiprocessing` for a function of the script: what to do."""
    if isinstance(error, (pickle.PicklingError, AttributeError)) and re.search(
        r"on __main__ failed|not found as __main__\.", str(error)
    ):
        add_note_once(error, _OWN_POOL)


def runs_asyncio() -> bool:
    """Return True if the calling code runs in an asyncio loop, and not in trio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or trio.lowlevel.in_trio_task():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def name_of(fn: object) -> str:
    """Return the name of a function for messages and logs: one line that a person can read.

    Code may give a function any name: with ends of lines, half a character, or a megabyte.
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = str(getattr(fn, "__qualname__", None) or repr(fn))
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 3]}..."
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)


_LONGEST_NAME = 200
_LONGEST = 60  # characters of the arguments of a call in a message


def call_text(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a call as one would write it, its arguments shortened. Raises nothing.

    >>> call_text("f", (7, "a" * 100), {"x": [1, 2]})
    "f(7, 'aaaaaaaaaaaa...aaaaaaaaaaaaa', x=[1, 2])"
    """
    import reprlib  # failures are rare

    short = reprlib.Repr()
    short.maxother = 30
    arguments = [_shown(short, arg) for arg in args]
    arguments += [f"{key}={_shown(short, arg)}" for key, arg in kwargs.items()]
    text = ", ".join(arguments)
    return f"{name}({text if len(text) <= _LONGEST else f'{text[: _LONGEST - 3]}...'})"


def _shown(short: Any, arg: object) -> str:
    try:
        return " ".join(short.repr(arg).split())
    except Exception:  # a __repr__ of the user's may raise anything
        return "..."
