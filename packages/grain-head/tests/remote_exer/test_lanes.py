"""Lanes on a mission's side: when one is asked for, who has a call, and what is reported of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from grain.edge.questions import LoadAnswer, pack
from grain.eventlog.causes import RunFailure
from grain.head.messages import (
    AckTasks,
    Answer,
    CancelTask,
    Crash,
    Crashed,
    Depart,
    HeldCalls,
    LaneCall,
    LaneCount,
    LaneFailure,
    LaneReport,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    WorkerFacts,
)
from grain.remote_exer import MissionSession
from grain.remote_exer.lanes import (
    ALONE,
    BRIEF,
    LASTING,
    LINGER,
    PATIENCE,
    CallTraffic,
    Lane,
    MissionLanes,
    Way,
)
from grain.remote_exer.session import taken
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
from grain.worker.payload import Function
from grain_testkit.submitted_tasks import remote_task

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload

F = b"f"
NO = RunFailure("ValueError", "no")


class Sent:
    """A connection to a runner that keeps what was sent."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[Message, Payload]]] = []

    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        self.batches.append(batch)

    def take(self) -> list[Message]:
        return [message for batch in taken(self.batches) for message, _ in batch]


class Mission:
    """A mission with lanes, connected to a head; its request 0 has brief calls."""

    def __init__(self) -> None:
        self.session = MissionSession("id", "m")
        self.session.on_connected()
        self.session.request({"Cores": 1})
        self.session.define(Function(F, b"bytes", "f"))
        self.session.on_message(WorkerFacts("id-w", "w", "host", {}), None)
        self.session.take_mail()
        self.lanes = MissionLanes(self.session)
        self.lanes.add_request()
        [self.traffic] = self.lanes.traffic

    def ask(self, now: float = 0.0) -> int:
        return self.lanes.ask(0, b"invitation", now)

    def start(self, number: int, now: float = 0.0) -> None:
        self.session.on_message(Started("id-w", (number,)), None)
        self.lanes.on_news(now)

    def open(self, now: float = 0.0) -> tuple[Lane, Sent]:
        """Return a lane that is open, with the connection to its runner."""
        number, sent = self.ask(now), Sent()
        self.start(number, now)
        lane = self.lanes.connect(number, sent, now)
        assert lane is not None
        self.session.take_mail()
        return lane, sent

    def call(self, now: float = 0.0) -> int:
        """Send a call into an idle lane; return its number."""
        return self.lanes.board(self.traffic, remote_task(0, F, b"args"), now)

    def end(self, lane: Lane, now: float = 0.0, **more: Any) -> None:
        more = {"report": 0.001, **more}
        ended = Ended((lane.number, lane.task), **more)
        self.lanes.on_message(lane, ended, b"outcome", now)

    def over(
        self, lane: Lane, outcome: LaneOutcome | None, now: float = 0.0, call: int = 0
    ) -> None:
        """Let the scheduler report the end of a lane: a crash if there is no outcome."""
        if outcome is None:
            crash = Crash((7, 1), "w", "SIGKILL", 0.0, call=call)
            self.session.on_message(Crashed(lane.number, crash), None)
            self.session.on_message(Resolved(lane.number, "crashed", (crash,), b"report"), None)
        else:
            payload = msgspec.msgpack.encode(outcome)
            self.session.on_message(Resolved(lane.number, "value"), payload)
        self.lanes.on_news(now)

    def mail(self, kind: type[Any]) -> list[Any]:
        return [message for message, _ in self.session.take_mail() if isinstance(message, kind)]

    def ends(self) -> list[tuple[int, str]]:
        return [(one.task, one.ending) for one in taken(self.session.resolved)]


@pytest.fixture
def mission() -> Mission:
    return Mission()


# ---- a call that has its lane from the beginning


def ask_for(mission: Mission, now: float = 0.0) -> tuple[int, int]:
    """Ask for a lane in place of a call; return the numbers of both."""
    task = mission.lanes.ask_for(remote_task(0, F, b"args"), b"invitation", now)
    return mission.session.aboard[task], task


def test_a_call_that_a_lane_is_asked_for_begins_when_that_is_open(mission: Mission) -> None:
    mission.session.reports = []
    number, task = ask_for(mission)
    sent = Sent()
    assert [number] == [submit.task for submit in mission.mail(Submit)]
    assert 2 == mission.session.waiting_of(0)

    mission.start(number)
    lane = mission.lanes.connect(number, sent, 1.0)
    assert lane is not None
    assert [(number, task)] == [m.attempt for m in sent.take() if isinstance(m, StartRun)]
    starts = [Started("id-w", (started,)) for started in (number, task)]
    assert (starts, 1.0) == (taken(mission.session.reports), mission.session.running[task])
    assert 0 == mission.session.waiting_of(0)
    mission.end(lane)
    assert [(task, "value")] == mission.ends()
    assert [lane] == mission.traffic.idle


def test_a_call_whose_lane_is_refused_goes_to_the_scheduler(mission: Mission) -> None:
    number, task = ask_for(mission)
    mission.session.take_mail()

    mission.session.on_message(Resolved(number, "crashed"), None)
    mission.lanes.on_news(0.0)

    [submit] = mission.mail(Submit)
    assert (task, 1) == (submit.task, submit.late)
    assert mission.traffic.refused
    assert 1 == mission.session.waiting_of(0)


def test_a_call_whose_lane_has_no_worker_is_submitted_to_the_next_scheduler(
    mission: Mission,
) -> None:
    """The lane itself is not: a former one may have started it."""
    _, task = ask_for(mission)

    mission.session.on_disconnected()
    mission.session.on_connected()
    mission.lanes.on_news(0.0)

    assert [(task, 1)] == [(submit.task, submit.late) for submit in mission.mail(Submit)]
    assert 1 == mission.session.waiting_of(0)


