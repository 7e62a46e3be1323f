"""Pairs of workers that could not reach each other, which gangs avoid.

A gang begins when all members have joined its root. If one has not, the two are *apart*: for a time
no gang has both. That time doubles with each further failure of the pair, so another try costs
little, and a network that is mended is used again. A worker that has failed with two others is
left out of all gangs for longer: the fault is likely its own, and tasks would soon have tried it
often enough to fail. It is chosen all the same where too few others are there, with or without
room: one host behind a firewall has others fail with two, which may still reach the rest.

When the time is over, gangs still take other workers first, until one with that pair has begun.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from grain.head.scheduler.state import Alternative, WorkerAccount

T = TypeVar("T")

FIRST, MOST = 10.0, 600.0
"""Seconds for which a pair is apart after its first failure, and at most.

Another try takes two workers some ten seconds. Where these are all that a gang could have, both
have nothing to do until then, though the network may have been mended at once.
"""

LEFT_OUT = 600.0
"""Seconds for which a worker is left out that has failed with two others."""

_TRIES = 100  # of which each looks at all that are apart from others


class _Failed(NamedTuple):
    """A pair that has failed: how often, until when it is apart, and why."""

    times: int
    until: float
    why: str


class ApartWorkers:
    """The pairs of workers that have failed, by the numbers of the workers.

    Attributes:
        next_end: the time at which the next pair may be tried again; ``math.inf`` without one.
    """

    def __init__(self) -> None:
        self._failed: dict[frozenset[int], _Failed] = {}
        # The others from which each worker is apart now, and those with which it has failed; and
        # until when it is left out.
        self._apart: dict[int, set[int]] = {}
        self._partners: dict[int, set[int]] = {}
        self._left_out: dict[int, float] = {}
        self.next_end = math.inf
        self._now = -math.inf

    def on_failed(self, one: int, other: int, why: str, now: float) -> None:
        """Note that a gang has not begun, as the two did not reach each other."""
        pair = frozenset((one, other))
        times = 1 + (self._failed[pair].times if pair in self._failed else 0)
        lasts = min(FIRST * 2 ** min(times - 1, 32), MOST)
        self._failed[pair] = _Failed(times, now + lasts, why)
        self._now = now
        self._update()
        self._left_out |= dict.fromkeys(
            (w for w in pair if len(self._partners[w]) > 1), now + LEFT_OUT
        )
        self._update()

    def on_begun(self, workers: Iterable[int]) -> bool:
        """Forget the failures of workers that were members of one gang; return True if any had."""
        together = frozenset(workers)
        return self._forget(lambda pair: pair <= together)

    def on_left(self, worker: int) -> None:
        """Forget a worker."""
        self._forget(lambda pair: worker in pair)

    def on_time(self, now: float) -> bool:
        """Return True if workers that were apart may be tried together again."""
        if now < self.next_end:
            return False
        self._now = now
        self._update()
        return True

    @property
    def known(self) -> bool:
        """True if any pair has failed."""
        return bool(self._failed)

    def members(
        self,
        by: Alternative,
        workers: Iterable[T],
        account: Callable[[T], WorkerAccount],
        serving: Iterable[T] | None = None,
    ) -> list[T]:
        """Return the members of a gang, or fewer, of which no two are apart.

        Args:
            by: what each of them is to give.
            workers, serving: as of `choose`.
            account: returns the account of one.
        """
        return self.choose(
            workers,
            by.count,
            lambda one: account(one).id,
            serving,
            lambda some: by.together(some, account),
        )

    def choose(
        self,
        workers: Iterable[T],
        count: int,
        number: Callable[[T], int],
        serving: Iterable[T] | None = None,
        together: Callable[[Iterable[T]], Iterable[T]] = iter,
    ) -> list[T]:
        """Return so many workers, or fewer, of which no two are apart.

        Args:
            workers: some, in the order of preference; those that have failed go last.
            count: how many are wanted.
            number: returns the number of one.
            serving: all that could be members at some time. If too few of these are not left out,
                those that are left out count as the others.
            together: returns those of some that may be together for other reasons.
        """
        if not self._failed or count == 1:
            return list(islice(together(workers), count))
        left_out: Collection[int] = self._left_out
        if left_out and serving is not None:
            most = self._together(serving, count, number, left_out, together)
            left_out = left_out if len(most) == count else ()
        return self._together(workers, count, number, left_out, together)

    def _together(
        self,
        workers: Iterable[T],
        count: int,
        number: Callable[[T], int],
        left_out: Container[int],
        together: Callable[[Iterable[T]], Iterable[T]],
    ) -> list[T]:
        partners = self._partners
        able = sorted(
            (one for one in workers if number(one) not in left_out),
            key=lambda one: len(partners.get(number(one), ())),
        )
        able = list(together(able))
        order = {number(one): one for one in able}
        foes = {own: self._apart[own] & order.keys() for own in order if own in self._apart}
        chosen = [own for own in order if not foes.get(own)]
        if len(chosen) < count:
            chosen += _independent(
                [own for own in order if foes.get(own)], count - len(chosen), foes
            )
        return [order[own] for own in chosen[:count]]

    def reasons(self, now: float) -> list[str]:
        """Return why gangs avoid workers, and for how many more seconds."""
        reasons = []
        for pair, failed in self._failed.items():
            until = max(self._left_out.get(one, 0.0) for one in pair)
            if failed.until > now:
                reasons.append(
                    f"{failed.why}: no task has both for another {failed.until - now:.0f} s"
                )
            elif until > now:
                reasons.append(f"{failed.why}: tasks take others for another {until - now:.0f} s")
        return reasons

    def are_apart(self, one: int, other: int) -> bool:
        """Return True if no gang has both workers now."""
        return not self._left_out.keys().isdisjoint((one, other)) or other in self._apart.get(
            one, ()
        )

    def _forget(self, unwanted: Callable[[frozenset[int]], bool]) -> bool:
        kept = {pair: failed for pair, failed in self._failed.items() if not unwanted(pair)}
        if len(kept) == len(self._failed):
            return False
        self._failed = kept
        self._update()
        return True

    def _update(self) -> None:
        self._apart.clear()
        self._partners.clear()
        for pair, failed in self._failed.items():
            for one in pair:
                self._partners.setdefault(one, set()).update(pair - {one})
                if failed.until > self._now:
                    self._apart.setdefault(one, set()).update(pair - {one})
        self._left_out = {
            one: until
            for one, until in self._left_out.items()
            if until > self._now and len(self._partners.get(one, ())) > 1
        }
        ends = [one.until for one in self._failed.values() if one.until > self._now]
        self.next_end = min([*ends, *self._left_out.values()], default=math.inf)


def _independent(
    workers: Sequence[int], count: int, foes: Mapping[int, AbstractSet[int]]
) -> list[int]:
    """Return so many workers of which no two are apart, or the most that there are.

    One after the other would not do: whoever comes first may be apart from two that could be
    together. So the one with most foes is tried last, and either with it or without. That takes
    exponential time, but most pairs share no worker, and a worker that has failed with many, as
    one behind a firewall, settles all of these at once; beyond `_TRIES` the first that can go
    together have to do.
    """
    tries = 0

    def most(left: Sequence[int], wanted: int) -> list[int]:
        nonlocal tries
        tries += 1
        here = set(left)
        worst = max(left, key=lambda one: len(foes[one] & here), default=None)
        if worst is None or len(foes[worst] & here) < 2 or tries > _TRIES:
            # Pairs that share no worker: the first of each.
            together: list[int] = []
            for one in left:
                if foes[one].isdisjoint(together):
                    together.append(one)
            return together
        without = most([one for one in left if one != worst], wanted)
        if len(without) >= wanted:
            return without
        others = [one for one in left if one != worst and one not in foes[worst]]
        with_it = [worst, *most(others, wanted - 1)]
        return max(without, with_it, key=len)

    chosen = set(most(workers, count))
    return [one for one in workers if one in chosen][:count]
