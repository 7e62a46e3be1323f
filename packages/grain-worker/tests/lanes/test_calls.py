"""The calls of a lane: which one begins, and which outcome is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grain.eventlog.causes import RunFailure
from grain.worker.lanes.beginnings import no_place
from grain.worker.lanes.calls import LaneCalls
from grain.worker.messages import (
    LANE,
    UNBEGUN,
    AckRuns,
    Cancel,
    DefineFunction,
    Ended,
    LaneOutcome,
    Recall,
    StartRun,
)

RUN = StartRun((7, 3), {"Cores": 2}, 60.0, LANE, task=9, settings=b"settings")
F, G = b"f", b"g"
FIRST, SECOND = (9, 10), (9, 11)


class Runner:
    """A lane with a runner that notes what it is to do."""

    def __init__(self) -> None:
        self.begun: list[tuple[StartRun, Any]] = []
        self.cancelled = 0
        self.defined: list[bytes] = []
        self.last = no_place()
        self.calls = LaneCalls(
            RUN,
            lambda run, arguments: self.begun.append((run, arguments)),
            self.cancel,
            lambda digest, _: self.defined.append(digest),
            self.last,
        )

    def cancel(self) -> None:
        self.cancelled += 1

    def start(self, call: tuple[int, int], function: bytes = F) -> None:
        start = StartRun(call, None, function=function, task=call[1])
        self.calls.on_message(start, b"arguments")

    def end(self, **more: Any) -> list[tuple[Ended, Any]]:
        """End the call, and begin the next one; return what the mission is to get."""
        self.calls.end_call(Ended(RUN.attempt, **more), b"outcome")
        self.calls.begin_next()
        return self.calls.take_unsent()

    def outcome(self, *, unreachable: bool = False) -> LaneOutcome | None:
        """Return the outcome of the lane; None if it was revoked."""
        outcome = self.calls.outcome(unreachable=unreachable)
        return None if outcome is None else msgspec.msgpack.decode(outcome, type=LaneOutcome)


@pytest.fixture
def runner() -> Runner:
    return Runner()


def test_the_call_that_was_begun_last_is_noted_also_when_it_has_ended(runner: Runner) -> None:
    runner.start(FIRST)
    runner.start(SECOND)
    assert [10] == list(runner.last)
    runner.end()
    assert [11] == list(runner.last)
    runner.end()
    assert [11] == list(runner.last)


def test_a_call_has_what_the_lane_was_given_and_its_own_function_and_number(
    runner: Runner,
) -> None:
    runner.calls.on_message(DefineFunction(F), b"function")
    runner.start(FIRST)

    [(run, arguments)] = runner.begun
    assert StartRun((7, 3), {"Cores": 2}, 60.0, F, task=10, settings=b"settings") == run
    assert b"arguments" == arguments
    assert [F] == runner.defined
    assert FIRST == runner.calls.call


def test_a_function_is_defined_before_each_call_as_the_agent_may_have_had_it_forgotten(
    runner: Runner,
) -> None:
    for function in (F, G):
        runner.calls.on_message(DefineFunction(function), b"function")
    assert [] == runner.defined
    for number, function in enumerate((F, G, F), 10):
        runner.start((9, number), function)
        runner.end()
    assert [F, G, F] == runner.defined


def test_a_second_call_begins_when_the_first_has_ended(runner: Runner) -> None:
    runner.start(FIRST)
    runner.start(SECOND)
    assert [10] == [run.task for run, _ in runner.begun]
    assert FIRST == runner.calls.call

    runner.end()

    assert [10, 11] == [run.task for run, _ in runner.begun]
    assert SECOND == runner.calls.call


def test_calls_that_wait_are_handed_back_when_the_lane_is_closed_and_so_are_later_ones(
    runner: Runner,
) -> None:
    for call in (FIRST, SECOND):
        runner.start(call)
    runner.calls.close()
    runner.start((9, 12))

    unbegun = [(Ended(call, UNBEGUN), None) for call in (SECOND, (9, 12))]
    assert unbegun == runner.calls.take_unsent()
    runner.end()
    assert [10] == [run.task for run, _ in runner.begun]
    assert [FIRST] == [ended.attempt for ended, _ in runner.calls.kept.values()]


@pytest.mark.parametrize(("waiting", "status"), [(True, UNBEGUN), (False, "cancelled")])
def test_a_call_that_waits_can_be_taken_back_or_cancelled_and_the_one_under_way_only_cancelled(
    runner: Runner, waiting: bool, status: str
) -> None:
    for call in (FIRST, SECOND):
        runner.start(call)
        runner.calls.on_message(Cancel(call, waiting=True), None)
    runner.start(SECOND)
    runner.calls.take_unsent()

    runner.calls.on_message(Cancel(SECOND, waiting), None)

    assert [(Ended(SECOND, status), None)] == runner.calls.take_unsent()
    runner.end()
    assert ([10], 0) == ([run.task for run, _ in runner.begun], runner.cancelled)


def test_no_call_begins_while_too_much_is_not_confirmed(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.worker.lanes.calls.MOST_KEPT", 10)
    for number in (10, 11, 12):
        runner.start((9, number))
    runner.end()
    runner.end()
    assert [10, 11] == [run.task for run, _ in runner.begun]

    runner.calls.on_message(AckRuns((FIRST,)), None)

    assert [10, 11, 12] == [run.task for run, _ in runner.begun]


def test_no_call_begins_after_the_lane_was_closed(runner: Runner) -> None:
    runner.start(FIRST)
    runner.calls.close()
    runner.end()
    runner.start(SECOND)
    assert [10] == [run.task for run, _ in runner.begun]
    assert [FIRST] == list(runner.calls.kept)


def test_the_mission_gets_the_end_of_a_call_under_the_name_that_it_knows(runner: Runner) -> None:
    runner.start(FIRST)
    failure = RunFailure("ValueError", "no")
    [report] = runner.end(failed=True, failure=failure)
    assert (Ended(FIRST, failed=True, failure=failure), b"outcome") == report
    assert runner.calls.call is None


def test_outcomes_are_kept_until_they_are_confirmed(runner: Runner) -> None:
    runner.start(FIRST)
    runner.end()
    runner.calls.on_message(AckRuns((SECOND,)), None)
    first, second = (Ended(FIRST), b"outcome"), (Ended(SECOND), b"outcome")
    assert LaneOutcome(ends=(first,)) == runner.outcome()
    runner.start(SECOND)
    runner.end()
    assert LaneOutcome(ends=(first, second)) == runner.outcome()
    runner.calls.on_message(AckRuns((FIRST,)), None)
    assert LaneOutcome(ends=(second,)) == runner.outcome()
    runner.calls.on_message(AckRuns((FIRST, SECOND)), None)
    assert LaneOutcome() == runner.outcome()
    assert LaneOutcome(unreachable=True) == runner.outcome(unreachable=True)


def test_an_end_without_an_outcome_is_kept_too(runner: Runner) -> None:
    runner.start(FIRST)
    runner.calls.end_call(Ended(RUN.attempt, "cancelled"), None)
    assert LaneOutcome(ends=((Ended(FIRST, "cancelled"), None),)) == runner.outcome()


def test_a_revoked_lane_cancels_its_call_and_begins_no_other(runner: Runner) -> None:
    runner.calls.revoke()
    assert (0, None) == (runner.cancelled, runner.outcome())

    runner = Runner()
    runner.start(FIRST)
    runner.calls.revoke()
    assert 1 == runner.cancelled
    runner.calls.end_call(Ended(RUN.attempt, "cancelled"), None)
    runner.start(SECOND)
    assert [10] == [run.task for run, _ in runner.begun]
    assert runner.outcome() is None


def test_a_call_that_has_ended_by_itself_has_its_outcome_though_its_lane_is_revoked(
    runner: Runner,
) -> None:
    runner.start(FIRST)
    runner.calls.revoke()
    runner.end()
    assert LaneOutcome(ends=((Ended(FIRST), b"outcome"),)) == runner.outcome()


def test_only_the_call_under_way_is_cancelled(runner: Runner) -> None:
    runner.calls.on_message(Cancel(FIRST), None)
    runner.start(FIRST)
    runner.calls.on_message(Cancel(SECOND), None)
    runner.calls.on_message(Cancel(RUN.attempt), None)
    assert 0 == runner.cancelled
    runner.calls.on_message(Cancel(FIRST), None)
    assert 1 == runner.cancelled
    runner.end(status="cancelled")
    runner.calls.on_message(Cancel(FIRST), None)
    assert 1 == runner.cancelled


def test_other_messages_change_nothing(runner: Runner) -> None:
    runner.start(FIRST)
    runner.calls.on_message(Recall(RUN.attempt), None)
    assert (FIRST, False, 0) == (runner.calls.call, runner.calls.closed, runner.cancelled)