def test_a_call_that_is_cancelled_before_its_lane_is_open_does_not_begin(mission: Mission) -> None:
    number, task = ask_for(mission)
    sent = Sent()

    mission.lanes.cancel(task)
    mission.start(number)
    mission.lanes.connect(number, sent, 0.0)
    mission.session.on_message(Retracted(number), None)
    mission.lanes.on_news(0.0)

    assert [] == [message for message in sent.take() if isinstance(message, StartRun)]
    assert [(task, "cancelled")] == mission.ends()


# ---- when a lane is asked for


def brief_traffic() -> CallTraffic:
    traffic = CallTraffic()
    for _ in range(60):
        traffic.on_ended(0.001)
    return traffic


def submit_alone(traffic: CallTraffic, times: int) -> None:
    for _ in range(times):
        traffic.on_submitted(1, 0)


def test_a_lane_is_asked_for_after_some_brief_calls_that_found_nothing_waiting() -> None:
    traffic = brief_traffic()
    submit_alone(traffic, ALONE - 1)
    assert not traffic.wants_lane(0.0)
    submit_alone(traffic, 1)
    assert traffic.wants_lane(0.0)


def test_a_call_that_finds_others_waiting_lets_the_count_begin_again() -> None:
    traffic = brief_traffic()
    submit_alone(traffic, ALONE)
    traffic.on_submitted(2, 1)
    submit_alone(traffic, ALONE - 1)
    assert not traffic.wants_lane(0.0)
    traffic.on_submitted(3, 4)  # next to nothing, with so many that run
    assert traffic.wants_lane(0.0)


def test_calls_that_were_not_seen_to_be_brief_have_no_lanes() -> None:
    traffic = CallTraffic()
    submit_alone(traffic, ALONE)
    assert not traffic.wants_lane(0.0)
    traffic = brief_traffic()
    submit_alone(traffic, ALONE)
    for _ in range(9):
        traffic.on_ended(2 * BRIEF)
    assert not traffic.wants_lane(0.0)


def test_one_long_call_among_brief_ones_matters_no_more_than_a_second_does() -> None:
    brief_until = []
    for long in (1.0, 3600.0):
        traffic = brief_traffic()
        submit_alone(traffic, ALONE)
        traffic.on_ended(long)
        brief_until.append(0)
        while not traffic.wants_lane(0.0):
            traffic.on_ended(0.001)
            brief_until[-1] += 1
    assert 0 < brief_until[0] == brief_until[1]


def test_no_lane_is_asked_for_while_another_one_is_to_open(mission: Mission) -> None:
    for _ in range(60):
        mission.traffic.on_ended(0.001)
    number = mission.ask()
    submit_alone(mission.traffic, ALONE)
    assert not mission.lanes.wants_lane(0, 0.0)
    mission.start(number)
    mission.lanes.connect(number, Sent(), 0.0)
    submit_alone(mission.traffic, ALONE)
    assert mission.lanes.wants_lane(0, 0.0)
    mission.session.on_disconnected()
    assert not mission.lanes.wants_lane(0, 0.0)


def test_another_lane_is_asked_for_only_if_further_calls_go_to_the_scheduler(
    mission: Mission,
) -> None:
    for _ in range(60):
        mission.traffic.on_ended(0.001)
    submit_alone(mission.traffic, ALONE)
    mission.open()
    submit_alone(mission.traffic, ALONE - 1)
    assert not mission.traffic.wants_lane(0.0)
    submit_alone(mission.traffic, 1)
    assert mission.traffic.wants_lane(0.0)


def test_pauses_after_refusals_grow_until_a_lane_opens() -> None:
    traffic = brief_traffic()
    submit_alone(traffic, ALONE)
    for now, pause in ((0.0, 0.1), (1.0, 0.2), (2.0, 0.4)):
        traffic.on_refused(now)
        assert not traffic.wants_lane(now + 0.9 * pause)
        assert traffic.wants_lane(now + pause)
    for _ in range(20):
        traffic.on_refused(3.0)
    assert traffic.wants_lane(13.0)
    traffic.on_open()
    traffic.on_refused(20.0)
    assert traffic.wants_lane(20.1)


def test_a_refused_lane_is_forgotten_and_another_one_asked_for_later(mission: Mission) -> None:
    for _ in range(60):
        mission.traffic.on_ended(0.001)
    number = mission.ask()
    assert [(number, LANE)] == [(one.task, one.function) for one in mission.mail(Submit)]
    mission.session.on_message(Resolved(number, "crashed"), None)
    mission.lanes.on_news(5.0)
    submit_alone(mission.traffic, ALONE)

    assert [] == mission.ends()
    assert {} == mission.traffic.lanes
    assert not mission.lanes.wants_lane(0, 5.05)
    assert mission.lanes.wants_lane(0, 5.15)


@pytest.mark.parametrize("last", [Way.NETWORK, Way.BESIDE])
def test_a_runner_that_cannot_connect_has_the_mission_offer_each_other_way_and_then_give_up(
    mission: Mission, last: Way
) -> None:
    for _ in range(60):
        mission.traffic.on_ended(0.001)
    mission.lanes.last_way = last
    for way in range(last + 1):
        assert way == mission.lanes.way
        now, pause = 10.0 * way, 600.0 * (way == last)
        number = mission.ask(now)
        mission.start(number, now)
        payload = msgspec.msgpack.encode(LaneOutcome(unreachable=True))
        mission.session.on_message(Resolved(number, "value"), payload)
        mission.lanes.on_news(now)
        submit_alone(mission.traffic, ALONE)
        assert mission.traffic.wants_lane(now + 0.9 * pause) == (not pause)
        assert mission.traffic.wants_lane(now + pause)
    assert last is mission.lanes.way


