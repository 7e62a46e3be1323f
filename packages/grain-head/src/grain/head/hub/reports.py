"""Reports to missions: unschedulable requests, workers, and troubles of the head. No I/O.

1.  A request is looked at when a task with it begins to wait and no worker serves it, once on each
    connection; and all requests that have waiting tasks are when the set of workers has changed, at
    most once a second.
2.  A mission gets a message when the answer changes: there are no workers at all, there are some
    and none fits, or one fits by now, which takes the earlier message back.
3.  A worker that is away, has yet to report what it has, or waits for missions that take their
    outcomes, may be back in a moment: as long as it would do, nothing is said.
    A worker that takes no more runs, as its time is nearly over, most often has a successor, which
    `grain scale` submits then: as long as that would do, nothing is said for `SUCCESSOR` seconds,
    and while a `grain scale` runs, which asks every 15 s, not at all. That submits a successor of
    a worker that was lost, too. Nor is it said then at each worker's end that no worker is here, of
    a request that none of them can meet.
4.  A mission whose last tasks are all on workers that are away learns for whom it waits, once for
    the same workers.
5.  A trouble of the head itself, such as a full disk, goes to all missions, and to each that
    registers; it is taken back when it is over.
6.  A mission is informed of a worker before the first `Started` that names it, once on each
    connection, and of the end of those workers; of `MOST_WORKERS` at most. It learns who holds the
    seats of a gang when the gang starts, and after another connection of either side, as soon as
    this head knows all of them.
7.  Tasks with bytecode wait for workers with the interpreter of their mission: the scheduler sees
    to that. Here each mission learns why, and of differences that concern data alone: once for all
    workers of the same versions, when the first of them is there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from grain.head.messages import (
    LastAway,
    OtherVersions,
    Overtaken,
    Seated,
    Trouble,
    Unschedulable,
    WorkerEnded,
    WorkerFacts,
)
from grain.head.scheduler.explain import needs_larger, never_in_cluster, why_never
from grain.head.scheduler.places import set_aside_texts
from grain.resource import to_data

if TYPE_CHECKING:
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import LeaseRecord, MissionRecord, TaskRecord, WorkerRecord
    from grain.head.scheduler.state import TaskQueue, WorkerAccount

SUCCESSOR = 120.0
"""Seconds in which the successor of a worker whose time is over may come: `grain scale` looks at
its workers every 30 s, and a job takes as long again to start where the batch system has room."""

MOST_WORKERS = 1000
"""The most workers that one connection of a mission is informed about."""

_STEPS = 16
"""The parts of the number of overtakes after which a task is due; each is reported."""

_NEAR = 120.0
"""A worker that drains with so many seconds left does so as its time is over, most likely."""


class _Expected(NamedTuple):
    """The successor of a worker: like it, and expected until then."""

    worker: WorkerAccount
    until: float


class MissionReports:
    """The messages of a hub about requests that no worker can meet."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._scheduler = registry.scheduler
        self._outgoing = registry.outgoing
        self._changed = False
        self._expected: list[_Expected] = []
        self._scaled_until = -math.inf

    # ---- troubles of the head

    def on_trouble(self, what: str, why: str) -> None:
        """Report a trouble of the head, or with an empty reason its end."""
        if why:
            self._registry.troubles[what] = why
        elif self._registry.troubles.pop(what, None) is None:
            return
        for mission in self._registry.missions.values():
            if mission.synced:
                self._outgoing.post(mission.link, Trouble(what, why))

    def on_set_aside(self) -> None:
        """Report places that were set aside to the missions whose tasks have failed there."""
        news, self._scheduler.places.news = self._scheduler.places.news, []
        missions = {mission.number: mission for mission in self._registry.missions.values()}
        for one in news:
            mission = missions.get(one.owner)
            worker = self._registry.numbered.get(one.place.worker)
            if mission is None or worker is None:
                continue
            function = mission.shown.function_names.get(one.function, "") if one.seconds else ""
            what, why = set_aside_texts(one, worker.unique_name, function)
            if why:
                mission.set_aside[what] = one.place, why
            else:
                mission.set_aside.pop(what, None)
            if mission.synced:
                self._outgoing.post(mission.link, Trouble(what, why, aside=True))

    def on_synced(self, mission: MissionRecord) -> None:
        """Report the troubles of the head, and its own, to a mission that has come."""
        troubles = [Trouble(*one) for one in self._registry.troubles.items()]
        aside = [Trouble(*one, aside=True) for one in self._registry.set_aside(mission)]
        for trouble in (*troubles, *aside):
            self._outgoing.post(mission.link, trouble)

    # ---- requests that no worker can meet

    def on_waiting(self, task: TaskRecord, queue: TaskQueue, now: float) -> None:
        """Look at the request of a task that no worker serves, unless it was looked at before."""
        if task.request not in task.mission.on_link.unschedulable:
            self._update(task.mission, task.request, queue, now)

    def on_draining(self, worker: WorkerRecord, now: float) -> None:
        """Note a worker that takes no more runs; if its time is over, a successor is expected."""
        scheduled = self._scheduler.workers[worker.number]
        if scheduled.end - now <= _NEAR:
            self._expect(scheduled, now + SUCCESSOR)
        self._changed = True

    def on_scaling(self, now: float) -> None:
        """Note that a process keeps workers alive: each that goes has a successor."""
        self._scaled_until = now + SUCCESSOR

    def _expect(self, worker: WorkerAccount, until: float) -> None:
        """Expect the successor of a worker; of several that are alike, the last one counts."""
        alike = worker.shape.interpreter, worker.supply.total
        others = [
            one
            for one in self._expected
            if (one.worker.shape.interpreter, one.worker.supply.total) != alike
        ]
        self._expected = [*others, _Expected(worker, until)]

    def on_tick(self, now: float) -> None:
        """Look at the requests with waiting tasks, if the set of workers has changed."""
        self._report_last(now)
        self._report_overtaken()
        if now >= self._scaled_until and any(one.until <= now for one in self._expected):
            self._expected = [one for one in self._expected if one.until > now]
            self._changed = True
        if not self._changed:
            return
        self._changed = False
        for mission in self._registry.missions.values():
            if mission.link is None:
                continue
            for number, before in mission.on_link.requests.items():
                key = before.priority, before.request, before.share, before.interpreter, 0.0, ()
                queue = self._scheduler.queues.get(key)
                if queue is not None and queue.waiting:
                    self._update(mission, number, queue, now)
                elif number in mission.on_link.unschedulable:
                    # None waits any more: a later request is looked at again.
                    self._send(mission, number, None)
                    del mission.on_link.unschedulable[number]

    def _report_last(self, now: float) -> None:
        """Report to missions that wait for nothing but workers that are away."""
        away = [one for one in self._registry.workers.values() if one.link is None and one.leases]
        on_away: dict[MissionRecord, dict[WorkerRecord, int]] = {}
        for worker in away:
            for lease in worker.leases.values():
                if lease.task is not None:
                    counts = on_away.setdefault(lease.task.mission, {})
                    counts[worker] = counts.get(worker, 0) + 1
        for mission in self._registry.missions.values():
            counts = on_away.get(mission, {})
            # To count the tasks takes time, where many wait: only if it matters.
            left = len(mission.tasks) - mission.unconfirmed if counts else 0
            if not counts or sum(counts.values()) < left or not mission.synced:
                mission.on_link.last_away = frozenset()
                continue
            workers = frozenset(one.id for one in counts)
            if workers <= mission.on_link.last_away:
                continue
            mission.on_link.last_away = workers
            longest = max(counts, key=lambda one: one.deadline)
            seconds = max(0.0, longest.deadline - now)
            facts = (longest.unique_name, longest.host, len(counts), seconds)
            self._outgoing.post(mission.link, LastAway(left, *facts))

    def _update(self, mission: MissionRecord, number: int, queue: TaskQueue, now: float) -> None:
        why = never_in_cluster(self._scheduler, queue)
        if why is not None:
            self._post(mission, number, Unschedulable(number, why, cluster=True))
            return
        before = mission.on_link.unschedulable.get(number)
        here, scaled = bool(self._scheduler.workers), now < self._scaled_until
        if before is not None and not before.cluster and not here and scaled:
            return  # the workers that come and go are too small for it: a larger one is awaited
        if not self._may_come_back(queue) and not self._may_be_replaced(mission, number, queue):
            why = why_never(self._scheduler, queue.request, now, queue.interpreter)
        larger = why is not None and needs_larger(self._scheduler, queue.request)
        self._send(mission, number, why, larger=larger)

    def _send(
        self, mission: MissionRecord, number: int, why: str | None, *, larger: bool = False
    ) -> None:
        """Say why a request cannot be met; None if it can by now."""
        message = None
        if why is not None:
            message = Unschedulable(number, why, bool(self._scheduler.workers), larger)
        self._post(mission, number, message)

    def _report_overtaken(self) -> None:
        """Let missions know how often tasks were overtaken, in steps, for the next head."""
        for *_, queue in self._scheduler.in_order_of_service:
            head = queue.head()
            task = None if head is None else head.record
            if task is None:
                continue
            times, told = len(queue.overtakers), task.mission.on_link.overtaken
            step = max(self._scheduler.due_after(queue) // _STEPS, 1)
            if times // step != told.get(task.request, 0) // step:
                told[task.request] = times
                self._outgoing.post(task.mission.link, Overtaken(task.request, times))

    def _post(self, mission: MissionRecord, number: int, message: Unschedulable | None) -> None:
        """Send a message if it differs from the last in more than its text."""
        before = mission.on_link.unschedulable.get(number)
        mission.on_link.unschedulable[number] = message
        if message is not None:
            if before is None or before.workers != message.workers:
                self._outgoing.post(mission.link, message)
        elif before is not None:
            self._outgoing.post(mission.link, Unschedulable(number, ""))

    def _may_come_back(self, queue: TaskQueue) -> bool:
        for worker in self._registry.workers.values():
            waits = not worker.serving or worker.backlog is not None
            leaves = not waits or worker.draining or worker.told_to_drain is not None
            if not leaves and _would_do(self._scheduler.workers[worker.number], queue):
                return True
        return False

    def _may_be_replaced(self, mission: MissionRecord, number: int, queue: TaskQueue) -> bool:
        # What was said already is not taken back for a successor that is not here.
        if mission.on_link.unschedulable.get(number) is not None:
            return False
        return any(_would_do(one.worker, queue) for one in self._expected)

    # ---- workers that run tasks

    def on_run(self, mission: MissionRecord, worker: WorkerRecord) -> None:
        """Inform a mission of a worker that has a run of it, unless it knows."""
        informed = mission.on_link.workers
        if worker.id in informed or len(informed) >= MOST_WORKERS or mission.link is None:
            return
        informed.add(worker.id)
        self._outgoing.post(mission.link, self.facts(worker))

    def on_gang(self, lease: LeaseRecord) -> None:
        """Inform the mission of a gang of the workers of its seats, if all are known.

        Args:
            lease: of the root; no effect if its task does not wait for it.
        """
        task, gang = lease.task, lease.gang
        if gang is None or task is None or not task.claimed or task.lease is not lease:
            return
        if gang.lease is lease and not gang.missing:
            seats = [seat.worker for _, seat in sorted(gang.seats.items())]
            for worker in seats:
                self.on_run(task.mission, worker)
            seated = Seated(task.number, tuple(worker.id for worker in seats))
            self._outgoing.post(task.mission.link, seated)

    def facts(self, worker: WorkerRecord) -> WorkerFacts:
        """Return what missions learn of a worker."""
        scheduled = self._scheduler.workers[worker.number]
        return WorkerFacts(
            worker.id,
            worker.unique_name,
            worker.host,
            to_data(scheduled.supply.total),
            None if scheduled.end == math.inf else self._registry.wall_time(scheduled.end),
            worker.job,
        )

    def on_worker_left(
        self, worker: WorkerRecord, why: str, silent: float | None = None, told: str = ""
    ) -> None:
        """Send `WorkerEnded` to the missions that know of a worker, before the ends of its runs."""
        self._changed = True
        if self._scaled_until > -math.inf:
            # It counts only for as long as that process goes on.
            self._expect(self._scheduler.workers[worker.number], self._scaled_until)
        for mission in self._registry.missions.values():
            for what, (place, _) in list(mission.set_aside.items()):
                if place.worker == worker.number:
                    del mission.set_aside[what]
            if worker.id in mission.on_link.workers:
                mission.on_link.workers.remove(worker.id)
                handed_back = worker.handed_back.get(mission.id, 0)
                by_batch = bool(why) and worker.by_batch
                ended = WorkerEnded(worker.id, why, silent, handed_back, told, by_batch)
                self._outgoing.post(mission.link, ended)

    # ---- workers of other versions

    def on_worker(self, worker: WorkerRecord) -> None:
        """Compare a worker that serves with the missions; have all requests looked at again."""
        self._changed = True
        for mission in self._registry.missions.values():
            self._compare(mission, worker)

    def on_mission(self, mission: MissionRecord) -> None:
        """Compare a mission that has registered with the workers that are here."""
        for worker in self._registry.workers.values():
            self._compare(mission, worker)

    def _compare(self, mission: MissionRecord, worker: WorkerRecord) -> None:
        ours, theirs = mission.versions, worker.versions
        if theirs in mission.on_link.reported or mission.link is None:
            return
        if not (ours.runs_code_of(theirs) and ours.loads_arrays_of(theirs)):
            mission.on_link.reported.add(theirs)
            message = OtherVersions(worker.name, worker.host, theirs)
            self._outgoing.post(mission.link, message)


def _would_do(worker: WorkerAccount, queue: TaskQueue) -> bool:
    """Return True if a worker can run tasks of a queue when it is empty, time limits aside."""
    return queue.fits(worker.shape.interpreter, worker.supply.total)
