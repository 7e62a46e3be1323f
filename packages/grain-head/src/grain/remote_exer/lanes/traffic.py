"""The calls of one request: whether lanes would serve them, and each lane that does. No I/O.

A request knows its lanes and a lane its request, so they share a module.
"""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from heapq import heappush
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from grain.edge.errors import ChannelError
from grain.resource import Gang, WTime, learned
from grain.worker.messages import AckRuns, DefineFunction, StartRun

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.eventlog.usage import Report
    from grain.head.messages import Crash
    from grain.remote_exer.session import RemoteTask
    from grain.resource import Resource

BRIEF = 0.25
"""Seconds that calls of a request may take in the mean to have lanes. For others the way is next to
nothing, and the scheduler is to know where they are."""

ALONE = 4
"""Calls in a row that must have found next to nothing waiting."""

_UNREACHABLE = 600.0  # seconds until the next lane, if a runner could not connect
_WEIGHT = 1 / 4  # of the last run in the mean
_LONG = 1.0  # seconds; how much longer a run took makes no difference
_CONFIRMED = 16  # outcomes that are confirmed together: its runner keeps as many small ones
_FEW = 4  # runs from which a mean is known
_DOUBTS = 2  # looks, in which ends could have come, that calls are held of which nothing is known
_LEAST = 20e-6  # seconds; a call takes as long, whatever it does
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds after which a lane is asked for that was refused


class Way(IntEnum):
    """The ways by which runners come to a mission; each includes those before it."""

    KERNEL = 0
    """Within the mission's kernel."""
    NETWORK = 1
    BESIDE = 2
    """By the directory or the bridge by which missions and workers meet the scheduler."""


def is_plain(request: Resource) -> bool:
    """Return True if calls of a request may have lanes: it is a part of one worker, for any time.

    The scheduler has the same rule (`grain.head.hub.tasks.lanes`), and knows beside that what the
    whole cluster has.
    """
    if len(request.alternatives()) != 1 or request.get(WTime) is not None:
        return False
    return not isinstance(request, Gang) and learned(request) is None


class CallTraffic:
    """The calls of one request: whether lanes would serve them, and those that are held. No I/O.

    Args:
        plain: False if there are no lanes for such calls, whatever they take.

    Attributes:
        refused: True if a lane found no room, perhaps as a call had it.
        holding: True while calls are held that are submitted.
        pace: the seconds from one end to the next in a lane that has a window, in the mean.
        lanes: the lanes that are open or asked for.
        idle: the lanes that have no call; the last one used is at the end.
        held: a heap of (-urgency, number) of the calls that are held, beside some that are not any
            more.
        last_held: the largest number of a call that was held.
    """

    __slots__ = (
        "_alone", "_doubts", "_ended", "_not_before", "_pause", "_span", "_urgent", "held",
        "holding", "idle", "lanes", "last_held", "pace", "plain", "refused",
    )  # fmt: skip

    def __init__(self, *, plain: bool = True) -> None:
        self.plain = plain
        self._span: float | None = None
        self._ended = 0
        self._doubts = 0
        self._alone = 0
        self._not_before = 0.0
        self._pause = _PAUSE
        self.refused = self.holding = False
        self.pace = 0.0
        self.lanes: dict[int, Lane] = {}
        self.idle: list[Lane] = []
        self.held: list[tuple[float, int]] = []
        self._urgent = False
        self.last_held = 0

    def on_submitted(self, waiting: int, running: int) -> None:
        """Record that a call goes to the scheduler.

        Args:
            waiting: how many calls wait then.
            running: how many run.
        """
        # Some wait in any case, while the scheduler answers. Where more do, the workers are full:
        # then a lane would be recalled before it is of use, and calls are held instead.
        if waiting <= 1 + running // 2:
            self._alone += 1
        else:
            self._alone = 0

    def on_ended(self, seconds: float, count: int = 1) -> None:
        """Record for how long a call has run, the last of some that have ended."""
        # A single call of hours would otherwise hide for long that the others are brief again.
        span, seconds = self._span, min(seconds, _LONG)
        self._span = seconds if span is None else span + (seconds - span) * _WEIGHT
        self._ended += count

    def hold(self, task: int, urgency: float) -> None:
        """Record that a call is held."""
        if not self.held:
            self._urgent = False
        self._urgent = self._urgent or urgency != 0
        heappush(self.held, (-urgency, task))
        self.holding, self.last_held = True, max(self.last_held, task)

    @property
    def first_held(self) -> int:
        """A lower bound for the numbers of the calls that are held."""
        return 1 if self._urgent else self.held[0][1]

    @property
    def brief(self) -> bool:
        """True if calls have proved to be brief."""
        return self._span is not None and self._span <= BRIEF

    @property
    def mean(self) -> float:
        """The seconds that a call takes, with its way."""
        # Of calls that do next to nothing the way is the cost, and runners report only the call.
        return max(_LONG if self._span is None else self._span, self.pace, _LEAST)

    def on_pace(self, seconds: float) -> None:
        """Record the seconds from one end to the next."""
        self.pace = seconds if not self.pace else self.pace + (seconds - self.pace) * _WEIGHT

    @property
    def known(self) -> bool:
        """True if enough calls have ended to say what others take."""
        return self._ended >= _FEW

    @property
    def may_be_brief(self) -> bool:
        """True if calls are brief, as far as is known."""
        return self._span is None or self._span <= BRIEF

    def may_hold(self, now: float) -> bool:
        """Return True if calls that wait are to be held for lanes, or until it is known if so."""
        if not self.plain or now < self._not_before:
            return False
        return self.may_be_brief and (self.known or self._doubts < _DOUBTS)

    def on_look(self) -> None:
        """Let time pass: calls of which nothing is known are not held for long."""
        if self.holding and not self.known:
            self._doubts += 1

    def wants_lane(self, now: float) -> bool:
        """Return True if a lane is to be asked for that is lent."""
        return (
            self._alone >= ALONE
            and self.brief
            and not self.holding  # for what is held, lanes that wait are asked for
            and now >= self._not_before
            # One at a time: whether the last one is enough is seen when it is open.
            and all(lane.open for lane in self.lanes.values())
        )

    def on_asked(self) -> None:
        """Count from the beginning: this lane may be enough."""
        self._alone = 0

    def on_refused(self, now: float) -> None:
        """Ask for no lane for some time, and longer each time."""
        self.refused = True
        self._not_before = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def on_unreachable(self, now: float) -> None:
        """Ask for no lane for long: runners have had all ways."""
        self._not_before = now + _UNREACHABLE

    def on_open(self) -> None:
        """Ask again soon when a lane is refused: this one was not."""
        self._pause = _PAUSE


