"""The times at which a worker stops taking runs, cancels them, and leaves."""

from __future__ import annotations

import math
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.files.batch_systems import facts_of
from grain.worker.agent.lifecycle import Lifecycle, LifecyclePhase, Times


def life(done_by: float = math.inf, **times: float) -> Lifecycle:
    """Born at 0, with a scheduler."""
    lifecycle = Lifecycle(Times(**{"term": 10.0, **times}), done_by, 0.0)
    lifecycle.on_linked()
    return lifecycle


def test_a_worker_serves_for_ever_if_nothing_happens() -> None:
    """It need not look at the clock."""
    one = life()
    one.on_time(1e9)

    assert not one.draining
    assert one.phase(1e9) < LifecyclePhase.CANCELLING
    assert not one.over(1e9, runs=False)
    assert math.inf == one.next_at(0.0)


def test_a_worker_whose_code_was_replaced_leaves_when_its_runs_have_ended() -> None:
    one = life()
    one.on_replaced("Grain was replaced")

    assert ("Grain was replaced", True) == (one.reason, one.replaced)
    assert not one.explains(0)  # a run that fails has done so by itself
    assert one.phase(1e9) < LifecyclePhase.CANCELLING
    assert not one.over(1e9, runs=True)
    assert one.over(1e9, runs=False)


def test_a_worker_drains_then_cancels_before_the_end_of_its_job() -> None:
    one = life(1000.0, drain=60.0)

    assert 940 == one.next_at(0.0)
    one.on_time(939.9)
    assert not one.draining
    one.on_time(940.0)
    assert "the job's end is near" == one.reason
    assert one.phase(999.0) < LifecyclePhase.CANCELLING
    assert 60 == one.left(940.0)
    assert 1000 == one.next_at(940.0)
    assert LifecyclePhase.CANCELLING == one.phase(1000.0)
    assert not one.over(1000.0, runs=True)
    assert one.over(1000.0, runs=False)


def test_in_a_short_job_it_drains_when_half_of_the_time_is_over() -> None:
    """A debug queue gives a minute or two: a worker that drains from the start is of no use."""
    one = life(60.0, drain=60.0)

    one.on_time(29.0)
    assert not one.draining
    assert one.next_at(29.0) == 30.0
    one.on_time(30.0)
    assert one.draining


def test_after_sigterm_runs_are_cancelled_early_enough_to_be_ended() -> None:
    one = life()
    one.on_signal(signal.SIGTERM, 100.0)

    assert "SIGTERM" == one.reason
    assert one.interrupted
    assert one.phase(108.4) < LifecyclePhase.CANCELLING
    assert LifecyclePhase.CANCELLING == one.phase(108.5)
    assert not one.over(109.9, runs=True)
    assert one.over(110.0, runs=True)
    assert one.over(100.0, runs=False)


def test_under_pbs_runs_are_cancelled_within_half_a_second() -> None:
    """1.8 s are hardly enough to end programs."""
    one = life(term=facts_of("pbs").grace)
    one.on_signal(signal.SIGTERM, 100.0)

    assert one.left(100.0) < 0.5
    assert one.over(101.8, runs=True)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_an_early_warning_sets_no_deadline(number: signal.Signals) -> None:
    """The job's end does, or the next signal."""
    one = life()
    one.on_signal(number, 100.0)

    assert one.draining
    assert not one.interrupted
    assert math.inf == one.left(100.0)
    assert not one.over(1e6, runs=True)
    one.on_signal(signal.SIGTERM, 200.0)
    assert one.reason.startswith(number.name)
    assert one.over(210.0, runs=True)

    limited = life(1000.0)
    limited.on_signal(signal.SIGUSR1, 100.0)
    assert 900 == limited.left(100.0)


def test_the_second_ctrl_c_makes_a_worker_leave_now() -> None:
    one = life()
    one.on_signal(signal.SIGINT, 100.0)
    assert not one.over(101.0, runs=True)
    one.on_signal(signal.SIGINT, 101.0)
    assert one.over(101.0, runs=True)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_twice_at_once_is_one(first: int) -> None:
    """A batch system signals every process, and the job's script forwards what it gets."""
    one = life()
    one.on_signal(first, 100.0)
    one.on_signal(signal.SIGINT, 100.2)
    assert not one.over(100.3, runs=True)
    one.on_signal(first, 100.4)
    assert not one.over(109.0, runs=True)


