"""The state of a hub, which ``grain ls`` shows.

The hub does nothing else meanwhile, so nothing here goes through the waiting tasks, of which there
may be a million: they are counted by queue.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, TypedDict

from msgspec.structs import astuple

from grain.edge.questions import (
    DrainingWorker,
    EndedMission,
    MissionState,
    PeerVersions,
    QueueState,
    StateAnswer,
    WorkerState,
)
from grain.head.hub.names import find_peer, labels
from grain.head.hub.state import LeaseRecord
from grain.head.scheduler.explain import full_text, reserved_text
from grain.resource import Opaque, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.version import Versions
    from grain.head.hub.state import MissionRecord, Registry, TaskRecord, WorkerRecord
    from grain.head.hub.tasks import TaskTable
    from grain.head.scheduler.state import TaskQueue
    from grain.resource import Supply

_QUEUES = 200  # shown at most: a look at each costs a look at the workers
_TASKS = 4  # named for each worker
_LOOKED_AT = 20  # workers that show what is used up


def snapshot(
    table: TaskTable, now: float, versions: Versions, troubles: Iterable[str]
) -> StateAnswer:
    """Return the state of a hub.

    Args:
        table: the hub's tasks.
        versions: the head's.
        troubles: sentences on what keeps it from working as it should.
    """
    scheduler, registry = table.scheduler, table.registry
    mission_labels = labels(registry.missions.values())
    worker_labels = labels(registry.workers.values())
    queues = [queue for queue in scheduler.queues.values() if queue.tasks or queue.running]
    queues.sort(key=lambda queue: -queue.waiting)
    running, waiting = _counts(table)
    shown = [_queue(table, queue, mission_labels, now) for queue in queues[:_QUEUES]]
    return StateAnswer(
        epoch=table.epoch,
        tasks=table.counts(),
        workers=[
            _worker(table, worker, worker_labels, mission_labels, now)
            for worker in registry.workers.values()
        ],
        missions=[
            _mission(mission, mission_labels, running[mission.number], waiting[mission.number])
            for mission in registry.missions.values()
        ],
        # Again: a queue whose tasks were all cancelled finds that out when it is looked at.
        queues=[queue for queue in shown if queue.waiting or queue.running],
        more_queues=len(queues) - len(shown),
        ended=[
            EndedMission(
                mission.name or mission.id[:8],
                mission.host,
                table.wall_time(at),
                mission.done,
                mission.failed,
                mission.retried,
            )
            for mission, at in reversed(registry.ended_missions)
        ],
        versions=_versions(versions),
        troubles=list(troubles),
    )


class TaskFacts(TypedDict, total=False):
    """The facts on a task beside its state, which are those of a `WhyAnswer`."""

    function: str
    worker: str
    host: str
    began: float
    seconds: float
    ended: str
    why: str


def task_facts(table: TaskTable, mission: MissionRecord, number: int, now: float) -> TaskFacts:
    """Return what is known of a task beside its state.

    Returns:
        Of a task that waits the function; of one that has ended, and that not long ago, all but the
        host; of one that is not known any more nothing.
    """
    task = mission.tasks.get(number)
    if task is not None and task.lease is not None and not task.lease.waits:
        lease = task.lease
        return {
            "function": mission.function_names.get(task.function, ""),
            "worker": lease.worker.name,
            "host": lease.worker.host,
            "began": table.wall_time(lease.began),
            "seconds": now - lease.began,
        }
    for ended, worker, began, at, why in reversed(table.registry.ended_tasks):
        if ended.mission is mission and ended.number == number:
            return {
                "function": mission.function_names.get(ended.function, ""),
                "worker": worker,
                "began": table.wall_time(began),
                "seconds": at - began,
                "ended": ended.how,
                "why": why,
            }
    if task is not None:
        return {"function": mission.function_names.get(task.function, "")}
    return {}


def find_mission(registry: Registry, word: str) -> MissionRecord | None:
    """Return the mission that a word means, as `find_peer` does; None if there is no such one."""
    peer = find_peer(registry.missions.values(), word, "mission")
    return None if isinstance(peer, str) else peer


def draining_worker(table: TaskTable, worker: WorkerRecord, label: str) -> DrainingWorker:
    """Return what is shown of a worker that is asked to leave."""
    running = len(table.scheduler.workers[worker.number].tasks)
    return DrainingWorker(worker.name, label, worker.host, worker_state(worker), running)


def named_mission(table: TaskTable, mission: MissionRecord) -> MissionState:
    """Return what is shown of a mission that a command names."""
    own = labels(table.registry.missions.values())
    running, waiting = _counts(table)
    return _mission(mission, own, running[mission.number], waiting[mission.number])


def worker_state(worker: WorkerRecord) -> str:
    """Return the state of a worker in a word."""
    if worker.link is None:
        return "away"
    if not worker.serving:
        return "joining"
    if worker.draining or worker.told_to_drain is not None:
        return "draining"
    return "serving" if worker.backlog is None else "paused"


def _worker(
    table: TaskTable,
    worker: WorkerRecord,
    own: dict[int, str],
    of_missions: dict[int, str],
    now: float,
) -> WorkerState:
    scheduled = table.scheduler.workers[worker.number]
    scheduled.give_back()
    leases = [lease for lease in worker.leases.values() if not lease.waits]
    tasks = (lease.task for lease in leases if lease.task is not None)
    return WorkerState(
        id=worker.id,
        name=worker.name,
        label=own[worker.number],
        host=worker.host,
        cluster=worker.cluster,
        state=worker_state(worker),
        backlog=worker.backlog,
        total=to_data(scheduled.supply.total),
        free=to_data(scheduled.supply.free),
        used=used_parts(scheduled.supply),
        left=None if scheduled.end == math.inf else scheduled.end - now,
        running=len(scheduled.tasks),
        computing=worker.computing if scheduled.tasks else 0.0,
        tasks=[_label(task, of_missions) for task in islice(tasks, _TASKS)],
        versions=_versions(worker.versions),
    )


def _versions(versions: Versions) -> PeerVersions:
    return PeerVersions(*astuple(versions))


def used_parts(supply: Supply) -> dict[str, float | None]:
    """Return the part of each kind that is in use; None where it cannot be measured."""
    used: dict[str, float | None] = {}
    for kind, part in supply.free.parts().items():
        free, owned = part._stat()
        measurable = owned and not isinstance(part, Opaque)
        used[kind] = round(1 - free / owned, 4) if measurable else None
    return used


def _label(task: TaskRecord, labels: dict[int, str]) -> str:
    return f"{labels.get(task.mission.number, task.mission.id[:8])}:{task.number}"


def _counts(table: TaskTable) -> tuple[Counter[int], Counter[int]]:
    """Return how many tasks of each mission run, and how many wait, by the mission's number."""
    running: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    for worker in table.registry.workers.values():
        for lease in worker.leases.values():
            if lease.task is not None and lease.current:
                counts = waiting if lease.waits else running
                counts[lease.task.mission.number] += 1
    for queue in table.scheduler.queues.values():
        waiting[queue.share] += queue.waiting
    # Both of these ran before, so there are no more than once fitted on the workers.
    awaiting_report = chain.from_iterable(table.awaiting_report.values())
    parked = chain.from_iterable(mission.parked for mission in table.registry.missions.values())
    for task in (*table.quarantine.waiting, *awaiting_report, *parked):
        waiting[task.mission.number] += 1
    return running, waiting


