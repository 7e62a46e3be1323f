"""Deliberate mistakes, each of which the laws have to find: the test of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.head.hub.functions import FunctionTable
from grain.head.hub.missions import Missions
from grain.head.hub.tasks.outcomes import Outcomes
from grain.head.hub.tasks.runs import Runs
from grain.head.hub.tasks.waiting import Waiting
from grain.head.hub.workers import Workers
from grain.remote_exer import MissionSession, Resolution
from grain.worker.agent.session import SessionState, WorkerSession
from simulation.cast import Cast, faulty
from simulation.mistakes.displays import DISPLAY_SLIPS
from simulation.mistakes.lanes import LANE_SLIPS
from simulation.mistakes.slips import SLIPS

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from grain.head.hub.state import LeaseRecord, MissionRecord, TaskRecord, WorkerRecord
    from grain.worker.messages import InventoryRun, Outlived, RunEnded


def free_when_link_is_lost(self: Workers, link: object, now: float, *, ended: bool = False) -> None:
    record = self.links.get(link)
    Workers.on_link_lost(self, link, now, ended=ended)
    for lease in list(record.leases.values()) if record is not None else ():
        self._runs.on_run_lost(lease, None, now)


def begin_again(self: WorkerSession, lease: Any, arguments: Payload, now: float) -> None:
    self._arrived.last.clear()
    WorkerSession._begin(self, lease, arguments, now)


def send_and_forget(self: WorkerSession, lease: Any, *args: Any, **kwargs: Any) -> None:
    WorkerSession._report_end(self, lease, *args, **kwargs)
    if self.connected:
        del self.kept.by_attempt[lease.attempt]


def acknowledge_at_once(
    self: Runs, record: WorkerRecord, ended: RunEnded, payload: Payload, now: float
) -> None:
    Runs.on_run_ended(self, record, ended, payload, now)
    self._outgoing.acknowledge(record.link, ended.attempt)


def resolve_again(
    self: MissionSession,
    task: int,
    ending: Any,
    payload: Payload,
    crashes: Any,
    report: bytes = b"",
    gpus: tuple[int, ...] = (),
) -> None:
    first = task in self.pending
    MissionSession._resolve(self, task, ending, payload, crashes, report, gpus)
    if not first:
        self.resolved.append(Resolution(task, ending, payload, crashes))


def no_epoch(self: Runs, *args: Any, **kwargs: Any) -> None:
    Runs.__init__(self, *args, **kwargs)
    self._epoch = 0


def time_alone(nanoseconds: int, chance: int) -> int:
    return nanoseconds // 1_000_000


def end_inventory_again(self: Workers, record: WorkerRecord, now: float) -> None:
    if record.serving:
        for lease in list(record.leases.values()):
            self._runs.on_run_lost(lease, None, now)
    Workers._on_inventory_end(self, record, now)


def take_stale_failures(
    self: Runs, record: WorkerRecord, ended: RunEnded, payload: Payload, now: float
) -> None:
    lease = record.leases.get(ended.attempt)
    task = self._task_of(ended)
    stopped = ended.status == "cancelled"
    if stopped and lease is not None and task is not None and not task.retracted:
        self._end(lease, now, measured=False)
        self._outcomes.resolve(task, "error", None, (record.id, ended.attempt))
        return
    Runs.on_run_ended(self, record, ended, payload, now)


def drains_are_crashes(
    self: Workers,
    record: WorkerRecord,
    how: str | None,
    now: float,
    why: str = "",
    over: float | None = None,
    told: str = "",
    *,
    known: bool = False,
) -> None:
    how = how or "its worker was lost"
    Workers._remove(self, record, how, now, why, over, told, known=known)


def forget_retractions(self: MissionSession) -> None:
    MissionSession.on_connected(self)
    self.to_head[:] = [pair for pair in self.to_head if type(pair[0]).__name__ != "Retract"]


def discard_quietly(self: Outcomes, task: TaskRecord, *, retried: bool = False) -> None:
    lease = task.lease
    task.lease = None
    Outcomes.discard(self, task, retried=retried)
    if lease is not None:
        lease.task = None


def never_count(
    self: Outcomes,
    lease: LeaseRecord,
    task: TaskRecord,
    how: str | None,
    now: float,
    report: bytes = b"",
    outlived: Outlived | None = None,
    **more: Any,
) -> None:
    Outcomes.run_again(self, lease, task, None, now, report, outlived, **more)


def never_alone(self: Waiting, task: TaskRecord, now: float, *, has_run: bool = True) -> None:
    course = task.alter()
    crashes, course.crashes = course.crashes, ()
    Waiting.enqueue(self, task, now, has_run=has_run)
    course.crashes = crashes


def serve_unreported(self: Workers, link: object, message: Any, now: float) -> None:
    Workers._register(self, link, message, now)
    record = self.links.get(link)
    if record is not None and not record.draining:
        self._scheduler.on_worker_back(record.number)


def begin_while_draining(self: WorkerSession, lease: Any, arguments: Payload, now: float) -> None:
    state, self.state = self.state, SessionState.WORKING
    WorkerSession._begin(self, lease, arguments, now)
    self.state = state


def hold_nothing(
    self: Runs,
    lease: LeaseRecord,
    held: InventoryRun,
    record: MissionRecord,
    task: TaskRecord | None,
    now: float,
) -> None:
    pass


def register_mission_late(self: Missions, link: object, message: Any, now: float) -> None:
    self.get(message.mission, now).connection = 0
    Missions._register(self, link, message, now)


def register_worker_late(self: Workers, link: object, message: Any, now: float) -> None:
    record = self._registry.workers.get(message.worker)
    if record is not None:
        record.connection = 0
    Workers._register(self, link, message, now)


def submit_again(self: Missions, record: MissionRecord, *args: Any) -> None:
    record.on_link.last_submitted = -1
    Missions._submit(self, record, *args)


def forget_too_much(self: FunctionTable, wanted: set[bytes]) -> None:
    before = {record: set(record.functions) for record in self._registry.workers.values()}
    FunctionTable._forget_all_but(self, set())
    for record, digests in before.items():
        record.functions = digests


def keep_unclaimed(self: Missions, record: MissionRecord, now: float) -> None:
    for task in record.tasks.values():
        task.claimed = True
    Missions._on_synced(self, record, now)


def wait_for_the_dead(self: Missions, id: str, now: float) -> None:  # noqa: A002 - its name
    pass


def forget_who_cancelled(self: Missions, link: object, message: Any, now: float) -> None:
    record = self._missions.get(message.mission)
    if record is not None:
        record.cancelled.clear()
    Missions._register(self, link, message, now)


def give_up_the_silent(self: Missions, now: float) -> None:
    for record in list(self._missions.values()):
        if record.link is not None and now % 60 < 1:
            self._give_up(record, now)
    Missions.on_tick(self, now)


def keep_the_link_of_the_given_up(self: Missions, record: MissionRecord, now: float) -> None:
    links = dict(self.links)
    Missions._remove(self, record, now)
    self.links.update(links)


def adopt_nothing(
    self: Runs, record: WorkerRecord, held: InventoryRun, owner: MissionRecord, now: float
) -> None:
    if not owner.synced:
        return
    Runs.adopt(self, record, held, owner, now)


BUGS: dict[str, Cast] = {
    "resources are free when a connection is lost": faulty(
        Workers, on_link_lost=free_when_link_is_lost
    ),
    "a worker begins a lease as often as it comes": faulty(WorkerSession, _begin=begin_again),
    "a worker forgets an outcome once it is sent": faulty(
        WorkerSession, _report_end=send_and_forget
    ),
    "a head acknowledges outcomes that no mission has": faulty(
        Runs, on_run_ended=acknowledge_at_once
    ),
    "a mission takes a second resolution": faulty(MissionSession, _resolve=resolve_again),
    "two heads use the same attempts": faulty(Runs, __init__=no_epoch),
    "the epoch of a head is the time of its clock": Cast(epoch=time_alone),
    "a repeated report ends new leases": faulty(Workers, _on_inventory_end=end_inventory_again),
    "a stale cancellation resolves a task": faulty(Runs, on_run_ended=take_stale_failures),
    "a drained worker's runs count as crashed": faulty(Workers, _remove=drains_are_crashes),
    "a mission forgets to retract again": faulty(MissionSession, on_connected=forget_retractions),
    "runs that nobody wants go on": faulty(Outcomes, discard=discard_quietly),
    "crashes are never counted": faulty(Outcomes, run_again=never_count),
    "suspects run beside others": faulty(Waiting, enqueue=never_alone),
    "leases go to workers that have not reported": faulty(Workers, _register=serve_unreported),
    "a draining worker begins runs": faulty(WorkerSession, _begin=begin_while_draining),
    "adopted runs hold nothing": faulty(Runs, _hold=hold_nothing),
    "a mission's registration on a lost connection counts": faulty(
        Missions, _register=register_mission_late
    ),
    "a worker's registration on a lost connection counts": faulty(
        Workers, _register=register_worker_late
    ),
    "a submission counts as often as it comes": faulty(Missions, _submit=submit_again),
    "functions in use are forgotten": faulty(FunctionTable, _forget_all_but=forget_too_much),
    "tasks that their mission does not want are kept": faulty(Missions, _on_synced=keep_unclaimed),
    "a mission whose process has ended is waited for": faulty(Missions, on_ended=wait_for_the_dead),
    "a cancellation from outside is lost with the connection": faulty(
        Missions, _register=forget_who_cancelled
    ),
    "a mission that is silent is given up": faulty(Missions, on_tick=give_up_the_silent),
    "a mission that has left is taken for connected": faulty(
        Missions, _remove=keep_the_link_of_the_given_up
    ),
    "runs that workers report are not adopted": faulty(Runs, adopt=adopt_nothing),
    **{name: slip.cast() for name, slip in (SLIPS | LANE_SLIPS | DISPLAY_SLIPS).items()},
}
"""Each bug by what it is, as the classes of a world that has it."""
