"""The lines of a log follow what the scheduler and the workers report, whatever is lost between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grain.eventlog import schema
from grain.eventlog.schema import CachedResults, RunEnded, TaskStarted, WorkerJoined, WorkerLeft
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.eventlog.usage import LearnedAmount, RunMember, RunReport, Usage, encode_report
from grain.head.errors import TaskCrashed
from grain.head.log_words import amounts, one_line
from grain.head.messages import Crash, Crashed, Seated, Started, WorkerEnded, WorkerFacts
from grain.head.run_log import RunLog
from grain.resource import Cores, GPUs, Memory, Token, WTime, to_data
from grain.worker.call import LEFT_OUT, CallLabels
from grain.worker.messages import TIME_OVER, Outlived
from grain_testkit.kept_lines import KeptLines
from grain_testkit.submitted_tasks import SubmittedTasks

if TYPE_CHECKING:
    from grain.resource import Resource


class Recorder(KeptLines):
    """The lines that were written, at the times 1, 2, ..., of a log whose fixture flushes it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0.0
        self.log: RunLog | None = None

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def of(self, kind: type[Any]) -> list[Any]:
        assert self.log is not None
        self.log.close()
        return super().of(kind)


@pytest.fixture
def written() -> Recorder:
    return Recorder()


@pytest.fixture
def log(written: Recorder) -> RunLog:
    log = written.log = RunLog(written, "m", written.now)
    SubmittedTasks(log, Cores(1), 9)
    log.tick()
    for worker in ("w1", "w2"):
        log.on_message(WorkerFacts(f"id-{worker}", worker, "n17", {"Cores": [0, 5]}, 99.0, "j8"))
    return log


def messages(written: Recorder) -> list[str]:
    return [e.failure.message for e in written.of(RunEnded)]


def ends(written: Recorder) -> list[tuple[str, str, int, bool]]:
    return [(e.outcome, e.worker, e.attempt, e.final) for e in written.of(RunEnded)]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (Cores(4) & Memory(1.5), {"Cores": 4, "Memory": 1.5}),
        (Cores([3, 7]) & GPUs([0]), {"Cores": 2, "GPUs": 1}),
        (Cores(0.25) & GPUs(0.5), {"Cores": 0.25, "GPUs": 0.5}),
        (GPUs([2, [3, 0.5]]), {"GPUs": 1.5}),
        (Cores(4, spread=True), {"Cores": 4}),
        (Memory(32, group="opt", size=120), {"Memory": 32}),
        (Cores(1) & Memory(group="opt"), {"Cores": 1}),
        (WTime(T=3600) & Token("licence"), {"WTime": 3600, "Token": 1}),
    ],
)
def test_resources_are_numbers_by_kind(resource: Resource, expected: dict[str, float]) -> None:
    assert expected == amounts(to_data(resource))


def test_a_text_is_one_line_of_moderate_length() -> None:
    assert "a; b c" == one_line("a\n\n  b\tc ")
    assert 500 == len(one_line("x" * 1000))


def test_a_message_keeps_its_first_and_its_last_lines() -> None:
    text = "xtb a.xyz: exit code 1\n  the last lines of stderr:\n" + 50 * "    at 0x0007\n" + "why"

    line = one_line(text)

    assert line.startswith("xtb a.xyz: exit code 1; the last lines of stderr: at 0x0007; at 0x")
    assert line.endswith("at 0x0007; why")
    assert "; at 0x0007; ...; at 0x0007; " in line
    assert 450 < len(line) <= 500


def test_a_message_of_two_very_long_lines_keeps_both_ends() -> None:
    line = one_line("a" * 600 + "\n" + "b" * 600)

    assert ("a" * 248 + "..." + "b" * 249) == line


