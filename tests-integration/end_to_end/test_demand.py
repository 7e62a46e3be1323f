"""Workers by demand: Gnaw submits them when tasks wait, and takes them away again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from end_to_end.place import Place
from fake_batch.start import Batch, until

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
system = "local"
[script]
cores = 1
memory = 1
walltime = "00:30:00"
[head.gnaw]
pool = "auto"
idle_timeout = "5s"
log_file = "/proc/nowhere/gnaw.log"
"""
PROGRAM = """\
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def double(number):
    return 2 * number

async def main():
    for value in [(double @ Cores(1))(number) for number in range(4)]:
        print(await value)

run(main)
"""


def test_a_mission_without_workers_gets_one_of_gnaw_and_nothing_stays(tmp_path: Path) -> None:
    """The one has no log here, as it cannot make any: the mission says so, and runs."""
    place = Place(Batch("local", dict(os.environ)), tmp_path / "place")
    try:
        place.configure(CONFIG)
        mission = place.start(PROGRAM)
        printed = mission.wait()
        [record] = place.records()
        until(lambda: not place.processes())
    finally:
        place.close()

    assert "0\n2\n4\n6\n" == printed
    assert "No workers are there yet" in mission.err
    assert "4 done" in mission.err
    assert 1 == mission.err.count("the scheduler goes without a log: ")
    assert "/proc/nowhere" in mission.err
    assert ("local", "worker", "gnaw") == (record["system"], record["kind"], record["by"])
