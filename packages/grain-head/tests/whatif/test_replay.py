"""Replays of logs that were written by hand, whose course can be told by counting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from grain.eventlog.schema import (
    VERSION,
    BriefTasks,
    ClockChanged,
    FunctionStanding,
    LogStarted,
    RunEnded,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.eventlog.usage import LearnedAmount, Usage
from grain.resource import Cores, GPUs, Memory, Node, WTime, from_text
from grain.whatif.brief import BUNDLE
from grain.whatif.errors import WhatIfError
from grain.whatif.replay import Outcome, replay
from grain.whatif.scenario import (
    Scenario,
    WorkerGroup,
    most_at_once,
    parse_change,
    parse_counts,
    usual_counts,
    usual_worker,
)
from grain.whatif.sweep import SweepRow, knee, sweep
from grain.whatif.text import report_data, report_text
from grain.whatif.workload import Requests, Workload, WorkloadBuilder, workload_of
from grain_testkit.campaign import Campaign
from grain_testkit.hub_campaign import HubCampaign, Shift

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.eventlog.schema import AnyLine

AT = 1_772_616_600.0


class Log:
    """A log that a test writes; times are seconds since it began."""

    def __init__(self) -> None:
        self.lines: list[AnyLine] = [
            LogStarted(time=AT, version=VERSION, grain="1.0.0", id="a1b2", name="opt")
        ]
        self._last = 0

    def join(self, at: float, worker: str, cores: int, ends: float | None = None) -> None:
        self.lines.append(
            WorkerJoined(
                time=AT + at,
                worker=worker,
                resources={"Cores": float(cores), "Memory": 16.0},
                ends=None if ends is None else AT + ends,
            )
        )

    def leave(self, at: float, worker: str, why: str = "", heard: float | None = None) -> None:
        heard = None if heard is None else AT + heard
        self.lines.append(WorkerLeft(time=AT + at, worker=worker, why=why, heard=heard))

    def submit(
        self,
        at: float,
        *after: int,
        cores: int = 1,
        function: str = "fn",
        members: tuple[int, ...] = (),
        **more: float,
    ) -> int:
        self._last += 1
        request = {"Cores": float(cores), **more}
        self.lines.append(
            TaskSubmitted(
                time=AT + at,
                task=self._last,
                function=function,
                request=request,
                after=after,
                members=members,
            )
        )
        return self._last

    def run(
        self,
        task: int,
        begins: float,
        ends: float,
        *,
        outcome: str = "value",
        final: bool = True,
        memory: float | None = None,
        worker: str = "w",
        learned: LearnedAmount | None = None,
    ) -> None:
        used = None if memory is None else Usage(peak_memory=memory, measured_by="polling")
        self.lines.append(TaskStarted(time=AT + begins, task=task, worker=worker))
        self.lines.append(
            RunEnded(
                time=AT + ends,
                task=task,
                worker=worker,
                outcome=outcome,  # type: ignore[arg-type]
                started=AT + begins,
                ended=AT + ends,
                final=final,
                usage=used,
                learned=learned,
            )
        )

    def workload(self) -> Workload:
        # Lines stand in the order of their times, as in a log.
        first, *others = self.lines
        return workload_of([first, *sorted(others, key=lambda line: line.time)])


def workers(number: int, cores: int = 1, **more: float) -> Scenario:
    return Scenario(WorkerGroup(number, Cores(cores) & Memory(16), **more))


def burst(tasks: int, seconds: float = 10.0) -> Log:
    """Equal tasks that are submitted at once, and run one after the other on one core."""
    log = Log()
    log.join(0, "w", 1)
    for at in range(tasks):
        log.run(log.submit(0), at * seconds, (at + 1) * seconds)
    return log


def test_the_replay_of_what_happened_takes_as_long() -> None:
    workload = burst(6).workload()

    done = replay(workload, Scenario())

    assert (60.0, 60.0) == (workload.makespan, done.makespan)
    assert 60 / 3600 == pytest.approx(done.core_hours)
    assert (1.0, 25.0) == (done.busy, done.waited)


@pytest.mark.parametrize(("number", "makespan"), [(1, 60), (2, 30), (3, 20), (4, 20), (6, 10)])
def test_more_workers_take_less_time(number: int, makespan: float) -> None:
    done = replay(burst(6).workload(), workers(number))

    assert makespan == done.makespan
    assert number * makespan / 3600 == pytest.approx(done.core_hours)


def test_a_task_is_submitted_when_those_that_it_waited_for_have_ended() -> None:
    """The mission thinks for 3 s in between, however many workers there are."""
    log = Log()
    log.join(0, "w", 1)
    first, second = log.submit(0), log.submit(0)
    log.run(first, 0, 10)
    log.run(second, 10, 20)
    log.run(log.submit(23, first, second), 23, 33)

    assert 33.0 == replay(log.workload(), workers(1)).makespan
    assert 10.0 + 3.0 + 10.0 == replay(log.workload(), workers(2)).makespan


def test_a_task_that_waited_for_none_follows_the_submission_before_it() -> None:
    log = Log()
    log.join(0, "w", 1)
    first = log.submit(0)
    log.run(first, 0, 100)
    second = log.submit(104, first)
    third = log.submit(104.5)  # by the same loop
    log.run(second, 104, 114)
    log.run(third, 114, 124)

    faster = Scenario(None, {"fn": WTime(T=50)})

    assert 54.5 + 19.5 == replay(log.workload(), faster).makespan


def test_a_task_that_is_submitted_promptly_after_an_end_waited_for_it() -> None:
    """A mission that limits itself submits a task when any other one has ended."""
    log = Log()
    log.join(0, "w", 4)
    first = log.submit(0)
    log.run(first, 0, 100)
    log.run(log.submit(100.01), 100.01, 200.01)

    assert 50 + 0.01 + 50 == pytest.approx(
        replay(log.workload(), Scenario(None, {"fn": WTime(T=50)})).makespan
    )


def test_another_attempt_follows_the_failure() -> None:
    log = Log()
    log.join(0, "w", 1)
    first = log.submit(0)
    log.run(first, 0, 10, outcome="error")
    log.lines.append(
        TaskSubmitted(time=AT + 15, task=2, function="fn", request={"Cores": 1.0}, retry_of=1)
    )
    log.run(2, 15, 25)

    workload = log.workload()
    assert (25.0, 25.0) == (workload.makespan, replay(workload, workers(1)).makespan)
    assert ": 1 task with 1 further attempt in 25 s\n" in report_text(workload, None, [], Cores(1))
    data = report_data(workload, None, [], Cores(1))
    assert (1, 1) == (data["tasks"], data["further_attempts"])


def test_a_smaller_request_lets_more_run_at_once() -> None:
    log = Log()
    log.join(0, "w", 4)
    for at in range(4):
        log.run(log.submit(0, Memory=16.0), 10 * at, 10 * at + 10, memory=3.0 + at)
    workload = log.workload()

    less = replay(workload, Scenario(None, {"fn": Memory(4)}))

    assert 40.0 == replay(workload, Scenario()).makespan
    assert (10.0, 2) == (less.makespan, less.over_memory)


def test_a_task_whose_group_learns_its_memory_asks_for_what_it_got() -> None:
    log = Log()
    log.join(0, "w", cores=4)  # with 16 GB
    for amount in (16.0, 4.0, 4.0, 4.0, 4.0):
        task = log.submit(0, Memory=16.0)
        begins = 0 if amount == 16 else 10
        given = LearnedAmount(group="opt", amount=amount)
        log.run(task, begins, begins + 10, memory=3.0, learned=given)
    workload = log.workload()

    assert 20.0 == replay(workload, Scenario()).makespan
    changed = Scenario(requests={"fn": Memory(1)})
    assert (20.0, 5) == (replay(workload, changed)[0], replay(workload, changed).over_memory)


def test_of_alternatives_only_the_one_that_ran_has_learned_memory() -> None:
    log = with_alternatives()
    workload = log.workload()
    given = Requests().with_memory(workload.tasks[0].request, 1, 2.0)

    first, second = given.alternatives()
    assert workload.tasks[0].request.alternatives()[0] == first
    assert Memory(2) == second.get(Memory)


def test_a_time_limit_ends_runs() -> None:
    done = replay(burst(3).workload(), Scenario(None, {"fn": WTime(T=4)}))

    assert (12.0, 3) == (done.makespan, done.over_time)


def test_a_worker_that_was_lost_is_lost_again_with_its_runs() -> None:
    log = Log()
    log.join(0, "a", 1)
    log.join(0, "b", 1)
    first, second = log.submit(0), log.submit(0)
    log.leave(5, "b", "its node does not answer")
    log.run(first, 0, 10)
    log.run(second, 0, 5, outcome="lost", final=False)
    log.run(second, 10, 20)
    workload = log.workload()

    assert (20.0, 20.0) == (workload.makespan, replay(workload, Scenario()).makespan)
    assert 15 + 10 == pytest.approx(3600 * replay(workload, Scenario()).core_hours)
    assert 10.0 == replay(workload, workers(2)).makespan


def test_a_worker_that_was_lost_offers_nothing_since_it_was_last_heard() -> None:
    """Its tasks run again when it is given up, and no other one starts there meanwhile."""
    log = Log()
    log.join(0, "a", 1)
    log.join(0, "b", 2)
    first, second = log.submit(0, cores=1), log.submit(0, cores=2)
    third = log.submit(8)
    log.run(first, 0, 10)
    log.run(second, 0, 5, outcome="lost", final=False)
    log.leave(25, "b", "its node does not answer", heard=5)
    log.run(third, 10, 20)
    log.join(25, "c", 2)
    log.run(second, 25, 35)
    workload = log.workload()

    done = replay(workload, Scenario())

    assert (35.0, 35.0) == (workload.makespan, done.makespan)
    assert 35 + 2 * 5 + 2 * 10 == pytest.approx(3600 * done.core_hours)
    assert (10 + 2 * 5 + 10 + 2 * 10) / 65 == pytest.approx(done.busy)


def test_nothing_starts_on_a_worker_that_is_not_heard() -> None:
    log = Log()
    log.join(0, "a", 1)
    log.join(0, "b", 1)
    first = log.submit(0)
    log.run(first, 0, 10)
    log.leave(30, "b", "its node does not answer", heard=5)
    second = log.submit(6)
    log.run(second, 10, 20)
    third = log.submit(20, second)
    log.run(third, 20, 50)

    assert 50.0 == replay(log.workload(), Scenario()).makespan


def test_a_worker_that_was_to_leave_ends_its_runs() -> None:
    log = Log()
    log.join(0, "a", 1)
    log.join(0, "b", 1)
    first, second, third = log.submit(0), log.submit(0), log.submit(0)
    log.run(first, 0, 10)
    log.leave(5, "b")
    log.leave(5, "a")
    log.join(5, "c", 1)
    log.run(second, 0, 10)
    log.run(third, 5, 15)

    assert 15.0 == replay(log.workload(), Scenario()).makespan


def test_a_run_that_crashed_crashes_again() -> None:
    log = Log()
    log.join(0, "a", 1)
    task = log.submit(0)
    log.run(task, 0, 4, outcome="crashed", final=False)
    log.run(task, 5, 15)

    assert 4.0 + 10.0 == replay(log.workload(), workers(1)).makespan


def test_jobs_that_end_are_followed_by_others() -> None:
    """A task is lost when its worker's job ends, and begins again on the next one."""
    workload = burst(3).workload()

    assert 25.0 + 10.0 == replay(workload, workers(1, walltime=25.0)).makespan
    waiting = replay(workload, workers(1, walltime=25.0, queued=30.0))
    assert 30.0 + 25.0 + 30.0 + 10.0 == waiting.makespan


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (workers(4, walltime=8.0), "it runs longer than workers live, which is 8 s"),
        (Scenario(WorkerGroup(2, Memory(4))), "Cores"),
        (
            workers(1, walltime=20.0)._replace(requests={"fn": WTime(T=30)}),
            "its time limit is 30 s, and workers live for 20",
        ),
    ],
)
def test_what_never_ends_has_a_reason(scenario: Scenario, why: str) -> None:
    done = replay(burst(3).workload(), scenario)

    assert math.inf == done.makespan
    [((function, reason), tasks)] = done.never.items()
    assert ("fn", 3) == (function, tasks)
    assert why in reason