def test_a_worker_is_noted_once_and_again_after_it_has_left(log: RunLog, written: Recorder) -> None:
    again = WorkerFacts("id-w1", "w1", "n17", {"Cores": 2})
    log.on_message(again)
    assert 2 == len(written.of(WorkerJoined))
    log.on_message(WorkerEnded("id-w1", "it burnt"))
    log.on_message(WorkerEnded("id-w1", "it burnt"))
    log.on_message(WorkerEnded("nobody"))
    log.on_message(again)
    (first, _, third) = written.of(WorkerJoined)
    assert ("w1", "n17", "j8", {"Cores": 2}, 99.0) == (
        first.worker, first.host, first.job, first.resources, first.ends
    )  # fmt: skip
    assert "w1" == third.worker
    assert [("w1", "it burnt")] == [(left.worker, left.why) for left in written.of(WorkerLeft)]


def test_a_run_ends_with_the_report_of_its_worker(log: RunLog, written: Recorder) -> None:
    log.on_message(Started("id-w1", (1, 2)))
    usage = Usage(user=3.0, programs=1)
    report = RunReport(started=10.0, ended=20.0, host="n18", worker="w9", cpus=(5,), usage=usage)
    log.ended(1, None, report=report)
    log.ended(2, ValueError("a\nb"))
    log.ended(3, KeyError(), cancelled=True)
    one, two, three = written.of(RunEnded)
    assert ("w1", "n18", 10.0, 20.0, (5,), usage) == (
        one.worker, one.host, one.started, one.ended, one.cpus, one.usage
    )  # fmt: skip
    started = [line.time for line in written.of(TaskStarted)]
    assert ("n17", started[1], two.time, None) == (two.host, two.started, two.ended, two.usage)
    assert ("ValueError", "a; b") == (two.failure.error, two.failure.message)
    assert ("cancelled", "", 0, None, "") == (
        three.outcome, three.worker, three.attempt, three.started, three.failure.error
    )  # fmt: skip


def test_a_run_has_the_memory_that_its_group_asked_for_also_if_it_runs_again(
    log: RunLog, written: Recorder
) -> None:
    learned = LearnedAmount(group="opt", amount=4.0, attempt=2, size=9.0)
    report = RunReport(started=10.0, ended=20.0, exceeded=True, learned=learned)
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Crashed(1, Crash((1, 1), "w1", "signal 9", 0.0), encode_report(report)))
    log.on_message(Started("", (1,)))
    log.on_message(Started("id-w1", (1,)))
    log.ended(1, MemoryError(), report=report)
    log.ended(2, None)
    expected = [(True, learned), (True, learned), (False, None)]
    assert expected == [(end.exceeded, end.learned) for end in written.of(RunEnded)]


def test_a_task_that_waits_again_has_lost_its_worker_or_was_handed_back(
    log: RunLog, written: Recorder
) -> None:
    for message in (
        Started("id-w1", (1,)),
        Started("id-w1", (1,)),  # after a loss of the connection
        Started("", (7,)),
    ):
        log.on_message(message)
    log.on_message(Started("", (1,)))
    log.on_message(Started("id-w2", (1,)))
    log.on_message(WorkerEnded("id-w2", "lost"))
    log.on_message(Started("", (1,)))
    log.on_message(Started("id-w1", (1,)))
    log.ended(1, None)
    assert [
        ("returned", "w1", 1, False), ("lost", "w2", 2, False), ("value", "w1", 3, True)
    ] == ends(written)  # fmt: skip
    # The same cause as that of a lost run that counts as a crash.
    assert ["", "its worker was lost", ""] == messages(written)


def test_readers_of_a_log_know_the_character_for_what_a_label_leaves_out() -> None:
    assert schema.LEFT_OUT == LEFT_OUT
    assert CallLabels().of("f", ("x" * 1000,), {}).count(schema.LEFT_OUT) == 1


