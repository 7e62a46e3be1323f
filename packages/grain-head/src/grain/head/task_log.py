"""`TaskLog`: lines about tasks, held back for a moment so that a flood of brief ones is counted.

Theory of operation. A line costs some microseconds, of which a task that does next to nothing
cannot spare any. So the submission and the start of a task are notes at first: a tuple each, with
a reading of the monotonic clock. A task that ends with a value, soon after its submission, after a
run that was brief and ran no program, takes its notes along, and is added to the count of its
function and request; every second the counts are written, each as one `schema.BriefTasks`. All
other tasks are *listed*: as soon as that is certain, their notes become lines. Of the brief ones,
too, the first `LISTED` of each second are listed, so only a mission with many more has counts.

All lines wait here until no note is older than they are: so they are written in the order of their
times. `_flush` does it, in the thread of the event loop, `HELD` seconds after their time or a
second later. While nothing is held, nobody is woken.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from grain.eventlog import schema
from grain.resource import ZERO, Resource, to_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from grain.eventlog.schema import AnyLine

Key = int | tuple[str, int]
"""A task: its number, or the id of its mission with its number."""

HELD = 2.0
"""Seconds after its submission within which a brief task has to end."""

BRIEF = 0.2
"""Seconds that the run of a brief task takes at most."""

LISTED = 100
"""Brief tasks that are listed each second all the same."""

_AT_ONCE = 5000  # tasks that are listed before others have their turn
_LATEST = 5.0  # seconds after which lines are written though nobody has asked for them

_time = attrgetter("time")


class Lines(Protocol):
    """The log as a writer of lines needs it: see `grain.eventlog.writer.LogWriter`."""

    def time_of(self, reading: float) -> float:
        """Return the time for a line, of a reading of the monotonic clock."""

    def clock_is_off(self) -> bool:
        """Return True if the clock of the machine was set, so that times will change."""

    def write(self, lines: Sequence[AnyLine]) -> None:
        """Take lines."""

    def call_soon(self, flush: Callable[[], None]) -> None:
        """Call a function in the thread of the event loop, after others had their turn."""

    def remind(self, flush: Callable[[], None]) -> None:
        """Call a function in about a second, in the thread of the event loop."""


class RequestWords:
    """Requests as they stand in a log; most tasks bring the same object as the one before."""

    def __init__(self) -> None:
        self._last: Resource | None = None
        self._words: tuple[dict[str, float], str] = ({}, "")
        self._all: dict[Resource, tuple[dict[str, float], str]] = {}

    def of(self, request: Resource) -> tuple[dict[str, float], str]:
        """Return the amounts of a request by kind, and its text."""
        if request is not self._last:
            words = self._all.get(request)
            if words is None:
                words = self._all[request] = (amounts(to_data(request)), request.ask())
            self._last, self._words = request, words
        return self._words


def amounts(data: dict[str, Any]) -> dict[str, float]:
    """Return resources as numbers by kind, from plain data: GB, seconds, or how many there are.

    A kind that is no quantity, as a token, counts as 1; a time without a limit is left out.
    """
    numbers: dict[str, float] = {}
    for kind, part in data.items():
        match part:
            case bool() | str() | None:
                numbers[kind] = 1
            case int() | float():
                numbers[kind] = part
            case list():
                numbers[kind] = len(part)
            case {"T": float() | int() as seconds}:
                numbers[kind] = seconds
            case dict() if kind == "WTime":
                pass
            case _:
                numbers[kind] = 1
    return numbers


class BriefCount:
    """The brief tasks of one function that ask for the same, since they were last written.

    Attributes:
        mission: the id of their mission, in the log of a scheduler.
        function: the name of the function.
        request: what they ask for.
        count: how many there are.
        seconds: the lengths of their runs, added up.
        waited: their waits, likewise.
        first: when the first one began to run, by the clock of the log.
    """

    __slots__ = ("count", "first", "function", "mission", "request", "seconds", "waited")

    def __init__(self, mission: str, function: str, request: Resource) -> None:
        self.mission = mission
        self.function = function
        self.request = request
        self.count = 0
        self.seconds = self.waited = self.first = 0.0


class TaskLog:
    """The lines of a log of which some are about tasks.

    Args:
        begin: begins the log, when there is a first line.
        clock: the monotonic clock.
    """

    def __init__(
        self, begin: Callable[[], Lines], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._begin_log = begin
        self._clock = clock
        self._reading = 0.0
        self._words = RequestWords()
        # Of the tasks that are not listed: when they were submitted, in that order, as what, after
        # which tasks, the first attempt, and the urgency; and when they were given to which worker.
        self._notes: dict[Key, tuple[float, BriefCount, int, int, float]] = {}
        self._begun: dict[Key, tuple[float, str]] = {}
        self._lines: list[AnyLine] = []
        self._counts: dict[tuple[str, str, Resource], BriefCount] = {}
        self._last = BriefCount("", "", ZERO)
        self._counted: list[BriefCount] = []
        self._room = LISTED
        self._latest = -math.inf  # when lines are written without a reminder

    @cached_property
    def _log(self) -> Lines:
        return self._begin_log()

    def close(self) -> None:
        """Write what is held, as nothing is to come any more."""
        if self._latest != -math.inf:
            self._write(math.inf, self._clock(), math.inf)
            self._latest = -math.inf

    # ---- notes, which cost next to nothing

    def note(
        self,
        key: Key,
        function: str,
        request: Resource,
        after: int = 0,
        retry_of: int = 0,
        urgency: float = 0.0,
        mission: str = "",
    ) -> None:
        """Note a task that is submitted.

        Args:
            key: the task.
            function: the name of its function.
            request: what it asks for.
            after: the task for whose end its branch had last waited; 0 for none.
            retry_of: the number of its first attempt; 0 if it is that.
            urgency: larger goes first among those that ask for the same.
            mission: the id of its mission, in the log of a scheduler.
        """
        last = self._last
        if request is not last.request or function is not last.function or mission != last.mission:
            last = self._last = self._count(mission, function, request)
        now = self._clock()
        self._notes[key] = now, last, after, retry_of, urgency
        if now > self._latest:
            self._hold(now)

    def _count(self, mission: str, function: str, request: Resource) -> BriefCount:
        key = mission, function, request
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = BriefCount(mission, function, request)
        elif count.request is not request:  # next time the object is the same
            count.request, count.function = request, function
        return count

    def _forget_counts(self, mission: str) -> None:
        """Forget what the tasks of a mission may be counted as: it brings no further ones."""
        self._counts = {key: one for key, one in self._counts.items() if key[0] != mission}

    def tick(self) -> None:
        """Read the clock, for all starts and ends of tasks until it is read again."""
        self._reading = self._clock()

    def _begin_all(self, keys: tuple[Key, ...], worker: str) -> bool:
        """Note the first runs of tasks, unless one of them is listed: then note none."""
        notes, begun = self._notes, self._begun
        if not worker or not notes.keys() >= set(keys) or not begun.keys().isdisjoint(keys):
            return False
        begun.update(dict.fromkeys(keys, (self._reading, worker)))
        return True

    def brief(self, key: Key) -> bool:
        """Count a task that has a value, and ran no program, if it is one of many brief ones.

        Returns:
            False if it was not counted: then its end has to be noted.
        """
        if self._room:
            self._room -= 1
            return False
        begun = self._begun.pop(key, None)
        if begun is None:
            return False
        note = self._notes.pop(key)
        submitted, count, _, retry_of, _ = note
        began = begun[0]
        seconds = self._reading - began
        if seconds > BRIEF or retry_of:
            self._begun[key], self._notes[key] = begun, note
            return False
        if not count.count:
            count.first = began
            self._counted.append(count)
        count.count += 1
        count.seconds += seconds
        count.waited += began - submitted
        return True

    # ---- lines

    def _now(self) -> float:
        """Return the time for a line."""
        return self._log.time_of(self._clock())

    def _add(self, line: AnyLine) -> None:
        """Take a line, which is written when all that is older has been."""
        self._lines.append(line)
        now = self._clock()
        if now > self._latest:
            self._hold(now)

    def _list(self, key: Key) -> tuple[float, str] | None:
        """Make lines of the notes on a task.

        Returns:
            When it was given to a worker, in Unix seconds, and to which; None if it waits.
        """
        submitted, count, after, retry_of, urgency = self._notes.pop(key)
        numbers, text = self._words.of(count.request)
        task = key[1] if isinstance(key, tuple) else key
        self._add(
            schema.TaskSubmitted(
                time=self._log.time_of(submitted),
                task=task,
                function=count.function,
                request=numbers,
                request_text=text,
                after=(after,) if after else (),
                retry_of=retry_of,
                urgency=urgency,
                mission=count.mission,
            )
        )
        begun = self._begun.pop(key, None)
        if begun is None:
            return None
        began, worker = self._log.time_of(begun[0]), begun[1]
        self._add(
            schema.TaskStarted(
                time=began, task=task, worker=self._name(worker), mission=count.mission
            )
        )
        return began, worker

    def _name(self, worker: str) -> str:
        """Return the name of a worker as it was noted."""
        return worker

    def _hold(self, now: float) -> None:
        """Have what is held written in a while, or at once if that was asked for and not done."""
        if self._latest == -math.inf:
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        """Write what has been held for long enough."""
        now = self._clock()
        if self._log.clock_is_off():
            # What was noted by the old clock is written before the line that says so.
            more = self._write(math.inf, now, math.inf)
        else:
            more = self._write(now - HELD, now, _AT_ONCE)
        if more:
            self._latest = now + _LATEST
            self._log.call_soon(self._flush)
        elif self._lines or self._notes or self._counted:
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._latest = -math.inf

    def _write(self, horizon: float, now: float, most: float) -> bool:
        """Write what is not younger than a reading of the clock.

        Args:
            horizon: the reading.
            now: that of now.
            most: how many tasks are listed at most.

        Returns:
            True if there is more of it.
        """
        old: list[Key] = []
        more = False
        for key, note in self._notes.items():
            if note[0] > horizon:
                break
            if len(old) >= most:
                horizon, more = note[0], True
                break
            old.append(key)
        self._latest = math.inf  # what is listed now needs no reminder
        for key in old:
            self._list(key)
        if not more:
            self._write_counts(now)
        lines = self._lines
        lines.sort(key=_time)
        at = bisect_right(lines, self._log.time_of(horizon), key=_time)
        ready, self._lines = lines[:at], lines[at:]
        if ready:
            self._log.write(ready)
        return more

    def _write_counts(self, now: float) -> None:
        self._room = LISTED
        for count in self._counted:
            numbers, text = self._words.of(count.request)
            self._lines.append(
                schema.BriefTasks(
                    time=self._log.time_of(now),
                    function=count.function,
                    tasks=count.count,
                    began=self._log.time_of(count.first),
                    seconds=count.seconds,
                    waited=count.waited,
                    request=numbers,
                    request_text=text,
                    mission=count.mission,
                )
            )
            count.count = 0
            count.seconds = count.waited = 0.0
        self._counted.clear()
