"""When a worker stops taking runs, when it cancels them, and when it has to be gone. No I/O.

    serving --> draining --> cancelling --> over

1. *Serving* ends, and *draining* begins: at the first signal, when asked to quit, when there has
   been no scheduler for `Times.give_up` seconds, or `Times.drain` seconds before the runs have to
   be over, but not before half of the time is over: the jobs of debug queues are short. From then
   on no new runs are taken.
2. *Cancelling* begins at a deadline, if there are runs left by then. It leaves them the time to be
   ended, and us the time to hand them back. An early warning alone (SIGUSR1) sets no deadline: that
   of the job's end holds, and where that is unknown, the next signal sets one.
3. What does not let itself be cancelled is killed a moment before the last one, where that is
   known, so that it can still be handed back.
4. It is *over* when no run is left, or at the last moment, come what may.

A reason that comes later may bring a deadline forward, never put it off.
"""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from typing import NamedTuple

CANCEL = 1.3
"""Seconds that cancelling takes: 1 s of grace for programs, the rest for what is in between."""

FLUSH = 0.2
"""Seconds, of a short grace, to tell what has become of the runs."""


class Times(NamedTuple):
    """Settings, in seconds.

    Attributes:
        term: from SIGTERM until SIGKILL.
        drain: without new runs, before the runs have to be over because of the job's end.
        give_up: without a scheduler.
    """

    term: float
    drain: float = 60.0
    give_up: float = 600.0


TERM_GRACE = {"pbs": 1.8, "slurm": 4.5, "": 10.0}
"""Seconds from SIGTERM to SIGKILL by batch system.

Nothing tells a job what its batch system's are. OpenPBS was seen to leave 2 s. Slurm's KillWait is
30 s by default, but sites set less, and a preemption leaves GraceTime, if that.
"""


@dataclass
class Life:
    """A worker's life; the clock is whatever its caller's is.

    Args:
        times: settings.
        done_by: when the runs have to be over because of the job's end; inf without one.
        now: the time; there is no scheduler yet.

    Attributes:
        reason: why it drains; "" while it serves.
        gave_up: whether it drains for want of a scheduler.
        interrupted: whether a batch system, or somebody else, is ending the job's processes: what
            fails from then on did not fail by itself.
    """

    times: Times
    done_by: float
    now: float
    reason: str = ""
    gave_up: bool = False
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._unlinked_since = self.now
        self._cancel_at = self.done_by
        self._over_at = math.inf

    # ---- events

    def on_linked(self) -> None:
        """There is a scheduler."""
        self._unlinked_since = math.inf

    def on_unlinked(self, now: float) -> None:
        """There is none any more."""
        self._unlinked_since = min(self._unlinked_since, now)

    def on_signal(self, number: int, now: float) -> None:
        """A signal came. The second Ctrl-C means now."""
        name = signal.Signals(number).name
        if number == signal.SIGUSR1:
            self._drain(f"{name}, the early warning of the batch system")
            return
        again = number == signal.SIGINT and self.interrupted
        self.interrupted = True
        self._drain(name)
        over = now + (0.0 if again else self.times.term)
        self._over_at = min(self._over_at, over)
        self._cancel_at = min(self._cancel_at, max(now, over - CANCEL - FLUSH))

    def on_quit(self, now: float, *, force: bool) -> None:
        """Somebody asks it to leave; by force: without waiting for its runs."""
        self._drain("asked to quit")
        if force:
            self._cancel_at = min(self._cancel_at, now)

    def on_broken(self, why: str, now: float) -> None:
        """It cannot work any more."""
        self._drain(why)
        self._cancel_at = min(self._cancel_at, now)

    def on_time(self, now: float) -> None:
        """Time has passed, at least until `next_at`."""
        if self.draining:
            return
        if now >= self._drain_at():
            self._drain("the job's end is near")
        elif now >= self._give_up_at():
            self.gave_up = True
            self._drain(f"no scheduler for {self.times.give_up:g} s")
            self._cancel_at = min(self._cancel_at, now)

    # ---- state

    @property
    def draining(self) -> bool:
        """Whether no new runs are taken."""
        return bool(self.reason)

    def cancelling(self, now: float) -> bool:
        """Whether runs have to be cancelled."""
        return now >= self._cancel_at

    def killing(self, now: float) -> bool:
        """Whether what still runs has to be killed."""
        return now >= self._over_at - FLUSH

    def over(self, now: float, *, runs: bool) -> bool:
        """Whether to leave."""
        return self.draining and (not runs or now >= self._over_at)

    def next_at(self, now: float) -> float:
        """When to look again, if nothing else happens."""
        times = [self._cancel_at, self._over_at - FLUSH, self._over_at]
        if not self.draining:
            times += [self._drain_at(), self._give_up_at()]
        return min((t for t in times if t > now), default=math.inf)

    def left(self, now: float) -> float:
        """Seconds until runs are cancelled; inf without a deadline."""
        return max(0.0, self._cancel_at - now)

    def time_over(self, now: float) -> float:
        """Seconds until it is over, come what may; inf without such a moment."""
        return max(0.0, self._over_at - now)

    def _drain(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _drain_at(self) -> float:
        return max(self.done_by - self.times.drain, (self.now + self.done_by) / 2)

    def _give_up_at(self) -> float:
        return self._unlinked_since + self.times.give_up