@pytest.mark.parametrize("walltime", [None, 3600.0])
def test_what_waits_for_a_task_that_never_ends_never_ends_either(walltime: float | None) -> None:
    """Nor does the replay go on without end, where workers are replaced without end."""
    log = Log()
    log.join(0, "w", 8)
    first = log.submit(0, cores=8, function="wide")
    log.run(first, 0, 10)
    log.run(log.submit(10, first), 10, 20)

    offered = WorkerGroup(3, Cores(1) & Memory(16), walltime=walltime)
    done = replay(log.workload(), Scenario(offered))

    assert 1 == done.never["", "the tasks that they wait for never end"]
    assert 1 == sum(tasks for (function, _), tasks in done.never.items() if function == "wide")


def test_a_task_that_was_cancelled_while_it_waited_needs_no_room() -> None:
    log = burst(2)
    task = log.submit(0)
    log.lines.append(RunEnded(time=AT + 3, task=task, outcome="cancelled"))

    assert 20.0 == replay(log.workload(), workers(1)).makespan


def test_what_never_ran_ends_no_makespan() -> None:
    """Six tasks wait to the end of a mission for a GPU that no worker has."""
    log = burst(4)
    tasks = [log.submit(0, function="dock", GPUs=1.0) for _ in range(6)]
    log.lines += [RunEnded(time=AT + 90, task=task, outcome="cancelled") for task in tasks]
    workload = log.workload()

    assert ({"no worker had GPUs": 6}, 40.0) == (workload.never_ran, workload.makespan)
    assert (40.0, 15.0) == replay(workload, Scenario())[::4][:2]
    assert [20.0, 10.0] == [replay(workload, workers(number)).makespan for number in (2, 4)]
    row = SweepRow(2, replay(workload, workers(2)))
    text = report_text(workload, None, [row], Cores(1))
    assert "6 tasks never ran: no worker had GPUs" == text.splitlines()[1]
    data = report_data(workload, None, [row], Cores(1))
    assert [{"why": "no worker had GPUs", "tasks": 6}] == data["never_ran"]


