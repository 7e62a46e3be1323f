"""The behaviour of PBS that Grain relies on.

There is no real PBS to compare with where tests run: the texts and exit codes are those of an
OpenPBS 23.06 server, those of arrays and qrerun come from its sources and manuals.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, fake, until

if TYPE_CHECKING:
    from pathlib import Path


def states(pbs: Batch, *words: str) -> dict[str, str]:
    """Letters by id."""
    jobs = json.loads(pbs.out("qstat", "-f", "-F", "json", *words))["Jobs"]
    return {name: fields["job_state"] for name, fields in jobs.items()}


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["qsub", "-J", "3"], 2),
        (["qsub", "-J", "3-3"], 2),
        (["qsub", "-J", "0-1,3"], 2),
        (["qsub", "-J", "0-1", "-r", "n"], 2),
        (["qsub", "-J", "0-1", "-o", "out"], 2),
        (["qsub", "-l", "place=pack"], 2),
        (["qsub", "-l", "frob=2"], 170),
        (["qstat", "-Q"], 2),
        (["qstat", "0[0-1]"], 1),
        (["qdel", "-W", "force"], 2),
        (["qrerun", "-W", "force", "0"], 2),
    ],
)
def test_pbs_refuses_what_it_does_not_know(
    pbs: Batch, tmp_path: Path, words: list[str], code: int
) -> None:
    """Or what PBS itself refuses, as an array of one job, or one that must not run twice."""
    done = pbs.run(*words, cwd=tmp_path, stdin="#!/bin/sh\n")

    assert code == done.returncode
    assert "" != done.stderr


def test_a_pbs_job_starts_at_home_and_its_output_comes_at_its_end(
    pbs: Batch, tmp_path: Path
) -> None:
    """Ids begin with 0; a job starts at home, as if after a login; its output comes at its end."""
    script = (
        "#!/bin/false\n#PBS -o out -N test\n"
        "pwd; echo $PBS_O_WORKDIR $PBS_JOBID $NCPUS ${SECRET-unset}\n"
        "until [ -e go ]; do sleep 0.05; done\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    done = pbs.run("qsub", cwd=tmp_path, stdin=script, HOME=str(home), SECRET="x")
    until(lambda: "unset" in text(tmp_path / "pbs/spool/0.OU"))
    spooled = not (tmp_path / "out").exists()
    (home / "go").touch()
    until((tmp_path / "out").exists)

    assert "0.pbs\n" == done.stdout
    assert spooled
    assert f"{home}\n{tmp_path} 0.pbs 1 unset\n" == (tmp_path / "out").read_text()


def test_pbs_states_and_errors(pbs: Batch, tmp_path: Path) -> None:
    """Running, finished and unknown jobs, in text and as JSON, with the exit codes of each."""
    words = ["qsub", "-l", "select=1:ncpus=2:mem=200mb", "-l", "walltime=00:05:00"]
    job = pbs.out(*words, cwd=tmp_path, stdin="#!/bin/sh\nsleep 300\n")
    until(lambda: "job_state = R" in pbs.out("qstat", "-f", job))
    jobs = json.loads(pbs.out("qstat", "-f", "-F", "json", job))["Jobs"][job]
    deleted = pbs.run("qdel", job)
    until(lambda: pbs.run("qstat", job).returncode)
    finished, again = pbs.run("qstat", job), pbs.run("qdel", job)
    unknown = pbs.run("qstat", "999")

    assert ("R", "n1/0*2") == (jobs["job_state"], jobs["exec_host"])
    assert {"mem": "200mb", "ncpus": 2, "walltime": "00:05:00", "nodect": 1} == jobs[
        "Resource_List"
    ]
    assert (0, "") == (deleted.returncode, deleted.stderr)
    text = "Job has finished, use -x or -H to obtain historical job information"
    assert (35, f"qstat: {job} {text}\n") == (finished.returncode, finished.stderr)
    assert (35, f"qdel: {job} {text}\n") == (again.returncode, again.stderr)
    assert (153, "qstat: Unknown Job Id 999.pbs\n") == (unknown.returncode, unknown.stderr)
    assert "job_state = F" in pbs.out("qstat", "-x", "-f", job)


def test_a_pbs_job_is_killed_two_seconds_after_its_walltime(tmp_path: Path) -> None:
    """The job is gone 2 s after its SIGTERM, and its output says why."""
    script = (
        "#!/bin/bash\n#PBS -l walltime=20 -o out\ntrap 'echo TERM' TERM; echo begun\n"
        "while :; do sleep 0.1; done\n"
    )
    spooled = tmp_path / "p/spool/0.OU"
    with fake("pbs", tmp_path / "p", pace=0) as pbs:
        job = pbs.out("qsub", cwd=tmp_path, stdin=script)
        until(lambda: "begun" in text(spooled))
        pbs.out("fakectl", "pass", "19")
        goes_on = states(pbs)[job]
        pbs.out("fakectl", "pass", "6")
        until(lambda: "TERM" in text(spooled))
        pbs.out("fakectl", "pass", "1")
        warned = states(pbs)[job]
        pbs.out("fakectl", "pass", "1")
        until((tmp_path / "out").exists)
        shown = pbs.out("qstat", "-x", "-f", job)

    output = (tmp_path / "out").read_text()
    assert ("R", "E") == (goes_on, warned)
    assert "=>> PBS: job killed: walltime 25 exceeded limit 20\n" in output
    assert "Exit_status = -29" in shown


def test_pbs_signal_reaches_all(pbs: Batch, tmp_path: Path) -> None:
    """The shell too, which dies of it."""
    job = pbs.out("qsub", "-o", "out", cwd=tmp_path, stdin="#!/bin/sh\nsleep 300\n")
    until(lambda: "job_state = R" in pbs.out("qstat", "-f", job))

    pbs.out("qsig", "-s", "USR1", job)
    until((tmp_path / "out").exists)

    assert f"Exit_status = {256 + signal.SIGUSR1}" in pbs.out("qstat", "-x", "-f", job)


def test_subjobs_have_an_index_and_an_output_each(pbs: Batch, tmp_path: Path) -> None:
    """One id with brackets, subjobs with their index in it, an output for each."""
    script = "#!/bin/sh\necho $PBS_ARRAY_ID $PBS_ARRAY_INDEX $PBS_JOBID\n[ -e go ] || sleep 300\n"
    cores = ["-l", "select=1:ncpus=4"]

    job = pbs.out("qsub", "-N", "a", "-J", "1-7:2", *cores, cwd=tmp_path, stdin=script)
    until(lambda: states(pbs, "-t", job)["0[5].pbs"] == "R")
    until(lambda: text(tmp_path / "pbs/spool/0[5].OU").endswith("\n"))  # its shell has begun
    begun = states(pbs, "-t", job)
    listed = states(pbs)
    shown = pbs.out("qstat", "-f", job)
    pbs.out("qdel", "0[1].pbs")
    until(lambda: states(pbs, "0[1]") == {"0[1].pbs": "X"})
    again = pbs.run("qdel", "0[1]")
    pbs.out("qdel", "0[]")
    until(lambda: pbs.run("qstat", job).returncode)

    subjobs = [f"0[{index}].pbs" for index in (1, 3, 5, 7)]
    assert "0[].pbs" == job
    assert {"0[].pbs": "B", **dict(zip(subjobs, "RRRQ", strict=True))} == begun
    assert {"0[].pbs": "B"} == listed
    assert "array_state_count = Queued:1 Running:3 Exiting:0 Expired:0" in shown
    assert "array_indices_submitted = 1-7:2" in shown
    assert (55, "qdel: Request invalid for finished array subjob 0[1].pbs\n") == (
        again.returncode,
        again.stderr,
    )
    assert dict.fromkeys(["0[].pbs", *subjobs], "F") == states(pbs, "-x", "-t", job)
    assert 35 == pbs.run("qdel", job).returncode
    until(lambda: text(tmp_path / "a.o0.5"))
    assert "0[].pbs 5 0[5].pbs\n" == text(tmp_path / "a.o0.5")


def test_a_throttled_array_runs_one_subjob_at_a_time(pbs: Batch, tmp_path: Path) -> None:
    """One subjob of 1-3%1 runs at a time; a plain job with the array's number does not exist."""
    pbs.out("qsub", "-J", "1-3%1", cwd=tmp_path, stdin="#!/bin/sh\nsleep 300\n")
    until(lambda: states(pbs, "-t")["0[1].pbs"] == "R")

    assert ["B", "R", "Q", "Q"] == list(states(pbs, "-t").values())
    assert (153, "qstat: Unknown Job Id 0.pbs\n") == (
        pbs.run("qstat", "0").returncode,
        pbs.run("qstat", "0").stderr,
    )