# ---- lanes and their calls


@pytest.mark.parametrize("first", ["started", "connected"])
def test_a_lane_is_idle_when_it_has_both_a_worker_and_a_connection(
    mission: Mission, first: str
) -> None:
    number = mission.ask()
    if first == "started":
        mission.start(number)
    else:
        mission.lanes.connect(number, Sent(), 0.0)
    assert [] == mission.traffic.idle
    if first == "started":
        mission.lanes.connect(number, Sent(), 0.0)
    else:
        mission.start(number)
    assert [number] == [lane.number for lane in mission.traffic.idle]


def test_no_second_runner_and_none_of_an_unknown_lane_is_taken(mission: Mission) -> None:
    lane, _ = mission.open()
    assert mission.lanes.connect(lane.number, Sent(), 0.0) is None
    assert mission.lanes.connect(77, Sent(), 0.0) is None


def test_a_call_goes_to_the_runner_with_its_function_once(mission: Mission) -> None:
    lane, sent = mission.open()
    first = mission.call()
    assert [] == mission.traffic.idle
    mission.end(lane)
    second = mission.call()

    runs = [StartRun((lane.number, n), None, function=F, task=n) for n in (first, second)]
    assert [DefineFunction(F), *runs] == sent.take()
    assert [(first, "value")] == mission.ends()
    assert [] == mission.mail(Submit)


def test_the_lane_that_was_used_last_has_the_next_call(mission: Mission) -> None:
    """So the others become idle for long, and are given back."""
    (one, _), (other, _) = mission.open(), mission.open()
    mission.call()
    assert (0, 0) != (one.task, other.task)
    used = one if one.task else other
    mission.end(used)
    mission.call()
    assert used.task