def test_what_waited_for_a_task_that_never_ran_is_submitted_after_the_same_time() -> None:
    log = burst(1)
    task = log.submit(0)
    log.lines.append(RunEnded(time=AT + 30, task=task, outcome="cancelled"))
    log.run(log.submit(31, task), 31, 41)

    assert (41.0, 41.0) == (
        log.workload().makespan, replay(log.workload(), workers(1)).makespan
    )  # fmt: skip


def test_a_submission_after_the_end_of_what_never_ran_does_not_wait_for_it() -> None:
    log = burst(2)
    task = log.submit(0)
    log.lines.append(RunEnded(time=AT + 20, task=task, outcome="cancelled"))
    log.run(log.submit(20.05), 20.05, 30.05)

    assert 20.05 == pytest.approx(replay(log.workload(), workers(2)).makespan)


def test_what_waits_at_the_end_of_a_log_for_what_no_worker_has_never_ran() -> None:
    log = burst(2)
    log.submit(0, GPUs=1.0)
    workload = log.workload()

    assert ({"no worker had GPUs": 1}, 0) == (workload.never_ran, workload.guessed)
    assert 20.0 == replay(workload, workers(1)).makespan


THREE = Shift(joins=69.0), Shift(joins=70.0), Shift(joins=76.0)


