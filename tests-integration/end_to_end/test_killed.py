"""Workers and the scheduler are killed amid runs: every task is resolved, and once."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from end_to_end.holding import GRACE, Holding
from end_to_end.place import BIN, Place, send
from fake_batch.start import until

if TYPE_CHECKING:
    from end_to_end.aside import Aside


def job_state(place: Place, job: str) -> str:
    """Return the batch system's state of a job, also after its end."""
    return place.batch.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job)


def test_a_worker_replaces_a_killed_runner(shared: Place) -> None:
    """The worker has another one at once, and goes on serving."""
    holding = Holding(shared)
    first = holding.workers[0]
    lost = sorted(holding.on(first))

    send(signal.SIGKILL, shared.runner(first))
    holding.until_begun(6)
    holding.let_go()
    results = holding.results()

    assert lost == holding.repeated() == sorted(t for t, where in results.items() if where == first)
    assert "ended by SIGKILL" in shared.log(first)
    assert holding.workers == shared.serving()


def test_runs_survive_a_killed_gnaw(shared: Place) -> None:
    """The mission starts another one, to which the workers come; no run begins again."""
    holding = Holding(shared)
    before = shared.gnaw()

    send(signal.SIGKILL, before)
    until(lambda: shared.serving() == holding.workers)
    holding.let_go()
    results = holding.results()

    assert before != shared.gnaw()
    assert [] == holding.repeated()
    assert dict(holding.begun()) == results


def test_a_cancelled_worker_hands_back_its_runs(shared: Place) -> None:
    """After scancel a worker hands back its runs, which go on elsewhere."""
    holding = Holding(shared)
    first, second = holding.workers

    shared.batch.out("scancel", holding.jobs[0])
    until(lambda: "this worker has ended" in shared.log(first))
    until(lambda: job_state(shared, holding.jobs[0]) == "CANCELLED")
    until(lambda: shared.serving() == [second])
    holding.let_go()
    results = holding.results()

    assert {second} == set(results.values())
    assert sorted(holding.on(first)) == holding.repeated()
    assert "SIGTERM received" in shared.log(first)


@pytest.mark.parametrize("both", [False, True], ids=["agent", "agent and runner"])
def test_runs_of_a_killed_worker_start_elsewhere_after_the_grace_period(
    shared: Place, both: bool
) -> None:
    """With SIGKILL, nothing of it is left, and its runs begin elsewhere after the grace period."""
    holding = Holding(shared)
    first, second = holding.workers
    pids = shared.of_job(first)

    send(signal.SIGKILL, shared.agent(first), *([shared.runner(first)] if both else []))
    until(lambda: not {*pids} & {*shared.processes()})
    until(lambda: job_state(shared, holding.jobs[0]) == "FAILED")
    holding.let_go(*((task, second) for task in holding.on(second)))
    holding.until_begun(6)
    holding.let_go()
    results = holding.results()

    assert {second} == set(results.values())
    assert sorted(holding.on(first)) == holding.repeated()
    assert [second] == shared.serving()


# A worker that believes to have longer than it has.
HURRIED = """
[worker.script]
setup_cleanup = ["PATH={folder}/bin:$PATH"]
"""
HURRIED_WORKER = """\
#!/bin/sh
exec {worker} --term-grace 600 "$@"
"""


def hurried(place: Place) -> str:
    """Have the place's workers take their time after SIGTERM; return the configuration for it."""
    path = place.folder / "bin/grain-worker"
    path.write_text(HURRIED_WORKER.format(worker=BIN / "grain-worker"))
    path.chmod(0o755)
    return HURRIED.format(folder=place.folder)


def play_walltime(aside: Aside, patient: bool) -> tuple[Holding, str, list[int], dict[int, str]]:
    """See `test_walltime`."""
    with aside.place("slurm", "--nodes=4", "--kill-wait=600", pace=0) as place:
        more = GRACE if patient else GRACE + hurried(place)
        with aside.starting:
            holding = Holding(place, tasks=3, workers=1, walltime="00:11:00", more=more)
        [first] = holding.workers
        one, other = holding.on(first)
        place.batch.out("fakectl", "pass", "510")
        until(lambda: "SIGUSR1 received" in place.log(first))
        holding.let_go((one, first))
        until(lambda: place.workers()[first].running == 1)
        holding.configure("01:00:00")
        place.up()
        second = str(place.records()[1]["name"])
        # Meanwhile the first has room, but takes nothing.
        until(lambda: holding.on(second))
        place.batch.out("fakectl", "pass", "150")
        until(lambda: "SIGTERM received" in place.log(first))
        if not patient:
            place.batch.out("fakectl", "pass", "600")
        until(lambda: job_state(place, holding.jobs[0]) == "TIMEOUT")
        until(lambda: other in holding.on(second))
        holding.let_go()
        return holding, second, [one, other], holding.results()


@pytest.mark.parametrize(
    "patient",
    [
        pytest.param(True, id="patient"),
        # Gnaw sees a killed worker, as in the tests above.
        pytest.param(False, id="hurried", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.aside(play=play_walltime)
def test_a_worker_drains_on_the_warning_and_hands_back_its_runs_at_the_end(
    patient: bool, seen: Any
) -> None:
    """Warned, a worker takes no more runs; ended, it hands back its runs, if there is time.

    Slurm's 11 minutes pass in leaps here. That a real Slurm does the same is in
    batch/test_contract.py.
    """
    holding, second, [one, other], results = seen
    [first], log = holding.workers, holding.place.log

    assert [one, other] == holding.on(first)
    assert [other] == holding.repeated()
    assert {one: first, other: second, 3 - one - other: second} == results
    assert "SIGTERM received" in log(first)
    assert patient == ("this worker has ended" in log(first))


def play_walltime_without_warning(aside: Aside) -> tuple[Holding, dict[int, str], str]:
    """See `test_walltime_without_warning`."""
    more = GRACE + '[worker.reserve]\nwalltime = "00:00:30"\n'
    with aside.place("pbs") as place:
        # 40 s for the tasks; for half of them it takes new ones.
        with aside.starting:
            holding = Holding(place, tasks=3, workers=1, walltime="00:01:10", more=more)
        [first] = holding.workers
        # The output comes to the user at the job's end only.
        spooled = Path(place.batch.env["FAKE_BATCH"], "spool", "0.OU")
        until(lambda: "taking no more runs: the job's end is near" in spooled.read_text())
        until(lambda: place.serving() == [])
        holding.let_go((holding.on(first)[0], first))
        holding.configure("01:00:00")
        place.up()
        second = str(place.records()[1]["name"])
        until(lambda: len(holding.on(second)) == 2)
        holding.let_go()
        results = holding.results()
        # It handed back its runs before it left, so the mission may be over first.
        until(lambda: "job_state = F" in place.batch.out("qstat", "-x", "-f", *holding.jobs))
        return holding, results, place.batch.out("qstat", "-x", "-f", *holding.jobs)


@pytest.mark.aside(play=play_walltime_without_warning)
def test_walltime_without_warning(seen: Any) -> None:
    """PBS sends no signal before the end: the worker counts, and is gone in time by itself."""
    holding, results, shown = seen
    [first] = holding.workers

    assert [first] == [results[holding.on(first)[0]]]
    assert [holding.on(first)[1]] == holding.repeated()
    assert "Exit_status = 0" in shown
    assert "taking no more runs: the job's end is near" in holding.place.log(first)
