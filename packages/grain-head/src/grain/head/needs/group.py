"""The needs of one group of tasks, and what the next one asks for.

A guard bounds what learning may cost. It compares the GB s of all attempts that have ended, those
that failed included, with what the finished runs would have taken at the maximum. While they are
more, the group asks for the maximum. So it takes at most what a fixed maximum would have taken,
its first eight runs, and what is under way. Where the maximum is more than any worker has, a task
that needs more than these costs one attempt with a whole worker besides.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from grain.facts.needs import FinishedRun
from grain.facts.rows import LAST_RUNS
from grain.head.needs.ladder import DOUBLED, NEAR, STEP, alike_ladder, ladder, next_amount
from grain.head.needs.slope import Sized, power
from grain.resource.figures import amount as gigabytes
from grain.resource.figures import needed

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADROOM = 1.2
"""A run needs its peak times this."""
GUARDED = 8
"""The guard holds from so many finished runs on."""
SELDOM = 8
"""With more than `LAST_RUNS` finished runs, what is asked for changes once in so many, or in a
`PART` of all that have finished: most of what learning costs a scheduler is to find the rungs."""
PART = 64
CALM = 8
"""While amounts stay about the same they are found again less often, down to each eighth time."""
_LEAST = 0.01
"""GB: no run asks for less, as the smallest program has as much."""
_MAXIMA = 4
"""So many maxima are remembered if requests of a group have stated different ones."""
_LARGEST_RATIO = 1e50  # of two sizes
_OBEDIENT = 4
_ALIKE = 1.1
_DIFFER = 1.5
_OBEDIENT_PEAKS = 1.3  # The same parts of such amounts differ by more than this.


class Terms(NamedTuple):
    """The worth of a request in a group on the workers that are here.

    Attributes:
        share: GB of a worker that belong to the cores of the task.
        maximum: GB that no attempt goes beyond: what the request states, or the largest worker's.
        size: of the problem, in any unit; 0 if none is stated.
        worker: GB of the worker; infinite if none is here.
    """

    share: float
    maximum: float
    size: float = 0.0
    worker: float = math.inf

    @property
    def most(self) -> float:
        """The GB up to which an attempt can run here."""
        return min(self.maximum, self.worker)


@dataclass(slots=True)
class LearningGroup:
    """The tasks of a group.

    Attributes:
        name: of the group.
        runs: its last finished runs, the oldest first.
        finished: the number of all finished runs.
        exceeded: the number of attempts that needed more memory than they had.
        spent: GB s of all attempts that have ended.
        fixed: GB s that the finished runs would have taken at the maximum.
        obeys: True if the programs use a fixed part of whatever they are given, as those do that
            are told their memory. Their peaks teach nothing, so the group asks for the maximum.
        maxima: the last maxima in GB that requests have stated, infinite for a request without one.
    """

    name: str
    runs: deque[FinishedRun] = field(default_factory=lambda: deque(maxlen=LAST_RUNS))
    finished: int = 0
    exceeded: int = 0
    spent: float = 0.0
    fixed: float = 0.0
    obeys: bool = False
    maxima: tuple[float, ...] = ()
    # Attempts that had too little, of tasks that have not finished yet. Of tasks that never come
    # back some may stay, until others push them out.
    _failed: deque[FinishedRun] = field(default_factory=lambda: deque(maxlen=LAST_RUNS))
    # What follows from the runs, found when it is asked for, and kept until it is found again.
    _rungs: dict[Terms, tuple[float, ...]] = field(default_factory=dict)
    _former: dict[Terms, tuple[float, ...]] = field(default_factory=dict)  # found before these
    _power: float | None = None
    # The peaks of the runs by themselves: their extremes are often all that counts.
    _peaks: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_RUNS))
    _guarded: bool = field(init=False)  # as it was after the last end that could change it
    _found: int = field(init=False)  # attempts that had ended when the runs were looked at
    _calm: int = 1  # one look in so many finds amounts again
    _waits: int = 0  # so many of the next looks do not
    _largest: float = 0.0  # GB: the largest peak when these were found
    _due: int = 0  # so many runs may finish without a change, each within its maximum

    def __post_init__(self) -> None:
        self._guarded = self.guarded
        self._found = self.finished + self.exceeded
        self._peaks.extend(run.peak for run in self.runs)

    # ---- what happened

    def on_stated(self, maximum: float) -> None:
        """Remember the maximum of a request, as of `maxima`."""
        if maximum not in self.maxima:
            self.maxima = (*self.maxima, maximum)[-_MAXIMA:]

    def on_finished(self, run: FinishedRun, maximum: float, after: float = 0.0) -> bool:
        """Count a run that had enough memory; return True if amounts may be others now.

        Args:
            run: it.
            maximum: of its request and of the workers, in GB.
            after: the GB that were too little for the attempt before it; 0 for a first attempt.
        """
        if after:
            self._forget(after)
            run = replace(run, first=False)
        self.runs.append(run)
        self._peaks.append(run.peak)
        self.finished += 1
        self.spent += run.amount * run.seconds
        self.fixed += maximum * run.seconds
        # With most runs that is all. The guard does not begin with a run within its maximum.
        if self.finished < self._due and run.amount <= maximum:
            return False
        if not self._is_due(max(SELDOM, self.finished // PART)):
            return False
        self.obeys = self.obeys or self._use_what_they_get()
        return True

    def on_exceeded(
        self, amount: float, seconds: float, size: float = 0.0, after: float = 0.0
    ) -> bool:
        """Count an attempt that needed more than it had; return True if amounts may be others.

        Args:
            amount: what it had, in GB.
            seconds: how long it ran.
            size: as of `Terms`.
            after: as of `on_finished`.
        """
        if after:
            self._forget(after)
        # It has needed all of it, and needs twice as much as far as anyone knows.
        self._failed.append(FinishedRun(DOUBLED * amount, amount, seconds, size))
        self.exceeded += 1
        self.spent += amount * seconds
        self._waits = 0
        return self._is_due(SELDOM)

    def _is_due(self, ends: int) -> bool:
        """Return True if amounts may be others now: the guard has changed, or so many have ended.

        With few runs each one counts. What was found is then forgotten, but for a change of the
        guard only. Not each time, though, while amounts stay: most often the same is found again.
        """
        was, self._guarded = self._guarded, self.guarded
        ended = self.finished + self.exceeded
        due = self.finished <= LAST_RUNS or ended - self._found >= ends
        if due:
            self._found = ended
            due = not self._may_wait()
        if due:
            self._outdate()
        self._due = 0
        if self.finished >= LAST_RUNS and not self._guarded:
            # The first run is due that is number n since then, with n >= finished // PART.
            before = self._found - self.exceeded
            self._due = before + max(SELDOM, (before - 1) // (PART - 1))
        return due or was != self._guarded

    def _may_wait(self) -> bool:
        """Return True if what was found stays for now, as it has stayed and needs are alike."""
        if not self._waits:
            return False
        self._waits -= 1
        return _are_near(max(self._peaks), self._largest, NEAR)

    def _outdate(self) -> None:
        """Let all be found again that follows from the runs."""
        if self._rungs:
            stays = self.finished > GUARDED and all(
                rungs and _are_near(rungs[0], self._first_before(terms), STEP)
                for terms, rungs in self._rungs.items()
            )
            self._calm = min(2 * self._calm, CALM) if stays else 1
            self._former, self._rungs = self._rungs, {}
        self._waits = self._calm - 1
        self._largest = max(self._peaks, default=0.0)
        self._power = None

    def _first_before(self, terms: Terms) -> float:
        """Return the first rung that was found before these in GB; 0 if there was none."""
        former = self._former.get(terms)
        return former[0] if former else 0.0

    def _forget(self, failed: float) -> None:
        """Forget the attempt with this amount, as its task has had another one."""
        for k, one in enumerate(self._failed):
            if one.amount == failed:
                del self._failed[k]
                return

    # ---- what is asked for

    @property
    def guarded(self) -> bool:
        """True while learning has cost more than the maximum would have."""
        return self.finished >= GUARDED and self.spent > self.fixed

    def amount(self, terms: Terms) -> float:
        """Return the GB that a first attempt asks for: no more than a worker here has."""
        most = terms.most
        if self.obeys or self.guarded:
            return most
        rungs = self.rungs(terms)
        return min(rungs[0] if rungs else _rounded(terms.share), most)

    def amount_after(self, terms: Terms, failed: float, attempt: int) -> float | None:
        """Return the GB for an attempt after one that had too little; None after the maximum.

        Args:
            terms: of the request.
            failed: what the last attempt had, in GB.
            attempt: the number of the one to come; the second is 2.
        """
        if self.obeys or self.guarded:
            if failed < terms.most:
                return terms.most
            return terms.maximum if failed < terms.maximum else None
        return next_amount(self.rungs(terms), failed, attempt, terms.maximum, terms.worker)

    def rungs(self, terms: Terms) -> tuple[float, ...]:
        """Return the ladder of a request, in GB; empty while nothing is known."""
        rungs = self._rungs.get(terms)
        if rungs is None:
            before = self._first_before(terms)
            rungs = self._alike(terms, before) or ladder(
                self._needs(terms), terms.share, terms.maximum, terms.worker, before
            )
            self._rungs[terms] = rungs
        return rungs

    def explain(self, terms: Terms) -> str:
        """Return in one line what a first attempt asks for, and why."""
        asked = self.amount(terms)
        asks = f"{self.name} asks for {gigabytes(asked)} GB"
        most = "its maximum" if asked >= terms.maximum else "all that a worker has"
        if self.obeys:
            return (
                f"{asks}, {most}: its programs use the same part of whatever they are given, "
                "so nothing can be learned"
            )
        if self.guarded:
            return (
                f"{asks}, {most}: with less, its runs and their failed attempts have taken "
                "more memory in all"
            ) + (f" ({self.spent / self.fixed:.2f} times)" if self.fixed else "")
        rungs = self.rungs(terms)
        if not rungs:
            nowhere = terms.worker == math.inf and terms.share == terms.maximum
            why = " while no worker is here" if nowhere else ", the share of its cores"
            return f"{asks}{why}: no run of it has ended yet{self._then(terms)}"
        if not self.runs:
            failed = f"{len(self._failed)} {'tasks' if len(self._failed) > 1 else 'task'}"
            return f"{asks}: {failed} had too little, and none has finished yet{self._then(terms)}"
        b = self.power if terms.size else 0.0
        peaks = [run.peak * _scale(run.size, terms.size, b) for run in self.runs]
        enough = sum(peak <= asked for peak in peaks)
        scaled = f" at size {terms.size:g}" if self.power and terms.size else ""
        return f"{asks}{scaled}: {needed(enough, peaks)}{self._then(terms)}"

    @property
    def power(self) -> float:
        """The power by which its needs grow with size; 0 if sizes play no part."""
        if self._power is None:
            self._power = power([Sized(run.peak, run.size) for run in self.runs if run.size])
        return self._power

    # ---- details

    def _alike(self, terms: Terms, before: float) -> tuple[float, ...]:
        """Return the ladder if all runs need about the same; else nothing."""
        if self._failed or not self.runs or (terms.size and self.power):
            return ()
        least, most = (_rounded(HEADROOM * peak) for peak in (min(self._peaks), max(self._peaks)))
        return alike_ladder(
            *(least, most, len(self.runs), terms.share, terms.maximum, terms.worker), before
        )

    def _needs(self, terms: Terms) -> Iterable[tuple[float, float]]:
        """Return what the runs need at the size of a request, in GB, and their seconds."""
        b = self.power if terms.size else 0.0
        if b:
            amounts = [
                _rounded(HEADROOM * run.peak * _scale(run.size, terms.size, b)) for run in self.runs
            ]
        else:
            amounts = [_rounded(HEADROOM * peak) for peak in self._peaks]
        seconds = [run.seconds for run in self.runs]
        for run in self._failed:
            amounts.append(_rounded(run.peak * _scale(run.size, terms.size, b)))
            seconds.append(run.seconds)
        if amounts:
            # The largest need to come is unknown: one imaginary run stands for it.
            amounts.append(DOUBLED * max(amounts))
            seconds.append(sum(seconds) / len(seconds))
        return zip(amounts, seconds, strict=True)

    def _then(self, terms: Terms) -> str:
        later, amount, attempt = [], self.amount(terms), 2
        while (after := self.amount_after(terms, amount, attempt)) is not None:
            later.append(gigabytes(after))
            amount, attempt = after, attempt + 1
        return f"; then {', then '.join(later)}" if later else ""

    def _use_what_they_get(self) -> bool:
        """Return True if the runs used the same part of amounts that differ by half.

        Amounts that follow from peaks say nothing: later attempts are at rungs, which are made of
        peaks, and so are the amounts for sizes.
        """
        if max(self._peaks) < _OBEDIENT_PEAKS * min(self._peaks):
            return False  # most often, and it is soon found
        given = {run.amount for run in self.runs}
        if max(given) < _DIFFER * min(given):
            return False
        runs = [run for run in self.runs if run.amount and run.peak and run.first and not run.size]
        if len(runs) < _OBEDIENT:
            return False
        parts = [run.peak / run.amount for run in runs]
        amounts = [run.amount for run in runs]
        return max(parts) <= _ALIKE * min(parts) and max(amounts) >= _DIFFER * min(amounts)


def _are_near(one: float, other: float, factor: float) -> bool:
    return one <= factor * other and other <= factor * one


def _scale(own: float, other: float, b: float) -> float:
    """Return the factor by which needs grow from one size to another."""
    # Users state any size. A power beyond all floats would raise.
    return min(other / own, _LARGEST_RATIO) ** b if b and own and other else 1.0


def _scale_of(amount: float) -> float:
    return 10.0 ** (2 - math.floor(math.log10(amount)))


def _rounded(amount: float) -> float:
    """Return an amount rounded up to three digits: requests that differ by less are one."""
    if amount <= _LEAST:
        return _LEAST
    if amount == math.inf:
        return amount  # it counts as the maximum
    # Most often it is soon found.
    scale = 100.0 if 1 <= amount < 10 else 1000.0 if 0.1 <= amount < 1 else _scale_of(amount)
    # What is above a third digit by a rounding error is that digit.
    return math.ceil(amount * scale - 5e-7) / scale