@pytest.mark.parametrize(
    "campaign",
    [
        pytest.param(lambda: HubCampaign(126, *THREE), id="plain"),
        pytest.param(
            lambda: HubCampaign(126, THREE[0], Shift(joins=70.0, killed=128.0), THREE[2], seed=10),
            id="a worker is lost",
        ),
        pytest.param(lambda: HubCampaign(126, *THREE, gpu_tasks=6), id="six tasks fit nowhere"),
        pytest.param(lambda: HubCampaign(126, *THREE, at_once=24), id="some molecules at a time"),
        pytest.param(
            lambda: HubCampaign(630, Shift(8, 1.0), Shift(2, 2.0), Shift(16, 100.0)),
            id="workers of several sizes",
        ),
        pytest.param(lambda: Campaign(126, loses_a_worker=False), id="clocks are wrong"),
    ],
)
def test_a_campaign_is_replayed_within_5_percent_of_what_it_took(
    campaign: Callable[[], HubCampaign | Campaign],
) -> None:
    """All but the last went through a real scheduler, which sends brief tasks ahead."""
    made = campaign()
    workload = workload_of(made.lines() if isinstance(made, Campaign) else made.lines)

    if isinstance(made, HubCampaign):
        assert made.took == pytest.approx(workload.makespan)
    assert workload.makespan == pytest.approx(replay(workload, Scenario()).makespan, rel=0.05)