def test_a_run_that_failed_has_its_call_and_no_other_run_has_one(written: Recorder) -> None:
    """It is asked for as such a run ends, and not before: it costs more than a line."""
    asked: list[int] = []

    def call_of(task: int) -> str:
        asked.append(task)
        return f"f({task})"

    log = written.log = RunLog(written, "m", written.now)
    SubmittedTasks(log, Cores(1), 9)
    log.follow(log._tasks, call_of=call_of)
    log.on_message(WorkerFacts("id-w1", "w1", "n17", {"Cores": 2}))
    log.on_message(Started("id-w1", (1, 2, 3, 4, 5)))
    log.on_message(Started("", (4,)))  # handed back
    log.on_message(WorkerEnded("id-w1", "lost"))
    log.on_message(Started("", (5,)))
    log.ended(1, None, call=lambda: call_of(1))
    log.ended(2, ValueError(), call=lambda: call_of(2))
    log.ended(3, KeyError(), cancelled=True, call=lambda: call_of(3))
    log.ended(4, TaskCrashed("", ()), crashed=True, call=lambda: call_of(4))

    assert [
        (4, "returned", ""), (5, "lost", "f(5)"), (1, "value", ""), (2, "error", "f(2)"),
        (3, "cancelled", ""), (4, "crashed", "f(4)"),
    ] == [(end.task, end.outcome, end.call) for end in written.of(RunEnded)]  # fmt: skip
    assert [5, 2, 4] == asked


def test_a_run_whose_end_was_never_reported_ends_when_the_next_begins(
    log: RunLog, written: Recorder
) -> None:
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Started("id-w2", (1,)))
    log.ended(1, None)
    assert [("returned", "w1", 1, False), ("value", "w2", 2, True)] == ends(written)


def test_a_run_that_was_handed_back_names_a_soft_stop_of_its_program(
    log: RunLog, written: Recorder
) -> None:
    for worker, interruption in (("id-w1", "stopped"), ("id-w2", "")):
        log.on_message(Started(worker, (1,)))
        log.on_message(Started("", (1,), interruption=interruption))  # type: ignore[arg-type]
    log.ended(1, None)
    assert [("returned", STOPPED_SOFTLY), ("returned", ""), ("value", "")] == [
        (one.outcome, one.failure.message) for one in written.of(RunEnded)
    ]


def test_the_crash_by_which_a_task_is_given_up_is_its_end_and_no_other_line(
    log: RunLog, written: Recorder
) -> None:
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Crashed(1, Crash((1, 1), "w1", "signal 9", 0.0)))
    log.on_message(Started("", (1,)))
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Crashed(1, Crash((1, 1), "w1", "signal 9", 0.0)))
    log.ended(1, TaskCrashed("given up", ()), crashed=True)
    assert [("crashed", "w1", 1, False), ("crashed", "w1", 2, True)] == ends(written)
    assert ["signal 9", "given up"] == messages(written)


def test_a_lost_worker_and_its_runs_end_when_it_was_last_heard(
    log: RunLog, written: Recorder
) -> None:
    """And a run that was given to it after that, at once."""
    written.clock = 100.0
    log.tick()
    log.on_message(Started("id-w1", (1,)))
    log.on_message(WorkerEnded("id-w1", "lost", 10.0))
    log.on_message(WorkerEnded("id-w2", "", None))
    log.on_message(Started("", (1,)))
    log.on_message(WorkerFacts("id-w1", "w1", "n17", {"Cores": 2}))
    log.on_message(Started("id-w1", (1,)))
    written.clock = 200.0
    log.tick()
    log.on_message(WorkerEnded("id-w1", "lost", 30.0))
    log.on_message(Started("", (1,)))
    log.ended(1, None)

    first, left, second = written.of(WorkerLeft)
    assert [10.0, None, 30.0] == [
        one.heard and one.time - one.heard for one in (first, left, second)
    ]
    early, late = (end for end in written.of(RunEnded) if end.outcome == "lost")
    assert early.started == early.ended > first.heard
    assert second.heard == late.ended > late.started


