"""The protocol under every fault, and the laws under every bug."""

from __future__ import annotations

import inspect
import json
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grain.head.scheduler.cluster import ClusterPool
from simulation.__main__ import main
from simulation.cast import Cast
from simulation.faults import BRIDGE_KINDS, KINDS, LANE_KINDS, LASTING_KINDS
from simulation.laws.laws import Broken
from simulation.mistakes.bugs import BUGS
from simulation.mistakes.found import ALWAYS, SEEDS, read, search
from simulation.mistakes.slips import SLIPS
from simulation.runs import Ran, run_many
from simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future


def run_seed(seed: int) -> tuple[str, set[str]]:
    """Run a seed; return the error if a law was broken, or an empty text, and the faults."""
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        said = f"seed {seed}: {error!r}; replay it with: nox -s simulate -- --seed {seed}"
        return said, set(world.faults.counts)
    return "", set(world.faults.counts)


def finds(seed: int, bug: str) -> bool:
    """Return True if a seed finds a bug."""
    return search(seed, bug) is not None


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, multiprocessing.get_context("forkserver"))


class Worlds:
    """Worlds that run in two processes, each once for all tests of this file."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._ran: dict[int, Future[tuple[str, set[str]]]] = {}

    def run(self, seeds: range) -> list[tuple[str, set[str]]]:
        """Return what `run_seed` returns of each seed."""
        for seed in seeds:
            if seed not in self._ran:
                self._ran[seed] = self._pool.submit(run_seed, seed)
        return [self._ran[seed].result() for seed in seeds]


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    with processes() as pool:
        yield Worlds(pool)


# Few in each, so that none takes a minute on a busy machine.
@pytest.mark.parametrize(
    "seeds",
    [
        *(range(first, first + 20) for first in range(0, ALWAYS, 20)),
        *(
            pytest.param(range(first, first + 20), marks=pytest.mark.nightly)
            for first in range(ALWAYS, SEEDS, 20)
        ),
    ],
    ids=str,
)
def test_every_law_holds_in_every_seed(seeds: range, worlds: Worlds) -> None:
    assert [] == [error for error, _ in worlds.run(seeds) if error]


def test_every_fault_occurs_in_the_first_seeds(worlds: Worlds) -> None:
    kinds = {*KINDS, *BRIDGE_KINDS, *LANE_KINDS, *LASTING_KINDS}
    assert kinds == set().union(*[faults for _, faults in worlds.run(range(ALWAYS))])


def test_pauses_that_begin_with_each_look_are_not_one_long_pause() -> None:
    """A worker of this world keeps too many outcomes again at each of four looks."""
    error, _ = run_seed(18174)

    assert "" == error


def test_a_turn_that_went_to_a_task_whose_earlier_run_is_reported_late_counts() -> None:
    """The outcomes of 13 tasks that came again; runs whose places urgent tasks have taken."""
    assert ["", "", ""] == [run_seed(seed)[0] for seed in (700642, 701067, 705135)]


def test_a_due_task_whose_worker_a_returned_run_has_taken_looks_for_another() -> None:
    assert ["", ""] == [run_seed(seed)[0] for seed in (702538, 702946)]


def test_a_task_waits_for_a_gang_that_was_revoked_for_an_older_run() -> None:
    """The older run comes to nothing while members of the gang are there."""
    error, _ = run_seed(1628)

    assert "" == error


def test_a_cancelled_task_is_over_whose_worker_was_taken_for_lost_and_then_died() -> None:
    assert ["", ""] == [run_seed(seed)[0] for seed in (1361, 1576)]


def test_a_turn_went_to_a_task_that_only_a_later_process_of_a_lasting_mission_cancelled() -> None:
    """It submits the task and retracts it in one message."""
    error, _ = run_seed(16056)

    assert "" == error


def test_the_worker_of_an_outcome_is_away_when_that_is_forgotten_as_no_process_wants_it() -> None:
    """A later process, with an old look at the files of its mission, submits the task again."""
    error, _ = run_seed(16821)

    assert "" == error


def test_an_outcome_counts_again_that_was_known_of_a_mission_given_up_since() -> None:
    error, _ = run_seed(9402796)

    assert "" == error


def test_a_job_that_dies_while_its_worker_hands_it_back_has_crashed() -> None:
    error, _ = run_seed(9410441)

    assert "" == error


def test_the_next_process_hears_who_cancelled_a_run_that_ends_late() -> None:
    error, _ = run_seed(9404406)

    assert "" == error


def test_a_run_is_refused_whose_task_was_cancelled_before_any_run_of_it_began() -> None:
    """One process of a lasting mission has heard of that; another submits it to a later head."""
    error, _ = run_seed(19486)

    assert "" == error


def test_a_task_whose_place_an_urgent_one_has_taken_was_done_elsewhere() -> None:
    """It leaves the queue without a start by the place that it had got for that."""
    error, _ = run_seed(19415)

    assert "" == error


def test_the_outcome_of_a_run_beside_another_is_kept_for_the_next_process() -> None:
    """It comes between two looks, of which the first forgets the outcome of the other run."""
    error, _ = run_seed(901991)

    assert "" == error


def misfits(bug: Cast) -> list[str]:
    """Return the methods of a bug that do not take what those in whose places they stand take."""
    pairs: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
        ("epoch", bug.epoch, Cast().epoch)
    ]
    classes = (bug.hub, bug.worker, bug.mission, bug.run_log, bug.fold, bug.lanes, bug.calls)
    for kind in (*classes, *bug.parts):
        pairs += [
            (name, method, getattr(kind.__base__, name))
            for name, method in vars(kind).items()
            if kind.__name__ == "Faulty" and inspect.isfunction(method)
        ]
    wrong = []
    for name, method, right in pairs:
        wanted = inspect.signature(right).parameters.values()
        named = {p.name: None for p in wanted if p.kind is p.KEYWORD_ONLY}
        places = [p for p in wanted if p.kind is p.POSITIONAL_OR_KEYWORD]
        least = sum(p.default is p.empty for p in places)
        try:
            for count in (least, len(places)):
                inspect.signature(method).bind(*[None] * count, **named)
        except TypeError as error:
            wrong.append(f"{name}: {error}")
    return wrong


def test_every_deliberate_bug_takes_what_the_product_takes_in_its_place() -> None:
    assert {} == {name: wrong for name, bug in BUGS.items() if (wrong := misfits(bug))}


def test_of_every_deliberate_bug_two_seeds_are_listed() -> None:
    listed = read()
    assert list(BUGS) == list(listed)
    assert len(listed) >= 200
    assert set() == {bug for bug, seeds in listed.items() if len({*seeds}) < 2}
    # Those of each night find it, too.
    assert set() == {bug for bug, seeds in listed.items() if min(seeds) >= SEEDS}


def test_mistakes_about_licences_are_found_by_the_worlds_that_are_run_with_every_change() -> None:
    found = {name: read()[name] for name, slip in SLIPS.items() if slip.kind is ClusterPool}

    assert len(found) == 8
    assert {} == {name: seeds for name, seeds in found.items() if max(seeds) >= ALWAYS}


@pytest.mark.parametrize(
    ("which", "part"),
    [
        pytest.param(which, part, marks=() if which == part == 0 else pytest.mark.nightly)
        for which in range(2)
        for part in range(6)
    ],
)
def test_every_deliberate_bug_is_found_by_each_of_its_two_seeds(which: int, part: int) -> None:
    """A sixth of the bugs every day, each by the seed that finds it sooner; all at night."""
    every = [(bug, seeds[min(which, len(seeds) - 1)]) for bug, seeds in read().items()]
    listed = dict(every[part::6])

    with processes() as pool:
        results = pool.map(finds, listed.values(), listed, chunksize=4)
        found = dict(zip(listed, results, strict=True))

    # Where another order of events has changed the stories, search the seeds again with:
    # nox -s simulate -- --bugs
    assert {} == {bug: seed for bug, seed in listed.items() if not found[bug]}


def test_the_same_seed_gives_the_same_story_to_the_last_run() -> None:
    def story(seed: int) -> list[str]:
        lines: list[str] = []
        world = World(seed, log=lines.append)
        laws = world.run()
        return [*lines, repr(sorted(laws.begun)), str(world.clock.steps)]

    assert story(7) == story(7)


def test_a_broken_law_is_reported_with_its_name_and_the_time() -> None:
    world = World(4, BUGS["a mission takes a second resolution"])

    with pytest.raises(Broken, match=r"a task resolves once \(at .* s\)"):
        world.run()


def test_the_command_runs_seeds_in_processes_and_replays_one() -> None:
    command = [sys.executable, "-m", "simulation"]
    here = Path(__file__).parent.parent
    many = subprocess.run(
        [*command, "--seeds", "2", "--first", "5", "--jobs", "2"],
        check=True,
        cwd=here,
        capture_output=True,
        text=True,
    )
    assert 2 == json.loads(many.stdout.splitlines()[-1])["seeds"]
    one = subprocess.run(
        [*command, "--seed", "5"], check=True, cwd=here, capture_output=True, text=True
    )
    assert "seed 5: every law holds" == one.stdout.splitlines()[-1]


def test_a_first_seed_that_the_command_draws_is_printed_to_repeat_the_run(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def firsts() -> tuple[str, int]:
        assert 0 == main(["--seeds", "0", "--first", "random", "--jobs", "1"])
        said, summary = capfd.readouterr().out.splitlines()
        return said, json.loads(summary)["first"]

    said, first = firsts()

    assert f"these seeds again: nox -s simulate -- --seeds 0 --first {first}" == said
    assert first != firsts()[1]


def broken_at_eight(seed: int) -> Ran:
    return Ran(seed, 10, {"cut": 2}, 0.5, "Broken: a law" if seed == 8 else "")


def test_a_long_run_ends_with_a_summary_as_a_json_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert 0 == run_many(3, 2, 1)
    good = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (3, 2, 0) == (good["first"], good["seeds"], good["broken"])
    assert good["runs"] > 0
    assert good["faults"]
    assert good["cpu_seconds"] > 0

    assert 1 == run_many(7, 3, 1, broken_at_eight)
    [named, summary] = capfd.readouterr().out.splitlines()
    assert "seed 8: Broken: a law" == named
    bad = {"first": 7, "seeds": 3, "broken": 1, "runs": 30, "faults": {"cut": 6}}
    assert {**bad, "cpu_seconds": 1.5} == json.loads(summary)