def test_qrerun_queues_a_job_again_under_its_id(pbs: Batch, tmp_path: Path) -> None:
    """qrerun ends a job and queues it again, under its id; the output goes on."""
    script = "#!/bin/bash\necho start $PBS_JOBID\n[ -e again ] && exit 4\ntouch again\nsleep 300\n"
    words = ["qsub", "-o", f"{tmp_path}/out"]
    job = pbs.run(*words, cwd=tmp_path, stdin=script, HOME=str(tmp_path)).stdout.strip()
    until((tmp_path / "again").exists)

    pbs.out("qrerun", job)
    until((tmp_path / "out").exists)
    shown = pbs.out("qstat", "-x", "-f", job)
    finished = pbs.run("qrerun", job)

    assert f"start {job}\nstart {job}\n" == text(tmp_path / "out")
    assert "run_count = 2" in shown
    assert "Exit_status = 4" in shown
    assert (35, True) == (finished.returncode, "Job has finished" in finished.stderr)


def test_qrerun_refuses_waiting_and_unknown_jobs(pbs: Batch, tmp_path: Path) -> None:
    """The command refuses a waiting job, a job that must not run twice, and an unknown one."""
    waits = pbs.out("qsub", "-l", "ncpus=99", cwd=tmp_path, stdin="#!/bin/sh\n")
    once = pbs.out("qsub", "-r", "n", cwd=tmp_path, stdin="#!/bin/sh\nsleep 300\n")
    until(lambda: states(pbs)[once] == "R")

    refused = [pbs.run("qrerun", job) for job in (waits, once, "99")]

    assert [
        (168, f"qrerun: Request invalid for state of job {waits}\n"),
        (190, f"qrerun: job is not rerunnable {once}\n"),
        (153, "qrerun: Unknown Job Id 99.pbs\n"),
    ] == [(done.returncode, done.stderr) for done in refused]
    assert "R" == states(pbs)[once]


