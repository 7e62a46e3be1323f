"""Leaves that need care: they are looked up before, tried again if they fail, or kept afterwards.

    called --> looked up --> with the executor --> kept --> resolved
                   |            |         ^                    ^
                   |            v         |                    |
                   |         waiting for a retry               |
                   +------------- found -----------------------+

While a leaf is with the executor it costs no more than one object. Whatever else happens to it
happens in trio tasks of the mission's nursery, which stays open until each leaf is resolved.
A result is handed on when it was kept: what somebody could see and change is never pickled, and
what a mission goes on with is there for the next one.
"""

from __future__ import annotations

import dataclasses
import time
from random import Random
from typing import TYPE_CHECKING, Any

import outcome
import trio

from grain.delayed.cache.cache import Result
from grain.delayed.cache.digest import Undigestible
from grain.delayed.graph import Source
from grain.delayed.leaves.batches import Batches
from grain.delayed.leaves.copies import Copies
from grain.delayed.leaves.leaf import Leaf
from grain.delayed.leaves.retry import Again, Attempts, asking, told
from grain.delayed.leaves.retry_lines import RetryLines
from grain.head import Cancelled, GrainExecutor
from grain.resource import ZERO, Infeasible
from grain.worker.job import capture, name_of
from grain.worker.payload import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from grain.delayed.cache.cache import Cache
    from grain.delayed.cache.key import Caching, Key
    from grain.delayed.leaves.options import Care
    from grain.delayed.leaves.retry import Retry
    from grain.delayed.missions.mission import Mission
    from grain.head.events import Statistics
    from grain.resource import Resource
    from grain.worker import Call

    Outcome = outcome.Value[Any] | outcome.Error


