"""The tool that runs Grain under faults: its schedule, its books, and above all its judge."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
from fake_batch.start import until
from tools import soak
from tools.chaos import job
from tools.chaos.books import BEGINS, MEMBER, QUEUE, Book, expected, read_lines
from tools.chaos.judge import CANCELLED, GANGS, LAWS, Ending, Event, Evidence, QueuedJob, judge
from tools.chaos.mission import Mission
from tools.chaos.processes import Marked, marked, role_of, task_of
from tools.chaos.schedule import (
    AT_BRIDGE,
    AT_QUEUE,
    BUSY,
    LOCAL,
    LOGINS,
    STRIKES,
    MissionPlan,
    TaskPlan,
    make_schedule,
)

from grain.head.errors import TaskCrashed
from grain.head.messages import Crash

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE = 30.0
PROGRAM, FAILING, RAISING = (
    TaskPlan("program", 1.0),
    TaskPlan("failing", 1.0),
    TaskPlan("raising", 0),
)


# ---- the schedule


def test_a_seed_has_one_schedule() -> None:
    assert make_schedule(7, 600, grace=GRACE) == make_schedule(7, 600, grace=GRACE)
    assert make_schedule(7, 600, grace=GRACE) != make_schedule(8, 600, grace=GRACE)


def test_a_seed_has_the_same_schedule_on_every_machine() -> None:
    first = make_schedule(7, 600, grace=GRACE).faults[0]

    # Python's generator gives the same numbers in all versions.
    assert (1.1, "kill", "subreaper") == (round(first.at, 1), first.kind, first.target)


def test_missions_do_not_depend_on_which_faults_there_are() -> None:
    kills = tuple(one for one in STRIKES if one.kind == "kill")
    few = make_schedule(7, 600, grace=GRACE, strikes=kills)

    assert make_schedule(7, 600, grace=GRACE).missions == few.missions
    assert {"kill"} == {one.kind for one in few.faults}


def test_times_in_which_gnaw_is_busy_leave_the_other_faults_as_they_are() -> None:
    without = make_schedule(7, 600, grace=GRACE)
    busy = make_schedule(7, 600, grace=GRACE, strikes=(*STRIKES, BUSY))

    assert without.faults == tuple(one for one in busy.faults if one.kind != "busy")
    assert len(without.faults) < len(busy.faults)


def test_faults_of_the_dispatcher_leave_the_others_as_they_are_and_jobs_depend_on_none() -> None:
    without = make_schedule(7, 600, grace=GRACE)
    both = make_schedule(7, 600, grace=GRACE, strikes=(*STRIKES, *AT_QUEUE))

    assert without.faults == tuple(one for one in both.faults if one.target != "dispatcher")
    assert {"kill", "stop"} == {one.kind for one in both.faults if one.target == "dispatcher"}
    assert without.jobs == both.jobs
    assert 0 < sum(job.cancel_after is not None for job in both.jobs) < len(both.jobs)


def test_the_time_of_a_worker_depends_only_on_seed_transport_and_number() -> None:
    first, again = (make_schedule(7, seconds, grace=GRACE) for seconds in (60, 600))
    times = [first.worker_time("tcp", number) for number in range(1, 100)]

    assert times == [again.worker_time("tcp", number) for number in range(1, 100)]
    assert 20.0 <= min(times) <= 60.0
    assert math.inf == max(times)
    assert {math.inf} == {first.worker_time("unix", number) for number in range(1, 100)}


def test_some_missions_are_detached_on_each_login_host() -> None:
    missions = make_schedule(7, 3000, grace=GRACE).missions

    assert set(range(LOGINS + 1)) == {one.login for one in missions}


def test_a_schedule_is_within_its_time_and_has_every_kind_of_fault() -> None:
    strikes = (*STRIKES, *AT_BRIDGE, BUSY)
    schedule = make_schedule(1, 3000, grace=GRACE, strikes=strikes)
    times = [one.at for one in schedule.faults]

    assert {(one.kind, one.target) for one in strikes} == {
        (one.kind, one.target) for one in schedule.faults
    }
    assert sorted(times) == times
    assert 0 < times[0] < times[-1] < 3000
    assert all(
        bool(one.seconds) == (one.kind in {"stop", "cut", "fill", "away", "busy"})
        for one in schedule.faults
    )
    assert any(one.seconds > GRACE for one in schedule.faults)
    kinds = {task.kind for mission in schedule.missions for task in mission.tasks}
    assert {"program", "failing", "brief", "raising", "gang"} == kinds
    assert {"delayed", "executor", "serial", *LOCAL} == {one.interface for one in schedule.missions}
    assert {1, 2} == {one.workers for one in schedule.jobs}
    assert not any(
        task.kind == "gang"
        for one in schedule.missions
        if one.interface in LOCAL
        for task in one.tasks
    )


# ---- the judge


class MadeUp:
    """Made-up evidence: two missions of 12 programs each, of which nothing is to be blamed."""

    def __init__(self) -> None:
        tasks = (*[PROGRAM] * 10, FAILING, RAISING)
        self.plans = [MissionPlan(name, 0.0, "delayed", tasks) for name in ("m0", "m1")]
        self.lines: list[dict[str, Any]] = []
        self.codes: dict[str, int | None] = {"m0": 0, "m1": 0}
        # Faults that hit no process here.
        self.events = [self.event("kill", "runner", "far-1", float(n)) for n in range(5)]
        self.more: dict[str, Any] = {}
        for plan in self.plans:
            for number in range(len(tasks)):
                self.run(plan.name, number)
                self.resolve(plan.name, number)

    @staticmethod
    def event(
        kind: str, target: str, owner: str, at: float, until: float = 0.0, task: Any = None
    ) -> Event:
        return Event(kind, target, owner, task, at, max(at, until))

    def run(
        self, mission: str, task: int, at: float = 100.0, worker: str = "unix-1", end: bool = True
    ) -> None:
        run = f"{mission}.{task}.{at}"
        start = {"what": "start", "mission": mission, "task": task, "at": at, "run": run}
        self.lines.append({**start, "worker": worker, "alone": True, "taken": []})
        if end:
            self.lines.append(
                {"what": "end", **{k: start[k] for k in start if k != "what"}, "at": at + 1}
            )

    def resolve(self, mission: str, task: int, at: float = 101.5, **more: Any) -> None:
        line = {"what": "resolved", "mission": mission, "task": task, "at": at}
        if not more:
            error = {10: "ExternalError 3", 11: f"ValueError ({task},)"}.get(task)
            value = {
                "run": f"{mission}.{task}.100.0",
                "value": expected(mission, task),
                "whole": True,
            }
            more = value if error is None else {"error": error}
        self.lines.append({**line, **more})

    def drop(self, what: str, mission: str, task: int) -> None:
        key = (what, mission, task)
        self.lines = [
            one for one in self.lines if (one["what"], one["mission"], one["task"]) != key
        ]

    def change(self, what: str, mission: str, task: int, place: int = 0, **more: Any) -> None:
        key = (what, mission, task)
        lines = [one for one in self.lines if (one["what"], one["mission"], one["task"]) == key]
        lines[place].update(more)

    def gang(self, **more: Any) -> None:
        """Make task 3 of m0 a gang of tcp-1 and unix-1, whose member on tcp-1 has a line."""
        plan = self.plans[0]
        tasks = (*plan.tasks[:3], TaskPlan("gang", 1.0), *plan.tasks[4:])
        self.plans[0] = dataclasses.replace(plan, tasks=tasks)
        self.change("start", "m0", 3, gang=["unix-1", "tcp-1"])
        line = next(one for one in self.lines if one["mission"] == "m0" and one["task"] == 3)
        name = {"what": MEMBER, "run": "tcp-1.5.6", "worker": "tcp-1"}
        self.lines.append({**line, **name, **more})

    def again(self, at: float = 130.0, worker: str = "unix-2") -> None:
        """Begin task 3 of m0 again, instead of its end at first."""
        self.drop("end", "m0", 3)
        self.drop("resolved", "m0", 3)
        self.run("m0", 3, at, worker)
        value = {"run": f"m0.3.{at}", "value": expected("m0", 3), "whole": True}
        self.resolve("m0", 3, at + 2, **value)

    def broken(self) -> list[str]:
        endings = [Ending(plan, self.codes[plan.name]) for plan in self.plans]
        names = ("unix-1", "unix-2", "tcp-1", "reverse-1", "files-1", "relay-1")
        transports = {name: name.split("-")[0] for name in names}
        evidence = Evidence(GRACE, self.lines, self.events, endings, transports, **self.more)
        return sorted({one.law for one in judge(evidence).violations})


def lost(case: MadeUp) -> None:
    case.drop("resolved", "m1", 4)


def doubled(case: MadeUp) -> None:
    case.resolve("m1", 4, 103.0)


def wrong_value(case: MadeUp) -> None:
    case.change("resolved", "m1", 4, value=1)


def wrong_data(case: MadeUp) -> None:
    case.change("resolved", "m1", 4, whole=False)


def wrong_error(case: MadeUp) -> None:
    case.drop("resolved", "m1", 4)
    case.resolve("m1", 4, error="ExternalLostError ()")


def wrong_success(case: MadeUp) -> None:
    case.drop("resolved", "m1", 10)
    case.resolve("m1", 10, run="m1.10.100.0", value=expected("m1", 10), whole=True)


def result_of_no_run(case: MadeUp) -> None:
    case.drop("end", "m1", 4)


def given_up_after_four_crashes(case: MadeUp) -> None:
    crashes(case, 4)


def failed(case: MadeUp) -> None:
    case.codes["m1"] = 1


def failed_by_its_own_signal(case: MadeUp) -> None:
    case.codes["m1"] = -11


def hung(case: MadeUp) -> None:
    case.codes["m1"] = None
    case.drop("resolved", "m1", 4)


def restarted(case: MadeUp) -> None:
    case.again()


def restarted_by_the_fault_of_another_worker(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "runner", "tcp-1", 110.0))


def restarted_by_a_fault_that_came_later(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "runner", "unix-1", 131.0))


def restarted_by_a_fault_that_came_before(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "runner", "unix-1", 90.0))


def restarted_by_the_supervisor_of_another_task(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "supervisor", "unix-1", 110.0, task=("m0", 4)))


def restarted_by_gnaws_death(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "gnaw", "", 110.0))


def restarted_over_files_by_gnaws_death(case: MadeUp) -> None:
    case.again(160.0)
    case.change("start", "m0", 3, worker="files-1")
    case.events.append(case.event("kill", "gnaw", "", 110.0))


def restarted_by_a_short_cut(case: MadeUp) -> None:
    case.drop("start", "m0", 3)
    case.run("m0", 3, 100.0, "tcp-1", end=False)
    case.again()
    case.events.append(case.event("cut", "tcp", "", 105.0, 110.0))


def restarted_by_the_cut_of_another_transport(case: MadeUp) -> None:
    case.again(160.0)
    case.events.append(case.event("cut", "tcp", "", 105.0, 150.0))


def restarted_by_a_cut_that_no_gang_minds(case: MadeUp) -> None:
    case.gang()
    case.again(129.0)
    case.events.append(case.event("cut", "tcp", "", 105.0, 124.0))


def restarted_without_a_gang_by_a_cut_of_less_than_a_grace_period(case: MadeUp) -> None:
    case.drop("start", "m0", 3)
    case.run("m0", 3, 100.0, "tcp-1", end=False)
    case.again(129.0)
    case.events.append(case.event("cut", "tcp", "", 101.0, 122.0))


def restarted_by_a_stopped_runner(case: MadeUp) -> None:
    case.again(160.0)
    case.events.append(case.event("stop", "runner", "unix-1", 105.0, 150.0))


def restarted_by_a_busy_gnaw(case: MadeUp) -> None:
    case.again(160.0)
    case.events.append(case.event("busy", "gnaw", "", 105.0, 150.0))


def restarted_by_a_bridge_that_was_away_for_a_moment(case: MadeUp) -> None:
    case.again()
    case.change("start", "m0", 3, worker="relay-1")
    case.events.append(case.event("away", "bridge", "", 105.0, 110.0))


def restarted_before_the_time_of_its_worker_was_over(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("time over", "agent", "unix-1", 131.0, 132.0))


def on_a_worker_that_has_left(case: MadeUp) -> None:
    case.events.append(case.event("time over", "agent", "unix-1", 85.0, 90.5))


def begin_twice(case: MadeUp, first_ends: float) -> None:
    """Make m1 a detached mission that was killed, and began a second time at 150."""
    plan = case.plans.pop()
    for number, at in ((1, 99.0), (2, 150.0)):
        name = f"m1-{number}"
        case.plans.append(dataclasses.replace(plan, name=name, login=1))
        case.codes[name] = -9 if number == 1 else 0
        case.lines.append({"what": BEGINS, "mission": name, "task": -1, "at": at})
    for line in case.lines:
        if line["mission"] == "m1":
            line["mission"] = "m1-2"
            line["at"] += 60
            if "value" in line:
                line["value"] = expected("m1-2", line["task"])
    case.events.append(case.event("kill", "mission", "m1-1", first_ends))


def two_starts_at_once(case: MadeUp) -> None:
    begin_twice(case, 151.0)


def resumed_on_both_hosts(case: MadeUp) -> None:
    case.more["resumed"] = [("m1", 2)]


def resumed_on_neither_host(case: MadeUp) -> None:
    case.more["resumed"] = [("m1", 0)]


def overlapped(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "runner", "unix-1", 110.0))
    case.change("start", "m0", 3, place=1, alone=False)


def shared(case: MadeUp) -> None:
    case.change("start", "m0", 3, taken=[1])


def killed(case: MadeUp, begin: float, end: float | None = None) -> None:
    """Kill m1, whose task 4 begins then, and perhaps ends."""
    case.events.append(case.event("kill", "mission", "m1", 100.5))
    case.codes["m1"] = -9
    for what in ("resolved", "end", "start"):
        case.drop(what, "m1", 4)
    case.run("m1", 4, begin, end=False)
    if end is not None:
        line = {"what": "end", "mission": "m1", "task": 4, "at": end, "run": f"m1.4.{begin}"}
        case.lines.append(line)


def begun_after_the_end_of_its_mission(case: MadeUp) -> None:
    killed(case, 111.0)


def not_ended_with_its_mission(case: MadeUp) -> None:
    killed(case, 100.0, 111.0)


def long_outlived_in_spite_of_gnaws_death(case: MadeUp) -> None:
    killed(case, 100.0, 187.0)
    case.events.append(case.event("kill", "gnaw", "", 101.0))


def restarted_by_the_supervisor_of_a_program_that_began_without_its_fork_server(
    case: MadeUp,
) -> None:
    unwatched(case, 90.0)


def lost_by_the_death_of_its_guards(case: MadeUp) -> None:
    unwatched(case, 110.0)
    case.drop("resolved", "m0", 4)
    case.resolve("m0", 4, 121.0, error="ExternalLostError ('... some may be left',)")


def lost_locally_with_one_of_its_guards(case: MadeUp) -> None:
    a_local_program_without_guards(case)
    case.events = [one for one in case.events if one.target != "fork server"]


def restarted_without_a_gang_by_a_reset(case: MadeUp) -> None:
    case.again(129.0, worker="tcp-1")
    case.change("start", "m0", 3, worker="tcp-1")
    case.events.append(case.event("reset", "tcp", "", 101.0))


def on_a_core_of_a_program_without_guards(case: MadeUp) -> None:
    unwatched(case, 110.0)
    case.change("start", "m0", 5, at=126.0, taken=[1])


def orphans(case: MadeUp) -> None:
    case.more["orphans"] = ["daemon of nobody, pid 7"]


def files(case: MadeUp) -> None:
    case.more["files"] = ["/x/meeting.d/3/0/bell"]


def a_socket_on_another_host(case: MadeUp) -> None:
    case.more["elsewhere"] = ["/x/tmp/grain-0/s"]


def scratch(case: MadeUp) -> None:
    case.more["scratch"] = ["/x/tmp/grain-1"]


def memory(case: MadeUp) -> None:
    case.more["megabytes"] = {"gnaw": 251.0}


def few_faults(case: MadeUp) -> None:
    del case.events[1:]


def few_tasks(case: MadeUp) -> None:
    del case.plans[1:]
    case.lines = [one for one in case.lines if one["mission"] == "m0"]


def queued(case: MadeUp, state: str, *attempts: int, cancelled: float | None = None) -> None:
    """Add a job of the queue, whose attempts began one after the other and came to their ends."""
    case.more["jobs"] = [QueuedJob(7, cancelled, state)]
    for place, attempt in enumerate(attempts):
        case.run(QUEUE, 7, 100.0 + 10 * place)
        case.lines[-2]["attempt"] = attempt


def a_job_that_is_not_listed(case: MadeUp) -> None:
    queued(case, "")


def a_job_that_never_ends(case: MadeUp) -> None:
    queued(case, "waiting", cancelled=90.0)


def a_job_that_is_done_and_did_not_come_to_its_end(case: MadeUp) -> None:
    queued(case, "done", 1)
    case.drop("end", QUEUE, 7)


def an_attempt_that_began_twice(case: MadeUp) -> None:
    queued(case, "done", 1, 1)


def an_attempt_beside_another(case: MadeUp) -> None:
    queued(case, "done", 1, 2)
    case.change("start", QUEUE, 7, 1, alone=False)


def a_job_that_began_after_its_cancellation(case: MadeUp) -> None:
    queued(case, "cancelled", 1, 2, cancelled=100.0 + 10 - CANCELLED - 1)


def a_member_on_a_core_of_another_run(case: MadeUp) -> None:
    case.gang(taken=[1])


def a_member_beside_another_run(case: MadeUp) -> None:
    case.gang(alone=False)


def a_gang_that_began_again_without_a_fault_of_its_members(case: MadeUp) -> None:
    case.gang()
    case.again()
    case.events.append(case.event("kill", "runner", "unix-2", 110.0))


def a_gang_that_was_given_up_by_itself(case: MadeUp) -> None:
    case.gang()
    case.drop("resolved", "m0", 3)
    case.resolve("m0", 3, error="TaskCrashed ('given up',)", apart=GANGS - 1)


def a_program_that_was_given_up_as_a_gang(case: MadeUp) -> None:
    case.drop("resolved", "m0", 3)
    case.resolve("m0", 3, error="TaskCrashed ('given up',)", apart=GANGS)


def a_member_that_outlived_its_mission(case: MadeUp) -> None:
    killed(case, 100.0)
    line = next(one for one in case.lines if one["what"] == "start" and one["mission"] == "m1")
    late = {"what": MEMBER, "run": "tcp-1.5.6", "worker": "tcp-1", "at": 111.0, "task": 4}
    case.lines.append({**line, **late, "gang": ["unix-1", "tcp-1"]})


def a_member_on_a_worker_that_has_left(case: MadeUp) -> None:
    case.gang()
    case.events.append(case.event("time over", "agent", "tcp-1", 80.0, 89.0))


CASES: list[tuple[Callable[[MadeUp], None], list[str]]] = [
    (a_job_that_is_not_listed, ["job"]),
    (a_job_that_never_ends, ["job"]),
    (a_job_that_is_done_and_did_not_come_to_its_end, ["job"]),
    (an_attempt_that_began_twice, ["job"]),
    (an_attempt_beside_another, ["job"]),
    (a_job_that_began_after_its_cancellation, ["job"]),
    (a_member_on_a_core_of_another_run, ["shared"]),
    (a_member_beside_another_run, ["overlapped"]),
    (a_gang_that_began_again_without_a_fault_of_its_members, ["restarted"]),
    (a_gang_that_was_given_up_by_itself, ["wrong"]),
    (a_program_that_was_given_up_as_a_gang, ["wrong"]),
    (a_member_that_outlived_its_mission, ["outlived"]),
    (a_member_on_a_worker_that_has_left, ["outlived"]),
    (lost, ["lost"]),
    (doubled, ["doubled"]),
    (wrong_value, ["wrong"]),
    (wrong_data, ["wrong"]),
    (wrong_error, ["wrong"]),
    (wrong_success, ["wrong"]),
    (result_of_no_run, ["wrong"]),
    (given_up_after_four_crashes, ["wrong"]),
    (failed, ["failed"]),
    (failed_by_its_own_signal, ["failed"]),
    (hung, ["hung"]),
    (restarted, ["restarted"]),
    (restarted_without_a_gang_by_a_reset, ["restarted"]),
    (lost_locally_with_one_of_its_guards, ["wrong"]),
    (restarted_by_the_fault_of_another_worker, ["restarted"]),
    (restarted_by_a_fault_that_came_later, ["restarted"]),
    (restarted_by_a_fault_that_came_before, ["restarted"]),
    (restarted_by_the_supervisor_of_another_task, ["restarted"]),
    (restarted_by_gnaws_death, ["restarted"]),
    (restarted_over_files_by_gnaws_death, ["restarted"]),
    (restarted_by_a_short_cut, ["restarted"]),
    (restarted_by_the_cut_of_another_transport, ["restarted"]),
    (restarted_by_a_cut_that_no_gang_minds, ["restarted"]),
    (restarted_without_a_gang_by_a_cut_of_less_than_a_grace_period, ["restarted"]),
    (restarted_by_a_stopped_runner, ["restarted"]),
    (restarted_by_a_busy_gnaw, ["restarted"]),
    (restarted_by_a_bridge_that_was_away_for_a_moment, ["restarted"]),
    (restarted_before_the_time_of_its_worker_was_over, ["restarted"]),
    (on_a_worker_that_has_left, ["outlived"]),
    (two_starts_at_once, ["twice"]),
    (resumed_on_both_hosts, ["twice"]),
    (resumed_on_neither_host, ["twice"]),
    (overlapped, ["overlapped"]),
    (shared, ["shared"]),
    (begun_after_the_end_of_its_mission, ["outlived"]),
    (not_ended_with_its_mission, ["outlived"]),
    (long_outlived_in_spite_of_gnaws_death, ["outlived"]),
    (
        restarted_by_the_supervisor_of_a_program_that_began_without_its_fork_server,
        ["restarted"],
    ),
    (lost_by_the_death_of_its_guards, ["wrong"]),
    (on_a_core_of_a_program_without_guards, ["shared"]),
    (orphans, ["orphans"]),
    (files, ["files"]),
    (a_socket_on_another_host, ["files"]),
    (scratch, ["files"]),
    (memory, ["memory"]),
    (few_faults, ["vacuous"]),
    (few_tasks, ["vacuous"]),
]


@pytest.mark.parametrize(("spoil", "laws"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_judge_finds(spoil: Callable[[MadeUp], None], laws: list[str]) -> None:
    case = MadeUp()
    assert [] == case.broken()

    spoil(case)

    assert laws == case.broken()


def test_each_promise_has_a_case_that_breaks_it() -> None:
    assert {*LAWS} == {law for _, laws in CASES for law in laws}


def crashes(case: MadeUp, count: int) -> None:
    """Let task 3 of m0 crash so often, then be given up."""
    case.drop("end", "m0", 3)
    case.drop("resolved", "m0", 3)
    for number in range(1, count):
        case.run("m0", 3, 100.0 + 10 * number, end=False)
    for number in range(count):
        case.events.append(case.event("kill", "runner", "unix-1", 105.0 + 10 * number))
    case.resolve("m0", 3, 200.0, error="TaskCrashed ('...',)")


def a_killed_runner(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "runner", "unix-1", 110.0))


def an_asked_worker(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("terminate", "agent", "unix-1", 110.0))


def its_own_supervisor(case: MadeUp) -> None:
    case.again()
    case.events.append(case.event("kill", "supervisor", "unix-1", 110.0, task=("m0", 3)))


def the_end_of_its_workers_time(case: MadeUp) -> None:
    case.again(130.0)
    case.change("start", "m0", 3, worker="tcp-1")
    case.events.append(case.event("time over", "agent", "tcp-1", 120.0, 129.0))


def a_bridge_that_was_away_for_long(case: MadeUp) -> None:
    case.again(160.0)
    case.change("start", "m0", 3, worker="relay-1")
    case.events.append(case.event("away", "bridge", "", 105.0, 145.0))


def a_mission_that_was_resumed(case: MadeUp) -> None:
    begin_twice(case, 149.0)
    case.more["resumed"] = [("m1", 1)]


def a_long_stop(case: MadeUp) -> None:
    case.again(160.0)
    case.events.append(case.event("stop", "agent", "unix-1", 105.0, 150.0))
    case.change("start", "m0", 3, place=1, alone=False)


def two_stops_in_a_row(case: MadeUp) -> None:
    case.again(160.0)
    case.events.append(case.event("stop", "agent", "unix-1", 105.0, 115.0))
    case.events.append(case.event("kill", "gnaw", "", 119.0))
    case.events.append(case.event("stop", "agent", "unix-1", 121.0, 131.0))


def five_crashes(case: MadeUp) -> None:
    crashes(case, 5)


def a_killed_mission(case: MadeUp) -> None:
    case.codes["m1"] = -9
    case.events.append(case.event("kill", "mission", "m1", 101.0))
    case.drop("resolved", "m1", 4)


def a_killed_mission_amid_gnaws_death(case: MadeUp) -> None:
    killed(case, 100.0, 111.0)
    case.events.append(case.event("kill", "gnaw", "", 101.0))


def unwatched(case: MadeUp, server: float) -> None:
    """Kill the fork server at a time, then a supervisor; a task of another one begins again."""
    case.again()
    case.events.append(case.event("kill", "fork server", "unix-1", server))
    case.events.append(case.event("kill", "supervisor", "unix-1", 120.0, task=("m0", 4)))


def the_supervisor_of_another_program_after_its_fork_server(case: MadeUp) -> None:
    unwatched(case, 110.0)


def the_socket_of_a_killed_gnaw_on_another_host(case: MadeUp) -> None:
    case.more["elsewhere"] = ["/x/tmp/grain-0/s"]
    case.events.append(case.event("kill", "gnaw", "", 110.0))


def the_scratch_of_a_killed_supervisor(case: MadeUp) -> None:
    case.more["scratch"] = ["/x/tmp/grain-1"]
    case.events.append(case.event("kill", "supervisor", "unix-1", 110.0, task=("m0", 3)))


def a_job_that_was_cancelled_as_it_began(case: MadeUp) -> None:
    queued(case, "cancelled", 1, 2, cancelled=100.0 + 10 - CANCELLED)


def a_gang_whose_member_was_killed(case: MadeUp) -> None:
    case.gang()
    case.again()
    case.events.append(case.event("kill", "runner", "tcp-1", 110.0))


def a_gang_whose_member_was_away(case: MadeUp) -> None:
    case.gang()
    case.again(160.0)
    case.events.append(case.event("cut", "tcp", "", 105.0, 150.0))


def a_gang_whose_member_was_cut_off_for_less_than_a_grace_period(case: MadeUp) -> None:
    case.gang()
    case.again(129.0)
    case.events.append(case.event("cut", "tcp", "", 101.0, 122.0))


def a_gang_whose_connections_were_reset(case: MadeUp) -> None:
    case.gang()
    case.again(129.0)
    case.events.append(case.event("reset", "tcp", "", 101.0))


def a_local_program_without_guards(case: MadeUp) -> None:
    case.plans[1] = dataclasses.replace(case.plans[1], interface="local")
    case.events.append(case.event("kill", "fork server", "unix-1", 100.5))
    case.events.append(case.event("kill", "supervisor", "unix-1", 100.6, task=("m1", 4)))
    case.drop("resolved", "m1", 4)
    case.resolve("m1", 4, error="ExternalLostError ('... some may be left',)")


def a_gang_whose_workers_do_not_reach_each_other(case: MadeUp) -> None:
    case.gang()
    case.drop("resolved", "m0", 3)
    case.resolve("m0", 3, error="TaskCrashed ('given up',)", apart=GANGS)


EXCUSES = [
    a_gang_whose_member_was_killed,
    a_gang_whose_member_was_away,
    a_gang_whose_member_was_cut_off_for_less_than_a_grace_period,
    a_gang_whose_connections_were_reset,
    a_local_program_without_guards,
    a_gang_whose_workers_do_not_reach_each_other,
    a_job_that_was_cancelled_as_it_began,
    a_killed_runner,
    an_asked_worker,
    its_own_supervisor,
    the_end_of_its_workers_time,
    a_bridge_that_was_away_for_long,
    a_mission_that_was_resumed,
    a_long_stop,
    two_stops_in_a_row,
    five_crashes,
    a_killed_mission,
    a_killed_mission_amid_gnaws_death,
    the_supervisor_of_another_program_after_its_fork_server,
    the_scratch_of_a_killed_supervisor,
    the_socket_of_a_killed_gnaw_on_another_host,
]


@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda one: one.__name__)
def test_the_judge_excuses(excuse: Callable[[MadeUp], None]) -> None:
    case = MadeUp()
    excuse(case)

    assert [] == case.broken()


# ---- the books


@pytest.fixture
def books(tmp_path: Path) -> str:
    (tmp_path / "books/locks").mkdir(parents=True)
    return str(tmp_path / "books")


def test_a_run_beside_another_one_of_its_task_is_seen(books: str) -> None:
    book = Book(books)
    _, locks = book.begin("m", 1, "w", [0])
    book.begin("m", 1, "w", [0, 1])
    book.release(locks)
    book.begin("m", 2, "v", [0])

    assert [(True, []), (False, [0]), (True, [])] == [
        (one["alone"], one["taken"]) for one in read_lines(books)
    ]


def test_programs_of_a_gang_share_the_lock_of_their_task_and_no_other_run_does(books: str) -> None:
    book = Book(books)
    _, locks = book.begin("m", 1, "w", [], gang="w,v")
    book.release(locks)
    for worker in ("w", "v"):
        book.begin("m", 1, worker, [0], gang="w,v", member=True)
    book.begin("m", 1, "u", [], gang="u,v")

    assert [("start", True), (MEMBER, True), (MEMBER, True), ("start", False)] == [
        (one["what"], one["alone"]) for one in read_lines(books)
    ]


def test_the_books_have_how_many_gangs_of_a_task_did_not_begin(books: str) -> None:
    """Whatever the words of the error are."""
    runs = [Crash((1, n), "w", "killed", 0.0, absent="w-2" if n else "") for n in range(GANGS + 1)]
    mission = Mission(books, {"tasks": []}, "m0")
    mission.resolve(3, outcome.Error(TaskCrashed("given up", tuple(runs))))
    mission.resolve(4, outcome.Error(ValueError(4)))

    lines = [line for line in read_lines(books) if line["what"] == "resolved"]
    assert [(3, GANGS), (4, 0)] == [(line["task"], line["apart"]) for line in lines]


def test_a_line_that_is_not_complete_does_not_count(books: str) -> None:
    Book(books).append("mission begins", "m")
    with Path(books, "lines").open("a") as lines:
        lines.write('{"what": "st')

    assert ["mission begins"] == [one["what"] for one in read_lines(books)]


def test_a_daemon_holds_the_core_of_its_run_and_is_found(books: str, tmp_path: Path) -> None:
    words = [books, "m", "7", "w", "0", "0", "1", "stubborn", "3"]
    # Not a pipe: the daemon has it, too.
    done = subprocess.run([sys.executable, job.__file__, *words], stdout=subprocess.DEVNULL)
    daemons: list[Marked] = []

    def begun() -> bool:
        daemons[:] = [one for one in marked(str(tmp_path)) if one.role == "daemon"]
        return bool(daemons)

    until(begun)  # which it has when its own program runs: the job may be over before
    [daemon] = daemons
    process = daemon.process
    environment = process.environ()
    _, while_it_lives = Book(books).hold("core-w-0")
    process.kill()
    process.wait(60)
    _, afterwards = Book(books).hold("core-w-0")

    assert 3 == done.returncode
    assert {} == environment
    assert (False, True) == (while_it_lives, afterwards)
    assert ["start", "end"] == [one["what"] for one in read_lines(books)]


# ---- processes


@pytest.mark.parametrize(
    ("name", "line", "role"),
    [
        ("python", "/v/bin/python -P -m grain.head --address edge:///x", "gnaw"),
        ("python", "/v/bin/python -c code grain.head --address edge:///x", "gnaw"),
        ("python", "/v/bin/python -m grain.worker --url edge:///x --name w", "agent"),
        ("grain-worker", "/v/bin/python /v/bin/grain-worker --url edge:///x", "agent"),
        ("grain-runner", "python -P -m grain.worker.runner.main w 4 5 {}", "runner"),
        ("python", "python -I -S /p/guards/main.py subreaper grain.worker.runner.main w", "guard"),
        ("grain-subreaper", "python -I -S /p/guards/main.py subreaper", "subreaper"),
        ("grain-forkserv", "python -I -S /p/guards/main.py fork_server 5", "fork server"),
        ("grain-supervise", "python -I -S /p/guards/main.py fork_server 5", "supervisor"),
        ("python", "python /r/tools/chaos/mission.py /b /p", "mission"),
        ("python", "python -m grain.cli bridge serve --listen :4747", "bridge"),
        ("python", "python -P -m grain.dispatcher /h/queues/queue", "dispatcher"),
        (
            "python",
            "python -m grain.cli run -d --name m3 /r/tools/chaos/mission.py /b /p",
            "command",
        ),
        ("python", "python -P -m grain.cli.missions.keeper /f/m3@1 5", "command"),
        ("python", "python -I -S /r/tools/chaos/job.py /b m 3 w 0", "program"),
        ("nsenter", "nsenter -t 5 --net python -m grain.worker --url x", "doorway"),
        ("bash", "bash", "other"),
    ],
)
def test_the_role_of_a_process(name: str, line: str, role: str) -> None:
    assert role == role_of(name, line.split())


def test_the_task_of_a_program() -> None:
    assert ("m", 3) == task_of(["python", "-I", "/r/tools/chaos/job.py", "/b", "m", "3", "w", "0"])
    assert task_of(["python", "-m", "grain.worker"]) is None


# ---- soak


READING = soak.Reading(100.0, 20, 2, 1)


@pytest.mark.parametrize(
    ("late", "problems"),
    [
        ({}, 0),
        ({"megabytes": 104.9}, 0),
        ({"megabytes": 105.1}, 1),
        ({"descriptors": 22}, 1),
        ({"threads": 3, "processes": 2}, 2),
    ],
)
def test_growth_by_more_than_the_tolerance_is_a_problem(
    late: dict[str, Any], problems: int
) -> None:
    after = {"gnaw": dataclasses.replace(READING, **late)}

    assert problems == len(soak.compare({"gnaw": READING}, after, 0.05))


def test_a_process_that_is_not_there_any_more_is_a_problem() -> None:
    assert 1 == len(soak.compare({"gnaw": READING, "agent": READING}, {"gnaw": READING}, 0.05))


def test_the_least_of_some_readings_counts() -> None:
    assert soak.Reading(90.0, 20, 1, 1) == soak.least([READING, soak.Reading(90.0, 21, 1, 1)])
