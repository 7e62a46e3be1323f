"""A watch over an event loop: which code keeps it from running other tasks, and for how long.

Theory of operation. A thread looks at the stack of the loop's thread twice a second. If code of a
user's coroutine is on it, the thread asks the loop for an answer, and looks again every quarter of
a second until the answer comes. Each look charges the time since the last one to the function whose
code is on the stack. A function that has been charged `PATIENCE` seconds lately is reported: by one
long stall, or by many short ones. No task costs more than without a watch, and an idle loop is not
woken: a look takes some 100 microseconds, 0.02 % of a core.

The following is not seen:

- stalls of less than a quarter of a second;
- code that holds the interpreter's lock, as some extensions do, until it gives the lock back. If
  the process computed all the time, it counts as blocked then; a process that was stopped does not;
- what blocks the loop from a callback, outside of all coroutines.

Rejected: an instrument of trio costs some percent of a short task. A hook by `sys.addaudithook` for
started processes is for good, and is called for every file that is opened. A timer signal
disturbs the user's own. `faulthandler.dump_traceback_later` reads frames without the interpreter's
lock, and was seen to crash a process that was just continued after a stop.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import trio
from msgspec import structs

from grain.worker.messages import BlockingCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from trio.lowlevel import Task
    from typing_extensions import Self

PATIENCE = 1.5
"""Seconds for which a function may block the loop, in one piece or in several, without a report."""

_INTERVAL = 0.5  # seconds between two looks at a loop that is not blocked
_GLANCE = 0.25  # seconds until the first look at the stack, and between two
_SLOW = 0.05  # seconds; a loop that takes longer for an answer may have a stall behind it
_HALF_LIFE = 30.0  # seconds in which half of what a function was charged is forgotten
_AGAIN = 60.0  # seconds until the same function is reported again
_LONG = 10.0  # seconds of a stall whose end is reported, too
_OWN_PATIENCE = 10.0  # the patience with Grain's own code, as in a loop that submits
_STOPPED = 1.0  # seconds; a thread that wakes so late was stopped, or could not get the lock
_WORK = 0.2  # the share of a time for which a process computed, if it was not stopped
_LONGEST = 200  # characters of a text in a report


class Look(NamedTuple):
    """A look at the stack of a blocked loop.

    Attributes:
        function: the name of the outermost function of the user: a tasklet or a branch.
        where: the file and line of the innermost one.
        line: the text of that line, empty if the file is not here.
        instead: a sentence: what to write instead.
        own: True if the line called Grain, whose code is what takes the time.
    """

    function: str
    where: str
    line: str
    instead: str
    own: bool
    frames: tuple[FrameType, ...]


class BlockedTime:
    """The account of the time for which functions have blocked a loop; decides what is reported.

    Args:
        patience: seconds after which a function is reported.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._charged: dict[str, tuple[float, float]] = {}  # seconds, and the time of that sum
        self._reported: dict[str, float] = {}  # when

    def charge(self, function: str, seconds: float, now: float, *, own: bool = False) -> float:
        """Charge a function with time; return the seconds to report, 0 if nothing is due.

        Args:
            seconds: for which it blocked the loop since the last charge.
            own: True for Grain's own code, called by that function.
        """
        before, at = self._charged.get(function, (0.0, now))
        kept: float = 0.5 ** ((now - at) / _HALF_LIFE)
        charged = before * kept + seconds
        self._charged[function] = (charged, now)
        if charged < (max(self._patience, _OWN_PATIENCE) if own else self._patience):
            return 0.0
        if now - self._reported.get(function, -_AGAIN) < _AGAIN:
            return 0.0
        self._reported[function] = now
        return charged


class LoopWatchdog:
    """A ``with`` block in a trio program that reports the code which blocks its event loop.

    Where trio is a guest of another loop, it watches that loop's code, too.

    Args:
        report: takes a report, with the frames of the stack from the loop inwards, which it must
            not keep. It is called in the thread of the watchdog, while the loop is blocked.
    """

    def __init__(
        self,
        report: Callable[[BlockingCode, tuple[FrameType, ...]], object],
        patience: float = PATIENCE,
        interval: float = _INTERVAL,
    ) -> None:
        self._report = report
        self._interval = interval
        self._glance = min(_GLANCE, patience / 4)
        self._account = BlockedTime(patience)
        self._token = trio.lowlevel.current_trio_token()
        self._watched = threading.get_ident()
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="grain-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._answered.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._interval
        while True:
            began, cpu = time.monotonic(), time.process_time()
            if self._ended.wait(pause):
                return
            asked = time.monotonic()
            late, used = asked - began - pause, time.process_time() - cpu
            if late > _STOPPED and not was_stopped(late, used):
                self._charge(late, asked, {})  # the interpreter's lock was held for so long
            if look_at(self._watched) is None:
                pause = self._interval
                continue
            self._answered.clear()
            try:
                self._token.run_sync_soon(self._answered.set)
            except trio.RunFinishedError:
                return
            # Leaving sets both events, this one first: the answer may just have been cleared.
            if not self._ended.is_set():
                self._observe(asked)
                # A loop that was slow is looked at again soon: many short stalls count, too.
                slow = time.monotonic() - asked > _SLOW
                pause = self._glance if slow else self._interval

    def _observe(self, asked: float) -> None:
        """Look at the stack until the loop answers."""
        last, cpu = asked, time.process_time()
        stall: dict[str, float] = {}
        reported: BlockingCode | None = None
        while not self._answered.wait(self._glance):
            now, used = time.monotonic(), time.process_time()
            if not was_stopped(now - last - self._glance, used - cpu):
                reported = self._charge(now - last, now, stall) or reported
            last, cpu = now, used
        if reported is not None and stall[reported.function] >= _LONG:
            lasted = stall[reported.function]
            self._report(structs.replace(reported, seconds=lasted, over=True), ())

    def _charge(self, seconds: float, now: float, stall: dict[str, float]) -> BlockingCode | None:
        """Charge the code on the stack with a time; return what was reported, if it was due."""
        look = look_at(self._watched)
        if look is None:
            return None
        stall[look.function] = stall.get(look.function, 0.0) + seconds
        due = self._account.charge(look.function, seconds, now, own=look.own)
        if not due:
            return None
        where, line = look.where[-_LONGEST:], look.line[:_LONGEST]
        code = BlockingCode(look.function, where, line, due, look.instead)
        self._report(code, look.frames)
        return code


