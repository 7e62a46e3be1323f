"""The campaign through a real scheduler, in virtual time: its log has what a mission would write.

The hub decides what starts, and tells the mission; the mission's log records that as it does
outside of tests. Workers only let time pass. Their clocks are right, and messages take no time.
"""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.eventlog.schema import VERSION, LogEnded, LogStarted
from grain.eventlog.usage import BRIEF, RunReport, encode_report
from grain.head.base import CallKind, SubmittedTask
from grain.head.hub.hub import Hub
from grain.head.messages import (
    AckTasks,
    Crashed,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
    WorkerEnded,
    WorkerFacts,
)
from grain.head.run_log import RunLog
from grain.resource import Cores, GPUs, Memory, WTime, to_data
from grain.worker.messages import (
    DefineFunction,
    InventoryEnd,
    Lease,
    RegisterWorker,
    RunEnded,
)
from grain_testkit.campaign import BEGAN, FUNCTIONS, Failure, plan_failures
from grain_testkit.kept_lines import KeptLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.eventlog.schema import AnyLine
    from grain.resource import Resource
    from grain.worker.messages import Attempt

_MISSION = "m"
_RANKS = 12
_GRACE = 60.0


class Shift(NamedTuple):
    """The time of a worker, in seconds since the campaign began.

    Attributes:
        cores: that it offers.
        joins: when it joins.
        killed: when it is killed; it is given up after the scheduler's grace period. None if it
            stays.
    """

    cores: int = 4
    joins: float = 0.0
    killed: float | None = None


class _Call(NamedTuple):
    function: str
    molecule: int
    after: int
    retry_of: int