def test_an_outcome_that_comes_twice_counts_once(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    ended = Ended((lane.number, task), report=0.001)
    for _ in range(2):
        mission.lanes.on_message(lane, ended, b"outcome", 0.0)
    assert [(task, "value")] == mission.ends()
    assert 1 == len(mission.traffic.idle)


def test_a_lane_that_has_waited_is_given_back_with_its_last_call_confirmed(
    mission: Mission,
) -> None:
    lane, sent = mission.open()
    task = mission.call()
    mission.lanes.close_idle(9.0)
    mission.end(lane, 10.0)
    sent.take()
    mission.lanes.close_idle(10.0 + 0.9 * LINGER)
    assert [] == taken(mission.lanes.closing)
    mission.lanes.close_idle(10.0 + LINGER)

    assert [lane] == taken(mission.lanes.closing)
    assert [AckRuns(((lane.number, task),))] == sent.take()
    assert [] == mission.traffic.idle


def test_a_recalled_lane_takes_no_more_calls(mission: Mission) -> None:
    lane, _ = mission.open()
    mission.lanes.on_message(lane, Recall((7, 1)), None, 0.0)
    assert [] == mission.traffic.idle
    assert [lane] == taken(mission.lanes.closing)
    mission.over(lane, LaneOutcome())
    assert {} == mission.traffic.lanes
    assert [] == mission.ends()


def test_an_outcome_may_come_with_the_end_of_its_lane(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.lanes.on_disconnected(lane)
    assert [] == mission.ends()
    ended = Ended((lane.number, task), report=0.001)
    mission.over(lane, LaneOutcome(ends=((ended, b"outcome"),)))

    assert [(task, "value")] == mission.ends()
    assert [] == mission.mail(Submit)
    mission.lanes.report(1.0)
    [report] = mission.mail(LaneReport)
    assert (LaneCount(F, 1, 0, 0, 0.001),) == report.counts


def test_a_call_that_did_not_begin_goes_to_the_scheduler(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.lanes.on_disconnected(lane)
    mission.over(lane, LaneOutcome())

    [submit] = mission.mail(Submit)
    assert (task, "", (), 1) == (*(submit.task, submit.worker, submit.crashes, submit.late),)
    assert 1 == mission.session.waiting_of(0)


def test_a_call_may_have_crashed_with_its_lane(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.over(lane, None)

    [submit] = mission.mail(Submit)
    assert (task, ["SIGKILL"]) == (submit.task, [crash.how for crash in submit.crashes])


def test_a_call_that_crashed_by_itself_has_one_crash_also_if_its_lane_crashes(
    mission: Mission,
) -> None:
    """As a program that was killed: the runner lives."""
    lane, _ = mission.open()
    task = mission.call()
    mission.end(lane, crash="its program was killed", interruption="short")
    assert [] == mission.ends()
    mission.over(lane, None)

    [submit] = mission.mail(Submit)
    [crash] = submit.crashes
    assert (task, "w", "its program was killed") == (submit.task, crash.worker, crash.how)
    assert "short" == crash.interruption


def test_a_returned_call_goes_to_the_scheduler_without_a_crash(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.end(lane, status="returned")
    assert [lane] == taken(mission.lanes.closing)
    mission.over(lane, LaneOutcome())
    [submit] = mission.mail(Submit)
    assert (task, ()) == (submit.task, submit.crashes)


def test_a_call_in_a_lane_is_cancelled_there(mission: Mission) -> None:
    lane, sent = mission.open()
    task = mission.call()
    sent.take()
    assert mission.lanes.cancel(task)
    assert [Cancel((lane.number, task))] == sent.take()
    assert [] == mission.mail(Retract)
    mission.end(lane, status="cancelled", report=b"")

    assert [(task, "cancelled")] == mission.ends()
    assert [lane] == mission.traffic.idle
    assert not mission.lanes.cancel(task)


def test_a_cancelled_call_that_cannot_be_reached_has_its_lane_retracted(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.lanes.on_disconnected(lane)
    mission.lanes.cancel(task)
    assert [Retract((lane.number,))] == mission.mail(Retract)
    mission.session.on_message(Retracted(lane.number), None)
    mission.lanes.on_news(0.0)
    assert [(task, "cancelled")] == mission.ends()


# ---- calls that are held


def flood(mission: Mission, count: int, now: float = 0.0) -> list[int]:
    """Hold so many brief calls; return their numbers."""
    if not mission.traffic.brief:
        for _ in range(60):
            mission.traffic.on_ended(0.001)
    mission.lanes.invitation = lambda: b"invitation"
    record = [remote_task(0, F, b"args") for _ in range(count)]
    return [mission.lanes.hold(mission.traffic, one, now) for one in record]


def open_all(mission: Mission) -> list[tuple[Lane, Sent]]:
    """Start all lanes that were asked for; return them with their connections."""
    opened = []
    for submit in mission.mail(Submit):
        mission.start(submit.task)
        sent = Sent()
        lane = mission.lanes.connect(submit.task, sent, 0.0)
        assert lane is not None
        opened.append((lane, sent))
    return opened


def begun(sent: Sent) -> list[int]:
    return [message.task for message in sent.take() if isinstance(message, StartRun)]


def answer(mission: Mission, lane: Lane, count: int, now: float = 0.0, **more: Any) -> None:
    """Let the first calls of a lane end together."""
    more = {"report": 0.001, **more}
    ends = [Ended((lane.number, task), **more) for task in list(lane.calls)[:count]]
    mission.lanes.on_batch(lane, [(one, b"outcome") for one in ends], now)


def test_calls_that_are_held_ask_for_lanes_and_are_no_tasks_of_the_scheduler(
    mission: Mission,
) -> None:
    """At a millisecond each, 100 are five slices."""
    flood(mission, 1)
    flood(mission, 99)
    mission.lanes.take_back(0.0)
    asked = mission.mail(Submit)
    assert [(LANE, True)] * 5 == [(one.function, one.waits) for one in asked]
    assert 105 == mission.session.waiting_of(0)


def test_a_lane_gets_a_window_and_more_when_half_of_it_has_ended(mission: Mission) -> None:
    tasks = flood(mission, 100)
    [(lane, sent)] = open_all(mission)
    assert tasks[:5] == begun(sent)  # a part of a slice
    answer(mission, lane, 2)
    assert [] == begun(sent)
    answer(mission, lane, 1)
    assert tasks[5:8] == begun(sent)
    assert [(task, "value") for task in tasks[:3]] == mission.ends()
    assert [tasks[3]] == list(mission.session.running)


def test_a_window_has_no_more_than_its_part_of_what_is_held(mission: Mission) -> None:
    tasks = flood(mission, 1)
    [(one, first)] = open_all(mission)
    answer(mission, one, 1)
    other, second = mission.open()
    assert tasks == begun(first)
    flood(mission, 6)
    assert [1, 1] == [len(begun(first)), len(begun(second))]
    answer(mission, one, 1)
    assert ([2, 0], 1) == ([len(begun(first)), len(begun(second))], len(other.calls))


def test_a_window_has_a_megabyte_of_arguments_or_one_call(mission: Mission) -> None:
    for _ in range(60):
        mission.traffic.on_ended(0.0001)
    mission.lanes.invitation = lambda: b"invitation"
    record = [remote_task(0, F, bytes(size)) for size in (3 * 2**20, 2**19, 2**19, 2**19)]
    tasks = [mission.lanes.hold(mission.traffic, one, 0.0) for one in record]
    [(lane, sent)] = open_all(mission)
    assert tasks[:1] == begun(sent)
    answer(mission, lane, 1)
    assert tasks[1:3] == begun(sent)


def test_a_lane_by_the_last_way_has_the_calls_of_a_slice_whatever_time_they_take_on_their_way(
    mission: Mission,
) -> None:
    """Else a window of one call would take the time of the way, and each later one be as narrow."""
    mission.lanes.way = Way.BESIDE
    tasks = flood(mission, 100)
    [(lane, sent)] = open_all(mission)
    assert tasks[:20] == begun(sent)
    answer(mission, lane, 20, now=0.5)
    assert tasks[20:40] == begun(sent)


def test_calls_of_which_nothing_is_known_go_to_lanes_once_some_have_proved_to_be_brief(
    mission: Mission,
) -> None:
    mission.lanes.invitation = lambda: b"invitation"
    calls = [remote_task(0, F, b"args") for _ in range(100)]
    tasks = [mission.lanes.hold(mission.traffic, one, 0.0) for one in calls]
    mission.lanes.tend(mission.traffic, 0.0)
    assert tasks[:64] == [one.task for one in mission.mail(Submit)]
    for _ in range(3):
        mission.traffic.on_ended(0.001)
    mission.lanes.tend(mission.traffic, 0.0)
    assert [] == mission.mail(Submit)
    mission.traffic.on_ended(0.001)
    mission.lanes.tend(mission.traffic, 0.0)
    assert {(LANE, True)} == {(one.function, one.waits) for one in mission.mail(Submit)}


def test_calls_of_which_nothing_is_known_are_not_held_for_long(mission: Mission) -> None:
    for _ in range(66):
        mission.lanes.hold(mission.traffic, remote_task(0, F, b"args"), 0.0)
    mission.lanes.look(0.0)
    assert 64 == len(mission.mail(Submit))
    mission.lanes.look(0.5)
    assert 2 == len(mission.mail(Submit))
    assert not mission.traffic.may_hold(0.5)
    for _ in range(4):
        mission.traffic.on_ended(0.001)
    assert mission.traffic.may_hold(0.5)


def test_a_window_grows_again_after_a_slow_call(mission: Mission) -> None:
    flood(mission, 400)
    [(lane, _), *_] = open_all(mission)
    now = 0.0
    for seconds in (1.0, *[0.0001] * 40):
        now += seconds
        answer(mission, lane, len(lane.calls), now)
    assert len(lane.calls) > 3


def test_the_most_urgent_call_goes_first(mission: Mission) -> None:
    flood(mission, 5)
    urgent = mission.lanes.hold(mission.traffic, remote_task(0, F, b"args", 5.0), 0.0)
    [(_, sent)] = open_all(mission)
    assert urgent == begun(sent)[0]


def test_calls_that_a_lane_hands_back_go_first_in_the_next_one(mission: Mission) -> None:
    tasks = flood(mission, 20)
    [(lane, sent)] = open_all(mission)
    had = begun(sent)
    unbegun = [(Ended((lane.number, task), UNBEGUN), None) for task in had[1:]]
    mission.lanes.on_batch(lane, unbegun, 0.0)
    assert ([had[0]], []) == (list(lane.calls), begun(sent))
    mission.lanes.on_batch(lane, [(Ended((lane.number, had[0])), b"outcome")], 0.0)
    assert [(had[0], "value")] == mission.ends()
    mission.lanes.on_message(lane, Recall((7, 1)), None, 0.0)
    mission.over(lane, LaneOutcome())
    opened = open_all(mission)
    assert tasks[1:6] == begun(opened[0][1])


def test_calls_without_an_outcome_when_their_lane_is_over_are_held_again(mission: Mission) -> None:
    tasks = flood(mission, 3)
    [(lane, sent)] = open_all(mission)
    had = begun(sent)
    mission.lanes.on_disconnected(lane)
    mission.over(lane, LaneOutcome(ends=((Ended((lane.number, had[0])), b"outcome"),)))
    assert [(had[0], "value")] == mission.ends()
    assert [LANE] == list({one.function for one in mission.mail(Submit)})
    assert {0} == {mission.session.aboard[task] for task in tasks[1:]}
    assert {} == mission.session.running


def test_a_crash_is_that_of_the_first_call_of_a_window_which_goes_to_the_scheduler(
    mission: Mission,
) -> None:
    tasks = flood(mission, 20)
    [(lane, _)] = open_all(mission)
    answer(mission, lane, 1)
    mission.over(lane, None)
    [submit, *lanes] = mission.mail(Submit)
    assert (tasks[1], 1, ["SIGKILL"]) == (
        *(submit.task, submit.late, [crash.how for crash in submit.crashes]),
    )
    assert {LANE} == {one.function for one in lanes}


def test_a_crash_is_that_of_the_call_which_began_last_and_all_others_are_held_again(
    mission: Mission,
) -> None:
    tasks = flood(mission, 20)
    [(lane, sent)] = open_all(mission)
    had = begun(sent)
    mission.over(lane, None, call=had[3])
    [submit, *lanes] = mission.mail(Submit)
    assert (tasks[3], ["SIGKILL"]) == (submit.task, [crash.how for crash in submit.crashes])
    assert {LANE} == {one.function for one in lanes}
    held = {task for task in tasks if mission.session.aboard.get(task) == 0}
    assert {*tasks} - {tasks[3]} == held


def test_a_crash_is_that_of_no_call_if_the_end_of_the_last_one_has_come(mission: Mission) -> None:
    tasks = flood(mission, 20)
    [(lane, sent)] = open_all(mission)
    had = begun(sent)
    answer(mission, lane, 1)
    mission.over(lane, None, call=had[0])
    assert {LANE} == {one.function for one in mission.mail(Submit)}
    assert {0} == {mission.session.aboard[task] for task in tasks[1:]}


def test_a_held_call_is_cancelled_without_a_message(mission: Mission) -> None:
    tasks = flood(mission, 3)
    mission.session.take_mail()
    assert mission.lanes.cancel(tasks[1])
    assert [(tasks[1], "cancelled")] == mission.ends()
    assert [] == mission.mail(Retract)
    [number] = mission.traffic.lanes
    mission.start(number)
    sent = Sent()
    mission.lanes.connect(number, sent, 0.0)
    assert tasks[1] not in begun(sent)


def test_what_is_held_is_reported_and_that_nothing_is(mission: Mission) -> None:
    tasks = flood(mission, 8)
    [(lane, _)] = open_all(mission)
    mission.lanes.report(1.0)
    mission.lanes.report(1.5)
    [report] = mission.mail(LaneReport)
    assert (HeldCalls(0, 3, tasks[5], tasks[7]),) == report.held
    answer(mission, lane, 5)
    answer(mission, lane, 3)
    mission.lanes.report(2.0)
    [report] = mission.mail(LaneReport)
    assert () == report.held


def test_lanes_that_wait_are_retracted_when_nothing_is_held(mission: Mission) -> None:
    [task] = flood(mission, 1)
    [asked] = mission.mail(Submit)
    mission.lanes.cancel(task)
    mission.lanes.take_back(0.0)
    assert [Retract((asked.task,))] == mission.mail(Retract)
    mission.session.on_message(Retracted(asked.task), None)
    mission.lanes.on_news(0.0)
    assert not mission.traffic.holding
    assert mission.traffic.may_hold(0.0)


def test_a_lane_that_was_retracted_gets_no_call_if_it_starts_all_the_same(
    mission: Mission,
) -> None:
    """It would be ended with its call, which would run again, and its crash would not count."""
    [task] = flood(mission, 1)
    [asked] = mission.mail(Submit)
    mission.lanes.cancel(task)
    mission.lanes.take_back(0.0)
    [another] = flood(mission, 1)

    mission.start(asked.task)

    assert mission.lanes.connect(asked.task, Sent(), 0.0) is None
    assert 0 == mission.session.aboard[another]


@pytest.mark.parametrize("why", ["they are long", "runners cannot connect", "lanes are refused"])
def test_held_calls_go_to_the_scheduler_if_there_are_no_lanes_for_them(
    mission: Mission, why: str
) -> None:
    mission.lanes.way = Way.NETWORK
    tasks = flood(mission, 3)
    [asked] = mission.mail(Submit)
    if why == "they are long":
        for _ in range(60):
            mission.traffic.on_ended(1.0)
        mission.lanes.take_back(0.0)
    elif why == "runners cannot connect":
        mission.start(asked.task)
        unreachable = msgspec.msgpack.encode(LaneOutcome(unreachable=True))
        mission.session.on_message(Resolved(asked.task, "value"), unreachable)
        mission.lanes.on_news(0.0)
    else:
        mission.session.on_message(Resolved(asked.task, "crashed"), None)
        mission.lanes.on_news(0.0)
    assert [(n, late) for late, n in enumerate(tasks, 1)] == [
        (one.task, one.late) for one in mission.mail(Submit)
    ]


def test_calls_stay_held_until_runners_have_had_all_ways(mission: Mission) -> None:
    """However many lanes were asked for by the first way, which is within the kernel."""
    mission.traffic.on_ended(0.02, 60)
    tasks = flood(mission, 200)
    mission.lanes.take_back(0.0)
    lanes = [one.task for one in mission.mail(Submit)]
    assert len(lanes) > 1
    unreachable = msgspec.msgpack.encode(LaneOutcome(unreachable=True))
    for lane in lanes:
        mission.start(lane)
        mission.session.on_message(Resolved(lane, "value"), unreachable)
        mission.lanes.on_news(0.0)

    assert {0} == {mission.session.aboard[task] for task in tasks}
    [again, *_] = mission.mail(Submit)
    assert (again.function, again.waits) == (LANE, True)
    mission.start(again.task)
    mission.session.on_message(Resolved(again.task, "value"), unreachable)
    mission.lanes.on_news(0.0)
    assert set(tasks) == {one.task for one in mission.mail(Submit)}


def test_the_first_worker_that_cannot_connect_by_the_network_is_named_once(
    mission: Mission,
) -> None:
    """That its runner is on another host, and does not come within the kernel, is no news."""
    unreachable = msgspec.msgpack.encode(LaneOutcome(unreachable=True))
    named = []
    mission.session.on_message(WorkerFacts("id-w", "w-2", "n2", {}), None)
    mission.lanes.last_way = Way.BESIDE
    mission.traffic.on_ended(0.02, 60)
    flood(mission, 200)
    mission.lanes.take_back(0.0)
    for _ in range(3):
        lane, *_ = mission.mail(Submit)
        mission.start(lane.task)
        mission.session.on_message(Resolved(lane.task, "value"), unreachable)
        mission.lanes.on_news(0.0)
        named.append(taken(mission.lanes.cut_off))
    assert [[], ["w-2"], []] == named


@pytest.mark.parametrize("late", [None, "its look", "the end of the lane"])
def test_a_process_that_had_no_time_for_runners_blames_no_network(
    mission: Mission, late: str | None
) -> None:
    unreachable = msgspec.msgpack.encode(LaneOutcome(unreachable=True))
    mission.lanes.way = mission.lanes.last_way = Way.NETWORK
    mission.traffic.on_ended(0.02, 60)
    mission.lanes.look(99.5)
    flood(mission, 200)
    mission.lanes.take_back(100.0)
    lane, *_ = mission.mail(Submit)
    mission.start(lane.task, 100.0)
    mission.lanes.look(104.0 if late == "its look" else 100.5)
    mission.session.on_message(Resolved(lane.task, "value"), unreachable)
    mission.lanes.on_news(104.0 if late else 101.0)
    assert (late is None) == bool(mission.lanes.cut_off)


def test_what_is_reported_of_held_calls_covers_them_whatever_their_urgency() -> None:
    traffic = CallTraffic()
    for task, urgency in ((3, 0.0), (4, -1.0), (5, 2.0), (6, -3.0)):
        traffic.hold(task, urgency)
        assert traffic.first_held <= 3
        assert traffic.last_held == task

    traffic.held.clear()
    traffic.hold(9, 0.0)
    assert (traffic.first_held, traffic.last_held) == (9, 9)


def test_held_calls_are_no_tasks_of_the_next_scheduler_and_ask_it_for_lanes(
    mission: Mission,
) -> None:
    tasks = flood(mission, 3)
    mission.session.on_disconnected()
    mission.lanes.on_news(0.0)
    mission.session.on_connected()
    mission.lanes.on_news(0.0)
    assert [LANE] == [one.function for one in mission.mail(Submit)]
    assert {0} == {mission.session.aboard[task] for task in tasks}


def test_calls_behind_one_that_takes_long_are_taken_back(mission: Mission) -> None:
    flood(mission, 20)
    [(lane, sent)] = open_all(mission)
    had = begun(sent)
    mission.lanes.take_back(0.9 * PATIENCE)
    assert [] == sent.take()
    mission.lanes.take_back(PATIENCE)
    taken_back = [Cancel((lane.number, task), waiting=True) for task in had[1:]]
    assert taken_back == sent.take()


# ---- what users outside do and see


def test_a_user_who_asks_for_the_call_of_a_lane_by_mistake_gets_none(mission: Mission) -> None:
    """A mission counts its lanes among its tasks, so the number of one is easily guessed."""
    lane, _ = mission.open()
    task = mission.call()
    assert mission.session.call_of(lane.number) is None
    assert mission.session.call_of(task) is not None


def test_a_user_outside_cancels_a_call_in_a_lane(mission: Mission) -> None:
    lane, sent = mission.open()
    task = mission.call()
    sent.take()
    mission.session.on_message(CancelTask(task, "eve"), None)
    mission.lanes.on_news(0.0)
    assert [Cancel((lane.number, task))] == sent.take()
    mission.end(lane, status="cancelled", report=b"")

    [resolution] = mission.session.resolved
    assert ("cancelled", "eve") == (resolution.ending, resolution.by)


def test_a_call_that_is_cancelled_outside_as_its_lane_is_lost_is_not_submitted_again(
    mission: Mission,
) -> None:
    """A mission hears of both at once when it connects again."""
    lane, _ = mission.open()
    task = mission.call()
    mission.session.on_message(CancelTask(task, "eve"), None)

    mission.over(lane, None)

    assert [(task, "cancelled")] == mission.ends()
    assert not mission.mail(Submit)


def test_a_user_outside_cancels_a_call_that_has_left_its_lane_meanwhile(mission: Mission) -> None:
    mission.open()
    task = mission.call()
    mission.session.on_message(CancelTask(task, "eve"), None)
    mission.session.leave_lane(task)
    mission.lanes.on_news(0.0)
    sent = [message for message, _ in mission.session.take_mail()]
    assert [task] == [one.task for one in sent if isinstance(one, Submit)]
    assert [(task,)] == [one.tasks for one in sent if isinstance(one, Retract)]
    mission.session.on_message(Retracted(task), None)
    [resolution] = mission.session.resolved
    assert ("cancelled", "eve") == (resolution.ending, resolution.by)


def test_the_cores_of_a_lane_are_not_taken_for_those_of_others(mission: Mission) -> None:
    lane, _ = mission.open()
    load = pack(LoadAnswer(1.0, 2.0, None))
    mission.session.on_message(Answer("load"), load)
    assert not mission.session.inquiries.others
    mission.over(lane, LaneOutcome())
    mission.session.on_message(Answer("load"), load)
    assert mission.session.inquiries.others


def test_calls_are_reported_by_function_and_once(mission: Mission) -> None:
    lane, _ = mission.open()
    for _ in range(3):
        task = mission.call()
        mission.end(lane)
    mission.lanes.report(1.0)
    assert [LaneReport((), (LaneCount(F, 3, 0, 0, 0.003),), (), task)] == mission.mail(LaneReport)
    mission.lanes.report(2.0)
    assert [] == mission.mail(LaneReport)


def test_a_call_that_lasts_is_reported_and_that_it_is_over(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call(10.0)
    mission.lanes.report(10.0 + 0.9 * LASTING)
    assert [] == mission.mail(LaneReport)
    mission.lanes.report(11.5)
    call = LaneCall(lane.number, task, F, 1.5)
    assert [LaneReport((call,), last=task)] == mission.mail(LaneReport)
    mission.lanes.report(12.0)
    assert [] == mission.mail(LaneReport)
    mission.end(lane, 13.0)
    mission.lanes.report(13.0)
    [report] = mission.mail(LaneReport)
    assert () == report.calls


def test_the_times_of_calls_without_a_report_of_theirs_are_those_of_the_mission(
    mission: Mission,
) -> None:
    lane, _ = mission.open()
    mission.call(10.0)
    mission.end(lane, 12.5, report=b"of a program")
    mission.lanes.report(13.0)
    [report] = mission.mail(LaneReport)
    assert (LaneCount(F, 1, 0, 0, 2.5),) == report.counts


def test_failures_are_reported_when_it_is_known_whether_they_are_tried_again(
    mission: Mission,
) -> None:
    lane, _ = mission.open()
    tasks = []
    for number in range(2):
        tasks.append(mission.call(10.0 * number))
        mission.end(lane, 10.0 * number + 0.5, failed=True, report=b"", failure=NO)
    mission.lanes.report(10.5)
    [first] = mission.mail(LaneReport)
    mission.session.retry(tasks[1])
    mission.lanes.report(11.0)
    [second] = mission.mail(LaneReport)

    assert (LaneCount(F, 0, 1, 0, 0.5),) == first.counts
    assert (LaneCount(F, 0, 0, 1, 0.5),) == second.counts
    assert (LaneFailure(tasks[0], F, "w", 0.5, 10.0, NO),) == first.failures
    again = LaneFailure(tasks[1], F, "w", 0.5, 0.5, NO, retried=True)
    assert (again,) == second.failures


def test_a_retried_call_of_a_lane_is_not_among_those_to_be_confirmed(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.end(lane, failed=True, report=b"")
    mission.session.retry(task)
    waiting = mission.session.submit(remote_task(0, F))
    mission.session.on_message(Resolved(waiting, "error"), b"")
    mission.session.confirm()
    assert [AckTasks((waiting,))] == mission.mail(AckTasks)


def test_only_the_last_failures_have_details_and_all_are_counted(mission: Mission) -> None:
    lane, _ = mission.open()
    for _ in range(50):
        task = mission.call()
        mission.end(lane, failed=True, report=b"")
    mission.lanes.report(1.0)
    [report] = mission.mail(LaneReport)
    assert (50, 20, task) == (
        *(report.counts[0].failed, len(report.failures), report.failures[-1].task),
    )


def test_a_cancelled_call_does_not_count(mission: Mission) -> None:
    """It may have a value all the same, as the message came too late."""
    lane, _ = mission.open()
    task = mission.call()
    mission.lanes.cancel(task)
    mission.end(lane)
    mission.lanes.report(1.0)
    assert [(task, "cancelled")] == mission.ends()
    assert [] == mission.mail(LaneReport)


def test_a_mission_that_leaves_reports_the_rest_before(mission: Mission) -> None:
    lane, _ = mission.open()
    mission.call()
    mission.end(lane)
    mission.call()
    mission.end(lane, failed=True, report=b"")
    mission.session.depart()
    mail = [message for message, _ in mission.session.take_mail()]

    assert [LaneReport, Depart] == [type(message) for message in mail]
    assert isinstance(mail[0], LaneReport)
    assert (LaneCount(F, 1, 1, 0, 0.001),) == mail[0].counts


def test_what_could_not_be_sent_is_reported_on_the_next_connection_and_once(
    mission: Mission,
) -> None:
    lane, _ = mission.open()
    mission.call()
    mission.end(lane)
    mission.lanes.report(1.0)  # it is not sent any more
    mission.session.on_disconnected()
    task = mission.call(1.0)
    mission.end(lane, 1.5, failed=True, report=b"", failure=NO)
    mission.lanes.report(2.0)
    mission.session.on_connected()
    mission.session.take_mail()
    mission.lanes.report(3.0)

    [report] = mission.mail(LaneReport)
    assert (LaneCount(F, 1, 1, 0, 0.501),) == report.counts
    assert [(task, 1.5)] == [(failed.task, failed.ago) for failed in report.failures]
    mission.session.on_disconnected()  # with a report that may have arrived
    mission.session.on_connected()
    mission.lanes.report(4.0)
    assert [] == mission.mail(LaneReport)


def test_a_call_that_lasts_is_reported_on_each_connection(mission: Mission) -> None:
    mission.open()
    task = mission.call()
    for now in (1.0, 2.0):
        mission.lanes.report(now)
        [report] = mission.mail(LaneReport)
        assert [(task, now)] == [(call.task, call.seconds) for call in report.calls]
        mission.session.on_disconnected()
        mission.session.on_connected()


def test_many_functions_have_several_reports(mission: Mission) -> None:
    lane, _ = mission.open()
    for number in range(300):
        digest = b"%d" % number
        mission.session.define(Function(digest, b"bytes", "f"))
        mission.lanes.board(mission.traffic, remote_task(0, digest, b"args"), 0.0)
        mission.end(lane)
    mission.lanes.report(1.0)
    assert [256, 44] == [len(report.counts) for report in mission.mail(LaneReport)]


def test_another_id_of_the_mission_takes_all_calls_from_their_lanes(mission: Mission) -> None:
    lane, _ = mission.open()
    task = mission.call()
    mission.session.on_disconnected()
    mission.session.rename("other")
    mission.session.on_connected()
    mission.session.on_message(Started("id-w", (task,)), None)
    mission.session.running[task] = 1.0
    mission.lanes.report(9.0)  # before the news that the lane is over
    mission.lanes.on_news(9.0)

    assert {} == mission.traffic.lanes
    mail = [message for message, _ in mission.session.take_mail()]
    assert [task] == [one.task for one in mail if isinstance(one, Submit)]
    assert not any(isinstance(one, LaneReport) for one in mail)
    mission.lanes.on_message(lane, Ended((lane.number, task)), b"", 9.0)
    assert [] == mission.ends()


def test_a_lane_that_starts_and_is_over_in_one_batch_has_never_been_open(mission: Mission) -> None:
    number, sent = mission.ask(), Sent()
    lane = mission.lanes.connect(number, sent, 0.0)
    assert lane is not None

    mission.session.on_message(Started("id-w", (number,)), None)
    mission.session.on_message(Resolved(number, "crashed"), None)
    mission.lanes.on_news(0.0)

    assert [] == mission.traffic.idle
    assert {} == mission.traffic.lanes
    assert [lane] == mission.lanes.closing


def test_a_lane_that_may_have_started_elsewhere_is_not_asked_for_once_more(
    mission: Mission,
) -> None:
    """The scheduler may have died as it started that, and the runner take calls already."""
    waits = mission.ask()
    open_, _ = mission.open()
    mission.session.on_disconnected()

    mission.session.on_connected()
    mission.lanes.on_news(0.0)

    submitted = [m.task for m, _ in mission.session.take_mail() if isinstance(m, Submit)]
    assert [open_.number] == submitted
    assert [open_] == list(mission.traffic.lanes.values())
    assert mission.lanes.connect(waits, Sent(), 0.0) is None


def test_a_lane_whose_worker_the_scheduler_has_lost_takes_no_call(mission: Mission) -> None:
    lane, _ = mission.open()

    mission.session.on_message(Started("", (lane.number,)), None)
    mission.lanes.on_news(0.0)

    assert [] == mission.traffic.idle
    assert [lane] == mission.lanes.closing


def test_a_crash_of_a_lane_goes_to_the_next_scheduler_with_it(mission: Mission) -> None:
    lane, _ = mission.open()
    crash = Crash((1, 1), "w", "SIGKILL", 0.0)
    mission.session.on_message(Crashed(lane.number, crash), None)
    mission.session.on_disconnected()

    mission.session.on_connected()

    [again] = [m for m, _ in mission.session.take_mail() if isinstance(m, Submit)]
    assert (lane.number, (crash,)) == (again.task, again.crashes)