def was_stopped(late: float, used: float) -> bool:
    """Return True if a process was stopped, or got no processor, when its thread woke late.

    Otherwise it computed meanwhile, and something held the interpreter's lock.

    Args:
        late: seconds by which the thread woke late.
        used: seconds of CPU time that the process took meanwhile.
    """
    return late > _STOPPED and used < late * _WORK


# ---- the stack of a blocked loop


def look_at(thread: int) -> Look | None:
    """Look at the stack of a thread; return None if no code of a user's coroutine is on it."""
    frame = sys._current_frames().get(thread)  # documented, in spite of its name
    if frame is None or _is_waiting(frame):
        return None
    stack: list[FrameType] = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
        # The thread goes on meanwhile, and may have left the frame. CPython before 3.11.5 then
        # returns whatever is at that place in memory now.
        if not isinstance(frame, FrameType | None):
            return None
    stack.reverse()
    frames = _below_the_loop(stack)
    others = [at for at, f in enumerate(frames) if not _is_machinery(f)]
    users = [at for at in others if not _is_installed(frames[at])] or others
    if not users or (_is_installed(frames[users[0]]) and _is_module(frames[users[0]])):
        return None  # Grain imports a package: a user can do nothing about that
    first, last = frames[users[0]], frames[users[-1]]
    inner = frames[users[-1] + 1 :]
    own = any(_package(f) == "grain" for f in inner)
    file = last.f_code.co_filename
    line = linecache.getline(file, last.f_lineno or 0, last.f_globals).strip()
    return Look(
        _name_of(first)[:_LONGEST],
        _where(last),
        line,
        _instead(line, inner, own=own),
        own,
        tuple(frames),
    )


def task_on(frames: tuple[FrameType, ...], root: Task | None) -> Task | None:
    """Return the trio task that a stack is of; None if there is none.

    Trio says which task runs only to the thread of the loop. But the outermost frame is that of
    the task's coroutine, so a search below the root task finds it. Another thread may search while
    the loop goes on: what trio returns of a task's nurseries, and of their tasks, are copies.

    Args:
        frames: the stack, from the loop inwards.
    """
    tasks = [root] if root is not None else []
    while tasks:
        task = tasks.pop()
        if getattr(task.coro, "cr_frame", None) is frames[0]:
            return task
        tasks.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
    return None


def _is_waiting(innermost: FrameType) -> bool:
    """Return True if a stack is that of a loop which waits for events."""
    if _package(innermost) == "selectors" and innermost.f_back is not None:
        return _package(innermost.f_back) == "asyncio"  # others wait with it, too: subprocess.run
    return _package(innermost) == "trio"


def _below_the_loop(stack: list[FrameType]) -> list[FrameType]:
    """Return the frames from the first coroutine inwards that a loop of trio or asyncio runs."""
    for at in range(1, len(stack)):
        if (
            _is_coroutine(stack[at])
            and not _is_coroutine(stack[at - 1])
            and _package(stack[at - 1]) in ("trio", "asyncio")
        ):
            return stack[at:]
    return []


def _is_coroutine(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_COROUTINE)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_machinery(frame: FrameType) -> bool:
    """Return True for a frame of Grain, of trio or of Python's library."""
    name = frame.f_code.co_filename
    return (
        _package(frame) in _OURS
        or name.startswith("<frozen ")
        or (name.startswith(_LIBRARY) and not _is_installed(frame))
    )


_OURS = frozenset({"grain", "trio", "outcome", "exceptiongroup"})
_LIBRARY = f"{Path(inspect.__file__).parent}/"


def _is_installed(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return "/site-packages/" in name or "/dist-packages/" in name


def _is_module(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>"


def _name_of(frame: FrameType) -> str:
    code = frame.f_code
    name: str = getattr(code, "co_qualname", code.co_name)  # Python 3.11 and later have the former
    return "this cell" if _is_module(frame) else name.rpartition("<locals>.")[2]


def _where(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    with suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return f"{path}:{frame.f_lineno}"


# ---- advice


def _instead(line: str, inner: list[FrameType], *, own: bool) -> str:
    """Return what to write instead of a line that blocks, by its text and the code below it."""
    if own:
        return (
            "submit fewer tasks at a time (grain.util.QueueLimiter), pass paths instead of large "
            "values, or let others run with `await trio.sleep(0)` now and then"
        )
    modules = {_package(frame) for frame in inner}
    if "subprocess" in modules or _STARTS_PROGRAM.search(line):
        return "run the program with `await run_external([...])` (grain.worker.external)"
    if _SLEEPS.search(line):
        return "write `await trio.sleep(...)`"
    return (
        "write `await in_thread(fn)(x)` (grain.worker.blocking) for a function fn that waits, "
        "`await subprocify(fn)(x)` (grain.subproc) for a computing one"
    )


_SLEEPS = re.compile(r"\bsleep\(")
_STARTS_PROGRAM = re.compile(r"\b(subprocess\.|os\.system\(|os\.popen\(|os\.wait|check_output\()")
