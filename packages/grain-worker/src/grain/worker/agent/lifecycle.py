"""The times at which a worker stops taking runs, cancels them, and has to leave. No I/O.

    SERVING --> DRAINING --> CANCELLING --> KILLING --> OVER

1. SERVING ends, and DRAINING begins: at the first signal, when asked to drain, when there has been
   no scheduler for `Times.give_up` seconds and no run of a lasting mission is left, or
   `Times.drain` seconds before the runs must have ended, but not before half of the time is over:
   the jobs of debug queues are short. From then on the worker takes no new runs.
2. CANCELLING begins at a deadline, if there are runs left by then. It leaves the runs the time to
   end, and the worker the time to hand them back. An early warning (SIGUSR1, SIGUSR2) sets no
   deadline by itself: the end of the job does, or, where that is unknown, the next signal.
3. KILLING begins a moment before the last one, where that is known: runs that ignore their
   cancellation are killed, so that the worker can still hand them back.
4. The worker leaves when no run is left, or in OVER in any case.

A reason that comes later may bring a deadline forward, never put it off.

Programs that take warnings (``run_external(warn=...)``) are warned so long before `cancel_at` as
they ask for, and all at once where the worker drains without an end in sight: after a signal, or
when asked to. From the first one on, the worker drains: what begins now would be warned at once.
"""

from __future__ import annotations

import enum
import math
import signal
from typing import NamedTuple

CANCEL = 1.3
"""Seconds that cancelling takes: 1 s of grace for programs, the rest for what is in between."""

FLUSH = 0.2
"""Seconds, of a short grace, to report the ends of the runs."""


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


TWICE = 0.5
"""Seconds within which a signal that comes again is the same one: where a batch system signals all
processes of a job, its script forwards to the worker what the worker has got already."""

LATE_SIGNAL = 0.5
"""Seconds for which a signal may be on its way to the worker that one of its programs has got: a
batch system that ends a job signals one process of it after the other."""

WARNINGS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
"""Signals that announce the end of the worker's job, and set no deadline by themselves."""


class LifecyclePhase(enum.IntEnum):
    """The phases of a worker, in their order; a worker never returns to an earlier one."""

    SERVING = 1
    """It takes runs."""
    DRAINING = 2
    """It takes no more runs, and waits for the end of those there are."""
    CANCELLING = 3
    """It cancels what still runs."""
    KILLING = 4
    """It kills what still runs."""
    OVER = 5
    """It leaves, come what may."""