@pytest.mark.parametrize("heard", [None, 5.0])
@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_worker_that_is_lost_takes_the_same_tasks_with_it(lost: str, heard: float | None) -> None:
    """Either worker may have been the one that took the long task."""
    log = Log()
    brief, long = log.submit(0), log.submit(0)
    log.run(long, 0, 100)
    # The line of a worker may come a moment after that of its first task.
    log.join(1e-5, "a", 1)
    log.join(1e-5, "b", 1)
    log.run(brief, 0, 6, outcome="lost", final=False, worker=lost)
    log.leave(6, lost, "its node does not answer", heard=heard)
    log.join(50, "c", 1)
    log.run(brief, 50, 60)
    workload = log.workload()

    assert [(brief - 1,)] == [stay.took for stay in workload.stays if stay.lost]
    assert 100.0 == workload.makespan
    assert 100.0 == pytest.approx(replay(workload, Scenario()).makespan)


def test_what_has_not_ended_takes_the_mean_time_of_its_function() -> None:
    log = burst(2)
    log.submit(0)
    log.submit(0, function="other")
    workload = log.workload()

    assert (1, 1) == (workload.guessed, workload.unknown)
    assert 30.0 == replay(workload, workers(1)).makespan


def test_the_wait_of_a_task_that_was_sent_ahead_is_no_run() -> None:
    """Its line of a start comes long before its tasklet begins on the worker."""
    log = Log()
    log.join(0, "w", 1)
    for at in range(10):
        task = log.submit(0)
        log.run(task, 10 * at, 10 * at + 10)
        if at > 4:
            log.lines[-2] = TaskStarted(time=AT + 10 * at - 10, task=task, worker="w")

    assert 100.0 == replay(log.workload(), workers(1)).makespan


@pytest.mark.parametrize("first", [{"urgency": 1.0}, {"priority": 1}], ids=["urgency", "priority"])
def test_what_went_first_goes_first_again(first: dict[str, Any]) -> None:
    """What waits for it runs beside the others."""
    log = Log()
    log.join(0, "w", 1)
    for at in range(3):
        log.run(log.submit(0), 10 * at, 10 * at + 10)
    log.lines.append(TaskSubmitted(time=AT, task=4, function="fn", request={"Cores": 1.0}, **first))
    log.run(4, 30, 40)
    log.lines.append(TaskSubmitted(time=AT + 40, task=5, function="long", after=(4,)))
    log.run(5, 40, 70)

    assert 40.0 == replay(log.workload(), workers(1)).makespan


def test_a_mission_that_others_can_join_is_said_to_have_only_the_workers_that_ran_its_tasks() -> (
    None
):
    log = burst(2)
    sentence = "It has the workers that ran a task of this mission, each from the first one on."
    workload = log.workload()
    assert (True, False) == (
        report_data(workload, None, [], Cores(1))["all_workers"],
        sentence in report_text(workload, replay(workload, Scenario()), [], Cores(1)),
    )

    log.lines[0] = replace(log.lines[0], address="edge:///home/me/meeting")
    workload = log.workload()
    assert (False, True) == (
        report_data(workload, None, [], Cores(1))["all_workers"],
        sentence in report_text(workload, replay(workload, Scenario()), [], Cores(1)),
    )


def test_a_clock_that_was_set_changes_nothing() -> None:
    log = burst(2)
    lines = [
        *(line for line in log.lines if line.time <= AT + 5),
        ClockChanged(time=AT + 5 - 1000, by=-1000.0),
        TaskStarted(time=AT + 10 - 1000, task=2, worker="w"),
        RunEnded(time=AT + 10 - 1000, task=1, outcome="value"),
        RunEnded(time=AT + 20 - 1000, task=2, outcome="value"),
    ]

    assert 20.0 == replay(workload_of(lines), workers(1)).makespan


def test_a_log_without_tasks_is_refused() -> None:
    with pytest.raises(WhatIfError, match="'opt' has no tasks"):
        Log().workload()


