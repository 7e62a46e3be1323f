"""`LeafManager`: leaves that are looked up first, retried if they fail, or kept afterwards.

    called --> looked up --> with the executor --> kept --> resolved
                   |            |         ^                    ^
                   |            v         |                    |
                   |         waiting for a retry               |
                   +-------- a result is there ----------------+

While a leaf is with the executor it costs no more than one object. In all other states a trio task
of the mission's nursery works on it, and the nursery stays open until each leaf is resolved.

A result is handed on when it has been kept: no code can see and change a result before it is
pickled, and a result that a mission went on with is there for the next mission.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections import deque
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import outcome
import trio

from grain.delayed.cache.cache import ComputedResult
from grain.delayed.cache.digest import Undigestible
from grain.delayed.display.failures import count_failure, take_back
from grain.delayed.graph import TaskNode
from grain.delayed.leaves.leaf import Leaf
from grain.delayed.leaves.retry import Attempts, GiveUp, NextAttempt, RetryLines, asking, one_line
from grain.delayed.leaves.snapshot import Snapshots
from grain.head import TaskCancelled
from grain.head.events import TaskFailed
from grain.head.messages import AVOIDED
from grain.head.needs.again import Larger, larger
from grain.resource import ZERO, Infeasible, learns
from grain.worker import Call
from grain.worker.call import call_text, capture, name_of
from grain.worker.errors import how_failed
from grain.worker.messages import one_more
from grain.worker.payload import add_note

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from grain.delayed.cache.cache import Cache
    from grain.delayed.cache.key import Caching, Key
    from grain.delayed.graph import MissionTasks, Outcome
    from grain.delayed.leaves.policy import LeafPolicy
    from grain.delayed.leaves.retry import Retry
    from grain.facts.rows import Causes
    from grain.head import Statistics
    from grain.head.messages import FailedOn
    from grain.resource import Resource
    from grain.worker.messages import PastAttempts

T = TypeVar("T")

_AT_ONCE = 8  # trio tasks that take batches of one sort


class Submitter(Protocol):
    """The mission as the leaf manager needs it."""

    tasks: MissionTasks
    failures: Causes

    def submit(
        self,
        res: Resource,
        call: Call,
        deliver: Callable[[Any], object],
        urgency: float = 0.0,
        retry_of: int = 0,
        avoid: tuple[FailedOn, ...] = (),
        past: PastAttempts | None = None,
    ) -> int:
        """Submit a call to the executor; return its number."""

    def on_backing_off(self, count: int) -> None:
        """Record that so many tasks wait that the executor has not received yet."""

    def on_cached(self, call: Call) -> None:
        """Record that the result of a call was found in the cache."""

    def on_retry(self, number: int) -> None:
        """Record that a task which has failed is going to be submitted again."""

    @property
    def failed_by(self) -> Resource:
        """The request of the leaf that has failed last: of alternatives the one that it had."""

    @property
    def failed_on(self) -> FailedOn | None:
        """The place where that leaf has failed; None if no other differs from it."""

    @property
    def runs_in_process(self) -> bool:
        """True if leaves run in this process, and get the objects that they were called with."""


class LeafManager:
    """The manager of the cached and retried tasks of one mission."""

    def __init__(
        self,
        mission: Submitter,
        nursery: trio.Nursery,
        cache: Cache | None,
        report: Callable[[str], object],
    ) -> None:
        self._mission = mission
        self._nursery = nursery
        self._cache = cache
        self._report = report
        self._in_process = mission.runs_in_process
        self._random = Random()  # noqa: S311 - spreads waits; not the user's, who may have seeded it
        self._retry_lines = RetryLines()
        self._snapshots = Snapshots()
        self._shared: dict[tuple[Hashable, str | bytes], TaskNode] = {}
        self._hits = 0
        # The executor counts each failed attempt. But an attempt that another follows is not a
        # failure of the leaf; and the executor does not count a leaf that could not be submitted
        # again.
        self._more_failures = 0
        # The leaves that were cancelled while they were not with the executor; those of them that
        # never ran.
        self._given_up = self._given_up_unbegun = 0
        # The leaves that are not with the executor, and the number of all that are not resolved.
        self._backing_off: dict[Leaf, None] = {}
        self._unresolved = 0
        # While leaves are unresolved, a task waits for this event and so holds the nursery open.
        self._all_resolved: trio.Event | None = None
        self._cancelled = False
        self._on_ended = self._ended  # one object for all leaves
        # The leaves that were looked up first, in the order of their calls, from the first one on
        # that is still looked up; and those of them that are to be submitted in their turn.
        self._in_order: deque[Leaf] = deque()
        self._missing: set[Leaf] = set()
        self._lookups = Batches(nursery, self._look_up, size=32)
        self._results = Batches(nursery, self._keep, size=8)

    def leaf(self, res: Resource, call: Call, policy: LeafPolicy, urgency: float = 0.0) -> TaskNode:
        """Start a leaf; one with the key of another shares its task.

        Raises:
            TypeError: the call has no key.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join. If
                the call is looked up first, this is its outcome instead.
        """
        caching = policy.caching
        shared = key = None
        if caching is not None:
            value, bound = caching.shared(call), None
            if caching.by_arguments or self._cache is not None:
                bound = self._bound(caching, call)
            shared = (caching.owner(call.fn, bound), value)
            node = self._shared.get(shared)
            if node is not None and not isinstance(node.outcome, outcome.Error):
                return node
            if self._cache is not None and bound is not None:
                key = self._key(caching, call, value, bound)
        if key is None and policy.retry is None and not learns(res):
            node = TaskNode(self._mission.tasks, call.fn)
            node.number = self._mission.submit(res, call, node, urgency)
        else:
            node = self._start(res, call, key, policy.retry, urgency)
        if shared is not None:
            self._shared[shared] = node
        return node

    def _start(
        self, res: Resource, call: Call, key: Key | None, retry: Retry | None, urgency: float
    ) -> TaskNode:
        # A leaf that is submitted later must be the call as it was made, wherever it travels as
        # bytes or its result is kept as that of these arguments. Elsewhere objects are passed as
        # they are, as to any leaf.
        if key is not None:
            call = self._snapshots.with_variables_of_now(call, key.bound)
        frozen = (key is not None and key.by_arguments) or not self._in_process
        snapshot = self._snapshots.snapshot(call) if frozen else None
        node = TaskNode(self._mission.tasks, call.fn)
        kept = call if snapshot is None else Call(call.fn, (), {})
        leaf = Leaf(
            node, self._on_ended, Attempts(res), kept, snapshot, self._in_process, key, retry,
            urgency,
        )  # fmt: skip
        if key is None:
            leaf.submitted(self._mission.submit(res, leaf.attempt(), leaf, urgency))
            self._hold_nursery_open()
        else:
            self._hold_nursery_open()
            self._backing_off[leaf] = None
            self._in_order.append(leaf)
            self._lookups.put(leaf)
            self._mission.on_backing_off(len(self._backing_off))
        return node

    async def run_branch(self, call: Call, retry: Retry) -> Outcome:
        """Run a branch until it ends well, or fails for good.

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
            if not isinstance(next_, NextAttempt):
                _add_note(error, attempts.note(next_.note))
                return ended
            line = self._on_retry(call, attempts, error, next_, ZERO, f"of {retry.retries + 1} ")
            if line is not None:
                self._report(line)
            await trio.sleep(next_.delay)

    def statistics(self, now: Statistics) -> Statistics:
        """Return the numbers of the mission's leaves by state.

        A failure that was followed by another attempt counts as no failure, a leaf that waits for
        that or is looked up counts as queued, and a result that was found counts as done.
        """
        return dataclasses.replace(
            now,
            queued=now.queued + len(self._backing_off),
            done=now.done + self._hits,
            cached=self._hits,
            cancelled=now.cancelled + self._given_up,
            not_begun=now.not_begun + self._given_up_unbegun,
            failed=now.failed + self._more_failures,
        )

    # ---- keys

    def _bound(self, caching: Caching, call: Call) -> str | None:
        try:
            return caching.bound(call.fn)
        except Undigestible as error:
            self._warn_not_kept(call, error)
            return None

    def _key(self, caching: Caching, call: Call, value: str | bytes, bound: str) -> Key | None:
        try:
            return caching.key(call, value, bound)
        except Undigestible as error:
            self._warn_not_kept(call, error)
            return None

    def _warn_not_kept(self, call: Call, error: Undigestible) -> None:
        if self._cache is not None:
            name = name_of(call.fn)
            self._cache.warn(name, f"results of {name} are not kept, as {error}")

    # ---- the states of a leaf

    async def _look_up(self, leaves: list[Leaf]) -> None:
        assert self._cache is not None
        keys = [leaf.key for leaf in leaves if leaf.key is not None]
        for leaf, result in zip(leaves, await self._cache.look_up(keys), strict=True):
            if result.hit:
                del self._backing_off[leaf]
                self._hits += 1
                self._mission.on_cached(leaf.call)
                self._resolve(leaf, outcome.Value(result.value))
            else:
                self._missing.add(leaf)
        self._submit_in_order()

    def _submit_in_order(self) -> None:
        """Submit the leaves without a result, up to the first one that is still looked up.

        Lookups of several batches end in any order, and who calls first comes first.
        """
        while self._in_order:
            leaf = self._in_order[0]
            if leaf in self._missing:
                self._missing.discard(leaf)
                del self._backing_off[leaf]
                self._in_order.popleft()
                self._submit(leaf)
            elif leaf.node.outcome is not None:  # found, or cancelled
                self._in_order.popleft()
            else:
                return

    def _submit(self, leaf: Leaf) -> bool:
        """Submit the next attempt of a leaf; return False if it is refused."""
        # First come, first served: just before its equals, and behind what is more urgent.
        urgency = leaf.urgency
        if leaf.attempts.keeps_its_place:
            urgency = min(math.nextafter(urgency, math.inf), sys.float_info.max)
        try:
            # With another request, the place may not have been the reason.
            avoid = leaf.failed_on if leaf.attempts.keeps_its_place else ()
            task = self._mission.submit(
                leaf.attempts.request, leaf.attempt(), leaf, urgency, leaf.first, avoid, leaf.past
            )
        except Exception as error:  # of the request or the arguments: an outcome like any other
            self._more_failures += 1
            name, number = name_of(leaf.call.fn), 0  # it was not submitted
            text = partial(call_text, name, leaf.call.args, leaf.call.kwargs)
            count_failure(self._mission.failures, TaskFailed(number, error, "", text))
            self._ended(leaf, outcome.Error(error))
            return False
        leaf.submitted(task)
        return True

    def _ended(self, leaf: Leaf, ended: Outcome) -> None:
        """Take the outcome of an attempt."""
        if type(ended) is outcome.Error:
            self._failed(leaf, ended.error)
        elif leaf.key is not None and not self._cancelled:
            leaf.ended = ended
            self._backing_off[leaf] = None
            self._results.put(leaf)
        else:
            self._resolve(leaf, ended)

    def _failed(self, leaf: Leaf, error: BaseException) -> None:
        attempts = leaf.attempts
        if isinstance(error, Infeasible) and leaf.error is not None:
            # `retry_with`, or its group, asked for more than there is. The failure that made it ask
            # matters more.
            note = f"It could not be tried again{asking(attempts.request)}: {error}"
            _add_note(leaf.error, attempts.note(note, begun=False))
            self._resolve(leaf, outcome.Error(leaf.error))
            return
        by = self._mission.failed_by
        if by not in attempts.request.alternatives():  # it was not submitted
            by = attempts.request
        next_: NextAttempt | GiveUp = GiveUp()
        if isinstance(error, Exception) and not self._cancelled:
            next_ = self._next(leaf, by, error)
        if not isinstance(error, Exception) or not isinstance(next_, NextAttempt):
            note = next_.note if isinstance(next_, GiveUp) else ""
            _add_note(error, attempts.note(note))
            self._resolve(leaf, outcome.Error(error))
            return
        failed_on = self._mission.failed_on
        if failed_on is not None and failed_on not in leaf.failed_on and not next_.larger:
            leaf.failed_on = (*leaf.failed_on, failed_on)[-AVOIDED:]
        if next_.request == by:
            next_ = next_._replace(request=attempts.request)  # with all alternatives, as before
        limit = "" if leaf.retry is None else f"of {leaf.retry.retries + 1 + attempts.larger} "
        line = self._on_retry(leaf.call, attempts, error, next_, by, limit)
        leaf.error = error
        leaf.past = one_more(leaf.past, how_failed(error), one_line(error))
        self._more_failures -= 1
        self._mission.on_retry(leaf.node.number)
        take_back(self._mission.failures, error)
        self._backing_off[leaf] = None
        self._nursery.start_soon(self._submit_later, leaf, next_.delay, line)

    def _next(self, leaf: Leaf, by: Resource, error: Exception) -> NextAttempt | GiveUp:
        """Decide about an attempt that failed; one that had too little memory or time gets more."""
        retry, attempts = leaf.retry, leaf.attempts
        if retry is None or retry.escalate is None:
            next_ = larger(by, error)
            if isinstance(next_, Larger):
                attempts.larger += 1
                return NextAttempt(next_.request, 0.0, next_.what)
            if next_ is not None:
                return GiveUp(next_)
        if retry is None:
            return GiveUp()
        return retry.decide(attempts.count - attempts.larger, by, error, self._random)

    def _on_retry(
        self,
        call: Call,
        attempts: Attempts,
        error: Exception,
        next_: NextAttempt,
        by: Resource,
        limit: str,
    ) -> str | None:
        """Count an attempt that failed and is followed by another; return the line to report."""
        changed = "" if next_.request == attempts.request else asking(next_.request)
        attempts.failed(error, next_, by)
        if next_.larger:
            changed = f", with {next_.larger}"
        name = name_of(call.fn)
        return self._retry_lines.line(
            name,
            error,
            f"{name} failed ({one_line(error)}); attempt {attempts.count} {limit}"
            f"in {next_.delay:.1f} s{changed}",
        )

    async def _submit_later(self, leaf: Leaf, delay: float, line: str | None) -> None:
        """Submit the next attempt after some seconds; report it, if it is not refused at once."""
        if line is not None and delay:
            self._report(line)
        await trio.sleep(delay)
        del self._backing_off[leaf]
        if self._submit(leaf) and line is not None and not delay:
            self._report(line)

    async def _keep(self, leaves: list[Leaf]) -> None:
        assert self._cache is not None
        now = time.monotonic()
        results = [
            ComputedResult(leaf.key, leaf.ended.value, now - leaf.began)
            for leaf in leaves
            if leaf.key is not None and isinstance(leaf.ended, outcome.Value)
        ]
        try:
            await self._cache.keep(results)
        finally:
            for leaf in leaves:
                self._backing_off.pop(leaf, None)
                assert leaf.ended is not None
                self._resolve(leaf, leaf.ended)

    def _resolve(self, leaf: Leaf, ended: Outcome) -> None:
        if leaf.node.outcome is not None:  # by the cancellation of the mission
            return
        self._unresolved -= 1
        leaf.error = None
        leaf.node(ended)
        if not self._unresolved and self._all_resolved is not None:
            self._all_resolved.set()

    # ---- the nursery

    def _hold_nursery_open(self) -> None:
        self._unresolved += 1
        if self._all_resolved is None:
            self._all_resolved = trio.Event()
            self._nursery.start_soon(self._wait_for_leaves)

    async def _wait_for_leaves(self) -> None:
        try:
            while self._unresolved:
                self._all_resolved = trio.Event()
                await self._all_resolved.wait()
            self._all_resolved = None
        except trio.Cancelled:
            # The executor resolves the leaves that it has; nothing else resolves the others. The
            # next leaf, of a clean-up that is shielded, has another task, which ends like this one.
            self._cancelled, self._all_resolved = True, None
            for leaf in list(self._backing_off):
                error = TaskCancelled(f"{name_of(leaf.call.fn)} was cancelled")
                error.__cause__ = leaf.error
                if leaf.ended is None:
                    self._given_up += 1
                    self._given_up_unbegun += leaf.error is None
                self._resolve(leaf, leaf.ended or outcome.Error(error))
            raise


class Batches(Generic[T]):
    """Items that an async function takes in batches, in a few trio tasks at once.

    Args:
        nursery: the nursery of those tasks; each ends when no item is left.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        function: Callable[[list[T]], Awaitable[None]],
        size: int,
    ) -> None:
        self._nursery = nursery
        self._function = function
        self._size = size
        self._items: deque[T] = deque()
        self._running = 0

    def put(self, item: T) -> None:
        """Add an item."""
        self._items.append(item)
        if self._running < _AT_ONCE:
            self._running += 1
            self._nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            while self._items:
                count = min(self._size, len(self._items))
                await self._function([self._items.popleft() for _ in range(count)])
        finally:
            self._running -= 1


def _add_note(error: BaseException, note: str) -> None:
    if note:
        add_note(error, note)