def test_a_run_that_is_lost_with_its_worker_is_lost_though_it_counts_as_a_crash(
    log: RunLog, written: Recorder
) -> None:
    """The run may have ended its worker; but one with a report of its worker has crashed."""
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Started("id-w2", (2,)))
    report = RunReport(started=10.0, ended=20.0, worker="w2")
    log.on_message(Crashed(1, Crash((1, 1), "w1", "its worker was lost", 0.0)))
    log.on_message(Crashed(2, Crash((1, 2), "w2", "signal 9", 0.0), encode_report(report)))
    for worker in "id-w1", "id-w2":
        log.on_message(WorkerEnded(worker, "lost"))
    log.on_message(Started("", (1, 2)))
    assert [("lost", "w1", 1, False), ("crashed", "w2", 1, False)] == ends(written)
    assert ["its worker was lost", "signal 9"] == messages(written)


def test_a_run_that_has_outlived_its_worker_was_handed_back_and_has_not_crashed(
    log: RunLog, written: Recorder
) -> None:
    log.on_message(Started("id-w1", (1,)))
    log.on_message(Crashed(1, Crash((1, 1), "w1", TIME_OVER, 0.0, Outlived(110.0, 115.0))))
    log.on_message(Started("", (1,)))
    assert [("returned", "w1", 1, False)] == ends(written)
    assert [TIME_OVER] == messages(written)


def test_a_crash_of_an_earlier_run_is_not_that_of_the_present_one(
    log: RunLog, written: Recorder
) -> None:
    log.on_message(Started("id-w2", (1,)))
    log.on_message(Crashed(1, Crash((1, 1), "w1", "signal 9", 0.0)))
    log.on_message(Started("", (1,)))
    assert [("returned", "w2", 1, False)] == ends(written)


def test_results_from_the_cache_are_counted_once_however_often_the_log_is_written(
    log: RunLog, written: Recorder
) -> None:
    log.cached("f")
    log.cached("f")
    log.cached("g")
    assert {"f": 2, "g": 1} == {one.function: one.results for one in written.of(CachedResults)}
    log.cached("f")

    assert [1, 1, 2] == sorted(one.results for one in written.of(CachedResults))


def test_an_exception_without_a_text_is_no_trouble(log: RunLog, written: Recorder) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    log.ended(1, Odd())
    [end] = written.of(RunEnded)
    assert ("Odd", "") == (end.failure.error, end.failure.message)


@pytest.mark.parametrize(
    ("request_", "members", "each", "cores"),
    [
        (Cores(2), (), {"Cores": 2}, 0),
        (3 * Cores(2), (3,), {"Cores": 2}, 0),
        (3 * Cores(2) | Cores(4), (3, 1), {"Cores": 2}, 0),
        (Cores("all"), (), {"Cores": 1}, 2),
        (3 * Cores("all"), (3,), {"Cores": 1}, 6),
    ],
)
def test_a_log_has_the_workers_of_a_task_and_the_cores_that_its_request_leaves_open(
    written: Recorder,
    request_: Resource,
    members: tuple[int, ...],
    each: dict[str, float],
    cores: float,
) -> None:
    log = written.log = RunLog(written, "m", written.now)
    tasks = SubmittedTasks(log, request_)
    log.on_message(WorkerFacts("id-w", "w", "n17", {"Cores": [0, 5]}))
    task = tasks.submit("f", request_)
    log.on_message(Started("id-w", (task,)))
    log.ended(task, None)

    [submitted] = written.of(schema.TaskSubmitted)
    assert (members, each) == (submitted.members, submitted.request)
    [ended] = written.of(RunEnded)
    assert cores == ended.cores