def test_a_worker_gives_up_without_a_scheduler() -> None:
    """Counted from its start, and from each loss of the connection."""
    never = Lifecycle(Times(10.0, give_up=600.0), math.inf, 0.0)
    never.on_time(599.0)
    assert not never.draining
    never.on_time(600.0)
    assert never.gave_up
    assert LifecyclePhase.CANCELLING == never.phase(600.0)

    one = life(give_up=600.0)
    one.on_unlinked(1000.0)
    one.on_unlinked(1200.0)
    assert 1600 == one.next_at(1300.0)
    one.on_linked()
    one.on_time(5000.0)
    assert not one.draining
    one.on_unlinked(6000.0)
    one.on_time(6600.0)
    assert one.gave_up


def test_a_worker_without_a_scheduler_leaves_near_the_end_of_its_job() -> None:
    one = Lifecycle(Times(10.0, drain=60.0, give_up=1e9), 300.0, 0.0)
    one.on_time(240.0)

    assert one.over(240.0, runs=False)
    assert not one.gave_up


def test_a_request_to_quit_cancels_runs_only_by_force() -> None:
    one = life()
    one.on_drain(100.0, force=False)
    assert not one.over(1e6, runs=True)
    one.on_drain(200.0, force=True)
    assert LifecyclePhase.CANCELLING == one.phase(200.0)


EVENTS = st.lists(
    st.tuples(
        st.floats(0, 500),
        st.sampled_from(["term", "usr1", "int", "quit", "force", "broken", "time", "off", "on"]),
    ),
    max_size=8,
)


@given(EVENTS, st.none() | st.floats(0, 2000))
def test_deadlines_only_come_closer_and_draining_is_not_undone(
    events: list[tuple[float, str]], end: float | None
) -> None:
    """This holds for all events in any order."""
    one = life(math.inf if end is None else end)
    now, cancel_at, over_at, drained = 0.0, math.inf, math.inf, False
    for wait, event in events:
        now += wait
        match event:
            case "term":
                one.on_signal(signal.SIGTERM, now)
            case "usr1":
                one.on_signal(signal.SIGUSR1, now)
            case "int":
                one.on_signal(signal.SIGINT, now)
            case "quit" | "force":
                one.on_drain(now, force=event == "force")
            case "broken":
                one.on_broken("it broke", now)
            case "off":
                one.on_unlinked(now)
            case "on":
                one.on_linked()
            case _:
                one.on_time(now)
        assert one.draining >= drained
        assert now + one.left(now) <= max(cancel_at, now) + 1e-6
        assert now + one.time_over(now) <= max(over_at, now) + 1e-6
        assert one.next_at(now) > now
        drained = one.draining
        cancel_at, over_at = now + one.left(now), now + one.time_over(now)


def test_without_a_scheduler_lasting_runs_end_before_the_worker_gives_up() -> None:
    one = life(give_up=600.0)
    one.lasting = True
    one.on_unlinked(100.0)
    one.on_time(1e6)
    assert not one.draining
    assert math.inf == one.next_at(1e6)

    one.lasting = False
    one.on_time(1e6)
    assert one.gave_up
    assert one.over(1e6, runs=False)


def test_the_end_of_its_job_ends_lasting_runs_as_all_others() -> None:
    one = life(1000.0, drain=60.0, give_up=10.0)
    one.lasting = True
    one.on_unlinked(0.0)
    one.on_time(900.0)
    assert not one.draining

    one.on_time(940.0)
    assert LifecyclePhase.CANCELLING == one.phase(1000.0)


@pytest.mark.parametrize("lasting", [True, False])
def test_a_worker_that_no_scheduler_will_serve_lets_only_lasting_runs_end(*, lasting: bool) -> None:
    one = life()
    one.lasting = lasting
    one.on_refused("another version", 100.0)

    assert "another version" == one.reason
    assert (one.phase(1e6) is LifecyclePhase.DRAINING) == lasting


def test_programs_are_warned_at_once_where_a_worker_is_to_leave() -> None:
    """The end of its job has a time, so long before which each program is warned."""
    near, asked, signalled = life(1000.0), life(), life()
    near.on_time(1000.0)
    asked.on_drain(5.0, force=False)
    signalled.on_signal(signal.SIGUSR1, 5.0)
    assert [False, True, True] == [near.warns, asked.warns, signalled.warns]
    assert [1000.0, math.inf, math.inf] == [one.cancel_at for one in (near, asked, signalled)]


def test_a_worker_drains_when_a_program_was_warned_of_its_end() -> None:
    """What began later would be warned at once."""
    one = life(1000.0, drain=60.0)
    one.on_warned()
    assert one.draining
    assert not one.warns
    assert 1000.0 == one.left(0.0)