def test_a_log_with_too_many_tasks_for_the_memory_is_refused() -> None:
    builder = WorkloadBuilder(most=3)

    with pytest.raises(WhatIfError, match="more than 3 tasks"):
        for line in burst(4).lines:
            builder.feed(line)


def test_kinds_that_are_not_known_here_are_named() -> None:
    log = Log()
    log.join(0, "w", 1)
    log.run(log.submit(0, Licences=1.0), 0, 10)
    workload = log.workload()

    assert ("Licences",) == workload.ignored
    assert 10.0 == replay(workload, workers(1)).makespan
    assert "Licences" in report_text(workload, None, [], Cores(1))


def test_workers_that_a_user_most_likely_means() -> None:
    log = Log()
    log.join(0, "a", 4)
    log.join(1, "b", 8)
    log.join(2, "c", 8)
    log.leave(3, "a")
    log.run(log.submit(0), 0, 10)
    stays = log.workload().stays

    assert Cores(8) & Memory(16) == usual_worker(stays)
    assert 3 == most_at_once(stays)
    assert [1, 2, 3, 4, 6, 8, 12] == usual_counts(3)
    assert [1, 2, 3, 4] == usual_counts(1)


def test_numbers_of_workers_are_a_list_of_numbers_and_ranges() -> None:
    assert [1, 2, 4, 5, 6] == parse_counts("4-6,2,1,2")
    for text in ("", "0", "3-1", "1,,2", "x", "1-10000"):
        with pytest.raises(WhatIfError, match="--workers"):
            parse_counts(text)


def test_a_change_names_a_function_and_what_it_asks_for() -> None:
    log = burst(1)
    log.run(log.submit(0, function="chem:opt"), 0, 1)
    workload = log.workload()

    assert (["fn"], Memory(4)) == parse_change("fn:Memory=4", workload)
    assert (["chem:opt"], from_text("WTime=1:00:00,Cores=2")) == parse_change(
        "opt:WTime=1:00:00,Cores=2", workload
    )
    assert (["fn"], 2 * Node(4, 8) | GPUs(1)) == parse_change(
        "fn:2 * Node(4, 8) | GPUs(1)", workload
    )
    scenario = Scenario(None, {"fn": Memory(4)})
    assert Cores(2) & Memory(4) == scenario.request("fn", Cores(2) & Memory(8))
    for text, message in [
        ("other:Memory=4", "there are: chem:opt, fn"),
        ("fn", "write a function and what it asks for"),
        ("fn:" + "* " * 1000 + "!", "write a function and what it asks for"),  # and at once
        ("fn:Memory=x", "Memory"),
        ("fn:2 * 2 * Cores=1", "write one number, as in 4"),
        ("fn:2.5 * Cores=1", "the number of workers is a whole number"),
    ]:
        with pytest.raises(WhatIfError, match=message):
            parse_change(text, workload)


def test_the_knee_is_where_core_hours_times_makespan_is_least() -> None:
    def outcome(makespan: float, hours: float) -> Outcome:
        return Outcome(makespan, hours, hours, 1.0, 0.0, 0, 0, {})

    rows = [
        SweepRow(1, outcome(100, 1)), SweepRow(2, outcome(50, 1)), SweepRow(4, outcome(26, 1.04)),
        SweepRow(8, outcome(24, 1.9)),
    ]  # fmt: skip

    assert 4 == knee(rows)
    assert 1 == knee([SweepRow(1, outcome(10, 1)), SweepRow(2, outcome(10, 2))])
    assert knee(rows[:1]) is None
    assert knee([SweepRow(1, outcome(math.inf, 1)), rows[0]]) is None


def test_the_table_marks_the_knee_and_compares_with_what_happened() -> None:
    workload = burst(6).workload()
    original = replay(workload, Scenario())
    rows = sweep(workload, Scenario(), WorkerGroup(0, Cores(1) & Memory(16)), [1, 2, 6, 12])

    lines = report_text(workload, original, rows, Cores(1) & Memory(16)).splitlines()

    assert "opt (a1b2): 6 tasks in 00:01:00" == lines[0]
    assert "The replay of what happened takes 00:01:00, the same." == lines[1]
    assert ["6", "10", "s", "0.0167", "100", "%", "0", "s", "<-", "knee"] == lines[7].split()
    assert [line for line in lines if "<- knee" in line] == [lines[7]]
    data = report_data(workload, original, rows, Cores(1))
    assert (6, [60.0, 30.0, 10.0, 10.0]) == (
        data["knee"],
        [row["makespan"] for row in data["rows"]],
    )