class CallCrash(NamedTuple):
    """The crash of a call that did not end its lane, and the report on it."""

    crash: Crash
    report: Report


class Lane:
    """A lane.

    Args:
        waits: True for one that waits for room, False for one that is lent.
        way: as `MissionLanes.way`, when it was asked for: by which way its runner tries to come.

    Attributes:
        calls: the calls that it has, in their order, each with the bytes of its arguments; the
            first is under way.
        since: when the first of them became the first.
        open: True from the moment at which it can take calls.
        over: True from the moment at which it takes no more.
        paused: True while it gets no more: it has handed calls back, and has yet to end another.
        idle_since: when its last call ended, or it became open.
        unconfirmed: the calls that have ended, and whose runner does not know that.
        crashes: those of its calls.
        connection: to its runner; None before and after.
    """

    __slots__ = (
        "_functions", "bytes", "calls", "connection", "crashes", "idle_since", "number", "open",
        "over", "paused", "since", "traffic", "unconfirmed", "waits", "way",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        traffic: CallTraffic,
        now: float,
        *,
        waits: bool = False,
        way: Way = Way.KERNEL,
    ) -> None:
        self.number = number
        self.traffic = traffic
        self.waits = waits
        self.way = way
        self.connection: Connection | None = None
        self._functions: set[bytes] = set()
        self.calls: dict[int, int] = {}
        self.bytes = 0
        self.unconfirmed: list[int] = []
        self.open = self.over = self.paused = False
        self.idle_since = self.since = now
        self.crashes: dict[int, CallCrash] = {}

    @property
    def task(self) -> int:
        """The call under way; 0 if there is none."""
        return next(iter(self.calls), 0)

    @property
    def last(self) -> int:
        """The last of its calls; 0 if there is none."""
        return next(reversed(self.calls), 0)

    # Ctrl-C waits for the next checkpoint: here it would tear a frame.
    @trio.lowlevel.enable_ki_protection
    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        """Send messages to the runner; what cannot be sent is noticed by who receives."""
        if self.connection is not None:
            with suppress(ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                self.connection.post(batch)

    def confirm(self) -> None:
        """Let the runner forget the outcomes that have come."""
        self.post(self._confirmed())

    def _confirmed(self) -> list[tuple[Message, Payload]]:
        # A runner keeps each outcome until it knows that it has come: the connection may be lost
        # behind it, and the run of the lane then brings it along.
        unconfirmed, self.unconfirmed = self.unconfirmed, []
        number = self.number
        if not unconfirmed:
            return []
        return [(AckRuns(tuple([(number, task) for task in unconfirmed])), None)]

    def call(
        self, task: int, record: RemoteTask, function: Payload
    ) -> list[tuple[Message, Payload]]:
        """Add a call; return the messages that tell the runner of it."""
        # Some together, with a message that goes anyway: else each call would have one more.
        messages = self._confirmed() if len(self.unconfirmed) >= _CONFIRMED else []
        arguments = record.arguments
        size = 0 if arguments is None else len(arguments)
        self.calls[task] = size
        self.bytes += size
        if record.function not in self._functions:
            # Once for each lane: the connection keeps the order, so the runner has it by then.
            self._functions.add(record.function)
            messages.append((DefineFunction(record.function), function))
        start = StartRun((self.number, task), None, function=record.function, task=task)
        messages.append((start, arguments))
        return messages

    def remove(self, task: int, now: float) -> None:
        """Remove a call that it does not have any more."""
        self.bytes -= self.calls.pop(task)
        self.since = now


class Connection(Protocol):
    """The part of a channel to a runner that `MissionLanes` uses."""

    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        """As `grain.edge.channel.Channel.post`."""
