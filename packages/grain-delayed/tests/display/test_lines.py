"""The lines about progress, as a table of situations."""

from __future__ import annotations

import pytest

from grain.delayed.display.failures import causes_text, count_failure, take_back
from grain.delayed.display.lines import interruption, live_line, log_line, summary
from grain.delayed.display.progress import NOTHING, Progress
from grain.delayed.display.total import Total
from grain.facts.rows import Causes
from grain.head import Statistics
from grain.head.base import CallKindNow
from grain.head.events import TaskFailed
from grain.worker.errors import ExternalError, Failure


def stats(
    done: int = 0,
    running: int = 0,
    queued: int = 0,
    failed: int = 0,
    *,
    cancelled: int = 0,
    not_begun: int = 0,
    cores: tuple[int, int] = (0, 0),
    stuck: int = 0,
    stuck_task: str = "",
    absent: bool = False,
    computing: float | None = None,
    others: bool = False,
) -> Statistics:
    return Statistics(
        queued, running, done, failed, cancelled, 0, stuck, stuck_task, not_begun, *cores, absent,
        computing=computing, others=others,
    )  # fmt: skip


def kinds(now: Statistics) -> list[CallKindNow]:
    """Return the tasks, which take 10 s, and which all began 5 s ago that run."""
    ended = now.done + now.failed
    elapsed = (5.0,) * now.running
    waiting = now.queued - now.stuck
    return [CallKindNow("f", 1, waiting, now.stuck, elapsed, ended, 10.0 * ended, 10.0)]


def after(seconds: float, now: Statistics, looks: int = 20, total: Total | None = None) -> Progress:
    """Return the progress of a mission that has come to these statistics in that time."""
    progress = Progress(total)
    progress.on_opened(lambda: now, lambda: kinds(now))
    for i in range(looks):
        progress.look(seconds * i / (looks - 1))
    return progress


HALF = stats(235, 64, 191, 10, cores=(64, 64))
COMPUTES = stats(235, 64, 191, 10, cores=(64, 64), computing=3.14)
NO_FIT = stats(235, 0, 4, 10, cores=(0, 64), stuck=4, stuck_task="t:1")
ABSENT = stats(queued=4, stuck=4, stuck_task="t:1", absent=True)
ONE_ABSENT = stats(queued=1, stuck=1, stuck_task="t:1", absent=True)
SOME_FIT = stats(235, 5, 9, 10, cores=(5, 64), stuck=4, stuck_task="t:8")


def live(now: Statistics, width: int, seconds: float = 40.0, total: Total | None = None) -> str:
    return "".join(part.text for part in live_line(after(seconds, now, total=total), width))


@pytest.mark.parametrize(
    ("now", "width", "line"),
    [
        (
            COMPUTES,
            140,
            (
                "235 done, 10 failed, 64 running, 191 queued, 6.1/s, 64/64 cores given, "
                "3.1 computing, 40 s elapsed, submitted so far: about 35 s"
            ),
        ),
        (
            HALF,
            80,
            "235 done, 10 failed, 64 running, 191 queued, so far: about 35 s",
        ),
        (COMPUTES, 80, "235 done, 10 failed, 64 running, 191 queued, so far: about 35 s"),
        (HALF, 40, "235 done, 10 failed, so far: about 35 s"),
        (HALF, 20, "so far: about 35 s"),
        (HALF, 12, "so far: about 35 s"),
        (stats(), 80, "0 done, 0 failed, 0 running, 0 queued, 40 s elapsed"),
        (stats(running=3, queued=2), 80, "0 done, 0 failed, 3 running, 2 queued, 40 s elapsed"),
        (
            NO_FIT,
            80,
            "235 done, 10 failed, 0 running, 4 queued, and none fits a worker: grain why t:1",
        ),
        (
            SOME_FIT,
            120,
            (
                "235 done, 10 failed, 5 running, 5/64 cores given, 9 queued, but 4 fit no worker: "
                "grain why t:8, the others: about 15 s"
            ),
        ),
        (
            ABSENT,
            80,
            "0 done, 0 failed, 0 running, 4 queued, which wait for a worker: grain why t:1",
        ),
        (
            ONE_ABSENT,
            80,
            "0 done, 0 failed, 0 running, 1 queued, which waits for a worker: grain why t:1",
        ),
        (ABSENT, 39, "4 wait for a worker: grain why t:1"),
        (NO_FIT, 39, "10 failed, 4 fit nowhere: grain why t:1"),
        (NO_FIT, 30, "4 fit nowhere: grain why t:1"),
    ],
)
def test_the_live_line_keeps_what_matters_where_there_is_little_room(
    now: Statistics, width: int, line: str
) -> None:
    assert line == live(now, width)


