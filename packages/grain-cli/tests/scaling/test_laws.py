"""The bounds of `grain scale --auto`, whatever comes, waits, fails, is lost, or has no answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from grain.cli.batch import JobPhase
from grain.cli.scaling.model import WorkerShape
from grain.cli.scaling.scaler import Scaler
from grain.resource import Cores
from grain_testkit.virtual_cluster import STEP, VirtualCluster

SMALL = WorkerShape("small", Cores(4), seconds=3600.0)
LARGE = WorkerShape("large", Cores(16), seconds=4 * 3600.0)
IMPOSSIBLE = 64


@dataclass
class Chapter:
    """What happens next: tasks that come, and how things go for some steps."""

    steps: int
    tasks: int
    cores: int
    seconds: float
    queue: float
    fails: bool
    lost: int | None
    answers: bool
    scheduler: bool
    doubt: str


CHAPTERS = st.lists(
    st.builds(
        Chapter,
        steps=st.sampled_from([1, 3, 20, 60, 150]),
        tasks=st.sampled_from([0, 0, 1, 10, 100]),
        cores=st.sampled_from([1, 3, 4, 12, IMPOSSIBLE]),
        seconds=st.sampled_from([1.0, 60.0, 900.0, 7200.0]),
        queue=st.sampled_from([0.0, 60.0, 2400.0]),
        fails=st.sampled_from([False, False, False, True]),
        lost=st.none() | st.integers(0, 9),
        answers=st.sampled_from([True, True, True, False]),
        scheduler=st.sampled_from([True, True, True, False]),
        doubt=st.sampled_from(["", "", "", "there", "absent"]),
    ),
    min_size=1,
    max_size=8,
)
# A submission without an answer, which came to nothing, while workers of the least are idle.
IN_DOUBT = [
    Chapter(1, 0, 1, 1.0, 0.0, False, None, True, True, ""),
    Chapter(60, 1, 12, 1.0, 0.0, False, None, True, True, "absent"),
]
# Both workers of the least reach their walltime just before the last look at rest.
END_TOGETHER = [Chapter(1, 0, 1, 1.0, 2400.0, False, None, True, True, "")]
LIMITS = st.sampled_from([(0, 1), (0, 4), (2, 4), (1, 10)])


def lived(limits: tuple[int, int], chapters: list[Chapter]) -> VirtualCluster:
    """Live through chapters; the laws that hold at every moment are checked on the way."""
    least, most = limits
    scaler = Scaler([SMALL, LARGE], least=least, most=most)
    world = VirtualCluster(scaler, [SMALL, LARGE], lambda: 0.0)
    lost = 0
    for chapter in chapters:
        world.delay = lambda chapter=chapter: chapter.queue  # type: ignore[misc]
        world.fails = lambda chapter=chapter: chapter.fails  # type: ignore[misc]
        world.doubt = lambda chapter=chapter: chapter.doubt  # type: ignore[misc]
        for _ in range(chapter.tasks):
            world.submit(chapter.cores, chapter.seconds)
        if chapter.lost is not None and world.running:
            world.running[chapter.lost % len(world.running)].lost = True
            lost += 1
        for _ in range(chapter.steps):
            before = [job for job in world.alive if not (job.draining or job.cancelled)]
            decision = world.step(answers=chapter.answers, scheduler=chapter.scheduler)
            going = [one for one in decision.cancel if "nothing has needed it" in one.why]
            if going or decision.release:
                # Workers end by themselves in a step, but are not let go below the least.
                assert len(going) + len(decision.release) <= len(before) - least
            assert len(world.alive) <= most * 2
            # One that takes no more tasks has its successor before it ends.
            serving = [job for job in world.alive if not job.draining]
            assert len(serving) <= most * (2 if lost else 1)
            hours = world.now / 3600
            others = world.failures + world.walltimes + lost
            assert len(world.submissions) <= most * (6 + 3.5 * hours) + others
    # Those that there always are may be idle; so may one while no scheduler answers.
    if not least and all(chapter.answers and chapter.scheduler for chapter in chapters):
        assert world.longest_idle <= 1800 + 2 * STEP
    return world


@settings(max_examples=25, deadline=None)
@given(LIMITS, CHAPTERS)
@example((2, 4), IN_DOUBT)
@example((2, 4), END_TOGETHER)
def test_the_bounds_hold_and_it_rests_when_demand_rests(
    limits: tuple[int, int], chapters: list[Chapter]
) -> None:
    world = lived(limits, chapters)
    # Everything that can run has been done; then nothing is wanted but the least.
    world.waiting = {IMPOSSIBLE: world.waiting.get(IMPOSSIBLE, deque())}
    for job in world.running:
        job.tasks = []
        if job.lost:  # the batch system has ended it at last
            job.phase = JobPhase.GONE
    world.delay, world.fails, world.doubt = (lambda: 0.0), (lambda: False), (lambda: "")
    for _ in range(400):
        world.step()
    before = len(world.submissions)
    walltimes = world.walltimes
    for _ in range(100):
        world.step()

    assert len(world.alive) <= max(limits[0], 0) + sum(job.draining for job in world.alive)
    # A worker that ended just before the count began is replaced after it, if it is of the least.
    late = max(1, limits[0])
    assert len(world.submissions) - before <= world.walltimes - walltimes + late


@settings(max_examples=15, deadline=None)
@given(LIMITS, CHAPTERS)
def test_tasks_that_can_run_have_a_worker_asked_for_within_a_step(
    limits: tuple[int, int], chapters: list[Chapter]
) -> None:
    for chapter in chapters:
        chapter.answers = chapter.scheduler = True
        chapter.fails, chapter.lost, chapter.doubt = False, None, ""
    world = lived(limits, chapters)
    for cores in (1, 3, 4, 12):
        if not world.waiting.get(cores):
            continue
        world.step()
        fit = [job for job in world.alive if world.shapes[job.shape].cores >= cores]
        due = [job for job in fit if not job.draining]
        assert due or len(world.alive) >= limits[1] or not world.waiting.get(cores)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 1000), st.sampled_from([60.0, 7200.0]))
def test_nothing_is_ever_submitted_for_tasks_that_fit_no_worker(count: int, seconds: float) -> None:
    world = VirtualCluster(Scaler([SMALL, LARGE], most=10), [SMALL, LARGE], lambda: 0.0)
    for _ in range(count):
        world.submit(IMPOSSIBLE, seconds)
    for _ in range(10):
        world.step()

    assert [] == world.submissions
    [one] = world.scaler.impossible
    assert ("Cores(64)", count, {"small", "large"}) == (one.ask, one.waiting, set(one.reasons))


def test_failures_are_followed_by_pauses() -> None:
    """Four jobs fail at first, and then one at a time, after pauses that double."""
    world = VirtualCluster(Scaler([LARGE], most=10), [LARGE], lambda: 0.0, fails=lambda: True)
    for _ in range(100):
        world.submit(4, 600.0)
    for _ in range(int(3600 / STEP)):
        world.step()

    assert 4 <= len(world.submissions) <= 4 + 7
    assert any("failed on n1, which is avoided" in reason for reason in world.reasons)