def test_the_lines_of_a_gang_name_all_of_its_workers(log: RunLog, written: Recorder) -> None:
    """With their CPUs if the worker has reported them."""
    tasks = list(SubmittedTasks(log, 2 * Cores(1), 2).tasks)
    for task in tasks:
        log.on_message(Started("id-w1", (task,)))
        log.on_message(Seated(task, ("id-w2",)))
    members = RunMember(worker="w1", cpus=(3,)), RunMember(worker="w2", host="n2", cpus=(0, 1))
    log.ended(tasks[0], None, report=RunReport(started=1.0, ended=2.0, members=members))
    log.ended(tasks[1], None, report=0.1)

    assert [("w1", "w2")] * 2 == [line.members for line in written.of(TaskStarted)]
    reported, known = written.of(RunEnded)
    assert members == reported.members
    assert ["w1", "w2"] == [member.worker for member in known.members]


def test_members_that_changed_unseen_are_named_by_another_line_of_the_start(
    log: RunLog, written: Recorder
) -> None:
    """The gang began again on the same first worker while the mission was away."""
    [task] = SubmittedTasks(log, 2 * Cores(1), 1).tasks
    log.on_message(WorkerFacts("id-w3", "w3", "n17", {"Cores": [1]}))
    for seat in ("id-w2", "id-w3", "id-w3"):
        log.tick()
        log.on_message(Started("id-w1", (task,)))
        log.on_message(Seated(task, (seat,)))
        starts = written.of(TaskStarted)  # what is held is written

    assert [("w1", "w2"), ("w1", "w3")] == [line.members for line in starts]
    assert starts[0].time == starts[1].time


def test_a_task_on_one_worker_has_no_members_also_after_a_gang(
    log: RunLog, written: Recorder
) -> None:
    [task] = SubmittedTasks(log, 2 * Cores(1) | Cores(1), 1).tasks
    log.on_message(Started("id-w1", (task,)))
    log.on_message(Seated(task, ("id-w2",)))
    log.on_message(Started("", (task,)))
    log.on_message(Started("id-w2", (task,), alternative=1))
    log.ended(task, None)

    assert [2, 0] == [len(line.members) for line in written.of(RunEnded)]


def test_a_gang_that_loses_a_member_has_one_run_that_crashed(
    log: RunLog, written: Recorder
) -> None:
    """The task waits on another worker until nothing is left of its gang: it does not run there."""
    [task] = SubmittedTasks(log, 2 * Cores(1), 1).tasks
    log.on_message(Started("id-w1", (task,)))
    log.on_message(Started("id-w2", (task,), over=True))
    log.on_message(Crashed(task, Crash((1, 1), "w2", "w2 is lost", 0.0)))
    log.on_message(Started("", (task,)))
    log.ended(task, None)

    assert [("crashed", "w1", 1, False), ("value", "", 1, True)] == ends(written)
    assert ["w1"] == [line.worker for line in written.of(TaskStarted)]
    assert ["w2 is lost", ""] == messages(written)


def test_the_run_of_an_earlier_process_is_listed_again_when_the_name_of_its_worker_is_known(
    log: RunLog, written: Recorder
) -> None:
    [task] = SubmittedTasks(log, Cores(1), 1).tasks
    log.started((task,), "id-w3", log.now)
    assert ["id-w3"] == [line.worker for line in written.of(TaskStarted)]
    log.on_message(WorkerFacts("id-w3", "w3", "n17", {"Cores": [0, 5]}, 99.0, "j8"))

    assert ["id-w3", "w3"] == [line.worker for line in written.of(TaskStarted)]
    log.ended(task, None)
    assert [("value", "w3", 1, True)] == ends(written)


def test_a_lane_adds_no_lines_and_its_calls_have_theirs(log: RunLog, written: Recorder) -> None:
    """The lane is not among the tasks of the executor, though the scheduler starts it."""
    log.on_message(Started("id-w1", (77,)))
    log.started((3,), "id-w1", log.now)
    log.ended(3, None, report=0.5)
    log.on_message(Started("", (77,)))

    assert [(3, "w1")] == [(line.task, line.worker) for line in written.of(TaskStarted)]
    assert [("value", "w1", 1, True)] == ends(written)