@pytest.mark.parametrize(
    ("now", "width", "line"),
    [
        (
            COMPUTES,
            140,
            (
                "━━━━────── 49 % of 500, 235 done, 10 failed, 64 running, 191 queued, 6.1/s, "
                "64/64 cores given, 3.1 computing, 40 s elapsed, left: about 35 s"
            ),
        ),
        (
            HALF,
            80,
            "━━━━━━━━───────── 49 % of 500, 235 done, 10 failed, 64 running, left: about 35 s",
        ),
        (HALF, 40, "49 % of 500, 10 failed, left: about 35 s"),
        (
            NO_FIT,
            80,
            "━━━───── 49 % of 500, 10 failed, 4 queued, and none fits a worker: grain why t:1",
        ),
        (
            stats(),
            80,
            "──────────────── 0 % of 500, 0 done, 0 failed, 0 running, 0 queued, 40 s elapsed",
        ),
    ],
)
def test_there_is_a_bar_and_a_share_where_the_number_of_calls_is_known(
    now: Statistics, width: int, line: str
) -> None:
    assert line == live(now, width, total=Total(500))


def test_a_time_is_about_all_calls_only_if_all_were_submitted_or_are_known_by_function() -> None:
    more = Total(1000)

    assert live(HALF, 140, total=more).endswith("submitted so far: about 35 s")
    by_function = Total({"f": 900, "unknown": 0})
    for _ in range(500):
        by_function.note("f")
    assert live(HALF, 140, total=by_function).endswith("left: about 1 min 37 s")


def test_more_calls_than_were_said_make_the_whole_larger() -> None:
    assert "49 % of 500" in live(HALF, 140, total=Total(100))


def test_a_time_that_is_a_least_one_says_so_and_what_it_is_without() -> None:
    now = stats(4, 2, 8, cores=(2, 2))
    progress = Progress()
    unseen = CallKindNow("energy", 1, 3, 0, (), 0, 0.0, 0.0)
    progress.on_opened(lambda: now, lambda: [*kinds(stats(4, 2, 2)), unseen])
    progress.look(0.0)

    assert log_line(progress).endswith("submitted so far: at least 15 s (not counting 3 of energy)")
    assert "".join(p.text for p in live_line(progress, 60)).endswith("so far: at least 15 s")

    progress = Progress(Total({"rank": 1}))
    progress.on_opened(lambda: now, lambda: [*kinds(stats(4, 2, 2)), unseen])
    progress.look(0.0)
    assert log_line(progress).endswith("(not counting 4 of energy and other functions)")


def test_nothing_is_said_of_a_time_of_which_nothing_is_known() -> None:
    """All that is left takes longer than any run before."""
    now = stats(4, 2, 0, cores=(2, 2))
    progress = Progress()
    progress.on_opened(
        lambda: now, lambda: [CallKindNow("f", 1, 0, 0, (30.0, 40.0), 4, 40.0, 25.0)]
    )
    progress.look(0.0)

    assert log_line(progress).endswith("2 of 2 cores given")


def test_where_no_cores_are_given_none_are_said_to_compute() -> None:
    now = stats(queued=4, cores=(0, 64), computing=0.0)

    assert "0 of 64 cores given" in log_line(after(1.0, now))
    assert "computing" not in log_line(after(1.0, now))


def test_a_rate_of_nothing_has_its_unit() -> None:
    """All ended at once, minutes ago."""
    progress = after(600.0, stats(600, 2, cores=(2, 4)))

    assert "10 min elapsed, 0/min, 2 of 4 cores given" in log_line(progress)
    assert "0/min" in [part.text for part in live_line(progress, 140)]