def test_rows_that_never_end_say_why_in_the_table() -> None:
    workload = burst(3).workload()
    rows = sweep(workload, Scenario(), WorkerGroup(0, Memory(4)), [1, 2])

    text = report_text(workload, None, rows, Memory(4), width=60)

    assert "never" in text
    assert "3 tasks of fn: " in text
    assert 60 >= max(map(len, text.splitlines()))


def standing(time: float, running: int) -> StandingTasks:
    look = FunctionStanding(function="fn", running=running)
    return StandingTasks(time=AT + time, functions=(look,))


def counted(time: float, tasks: int, *, waited: float = 0.0) -> BriefTasks:
    """Return tasks that computed for 1 ms, and ended in the second before."""
    return BriefTasks(
        time=AT + time, function="fn", tasks=tasks, began=AT + time - 1, seconds=tasks / 1000,
        waited=waited, request={"Cores": 1.0},
    )  # fmt: skip


def test_brief_tasks_have_their_cores_for_as_long_as_so_many_run_and_end() -> None:
    """200 end in each second, and two run at a time: each has a core for 10 ms."""
    log = Log()
    log.join(0, "w", 2)
    for time in range(1, 11):
        log.lines += [standing(time, 2), counted(time, 200, waited=200 * time / 2)]
    workload = workload_of(log.lines)

    assert (2000, 2000) == (workload.brief, workload.number)
    assert pytest.approx(20.0) == sum(task.runs[0].seconds for task in workload.tasks)
    assert max(task.runs[0].seconds for task in workload.tasks) <= 2 * BUNDLE
    assert pytest.approx(10.0, rel=0.05) == replay(workload, Scenario()).makespan
    [one, four] = sweep(workload, Scenario(), WorkerGroup(0, Cores(1)), [1, 4])
    assert pytest.approx(20.0, rel=0.05) == one.outcome.makespan
    assert four.outcome.makespan < 7.0
    assert "2,000 tasks in 10 s" in report_text(workload, None, [one, four], Cores(1))


def test_brief_tasks_with_lines_take_as_long_as_those_without() -> None:
    log = Log()
    log.join(0, "w", 1)
    log.lines.append(standing(1, 1))
    task = log.submit(1)
    log.run(task, 1.5, 1.501)
    log.lines += [standing(2, 1), counted(2, 99)]

    [seconds] = {run.seconds for task in workload_of(log.lines).tasks[:1] for run in task.runs}
    assert pytest.approx(0.01) == seconds


def test_brief_tasks_of_a_log_without_their_standing_take_as_long_as_they_computed() -> None:
    log = Log()
    log.join(0, "w", 1)
    log.lines.append(counted(2, 70))

    workload = workload_of(log.lines)
    assert 70 == workload.number
    assert pytest.approx(0.07) == sum(task.runs[0].seconds for task in workload.tasks)


# ---- alternatives


def with_alternatives(prefer: float = 0.0) -> Log:
    """Two tasks of 10 s that were submitted at once, for a GPU or two cores."""
    log = Log()
    log.join(0, "w", 4)
    for _ in range(2):
        task = log.submit(0)
        asked = {"request": {"GPUs": 1.0}, "others": ({"Cores": 2.0},), "prefer": prefer}
        log.lines[-1] = replace(log.lines[-1], **asked)
        log.run(task, 0, 10)
    return log


@pytest.mark.parametrize(
    ("prefer", "offer", "makespan"),
    [
        (0.0, "GPUs=1,Cores=2", 10),
        (4.0, "GPUs=1,Cores=2", 14),
        (99.0, "GPUs=1,Cores=2", 20),
        (99.0, "Cores=2", 20),  # no GPU to wait for
        (99.0, "Cores=4", 10),
    ],
)
def test_tasks_take_the_alternative_that_they_would_take(
    prefer: float, offer: str, makespan: float
) -> None:
    done = replay(with_alternatives(prefer).workload(), Scenario(WorkerGroup(1, from_text(offer))))

    assert makespan == done.makespan
    assert {} == done.never


