"""The rate at which the tasks of a mission end."""

from __future__ import annotations

import pytest

from grain.head.events import Pace


def paced(*paces: tuple[float, float], step: float = 5.0) -> Pace:
    """Return the pace of a mission that ran for so many seconds at so many tasks a second."""
    pace, at, ended = Pace(), 0.0, 0.0
    pace.look(at, 0)
    for seconds, rate in paces:
        for _ in range(int(seconds / step)):
            at += step
            ended += rate * step
            pace.look(at, int(ended))
    return pace


def test_rates_count_from_the_first_task() -> None:
    pace = Pace()
    pace.look(0, 0, idle=True)
    pace.look(101, 0, idle=True)
    pace.look(103, 4)

    assert 2 == pace.rate


def test_the_rate_is_that_of_the_last_quarter() -> None:
    """A mission that waited long for workers would otherwise never get an estimate that is true."""
    assert 4.0 == pytest.approx(paced((3600, 0.01), (1500, 4.0)).rate, rel=0.02)
    assert 0.2 == pytest.approx(paced((3600, 4.0), (1500, 0.2)).rate, rel=0.02)


def test_the_rate_is_that_of_all_time_while_little_has_ended_lately() -> None:
    few = paced((3600, 0.002))

    assert 7 / 3600 == pytest.approx(few.rate)
    assert 2.0 == pytest.approx(paced((50, 2.0)).rate)


def test_the_rate_of_a_stall_is_zero_however_much_ended_before() -> None:
    """A quarter of the time in which nothing has ended, and a minute at least."""
    assert 0.0 == paced((10, 60.0), (70, 0.0)).rate
    assert 0.0 == paced((3600, 4.0), (1500, 0.0)).rate
    # Of what takes ten minutes each, none may have ended in the last fifteen.
    assert 5 / 3900 == pytest.approx(paced((3000, 1 / 600), (900, 0.0)).rate, rel=0.02)


def test_there_is_no_rate_before_the_second_look() -> None:
    pace = Pace()
    assert 0.0 == pace.rate
    pace.look(7.0, 3)
    assert 0.0 == pace.rate


def test_a_bounded_number_of_points_is_kept() -> None:
    assert len(paced((100_000, 0.1))._points) <= 32
