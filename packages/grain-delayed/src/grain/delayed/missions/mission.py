"""`Mission`: one executor, the branches that run beside it, and the outcomes of all tasks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import outcome
import trio

from grain import GVAR
from grain.delayed.advice import Advice, ProgramCaller, note_mistakes
from grain.delayed.graph import MissionTasks, TaskNode, woken_by
from grain.delayed.missions.turns import Turns
from grain.head import GrainExecutor, TaskCancelled
from grain.resource import ZERO
from grain.worker import look_at
from grain.worker.call import capture, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from grain.delayed.cache.cache import Cache
    from grain.delayed.display.total import Total
    from grain.delayed.leaves.manager import LeafManager
    from grain.delayed.leaves.policy import LeafPolicy
    from grain.delayed.leaves.retry import Retry
    from grain.delayed.missions.executor import MissionExecutor
    from grain.delayed.overload import Overload
    from grain.facts.rows import Causes
    from grain.head import Statistics
    from grain.head.messages import FailedOn
    from grain.head.run_log import RunLog
    from grain.resource import Resource
    from grain.worker import Call
    from grain.worker.messages import PastAttempts


class Mission:
    """A mission: the calls of delayed functions inside of it become its tasks.

    `grain.delayed.mission` makes it.

    Args:
        priority: the priority of the leaves; larger goes first.
        failures: counts the leaves that failed; the executor's listener fills it.

    Attributes:
        ended: True when its block and all its branches have ended.
    """

    def __init__(
        self,
        executor: MissionExecutor,
        branches: trio.Nursery,
        priority: int,
        overload: Overload,
        cache: Cache | None,
        report: Callable[[str], object],
        advice: Advice,
        failures: Causes,
        run_log: RunLog | None = None,
        total: Total | None = None,
    ) -> None:
        self._total = total
        self.failures = failures
        self.executor = executor
        self.branches = branches
        # By the nursery: what the functions are that run in it as branches.
        self._callers = WeakKeyDictionary({branches: ProgramCaller.DELAYED})
        self.tasks = MissionTasks(recorded=run_log is not None)
        self._run_log = run_log
        self.ended = False
        self._turns = Turns()
        self._priority = priority
        self._overload = overload
        self._cache = cache
        self._report = report
        self.advice = advice
        # The last request that was looked at: most calls bring the same object again.
        self._looked_at: Resource | None = None
        # Made with the first leaf that is cached or the first task that is retried: most missions
        # need none.
        self._manager: LeafManager | None = None

    # ---- leaves

    def leaf(
        self, res: Resource, call: Call, policy: LeafPolicy | None, urgency: float = 0.0
    ) -> TaskNode:
        """Submit a call to the executor, or look for its result first.

        Raises:
            TypeError: the call has no key.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join.
        """
        if policy is not None:
            return self._leaf_manager().leaf(res, call, policy, urgency)
        node = TaskNode(self.tasks, call.fn)
        node.number = self.submit(res, call, node, urgency)
        return node

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
        """Submit a call to the executor.

        Args:
            retry_of: the number of the first attempt of the same leaf; 0 if it is that.
            avoid: where earlier attempts have failed.
            past: these attempts; None if there were none.

        Returns:
            The number of the task, which the executor's `cancel` takes.
        """
        if res is not self._looked_at:
            self._looked_at = res
            self.advice.on_request(name_of(call.fn), res)
        after = 0 if self._run_log is None else woken_by.get()
        task = self.executor.submit_call(
            res, call, deliver, priority=self._priority, urgency=urgency, after=after, avoid=avoid,
            past=past,
        )  # fmt: skip
        if self._total is not None and not retry_of:
            self._total.note(name_of(call.fn))
        if retry_of:
            self.executor.note_further(task, retry_of)
        if task >= self._overload.look_at:
            self._overload.on_submitted(task, self.executor.statistics().queued)
        return task

    def on_backing_off(self, count: int) -> None:
        """Record that so many tasks wait that the executor has not received yet."""
        self._overload.on_backing_off(count)

    def on_cached(self, call: Call) -> None:
        """Record that the result of a call was found in the cache."""
        if self._total is not None:
            self._total.note(name_of(call.fn))
        if self._run_log is not None:
            self._run_log.cached(name_of(call.fn))

    def on_retry(self, number: int) -> None:
        """Record that a task which has failed is going to be submitted again."""
        self.executor.note_retry(number)

    @property
    def failed_by(self) -> Resource:
        """The request of the leaf that has failed last: of alternatives the one that it had."""
        return self.executor.failed_by

    @property
    def failed_on(self) -> FailedOn | None:
        """The place where that leaf has failed; None if no other differs from it."""
        return self.executor.failed_on

    @property
    def runs_in_process(self) -> bool:
        """True if leaves run in this process, and get the objects that they were called with."""
        return isinstance(self.executor, GrainExecutor)

    # ---- branches

    def branch(self, call: Call, policy: LeafPolicy | None) -> TaskNode:
        """Start a call in this process.

        Raises:
            TypeError: the policy asks for what a branch cannot do.
        """
        retry = None
        if policy is not None:
            policy.check_branch(call)
            retry = policy.retry
        node = TaskNode(self.tasks, call.fn)
        self.start_branch(self.branches, call, node, retry)
        return node

    def start_branch(
        self, nursery: trio.Nursery, call: Call, node: TaskNode, retry: Retry | None = None
    ) -> None:
        """Start a call as a trio task of a nursery; branches begin in the order of these calls."""
        nursery.start_soon(
            self._run_branch, call, node, retry, self._turns.take(), name=call.fn
        )  # fmt: skip

    def add_group(self, nursery: trio.Nursery) -> None:
        """Record that the branches of a waitgroup run in a nursery."""
        self._callers[nursery] = ProgramCaller.SUBTASK

    async def _run_branch(
        self, call: Call, node: TaskNode, retry: Retry | None, number: int
    ) -> None:
        await self._turns.wait(number)
        # A mission may run in a leaf of another one: programs of its branches are that leaf's.
        GVAR.enter(ZERO, "", None, GVAR.account)
        try:
            if retry is None:
                ended = await capture(call)
                if type(ended) is outcome.Error:
                    note_mistakes(ended.error)
            else:
                ended = await self._leaf_manager().run_branch(call, retry)
            node.number = woken_by.get()
            node(ended)
        finally:
            if node.outcome is None:
                node(outcome.Error(TaskCancelled(f"{name_of(call.fn)} was cancelled")))

    def on_program(self, command: Sequence[object]) -> None:
        """Record that code of this process, the caller's, is about to run a program here."""
        look = look_at(threading.get_ident())
        if look is None:
            return
        # By the task's own nursery: what a branch starts in nurseries of its own is neither a
        # delayed function nor a subtask, and the advice must not treat it as such.
        nursery = trio.lowlevel.current_task().parent_nursery
        caller = (
            ProgramCaller.ROOT
            if nursery is None
            else self._callers.get(nursery, ProgramCaller.ROOT)
        )
        self.advice.on_program(look.function, command, caller)

    # ---- the whole

    def statistics(self) -> Statistics:
        """Return the numbers of the mission's leaves by state."""
        now = self.executor.statistics()
        return now if self._manager is None else self._manager.statistics(now)

    def end(self) -> None:
        """Refuse calls from now on; the block and all branches have ended."""
        self.ended = True

    def _leaf_manager(self) -> LeafManager:
        if self._manager is None:
            from grain.delayed.leaves.manager import LeafManager  # for start-up time

            self._manager = LeafManager(self, self.branches, self._cache, self._report)
        return self._manager