def test_the_two_kinds_of_cores_have_two_tones() -> None:
    styles = {part.text: part.style for part in live_line(after(40.0, COMPUTES), 140)}

    assert ("dim", "cyan") == (styles["64/64 cores given"], styles["3.1 computing"])


@pytest.mark.parametrize(
    "now", [HALF, COMPUTES, NO_FIT, ABSENT, SOME_FIT, stats(5), stats(running=1)]
)
@pytest.mark.parametrize("width", range(39, 200, 7))
def test_the_live_line_is_never_wider_than_the_terminal(now: Statistics, width: int) -> None:
    assert len(live(now, width)) <= width
    assert len(live(now, width, total=Total(500))) <= width


def test_failures_are_coloured() -> None:
    assert ["10 failed"] == [
        part.text for part in live_line(after(1, HALF), 80) if part.style == "bold red"
    ]


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (
            stats(3, 2, 5, 1),
            (
                "3 done, 2 running, 5 queued, 1 failed, 8 s elapsed, 30/min, "
                "submitted so far: about 35 s"
            ),
        ),
        (stats(), "0 done, 0 running, 0 queued, 0 failed, 8 s elapsed"),
        (stats(running=3, queued=2), "0 done, 3 running, 2 queued, 0 failed, 8 s elapsed"),
        (stats(4, 0, 0, 1), "4 done, 0 running, 0 queued, 1 failed, 8 s elapsed, 37.5/min"),
        (stats(4, 0, 7), "4 done, 0 running, 7 queued, 0 failed, 8 s elapsed, 30/min"),
        (
            NO_FIT,
            (
                "235 done, 0 running, 4 queued, 10 failed, 8 s elapsed, 31/s, 0 of 64 cores given, "
                "none of those queued fits a worker: grain why t:1"
            ),
        ),
        (
            ABSENT,
            (
                "0 done, 0 running, 4 queued, 0 failed, 8 s elapsed, "
                "no worker is there: grain why t:1"
            ),
        ),
        (
            SOME_FIT,
            (
                "235 done, 5 running, 9 queued, 10 failed, 8 s elapsed, 31/s, 5 of 64 cores given, "
                "4 of those queued fit no worker: grain why t:8, the others: about 15 s"
            ),
        ),
    ],
)
def test_a_line_of_a_log(now: Statistics, line: str) -> None:
    """There is an estimate where tasks have ended, others run, and what waits can run."""
    assert line.replace("37.5/min", "38/min") == log_line(after(8.0, now))


def paced(*paces: tuple[float, float], step: float = 5.0) -> Progress:
    """Return the progress of a mission that ran for so many seconds at so many tasks a second."""
    progress, at, ended = Progress(), 0.0, 0.0
    now = stats(0, 4, 100_000)
    progress.on_opened(lambda: now)
    progress.look(at)
    for seconds, rate in paces:
        for _ in range(int(seconds / step)):
            at += step
            ended += rate * step
            now = stats(int(ended), 4, 100_000 - int(ended))
            progress.look(at)
    return progress


def test_the_rate_is_the_pace_of_the_tasks_from_the_first_one_on() -> None:
    assert 0.2 == pytest.approx(paced((3600, 4.0), (1500, 0.2)).rate, rel=0.02)
    assert 0.0 == paced((10, 60.0), (70, 0.0)).rate


def test_cores_that_a_mission_had_itself_a_moment_ago_are_not_those_of_others() -> None:
    """Its worker has left since the scheduler was asked."""
    assert "other missions" not in live(stats(5, 0, 9, cores=(64, 64)), 120)
    assert "other missions" not in log_line(after(40.0, stats(5, 0, 9, cores=(64, 64))))


def test_a_mission_that_waits_for_others_says_so() -> None:
    waits = stats(5, 0, 9, cores=(64, 64), others=True)

    assert live(waits, 120).endswith(
        "64/64 cores given, 40 s elapsed, other missions have the cores"
    )
    assert log_line(after(40.0, waits)).endswith(
        "64 of 64 cores given, other missions have the cores"
    )
    assert "other missions" not in live(stats(5, 1, 9, cores=(64, 64)), 120)
    assert "other missions" not in live(stats(5, 0, 9, cores=(0, 64)), 120)


