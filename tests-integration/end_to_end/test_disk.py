"""A full disk under the logs of a worker and of Gnaw, and a log that cannot be made."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from end_to_end.holding import Holding
from end_to_end.place import send
from fake_batch.start import until

from grain_testkit.small_disk import fill, small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from end_to_end.place import Place


@pytest.fixture
def small() -> Iterator[Path]:
    """A filesystem of its own, of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem needs root")
    with small_disk("256k") as folder:
        yield folder


def logs_at(folder: Path) -> str:
    """Have the logs written there."""
    return f"""
[head.gnaw]
idle_quit = "3m"
extra_args = ["--grace", "3"]
log_file = "{folder}/gnaw.log"
[worker]
log_file = "{folder}/w{{{{HHMMSS}}}}.log"
"""


def test_tasks_go_on_when_the_disk_of_the_logs_is_full(small: Path, place: Place) -> None:
    """Tasks go on, and all ends well; unlogged lines are reported when there is space."""
    filler = fill(small)
    holding = Holding(place, workers=1, tasks=2, more=logs_at(small))
    [worker] = holding.workers
    send(signal.SIGKILL, place.runner(worker))
    holding.until_begun(4)
    holding.let_go()
    results = holding.results()
    [gnaw], [log] = small.glob("gnaw.log"), small.glob("w*.log")
    silent = gnaw.read_bytes() + log.read_bytes()

    filler.unlink()
    holding.again()
    holding.results()
    send(signal.SIGTERM, place.agent(worker))
    until(lambda: place.batch.out("squeue", "-h", "-j", *holding.jobs) == "")

    assert {worker} == set(results.values())
    assert b"" == silent
    assert "log lines could not be written here: No space left on device\n" in gnaw.read_text()
    assert "log lines could not be written here: No space left on device\n" in log.read_text()
    assert "this worker has ended" in log.read_text()


def test_a_worker_that_could_not_log_ends_well(small: Path, place: Place) -> None:
    """A worker that could log nothing has ended well all the same."""
    fill(small)
    holding = Holding(place, workers=1, tasks=2, more=logs_at(small))
    holding.let_go()
    holding.results()

    send(signal.SIGTERM, place.agent(holding.workers[0]))
    [job] = holding.jobs
    until(lambda: place.batch.out("squeue", "-h", "-j", job) == "")

    states = place.batch.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job)
    assert "COMPLETED" == states


def test_log_that_cannot_be_made(place: Place) -> None:
    """The mission says that Gnaw goes without, and runs."""
    more = '[head.gnaw]\nidle_quit = "3m"\nlog_file = "/proc/nowhere/gnaw.log"\n'
    holding = Holding(place, workers=1, tasks=2, more=more)
    holding.let_go()
    holding.results()

    assert 1 == holding.mission.err.count("the scheduler goes without a log: ")
    assert "/proc/nowhere" in holding.mission.err