class Lifecycle:
    """The lifecycle of a worker; its clock is the caller's.

    Args:
        done_by: when the runs have to be over because of the job's end; inf without one.
        now: the time; there is no scheduler yet.

    Attributes:
        reason: why it drains; "" while it serves.
        lasting: True while the worker has runs of lasting missions, which go on without a
            scheduler: it does not give up because there is none. The caller sets it.
        interrupted: True if a batch system, or a person, is ending the job's processes.
        warns: True if all programs that take warnings are to be warned now.
        replaced: True if other code of Grain is installed than that of this worker.
    """

    def __init__(self, times: Times, done_by: float, now: float) -> None:
        self.reason = ""
        self.gave_up = False
        self.lasting = False
        self.interrupted = False
        self.warns = False
        self.replaced = False
        self._times = times
        self._interrupted_at = math.inf
        self._warnings: set[int] = set()
        self._drain_at = max(done_by - times.drain, (now + done_by) / 2)
        self._cancel_at = done_by
        self._over_at = math.inf
        self._unlinked_since = now

    # ---- events

    def on_linked(self) -> None:
        """Begin to have a scheduler."""
        self._unlinked_since = math.inf

    def on_unlinked(self, now: float) -> None:
        """Begin to have none."""
        self._unlinked_since = min(self._unlinked_since, now)

    def on_signal(self, number: int, now: float) -> None:
        """Take a signal; the second Ctrl-C means now, unless the two are one (`TWICE`)."""
        name = signal.Signals(number).name
        self.warns = True
        if number in WARNINGS:
            self._warnings.add(number)
            self._drain(f"{name}, the early warning of the batch system")
            return
        again = number == signal.SIGINT and now - self._interrupted_at > TWICE
        self._interrupted_at = min(self._interrupted_at, now)
        self.interrupted = True
        self._drain(name)
        over = now + (0.0 if again else self._times.term)
        self._over_at = min(self._over_at, over)
        self._cancel_at = min(self._cancel_at, max(now, over - CANCEL - FLUSH))

    def on_drain(self, now: float, *, force: bool) -> None:
        """Take the request to leave; by force: without waiting for the ends of runs."""
        self._drain("asked to drain")
        self.warns = True
        if force:
            self._cancel_at = min(self._cancel_at, now)

    def on_warned(self) -> None:
        """Leave, because a program was warned of the worker's end."""
        self._drain("programs were warned of the job's end")

    def on_broken(self, why: str, now: float) -> None:
        """Leave, because the worker cannot work any more."""
        self._drain(why)
        self._cancel_at = min(self._cancel_at, now)

    def on_replaced(self, why: str) -> None:
        """Leave when what runs has ended, because nothing else can be started: see `replaced`."""
        self.replaced = True
        self._drain(why)

    def on_refused(self, why: str, now: float) -> None:
        """Leave, because no scheduler will ever serve this worker; lasting runs may end before."""
        self._drain(why)
        if not self.lasting:
            self._cancel_at = min(self._cancel_at, now)

    def on_time(self, now: float) -> None:
        """Let time pass; call it at `next_at`."""
        if self.draining:
            return
        if now >= self._drain_at:
            self._drain("the job's end is near")
        elif not self.lasting and now >= self._give_up_at():
            self.gave_up = True
            self._drain(f"no scheduler for {self._times.give_up:g} s")
            self._cancel_at = min(self._cancel_at, now)

    # ---- state

    def explains(self, number: int) -> bool:
        """Return True if a run that fails from now on does not fail by itself.

        Args:
            number: of the signal that has ended its program; 0 for none.
        """
        return self.interrupted or number in self._warnings

    def phase(self, now: float) -> LifecyclePhase:
        """Return the phase at a time."""
        if not self.draining:
            return LifecyclePhase.SERVING
        if now >= self._over_at:
            return LifecyclePhase.OVER
        if now >= self._kill_at:
            return LifecyclePhase.KILLING
        return LifecyclePhase.CANCELLING if now >= self._cancel_at else LifecyclePhase.DRAINING

    @property
    def draining(self) -> bool:
        """True if no new runs are taken."""
        return bool(self.reason)

    def over(self, now: float, *, runs: bool) -> bool:
        """Return True if the worker is to leave."""
        return self.draining and (not runs or self.phase(now) is LifecyclePhase.OVER)

    def next_at(self, now: float) -> float:
        """Return when to look again if nothing happens before; inf if never."""
        times = [self._cancel_at, self._kill_at, self._over_at]
        if not self.draining:
            times += [self._drain_at, self._give_up_at()]
        return min((t for t in times if t > now), default=math.inf)

    @property
    def cancel_at(self) -> float:
        """The time at which what still runs is cancelled; inf without a deadline."""
        return self._cancel_at

    def left(self, now: float) -> float:
        """Return the seconds until runs are cancelled; inf without a deadline."""
        return max(0.0, self._cancel_at - now)

    def time_over(self, now: float) -> float:
        """Return the seconds until the worker leaves, come what may; inf if that is open."""
        return max(0.0, self._over_at - now)

    def _drain(self, reason: str) -> None:
        self.reason = self.reason or reason

    @property
    def _kill_at(self) -> float:
        return self._over_at - FLUSH

    def _give_up_at(self) -> float:
        return self._unlinked_since + self._times.give_up