class HubCampaign:
    """A campaign, run when it is made.

    Args:
        molecules: how many, 22 at least.
        shifts: its workers.
        gpu_tasks: tasks that no worker has room for.
        at_once: how many molecules are on their way at a time.
        seed: of the times.

    Attributes:
        lines: of its log.
        took: the seconds from its beginning to the end of the last run.
    """

    def __init__(
        self,
        molecules: int,
        *shifts: Shift,
        gpu_tasks: int = 0,
        at_once: int = 10**6,
        seed: int = 1,
    ) -> None:
        self.now = self.took = 0.0
        self._rng = random.Random(seed)
        self._failing = plan_failures(molecules, self._rng)
        self._molecules = iter(range(1, molecules + 1))
        self._group = -(-molecules // _RANKS)
        self._left = [min(self._group, molecules - at) for at in range(0, molecules, self._group)]
        self._hub = Hub(1, 0.0, grace=_GRACE, wall=BEGAN)
        kept = KeptLines(BEGAN)
        self._kept = kept
        self._log = RunLog(kept, _MISSION, lambda: self.now)
        self._tasks: dict[int, SubmittedTask] = {}
        self._calls: dict[int, _Call] = {}
        self._log.follow(self._tasks)
        self._requests: dict[str, tuple[int, Resource]] = {}
        self._kinds: dict[str, CallKind] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._living: set[str] = set()
        self._runs: dict[Attempt, str] = {}
        self._docking: list[int] = []
        self._to_hub(_MISSION, RegisterMission(_MISSION, "campaign"))
        for _ in range(gpu_tasks):
            self._docking.append(self._submit(_Call("dock", 0, 0, 0)))
        for _ in range(min(at_once, molecules)):
            self._begin()
        self._to_hub(_MISSION, Synced())
        for number, shift in enumerate(shifts, 1):
            self._plan(f"n{number:02}", shift)
        self._run()
        self._log.close()
        started = LogStarted(
            time=BEGAN, version=VERSION, grain="1.0.0", id=_MISSION,
            name="campaign",
        )  # fmt: skip
        self.lines: list[AnyLine] = [
            started, *kept.lines, LogEnded(time=BEGAN + self.now, status="done")
        ]  # fmt: skip

    # ---- time

    def _at(self, time: float, what: Callable[[], None]) -> None:
        heappush(self._agenda, (max(time, self.now), next(self._order), what))

    def _run(self) -> None:
        ticks = 1.0
        self._settle()
        while len(self._tasks) > len(self._docking):
            if not self._agenda or self._agenda[0][0] > ticks:
                self.now = ticks
                ticks += 1.0
                self._kept.flush()
                self._hub.on_tick(self.now)
            else:
                self.now, _, what = heappop(self._agenda)
                what()
            self._settle()
        for task in self._docking:
            self._to_hub(_MISSION, Retract((task,)))
        self._docking.clear()
        self._settle()

    def _settle(self) -> None:
        """Deliver messages until there are none."""
        self._hub.dispatch(self.now)
        while mail := self._hub.take():
            for link, messages in mail.items():
                for message, _ in messages:
                    if link == _MISSION:
                        self._on_mission(message)
                    elif link in self._living:
                        self._on_worker(str(link), message)
            self._hub.dispatch(self.now)

    def _to_hub(self, link: str, message: Any, payload: bytes | None = None) -> None:
        self._hub.on_message(link, message, payload, self.now)

    # ---- the mission

    def _begin(self) -> None:
        """Let the next molecule begin."""
        molecule = next(self._molecules, 0)
        if molecule:
            self._submit(_Call("prepare", molecule, 0, 0))

    def _submit(self, call: _Call) -> int:
        name = call.function
        if name not in self._requests:
            one = FUNCTIONS[name]
            request = Cores(one.cores) & Memory(one.memory) & WTime(T=one.limit)
            request = request & GPUs(1) if name == "dock" else request
            self._requests[name] = len(self._requests), request
            self._kinds[name] = CallKind(name, one.cores)
            self._to_hub(_MISSION, Request(self._requests[name][0], to_data(request)))
            self._to_hub(_MISSION, DefineFunction(name.encode(), name), b"")
        number, request = self._requests[name]
        task = len(self._calls) + 1
        self._calls[task] = call
        urgency = 5e-324 if call.retry_of else 0.0
        self._tasks[task] = SubmittedTask(
            name, request, self._kinds[name], urgency=urgency, after=call.after,
            submitted=self._log.tick(),
        )  # fmt: skip
        if call.retry_of:
            self._log.retried(task, call.retry_of)
        self._to_hub(_MISSION, Submit(task, number, name.encode(), urgency=urgency), b"")
        return task

    def _on_mission(self, message: Any) -> None:
        match message:
            case Resolved():
                self._resolve(message)
            case Retracted():
                record = self._tasks.pop(message.task)
                self._log.ended(message.task, None, record=record, cancelled=True)
                self._to_hub(_MISSION, AckTasks((message.task,)))
            case Started() | WorkerFacts() | WorkerEnded() | Crashed():
                self._log.on_messages([message])

    def _resolve(self, message: Resolved) -> None:
        task = message.task
        record, call = self._tasks.pop(task), self._calls[task]
        error = None if message.ending == "value" else ValueError(call.function)
        self._log.tick()
        if error is None and record.submitted is not None and not self._log.room:
            seconds = message.report
            assert isinstance(seconds, float)
            self._log.count(record, 1, seconds, record.submitted)
        else:
            self._log.ended(task, error, record=record, report=message.report)
        self._to_hub(_MISSION, AckTasks((task,)))
        self.took = self.now
        failure = self._failure(task)
        if error is None and call.function in {"prepare", "optimise"}:
            following = "optimise" if call.function == "prepare" else "energy"
            self._submit(_Call(following, call.molecule, task, 0))
        elif error is not None and not call.retry_of and (failure is None or failure.retried):
            self._submit(_Call(call.function, call.molecule, task, task))
        elif call.function != "rank":
            self._begin()
            group = (call.molecule - 1) // self._group
            self._left[group] -= 1
            if not self._left[group]:
                self._submit(_Call("rank", group, task, 0))

    def _failure(self, task: int) -> Failure | None:
        call = self._calls[task]
        return self._failing.get((call.function, call.molecule))

    # ---- workers

    def _plan(self, name: str, shift: Shift) -> None:
        def join() -> None:
            self._living.add(name)
            offer = {"Cores": shift.cores, "Memory": 16.0}
            self._to_hub(name, RegisterWorker(name, name, name, offer, connection=1))
            self._to_hub(name, InventoryEnd())

        def die() -> None:
            self._living.discard(name)
            self._runs = {run: where for run, where in self._runs.items() if where != name}

        def lose() -> None:
            assert shift.killed is not None
            self._hub.on_link_lost(name, self.now, self.now - shift.killed)

        self._at(shift.joins, join)
        if shift.killed is not None:
            self._at(shift.killed, die)
            self._at(shift.killed + 10.0, lose)

    def _on_worker(self, name: str, message: Any) -> None:
        if isinstance(message, Lease):
            self._start(name, message)

    def _start(self, name: str, lease: Lease) -> None:
        self._runs[lease.attempt] = name
        call = self._calls[lease.task]
        seconds = FUNCTIONS[call.function].seconds * self._rng.lognormvariate(0, 0.4)
        failing = (call.function, call.molecule) in self._failing
        failure = self._failure(lease.task)
        fails = failing and (failure is not None or not call.retry_of)
        if failure is not None and failure.error == "TooSlowError":
            seconds = FUNCTIONS[call.function].limit
        self._at(self.now + seconds, lambda: self._end(name, lease, seconds, fails=fails))

    def _end(self, name: str, lease: Lease, seconds: float, *, fails: bool) -> None:
        if self._runs.pop(lease.attempt, None) is None:
            return  # its worker was killed
        report: bytes | float = seconds
        if fails or seconds > BRIEF:
            now = BEGAN + self.now
            report = encode_report(RunReport(started=now - seconds, ended=now, host=name))
        status = "error" if fails else "value"
        ended = RunEnded(lease.mission, lease.task, lease.attempt, status, report=report)  # type: ignore[arg-type]
        self._to_hub(name, ended, b"")
