"""Workers of `grain up` own the resources that their job really has, as the user allows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from end_to_end.place import MARK, NODES, Place
from fake_batch.start import fake, until

from grain.resource import Cores, from_data

if TYPE_CHECKING:
    from pathlib import Path

    from grain.facts.rows import Worker

CONFIG = """\
system = "{system}"
[script]
cores = {cores}
memory = 2
walltime = "00:20:00"
setup_cleanup = ["export {mark}={folder}"]
[worker]
name = "w{cores}"
log_file = "w{cores}.log"
[worker.reserve]
walltime = "00:02:00"
[head.gnaw]
idle_timeout = "3m"
[worker.res]
Token = {{ token = "licence" }}
"""

# Gnaw is there when a mission was.
PROGRAM = """\
from grain.delayed import delayed, run
from grain.resource import Cores, Memory, Token

@delayed
async def offer():
    from grain import GVAR
    return str(GVAR.res)

async def main():
    print(await (offer @ (Cores(1) & Memory(1.5) & Token("licence")))())

run(main)
"""


def workers(place: Place) -> tuple[Worker, Worker]:
    """A worker of one core and one of all that a node claims to have, as Gnaw reports them."""
    mission = place.start(PROGRAM)
    for cores in (1, 16):
        place.configure(
            CONFIG.format(system=place.batch.system, cores=cores, mark=MARK, folder=place.folder)
        )
        place.up()
    assert "Memory(1.5GB)" in mission.wait()
    until(lambda: len(place.serving()) == 2)
    results = place.workers()
    return results["w1"], results["w16"]


def check(one: Worker, all_of_them: Worker, spent: float) -> None:
    usable = sorted(os.sched_getaffinity(0))[:16]
    results = [from_data({"Cores": worker.total["Cores"]}) for worker in (one, all_of_them)]
    assert results[0] in [Cores([cpu]) for cpu in usable]
    assert results[1] == Cores(usable)
    for worker in (one, all_of_them):
        assert 1.5 == worker.total["Memory"]
        assert "Token" in worker.total
        assert worker.left is not None
        # The script counts in whole seconds.
        assert 18 * 60 - spent - 1 < worker.left <= 18 * 60


def test_a_worker_owns_the_jobs_cpus_less_the_reserve(place: Place) -> None:
    """The worker owns the CPUs of its job; a part of memory and walltime is reserved."""
    began = time.monotonic()
    results = workers(place)
    check(*results, time.monotonic() - began)

    few = len(os.sched_getaffinity(0)) < 16
    assert few == ("16 CPUs were asked for, and this process may use" in place.log("w16"))
    assert "were asked for" not in place.log("w1")


def test_resources_on_pbs(tmp_path: Path) -> None:
    """The same holds, though PBS gives its jobs neither their memory nor their end."""
    with fake("pbs", tmp_path / "pbs", *NODES) as batch:
        place = Place(batch, tmp_path / "place")
        try:
            began = time.monotonic()
            results = workers(place)
            check(*results, time.monotonic() - began)
        finally:
            place.close()
