"""The time that is left: laws of the estimate, and its error on campaigns in virtual time."""

from __future__ import annotations

import math
import sys
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from grain.delayed.display.estimate import Estimate, estimate
from grain.delayed.display.lines import left_text
from grain.delayed.display.progress import Progress
from grain.delayed.display.total import Total
from grain.head import Statistics
from grain.head.base import CallKindNow
from grain_testkit.staged_campaign import STAGES, Campaign

if TYPE_CHECKING:
    from collections.abc import Sequence


def kind(
    waiting: int = 0,
    elapsed: Sequence[float] = (),
    mean: float = 10.0,
    *,
    function: str = "f",
    cores: float = 1,
    blocked: int = 0,
    timed: int = 1,
    longest: float | None = None,
) -> CallKindNow:
    most = mean if longest is None else longest
    return CallKindNow(
        function, cores, waiting, blocked, tuple(elapsed), timed, timed * mean, timed and most
    )


seconds = st.floats(0, 1e6)
kinds = st.lists(
    st.builds(
        kind,
        st.integers(0, 10**6),
        st.lists(seconds, max_size=9),
        seconds,
        function=st.sampled_from("fgh"),
        cores=st.integers(0, 64),
        blocked=st.integers(0, 9),
        timed=st.integers(0, 9),
        longest=seconds,
    ),
    max_size=6,
)
room = st.floats(0, 1e5)
coming = st.dictionaries(st.sampled_from("fghi"), st.integers(0, 10**6))


def time_left(*args: Any) -> float:
    found = estimate(*args)
    assert found is not None
    return found.seconds


@given(kinds, room, coming)
@example([kind(4, mean=2.0)], sys.float_info.min, {})
def test_an_estimate_is_a_finite_time_and_never_negative(
    tasks: list[CallKindNow], cores: float, calls: dict[str, int]
) -> None:
    found = estimate(tasks, cores, calls)

    assert found is None or (found.seconds >= 0 and math.isfinite(found.seconds))


@given(kinds, room, room, coming)
def test_more_room_never_makes_it_longer(
    tasks: list[CallKindNow], cores: float, more: float, calls: dict[str, int]
) -> None:
    few, many = estimate(tasks, cores, calls), estimate(tasks, cores + more, calls)

    if few is not None:
        assert many is not None
        assert many.seconds <= few.seconds * (1 + 1e-9)


@given(kinds, st.floats(1, 1e5), st.integers(0, 5), st.integers(1, 1000))
def test_more_tasks_never_make_it_shorter(
    tasks: list[CallKindNow], cores: float, at: int, more: int
) -> None:
    # Another call of unknown time may take the estimate away.
    assume(at >= len(tasks) or tasks[at].timed)
    before = estimate(tasks, cores)
    longer = [
        one._replace(waiting=one.waiting + more) if number == at else one
        for number, one in enumerate(tasks)
    ]
    after = estimate(longer, cores)

    if before is not None:
        assert after is not None
        assert after.seconds >= before.seconds * (1 - 1e-9)


@given(
    st.integers(0, 200),
    st.integers(1, 12),
    st.lists(st.floats(0, 10), max_size=12),
    st.integers(1, 4),
)
def test_it_is_exact_for_equal_tasks_on_equal_workers(
    waiting: int, workers: int, elapsed: list[float], cores: int
) -> None:
    """Each worker has room for one task; the tasks take 10 s."""
    elapsed = elapsed[:workers]
    free = [10.0 - ran for ran in elapsed] + [0.0] * (workers - len(elapsed))
    heapify(free)
    for _ in range(waiting):
        heapreplace(free, free[0] + 10.0)
    tasks = [kind(waiting, elapsed, cores=cores)]

    if waiting or elapsed:
        assert max(free) == pytest.approx(time_left(tasks, workers * cores), abs=1e-6)


def test_each_function_has_a_mean_of_its_own() -> None:
    brief = kind(10_000, [0.5], 1.0, function="brief")
    long = kind(9, [50.0], 100.0, function="long", cores=4)

    # (10,000 * 1 + 0.5 + 4 * (9 * 100 + 50)) / 20
    assert 690.025 == pytest.approx(time_left([brief, long], 20.0))


def test_a_function_that_asks_for_other_cores_has_the_mean_of_its_runs_so_far() -> None:
    assert Estimate(40.0) == estimate([kind(0), kind(4, cores=2, timed=0)], 2.0)


def test_a_function_of_which_no_run_has_ended_is_left_out_and_the_time_is_a_least_one() -> None:
    new = kind(50, [3.0], function="new", timed=0)

    new_ones = Estimate(600.0, least=True, without=51, function="new", functions=1)
    assert new_ones == estimate([kind(60), new], 1.0)
    seven = Estimate(70.0, least=True, without=7, function="new", functions=1)
    assert seven == estimate([kind(7)], 1.0, {"new": 7})
    other = kind(9, function="other", timed=0)
    assert (60, "new", 2) == estimate([kind(60), new, other], 1.0)[2:]  # type: ignore[index]


def test_there_is_no_time_where_more_is_left_out_than_counted() -> None:
    new = kind(50, [3.0], function="new", timed=0)

    assert estimate([kind(50), new], 1.0) is None
    assert estimate([kind(2)], 1.0, {"new": 3}) is None
    assert estimate([kind(0), new], 1.0) is None
    assert estimate([new], 1.0) is None


