"""Why is this task not running? Read off the scheduler's state when somebody asks."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from grain.head.scheduler.index import Worker
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import Task, TaskQueue


_COUNTED = 10_000  # tasks that are looked at one by one


class Explanation(msgspec.Struct, frozen=True):
    """The state of a task and the reasons for it.

    Attributes:
        task: the task's id.
        state: ``"running"``, ``"waiting"`` or ``"unknown"`` (ended, or never submitted).
        reasons: sentences; of a waiting task one for each worker, after those that hold for all.
    """

    task: int
    state: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join([f"task {self.task} is {self.state}", *self.reasons])


def explain(scheduler: Scheduler, task: int, now: float) -> Explanation:
    """Why a task is where it is; costs a look at every worker, and changes nothing."""
    known = scheduler.tasks.get(task)
    if known is None:
        return Explanation(task, "unknown", ("it has ended, or was never submitted",))
    if known.worker is not None:
        since = f"on {known.worker.name} with {known.held!r}, for {now - known.started:.0f} s"
        return Explanation(task, "running", (since,))
    queue = known.queue
    reasons = [f"it asks for {queue.request.ask()}"]
    if queue.rank is not None and queue.rank[1] != known.seq:
        reasons.append(_before(known))
    else:
        reasons += _standing(queue, now)
    if not scheduler.workers:
        reasons.append("no worker is here")
    reasons += [f"{w.name}: {_why_not(known, w, now)}" for w in scheduler.workers.values()]
    return Explanation(task, "waiting", tuple(reasons))


def _before(task: Task) -> str:
    """How many of its queue are older; not one by one, as a million may be."""
    queue = task.queue
    place = bisect_left(queue.tasks, task.seq, key=lambda other: other.seq)
    if not queue.cancelled:
        older = place
    elif place <= _COUNTED:
        older = sum(not other.cancelled for other in islice(queue.tasks, place))
    else:
        return f"up to {place} older tasks that ask for the same go first"
    few = "1 older task that asks for the same goes first"
    many = f"{older} older tasks that ask for the same go first"
    return few if older == 1 else many


def _standing(queue: TaskQueue, now: float) -> list[str]:
    """What holds for the queue's oldest task wherever it will run."""
    promise = queue.promise
    if promise is not None and promise.start == math.inf:
        return [f"{promise.worker.name} is kept free for it, until enough of it is"]
    if promise is not None:
        after = max(promise.start - now, 0)
        return [f"it is promised a start on {promise.worker.name} in {after:.0f} s at the latest"]
    if queue.overtaken:
        return [f"younger tasks used what it could not, {queue.overtaken} times"]
    return []


def _why_not(task: Task, worker: Worker, now: float) -> str:
    queue = task.queue
    left = worker.end - now
    if not worker.supply.total.request(queue.space):
        return f"never, {worker.supply.why_never(queue.space)}"
    if left <= 0:
        return "never, its time is over"
    if left < queue.need:
        return f"never, {left:.0f} s are left and it needs {queue.need:.0f} s"
    if worker.draining:
        return "it takes no more tasks"
    worker.give_back()
    if not worker.supply.free.request(queue.space):
        return f"not now, free is {worker.supply.free!r} of {worker.supply.total!r}"
    promise = worker.promise
    if promise is not None and promise.queue is not queue:
        return f"room is kept for an older task that asks for {promise.queue.request.ask()}"
    return "it has room; an older task goes first"
