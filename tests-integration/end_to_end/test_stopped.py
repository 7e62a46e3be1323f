"""A node is lost while its processes go on: they come back, and what they bring is too late."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from end_to_end.holding import Holding
from end_to_end.place import NODES, send
from fake_batch.start import until

if TYPE_CHECKING:
    from end_to_end.aside import Aside
    from end_to_end.place import Place


@pytest.mark.nightly
def test_runs_of_a_lost_node_run_again_and_late_results_are_dropped(place: Place) -> None:
    """Runs of the lost node run again elsewhere; a late result is dropped; the worker stays.

    Unless it is the first after all: a success is taken wherever it comes from. That the node is
    lost takes a minute of silence, so this is for the night; with a clock that leaps, each part is
    in the tests of channels (test_channel.py) and of the hub (test_hub_outcomes.py).
    """
    stopped = Holding(place, walltime="10:00:00")
    first, second = stopped.workers
    send(signal.SIGSTOP, *place.of_job(first))
    early, late = sorted(stopped.on(first))
    until(lambda: first not in place.workers())
    stopped.let_go(*((task, second) for task in stopped.on(second)))
    stopped.until_begun(6)
    stopped.let_go((early, second))
    until(lambda: place.workers()[second].running == 1)

    stopped.let_go((early, first), (late, first))
    send(signal.SIGCONT, *place.processes())
    results = stopped.results()
    until(lambda: place.serving() == stopped.workers)
    # What went on in vain is cancelled, which may take longer than the rest of the mission.
    until(lambda: all(worker.free == worker.total for worker in place.workers().values()))

    assert (second, first) == (results[early], results[late])
    assert [early, late] == stopped.repeated()
    assert 6 == len(stopped.begun())
    stopped.again()
    assert {first, second} == set(stopped.results().values())


def play_two_incarnations(aside: Aside) -> tuple[Holding, list[int], list[str]]:
    """See `test_two_incarnations`."""
    with aside.place("slurm", *NODES) as place:
        with aside.starting:
            holding = Holding(place, tasks=4, workers=1)
        [job], [worker] = holding.jobs, holding.workers
        old, batch = holding.on(worker), place.batch
        batch.out("fakectl", "crash", batch.out("squeue", "-h", "-o", "%N", "-j", job))
        batch.out("fakectl", "pass", "36")  # the node is lost
        batch.out("fakectl", "pass", "120")  # and its job, queued again, may start
        holding.until_begun(4)
        both = [one.name for one in place.state().workers]

        batch.out("fakectl", "revive", "n1")
        until(lambda: len(place.state().workers) == 1)
        holding.let_go()
        holding.results()
        return holding, old, both


@pytest.mark.aside(play=play_two_incarnations)
def test_a_requeued_job_and_its_old_processes_both_live(seen: Any) -> None:
    """Slurm lost a node and starts its job elsewhere, while the old processes go on there.

    They are two workers, of different names. A node of a real Slurm is not lost so easily.
    """
    holding, old, both = seen
    [worker] = holding.workers

    assert [worker, f"{worker}-r1"] == sorted(both)
    assert sorted(old) == holding.repeated()
