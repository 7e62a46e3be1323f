"""WTime: time limits, their groups, and the countdown of workers."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.resource import (
    Cores,
    Fit,
    Infeasible,
    Limits,
    RunTimes,
    Supply,
    WTime,
    from_data,
    to_data,
)


class FakeClock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("00:00:01", 1),
        ("02:30:00", 9000),
        ("2:30:00", 9000),
        ("36:00:00", 129_600),
        ("1-12:00:00", 129_600),
        ("-01:00:00", 3600),
        ("10-00:00:59", 864_059),
        (" 01:00:00\n", 3600),
        (90, 90),
        (0.5, 0.5),
    ],
)
def test_a_limit_is_a_number_of_seconds_or_a_time_on_a_clock(
    written: float | str, seconds: float
) -> None:
    """A limit is a number of seconds, or ``[d]-hh:mm:ss``; the soft one is the same."""
    limit = WTime(T=written)

    assert (seconds, seconds) == (limit.T, limit.softT)
    assert Limits(seconds, seconds) == limit.limits()


FORM = (
    "a time limit is a positive number of seconds or a str of the form [d]-hh:mm:ss, "
    'as in "1-12:00:00" or "02:30:00"'
)
NO_LIMIT = 'WTime needs a limit T, as in WTime(T="2:00:00"), or a group'


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "1:00",
        "1:60:00",
        "1:00:60",
        "1:2:3",
        "1 12:00:00",
        "1--1:00:00",
        "x",
        "1:00:00:00",
        "-5",
        "00:00:00",
        "٣:00:00",
        0,
        -1,
        math.nan,
        math.inf,
        True,
        [60],
        b"01:00:00",
    ],
)
def test_a_malformed_limit_names_the_argument_the_value_and_the_right_form(bad: Any) -> None:
    with pytest.raises(ValueError) as raised:
        WTime(T=bad)

    assert f"WTime(T={bad!r}): {FORM}" == str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, NO_LIMIT),
        ({"softT": 5}, NO_LIMIT),
        ({"group": "a", "softT": 5}, NO_LIMIT),
        ({"group": "a", "countdown": True}, NO_LIMIT),
        ({"group": ""}, "WTime(group=''): a group is a name, without blanks around it"),
        ({"group": " a"}, "WTime(group=' a'): a group is a name, without blanks around it"),
        ({"group": 7}, "WTime(group=7): a group is a name, a str"),
        ({"T": 5, "softT": "x"}, f"WTime(softT='x'): {FORM}"),
        ({"T": 5, "softT": 6}, "WTime: the soft limit softT=6 is above the hard limit T=5"),
    ],
)
def test_arguments_that_make_no_limit_say_why(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as raised:
        WTime(**arguments)

    assert text == str(raised.value)


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (WTime(T=9000), "WTime(T=02:30:00)"),
        (WTime(T="1-12:00:00", softT=60), "WTime(T=1-12:00:00, softT=00:01:00)"),
        (WTime(group="opt"), "WTime(group='opt')"),
        (WTime(T=60, group="opt"), "WTime(T=00:01:00, group='opt')"),
        (WTime(T=60, countdown=True, clock=FakeClock()), "WTime(T=00:01:00, countdown=True)"),
    ],
)
def test_limits_are_shown_on_a_clock(limit: WTime, shown: str) -> None:
    assert shown == repr(limit)


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (WTime(T=9000), 'WTime(T="02:30:00")'),
        (WTime(T=2), 'WTime(T="00:00:02")'),
        (WTime(T=0.5), "WTime(T=0.5)"),
        (WTime(T="1-12:00:00", softT=60), 'WTime(T="1-12:00:00", softT="00:01:00")'),
        (WTime(group="opt"), "WTime(group='opt')"),
    ],
)
def test_limits_that_are_asked_for_are_shown_as_they_are_written(limit: WTime, shown: str) -> None:
    assert shown == limit.ask()
    again = eval(shown, {"WTime": WTime})
    assert (limit.T, limit.softT, limit.group) == (again.T, again.softT, again.group)


@settings(deadline=None)
@given(st.integers(1, 10**7))
def test_shown_form_is_read(seconds: int) -> None:
    """A limit that is shown can be read again."""
    shown = repr(WTime(T=seconds)).removeprefix("WTime(T=").removesuffix(")")

    assert seconds == WTime(T=shown).T


class TestFit:
    """Tasks and workers with time limits: which fit."""

    def test_a_worker_takes_a_task_whose_soft_limit_it_meets(self) -> None:
        """A worker takes a task whose soft limit it meets, even if the hard one is beyond."""
        clock = FakeClock()
        supply = Supply(WTime(T=100, clock=clock))

        assert Fit.NOW is supply.fit(WTime(T=500, softT=100))
        assert Fit.NEVER is supply.fit(WTime(T=500, softT=101))

    def test_a_worker_without_a_limit_meets_every_limit(self) -> None:
        """A worker without a limit meets every one; a task without one runs on any worker."""
        assert WTime(T=500) & Cores([0]) == Supply(Cores(4)).alloc(Cores(1) & WTime(T=500))
        assert Cores([0]) == Supply(Cores(4) & WTime(T=10)).alloc(Cores(1))
        assert Fit.NOW is Supply(WTime(T=10)).fit(WTime(group="new"))

    def test_absent_limit_is_given_back(self) -> None:
        """An allocation with a limit goes back to a worker that has none."""
        supply = Supply(Cores(4))
        supply.dealloc(supply.alloc(Cores(1) & WTime(T=500)))

        assert supply.idle()

    def test_a_limit_takes_no_time_from_the_worker(self) -> None:
        """Time is not taken from the worker by giving a limit to a task."""
        supply = Supply(WTime(T=100, clock=FakeClock()))
        supply.alloc(WTime(T=80))

        assert Fit.NOW is supply.fit(WTime(T=80))


class TestCountdown:
    """The time that workers have left."""

    def test_the_time_left_shrinks_as_the_clock_goes_down_to_zero(self) -> None:
        clock = FakeClock()
        limit = WTime(T=100, countdown=True, clock=clock)
        clock.now += 30

        assert (70, 70) == (limit.T, limit.softT)
        assert {"WTime": (70, 100)} == limit.stat()
        clock.now += 100
        assert 0 == limit.T

    def test_the_limit_of_a_task_stays_as_it_is_while_the_task_waits(self) -> None:
        clock = FakeClock()
        limit = WTime(T=100, clock=clock)
        clock.now += 30

        assert 100 == limit.T
        assert {"WTime": (1, 1)} == limit.stat()

    def test_begins_with_the_supply(self) -> None:
        """A worker's limit counts down from the moment it becomes a supply; the statement stays."""
        clock = FakeClock()
        stated = Cores(4) & WTime(T=100, clock=clock)
        clock.now += 50
        supply = Supply(stated)
        clock.now += 30

        assert 70 == supply.free.T
        assert 70 == supply.total.T
        assert 100 == stated.T

    def test_running_countdown_goes_on(self) -> None:
        """The supply does not restart a limit that counts down already."""
        clock = FakeClock()
        stated = WTime(T=100, countdown=True, clock=clock)
        clock.now += 50

        assert 50 == Supply(stated).free.T

    def test_a_task_never_fits_once_less_is_left_than_its_soft_limit(self) -> None:
        """Time does not come back."""
        clock = FakeClock()
        supply = Supply(Cores(4) & WTime(T=100, clock=clock))
        clock.now += 41
        with pytest.raises(Infeasible) as raised:
            supply.alloc(Cores(1) & WTime(T=60))

        assert Fit.NEVER is supply.fit(Cores(1) & WTime(T=60))
        assert 'it has WTime(T=00:00:59, countdown=True), asked for WTime(T="00:01:00")' == str(
            raised.value
        )

    def test_a_supply_with_a_countdown_is_idle_when_nothing_is_handed_out(self) -> None:
        supply = Supply(Cores(2) & WTime(T=1000))
        got = supply.alloc(Cores(1))

        assert not supply.idle()
        supply.dealloc(got)
        assert supply.idle()

    def test_data_are_the_time_left(self) -> None:
        """Clocks differ between machines: the wire has the time left."""
        clock = FakeClock()
        limit = WTime(T=100, countdown=True, clock=clock)
        clock.now += 30

        assert {"WTime": {"T": 70, "countdown": True}} == to_data(limit)
        clock.now += 100
        assert {"WTime": {"T": 0, "countdown": True}} == to_data(limit)

    def test_data_of_a_worker_out_of_time(self) -> None:
        """A worker whose time is over can still be read by others."""
        again = from_data({"WTime": {"T": 0, "countdown": True}})

        assert 0 == again.T
        assert {"WTime": (1, 1)} == again.stat()


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        ("2:00:00", WTime(T=7200)),
        (60, WTime(T=60)),
        ({"T": "0:01:00", "softT": 30}, WTime(T=60, softT=30)),
        ({"group": "opt"}, WTime(group="opt")),
    ],
)
def test_a_configuration_states_only_the_hard_limit_or_the_arguments(
    data: Any, limit: WTime
) -> None:
    assert limit == from_data({"WTime": data})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"T": 60, "clock": 1}, "a clock is not data"),
        ("soon", f"WTime(T='soon'): {FORM}"),
        ({"T": 0}, f"WTime(T=0): {FORM}"),
    ],
)
def test_data_of_no_limit_name_the_kind_and_the_data(data: Any, text: str) -> None:
    with pytest.raises(ValueError) as raised:
        from_data({"WTime": data})

    assert f"WTime = {data!r} is not a resource: {text}" == str(raised.value)


