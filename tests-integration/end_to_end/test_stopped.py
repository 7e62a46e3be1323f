"""A node is lost while its processes go on: they come back, and what they bring is too late."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from end_to_end.place import send
from fake_batch.start import until

if TYPE_CHECKING:
    from end_to_end.holding import Holding


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
