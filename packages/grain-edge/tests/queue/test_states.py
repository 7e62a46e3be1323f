"""The state of a task, from what happened and what was asked."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from grain.queue.records import ArraySpec, Dependency, Job, Until, Wish
from grain.queue.states import (
    Asked,
    Run,
    State,
    StateCounts,
    asked_of,
    dependency_state,
    dependency_states,
    job_state,
    next_attempt,
    next_memory,
    task_state,
)
from grain_testkit.queue_world import make_job

JOB = make_job("x")
NOTHING = Asked()


def run(attempt: int, how: str = "exit", status: int = 0) -> Run:
    return Run(attempt, 1.0, how=how, ended=2.0 if how else 0.0, status=status)


def too_little(attempt: int, amount: float) -> Run:
    return replace(run(attempt, "memory"), amount=amount)


LEARNS = {"Cores": 1, "Memory": {"M": 32, "group": "opt"}}


@pytest.mark.parametrize(
    ("runs", "state", "tried"),
    [
        ([], "PENDING", (1, 0.0)),
        ([too_little(1, 3.1)], "PENDING", (2, 3.1)),
        # Apart from retries, of which there is one.
        ([too_little(1, 3.1), too_little(2, 7.4), run(3, status=1)], "PENDING", (3, 7.4)),
        ([too_little(1, 3.1), run(2, status=1), run(3, status=1)], "FAILED", (2, 3.1)),
        ([too_little(1, 3.1), run(2, "lost")], "PENDING", (2, 3.1)),
        ([too_little(1, 32.0)], "OUT_OF_MEMORY", None),
        ([replace(too_little(1, 16.0), last=True)], "OUT_OF_MEMORY", None),
        ([too_little(n, n) for n in range(1, 6)], "OUT_OF_MEMORY", None),
    ],
)
def test_a_task_of_a_group_runs_again_with_more_memory_up_to_the_most(
    runs: list[Run], state: str, tried: tuple[int, float] | None
) -> None:
    job = make_job("x", request=LEARNS, retries=1)
    assert state == task_state(job, runs, NOTHING, now=1.0).state
    memory = next_memory(job, runs, NOTHING)
    assert tried == (None if memory is None else memory.tried)


def test_attempts_before_the_one_that_a_user_asks_for_do_not_count() -> None:
    asked = Asked(granted=2)
    job = make_job("x", request=LEARNS)
    memory = next_memory(job, [too_little(1, 32.0)], asked)
    assert memory is not None
    assert (1, 0.0) == memory.tried
    assert 2 == next_attempt(job, [too_little(1, 32.0)], asked)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_job_that_may_not_run_twice_ends_with_the_memory_that_it_got_first(retries: int) -> None:
    job, runs = make_job("x", request=LEARNS, requeue=False, retries=retries), [too_little(1, 3.1)]
    assert "OUT_OF_MEMORY" == task_state(job, runs, NOTHING, now=1.0).state
    # Its dispatcher does not expect another attempt, either.
    assert next_memory(job, runs[:0], NOTHING) is None
    assert 2 == next_attempt(job, runs, Asked(granted=2))


def test_a_job_without_a_group_asks_for_what_it_says() -> None:
    for request in ({}, {"Memory": 32}):
        assert next_memory(make_job("x", request=request), [], NOTHING) is None


@pytest.mark.parametrize(
    ("options", "runs", "state", "attempt"),
    [
        ({}, [], "PENDING", 1),
        ({}, [run(1, "")], "RUNNING", 1),
        ({}, [run(1)], "COMPLETED", 1),
        ({}, [run(1, status=1)], "FAILED", 1),
        ({}, [run(1, "signal")], "FAILED", 1),
        ({}, [run(1, "start")], "FAILED", 1),
        ({}, [run(1, "timeout")], "TIMEOUT", 1),
        ({}, [run(1, "memory")], "OUT_OF_MEMORY", 1),
        ({}, [run(1, "cancelled")], "CANCELLED", 1),
        ({}, [run(1, "lost")], "PENDING", 2),
        ({}, [run(1, "returned")], "PENDING", 2),
        ({"requeue": False}, [run(1, "lost")], "LOST", 1),
        ({}, [run(n, "lost") for n in range(1, 5)], "PENDING", 5),
        ({}, [run(n, "lost") for n in range(1, 6)], "LOST", 5),
        ({}, [run(n, "returned") for n in range(1, 9)], "PENDING", 9),
        ({"retries": 1}, [run(1, status=1)], "PENDING", 2),
        ({"retries": 1}, [run(1, status=1), run(2, status=1)], "FAILED", 2),
        ({"retries": 1}, [run(1, "lost"), run(2, status=1)], "PENDING", 3),
        ({"retries": 9}, [run(1, "cancelled")], "CANCELLED", 1),
        ({"retries": 9}, [run(1)], "COMPLETED", 1),
    ],
)
def test_the_state_follows_from_the_attempts(
    options: dict[str, int], runs: list[Run], state: str, attempt: int
) -> None:
    found = task_state(make_job("x", **options), runs, Asked(), now=1.0)

    assert (state, attempt, "") == (found.state, found.attempt, found.reason)


def test_a_task_that_runs_says_that_it_is_to_be_cancelled() -> None:
    asked = Asked(cancelled=Wish(what="cancel", jobs=((1, 1),)))
    found = task_state(JOB, [run(1, "")], asked, now=3.0)

    assert ("RUNNING", "cancel") == (found.state, found.reason)


def handed_back(count: int, seconds: float = 0.2, first: int = 1) -> list[Run]:
    return [
        Run(n, 1.0, how="returned", ended=2.0, elapsed=seconds) for n in range(first, first + count)
    ]


@pytest.mark.parametrize(
    ("runs", "following"),
    [
        (handed_back(19), 20),
        (handed_back(20), 0),
        # A worker whose time is over hands back what it has run for a while.
        (handed_back(200, seconds=1.0), 201),
        ([*handed_back(19), *handed_back(1, 60.0, 20), *handed_back(19, first=21)], 40),
        ([*handed_back(19), run(20, "lost"), *handed_back(19, first=21)], 40),
        ([run(1, "lost"), *handed_back(20, first=2)], 0),
    ],
)
def test_a_task_that_is_handed_back_at_once_again_and_again_does_not_run_for_ever(
    runs: list[Run], following: int
) -> None:
    assert following == next_attempt(JOB, runs, NOTHING)


@pytest.mark.parametrize(
    ("runs", "next_one"),
    [(99, 100), (100, 0)],
)
def test_a_task_whose_program_stops_softly_runs_a_hundred_times_in_a_row(
    runs: int, next_one: int
) -> None:
    """As often again after any other end, or if a user asks for it."""
    soft = [replace(one, interruption="stopped") for one in handed_back(runs, seconds=3600.0)]

    assert next_one == next_attempt(JOB, soft, Asked())
    again = [replace(one, attempt=runs + 1 + one.attempt) for one in soft]
    other = replace(run(runs + 1, "returned"), elapsed=60.0)
    expected = next_one and 2 * runs + 2
    assert expected == next_attempt(JOB, [*soft, other, *again], Asked())
    assert runs + 1 == next_attempt(JOB, soft, Asked(granted=runs + 1))


def test_a_user_may_have_it_run_all_the_same() -> None:
    assert 21 == next_attempt(JOB, handed_back(20), Asked(granted=21))
    assert 40 == next_attempt(JOB, handed_back(39), Asked(granted=21))
    assert 0 == next_attempt(JOB, handed_back(40), Asked(granted=21))


def test_a_task_waits_for_the_first_reason_that_holds() -> None:
    job = make_job("x", not_before=5.0, array=ArraySpec(ranges=((0, 9, 1),), at_once=2))
    cancel = Wish(what="cancel", jobs=((1, 1),))

    def reason(asked: Asked = NOTHING, now: float = 9.0, **more: object) -> str:
        return task_state(job, [], asked, now=now, **more).reason  # type: ignore[arg-type]

    assert reason() == ""
    assert reason(running=1) == ""
    assert reason(running=2) == "array limit"
    assert reason(now=4.0) == "begin time"
    assert reason(dependency="waits", now=4.0) == "dependency"
    assert reason(dependency="never") == "never"
    assert reason(Asked(held=True), dependency="never") == "held"
    assert reason(Asked(held=True, cancelled=cancel)) == "cancel"


def wish(what: str, attempt: int = 0, *, only_failed: bool = False, **more: object) -> Wish:
    return Wish(
        what=what,  # type: ignore[arg-type]
        jobs=((3, 5),),
        attempt=attempt,
        only_failed=only_failed,
        **more,  # type: ignore[arg-type]
    )


def test_the_last_of_hold_and_release_counts() -> None:
    held = make_job("x", held=True)

    assert asked_of(JOB, 4, None, [wish("hold")]).held
    assert not asked_of(JOB, 6, None, [wish("hold")]).held
    assert not asked_of(held, 4, None, [wish("release")]).held
    assert asked_of(held, 4, None, [wish("release"), wish("hold")]).held


def test_a_wish_for_tasks_is_for_these_only() -> None:
    some = Wish(what="hold", jobs=((3, 3),), tasks=((1, 2), (7, 7)))

    assert [1, 2, 7] == [task for task in range(9) if some.concerns(3, task)]
    assert not some.concerns(3, None)


def test_a_run_ends_by_a_cancellation_and_by_a_wish_for_a_later_attempt() -> None:
    assert wish("cancel").ends(4, None, 2)
    assert wish("again", 3).ends(4, None, 2)
    assert not wish("again", 3).ends(4, None, 3)
    assert not wish("again", 3).ends(6, None, 2)
    assert not wish("hold", 3).ends(4, None, 2)


def test_again_gives_one_more_attempt_and_takes_a_cancellation_back() -> None:
    asked = asked_of(JOB, 4, None, [wish("cancel"), wish("again", 2)])

    assert 2 == next_attempt(JOB, [run(1, "cancelled")], asked)
    assert asked.cancelled is None
    assert 0 == next_attempt(JOB, [run(1, "cancelled"), run(2)], asked)
    assert 0 == next_attempt(JOB, [run(1, "")], asked)
    assert asked_of(JOB, 4, None, [wish("again", 2), wish("cancel")]).cancelled is not None


def test_again_for_failed_ones_leaves_the_others() -> None:
    asked = asked_of(JOB, 4, None, [wish("again", 2, only_failed=True)])

    assert 0 == next_attempt(JOB, [run(1)], asked)
    assert 2 == next_attempt(JOB, [run(1, status=1)], asked)


def test_retries_are_counted_from_the_attempt_that_was_asked_for() -> None:
    job = make_job("x", retries=1)
    runs = [run(1, status=1), run(2, status=1), run(3, status=1)]

    assert 4 == next_attempt(job, runs, Asked(granted=3))
    assert 0 == next_attempt(job, [*runs, run(4, status=1)], Asked(granted=3))


OK = StateCounts(completed=2)
BAD = StateCounts(completed=1, failed=1)
HALF = StateCounts(running=1, completed=1)
GOING_BAD = StateCounts(pending=1, cancelled=1)


@pytest.mark.parametrize(
    ("until", "counts", "state"),
    [
        ("ok", OK, "met"),
        ("ok", BAD, "never"),
        ("ok", GOING_BAD, "never"),
        ("ok", HALF, "waits"),
        ("ok", None, "never"),
        ("fail", OK, "never"),
        ("fail", BAD, "met"),
        ("fail", GOING_BAD, "waits"),
        ("any", OK, "met"),
        ("any", BAD, "met"),
        ("any", HALF, "waits"),
        ("any", None, "met"),
        ("begun", HALF, "met"),
        ("begun", GOING_BAD, "waits"),
        ("begun", None, "met"),
    ],
)
def test_a_dependency_is_met_or_waits_or_can_never_be_met(
    until: str, counts: StateCounts | None, state: str
) -> None:
    after = [Dependency(jobs=(1,), until=until)]  # type: ignore[arg-type]

    assert state == dependency_state(dependency_states(after, lambda _: counts))


def test_all_jobs_of_a_dependency_count() -> None:
    after = [Dependency(jobs=(1, 2)), Dependency(jobs=(3,), until="any")]

    assert "waits" == dependency_state(dependency_states(after, {1: OK, 2: HALF, 3: OK}.get))
    assert "never" == dependency_state(dependency_states(after, {1: HALF, 2: BAD, 3: OK}.get))
    assert "waits" == dependency_state(dependency_states(after, {1: OK, 2: OK, 3: HALF}.get))
    assert "met" == dependency_state(dependency_states(after, {1: OK, 2: OK, 3: BAD}.get))


def test_a_task_can_wait_for_the_task_of_the_same_number() -> None:
    after = [Dependency(jobs=(1,), until="each")]
    states: dict[int | None, State] = {0: "COMPLETED", 1: "FAILED", 2: "RUNNING"}

    def state(task: int | None) -> str:
        found = dependency_states(after, lambda _: HALF, lambda _: states.get, task)
        return dependency_state(found)

    assert ["met", "never", "waits", "never"] == [state(task) for task in range(4)]


@pytest.mark.parametrize(
    ("until", "found"),
    [
        ("ok", ["met", "never", "waits", "never"]), ("fail", ["never", "met", "waits", "never"]),
        ("any", ["met", "met", "waits", "met"]),
    ],
)  # fmt: skip
def test_a_job_can_wait_for_one_task(until: Until, found: list[str]) -> None:
    states: dict[int | None, State] = {0: "COMPLETED", 1: "FAILED", 2: "RUNNING"}
    for task, state in enumerate(found):
        after = [Dependency(jobs=(1,), until=until, task=task)]
        of = dependency_states(after, lambda _: HALF, lambda _: states.get)
        assert state == dependency_state(of)


def test_one_of_several_dependencies_may_be_enough() -> None:
    after = [Dependency(jobs=(1, 2)), Dependency(jobs=(3,), until="fail")]

    def state(*counts: StateCounts) -> str:
        tally = dict(enumerate(counts, 1)).get
        return dependency_state(dependency_states(after, tally), enough=True)

    assert "met" == state(OK, OK, HALF)
    assert "met" == state(BAD, OK, BAD)
    assert "waits" == state(OK, BAD, HALF)
    assert "waits" == state(OK, HALF, OK)
    assert "never" == state(OK, BAD, OK)


def test_a_delay_counts_from_the_begin() -> None:
    after = [Dependency(jobs=(1,), until="begun", delay=60.0)]

    def state(at: float | None, now: float) -> str:
        return dependency_state(
            dependency_states(after, lambda _: HALF, begun=lambda *_: at, now=now)
        )

    assert ["waits", "waits", "met"] == [state(None, 99), state(10.0, 69), state(10.0, 70)]


def test_a_job_has_the_worst_state_of_its_tasks() -> None:
    assert "RUNNING" == job_state(HALF)
    assert "PENDING" == job_state(GOING_BAD)
    assert "FAILED" == job_state(BAD)
    assert "COMPLETED" == job_state(OK)
    assert "TIMEOUT" == job_state(StateCounts(failed=1, timeout=1))
    assert Job is type(JOB)