class TestGroups:
    """Limits estimated from the first runs of a group."""

    RUNS = (61.0, 75.5, 58.2, 90.0, 66.6, 71.3, 80.1, 64.9)

    def test_the_eighth_run_completes_the_estimate_of_a_group(self) -> None:
        """The eighth run completes it: mean plus 2 (soft) and 5 (hard) standard deviations."""
        times = RunTimes()
        completed = [times.record("opt", t) for t in self.RUNS]
        limits = times.limits("opt")

        mean, stdev = statistics.mean(self.RUNS), statistics.stdev(self.RUNS)
        assert [False] * 7 + [True] == completed
        assert limits is not None
        assert mean + 2 * stdev == pytest.approx(limits.soft)
        assert mean + 5 * stdev == pytest.approx(limits.hard)

    def test_there_is_no_estimate_from_seven_runs(self) -> None:
        times = RunTimes()
        for t in self.RUNS[:7]:
            times.record("opt", t)

        assert times.limits("opt") is None

    def test_later_runs_do_not_count(self) -> None:
        """The estimate stays, whatever comes after the first eight."""
        times = RunTimes()
        for t in self.RUNS:
            times.record("opt", t)
        before = times.limits("opt")

        assert not times.record("opt", 5000)
        assert before == times.limits("opt")

    def test_short_runs_do_not_count(self) -> None:
        """Runs of 10 s or less are left out, of the number as well as of the mean."""
        times = RunTimes()
        for t in self.RUNS[:7]:
            times.record("opt", t)

        assert not times.record("opt", 10.0)
        assert not times.record("opt", 0.1)
        assert times.record("opt", self.RUNS[7])
        limits = times.limits("opt")
        assert limits is not None
        assert statistics.mean(self.RUNS) + 2 * statistics.stdev(self.RUNS) == pytest.approx(
            limits.soft
        )

    def test_by_recent_runs_the_limits_follow_the_last_64(self) -> None:
        times = RunTimes()
        completed = [times.record("opt", t, "recent") for t in (9.0, *self.RUNS)]
        assert [False] * 8 + [True] == completed
        assert pytest.approx((1.1 * 90, 3 * 90)) == times.limits("opt", "recent")
        assert times.limits("opt") is None

        assert times.record("opt", 5000, "recent")
        assert pytest.approx((5500, 15000)) == times.limits("opt", "recent")
        for _ in range(63):
            times.record("opt", 20, "recent")
        assert pytest.approx((22, 15000)) == times.limits("opt", "recent")
        times.record("opt", 20, "recent")
        assert pytest.approx((22, 60)) == times.limits("opt", "recent")
        assert not times.record("opt", 20, "recent")

    def test_each_group_has_its_own_estimate(self) -> None:
        """Each group has its own estimate, and each source of run times its own groups."""
        times = RunTimes()
        for t in self.RUNS:
            times.record("opt", t)
            times.record("freq", t * 3)
        opt, freq = times.limits("opt"), times.limits("freq")

        assert opt is not None
        assert freq is not None
        assert 3 * opt.soft == pytest.approx(freq.soft)
        assert RunTimes().limits("opt") is None

    def test_limits_of_a_request(self) -> None:
        """A request of a group has no limit, or the one it states, until there is an estimate."""
        times = RunTimes()
        unknown, stated = WTime(group="opt"), WTime(T=500, group="opt")

        assert Limits(math.inf, math.inf) == unknown.limits(times)
        assert Limits(500, 500) == stated.limits(times)
        assert Limits(500, 500) == stated.limits()
        for t in self.RUNS:
            times.record("opt", t)
        assert times.limits("opt") == unknown.limits(times)
        assert times.limits("opt") == stated.limits(times)

    def test_a_resolved_request_has_the_limits_of_its_group(self) -> None:
        """A request with its estimate filled in is a request with limits, of the same group."""
        times = RunTimes()
        request = WTime(group="opt")

        assert request is request.resolved(times)
        for t in self.RUNS:
            times.record("opt", t)
        resolved, limits = request.resolved(times), times.limits("opt")
        assert limits is not None
        assert ("opt", limits.hard, limits.soft) == (resolved.group, resolved.T, resolved.softT)
        assert WTime(T=5).resolved(times) == WTime(T=5)

    def test_eight_equal_runs_leave_no_margin(self) -> None:
        times = RunTimes()
        for _ in range(8):
            times.record("opt", 60)

        assert Limits(60, 60) == times.limits("opt")
