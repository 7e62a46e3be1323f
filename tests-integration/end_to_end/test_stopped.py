"""A node is lost while its processes go on: they come back, and what they bring is too late."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from end_to_end.holding import Holding
from end_to_end.place import NODES, Place, send
from fake_batch.start import fake, until

if TYPE_CHECKING:
    from pathlib import Path


def test_node_lost(stopped: Holding) -> None:
    """What ran there runs again elsewhere; what comes too late is dropped; the worker stays.

    Unless it is the first after all: a success is taken wherever it comes from.
    """
    place, (first, second) = stopped.place, stopped.workers
    early, late = sorted(stopped.on(first))
    until(lambda: first not in place.workers(), 90)
    stopped.let_go(*((task, second) for task in stopped.on(second)))
    stopped.until_begun(6)
    stopped.let_go((early, second))
    until(lambda: place.workers()[second]["running"] == 1)

    stopped.let_go((early, first), (late, first))
    send(signal.SIGCONT, *place.processes())
    results = stopped.results()
    until(lambda: place.serving() == stopped.workers, 60)
    workers = place.workers()

    assert (second, first) == (results[early], results[late])
    assert [early, late] == stopped.repeated()
    assert 6 == len(stopped.begun())
    assert all(worker["free"] == worker["total"] for worker in workers.values())
    stopped.again()
    assert {first, second} == set(stopped.results().values())


def test_two_incarnations(tmp_path: Path) -> None:
    """Slurm lost a node and starts its job elsewhere, while the old processes go on there.

    Both have the same name, and are two workers. A node of a real Slurm is not lost so easily.
    """
    with fake("slurm", tmp_path / "slurm", *NODES, "--kill-wait=300", pace=60) as batch:
        place = Place(batch, tmp_path / "place")
        try:
            holding = Holding(place, tasks=4, workers=1)
            [job], [worker] = holding.jobs, holding.workers
            old = holding.on(worker)
            batch.out("fakectl", "crash", batch.out("squeue", "-h", "-o", "%N", "-j", job))
            holding.until_begun(4)
            both = [one["name"] for one in place.state()["workers"]]

            batch.out("fakectl", "revive", "n1")
            until(lambda: len(place.state()["workers"]) == 1, 60)
            holding.let_go()
            holding.results()
        finally:
            place.close()

    assert [worker, worker] == both
    assert sorted(old) == holding.repeated()
