"""Tasks that wait on their worker: which of a mission's tasks run is known without a message."""

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


def test_of_a_chain_one_task_runs_and_the_next_one_when_it_ends() -> None:
    session = session_of(4)
    session.on_message(Started("w", (1,)), None)
    session.on_message(Started("w", (2, 3, 4), behind=(1, 2, 3)), None)
    assert ({1: 10.0}, {2, 3, 4}) == (session.running, {*session.ahead.behind})

    session.now = 11.0
    session.on_message(resolved(1), b"")
    assert ({2: 11.0}, {3, 4}) == (session.running, {*session.ahead.behind})


def test_a_task_that_was_handed_back_waits_and_has_no_run_in_the_log() -> None:
    session = session_of(3)
    session.on_message(Started("w", (1,)), None)
    session.on_message(Started("w", (2, 3), behind=(1, 2)), None)
    session.now = 11.0
    # Its end is told before, though that one was handed back before its end.
    session.on_message(resolved(1), b"")
    session.on_message(Started("", (2,)), None)
    session.on_message(Started("", (3,)), None)

    assert not session.running
    assert not session.ahead.behind
    assert 2 == session.waiting_of(0)
    assert session.reports is not None
    started = [one for one in session.reports if isinstance(one, Started) and one.worker]
    assert [(1,), (2, 3)] == [one.tasks for one in started]


def test_the_start_of_a_run_that_followed_another_is_reported_before_its_crash() -> None:
    session = session_of(2)
    session.on_message(Started("w", (1,)), None)
    session.on_message(Started("w", (2,), behind=(1,)), None)
    session.on_message(resolved(1), b"")
    session.now = 12.0
    session.reports = []
    crashed = Crashed(2, Crash((1, 2), "w", "died", 0.0))
    session.on_message(crashed, None)

    assert [Started("w", (2,)), crashed] == session.reports


def test_a_chain_that_the_next_scheduler_reports_again_stays_as_it_is() -> None:
    session = session_of(4)
    session.on_message(Started("w", (1,)), None)
    session.on_message(Started("w", (2, 3, 4), behind=(1, 2, 3)), None)
    session.now = 11.0
    for task in (2, 3, 4):
        session.on_message(Started("w", (task,), behind=(task - 1,)), None)

    assert {1: 10.0} == session.running
    assert {2: 1, 3: 2, 4: 3} == session.ahead.behind


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

    session.on_message(Started("a", (1,)), None)
    session.now = 13.0
    session.on_message(Started("", (1,)), None)
    assert Started("a", (1,)) == session.reports[-2]


def test_a_call_that_its_lane_gives_back_is_reported_to_wait() -> None:
    session = session_of(1)
    session.on_message(Started("w", (1,)), None)
    task = session.hold(RemoteTask(b"f", ZERO, CallKind("f", 1.0), arguments=b"", asked=0))
    session.board(task, 1, 0, 10.0)
    session.on_begun(task)
    session.leave(task)

    assert session.reports is not None
    assert [Started("w", (task,)), Started("", (task,))] == session.reports[-2:]


def test_a_place_that_makes_no_sense_is_taken_for_a_run() -> None:
    session = session_of(3)
    session.on_message(Started("w", (1, 2, 3), behind=(1, 9, 2)), None)

    assert {1, 2} == session.running.keys()
    assert [3] == list(session.ahead.behind)


# Chains of one worker: a task is sent behind the last one, the first one ends, or one goes away.
STEPS = st.lists(st.tuples(st.sampled_from("sseg"), st.integers(0, 3)), max_size=60)


@given(STEPS)
def test_chains_are_the_lists_that_a_worker_has(steps: list[tuple[str, int]]) -> None:
    ahead, chains, number = SentAhead(), [[task] for task in range(1, 5)], 4
    for what, which in steps:
        chain = chains[which]
        if what == "s":
            number += 1
            if chain:
                assert ahead.add(number, chain[-1])
            chain.append(number)
        elif what == "e" and chain:
            first = chain.pop(0)
            assert (chain[0] if chain else 0) == ahead.on_over(first)
        elif len(chain) > 1:
            assert 0 == ahead.on_over(chain.pop(-1 - which % (len(chain) - 1)))
        waiting = {after: before for one in chains for before, after in zip(one, one[1:])}  # noqa: B905, RUF007
        assert waiting == ahead.behind
