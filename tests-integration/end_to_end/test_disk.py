"""A full disk under the logs of a worker and of Gnaw."""

from __future__ import annotations

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
    with small_disk("256k") as folder:
        yield folder


def logs_at(folder: Path) -> str:
    """Have the logs written there."""
    return f"""
[head.gnaw]
idle_timeout = "3m"
extra_args = ["--grace", "3"]
log_file = "{folder}/gnaw.log"
[worker]
log_file = "{folder}/w{{{{HHMMSS}}}}.log"
"""


def test_tasks_go_on_when_the_disk_of_the_logs_is_full(small: Path, place: Place) -> None:
    """Tasks go on, and all ends well; unlogged lines are reported when there is space.

    A worker that could log nothing has ended well all the same.
    """
    filler = fill(small)
    holding = Holding(place, workers=2, tasks=4, more=logs_at(small))
    worker, silenced = holding.workers
    job, over = holding.jobs
    send(signal.SIGKILL, place.runner(worker))
    holding.until_begun(6)
    holding.let_go()
    results = holding.results()
    send(signal.SIGTERM, place.agent(silenced))
    until(lambda: place.batch.out("squeue", "-h", "-j", over) == "")
    states = place.batch.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", over)
    logs = {path.name: path for path in small.glob("w*.log")}
    [gnaw], log = small.glob("gnaw.log"), logs[f"{worker}.log"]
    silent = b"".join(path.read_bytes() for path in (gnaw, *logs.values()))

    filler.unlink()
    until(lambda: place.serving() == [worker])
    holding = Holding(place, workers=1, tasks=2, more=logs_at(small))
    holding.let_go()
    holding.results()
    send(signal.SIGTERM, place.agent(worker))
    until(lambda: place.batch.out("squeue", "-h", "-j", job) == "")

    assert {worker, silenced} == set(results.values())
    assert "COMPLETED" == states
    assert b"" == silent
    assert "log lines could not be written here: No space left on device\n" in gnaw.read_text()
    assert "log lines could not be written here: No space left on device\n" in log.read_text()
    assert "this worker has ended" in log.read_text()
