"""`replay`: a workload through the scheduler, in virtual time."""

from __future__ import annotations

import math
from collections import Counter
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from grain.head.scheduler.scheduler import Scheduler
from grain.head.scheduler.state import split_time
from grain.resource import Cores, Gang, Memory, Resource, Supply, WTime
from grain.whatif.workload import Stay

if TYPE_CHECKING:
    from grain.head.scheduler.state import Start
    from grain.whatif.scenario import Scenario
    from grain.whatif.workload import LoggedTask, Workload

_LOSSES = 20  # a task that was lost so often is given up
_AT_ONCE = 1e-9  # seconds; what differs by less happens at one time

# The kinds of events on the agenda.
_SUBMIT, _END, _RESOLVE, _JOIN, _LEAVE, _FALL_SILENT, _OPEN = range(7)
_OF_WORKERS = (_JOIN, _LEAVE, _FALL_SILENT)


class Outcome(NamedTuple):
    """The course of a replay.

    Attributes:
        makespan: the seconds from the first submission to the end of the last task that runs;
            ``math.inf`` if some tasks never end.
        worker_hours: the hours that workers were there, added up.
        core_hours: the cores of workers, times the hours that these were there.
        busy: the share of that in which tasks had the cores; 0 if workers have none.
        waited: the mean of the seconds that tasks waited that run.
        over_time: the number of runs that a time limit ended.
        over_memory: the number of tasks that used more memory than they ask for.
        never: the number of tasks that never end, by function and reason.
    """

    makespan: float
    worker_hours: float
    core_hours: float
    busy: float
    waited: float
    over_time: int
    over_memory: int
    never: dict[tuple[str, str], int]


def replay(workload: Workload, scenario: Scenario) -> Outcome:
    """Replay a workload under the conditions of a scenario."""
    return _Replay(workload, scenario).run()


class _Worker:
    """A worker that is here."""

    __slots__ = ("cores", "draining", "joined")

    def __init__(self, cores: float, joined: float) -> None:
        self.cores = cores
        self.joined = joined
        self.draining = False


class _Progress:
    """A task that was submitted and has not ended.

    Attributes:
        queued: since when it waits, or began to wait for the run that goes on.
        run: how many of its runs have ended.
        begun: how many have begun, and were lost; tells apart the ends of runs that were lost.
        began: when the last one began.
        cores: the cores that the last one was given, on all of its workers.
        seats: the ids in the scheduler of the other members of a gang that runs.
        cut: True if its time limit ends the run.
        losses: how many were lost.
    """

    __slots__ = ("began", "begun", "cores", "cut", "losses", "queued", "run", "seats")

    def __init__(self, queued: float) -> None:
        self.queued = queued
        self.run = self.begun = self.losses = 0
        self.began = 0.0
        self.cores = 0.0
        self.cut = False
        self.seats: tuple[int, ...] = ()


