"""Tasks that wait in lanes: which of a mission's tasks run is known without a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grain.head.base import CallKind
from grain.head.messages import Crash, Crashed, Resolved, Started
from grain.remote_exer.ahead import SentAhead
from grain.remote_exer.session import MissionSession, RemoteTask
from grain.resource import ZERO


def session_of(tasks: int) -> MissionSession:
    """Return the session of a mission that has submitted tasks, counted from 1."""
    session = MissionSession("m", "m")
    session.reports = []
    session.request({})
    session.on_connected()
    session.now = 10.0
    for _ in range(tasks):
        session.submit(RemoteTask(b"f", ZERO, CallKind("f", 1.0), arguments=b"", asked=0))
    return session


def resolved(task: int) -> Resolved:
    return Resolved(task, "value", (), 0.001)


def aboard(session: MissionSession, count: int) -> list[int]:
    """Send calls into the lane that is task 1; return their numbers."""
    tasks: list[int] = []
    for _ in range(count):
        record = RemoteTask(b"f", ZERO, CallKind("f", 1.0), arguments=b"", asked=0)
        tasks.append(session.hold(record))
        session.board(tasks[-1], 1, tasks[-2] if tasks[:-1] else 0, session.now)
    return tasks


def test_of_the_calls_of_a_lane_one_runs_and_the_next_one_when_it_ends() -> None:
    session = session_of(1)
    session.on_message(Started("w", (1,)), None)
    first, second, third = aboard(session, 3)
    assert ({first, 1}, {second, third}) == ({*session.running}, {*session.ahead.behind})

    session.now = 11.0
    session.on_lane_ended(first, "value", b"", 0.001)
    assert (11.0, {third}) == (session.running[second], {*session.ahead.behind})


def test_the_worker_of_what_is_left_of_a_gang_is_not_reported_as_that_of_a_run() -> None:
    session = session_of(1)
    session.on_message(Started("a", (1,)), None)
    session.now = 11.0
    session.on_message(Started("b", (1,), over=True), None)
    session.reports = []
    session.now = 12.0
    crashed = Crashed(1, Crash((1, 1), "a", "died", 0.0))
    session.on_message(crashed, None)
    session.on_message(Started("", (1,)), None)
    assert [crashed, Started("", (1,))] == session.reports


def test_a_call_that_its_lane_gives_back_is_reported_to_wait() -> None:
    session = session_of(1)
    session.on_message(Started("w", (1,)), None)
    task = session.hold(RemoteTask(b"f", ZERO, CallKind("f", 1.0), arguments=b"", asked=0))
    session.board(task, 1, 0, 10.0)
    session.on_begun(task)
    session.leave(task)

    assert session.reports is not None
    assert [Started("w", (task,)), Started("", (task,))] == session.reports[-2:]


def test_a_place_that_makes_no_sense_is_refused() -> None:
    ahead = SentAhead()
    assert ahead.add(2, 1)
    assert [False] * 3 == [ahead.add(*place) for place in ((3, 3), (3, 1), (2, 4))]


# Some lanes: a task is sent behind the last one, the first one ends, or one goes away.
STEPS = st.lists(st.tuples(st.sampled_from("sseg"), st.integers(0, 3)), max_size=60)


@given(STEPS)
def test_the_order_is_that_of_the_lists_that_lanes_have(steps: list[tuple[str, int]]) -> None:
    ahead, lanes, number = SentAhead(), [[task] for task in range(1, 5)], 4
    for what, which in steps:
        lane = lanes[which]
        if what == "s":
            number += 1
            if lane:
                assert ahead.add(number, lane[-1])
            lane.append(number)
        elif what == "e" and lane:
            first = lane.pop(0)
            assert (lane[0] if lane else 0) == ahead.on_over(first)
        elif len(lane) > 1:
            assert 0 == ahead.on_over(lane.pop(-1 - which % (len(lane) - 1)))
        waiting = {after: before for one in lanes for before, after in zip(one, one[1:])}  # noqa: B905, RUF007
        assert waiting == ahead.behind