def test_calls_that_are_to_come_count_where_their_function_is_known() -> None:
    assert Estimate(120.0) == estimate([kind(2, cores=2)], 2.0, {"f": 10})
    assert Estimate(100.0) == estimate([kind(0, cores=2)], 2.0, {"f": 10})


def test_a_run_that_takes_longer_than_any_before_it_makes_the_time_a_least_one() -> None:
    assert Estimate(5.0) == estimate([kind(0, [15.0], longest=25.0)], 1.0)
    assert Estimate(0.0, least=True) == estimate([kind(0, [30.0], longest=25.0)], 1.0)


def test_what_fits_no_worker_does_not_count() -> None:
    assert Estimate(20.0) == estimate([kind(2, blocked=1000)], 1.0)


def test_tasks_without_cores_have_the_places_of_those_that_run() -> None:
    assert Estimate(25.0) == estimate([kind(3, [5.0, 5.0], cores=0)], 0.0)


def test_without_room_there_is_no_estimate() -> None:
    assert estimate([kind(2)], 0.0) is None


def looked_at(*looks: tuple[float, int, list[CallKindNow]], cores: int) -> float:
    """Return the time left after looks, each with the given cores and the tasks."""
    now = [looks[0]]
    progress = Progress()
    progress.on_opened(
        lambda: Statistics(9, 9, 0, 0, 0, 0, cores=cores, given=now[0][1]), lambda: now[0][2]
    )
    for now[0] in looks:
        progress.look(now[0][0])
    assert progress.left is not None
    return progress.left.seconds


def test_tasks_that_were_sent_ahead_behind_others_have_no_cores() -> None:
    """They count as running. Of ten, two have a core."""
    assert 50.0 == looked_at((0.0, 2, [kind(90, [0.0] * 10, 1.0)]), cores=2)


def test_cores_that_tasks_had_some_seconds_ago_count_no_more() -> None:
    """One task ends and the next begins; but workers leave, too."""
    many, few = [kind(90, [0.0] * 10, 1.0)], [kind(98, [0.0] * 2, 1.0)]

    assert 10.0 == looked_at((0.0, 10, many), (4.0, 2, few), cores=10)
    assert 50.0 == looked_at((0.0, 10, many), (4.0, 2, few), (6.0, 2, few), cores=10)


@pytest.mark.parametrize(("running", "looks"), [(9, 11), (50_000, 2)])
def test_the_more_tasks_run_the_more_rarely_the_time_is_estimated(running: int, looks: int) -> None:
    """An estimate of 50,000 running tasks takes some milliseconds; one in 10 s costs nothing."""
    taken: list[float] = []
    now = [0.0]
    progress = Progress()

    def kinds() -> list[CallKindNow]:
        taken.append(now[0])
        return []

    progress.on_opened(lambda: Statistics(0, running, 0, 0, 0, 0, cores=1, given=1), kinds)
    for now[0] in range(11):
        progress.look(now[0])

    assert looks == len(taken)


# ---- the error on a campaign of 1,887 calls in four dependent stages

WHOLE = {stage.function: stage.calls for stage in STAGES}
PARTS = (0.25, 0.5, 0.75)


def test_stage_by_stage_the_time_of_what_was_submitted_is_right() -> None:
    campaign = Campaign(barrier=True)
    end = campaign.run()
    times = [part * end for part in PARTS]

    for at, progress in zip(times, campaign.watch(times), strict=True):
        assert progress.left is not None
        assert not progress.left.least
        assert not progress.is_whole
        assert campaign.run(until=at) - at == pytest.approx(progress.left.seconds, rel=0.1)


def test_with_the_calls_of_each_function_the_time_of_all_of_them_is_right() -> None:
    """Some molecules are on their way at a time, so each function is seen early."""
    campaign = Campaign(at_once=24)
    end = campaign.run()
    times = [part * end for part in PARTS]

    for at, progress in zip(times, campaign.watch(times, Total(WHOLE)), strict=True):
        assert progress.is_whole
        assert progress.left is not None
        assert not progress.left.least
        assert end - at == pytest.approx(progress.left.seconds, rel=0.1)


def test_a_time_that_is_called_a_least_one_is_never_too_long() -> None:
    """All molecules begin at once, and what waits for long has run for none of them."""
    campaign = Campaign([stage._replace(calls=stage.calls // 10) for stage in STAGES])
    end = campaign.run()
    times = [part / 20 * end for part in range(1, 20)]

    said = 0
    for at, progress in zip(times, campaign.watch(times), strict=True):
        if progress.left is not None and progress.left.least:
            said += 1
            assert progress.left.seconds < campaign.run(until=at) - at
    assert said


def test_the_number_of_all_calls_gives_the_share_and_no_time() -> None:
    campaign = Campaign(STAGES[:2], barrier=True)
    [progress] = campaign.watch([300.0], Total(1887))

    assert not progress.is_whole
    assert progress.ended / 1887 == progress.share
    [unknown] = campaign.watch([60.0])
    assert unknown.share is None


def test_no_time_is_left_when_nothing_runs_any_more() -> None:
    """Although the last estimate is young: a cell of a notebook keeps the last line for good."""
    running = [1]
    progress = Progress()
    progress.on_opened(
        lambda: Statistics(0, running[0], 0, 0, 0, 0, cores=1, given=running[0]),
        lambda: [kind(elapsed=[2.0])] * running[0],
    )
    progress.look(0.0)
    progress.look(60.0)
    assert "8 s" in left_text(progress)
    running[0] = 0
    progress.count()
    assert left_text(progress) == ""
