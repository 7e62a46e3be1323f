"""The advice of one mission on code that works and yet is not what its author wants. No I/O.

Each piece of advice is one line for the user, once for each function: what happens, where, and what
to write instead. The code goes on.
"""

from __future__ import annotations

import re
import sys
from enum import Enum
from typing import TYPE_CHECKING

from grain.resource import Cores, Host, Memory, Token, WTime, learned
from grain.resource.figures import several_maxima
from grain.worker.call import note_other_loop
from grain.worker.errors import add_note_once

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.resource import Resource
    from grain.worker.messages import BlockingCode

_LONG = 40  # characters of a command


class ProgramCaller(Enum):
    """A function that runs a program, by what to write instead."""

    DELAYED = "Write ({0} @ Cores(1))(...)"
    SUBTASK = "Write wg.submit(Cores(1), {0}, ...) instead of start_subtask"
    ROOT = "Put the program into a delayed function fn, and write (fn @ Cores(1))(...)"


class Advice:
    """The advice of a mission, each piece once.

    Args:
        report: takes a line for the user. It may be called in a thread other than the mission's,
            as that of a mission which is blocked cannot call anything.
    """

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self._given: set[tuple[str, str]] = set()
        # By group: the maximum that a request of it stated first, in GB.
        self._most: dict[str, float] = {}

    def on_blocked(self, code: BlockingCode, worker: str = "") -> None:
        """Advise on code that blocks an event loop.

        Args:
            worker: the name of the worker; empty for the mission's own process.
        """
        where = f"on {worker}" if worker else "of this process"
        if code.over:
            if self._is_first("blocked for long", code.function):
                self._report(f"The event loop {where} goes on: {code.function} had blocked it for "
                             f"{code.seconds:.0f} s")  # fmt: skip
            return
        if not self._is_first("blocks", code.function):
            return
        line = f": `{code.line}`" if code.line else ""
        others = "all other tasks there" if worker else "everything else in the mission"
        self._report(
            f"warning: {code.function} blocks the event loop {where}, {code.seconds:.0f} s by now, "
            f"at {code.where}{line}. Until it returns, {others} must wait. Instead, {code.instead}"
        )

    def on_program(self, function: str, command: Sequence[object], caller: ProgramCaller) -> None:
        """Advise on an external program that runs in the mission's own process."""
        if not self._is_first("program", function):
            return
        words = " ".join(map(str, command))
        shown = words if len(words) <= _LONG else f"{words[: _LONG - 3]}..."
        self._report(
            f"warning: {function} runs `{shown}` without cores of its own, in the mission's own "
            "process: such calls all start at once, however many there are. "
            f"{caller.value.format(function)}; if it is meant, run_external([...], here=True)"
        )

    def on_request(self, function: str, res: Resource) -> None:
        """Advise on a request that bounds nothing: any number of such tasks runs at once.

        Also on one of a group that states another maximum than the others of it.
        """
        for memory in filter(None, map(learned, res.alternatives())):
            most = self._most.setdefault(str(memory.group), memory.most)
            if most != memory.most and self._is_first("maxima", str(memory.group)):
                self._report(
                    f"warning: {several_maxima(str(memory.group), (most, memory.most))}. State "
                    "one, or give the functions groups of their own"
                )
        if all(map(_is_bounded, res.alternatives())):
            return
        if self._is_first("no core", function):
            self._report(
                f"warning: {function} @ {_in_brackets(res)} asks for no core: such tasks all start "
                f"at once on a worker, however many there are. Write {function} @ Cores(1); or "
                f"{function} @ ({_joinable(res)} & Capacity(1)) if that is meant"
            )

    def _is_first(self, kind: str, function: str) -> bool:
        """Return True if this is the first advice of a kind on a function."""
        if (kind, function) in self._given:
            return False
        self._given.add((kind, function))
        return True


def _is_bounded(res: Resource) -> bool:
    """Return True if a request says how many such tasks may run at once."""
    cores, memory = res.get(Cores), res.get(Memory)
    if not isinstance(cores, Cores) or cores.N or cores.is_all:
        return True
    others = set(res.parts()) - {kind._kind for kind in (Cores, Memory, WTime, Token, Host)}
    return bool(others) or (memory is not None and (memory.M > 0 or learned(res) is not None))


def _in_brackets(res: Resource) -> str:
    return f"({res.ask()})" if any(mark in res.ask() for mark in "&|") else res.ask()


def _joinable(res: Resource) -> str:
    return f"({res.ask()})" if len(res.alternatives()) > 1 else res.ask()


_MENTIONS = {
    re.compile(r"^'(Cores|GPUs|Memory|Capacity|Token|WTime|Composite)' object is not callable"): (
        "A call binds tighter than @: write (fn @ Cores(4))(x), with brackets"
    ),
    re.compile(r"\bDelayed\b"): (
        "A Delayed stands for a value that is not known yet: await it first, as in "
        "`energy = await energy_`"
    ),
    re.compile(r"\bDelayedFn\b"): (
        "A delayed function is called, and what it returns is awaited: `r_ = f(x); r = await r_`. "
        "It starts at the call: no nursery is needed"
    ),
    re.compile(r"^object (list|tuple|generator) can't be used in 'await' expression"): (
        "Several delayed objects are awaited by each: `from grain.delayed import each; results = "
        "await each(delayed_objects)`"
    ),
}


def note_mistakes(error: BaseException) -> None:
    """Add notes to an exception of the user's code, if it comes of a mistake with delayed objects.

    Python's own messages name only the type, where a delayed object meets code that wants a value,
    as in json.dumps or str.join; or code that wants another event loop.
    """
    note_other_loop(error)
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            note_mistakes(one)
    elif isinstance(error, TypeError):
        text = str(error)
        for pattern, note in _MENTIONS.items():
            if pattern.search(text):
                add_note_once(error, note)
