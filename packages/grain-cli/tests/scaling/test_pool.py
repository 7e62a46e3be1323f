"""Keeping workers alive: laws, in whatever way jobs wait, fail, are lost and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from grain.cli.batch import JobPhase, JobState
from grain.cli.scaling.pool import PAUSES, PROVEN, UNLISTED, JobPool, proven_after

if TYPE_CHECKING:
    from collections.abc import Iterator

PENDING, RUNNING, ENDING = (
    JobState(JobPhase.PENDING),
    JobState(JobPhase.RUNNING),
    JobState(JobPhase.ENDING),
)
GONE, UNKNOWN = JobState(JobPhase.GONE), JobState(JobPhase.UNKNOWN)
STUCK = JobState(JobPhase.STUCK, "PartitionTimeLimit")


class World:
    """A pool, a clock, and a batch system of which the test decides everything."""

    def __init__(self, size: int, proven_after: float = PROVEN) -> None:
        self.pool = JobPool(size, proven_after)
        self.now = 1000.0
        self.states: dict[str, JobState] = {}
        self.count = 0

    def look(self, seconds: float = 10.0) -> list[str]:
        self.now += seconds
        asked = {one: self.states[one] for one in self.pool.jobs}
        return self.pool.look(asked, self.now)

    def submit(self, state: JobState = PENDING) -> list[str]:
        """Submit what is wanted."""
        ids = [str(self.count + one) for one in range(self.pool.wanted(self.now))]
        self.count += len(ids)
        self.states.update(dict.fromkeys(ids, state))
        self.pool.submitted(ids, self.now)
        return ids

    def change(self, which: int, state: JobState) -> None:
        """Set the state of a job that is left."""
        left = [one for one, at in self.states.items() if at.phase is not JobPhase.GONE]
        if left:
            self.states[left[which % len(left)]] = state

    @property
    def alive(self) -> int:
        return sum(state.phase is not JobPhase.GONE for state in self.states.values())


Fates = list[tuple[float, list[tuple[int, JobState]], bool]]
FATES = st.lists(
    st.tuples(
        st.floats(0.1, 100.0),
        st.lists(
            st.tuples(
                st.integers(0, 9), st.sampled_from([PENDING, STUCK, RUNNING, ENDING, GONE, UNKNOWN])
            ),
            max_size=6,
        ),
        st.booleans(),
    ),
    max_size=40,
)


def worlds(size: int, fates: Fates) -> Iterator[World]:
    """Yield a world after each of its fates."""
    world = World(size)
    for seconds, changes, refused in fates:
        for which, state in changes:
            world.change(which, state)
        world.look(seconds)
        if refused:
            world.pool.refused(world.now)
        world.submit()
        yield world


@given(size=st.integers(1, 6), fates=FATES)
@settings(deadline=None)
def test_never_more_than_asked_for(size: int, fates: Fates) -> None:
    """Those that wait, that end, and of which nothing is known are counted."""
    for world in worlds(size, fates):
        assert world.alive <= size
        assert len(world.pool.jobs) <= size


@given(size=st.integers(1, 6), fates=FATES)
@settings(deadline=None)
def test_as_many_jobs_as_asked_for_run_in_the_end(size: int, fates: Fates) -> None:
    """As soon as jobs run again, the pool has the number asked for, whatever the past."""
    *_, world = World(size), *worlds(size, fates)
    for one, state in world.states.items():
        world.states[one] = GONE if state.phase is JobPhase.GONE else RUNNING
    for _ in range(10):
        world.look(PAUSES[1])
        world.submit(RUNNING)

    assert size == len(world.pool.jobs) == world.alive


def test_all_at_once_to_begin_with() -> None:
    """As one array."""
    world = World(5)

    assert 5 == len(world.submit())
    assert [] == world.submit()


def test_those_that_ended_are_replaced() -> None:
    """Jobs that have worked are replaced at once."""
    world = World(3)
    world.submit(RUNNING)
    world.look()
    world.look(PROVEN)
    world.states["0"] = world.states["1"] = GONE

    assert [] == world.look() + world.submit() + world.look()
    assert ["3", "4"] == world.submit()


def test_a_job_whose_worker_leaves_has_its_successor_before_it_ends() -> None:
    """One, and no second one when it has ended."""
    world = World(2)
    world.submit(RUNNING)
    world.look()
    world.look(PROVEN)

    world.pool.look_at_workers({"0": False, "1": True})
    assert ["2"] == world.submit()
    assert [] == world.submit()
    world.pool.look_at_workers({"1": True, "2": True})  # it has left; its job ends soon
    assert [] == world.submit()
    world.states["0"] = GONE
    world.look()
    world.look()
    assert ["1", "2"] == world.pool.jobs
    assert [] == world.submit()


def test_a_job_that_ended_when_its_worker_left_is_replaced_at_the_first_look() -> None:
    """A worker that is idle when it drains leaves between two looks."""
    world = World(2)
    world.submit(RUNNING)
    world.pool.look_at_workers({"0": True, "1": True})
    world.look(PROVEN)
    world.states["0"] = world.states["1"] = GONE
    world.look()
    # The worker of the other one is away, as its node may be lost: the job may come back.
    world.pool.look_at_workers({"1": True})

    assert ["2"] == world.submit()


def test_a_job_that_is_started_again_counts_again() -> None:
    world = World(1)
    world.submit(RUNNING)
    world.look()
    world.pool.look_at_workers({"0": False})
    world.states["0"] = PENDING
    world.look()
    world.pool.look_at_workers({})

    assert [] == world.submit()


def test_a_short_job_that_ends_in_good_order_has_not_failed() -> None:
    """Its worker takes no more tasks after half of its time, which may be less than `PROVEN`."""
    world = World(1, proven_after(120.0))
    world.submit(RUNNING)
    for seconds in (1.0, 55.0):
        world.look(seconds)
    world.states["0"] = GONE
    assert [] == world.look(3.0) + world.look(15.0)
    assert ["1"] == world.submit(RUNNING)
    world.look(1.0)
    world.states["1"] = GONE
    assert ["1"] == world.look(20.0) + world.look(1.0)


def test_the_longer_a_job_the_longer_it_has_to_run_until_it_is_proven_up_to_a_minute() -> None:
    assert [1.0, 30.0, 60.0, 60.0, 60.0] == [
        proven_after(seconds) for seconds in (4.0, 120.0, 240.0, float("inf"), None)
    ]


def test_after_a_failure_one_is_tried() -> None:
    """The pause doubles, up to the longest; the others follow when one has proven itself."""
    world = World(4)
    world.submit(RUNNING)
    world.look(1.0)
    pauses = []
    for _ in range(9):
        for one in world.pool.jobs:
            world.states[one] = GONE
        assert world.look(UNLISTED) + world.look()
        pauses.append(world.pool.pause(world.now))
        assert [] == world.submit()
        world.now += pauses[-1]
        [_] = world.submit(RUNNING)
        world.look(1.0)
        assert [] == world.submit()
    assert [30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1800.0, 1800.0, 1800.0] == pauses

    world.look(PROVEN)
    assert 0 == world.pool.failures
    assert 3 == len(world.submit())


def test_a_new_job_need_not_be_listed_at_once() -> None:
    """A batch system that has not noticed it yet does not make us submit another one."""
    world = World(1)
    world.submit(GONE)

    assert [] == world.look(UNLISTED - 1)
    assert ["0"] == world.pool.jobs
    assert ["0"] == world.look(2) + world.look(2)


def test_a_job_that_is_queued_again_has_not_failed() -> None:
    """As Slurm does when a node is lost: it has yet to prove itself, and counts."""
    world = World(1)
    world.submit(RUNNING)
    world.look()
    world.states["0"] = GONE  # for a moment
    world.look()
    world.states["0"] = PENDING
    world.look(1000)
    world.states["0"] = GONE
    world.look()

    assert (["0"], 0) == (world.pool.jobs, world.pool.failures)


def test_jobs_that_fail_one_by_one_have_failed_once() -> None:
    """A failure of a job from before the pause restarts the pause, but does not lengthen it."""
    world = World(4)
    world.submit(RUNNING)
    world.look(1.0)
    for one in ("0", "1", "2", "3"):
        world.states[one] = GONE
        assert [one] == world.look(5.0) + world.look(5.0)
        assert (1, 30.0) == (world.pool.failures, world.pool.pause(world.now))

    world.now += 30.0
    [one] = world.submit(GONE)
    assert [one] == world.look(UNLISTED) + world.look()
    assert (2, 60.0) == (world.pool.failures, world.pool.pause(world.now))


def test_a_job_that_never_starts_is_one_failure_and_counts_until_it_is_gone() -> None:
    """It is to be cancelled; no other takes its place before, and there is a pause."""
    world = World(1)
    [one] = world.submit()
    world.states[one] = STUCK

    assert [one] == world.look()
    assert [one] == world.pool.stuck
    assert [] == world.look()
    assert (1, []) == (world.pool.failures, world.submit())
    world.states[one] = GONE
    assert [] == world.look()
    assert ([], []) == (world.pool.stuck, world.pool.jobs)
    assert 0 < world.pool.pause(world.now) <= PAUSES[0]
    world.now += PAUSES[0]
    assert 1 == len(world.submit())


def test_a_job_that_is_stuck_no_more_is_not_cancelled() -> None:
    world = World(1)
    [one] = world.submit(STUCK)
    world.look()
    world.states[one] = RUNNING
    world.look()

    assert [] == world.pool.stuck
