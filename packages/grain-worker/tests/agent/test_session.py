"""The state and the answers of a worker's session."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import pytest
from msgspec import structs

from grain.edge.messages import MAX_MESSAGE, Codec
from grain.eventlog.causes import RunFailure
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.eventlog.usage import LearnedAmount, ProgramState, RunReport, decode_report
from grain.resource import Cores, WTime
from grain.worker.agent.listener import RunnerDeath
from grain.worker.errors import noted_last
from grain.worker.messages import (
    AGENT,
    LANE,
    PRINTED,
    TIME_OVER,
    AckRuns,
    ArrivedCount,
    Backlog,
    BlockingCode,
    Cancel,
    CoresComputed,
    DefineFunction,
    Drain,
    Draining,
    Ended,
    GangBegun,
    GangPart,
    Inspect,
    Inspected,
    Inventory,
    InventoryEnd,
    Lease,
    Leaving,
    LoopBlocked,
    Outlived,
    PastAttempts,
    RegisterWorker,
    Revoke,
    RunEnded,
    RunOver,
    StartRun,
    TasksPrinted,
)
from grain.worker.payload import Payloads
from grain.worker.processes.subreaper_client import ProcessEnd
from grain.worker.session import WorkerSession

M = TypeVar("M")


def joined_session() -> WorkerSession:
    session = WorkerSession("id", "w", "host", Cores(4), 0.0)
    session.on_connected(0.0)
    session.take_mail()
    session.on_message(DefineFunction(b"f"), b"code", 0.0)
    return session


def lease(number: int, **more: Any) -> Lease:
    return Lease("m", number, (1, number), b"f", {"Cores": 1}, **more)


def sent(session: WorkerSession, kind: type[M]) -> list[M]:
    """Return the queued messages of one kind for the head."""
    return [message for message, _ in session.to_head if isinstance(message, kind)]


def ordered(session: WorkerSession, kind: type[M]) -> list[M]:
    """Return the queued messages of one kind for the runner."""
    return [message for message, _ in session.to_runner if isinstance(message, kind)]


def test_a_lease_begins_one_run_however_often_it_comes() -> None:
    session = joined_session()
    for _ in range(2):
        session.on_message(lease(1), b"args", 0.0)
    session.on_tick(session.next_tick())

    assert [StartRun((1, 1), {"Cores": 1}, None, b"f", task=1)] == ordered(session, StartRun)
    assert b"args" == session.to_runner[0][1]
    assert b"code" == session.functions.get(b"f")
    assert [ArrivedCount(1)] == sent(session, ArrivedCount)


@pytest.mark.parametrize(("failed", "status"), [(False, "value"), (True, "error")])
def test_an_outcome_is_sent_on_every_connection_until_it_is_acknowledged(
    failed: bool, status: Any
) -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    failure = RunFailure("ValueError", "odd") if failed else None
    session.on_ended(Ended((1, 1), "done", failed, failure=failure), b"outcome", 1.0)
    settled = RunEnded("m", 1, (1, 1), status, failure=failure)
    assert [(settled, b"outcome")] == [p for p in session.to_head if isinstance(p[0], RunEnded)]

    session.on_disconnected()
    session.on_connected(2.0)
    assert [(settled, b"outcome")] == [p for p in session.to_head if isinstance(p[0], RunEnded)]

    session.on_message(AckRuns(((1, 1),)), None, 3.0)
    assert {} == session.kept.by_attempt


def test_a_worker_takes_no_more_runs_until_half_of_too_many_outcomes_is_acknowledged() -> None:
    """By their number and by their bytes; what it has goes on."""
    session = joined_session()
    session.kept.most, session.kept.most_bytes = 3, 1000
    for number in range(1, 7):
        session.on_message(lease(number), b"", 0.0)
    for number in (1, 2, 3):
        session.on_ended(Ended((1, number)), b"12", 0.0)
    assert [] == sent(session, Backlog)
    session.on_ended(Ended((1, 4)), b"34", 0.0)
    session.on_ended(Ended((1, 5)), b"56", 0.0)
    assert [Backlog(4, 8)] == sent(session, Backlog)
    assert [] == ordered(session, Cancel)

    session.on_disconnected()
    session.on_connected(1.0)
    kinds = [type(message) for message, _ in session.to_head]
    assert kinds.index(Backlog) < kinds.index(InventoryEnd)
    session.take_mail()
    session.on_message(AckRuns(tuple((1, n) for n in (1, 2, 3))), None, 1.0)
    assert [] == sent(session, Backlog)
    session.on_message(AckRuns(((1, 4), (1, 4))), None, 1.0)
    assert [Backlog()] == sent(session, Backlog)
    session.on_ended(Ended((1, 6)), bytes(1000), 1.0)
    assert [Backlog(), Backlog(2, 1002)] == sent(session, Backlog)


def test_outcomes_beyond_a_part_of_the_memory_are_spooled() -> None:
    session = WorkerSession("id", "w", "host", Cores(4), 0.0, in_memory=10)
    session.on_connected(0.0)
    session.take_mail()
    for number, size in ((1, 6), (2, 6), (3, 4), (4, 1)):
        session.on_message(lease(number), b"", 0.0)
        session.on_ended(Ended((1, number)), bytes(size), 0.0)
    second, fourth = session.kept.take_to_spool()
    assert ([6, 1], 2) == ([second.size, fourth.size], session.kept.spooled)
    outcomes = [payload for message, payload in session.to_head if isinstance(message, RunEnded)]
    assert [bytes(6), second, bytes(4), fourth] == outcomes

    session.on_message(AckRuns(((1, 2), (1, 1))), None, 0.0)
    assert not second.wanted
    session.on_message(lease(5), b"", 0.0)
    session.on_ended(Ended((1, 5)), bytes(6), 0.0)
    assert ([], 1, 11) == (session.kept.to_spool, session.kept.spooled, session.kept.bytes)


def test_a_connection_begins_with_the_whole_inventory_and_ends_it_clearly() -> None:
    session = joined_session()
    session.on_message(lease(1, limit=100.0), b"", 0.0)
    session.on_message(lease(2), b"", 0.0)
    session.on_ended(Ended((1, 2)), b"outcome", 1.0)
    session.on_disconnected()
    session.on_connected(30.0)

    kinds = [type(message) for message, _ in session.to_head]
    assert [RegisterWorker, Inventory, InventoryEnd, RunEnded] == kinds
    running, ended = sent(session, Inventory)[0].runs
    assert (1, 30.0, 70.0, False) == (running.task, running.elapsed, running.left, running.ended)
    assert (2, True) == (ended.task, ended.ended)


def test_another_head_learns_which_runs_are_lanes() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.on_message(structs.replace(lease(2), function=LANE), b"", 0.0)
    session.on_disconnected()
    session.take_mail()
    session.on_connected(30.0)

    [inventory] = sent(session, Inventory)
    assert [(1, False), (2, True)] == [(run.task, run.lane) for run in inventory.runs]


def test_the_time_left_counts_from_the_connection() -> None:
    """Clocks differ between machines: only durations travel."""
    session = WorkerSession("id", "w", "host", Cores(4) & WTime(T=1000), 5.0)
    session.on_connected(105.0)

    assert {"Cores": 4, "WTime": {"T": 900.0}} == sent(session, RegisterWorker)[0].total


@pytest.mark.parametrize(
    ("total", "deadline", "expected"),
    [
        (Cores(4) & WTime(T=1000), 1000.0, Outlived(901.0, 1000.0)),
        (Cores(4) & WTime(T=1000), 950.0, Outlived(851.0, 1000.0)),  # a batch system is early
        (Cores(4) & WTime(T=1000), 900.0, None),  # another reason
        (Cores(4) & WTime(T=400), 350.0, None),  # of a short time that is much
        (Cores(4), 1000.0, None),
    ],
)
def test_a_run_that_is_handed_back_at_the_end_of_the_time_has_outlived_the_worker(
    total: Any, deadline: float, expected: Outlived | None
) -> None:
    session = WorkerSession("id", "w", "host", total, 5.0)
    session.on_connected(5.0)
    session.on_message(DefineFunction(b"f"), b"code", 5.0)
    session.on_message(lease(1), b"", 105.0)
    session.drain(500.0, deadline + 5.0)
    session.on_message(lease(2), b"", 500.0)
    session.on_tick(deadline + 5.0)
    session.on_ended(Ended((1, 1), "cancelled"), None, deadline + 6.0)

    ended = {one.task: one for one in sent(session, RunEnded)}
    assert {"returned"} == {one.status for one in ended.values()}
    assert expected == ended[1].outlived
    assert (TIME_OVER if expected else "") == ended[1].detail
    assert ended[2].outlived is None  # it came too late, and never began


def test_a_run_that_stopped_softly_is_handed_back_and_has_not_outlived_the_worker() -> None:
    session = WorkerSession("id", "w", "host", Cores(4) & WTime(T=1000), 0.0)
    session.on_connected(0.0)
    past = PastAttempts(1, "stopped")
    session.on_message(structs.replace(lease(1), past=past), b"", 0.0)
    assert [past] == [one.past for one in ordered(session, StartRun)]
    session.drain(940.0, 1000.0)
    stopped = Ended((1, 1), "returned", report=b"ran", interruption="stopped")
    session.on_ended(stopped, None, 990.0)

    [ended] = sent(session, RunEnded)
    assert ("returned", STOPPED_SOFTLY, None) == (ended.status, ended.detail, ended.outlived)
    assert "stopped" == ended.interruption


@pytest.mark.parametrize(("mission", "status"), [("m", "crashed"), ("lasting-m", "returned")])
def test_a_run_that_was_ended_for_the_nodes_memory_has_crashed_but_a_job_has_receipts(
    mission: str, status: str
) -> None:
    session = joined_session()
    session.on_message(structs.replace(lease(1), mission=mission), b"", 0.0)
    crashed = Ended((1, 1), "cancelled", crash="9 GB", report=b"ran", interruption="short")
    session.on_ended(crashed, None, 9.0)
    [ended] = sent(session, RunEnded)
    assert (status, "9 GB", "short") == (ended.status, ended.detail, ended.interruption)


def test_a_lane_that_is_handed_back_at_the_end_of_the_time_has_not_outlived_the_worker() -> None:
    """Its call would count as one that takes as long as the lane was there."""
    session = WorkerSession("id", "w", "host", Cores(4) & WTime(T=1000), 5.0)
    session.on_connected(5.0)
    session.on_message(structs.replace(lease(1), function=LANE), b"", 105.0)
    session.drain(1005.0, 1005.0)
    session.on_tick(1005.0)
    session.on_ended(Ended((1, 1), "cancelled"), None, 1006.0)

    [ended] = sent(session, RunEnded)
    assert ("returned", None) == (ended.status, ended.outlived)


def test_the_time_of_a_worker_that_counts_down_is_that_from_its_start() -> None:
    now = 5.0
    total = Cores(4) & WTime(T=1000, countdown=True, clock=lambda: now)
    session = WorkerSession("id", "w", "host", total, now)
    session.on_connected(now)
    session.on_message(DefineFunction(b"f"), b"code", now)
    session.on_message(lease(1), b"", 105.0)
    now = 1005.0
    session.drain(now, now)
    session.on_tick(now)
    session.on_ended(Ended((1, 1), "cancelled"), None, now)

    assert [Outlived(900.0, 1000.0)] == [one.outlived for one in sent(session, RunEnded)]


def test_runs_go_on_without_a_connection_and_nothing_is_queued_for_the_head() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.on_disconnected()
    session.on_ended(Ended((1, 1)), b"outcome", 1.0)
    session.on_computing(3.0)
    session.drain(2.0)

    assert [] == session.to_head
    assert [] == ordered(session, Cancel)
    assert {(1, 1)} == session.kept.by_attempt.keys()


def test_a_revoked_run_is_cancelled_once_and_reported_as_such() -> None:
    """Unless it ends by itself meanwhile."""
    session = joined_session()
    for number in (1, 2):
        session.on_message(lease(number), b"", 0.0)
        session.on_message(Revoke((1, number)), None, 0.0)
        session.on_message(Revoke((1, number)), None, 0.0)
    session.on_ended(Ended((1, 1), "cancelled"), None, 1.0)
    session.on_ended(Ended((1, 2), "done"), b"quick", 1.0)

    assert [Cancel((1, 1)), Cancel((1, 2))] == ordered(session, Cancel)
    assert ["cancelled", "value"] == [settled.status for settled in sent(session, RunEnded)]


def test_a_crash_is_that_of_all_runs_but_the_revoked_which_it_cancels() -> None:
    session = joined_session()
    for number in (1, 2):
        session.on_message(lease(number), b"", 0.0)
    session.on_message(Revoke((1, 2)), None, 0.0)
    session.on_runner_crashed("SIGSEGV", 1.0)

    ends = {settled.attempt: settled for settled in sent(session, RunEnded)}
    assert ("crashed", "SIGSEGV") == (ends[1, 1].status, ends[1, 1].detail)
    assert "cancelled" == ends[1, 2].status


@pytest.mark.parametrize(("mission", "status"), [("m", "returned"), ("lasting-m", "crashed")])
def test_a_run_that_dies_as_its_worker_ends_is_handed_back_but_a_job_has_crashed(
    mission: str, status: str
) -> None:
    """The process of a job has not noted its end, so nothing else would say that it is over."""
    session = joined_session()
    session.on_message(structs.replace(lease(1), mission=mission), b"", 0.0)
    session.drain(1.0, 1.0)
    session.on_runner_crashed("SIGKILL", 2.0)

    [ended] = sent(session, RunEnded)
    assert (status, "SIGKILL") == (ended.status, ended.detail)


def test_a_crash_of_a_lane_has_the_call_that_it_had_begun_last() -> None:
    session = joined_session()
    for number in (1, 2):
        session.on_message(lease(number), b"", 0.0)
    session.on_runner_crashed("SIGSEGV", 1.0, begun={(1, 1): 30, (1, 7): 5})

    assert {1: 30, 2: 0} == {one.attempt[1]: one.call for one in sent(session, RunEnded)}


def test_a_draining_worker_hands_back_late_leases_and_leaves_when_all_is_acknowledged() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.on_message(Drain(), None, 1.0)
    session.on_message(lease(2), b"", 1.0)
    assert 1 == len(sent(session, Draining))
    assert [(2, "returned")] == [(s.task, s.status) for s in sent(session, RunEnded)]

    session.on_ended(Ended((1, 1)), b"", 1.0)
    session.on_tick(2.0)
    assert not session.finished
    session.on_message(AckRuns(((1, 1), (1, 2))), None, 3.0)
    session.on_tick(3.0)
    assert session.finished
    assert [Leaving()] == sent(session, Leaving)


def test_a_worker_says_why_it_leaves_and_the_first_reason_stays() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.drain(1.0, 10.0, "SIGTERM")
    session.drain(2.0, 5.0, "asked to drain")
    session.on_ended(Ended((1, 1)), b"", 3.0)
    session.on_message(AckRuns(((1, 1),)), None, 3.0)
    session.on_tick(4.0)
    assert [Leaving("SIGTERM")] == sent(session, Leaving)


def test_at_the_deadline_runs_are_cancelled_and_handed_back() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.drain(1.0, 10.0)
    assert 10.0 == session.next_tick()
    session.on_tick(10.0)
    assert [Cancel((1, 1))] == ordered(session, Cancel)
    session.on_ended(Ended((1, 1), "cancelled"), None, 1.0)

    assert ["returned"] == [settled.status for settled in sent(session, RunEnded)]


def test_a_deadline_has_an_effect_once() -> None:
    """While cancelled runs take their time, there is nothing to do."""
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.drain(1.0, 1.0)
    assert [Cancel((1, 1))] == ordered(session, Cancel)
    assert session.next_tick() == math.inf

    session.on_ended(Ended((1, 1), "cancelled"), None, 2.0)
    session.on_tick(2.0)
    assert session.next_tick() > 2.0
    session.on_tick(session.next_tick())
    assert session.finished
    assert session.next_tick() == math.inf


def test_a_worker_forgets_its_oldest_functions_where_no_message_has_room_for_all() -> None:
    session = joined_session()
    digests = [number.to_bytes(16, "big") for number in range(70_000)]
    for digest in digests:
        session.on_message(DefineFunction(digest), b"code", 0.0)
    session.on_disconnected()
    session.on_connected(2.0)

    (register,) = sent(session, RegisterWorker)
    assert len(Codec(*AGENT).encode(register, None)) <= MAX_MESSAGE
    assert digests[-30_000:] == list(register.functions)[-30_000:]
    assert tuple(session.functions) == register.functions


def test_a_run_that_blocks_its_runner_is_reported_to_the_head_and_so_is_the_end_of_that() -> None:
    """Also if the run has ended by then; a run that this worker does not have is not reported."""
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    code = BlockingCode(
        "relax", "sweep.py:7", "time.sleep(60)", 2.0, "write `await trio.sleep(...)`"
    )
    over = BlockingCode(code.function, code.where, code.line, 60.0, code.instead, over=True)

    session.on_blocking((1, 1), code)
    session.on_ended(Ended((1, 1)), b"", 60.0)
    session.on_blocking((1, 1), over)
    session.on_blocking((1, 2), code)

    assert [LoopBlocked("m", 1, code), LoopBlocked("m", 1, over)] == sent(session, LoopBlocked)


def test_a_question_for_the_programs_of_a_run_goes_to_the_runner_and_its_answer_back() -> None:
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    session.on_message(Inspect(7, (1, 1)), None, 0.0)
    session.on_inspected(Inspected(7, (ProgramState("xtb", 2.0),)))

    assert [Inspect(7, (1, 1))] == ordered(session, Inspect)
    assert [Inspected(7, (ProgramState("xtb", 2.0),))] == sent(session, Inspected)


def test_a_run_that_the_worker_does_not_have_has_no_programs() -> None:
    session = joined_session()
    session.on_message(Inspect(7, (1, 1)), None, 0.0)

    assert [] == ordered(session, Inspect)
    assert [Inspected(7, ())] == sent(session, Inspected)


def test_a_run_whose_outcome_is_a_crash_is_reported_as_crashed_and_its_outcome_is_dropped() -> None:
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)

    session.on_ended(Ended((1, 1), "done", True, "a process was killed"), b"error", 1.0)

    (message,) = sent(session, RunEnded)
    assert ("crashed", "a process was killed") == (message.status, message.detail)
    assert b"error" not in [payload for _, payload in session.to_head]


def test_the_worker_whose_loss_has_ended_a_gang_is_named() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    ended = Ended((1, 1), "done", failed=True, crash="w2 is lost: it is silent", lost="w2")
    session.on_ended(ended, b"outcome", 1.0)

    [settled] = sent(session, RunEnded)
    assert ("crashed", "w2 is lost: it is silent", "w2") == (
        *(settled.status, settled.detail, settled.lost),
    )


@pytest.mark.parametrize("ends", ["cancelled", "returned"])
def test_a_run_that_crashes_while_it_is_to_end_has_no_outcome_and_is_no_crash(ends: str) -> None:
    """Or a gang would fail with the loss of a member, of which the scheduler knew before its root.

    Nor is it the failure of a task that its worker hands back.
    """
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    if ends == "cancelled":
        session.on_message(Revoke((1, 1)), None, 0.0)
    else:
        session.drain(0.5, 0.5)
        session.on_tick(0.5)

    session.on_ended(Ended((1, 1), "done", True, "a process was killed"), b"error", 1.0)

    assert [ends] == [message.status for message in sent(session, RunEnded)]


def begin_part(session: WorkerSession, index: int = 0) -> Lease:
    """Let a part of a gang arrive, by default its root."""
    part = lease(1, gang=GangPart((1, 1 - index), index, 2))
    session.on_message(part, b"args", 0.0)
    return part


@pytest.mark.parametrize("how", ["dies", "fails"])
def test_the_root_of_a_gang_does_not_crash_before_its_function_begins(how: str) -> None:
    session = joined_session()
    begin_part(session)

    if how == "dies":
        session.on_runner_crashed("SIGSEGV", 1.0)
    else:
        session.on_ended(Ended((1, 1), "done", True, "a process was killed"), b"error", 1.0)

    [ended] = sent(session, RunEnded)
    said = "SIGSEGV" if how == "dies" else "a process was killed"
    assert ("returned", said, 0) == (ended.status, ended.detail, ended.absent)


def test_the_root_of_a_gang_that_was_to_end_says_that_its_function_had_not_begun() -> None:
    session = joined_session()
    begin_part(session)
    session.on_message(Revoke((1, 1)), None, 0.5)

    session.on_ended(Ended((1, 1), "cancelled"), None, 1.0)

    [ended] = sent(session, RunEnded)
    assert ("cancelled", 0) == (ended.status, ended.absent)


@pytest.mark.parametrize("index", [0, 1])
def test_a_part_of_a_gang_crashes_otherwise_like_any_run(index: int) -> None:
    session = joined_session()
    begin_part(session, index)
    if not index:
        session.on_run_message(GangBegun((1, 1)))

    session.on_runner_crashed("SIGSEGV", 1.0)

    [ended] = sent(session, RunEnded)
    assert ("crashed", "SIGSEGV", -1) == (ended.status, ended.detail, ended.absent)


def test_a_value_of_a_gang_is_one_whatever_its_root_has_said() -> None:
    session = joined_session()
    begin_part(session)

    session.on_ended(Ended((1, 1)), b"value", 1.0)

    [ended] = sent(session, RunEnded)
    assert ("value", -1) == (ended.status, ended.absent)


def test_a_worker_says_on_each_connection_that_a_gang_has_begun() -> None:
    session = joined_session()
    begin_part(session)
    session.on_run_message(GangBegun((1, 1)))
    assert [GangBegun((1, 1))] == sent(session, GangBegun)
    session.on_disconnected()

    session.on_connected(1.0)

    kinds = [type(message) for message, _ in session.to_head]
    assert kinds.index(InventoryEnd) < kinds.index(GangBegun)


def test_a_run_that_is_over_is_told_at_once_and_with_each_inventory() -> None:
    session = joined_session()
    session.on_message(lease(1), b"", 0.0)
    session.on_message(lease(2), b"", 0.0)

    session.on_run_message(RunOver((1, 1)))

    assert [RunOver((1, 1))] == sent(session, RunOver)
    session.on_disconnected()
    session.on_connected(1.0)
    [inventory] = sent(session, Inventory)
    assert [(1, True), (2, False)] == [(run.task, run.over) for run in inventory.runs]
    session.on_ended(Ended((1, 1)), b"value", 1.0)
    session.on_disconnected()
    session.on_connected(2.0)
    [inventory] = sent(session, Inventory)
    told = [(run.task, run.over, run.ended) for run in inventory.runs]
    assert [(2, False, False), (1, False, True)] == told


@pytest.mark.parametrize("alone", [False, True])
def test_the_end_of_a_run_is_waited_for_that_tells_more(alone: bool) -> None:
    """Its group learns how much memory it has used, or a worker was emptied for it."""
    session = joined_session()
    res = {} if alone else {"Memory": {"M": 1.0, "group": "opt"}}
    run = structs.replace(lease(1), alone=alone, res={"Cores": 1, **res})
    session.on_message(run, b"", 0.0)

    session.on_run_message(RunOver((1, 1)))

    session.on_disconnected()
    session.on_connected(1.0)
    [inventory] = sent(session, Inventory)
    assert ([], [False]) == (sent(session, RunOver), [run.over for run in inventory.runs])


def test_lines_that_tasks_print_go_to_their_mission_together_and_before_the_end_of_a_run() -> None:
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    session.on_tick(0.5)
    session.on_printed((1, 1), ("m:1 f | one", "m:1 f | two"), 0, 1.0)
    session.on_printed((1, 1), ("m:1 f | three",), 4, 1.1)
    session.on_printed((1, 2), ("of a run that is not here",), 0, 1.1)
    assert 1.2 == session.next_tick()
    assert [] == sent(session, TasksPrinted)
    session.on_tick(1.2)
    text = "m:1 f | one\nm:1 f | two\nm:1 f | three\n"
    assert [TasksPrinted("m", text, 4)] == sent(session, TasksPrinted)

    session.take_mail()
    session.on_printed((1, 1), ("m:1 f | last",), 0, 2.0)
    session.on_ended(Ended((1, 1)), b"", 2.0)
    assert [TasksPrinted, RunEnded] == [
        type(message)
        for message, _ in session.take_mail()
        if isinstance(message, TasksPrinted | RunEnded)
    ]


def test_lines_that_do_not_fit_one_message_are_counted_and_without_a_connection_they_are_lost() -> (
    None
):
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    session.on_printed((1, 1), ("x" * (PRINTED - 10), "y" * 20, "z" * 8), 0, 1.0)
    session.on_tick(2.0)
    (printed,) = sent(session, TasksPrinted)
    assert (PRINTED, 1) == (len(printed.text), printed.lost)
    session.on_printed((1, 1), ("one",), 0, 3.0)
    session.on_disconnected()
    session.on_tick(4.0)
    session.on_connected(5.0)
    assert [] == sent(session, TasksPrinted)


def test_the_report_on_runs_that_a_crash_has_ended_has_their_times() -> None:
    session = joined_session()
    session.on_message(lease(1), b"args", 10.0)
    session.on_runner_crashed("it died", 12.0, wall=1000.0)
    (ended,) = sent(session, RunEnded)
    report = decode_report(ended.report, 0.0)
    assert RunReport(started=998.0, ended=1000.0, host="host", worker="w") == report


OF_GROUP = {"Cores": 1, "Memory": {"M": 4, "group": "opt", "last": True}}


@pytest.mark.parametrize(
    ("res", "others", "mission", "expected"),
    [
        (OF_GROUP, 0, "m", "error"),
        (OF_GROUP, 1, "m", "crashed"),  # it may be the other one's fault
        ({"Cores": 1, "Memory": 4}, 0, "m", "crashed"),
        (OF_GROUP, 0, "lasting-m", "crashed"),
    ],
)
def test_a_run_whose_runner_was_killed_for_want_of_memory_had_too_little(
    res: dict[str, Any], others: int, mission: str, expected: str
) -> None:
    death = RunnerDeath(((1, 1),), ProcessEnd(-9, 3.9, out_of_memory=True), host="n17")
    assert death.for_want_of_memory
    session = joined_session()
    session.on_message(structs.replace(lease(1), res=res, mission=mission), b"", 10.0)
    for number in range(others):
        session.on_message(lease(2 + number), b"", 10.0)
    session.on_runner_crashed(str(death), 12.0, wall=1000.0, out_of_memory=death.memory_outcome)
    [(ended, payload)] = [
        (one, payload)
        for one, payload in session.to_head
        if isinstance(one, RunEnded) and one.task == 1
    ]
    assert expected == ended.status
    report = decode_report(ended.report, 0.0)
    assert report is not None
    assert report.exceeded is (expected == "error")
    learned = LearnedAmount(group="opt", amount=4.0) if res is OF_GROUP else None
    assert learned == report.learned
    if expected == "error":
        assert isinstance(payload, bytes)
        error = Payloads("mission").load_outcome(payload)
        with pytest.raises(MemoryError, match="out of memory .* it asked for 4 GB") as caught:
            error.unwrap()
        assert 4 == caught.value.memory_request  # type: ignore[attr-defined]
        assert noted_last(caught.value)


def test_a_report_that_is_no_bytes_does_not_travel() -> None:
    """A runner has user code in its process."""
    session = joined_session()
    session.on_message(lease(1), b"args", 0.0)
    session.on_ended(Ended((1, 1), report={"started": "x"}), b"", 1.0)
    (ended,) = sent(session, RunEnded)
    assert b"" == ended.report


def test_the_cores_that_compute_are_reported_when_they_change_and_on_a_new_connection() -> None:
    session = joined_session()
    for cores in (1.0, 1.03, 1.1, 1.1, None, None, 0.0):
        session.on_computing(cores)
    assert [1.0, 1.1, None, 0.0] == [one.cores for one in sent(session, CoresComputed)]

    session.on_disconnected()
    session.on_computing(3.0)
    session.on_connected(1.0)
    assert [3.0] == [one.cores for one in sent(session, CoresComputed)]