class _Replay:
    """A replay: the events to come, and how things stand now."""

    def __init__(self, workload: Workload, scenario: Scenario) -> None:
        self._workload = workload
        self._tasks = workload.tasks
        self._scenario = scenario
        self._scheduler = Scheduler(max_overtakes=scenario.max_overtakes)
        self._now = 0.0
        self._agenda: list[tuple[float, int, int, int, int]] = []
        self._of_tasks = 0  # the events on the agenda that are not about workers
        self._vain_joins = 0  # the workers that have joined since anything happened to a task
        self._order = count()
        self._stays = [] if scenario.workers is not None else list(workload.stays)
        self._workers: dict[int, _Worker] = {}
        self._numbers = count()
        self._there = 0.0  # seconds of workers that have left
        self._paid = 0.0  # core seconds of these
        self._used = 0.0  # core seconds of runs
        self._needs: dict[int, int] = {}  # the ends that a task still waits for
        self._followers: dict[int, list[int]] = {}  # by the task whose submission they follow
        self._waiters: dict[int, list[int]] = {}  # by the task whose end they wait for
        self._progress: dict[int, _Progress] = {}
        # The ids in the scheduler of tasks that have exchanged their places, and the reverse; that
        # of all others is their index.
        self._ids: dict[int, int] = {}
        self._indices: dict[int, int] = {}
        # The tasks of which ids of the scheduler are further members.
        self._roots: dict[int, int] = {}
        self._requests: dict[tuple[str, int], tuple[Resource, str]] = {}
        self._first = math.inf
        self._end = 0.0
        self._left = len(self._tasks)
        self._waited = 0.0
        self._over_time = 0
        self._over_memory = 0
        self._never: Counter[tuple[str, str]] = Counter()
        # When tasks next take other alternatives than their first.
        self._opening = math.inf

    def run(self) -> Outcome:
        """Let everything happen."""
        self._plan()
        agenda = self._agenda
        while agenda and self._left and not self._is_stuck():
            self._now = now = agenda[0][0]
            while agenda and agenda[0][0] <= now + _AT_ONCE:
                _, _, kind, subject, run = heappop(agenda)
                self._count_event(kind)
                self._happen(kind, subject, run)
            for start in self._scheduler.dispatch(now):
                self._start(start)
            opening = self._scheduler.next_time
            if opening not in (math.inf, self._opening):
                self._opening = opening
                self._at(opening, _OPEN, 0)
        self._count_stranded()
        for worker in self._workers.values():
            self._pay(worker, self._end)
        return Outcome(
            makespan=math.inf if self._never else max(0.0, self._end - self._first),
            worker_hours=self._there / 3600,
            core_hours=self._paid / 3600,
            busy=min(1.0, self._used / self._paid) if self._paid else 0.0,
            waited=self._waited / max(1, sum(task.count for task in self._tasks if task.runs)),
            over_time=self._over_time,
            over_memory=self._over_memory,
            never=dict(self._never),
        )

    def _at(self, time: float, kind: int, subject: int, run: int = 0) -> None:
        self._of_tasks += kind not in _OF_WORKERS
        heappush(self._agenda, (time, next(self._order), kind, subject, run))

    def _count_event(self, kind: int) -> None:
        """Count an event that has left the agenda."""
        if kind not in _OF_WORKERS:
            self._of_tasks -= 1
            self._vain_joins = 0
        elif kind == _JOIN:
            self._vain_joins += 1

    def _is_stuck(self) -> bool:
        """Return True if all that is still to happen is that workers replace each other."""
        workers = self._scenario.workers
        if workers is None or self._of_tasks:
            return False
        # Each of them was new once, with all its time, and started nothing of what waits.
        return self._vain_joins > workers.number

    def _plan(self) -> None:
        """Put on the agenda what does not depend on anything."""
        for index, task in enumerate(self._tasks):
            if task.after:
                self._needs[index] = len(task.after)
                for one in task.after:
                    self._waiters.setdefault(one, []).append(index)
            elif task.follows is not None:
                self._followers.setdefault(task.follows, []).append(index)
            else:
                self._at(task.delay, _SUBMIT, index)
        workers = self._scenario.workers
        if workers is not None:
            first = workers.joins + workers.queued
            for _ in range(workers.number):
                self._plan_worker(first)
        else:
            for number, stay in enumerate(self._stays):
                self._at(stay.joins, _JOIN, number)

    def _happen(self, kind: int, subject: int, run: int) -> None:
        if kind == _END:
            self._on_end(subject, run)
        elif kind == _SUBMIT:
            self._on_submit(subject)
        elif kind == _RESOLVE:
            self._resolve(subject)
        elif kind == _JOIN:
            self._on_join(subject)
        elif kind == _FALL_SILENT:
            self._on_silent(subject)
        elif kind == _LEAVE:
            self._on_leave(subject, drained=bool(run))
        # Nothing but time opens alternatives.

    # ---- workers

    def _plan_worker(self, joins: float) -> None:
        """Let one more of the scenario's workers join."""
        workers = self._scenario.workers
        assert workers is not None
        ends = None if workers.walltime is None else joins + workers.walltime
        number = len(self._stays)
        self._stays.append(Stay(f"w{number}", workers.resources, joins, ends=ends))
        self._at(joins, _JOIN, number)

    def _on_join(self, number: int) -> None:
        stay = self._stays[number]
        _, total = split_time(stay.resources)
        if stay.ends is not None:
            total = total & WTime(T=max(1e-3, stay.ends - stay.joins))
            self._at(stay.ends, _LEAVE, number)
        if stay.leaves is not None:
            self._at(stay.leaves, _LEAVE, number, not stay.lost)
        if stay.heard is not None:
            self._at(max(stay.heard, self._now), _FALL_SILENT, number)
        self._workers[number] = _Worker(_cores(total), self._now)
        self._scheduler.on_worker_joined(number, stay.name, total, self._now)

    def _on_silent(self, number: int) -> None:
        """Start and end nothing on a worker that has died, before it is given up."""
        if number in self._workers:
            self._take_the_same(number)
            self._scheduler.on_worker_draining(number)
            for index in self._running_on(number):
                self._progress[index].begun += 1

    def _take_the_same(self, number: int) -> None:
        """Have the tasks run on a worker that dies which were lost with it, where that is free.

        Which of several tasks that ask for the same is on which worker is a matter of chance: of
        milliseconds, or of what was sent ahead. But a loss costs as much as the task has run.
        """
        took = self._stays[number].took
        others = [index for index in self._running_on(number) if index not in took]
        tasks = self._scheduler.tasks
        for index in took:
            record = tasks.get(self._id(index))
            if record is None or record.worker is None or record.worker.id == number:
                continue
            if self._progress[index].seats:
                continue  # of a gang, another worker may be the one that is lost
            alike = [one for one in others if tasks[self._id(one)].queue is record.queue]
            if alike:
                self._exchange(index, alike[0])
                others.remove(alike[0])

    def _id(self, index: int) -> int:
        return self._ids.get(index, index)

    def _running_on(self, number: int) -> list[int]:
        ids = self._scheduler.workers[number].tasks
        found = (self._roots.get(id_, self._indices.get(id_, id_)) for id_ in ids)
        return list(dict.fromkeys(found))

    def _exchange(self, one: int, other: int) -> None:
        """Let two running tasks that ask for the same exchange their places."""
        id_, other_id = self._id(one), self._id(other)
        self._ids[one], self._ids[other] = other_id, id_
        self._indices[other_id], self._indices[id_] = one, other

    def _on_leave(self, number: int, *, drained: bool) -> None:
        worker = self._workers.get(number)
        if worker is None:
            return
        if drained and self._scheduler.workers[number].tasks:
            worker.draining = True
            self._scheduler.on_worker_draining(number)
            return
        del self._workers[number]
        heard = self._stays[number].heard
        until = self._now if heard is None else min(heard, self._now)
        self._pay(worker, until)
        if heard is None:
            self._take_the_same(number)
        lost = self._running_on(number)
        self._scheduler.on_worker_left(number)
        for index in lost:
            self._end_members(index)
            self._on_lost(index, until)
        workers = self._scenario.workers
        if workers is not None:
            self._plan_worker(self._now + workers.queued)

    def _end_members(self, index: int) -> None:
        """End what is left of a gang that has lost a worker, and let its task wait again."""
        task = self._progress[index]
        if not task.seats:
            return
        record = self._scheduler.tasks[self._id(index)]
        if record.worker is not None:  # the worker of another member has left
            self._scheduler.on_finished(record.id, self._now, measured=False)
            urgency = self._tasks[index].urgency
            self._scheduler.on_submitted(record.id, record.queue, record.age, urgency)
        self._end_seats(task)

    def _end_seats(self, task: _Progress) -> None:
        for seat in task.seats:
            del self._roots[seat]
            if seat in self._scheduler.tasks:
                self._scheduler.on_finished(seat, self._now, measured=False)
        task.seats = ()

    def _pay(self, worker: _Worker, until: float) -> None:
        seconds = max(0.0, until - worker.joined)
        self._there += seconds
        self._paid += worker.cores * seconds

    def _on_lost(self, index: int, at: float) -> None:
        """Let a task wait again whose run ended when its worker died, as is known by now."""
        task = self._progress[index]
        self._used += task.cores * max(0.0, at - task.began)
        task.queued = self._now
        task.begun += 1
        task.losses += 1
        if task.losses >= _LOSSES:
            self._scheduler.on_cancelled(self._id(index))
            del self._progress[index]
            self._strand(index, f"it was lost with its worker {_LOSSES} times")

    # ---- tasks

    def _on_submit(self, index: int) -> None:
        for one in self._followers.pop(index, ()):
            self._at(self._now + self._tasks[one].delay, _SUBMIT, one)
        self._first = min(self._first, self._now)
        task = self._tasks[index]
        if not task.runs:
            # It never ran. Its end is there for what waits for it, and for nothing else.
            if index in self._waiters:
                self._at(self._now + task.waited, _RESOLVE, index)
            else:
                self._left -= 1
            return
        request, why_never = self._request(task)
        if why_never or (why_never := self._too_long(task)):
            self._strand(index, why_never)
            return
        queue = self._scheduler.queue(request, task.priority)
        self._progress[index] = _Progress(self._now)
        self._scheduler.on_submitted(self._id(index), queue, urgency=task.urgency)

    def _start(self, start: Start) -> None:
        # By its id a task may have exchanged its place with another one: nothing else is kept.
        index = self._indices.get(start.task, start.task)
        logged, task = self._tasks[index], self._progress[index]
        seconds = logged.runs[min(task.run, len(logged.runs) - 1)].seconds
        task.cut = seconds > start.limit
        if not task.begun and logged.peak_memory is not None:
            memory = start.allocation.get(Memory)
            self._over_memory += memory is not None and logged.peak_memory > memory.M
        task.cores = _cores(start.allocation) + sum(_cores(held) for _, _, held in start.seats)
        task.seats = tuple(seat for _, seat, _ in start.seats)
        self._roots |= dict.fromkeys(task.seats, index)
        task.begun += 1
        task.began = self._now
        self._waited += (self._now - task.queued) * logged.count
        self._at(self._now + min(seconds, start.limit), _END, index, task.begun)

    def _on_end(self, index: int, begun: int) -> None:
        task = self._progress.get(index)
        if task is None or task.begun != begun:
            return  # that run was lost
        ended = self._scheduler.tasks[self._id(index)]
        assert ended.worker is not None
        number = ended.worker.id
        logged = self._tasks[index]
        crashed = not task.cut and logged.runs[task.run].crashed
        self._used += task.cores * (self._now - task.began)
        self._over_time += task.cut
        others = {self._scheduler.tasks[seat].worker for seat in task.seats}
        self._end_seats(task)
        self._scheduler.on_finished(ended.id, self._now, measured=not (task.cut or crashed))
        if crashed and task.run + 1 < len(logged.runs):
            task.run += 1
            task.queued = self._now
            self._scheduler.on_submitted(self._id(index), ended.queue, ended.age, logged.urgency)
        else:
            del self._progress[index]
            self._resolve(index)
        for one in [number, *(worker.id for worker in others if worker is not None)]:
            if self._workers[one].draining:
                self._on_leave(one, drained=True)

    def _resolve(self, index: int) -> None:
        """End a task; submit what waits for it."""
        self._left -= 1
        if self._tasks[index].runs:
            self._end = self._now
        for one in self._waiters.pop(index, ()):
            self._needs[one] -= 1
            if not self._needs[one]:
                self._at(self._now + self._tasks[one].delay, _SUBMIT, one)

    # ---- tasks that never end

    def _request(self, task: LoggedTask) -> tuple[Resource, str]:
        """Return what a task asks for here, and why no worker can ever meet it, or nothing."""
        # Equal requests of a workload are one object.
        key = task.function, id(task.request)
        entry = self._requests.get(key)
        if entry is None:
            request = self._scenario.request(task.function, task.request)
            entry = self._requests[key] = request, self._why_never(request)
        return entry

    def _why_never(self, request: Resource) -> str:
        whys = [self._why_never_by(one) for one in request.alternatives()]
        return "" if "" in whys else ", and ".join(dict.fromkeys(whys))

    def _why_never_by(self, request: Resource) -> str:
        wtime, space = split_time(request)
        workers = self._scenario.workers
        count = request.count if isinstance(request, Gang) else 1
        number = len(self._stays) if workers is None else workers.number
        if number < count:
            there = f"is {number}" if number == 1 else f"are {number}"
            return f"it needs {count} workers at once, and there {there}"
        offers = {stay.resources for stay in self._stays}
        whys = []
        for offer in offers:
            supply = Supply(split_time(offer)[1])
            if supply.total.request(space):
                limit = None if wtime is None else wtime.softT
                walltime = None if workers is None else workers.walltime
                if limit is None or walltime is None or limit <= walltime:
                    return ""
                whys.append(f"its time limit is {limit:.0f} s, and workers live for {walltime:.0f}")
            else:
                whys.append(supply.why_never(space))
        return whys[0]

    def _too_long(self, task: LoggedTask) -> str:
        """Return why a task outlives any worker, or nothing."""
        workers = self._scenario.workers
        if workers is None or workers.walltime is None:
            return ""
        times = [split_time(one)[0] for one in self._request(task)[0].alternatives()]
        limits = [math.inf if one is None or one.T is None else one.T for one in times]
        longest = min(max(limits), max(run.seconds for run in task.runs))
        if longest <= workers.walltime:
            return ""
        return f"it runs longer than workers live, which is {workers.walltime:.0f} s"

    def _strand(self, index: int, why: str) -> None:
        self._left -= 1
        self._add_never(self._tasks[index].function, why)
        self._end = max(self._end, self._now)

    def _add_never(self, function: str, why: str) -> None:
        self._never[function, why] += 1

    def _count_stranded(self) -> None:
        """Count what neither ended nor can."""
        if not self._left:
            return
        for index in self._progress:
            self._add_never(self._tasks[index].function, "no worker is left for it")
        rest = self._left - len(self._progress)
        if rest:
            self._never["", "the tasks that they wait for never end"] += rest


def _cores(resources: Resource) -> float:
    cores = resources.get(Cores)
    return cores.amount if isinstance(cores, Cores) else 0.0
