"""The state of a hub, which ``grain ls`` shows.

The hub does nothing else meanwhile, so nothing here goes through the waiting tasks, as there may be
a million: they are counted by queue.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import asdict, astuple

from grain.edge.questions import ClusterState, PeerVersions, StateAnswer
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import RunMember
from grain.facts.rows import Mission, Queue, Run, Worker
from grain.head.hub.names import find_peer, labels
from grain.head.scheduler.explain import closed_texts, full_text, reserved_text, why_never
from grain.resource import Opaque, to_data
from grain.worker.messages import LANE

if TYPE_CHECKING:
    from grain.edge.questions import TaskCounts
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import EndedTask, MissionRecord, TaskRecord, WorkerRecord
    from grain.head.hub.tasks.lanes import LaneTable
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.scheduler.state import TaskQueue
    from grain.resource import Supply

_QUEUES = 200  # shown at most: a look at each costs a look at the workers
_TASKS = 4  # named for each worker
_LOOKED_AT = 20  # workers that show what is used up


def snapshot(registry: Registry, waiting: Waiting, counts: TaskCounts, now: float) -> StateAnswer:
    """Return the state of a hub."""
    scheduler = registry.scheduler
    mission_labels = labels(registry.missions.values())
    worker_labels = labels(registry.workers.values())
    run, calls = _running(registry), waiting.calls()
    idle, left = idle_lanes(registry), tasks_left(registry, calls)
    # Calls that a mission holds wait where no task may.
    queues = [one for one in scheduler.queues.values() if one.tasks or one.running or calls[one]]
    queues.sort(key=lambda queue: -queue.waiting - calls[queue])
    shown = [
        _queue(registry, queue, mission_labels, now, idle[queue], calls[queue])
        for queue in queues[:_QUEUES]
    ]
    return StateAnswer(
        epoch=registry.epoch,
        tasks=counts,
        workers=[
            _worker(registry, worker, worker_labels, mission_labels, now)
            for worker in registry.workers.values()
        ],
        missions=[
            _mission(mission, mission_labels, run[mission.number], left[mission.number])
            for mission in registry.missions.values()
        ],
        # Again: a queue whose tasks were all cancelled finds that out when it is looked at.
        queues=[queue for queue in shown if queue.waiting or queue.running],
        more_queues=len(queues) - len(shown),
        ended=[
            Mission(
                name=mission.name or mission.id[:8],
                host=mission.host,
                ended=registry.wall_time(at),
                done=mission.shown.done,
                failed=mission.shown.failed,
                retried=mission.shown.retried,
            )
            for mission, at in reversed(registry.ended_missions)
        ],
        versions=PeerVersions(*astuple(registry.versions)),
        troubles=registry.all_troubles(),
        cluster=cluster_state(registry),
    )


def idle_lanes(registry: Registry) -> Counter[TaskQueue]:
    """Return how many runs of each queue are lanes without a call."""
    ids = (lease.scheduler_id for lease in registry.lanes if lease.call is None)
    return Counter(registry.scheduler.tasks[one].queue for one in ids if one is not None)


def cluster_state(registry: Registry) -> list[ClusterState]:
    """Return what the scheduler owns for the whole cluster, kind by kind."""
    cluster = registry.scheduler.cluster
    return [
        ClusterState(kind, counts, cluster.note(kind)) for kind, counts in cluster.usage().items()
    ]


def known_run(
    registry: Registry, lanes: LaneTable, mission: MissionRecord, number: int, now: float
) -> Run | None:
    """Return what is known of a task beside the reasons for its state.

    Returns:
        The run that goes on, or the last one of a task that ended not long ago, without its host;
        the function of a waiting task. None for a task that is not known any more.
    """
    task = find_task(mission, number)
    lease = lanes.run_of(mission, number) if task is None else task.lease
    ends = lease is not None and lease.gang is not None and lease.gang.stand_in is lease
    if lease is not None and lease.task is not None and not ends:
        function, began = lease.task.function, lease.began
        if lease.call is not None:
            _, function, began = lease.call
        return Run(
            mission=mission.id,
            task=number,
            function=mission.shown.function_names.get(function, ""),
            state="running",
            final=False,
            members=(RunMember(worker=lease.worker.name, host=lease.worker.host),),
            started=registry.wall_time(began),
            seconds=now - began,
        )
    for ended in reversed(registry.ended_tasks):
        if ended[0].mission is mission and ended[0].number == number:
            return ended_run(registry, ended)
    if task is not None:
        function_name = mission.shown.function_names.get(task.function, "")
        return Run(mission=mission.id, task=number, function=function_name, state="waiting")
    return None


def ended_run(registry: Registry, ended: EndedTask) -> Run:
    """Return the run of a task that was resolved."""
    task, worker, began, at, why = ended
    return Run(
        mission=task.mission.id,
        task=task.number,
        function=task.mission.shown.function_names.get(task.function, ""),
        state=task.how,
        members=(RunMember(worker=worker),),
        started=registry.wall_time(began),
        ended=registry.wall_time(at),
        seconds=max(0.0, at - began),
        failure=RunFailure(message=why) if isinstance(why, str) else why,
    )


def find_mission(registry: Registry, word: str) -> MissionRecord | None:
    """Return the mission that a word means, as `find_peer` does; None if there is no such one."""
    peer = find_peer(registry.missions.values(), word, "mission")
    return None if isinstance(peer, str) else peer


def find_task(mission: MissionRecord, number: int) -> TaskRecord | None:
    """Return the task of a number; None if there is none, as for the number of a lane."""
    task = mission.tasks.get(number)
    return None if task is None or task.function is LANE else task


def draining_worker(registry: Registry, worker: WorkerRecord, label: str) -> Worker:
    """Return what is shown of a worker that is asked to leave."""
    running = len(registry.scheduler.workers[worker.number].tasks) - worker.idle_lanes
    return Worker(
        name=worker.name,
        label=label,
        host=worker.host,
        state=worker_state(worker),
        running=running,
    )


def named_mission(registry: Registry, waiting: Waiting, mission: MissionRecord) -> Mission:
    """Return what is shown of a mission that a command names."""
    own = labels(registry.missions.values())
    left = tasks_left(registry, waiting.calls())
    return _mission(mission, own, _running(registry)[mission.number], left[mission.number])


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
    registry: Registry,
    worker: WorkerRecord,
    own: dict[int, str],
    of_missions: dict[int, str],
    now: float,
) -> Worker:
    scheduled = registry.scheduler.workers[worker.number]
    scheduled.give_back()
    leases = (one for one in worker.leases.values() if not one.idle_lane)
    tasks = (
        (lease.task.mission, lease.task.number if lease.call is None else lease.call.task)
        for lease in leases
        if lease.task is not None
    )
    return Worker(
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
        running=len(scheduled.tasks) - worker.idle_lanes,
        computing=worker.computing if scheduled.tasks else 0.0,
        tasks=[_label(*task, of_missions) for task in islice(tasks, _TASKS)],
        versions=asdict(worker.versions),
    )


def used_parts(supply: Supply) -> dict[str, float | None]:
    """Return the part of each kind that is in use; None where it cannot be measured."""
    used: dict[str, float | None] = {}
    for kind, part in supply.free.parts().items():
        free, owned = part._stat()
        measurable = owned and not isinstance(part, Opaque)
        used[kind] = round(1 - free / owned, 4) if measurable else None
    return used


def _label(mission: MissionRecord, task: int, labels: dict[int, str]) -> str:
    return f"{labels.get(mission.number, mission.id[:8])}:{task}"


def tasks_left(registry: Registry, calls: Counter[TaskQueue]) -> Counter[int]:
    """Return how many tasks of each mission have no outcome, by the mission's number.

    Args:
        calls: as of `Waiting.calls`.
    """
    left: Counter[int] = Counter()
    for mission in registry.missions.values():
        left[mission.number] = len(mission.tasks) - mission.unconfirmed
    for lease, mission in registry.lanes.items():
        # One whose mission has forgotten it is not a task, and may hold on for long.
        left[mission.number] -= lease.call is None and lease.current
    for queue, more in calls.items():
        left[queue.share] += more
    return left


def _running(registry: Registry) -> Counter[int]:
    """Return how many tasks of each mission run, by the mission's number."""
    return Counter(
        lease.task.mission.number
        for worker in registry.workers.values()
        for lease in worker.leases.values()
        if lease.task is not None and lease.current and not lease.idle_lane
    )