def test_a_task_is_stranded_only_if_all_its_alternatives_are() -> None:
    done = replay(with_alternatives().workload(), Scenario(WorkerGroup(1, Cores(1))))

    [(function, why)] = done.never
    assert "fn" == function
    assert "it has no GPUs at all, and it has CPU_Cores([0]), asked for Cores(2)" == why


def test_a_changed_request_changes_each_alternative() -> None:
    workload = with_alternatives(5.0).workload()
    functions, change = parse_change("fn:Memory=2", workload)
    scenario = Scenario(requests=dict.fromkeys(functions, change))
    asked = scenario.request("fn", workload.tasks[0].request)

    assert "Either(GPUs(1) & Memory(2), Cores(2) & Memory(2), prefer=5)" == asked.ask()
    _, change = parse_change("fn:Cores=1|Cores=2", workload)
    assert GPUs(1) & Cores(1) | GPUs(1) & Cores(2) | Cores(1) | Cores(2) == Scenario(
        requests={"fn": change}
    ).request("fn", workload.tasks[0].request)


def test_alternatives_of_kinds_that_are_not_known_are_left_out() -> None:
    log = with_alternatives(5.0)
    log.lines = [
        replace(line, request={"Nowhere": 1.0}) if isinstance(line, TaskSubmitted) else line
        for line in log.lines
    ]

    assert Cores(2) == log.workload().tasks[0].request


# ---- tasks on several workers


def gangs(count: int, workers: int) -> Log:
    """Return a log of gangs of two workers, of which one runs at a time for ten seconds."""
    log = Log()
    for number in range(workers):
        log.join(0, f"w{number}", 1)
    tasks = [log.submit(0, members=(2,)) for _ in range(count)]
    for number, task in enumerate(tasks):
        log.run(task, 10 * number, 10 * number + 10, worker="w0")
    return log


def test_a_task_on_several_workers_takes_them_all_at_once() -> None:
    workload = gangs(2, 3).workload()

    done = replay(workload, Scenario())

    assert 20.0 == done.makespan
    assert 2 * 2 * 10 / (3 * 20) == pytest.approx(done.busy)
    assert () == workload.ignored
    assert (10.0, 1.0) == replay(workload, workers(4))[0:4:3]


def test_a_task_on_more_workers_than_there_are_never_ends() -> None:
    workload = gangs(1, 2).workload()
    functions, change = parse_change("fn:Cores=1|GPUs=1", workload)
    either = Scenario(workers(1).workers, dict.fromkeys(functions, change))

    for scenario in (workers(1), either):
        never = replay(workload, scenario).never
        assert {("fn", "it needs 2 workers at once, and there is 1"): 1} == never


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_task_on_several_workers_begins_again_if_one_of_them_is_lost(lost: str) -> None:
    log = Log()
    for name in "ab":
        log.join(0, name, 1)
    task = log.submit(0, members=(2,))
    log.leave(5, lost, "its node does not answer")
    log.run(task, 0, 5, outcome="lost", final=False, worker=lost)
    log.join(7, "c", 1)
    log.run(task, 7, 17, worker="c")
    workload = log.workload()

    assert (17.0, 17.0) == (workload.makespan, replay(workload, Scenario()).makespan)


def test_a_change_of_a_request_keeps_its_number_of_workers_or_states_another() -> None:
    workload = gangs(1, 3).workload()

    for text, expected in (
        ("fn:Cores=2", 2 * Cores(2)),
        ("fn:3 * Cores=1", 3 * Cores(1)),
        ("fn:Memory=1", 2 * (Cores(1) & Memory(1))),
    ):
        functions, change = parse_change(text, workload)
        scenario = Scenario(None, dict.fromkeys(functions, change))
        assert expected == scenario.request("fn", workload.tasks[0].request)


def test_a_task_may_take_several_workers_or_one() -> None:
    log = Log()
    log.join(0, "w", 4)
    task = log.submit(0, members=(2, 1))
    log.lines[-1] = replace(log.lines[-1], others=({"Cores": 4.0},))
    log.run(task, 0, 10)
    workload = log.workload()

    assert 2 * Cores(1) | Cores(4) == workload.tasks[0].request
    assert 10.0 == replay(workload, Scenario()).makespan