def test_given_cores_are_averaged_over_the_time_in_which_tasks_ran() -> None:
    progress, now = Progress(), stats(cores=(0, 4))
    progress.on_opened(lambda: now)
    progress.look(0)
    progress.look(1000)
    now = stats(0, 4, cores=(4, 4))
    progress.look(1000)
    for i in range(20):
        progress.look(1000 + i)
    assert progress.computing is None
    now = stats(0, 2, cores=(2, 4), computing=0.5)
    progress.look(1019)
    for i in range(20):
        progress.look(1019 + i)

    assert 0.75 == progress.given
    assert progress.computing is None  # of most of the given time it is not known


def test_computing_cores_are_averaged_as_a_part_of_the_given_ones() -> None:
    computes = stats(490, 1, failed=10, cores=(50, 100), computing=4.5)

    assert 0.09 == pytest.approx(after(40, computes).computing)
    assert summary(after(40, computes), computes, Causes(), 40.2).endswith(
        "40 s, cores 50 % given, 9 % of that computing"
    )


def test_a_few_looks_are_too_few_for_given_cores() -> None:
    assert after(1, HALF, looks=5).given is None
    assert "cores" not in summary(after(1, HALF, looks=5), HALF, Causes(), 1)


def external(code: int) -> ExternalError:
    return ExternalError(Failure(("x",), "n17", returncode=code))


def failure(task: int, error: BaseException, worker: str = "n17") -> TaskFailed:
    return TaskFailed(task, error, worker, lambda: f"f({task})")


def test_the_summary_names_causes_with_the_first_task_of_each() -> None:
    failures = Causes()
    for task in range(7, 17):
        count_failure(failures, failure(task, external(3)))
    end = stats(490, failed=10, cores=(59, 64))

    assert "490 done, 10 failed (10 x ExternalError exit 3, first: f(7) on n17), 40 s" == summary(
        Progress(), end, failures, 40.2
    )
    assert summary(
        after(40, stats(490, 1, failed=10, cores=(93, 100))), end, failures, 40.2
    ).endswith("on n17), 40 s, cores 93 % given")


def test_the_most_frequent_causes_come_first_and_rare_ones_are_counted() -> None:
    failures = Causes()
    for count, error in enumerate(
        [KeyError(), ValueError(), external(-11), OSError(), TypeError()], start=1
    ):
        for task in range(count):
            count_failure(failures, failure(task, error, ""))

    assert (
        "5 x TypeError, first: f(0); 4 x OSError, first: f(0); 3 x ExternalError SIGSEGV, "
        "first: f(0); 3 more for 2 other causes" == causes_text(failures)
    )


def test_a_failure_that_is_taken_back_leaves_no_trace() -> None:
    failures = Causes()
    count_failure(failures, failure(1, KeyError()))
    take_back(failures, KeyError())
    take_back(failures, KeyError())
    count_failure(failures, failure(2, KeyError()))

    assert "1 x KeyError, first: f(2) on n17" == causes_text(failures)


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (NOTHING, ""),
        (stats(3), "3 done, 2 s"),
        (stats(cancelled=9, not_begun=6), "3 stopped, 6 not begun, 2 s"),
    ],
)
def test_the_summary_without_failures(now: Statistics, text: str) -> None:
    assert text == summary(Progress(), now, Causes(), 2)


@pytest.mark.parametrize(
    ("now", "away", "text"),
    [
        (
            stats(4, cancelled=6, not_begun=6),
            0,
            "interrupted: 4 tasks ended, 6 not begun; nothing is left running",
        ),
        (
            stats(0, failed=1, cancelled=2, not_begun=0),
            0,
            "interrupted: 1 task ended (1 failed), 2 stopped; nothing is left running",
        ),
        (
            stats(4, cancelled=6, not_begun=4),
            2,
            (
                "interrupted: 4 tasks ended, 2 stopped, 4 not begun; 2 may still run: the "
                "scheduler cannot be reached, and ends them when this mission has been away for "
                "its grace period"
            ),
        ),
    ],
)
def test_the_line_after_ctrl_c(now: Statistics, away: int, text: str) -> None:
    assert text == interruption(now, away)