class Nurse:
    """Cares for the leaves of one mission.

    Args:
        mission: the mission.
        nursery: its branches.
        cache: where results are kept; None for nowhere.
        say: tells the user one line.
    """

    def __init__(
        self,
        mission: Mission,
        nursery: trio.Nursery,
        cache: Cache | None,
        say: Callable[[str], object],
    ) -> None:
        self.mission = mission
        self._found = 0
        # How many more leaves failed than the executor counts: fewer, where it was tried again.
        self._failures = 0
        self._nursery = nursery
        self._cache = cache
        self._by_reference = isinstance(mission.executor, GrainExecutor)
        self._say = say
        self._random = Random()  # noqa: S311 - spreads waits; not the user's, who may have seeded it
        self._retry_lines = RetryLines()
        self._copies = Copies()
        self._shared: dict[tuple[Hashable, str | bytes], Source] = {}
        # Those that are not with the executor, and how many there are in all.
        self._in_hand: dict[Leaf, None] = {}
        self._unresolved = 0
        self._idle: trio.Event | None = None  # while there is a task that holds the nursery open
        self._closed = False
        self._lookups = Batches(nursery, self._look_up, size=32)
        self._results = Batches(nursery, self._keep, size=8)

    def leaf(self, res: Resource, call: Call, care: Care) -> Source:
        """Care for a call from now on; one with the key of another shares its task.

        Raises:
            TypeError: the call has no key.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join; of a
                call that is looked up first, that is its outcome instead.
        """
        caching = care.caching
        shared = key = None
        if caching is not None:
            said, bound = caching.shared(call), None
            if caching.by_arguments or self._cache is not None:
                bound = self._bound(caching, call)
            shared = (caching.owner(call.fn, bound), said)
            known = self._shared.get(shared)
            if known is not None and not isinstance(known.outcome, outcome.Error):
                return known
            if self._cache is not None and bound is not None:
                key = self._key(caching, call, said, bound)
        if key is None and care.retry is None:
            source = Source(self.mission)
            self.mission.submit(res, call, source)
        else:
            # What is submitted later must be what it was called with, where it travels as bytes or
            # the result is kept as that of these arguments. Elsewhere objects are passed as they
            # are, as to any leaf.
            if key is not None:
                call = self._copies.bound(call, key.bound)
            copied = (key is not None and key.by_arguments) or not self._by_reference
            snapshot = self._copies.snapshot(call) if copied else None
            leaf = Leaf(self, res, call, snapshot, self._by_reference, key, care.retry)
            source = leaf.source
            if key is None:
                self.mission.submit(res, leaf.attempt(), leaf)
                self._hold_open()
            else:
                self._hold_open()
                self._in_hand[leaf] = None
                self._lookups.put(leaf)
                self.mission.held(len(self._in_hand))
        if shared is not None:
            self._shared[shared] = source
        return source

    def ended(self, leaf: Leaf, ended: Outcome) -> None:
        """An attempt has ended."""
        if type(ended) is outcome.Error:
            self._failed(leaf, ended.error)
        elif leaf.key is not None and not self._closed:
            leaf.ended = ended
            self._in_hand[leaf] = None
            self._results.put(leaf)
        else:
            self._resolve(leaf, ended)

    async def branch(self, call: Call, retry: Retry) -> Outcome:
        """Run a branch until it ends well, or for good.

        Raises:
            KeyboardInterrupt, trio.Cancelled: they concern more than this call.
        """
        attempts = Attempts(ZERO)
        while True:
            ended = await capture(call)
            if not isinstance(ended, outcome.Error):
                return ended
            error = ended.error
            assert isinstance(error, Exception)
            next_ = retry.decide(attempts.count, ZERO, error, self._random)
            if not isinstance(next_, Again):
                _add(error, attempts.note(next_.note))
                return ended
            self._another(call, retry, attempts, error, next_)
            await trio.sleep(next_.delay)

    def statistics(self, now: Statistics) -> Statistics:
        """How things stand in the mission, given how they stand in its executor.

        A failure that was followed by another attempt counts as no failure, what waits for that
        or is looked up counts as queued, and what the cache had as done.
        """
        return dataclasses.replace(
            now,
            queued=now.queued + len(self._in_hand),
            done=now.done + self._found,
            failed=now.failed + self._failures,
        )

    # ---- what becomes of a leaf

    def _bound(self, caching: Caching, call: Call) -> str | None:
        try:
            return caching.bound(call.fn)
        except Undigestible as error:
            self._not_kept(call, error)
            return None

    def _key(self, caching: Caching, call: Call, said: str | bytes, bound: str) -> Key | None:
        try:
            return caching.key(call, said, bound)
        except Undigestible as error:
            self._not_kept(call, error)
            return None

    def _not_kept(self, call: Call, error: Undigestible) -> None:
        if self._cache is not None:
            name = name_of(call.fn)
            self._cache.warn(name, f"results of {name} are not kept, as {error}")

    def _submit(self, leaf: Leaf) -> None:
        try:
            self.mission.submit(leaf.attempts.request, leaf.attempt(), leaf)
        except Exception as error:  # of the request, of the arguments: it is the leaf's
            self._failures += 1
            self.ended(leaf, outcome.Error(error))

    def _failed(self, leaf: Leaf, error: BaseException) -> None:
        attempts = leaf.attempts
        if isinstance(error, Infeasible) and leaf.error is not None:
            # It asked for more than there is, because of what went wrong before: that matters.
            note = f"It could not be tried again{asking(attempts.request)}: {error}"
            _add(leaf.error, note)
            self._resolve(leaf, outcome.Error(leaf.error))
            return
        if leaf.retry is None or self._closed or not isinstance(error, Exception):
            _add(error, attempts.note())
            self._resolve(leaf, outcome.Error(error))
            return
        next_ = leaf.retry.decide(attempts.count, attempts.request, error, self._random)
        if not isinstance(next_, Again):
            _add(error, attempts.note(next_.note))
            self._resolve(leaf, outcome.Error(error))
            return
        self._another(leaf.call, leaf.retry, attempts, error, next_)
        leaf.error = error
        self._failures -= 1
        self._in_hand[leaf] = None
        self._nursery.start_soon(self._retry, leaf, next_.delay)

    def _another(
        self, call: Call, retry: Retry, attempts: Attempts, error: Exception, again: Again
    ) -> None:
        """Count an attempt that failed, and tell of the one that follows."""
        changed = "" if again.request == attempts.request else asking(again.request)
        attempts.failed(error, again)
        name = name_of(call.fn)
        line = self._retry_lines.line(
            name,
            error,
            f"{name} failed ({told(error)}); attempt {attempts.count} of {retry.retries + 1} in "
            f"{again.delay:.1f} s{changed}",
        )
        if line is not None:
            self._say(line)

    async def _retry(self, leaf: Leaf, delay: float) -> None:
        await trio.sleep(delay)
        del self._in_hand[leaf]
        self._submit(leaf)

    async def _look_up(self, leaves: list[Leaf]) -> None:
        assert self._cache is not None
        keys = [leaf.key for leaf in leaves if leaf.key is not None]
        for leaf, found in zip(leaves, await self._cache.look_up(keys), strict=True):
            del self._in_hand[leaf]
            if found.hit:
                self._found += 1
                self._resolve(leaf, outcome.Value(found.value))
            else:
                self._submit(leaf)

    async def _keep(self, leaves: list[Leaf]) -> None:
        assert self._cache is not None
        now = time.monotonic()
        results = [
            Result(leaf.key, leaf.ended.value, now - leaf.began)
            for leaf in leaves
            if leaf.key is not None and isinstance(leaf.ended, outcome.Value)
        ]
        try:
            await self._cache.keep(results)
        finally:
            for leaf in leaves:
                self._in_hand.pop(leaf, None)
                assert leaf.ended is not None
                self._resolve(leaf, leaf.ended)

    def _resolve(self, leaf: Leaf, ended: Outcome) -> None:
        if leaf.source.outcome is not None:
            return
        self._unresolved -= 1
        leaf.error = None
        leaf.source(ended)
        if not self._unresolved and self._idle is not None:
            self._idle.set()

    # ---- the nursery

    def _hold_open(self) -> None:
        self._unresolved += 1
        if self._idle is None:
            self._idle = trio.Event()
            self._nursery.start_soon(self._wait)

    async def _wait(self) -> None:
        try:
            while self._unresolved:
                self._idle = trio.Event()
                await self._idle.wait()
            self._idle = None
        except trio.Cancelled:
            self._closed = True
            for leaf in list(self._in_hand):
                error = Cancelled(f"{name_of(leaf.call.fn)} was cancelled")
                error.__cause__ = leaf.error
                self._resolve(leaf, leaf.ended or outcome.Error(error))
            raise


def _add(error: BaseException, note: str) -> None:
    if note:
        add_note(error, note)