def test_jobs_of_a_lost_node_start_elsewhere_later(tmp_path: Path) -> None:
    """Jobs of a node that is lost start elsewhere, later; there, they may go on meanwhile."""
    script = (
        "#!/bin/bash\ntrap '' TERM\nbeat=$PBS_JOBID.$(cat \"$PBS_NODEFILE\")\n"
        "while :; do date >> $beat; sleep 0.05; done\n"
    )
    with fake("pbs", tmp_path / "p", pace=0) as pbs:

        def submit(*words: str) -> str:
            words = ("qsub", "-l", "select=1:ncpus=4", *words)
            return pbs.run(*words, stdin=script, HOME=str(tmp_path)).stdout.strip()

        def goes_on(job: str, node: str) -> bool:
            size = len(text(tmp_path / f"{job}.{node}"))
            time.sleep(0.3)
            return len(text(tmp_path / f"{job}.{node}")) > size

        job, once = submit(), submit("-r", "n")
        until(lambda: goes_on(job, "n1") and goes_on(once, "n2"))
        pbs.out("fakectl", "crash", "n1")
        pbs.out("fakectl", "lose", "n2")
        pbs.out("fakectl", "pass", "309")
        soon = states(pbs)
        pbs.out("fakectl", "pass", "1")
        until(lambda: goes_on(job, "n3"))
        until(lambda: goes_on(job, "n1"))  # beside the other one
        until(lambda: not goes_on(once, "n2"))
        later = states(pbs, "-x")
        pbs.out("fakectl", "revive", "n1")
        until(lambda: not goes_on(job, "n1"))
        until(lambda: goes_on(job, "n3"))

    assert {job: "R", once: "R"} == soon
    assert {job: "R", once: "F"} == later
