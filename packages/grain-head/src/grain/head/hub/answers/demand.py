"""The answer to ``Ask("demand")``: what tasks ask for and what workers have, for `grain scale`.

Tasks are counted by *class*: a class has the tasks of all missions and priorities that ask for the
same, have the same interpreter, and were seen to need as much time. Nothing goes through the
waiting tasks, as there may be a million. Tasks that more workers would not start are left out:
tasks of a mission that does not take its outcomes, tasks that wait for the report of the worker
that they ran on, and those for which the whole cluster has not enough licences, or the like, free.
A lane counts as the call that it has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.edge.questions import AlternativeDemand, DemandAnswer
from grain.facts.rows import Queue, Worker
from grain.resource import to_data

if TYPE_CHECKING:
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import CallInLane, WorkerRecord
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.scheduler.state import TaskQueue
    from grain.resource import Resource

_CLASSES = 1000  # in an answer: those with the most tasks


class _Class:
    """The tasks of a class."""

    def __init__(self, queue: TaskQueue) -> None:
        self.queue = queue
        self.waiting = self.running = self.ended = 0
        self.elapsed = self.seconds = 0.0

    def leave_out_lane(self, started: float, call: CallInLane | None, now: float) -> None:
        """Have a lane, which counts as a run, count as its call."""
        self.elapsed -= max(now - started, 0.0)
        if call is None:
            self.running -= 1
        else:
            self.elapsed += max(now - call.began, 0.0)


def demand(registry: Registry, waiting: Waiting, now: float) -> DemandAnswer:
    """Return what tasks ask for and what workers have."""
    scheduler = registry.scheduler
    classes: dict[tuple[Resource, str, float], _Class] = {}

    def of(queue: TaskQueue) -> _Class:
        key = queue.request, queue.interpreter, queue.seen
        if (its_class := classes.get(key)) is None:
            its_class = classes[key] = _Class(queue)
        return its_class

    calls = waiting.calls()
    for queue in scheduler.queues.values():
        # Those without tasks, too: a mission that has ended leaves the durations of its class.
        its = of(queue)
        startable = queue.waiting
        if queue.shared == queue.bits:
            startable = max(scheduler.cluster.room(one, startable) for one in queue.alternatives)
        its.waiting += startable + calls[queue]
        its.running += queue.running
        if queue.durations:
            its.ended += len(queue.durations)
            its.seconds += sum(queue.durations)
    for worker in scheduler.workers.values():
        for task in worker.tasks.values():
            of(task.queue).elapsed += max(now - task.started, 0.0)
    for lease in registry.lanes:
        if lease.scheduler_id is not None:
            lane = scheduler.tasks[lease.scheduler_id]
            of(lane.queue).leave_out_lane(lane.started, lease.call, now)
    for suspect in waiting.suspects:
        if suspect.queue is not None:
            of(suspect.queue).waiting += 1
    shown = [one for one in classes.values() if one.waiting or one.running]
    shown.sort(key=lambda one: -one.waiting - one.running)
    return DemandAnswer(
        epoch=registry.epoch,
        classes=[_answered(one) for one in shown[:_CLASSES]],
        more_classes=max(len(shown) - _CLASSES, 0),
        workers=[_worker(registry, worker, now) for worker in registry.workers.values()],
    )


def _answered(one: _Class) -> Queue:
    queue = one.queue
    first, *others = [
        # Of tasks that have outlived workers what they were seen to need: those workers that do
        # without so much, as longer ones may never come, are here.
        AlternativeDemand(to_data(way.space), max(way.need, queue.seen), way.count, way.same)
        for way in queue.alternatives
    ]
    return Queue(
        request=first.request,
        asked=queue.request.ask(),
        interpreter=queue.interpreter,
        waiting=one.waiting,
        running=one.running,
        elapsed=one.elapsed,
        need=first.need,
        ended=one.ended,
        mean=one.seconds / one.ended if one.ended else 0.0,
        others=others,
        members=first.members,
        same=first.same,
    )


def _worker(registry: Registry, worker: WorkerRecord, now: float) -> Worker:
    scheduled = registry.scheduler.workers[worker.number]
    scheduled.give_back()
    return Worker(
        id=worker.id,
        name=worker.name,
        host=worker.host,
        interpreter=scheduled.shape.interpreter,
        total=to_data(scheduled.supply.total),
        free=to_data(scheduled.supply.free),
        left=None if scheduled.end == math.inf else scheduled.end - now,
        running=len(scheduled.tasks),
        idle=0.0 if scheduled.tasks else max(now - scheduled.idle_since, 0.0),
        draining=worker.draining or worker.told_to_drain is not None,
        job=worker.job,
    )
