"""`TaskLog`: lines about tasks, kept for a moment so that a flood of brief ones is counted.

Theory of operation. A line costs some microseconds, of which a task that does next to nothing
cannot spare any. So nothing is written or made for a task when it is submitted and when it starts:
records that its executor or hub has anyway keep the times (`grain.head.base.SubmittedTask`,
`grain.head.hub.state`), or the messages that report them are kept until another process asks. A
task that ends with a value after a brief run without a program (its worker decides that:
`grain.eventlog.usage.Report`) is added to the count of its function and request; about every second
the counts are written, each as one `schema.BriefTasks`. All other tasks are *listed*: with a line
for the submission, for each start and for each end. The first `LISTED` that end in a second are
listed in any case, so only a mission with many more has counts.

The lines of a task that waits or runs are made `HELD` seconds after its submission and its start.
`WAITING` of the waiting tasks get them each second, as there may be a million brief ones, and
`LISTED` while others are counted. The rest get them when they turn out not to be brief, and so too
late.

All lines are held here for as long, and so are written in the order of their times. `_flush` does
that, in the thread of the event loop. While nothing is held, no task is woken.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import trio

from grain.eventlog import schema
from grain.resource import ZERO, Resource, to_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.eventlog.schema import AnyLine
    from grain.head.messages import WorkerFacts

HELD = 2.0
"""Seconds for which a line is held, so that lines of earlier times may come."""

LISTED = 100
"""Brief tasks that are listed each second all the same."""

WAITING = 2000
"""Tasks that are listed each second because they wait."""

_LATEST = 5.0  # seconds after which lines are written without being asked for

_time = attrgetter("time")


class Lines(Protocol):
    """The log as a writer of lines needs it: see `grain.eventlog.writer.LogWriter`."""

    def time_of(self, reading: float) -> float:
        """Return the time for a line, of a reading of the clock."""

    def clock_is_off(self) -> bool:
        """Return True if the clock of the machine was set, so that times will change."""

    def write(self, lines: Sequence[AnyLine]) -> None:
        """Take lines."""

    def remind(self, flush: Callable[[], None]) -> None:
        """Call a function in about a second, in the thread of the event loop."""


class RequestWords:
    """Requests as they stand in a log; most tasks bring the same object as the one before.

    Args:
        most: how many are remembered: each task of a mission may ask for something else.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._last: Resource | None = None
        self._words: tuple[dict[str, float], str] = ({}, "")
        self._all: dict[Resource, tuple[dict[str, float], str]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def of(self, request: Resource) -> tuple[dict[str, float], str]:
        """Return the amounts of a request by kind, and its text."""
        if request is not self._last:
            words = self._all.get(request)
            if words is None:
                if len(self._all) >= self._most:
                    self._all.clear()
                words = self._all[request] = (amounts(to_data(request)), request.ask())
            self._last, self._words = request, words
        return self._words


def amounts(data: dict[str, Any]) -> dict[str, float]:
    """Return resources as numbers by kind, from plain data: GB, seconds, or how many there are.

    A kind that is not a quantity, as a token, counts as 1; a time without a limit is left out.
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
    """The brief tasks of one function that ask for the same, since counts were last written.

    Attributes:
        mission: the id of their mission, in the log of a scheduler.
        function: the name of the function.
        request: what they ask for.
        began: when the first task to end began to run, by the clock of the log.
        key: an object that those of the function mostly share, such as the function itself.
        tasks: how many there are.
        seconds: the lengths of their runs, added up.
        taken: the times from their submissions to their ends, likewise.
    """

    __slots__ = (
        "began", "function", "key", "mission", "request", "seconds", "taken", "tasks",
    )  # fmt: skip

    def __init__(self, mission: str, function: str, request: Resource, began: float) -> None:
        self.mission = mission
        self.function = function
        self.request = request
        self.began = began
        self.key: object = None
        self.tasks = 0
        self.seconds = self.taken = 0.0


class TaskLog(ABC):
    """The lines of a log, some of them about tasks.

    Args:
        begin: begins the log, when there is a first line.
        clock: the clock of the executor or hub, which the log has, too.

    Attributes:
        room: how many tasks are listed, brief or not, before brief ones are counted.
        last: the count to which the last brief task was added; most tasks are like the one before.
        now: the last reading of the clock, which holds for all that is noted. A caller that has a
            reading sets it; else `tick` reads the clock.
    """

    def __init__(
        self, begin: Callable[[], Lines], clock: Callable[[], float] = trio.current_time
    ) -> None:
        self.room = LISTED
        self.now = -math.inf
        self._begin_log = begin
        self._clock = clock
        self._words = RequestWords()
        self._lines: list[AnyLine] = []
        self.last = BriefCount("", "", ZERO, 0.0)
        # By identity, as to hash a request costs more than all else here: each keeps its request.
        self._counts: dict[tuple[str, str, int], BriefCount] = {}
        self._latest = -math.inf  # when lines are written without a reminder

    @cached_property
    def _log(self) -> Lines:
        return self._begin_log()

    def tick(self) -> float:
        """Read the clock, and have what is noted from now on written in a while."""
        self.now = now = self._clock()
        if now > self._latest:
            self._hold(now)
        return now

    def close(self) -> None:
        """Write what is held, as nothing is to come any more."""
        if self._latest != -math.inf:
            self.tick()
            self._write(math.inf, math.inf, math.inf)
            self._latest = -math.inf

    def worker_joined(self, worker: WorkerFacts) -> None:
        """Note a worker."""
        self._add(
            schema.WorkerJoined(
                time=self._now(),
                worker=worker.name,
                host=worker.host,
                job=worker.job,
                resources=amounts(worker.total),
                ends=worker.ends,
            )
        )

    # ---- tasks

    def _counted_as(
        self, key: object, mission: str, function: str, request: Resource, began: float
    ) -> BriefCount:
        """Return the count to which brief tasks are added, and remember it as the last one.

        Args:
            key: an object that those of one function mostly share.
            mission: as in the count.
            function: likewise.
            request: likewise.
            began: when its run began: if there is no such count yet, it is the first.
        """
        counted_as = mission, function, id(request)
        count = self._counts.get(counted_as)
        if count is None:
            count = self._counts[counted_as] = BriefCount(mission, function, request, began)
        count.key = key
        self.last = count
        return count

    @abstractmethod
    def _list_tasks(self, horizon: float, most: float) -> bool:
        """Make lines of the tasks that were submitted and have begun up to a time, and go on.

        Args:
            horizon: the reading of the clock.
            most: how many waiting tasks are listed at most.

        Returns:
            True if there are others, which may need lines later.
        """

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

    def _hold(self, now: float) -> None:
        """Have what is held written in a while, or at once if that was asked for and not done."""
        if self._latest == -math.inf:
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        """Write what has been held for long enough."""
        self.now = now = self._clock()
        # If the clock was set, lines by the old one are written before the line that says so.
        held = 0.0 if self._log.clock_is_off() else HELD
        # Where brief tasks end, waiting ones are most likely brief, too.
        if self._write(now - held, now - HELD, LISTED if self._counts else WAITING):
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._latest = -math.inf

    def _write(self, horizon: float, listed: float, most: float) -> bool:
        """Write lines that are not younger than a reading of the clock.

        Args:
            horizon: the reading.
            listed: that up to which tasks are listed.
            most: how many waiting tasks are listed at most.

        Returns:
            True if there is more to come.
        """
        self._latest = math.inf  # what is listed now needs no reminder
        more = self._list_tasks(listed, most)
        self._write_counts()
        lines = self._lines
        lines.sort(key=_time)
        at = bisect_right(lines, self._log.time_of(horizon), key=_time)
        ready, self._lines = lines[:at], lines[at:]
        if ready:
            self._log.write(ready)
        return more or bool(self._lines)

    def _write_counts(self) -> None:
        self.room = LISTED
        for count in self._counts.values():
            numbers, text = self._words.of(count.request)
            self._lines.append(
                schema.BriefTasks(
                    time=self._log.time_of(self.now),
                    function=count.function,
                    tasks=count.tasks,
                    began=self._log.time_of(count.began),
                    seconds=count.seconds,
                    waited=max(0.0, count.taken - count.seconds),
                    request=numbers,
                    request_text=text,
                    mission=count.mission,
                )
            )
        self._counts.clear()
        self.last = BriefCount("", "", ZERO, 0.0)