def _mission(
    mission: MissionRecord, labels: dict[int, str], running: int, waiting: int
) -> MissionState:
    return MissionState(
        done=mission.done,
        failed=mission.failed,
        retried=mission.retried,
        id=mission.id,
        name=mission.name,
        label=labels[mission.number],
        number=mission.ordinal,
        host=mission.host,
        connected=mission.link is not None,
        unconfirmed=mission.unconfirmed,
        unconfirmed_bytes=mission.unconfirmed_bytes,
        paused=mission.paused,
        running=running,
        waiting=waiting,
        versions=_versions(mission.versions),
    )


def _queue(table: TaskTable, queue: TaskQueue, labels: dict[int, str], now: float) -> QueueState:
    head = queue.head()
    never = table.scheduler.why_never(queue.request, now, queue.interpreter) if head else None
    never = _shortened(never)
    oldest = table.by_scheduler_id.get(head.id) if head else None
    task = oldest.task if isinstance(oldest, LeaseRecord) else oldest
    return QueueState(
        request=to_data(queue.request),
        interpreter=queue.interpreter,
        mission=labels.get(queue.share, ""),
        priority=queue.priority,
        waiting=queue.waiting,
        running=queue.running,
        oldest=_label(task, labels) if task is not None else "",
        never=never,
        why=never or (_why(table, queue, now) if head else ""),
    )


def _shortened(never: str | None) -> str:
    """Return the reasons of the first workers, which are most often those of all."""
    reasons = (never or "").split("; ")
    more = [f"and so on for {len(reasons) - 3} more"] if len(reasons) > 3 else []
    return "; ".join(reasons[:3] + more)


def _why(table: TaskTable, queue: TaskQueue, now: float) -> str:
    """Return what its oldest task waits for, in a sentence; `Hub.why` has it worker by worker."""
    if queue.reservations:
        reservation = queue.reservations[0]
        return reserved_text(reservation.worker.name, reservation.start, now)
    numbers = [worker.number for worker in table.registry.workers.values() if worker.takes_runs]
    if not numbers:
        return "no worker that is here takes tasks"
    looked_at = (table.scheduler.workers[number] for number in numbers[:_LOOKED_AT])
    return full_text(queue, len(numbers), looked_at)
