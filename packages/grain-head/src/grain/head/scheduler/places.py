"""`FailingPlaces`: workers and devices on which tasks fail at once, while they succeed elsewhere.

A worker with a broken device, or a full disk, is free again at once, and so it would get one task
after the other. The rules:

1.  A *place* is a worker, or one GPU of a worker. Runs that had GPUs count for these; they count
    for their worker only if they have failed on several of its GPUs.
2.  The runs of one function of one owner are compared with each other, and with nothing else. A
    place is under suspicion from the first run that fails there. After `FEWEST` failures in a row
    it is set aside for the owner, if runs have succeeded elsewhere between the first of them and
    the last, which took longer, and if as many failures would hardly be chance: with the part that
    has failed elsewhere since then as the chance of each, all of them have `CHANCE` at most. So a
    function that fails everywhere sets nothing aside, nor does one that fails now and then; nor do
    calls with wrong arguments that have met one place in a row, as the first that was free.
3.  What one owner sees concerns only its own tasks: its program may need what this place lacks. A
    place that `OWNERS` have set aside is so for all, if they have seen it by different functions:
    else they may be missions of one program.
4.  It is tried again after `FIRST` seconds, by one run. If that fails as well, the place is set
    aside for twice as long, up to `LONGEST`. A run that succeeds there, such as one that was under
    way, ends all that at once. While neither has happened, another run follows each `FIRST`
    seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.resource import GPUs
from grain.resource.figures import span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from grain.resource import Resource

FEWEST = 3
"""Failures in a row after which a place may be set aside."""

CHANCE = 1e-3
"""The chance of as many failures in a row by what fails elsewhere: not more than that."""

OWNERS = 2
"""The owners for whom a place is set aside, until it is so for all."""

FIRST, LONGEST = 60.0, 3600.0
"""Seconds until a place is tried again for the first time, and at most."""

WHOLE = -1
"""In the place of a GPU, or of a mask of them: the whole worker."""

_FUNCTIONS = 1000  # of which some runs have failed lately


class RunPlace(NamedTuple):
    """A worker, or a device of it.

    Attributes:
        worker: its number.
        gpu: the id of the device; `WHOLE` for all of the worker.
    """

    worker: int
    gpu: int = WHOLE


class SetAside(NamedTuple):
    """A place that is set aside, or, where `seconds` is 0, one that works again.

    Attributes:
        owner: for whose tasks.
        function: which of them have failed there.
        failures: how many in a row.
        seconds: for how long.
    """

    place: RunPlace
    owner: int
    function: Any
    failures: int
    seconds: float


@dataclass(slots=True, eq=False)
class _Suspicion:
    """The runs that have failed at a place in a row, and the ends elsewhere before the first."""

    succeeded: int
    failed: int
    counted: int = 0  # of its own failures, in those of the function
    failures: int = 0
    seconds: float = 0.0
    gpus: set[int] = field(default_factory=set)
    times: int = 0  # that it was set aside


@dataclass(slots=True, eq=False)
class _Function:
    """The runs of a function since one of them has failed."""

    succeeded: int = 0
    failed: int = 0  # only the first ones at each place: a broken one has very many
    seconds: float = 0.0  # of those that succeeded
    suspicions: dict[RunPlace, _Suspicion] = field(default_factory=dict)


class _Aside(NamedTuple):
    """A place that is set aside for an owner.

    Attributes:
        until: the time at which it is tried again.
        function: which has failed there.
        tried: True if a run tries it.
    """

    until: float
    function: Hashable
    tried: bool = False


class FailingPlaces:
    """The places where runs fail, from what is told of their ends.

    Attributes:
        watches: False while no run has failed: then the ends of others need not be told.
        trials: the places that the next run of an owner tries again, with the function that has
            failed there: then what starts has to be told.
        some_aside: True if a place is set aside.
        due: when the next place is to be tried again; ``math.inf`` if none is set aside.
        news: what was set aside, and what works again; whoever reads it empties it.
    """

    def __init__(self) -> None:
        self.watches = self.some_aside = False
        self._functions: dict[tuple[int, Hashable], _Function] = {}
        # By place, and by the owner for which it is set aside.
        self._aside: dict[RunPlace, dict[int, _Aside]] = {}
        self.trials: dict[tuple[RunPlace, int], Hashable] = {}
        self.due = math.inf
        self.news: list[SetAside] = []

    def on_failed(
        self, owner: int, function: Hashable, places: Iterable[RunPlace], seconds: float, now: float
    ) -> bool:
        """Take in that a run has failed; return True if a place is set aside for that.

        Args:
            places: where it ran: a worker, and the GPUs that it had of it.
            seconds: for how long.
        """
        key = owner, function
        runs = self._functions.get(key)
        if runs is None:
            if len(self._functions) >= _FUNCTIONS:
                del self._functions[next(iter(self._functions))]
            runs = self._functions[key] = _Function()
            self.watches = True
        places = tuple(places)
        gpus = {place.gpu for place in places} - {WHOLE}
        those = []
        for place in places:
            one = runs.suspicions.get(place)
            if one is None:
                one = runs.suspicions[place] = _Suspicion(runs.succeeded, runs.failed)
            one.failures += 1
            one.seconds += seconds
            one.gpus |= gpus
            those.append(one)
        if any(one.failures < FEWEST for one in those):
            runs.failed += 1
            for one in those:
                one.counted += 1
        found = False
        for place, one in zip(places, those, strict=True):
            known = self._aside.get(place, {}).get(owner)
            if (known is None or known.tried) and self._is_faulty(place, one, runs):
                wait = min(FIRST * 2.0**one.times, LONGEST)
                one.times = min(one.times + 1, 60)
                self._set_aside(place, owner, _Aside(now + wait, function))
                self.news.append(SetAside(place, owner, function, one.failures, wait))
                found = True
        return found

    def on_succeeded(
        self, owner: int, function: Hashable, places: Iterable[RunPlace], seconds: float
    ) -> bool:
        """Take in that a run has succeeded; return True if a place is not set aside any more."""
        runs = self._functions.get((owner, function))
        if runs is None:
            return False
        runs.succeeded += 1
        runs.seconds += seconds
        changed = False
        for place in places:
            one = runs.suspicions.pop(place, None)
            changed |= self._end(place, owner)
            if one is not None and one.times:
                self.news.append(SetAside(place, owner, function, one.failures, 0.0))
        if not runs.suspicions:
            del self._functions[owner, function]
            self.watches = bool(self._functions)
        return changed

    def try_again(self, now: float) -> bool:
        """Let places be tried again whose time has come; return True if there are some."""
        if now < self.due:
            return False
        over = [
            (place, owner, aside.function)
            for place, owners in self._aside.items()
            for owner, aside in owners.items()
            if aside.until <= now
        ]
        for place, owner, function in over:
            self._end(place, owner)
            self.trials[place, owner] = function
        return bool(over)

    def on_started(self, owner: int, places: Iterable[RunPlace], now: float) -> bool:
        """Take in where a run has started; return True if it is the one that tries a place."""
        found = False
        for place in places:
            if (place, owner) in self.trials:
                aside = _Aside(now + FIRST, self.trials.pop((place, owner)), tried=True)
                self._set_aside(place, owner, aside)
                found = True
        return found

    def forget_worker(self, worker: int) -> None:
        """Forget a worker that has left."""
        for place in [place for place in self._aside if place.worker == worker]:
            del self._aside[place]
        for trial in [trial for trial in self.trials if trial[0].worker == worker]:
            del self.trials[trial]
        self._set_due()
        for key, runs in list(self._functions.items()):
            for place in [place for place in runs.suspicions if place.worker == worker]:
                del runs.suspicions[place]
            if not runs.suspicions:
                del self._functions[key]
        self.watches = bool(self._functions)

    def forget_owner(self, owner: int) -> bool:
        """Forget an owner that has left; return True if places were set aside for it."""
        for key in [key for key in self._functions if key[0] == owner]:
            del self._functions[key]
        self.watches = bool(self._functions)
        for trial in [trial for trial in self.trials if trial[1] == owner]:
            del self.trials[trial]
        aside = [place for place, owners in self._aside.items() if owner in owners]
        for place in aside:
            self._end(place, owner)
        return bool(aside)

    def barred(self, owner: int) -> dict[int, int]:
        """Return the places that are set aside for an owner: by worker, a mask of its GPUs."""
        masks: dict[int, int] = {}
        for place, owners in self._aside.items():
            if owner in owners or len({one.function for one in owners.values()}) >= OWNERS:
                bar(masks, place)
        return masks

    def is_aside(self, place: RunPlace, owner: int) -> bool:
        """Return True if a place is set aside for an owner by its own runs."""
        return owner in self._aside.get(place, ())

    def _is_faulty(self, place: RunPlace, one: _Suspicion, runs: _Function) -> bool:
        """Return True if failures are most likely the fault of their place (rules 1 and 2)."""
        if one.failures < FEWEST or (place.gpu == WHOLE and len(one.gpus) == 1):
            return False
        succeeded = runs.succeeded - one.succeeded
        if not succeeded or one.seconds / one.failures >= runs.seconds / runs.succeeded:
            return False
        failed = runs.failed - one.failed - one.counted
        chance = (failed + 1) / (failed + succeeded + 2)
        return chance**one.failures <= CHANCE

    def _set_aside(self, place: RunPlace, owner: int, aside: _Aside) -> None:
        self.trials.pop((place, owner), None)
        self._aside.setdefault(place, {})[owner] = aside
        self._set_due()

    def _end(self, place: RunPlace, owner: int) -> bool:
        self.trials.pop((place, owner), None)
        owners = self._aside.get(place)
        if owners is None or owners.pop(owner, None) is None:
            return False
        if not owners:
            del self._aside[place]
        self._set_due()
        return True

    def _set_due(self) -> None:
        self.some_aside = bool(self._aside)
        ends = (aside.until for owners in self._aside.values() for aside in owners.values())
        self.due = min(ends, default=math.inf)


def set_aside_texts(news: SetAside, worker: str, function: str) -> tuple[str, str]:
    """Return the name of a place, and how it is set aside, as a clause; empty if it works again.

    Args:
        worker: its name; empty for the only one.
        function: the name of what has failed there.
    """
    gpu = "" if news.place.gpu == WHOLE else f"GPU {news.place.gpu}"
    what = " of ".join(filter(None, (gpu, worker))) or "this worker"
    if not news.seconds:
        return what, ""
    return what, (
        f"set aside for {span(news.seconds)}: {function or 'a function'} failed there "
        f"{news.failures} times in a row, and succeeds elsewhere"
    )


def bar(masks: dict[int, int], place: RunPlace) -> None:
    """Add a place to those that are barred: by worker, a mask of its GPUs, or `WHOLE`."""
    mask = WHOLE if place.gpu == WHOLE else 1 << place.gpu
    masks[place.worker] = masks.get(place.worker, 0) | mask


def places_of(worker: int, held: Resource) -> list[RunPlace]:
    """Return the places of a run: its worker, and the GPUs that it holds."""
    return [RunPlace(worker), *(RunPlace(worker, gpu) for gpu in gpus_of(held))]


def gpus_of(held: Resource) -> tuple[int, ...]:
    """Return the ids of the GPUs among what a run holds."""
    gpus = held.get(GPUs)
    return tuple(gpus.ids) if isinstance(gpus, GPUs) else ()
