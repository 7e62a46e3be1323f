"""WTime: the time limits of tasks, and the time that workers have left."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.resource.base import Resource, with_usage
from grain.resource.spans import clock_seconds, on_clock, unit_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from typing_extensions import Self


class Limits(NamedTuple):
    """Time limits in seconds; ``math.inf`` where there is none."""

    soft: float
    hard: float


LONGER = 3.0
"""The factor by which a run may take longer than the longest, or than the limit that ended it."""

UNLIMITED = Limits(math.inf, math.inf)


class WTime(Resource):
    """Walltime limit for a task or a worker.

    A task runs only on a worker that has at least the soft limit left. When a run exceeds the
    hard limit it fails with `trio.TooSlowError`. A worker without a WTime meets every limit.

    Args:
        T: the hard limit, in seconds or as ``[d]-hh:mm:ss``.
        softT: the soft limit, likewise; by default the same as the hard one.
        group: estimate both limits from the runs of all tasks of this group, see `RunTimes`. Until
            there is an estimate, T and softT hold if they are given. A run that was ended at an
            estimated limit is tried once more with three times that, and at most T.
        learn: from which runs of the group: the ``"first"`` 8, or ``"recent"`` ones, which suits
            tasks whose times scatter or change.
        countdown: for a worker: T is the time left from now on, and it shrinks. A worker's supply
            is made to count down when it joins; stating it is not necessary.
        clock: returns the time in seconds, for a countdown.

    Attributes:
        T: the hard limit in seconds, or the time left of a countdown; None if there is none (yet).
        softT: the soft limit in seconds, or None.
        group: the group, or None.
        learn: ``"first"`` or ``"recent"``.
        tried: for a further attempt: the seconds after which the last one was ended; else 0.

    Raises:
        ValueError: a limit is malformed, not positive, or soft above hard; or neither T nor
            group is given.
    """

    __slots__ = ("_clock", "_end", "_hard", "_soft", "countdown", "group", "learn", "tried")
    _kind = "WTime"
    _exports = ("T", "group", "softT")
    _limits_whole = True
    _unlimited_if_absent = True

    @with_usage(lambda given: _corrected(*given))
    def __init__(
        self,
        *,
        T: float | str | None = None,  # noqa: N803 - the user's name for it
        softT: float | str | None = None,  # noqa: N803 - the user's name for it
        group: str | None = None,
        learn: str = "first",
        countdown: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if T is None and (group is None or softT is not None or countdown):
            raise ValueError('WTime needs a limit T, as in WTime(T="2:00:00"), or a group')
        if group is not None and not isinstance(group, str):
            raise ValueError(f"WTime(group={group!r}): a group is a name, a str")
        if group is not None and (not group or group != group.strip()):
            raise ValueError(f"WTime(group={group!r}): a group is a name, without blanks around it")
        if learn not in ("first", "recent"):
            raise ValueError(f"WTime(learn={learn!r}): limits follow the 'first' or 'recent' runs")
        if learn != "first" and group is None:
            raise ValueError(f'WTime(learn={learn!r}) needs a group, as in WTime(group="opt")')
        # Only a countdown may stand at zero: a worker whose time is over still states its limit.
        over = countdown and T == 0
        self._hard = None if T is None else 0 if over else _limit("T", T)
        self._soft = self._hard if softT is None else _limit("softT", softT)
        if self._hard is not None and self._soft is not None and self._soft > self._hard:
            raise ValueError(
                f"WTime: the soft limit softT={softT!r} is above the hard limit T={T!r}"
            )
        self.group = group
        self.learn = learn
        self.tried = 0.0
        self.countdown = countdown
        self._clock = clock
        self._end = clock() + self._hard if countdown and self._hard is not None else None

    @property
    def T(self) -> float | None:  # noqa: N802 - the user's name for it
        """The hard limit, or the time left of a countdown, in seconds; None if there is none."""
        if self._end is not None:
            return max(self._end - self._clock(), 0.0)
        return self._hard

    @property
    def softT(self) -> float | None:  # noqa: N802 - the user's name for it
        """The soft limit in seconds; None if there is none."""
        return self.T if self._end is not None else self._soft

    def limits(self, run_times: RunTimes | None = None) -> Limits:
        """Return the limits of this request, estimated from ``run_times`` for a group in it."""
        if self.tried:
            hard = LONGER * self.tried
            return Limits(self.tried, hard if self._hard is None else min(hard, self._hard))
        if self.group is not None and run_times is not None:
            estimate = run_times.limits(self.group, self.learn)
            if estimate is not None:
                return estimate
        if self._hard is None or self._soft is None:
            return UNLIMITED
        return Limits(self._soft, self._hard)

    def resolved(self, run_times: RunTimes) -> WTime:
        """Return this request with the limits that its group has now, for an allocation."""
        soft, hard = self.limits(run_times)
        if self.group is None or hard == math.inf:
            return self
        return WTime(T=hard, softT=min(soft, hard), group=self.group, learn=self.learn)

    def after(self, limit: float) -> WTime:
        """Return the request of another attempt, after one that was ended at a limit in seconds."""
        new = copy.copy(self)
        new.tried = limit
        return new

    def _request(self, res: Self) -> bool:
        left, soft = self.T, res.softT
        return left is None or soft is None or soft <= left

    def _alloc(self, res: Self) -> Self:
        return res

    def _dealloc(self, res: Self) -> None:
        pass

    def _repr(self) -> str:
        return self._shown(on_clock, ["countdown=True"] if self._end is not None else [])

    def _ask(self) -> str:
        """Return it as a user writes it: the string that a limit is made of, or its seconds."""
        return self._shown(_written, [])

    def _shown(self, written: Callable[[float], str], more: list[str]) -> str:
        shown = []
        if self.T is not None:
            shown.append(f"T={written(self.T)}")
        if self._end is None and self._soft != self._hard and self._soft is not None:
            shown.append(f"softT={written(self._soft)}")
        if self.group is not None:
            shown.append(f"group={self.group!r}")
        if self.learn != "first":
            shown.append(f"learn={self.learn!r}")
        return f"WTime({', '.join(shown + more)})"

    def _stat(self) -> tuple[int, int]:
        if self._end is None or not self._hard:
            return (1, 1)
        return (round(self.T or 0), math.ceil(self._hard))

    def _data(self) -> dict[str, Any]:
        """Return the limits; seconds left for a countdown, as clocks differ between machines."""
        data: dict[str, Any] = {}
        if self.T is not None:
            data["T"] = self.T
        if self._end is None and self._soft != self._hard:
            data["softT"] = self._soft
        if self.group is not None:
            data["group"] = self.group
        if self.learn != "first":
            data["learn"] = self.learn
        if self.tried:
            data["tried"] = self.tried
        if self.countdown:
            data["countdown"] = True
        return data

    @classmethod
    def _from_data(cls, data: Any) -> Self:
        """Make it of the arguments, without a clock, or of only the hard limit."""
        given = data if isinstance(data, dict) else {"T": data}
        if "clock" in given:
            raise ValueError("a clock is not data")
        given = dict(given)
        tried = float(given.pop("tried", 0.0))
        new = cls(**given)
        new.tried = tried
        return new

    def _level(self) -> Hashable:
        # The answer of a countdown changes without an event, so no level can express it: the
        # scheduler looks at the time left apart from all other kinds.
        return ()

    def _supplied(self) -> Self:
        """Return it counting down, from now on if it does not yet."""
        if self.countdown or self._hard is None:
            return self
        return type(self)(T=self._hard, group=self.group, countdown=True, clock=self._clock)


class RunTimes:
    """Run times by group, from which the limits of ``WTime(group=...)`` are estimated.

    From the first 8 runs of a group the hard limit is their mean plus 5 standard deviations, the
    soft limit the mean plus 2. From recent runs, the last 64 and 8 at least, the hard limit is
    three times the longest, and the soft limit 1.1 times their 95th percentile. Runs of 10 s or
    less are not counted: such tasks need no limit, and a failed start would spoil the estimate.
    """

    RUNS = 8
    RECENT = 64
    SHORTEST = 10.0

    def __init__(self) -> None:
        self._runs: dict[str, list[float]] = {}
        self._limits: dict[str, Limits] = {}
        self._recent: dict[str, deque[float]] = {}
        self._recent_limits: dict[str, Limits] = {}

    def record(self, group: str, seconds: float, learn: str = "first") -> bool:
        """Count a finished run; return True if the estimate of its group is another now."""
        if learn == "recent":
            return self._record_recent(group, seconds)
        if seconds <= self.SHORTEST or group in self._limits:
            return False
        runs = self._runs.setdefault(group, [])
        runs.append(seconds)
        if len(runs) < self.RUNS:
            return False
        mean = sum(runs) / len(runs)
        stdev = math.sqrt(sum((t - mean) ** 2 for t in runs) / (len(runs) - 1))
        self._limits[group] = Limits(mean + 2 * stdev, mean + 5 * stdev)
        del self._runs[group]
        return True

    def _record_recent(self, group: str, seconds: float) -> bool:
        if seconds <= self.SHORTEST:
            return False
        runs = self._recent.setdefault(group, deque(maxlen=self.RECENT))
        runs.append(seconds)
        if len(runs) < self.RUNS:
            return False
        ordered = sorted(runs)
        soft = 1.1 * ordered[math.ceil(0.95 * len(ordered)) - 1]
        hard = LONGER * ordered[-1]
        before = self._recent_limits.get(group)
        now = self._recent_limits[group] = Limits(min(soft, hard), hard)
        return now != before

    def limits(self, group: str, learn: str = "first") -> Limits | None:
        """Return the estimated limits of a group; None while too few runs were counted."""
        return (self._recent_limits if learn == "recent" else self._limits).get(group)


def _limit(name: str, given: float | str) -> float:
    """Return a limit in seconds, given as a number of them or as ``[d]-hh:mm:ss``."""
    seconds: float | None = None
    if isinstance(given, str):
        seconds = clock_seconds(given.strip())
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = given
    if seconds is None or not 0 < seconds < math.inf:
        instead = _on_clock(given)
        raise ValueError(
            f"WTime({name}={given!r}): a time limit is a positive number of seconds or a str of "
            "the form [d]-hh:mm:ss, "
            + (f'so write {name}="{instead}"' if instead else 'as in "1-12:00:00" or "02:30:00"')
        )
    return seconds


def _written(seconds: float) -> str:
    return f'"{on_clock(seconds)}"' if seconds == round(seconds) else f"{seconds:g}"


def _on_clock(given: object) -> str:
    """Return a span with units as on a clock; empty if it is none."""
    seconds = unit_seconds(given.replace(" ", "")) if isinstance(given, str) else None
    return on_clock(seconds) if seconds else ""


def _corrected(given: object = None, *_: object) -> str:
    """Return the call for a limit that was given without its name."""
    if isinstance(given, int | float):
        return f"WTime(T={given!r}), with the time limit in seconds"
    if isinstance(given, str) and clock_seconds(given) is not None:
        return f'WTime(T="{given}")'
    return f'WTime(T="{_on_clock(given) or "02:30:00"}")'