def _mission(mission: MissionRecord, labels: dict[int, str], running: int, left: int) -> Mission:
    return Mission(
        done=mission.shown.done,
        failed=mission.shown.failed,
        retried=mission.shown.retried,
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
        waiting=max(left - running, 0),
        versions=asdict(mission.versions),
    )


def _queue(
    registry: Registry,
    queue: TaskQueue,
    labels: dict[int, str],
    now: float,
    idle: int,
    calls: int,
) -> Queue:
    """Return what is shown of a queue.

    Args:
        idle: how many of its running tasks are lanes without a call.
        calls: as of `Waiting.calls`.
    """
    head = queue.head()
    never = why_never(registry.scheduler, queue.request, now, queue.interpreter) if head else None
    never = _shortened(never)
    task: TaskRecord | None = head.record if head else None
    return Queue(
        request=to_data(queue.request),
        interpreter=queue.interpreter,
        mission=labels.get(queue.share, ""),
        priority=queue.priority,
        waiting=queue.waiting + calls,
        running=queue.running - idle,
        oldest=_label(task.mission, task.number, labels) if task is not None else "",
        never=never,
        lack="" if registry.workers else "here",
        why=never or (_why(registry, queue, now) if head else ""),
    )


def _shortened(never: str | None) -> str:
    """Return the reasons of the first workers, which are most often those of all."""
    reasons = (never or "").split("; ")
    more = [f"and so on for {len(reasons) - 3} more"] if len(reasons) > 3 else []
    return "; ".join(reasons[:3] + more)


def _why(registry: Registry, queue: TaskQueue, now: float) -> str:
    """Return what its oldest task waits for, in a sentence; `Hub.why` has it worker by worker."""
    if queue.reservations:
        return reserved_text(queue.reservations[0], now)
    if not queue.open and queue.closed:
        return "; ".join(closed_texts(registry.scheduler, queue, now))
    numbers = [worker.number for worker in registry.workers.values() if worker.takes_runs]
    if not numbers:
        return "no worker that is here takes tasks"
    looked_at = (registry.scheduler.workers[number] for number in numbers[:_LOOKED_AT])
    return full_text(queue, len(numbers), looked_at)
