"""The one way to run a task: set `GVAR`, apply the time limit, capture the outcome."""

from __future__ import annotations

import functools
import inspect
import math
import pickle
import re
import sys
import time
from contextvars import ContextVar
from itertools import chain, islice
from pathlib import PosixPath, WindowsPath
from types import AsyncGeneratorType, CoroutineType, GeneratorType, MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import outcome
import trio

from grain import GVAR
from grain.edge.machine.copies import Origin
from grain.worker.errors import RAISED_BY_TEXTS, TaskletAborted, add_note_once
from grain.worker.processes.account import RunAccount

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from grain.resource import Resource


program_listener: ContextVar[Callable[[Sequence[object]], object] | None] = ContextVar(
    "grain.worker.call program listener", default=None
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
        echo: True if its mission wants the lines that it prints.
        enforce: True to hold programs to the memory that their task asked for.
    """

    cwd: str = ""
    env: Mapping[str, str | None] = MappingProxyType({})
    bind: bool = True
    label: str = ""
    function: object = None
    attempt: tuple[int, int] = (0, 0)
    echo: bool = False
    enforce: bool = False


Outcome = outcome.Value[Any] | outcome.Error

# These end more than the task: an interrupt from the keyboard, and the worker's own shutdown.
_PASS = (KeyboardInterrupt, trio.Cancelled)


async def run_call(
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
    account = account or RunAccount(res)
    GVAR.enter(res, instance, settings, account)
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
                account.limit, account.deadline = limit, timer.deadline
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
        # For the next attempt, where the limit was estimated.
        slow.limit = limit  # type: ignore[attr-defined]
        slow.__cause__ = result.error if result is not None else None
        return outcome.Error(slow)
    return result


async def capture(call: Call, *, leaf: bool = False) -> Outcome:
    """Call an async function and capture its outcome.

    Args:
        leaf: True if its value goes to another process, or might.

    Raises:
        KeyboardInterrupt: it concerns the whole process.
        trio.Cancelled: a scope around this call was cancelled.
    """
    __tracebackhide__ = True
    fn, args, kwargs = call
    origin = Origin()
    try:
        awaitable = fn(*args, **kwargs)
        if not hasattr(awaitable, "__await__"):
            return outcome.Error(not_async(fn))
        value = await awaitable
        origin.check()
        if type(value) is CoroutineType:
            value.close()  # or Python warns that it was never awaited
            return outcome.Error(_not_awaited(fn, value))
        if leaf and type(value) in _GENERATORS:
            return outcome.Error(_generates(fn))
        return outcome.Value(value)
    except BaseException as error:
        origin.check(error)
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
    """Return the outcome of a call that raised something else than an `Exception`."""
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
        "A function that computes becomes one by subprocify(fn) (grain.subproc), a waiting one "
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
    except RAISED_BY_TEXTS:
        return "..."


LONGEST_LABEL = 160
"""Characters of a label. Most are half as long: the name of a function, and that of a file."""

LEFT_OUT = "…"
"""The character in a label for what is left out, as `grain.eventlog.schema` has it, which takes a
hundredth of a second to import."""

_VALUE = 120  # characters of one argument: the path of a file stays whole
_LEAST_VALUE = 12  # characters of an argument that gives way to others
_ARGUMENTS = 10  # that are shown
_LABELLED_NAME = 60  # characters of a function's name
_DEEPEST = 4  # levels of containers
_SLOW_REPR = 0.005  # seconds that are long for the text of an object
_SLOW_TIMES = 3  # in a row after which its class is not asked again
_SLOW_CLASSES = 1000  # that are remembered as slow
_BITS = 400  # of an int whose digits are shown

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_PLAIN = (bool, float, complex, type(None), type(...))
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


class CallLabels:
    """The labels of calls: short lines, from which a person knows the input of each again.

    An event log has one for each run that failed, and there may be thousands of these in a second.
    So a label costs little whatever the arguments are:

    1.  Containers are read no further than there is room, and nothing of them is sorted.
    2.  Code of the user runs only in ``__repr__`` of objects that are not of a built-in class. A
        class whose ``__repr__`` takes long time after time is not asked again, and shown by its
        name.
    3.  What is left out is `LEFT_OUT`. So a label without it is the whole call, as one would type
        it.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        # How often in a row a class was slow; by its name, as a class that travels by value is
        # another object with each call.
        self._slow: dict[str, int] = {}

    def of(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return a call in one line of at most `LONGEST_LABEL` characters. Raises nothing.

        A call of `grain.worker.external.run_external` is shown as its command line. In others the
        first argument keeps its length as long as it can: most often it says which input it was.

        >>> CallLabels().of("optimise", ("mol7.xyz",), {"level": 2})
        "optimise('mol7.xyz', level=2)"
        >>> CallLabels().of("run_external", (["xtb", "my mol.xyz"],), {})
        "xtb 'my mol.xyz'"
        """
        name = _one_line(name, _LABELLED_NAME)
        if name == "run_external" and args and _is_command(args[0]):
            return _command(args[0])
        given = chain((("", one) for one in args), kwargs.items())
        parts: list[str] = []
        for key, value in islice(given, _ARGUMENTS):
            text = self._shown(value, _VALUE, _DEEPEST)
            parts.append(f"{_one_line(key, _LABELLED_NAME)}={text}" if key else text)
        if len(parts) < len(args) + len(kwargs):
            parts.append(LEFT_OUT)
        return f"{name}({_fitted(parts, LONGEST_LABEL - len(name) - 2)})"

    def without_arguments(self, name: str) -> str:
        """Return the label of a call whose arguments cannot be shown.

        >>> CallLabels().without_arguments("optimise")
        'optimise(…)'
        """
        return f"{_one_line(name, _LABELLED_NAME)}({LEFT_OUT})"

    def _shown(self, value: Any, most: int, levels: int) -> str:
        """Return a value as one would type it, with at most so many characters or a few more."""
        kind = type(value)
        if kind is str:
            return repr(shortened(value, most))
        if kind is bytes or kind is bytearray:
            return repr(value) if len(value) <= most else f"{value[:most]!r}{LEFT_OUT}"
        if kind is int:
            bits = value.bit_length()
            return repr(value) if bits <= _BITS else f"<int of {bits} bits>"
        if kind in _PLAIN:
            return repr(value)
        if kind is PosixPath or kind is WindowsPath:
            return f"Path({shortened(str(value), most)!r})"
        if kind in _BRACKETS:
            return self._items(value, most, levels - 1) if levels else LEFT_OUT
        return self._of_user(value, most)

    def _items(self, values: Any, most: int, levels: int) -> str:
        """Return the first items of a container, as many as there is room for."""
        kind = type(values)
        if kind is set and not values:
            return "set()"
        texts: list[str] = []
        room = most
        for one in values.items() if kind is dict else values:
            if room <= 0:
                texts.append(LEFT_OUT)
                break
            if kind is dict:
                key, value = (self._shown(part, room, levels) for part in one)
                texts.append(f"{key}: {value}")
            else:
                texts.append(self._shown(one, room, levels))
            room -= len(texts[-1]) + 2
        if kind is tuple and len(values) == 1:
            texts.append("")
        opening, closing = _BRACKETS[kind]
        return f"{opening}{', '.join(texts).rstrip()}{closing}"

    def _of_user(self, value: Any, most: int) -> str:
        """Return what a class of the user says of an object, unless that takes long."""
        kind = type(value)
        name = kind.__qualname__
        by_name = f"<{_one_line(kind.__name__, _LABELLED_NAME)}>"
        times = self._slow.get(name, 0)
        if times >= _SLOW_TIMES:
            return by_name
        began = self._clock()
        try:
            text = repr(value)
        except RAISED_BY_TEXTS:
            text = by_name
        if self._clock() - began <= _SLOW_REPR:
            self._slow.pop(name, None)
        elif times or len(self._slow) < _SLOW_CLASSES:
            self._slow[name] = times + 1
        if len(text) > 4 * _VALUE:
            text = f"{text[: 2 * _VALUE]}{LEFT_OUT}{text[-2 * _VALUE :]}"
        return _one_line(_ADDRESS.sub("", text), most)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    first = (most - 1) // 2
    return f"{text[:first]}{LEFT_OUT}{text[len(text) - (most - 1 - first) :]}"


def _is_command(value: Any) -> bool:
    return type(value) in (list, tuple) and all(
        isinstance(one, str | PosixPath | WindowsPath) for one in value
    )


def _command(words: Iterable[Any]) -> str:
    """Return a command line as one would type it."""
    import shlex  # failures are rare

    text = " ".join(shlex.quote(str(one)) for one in words)
    if text.isprintable():
        return shortened(text, LONGEST_LABEL)
    # Typed as it is shown, it would be another command: that is as if a part were left out.
    return f"{_one_line(text, LONGEST_LABEL - 1)}{LEFT_OUT}"


def _one_line(text: str, most: int) -> str:
    """Return a text in one line of so many characters that leaves a terminal as it is."""
    if len(text) <= most and text.isprintable() and "  " not in text:
        return text
    line = " ".join(shortened(text, 4 * LONGEST_LABEL).split())
    # Among what is replaced are halves of characters, which JSON has not.
    return shortened("".join(one if one.isprintable() else "?" for one in line), most)


def _fitted(parts: list[str], room: int) -> str:
    """Join arguments; the longest are shortened as far as needed."""
    between = 2 * max(len(parts) - 1, 0)
    if sum(map(len, parts)) + between > room:
        rest = parts[1:]
        width = max(map(len, rest), default=0)
        while width > _LEAST_VALUE and len(parts[0]) + _width(rest, width) + between > room:
            width -= 1
        parts = [parts[0], *(shortened(one, width) for one in rest)]
        parts[0] = shortened(parts[0], max(room - between - _width(rest, width), _LEAST_VALUE))
    return shortened(", ".join(parts), room)


def _width(parts: Iterable[str], most: int) -> int:
    return sum(min(len(one), most) for one in parts)
