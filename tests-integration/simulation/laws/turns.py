"""The laws on turns: missions of equal priority start their tasks in turns.

While tasks of one mission wait at a head, no other mission starts more than a few more there,
however many it has, and whatever either had running or waiting before: also where they have come
over from another head. Nor would one that came now. Tasks that have run before go first, and so are
not counted.

A task that waits no more and has not started had a turn: it was cancelled, or awaits the end of its
earlier gang, or a worker has reported a run of it, which this head had forgotten with its
mission or never knew. What waits behind it keeps its place, and so starts no later than without
that; it is behind others by such turns.

A task that is cancelled by the message which submits it is never seen to wait. So what a process of
a mission has cancelled counts while that process is connected. The next process of a lasting
mission submits such tasks once more, and cancels them at once.

A task that has run before may have exchanged its place with a new one that is more urgent, which
has started by it. It has the later place of that one, and makes up for it by its own start. If it
leaves the queues without one, as when its worker reports the earlier run after all, that place is
given up: so it counts as if a new task had not started.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from grain.head.hub.fair_share import Share
from grain.head.hub.state import ITS_MISSION, ITS_SEATS
from grain.head.hub.tasks.outcomes import MAX_UNCONFIRMED, MAX_UNCONFIRMED_BYTES
from grain.resource import Either
from grain.worker.messages import LANE, Lease
from simulation.peers import SimulatedMission
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.hub.state import Link, MissionRecord, TaskRecord
    from grain.head.scheduler.state import TaskQueue
    from simulation.heads import HeadProcess
    from simulation.setting import Setting
    from simulation.wire import Mail

_AHEAD = 2
"""Starts by which one mission may get ahead of another: the bound of start-time fair queueing for
tasks of one size (see `grain.head.hub.fair_share`)."""


class Turns:
    """The observer of the order in which the missions of one head start their tasks.

    Args:
        world: the world.
        head: the head.
    """

    def __init__(self, world: Setting, head: HeadProcess) -> None:
        self._world = world
        self._head = head
        pauses = world.max_unconfirmed, world.max_unconfirmed_bytes
        never = pauses == (MAX_UNCONFIRMED, MAX_UNCONFIRMED_BYTES)
        # Else a younger task may use what an older one cannot, or does not yet; and a mission that
        # is paused keeps its place, and has all its turns at once when it goes on.
        waits = any(isinstance(one, Either) and one.prefer for one in world.requests)
        self._comparable = never and not waits and len(world.requests) == 1
        # The starts of each mission, by its number: of all tasks, and of those that are new.
        self._starts: Counter[int] = Counter()
        self._new_starts: Counter[int] = Counter()
        # Of each mission, the tasks that had run before and left the queues without a start.
        self._left: Counter[int] = Counter()
        # The tasks that have left the queues to run alone, by mission and number.
        self._suspects: set[tuple[str, int]] = set()
        # By the number of a mission: its connection; the tasks that wait there, with True for one
        # that has run before; and the tasks that have lost their turns.
        self._turns: dict[int, tuple[Link | None, dict[int, bool], set[int]]] = {}
        # By how much a mission was ahead of one that waits, at the least since that began to wait.
        self._ahead: dict[tuple[int, int], int] = {}

    def on_dispatched(self, mail: Iterable[tuple[Link, Mail]]) -> None:
        """Check what the head has started since the last call."""
        missions = self._head.hub.registry.missions
        sent: set[tuple[str, int]] = set()
        for message in (message for _, messages in mail for message, _ in messages):
            seat = isinstance(message, Lease) and message.gang is not None and message.gang.index
            if isinstance(message, Lease) and message.function == LANE:
                mission = missions.get(message.mission)
                lane = None if mission is None else mission.tasks.get(message.task)
                if lane is None or not lane.course.slices:
                    continue  # one that is lent takes no turn
            if isinstance(message, Lease) and message.mission in missions and not seat:
                number = missions[message.mission].number
                self._starts[number] += 1
                task = message.mission, message.task
                sent.add(task)
                if message.alone:
                    self._suspects.add(task)
                record = missions[message.mission].tasks.get(message.task)
                # A call may have crashed in a lane: then it has run, as for its head.
                ran = task in self._world.leased or (record is not None and record.crashes)
                if not ran:
                    self._new_starts[number] += 1
                self._world.leased.setdefault(task, set()).add(self._head)
        suspects = self._head.hub.quarantine.waiting
        self._suspects.update((task.mission.id, task.number) for task in suspects)
        links = {number: link for number, (link, _, _) in self._turns.items()}
        self._turns = {one.number: self._look(one, sent) for one in missions.values()}
        # One that has come by another connection has submitted all that waits once more. It has
        # other turns, and waits from now on, as for `_look`.
        again = {n for n, (link, _, _) in self._turns.items() if links.get(n, link) != link}
        before = {key: ahead for key, ahead in self._ahead.items() if key[0] not in again}
        self._ahead = {}
        scheduler = self._head.hub.scheduler
        queues = [queue for _, _, queue in scheduler.in_order_of_service]
        self._check_newcomer(queues)
        # The tasks for which a worker is reserved start there one after the other.
        free = all(worker.reservation is None for worker in scheduler.workers.values())
        for waiting in queues if free and self._comparable else ():
            for other in queues:
                if other is not waiting and other.priority == waiting.priority:
                    self._check_pair(waiting, other, before)

    def _look(
        self, mission: MissionRecord, sent: set[tuple[str, int]]
    ) -> tuple[Link | None, dict[int, bool], set[int]]:
        """Return which tasks of a mission wait, and which have lost their turns, by its link."""
        link, waited, lost = self._turns.get(mission.number, (None, {}, set()))
        tasks = mission.tasks.items()
        waits = {
            number: self._has_run(task)
            for number, task in tasks
            if task.scheduler_id is not None or task.awaits == ITS_MISSION
        }
        gone = {task for task in waited if task not in waits and (mission.id, task) not in sent}
        self._left[mission.number] += sum(waited[task] for task in gone)
        if mission.link != link:  # it submits them again, and all that wait get other turns
            gone, lost = set(), set()
        # They may never have been seen to wait: they have come with this very message.
        gone |= {number for number, task in tasks if self._awaits_gang(task)}
        return mission.link, waits, (lost | gone) - waits.keys()

    def _awaits_gang(self, task: TaskRecord) -> bool:
        stands_in = task.lease is not None and self._head.hub.gangs.is_stand_in(task.lease)
        return stands_in or task.awaits == ITS_SEATS

    def _check_newcomer(self, queues: list[TaskQueue]) -> None:
        """Check how many tasks a mission that came now would start before one that waits."""
        first: dict[tuple[int, int], int] = {}
        for queue in queues:
            assert queue.rank is not None
            key = queue.share, queue.priority
            first[key] = min(queue.rank[1], first.get(key, queue.rank[1]))
        shares = self._head.hub.registry.shares
        for (number, priority), age in first.items():
            cancelled = self._lost_turns(number)
            newcomer = Share()
            if cancelled is not None:
                # It has the last of these behind the other's first.
                ages = [shares.age(newcomer, priority) for _ in range(cancelled + 2)]
                law = "a mission that waits goes before those that come late"
                self._world.laws.demand(law, ages[-1] > age, number)

    def _check_pair(
        self, waiting: TaskQueue, other: TaskQueue, before: dict[tuple[int, int], int]
    ) -> None:
        cancelled = self._lost_turns(waiting.share)
        if cancelled is None:
            return
        key = waiting.share, other.share
        ahead = self._new_starts[other.share] - self._left[other.share]
        ahead -= self._starts[waiting.share]
        least = self._ahead[key] = min(ahead, before.get(key, ahead))
        # A new task that is more urgent takes the place of one that has run, and gives it its own.
        again = sum(self._has_run(task.record) for task in other.tasks if not task.cancelled)
        law = "missions take turns"
        self._world.laws.demand(law, ahead - least <= _AHEAD + again + cancelled, key)

    def _has_run(self, task: TaskRecord) -> bool:
        return bool(task.crashes) or (task.mission.id, task.number) in self._world.leased

    def _lost_turns(self, number: int) -> int | None:
        """Return how many tasks of a mission had a turn, and did not start by it.

        They were cancelled, or are to run alone, or wait no more for another reason. None if no
        mission is to be looked at.
        """
        link, _, lost = self._turns.get(number, (None, {}, set()))
        process = link.peer if isinstance(link, Wire) else None
        if not isinstance(process, SimulatedMission) or process.story.ended_outside:
            return None
        alone = {task for one, task in self._suspects if one == process.session.id}
        return len(process.story.cancelled | process.story.cancelled_outside | alone | lost)
