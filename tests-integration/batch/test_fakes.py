"""Behaviour of the fakes that a test cannot provoke in a real Slurm."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from fake_batch.processes import MARK
from fake_batch.start import HERE, fake, until, write_command

from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from pathlib import Path

GOES_ON = """\
#!/bin/bash
trap '' TERM
echo $$ > pid
while :; do date +%s.%N >> beat; sleep 0.05; done
"""


def marked(folder: Path) -> list[int]:
    """The living processes of a fake's jobs."""
    mark = f"{MARK}={folder}:".encode()
    pids = []
    for entry in process_folders():
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                pids.append(int(entry.name))
    return pids


def beats(folder: Path) -> int:
    path = folder / "beat"
    return len(path.read_text().split()) if path.exists() else 0


def test_nothing_is_left(tmp_path: Path) -> None:
    """With the block ends every process of its jobs, those too that left their session."""
    with fake("slurm", tmp_path / "s") as slurm:
        slurm.out("sbatch", cwd=tmp_path, stdin="#!/bin/sh\nsetsid sleep 300 &\nsleep 300\n")
        until(lambda: len(marked(tmp_path / "s")) == 3)

    assert [] == marked(tmp_path / "s")


def test_controller_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """A test that is killed leaves no controller and no job behind."""
    folder = tmp_path / "s"
    code = (
        "import os, sys, time; from pathlib import Path; from fake_batch.start import fake\n"
        f"with fake('slurm', Path({str(folder)!r})) as slurm:\n"
        "    slurm.out('sbatch', '--wrap', 'sleep 300'); print(flush=True); time.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as test:
        assert test.stdout is not None
        test.stdout.readline()
        until(lambda: marked(folder))
        test.send_signal(signal.SIGKILL)

    until(lambda: not marked(folder) and not (folder / "socket").exists())


def test_crash_of_a_daemon(tmp_path: Path) -> None:
    """The job starts elsewhere when its node is lost, and the old one goes on beside it."""
    with fake("slurm", tmp_path / "s", pace=0) as slurm:
        job = slurm.out("sbatch", "--parsable", "-o", "out", cwd=tmp_path, stdin=GOES_ON)
        until(lambda: beats(tmp_path))
        first = int((tmp_path / "pid").read_text())
        slurm.out("fakectl", "crash", "n1")
        slurm.out("fakectl", "pass", "35")
        lost = slurm.out("sinfo", "-h", "-p", "short", "-o", "%t")
        slurm.out("fakectl", "pass", "1")
        slurm.out("fakectl", "pass", "120")
        until(lambda: slurm.out("squeue", "-h", "-o", "%T %N", "-j", job) == "RUNNING n2")

        assert "mix*" == lost
        assert "down*" == slurm.out("sinfo", "-h", "-p", "short", "-o", "%t")
        assert first in marked(tmp_path / "s")
        slurm.out("fakectl", "revive", "n1")
        until(lambda: first not in marked(tmp_path / "s"))
        until(lambda: marked(tmp_path / "s"))


def test_loss_of_a_machine(tmp_path: Path) -> None:
    """Its processes stop at once; with --no-requeue the job is over when that is noticed."""
    with fake("slurm", tmp_path / "s", pace=0) as slurm:
        words = ["sbatch", "--parsable", "--no-requeue", "-o", "out"]
        job = slurm.out(*words, cwd=tmp_path, stdin=GOES_ON)
        until(lambda: beats(tmp_path))
        slurm.out("fakectl", "lose", "n1")
        until(lambda: not marked(tmp_path / "s"))
        before = slurm.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job)
        slurm.out("fakectl", "pass", "36")
        after = slurm.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job)

    assert ("RUNNING", "NODE_FAIL") == (before, after)


def test_memory_is_watched(tmp_path: Path) -> None:
    """A job that takes more than it asked for is killed, with a line in its output."""
    script = f"#!{sys.executable}\nx = b'x' * 200_000_000\nimport time; time.sleep(300)\n"
    with fake("slurm", tmp_path / "s") as slurm:
        job = slurm.out("sbatch", "--parsable", "--mem=50", "-o", "out", cwd=tmp_path, stdin=script)
        until(lambda: slurm.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job) == "FAILED")

        shown = slurm.out("scontrol", "show", "job", job)

    assert "ExitCode=0:9" in shown
    assert "Reason=JobLaunchFailure" in shown
    assert "exceeded memory limit" in (tmp_path / "out").read_text()


def test_jobs_wait_for_room(tmp_path: Path) -> None:
    """Cores and memory of a node are not given twice."""
    with fake("slurm", tmp_path / "s", "--nodes=1") as slurm:
        big = slurm.out("sbatch", "--parsable", "-c", "3", "--wrap", "sleep 300", cwd=tmp_path)
        slurm.out("sbatch", "-c", "2", "--wrap", "true", cwd=tmp_path)
        slurm.out("sbatch", "-c", "2", "--wrap", "true", cwd=tmp_path)
        slurm.out("sbatch", "--mem=4000", "-c", "1", "--wrap", "true", cwd=tmp_path)
        reasons = slurm.out("squeue", "-h", "-t", "PD", "-o", "%r").split()
        slurm.out("scancel", big)
        until(lambda: "" == slurm.out("squeue", "-h"))

        states = slurm.out("squeue", "-h", "-t", "all", "-o", "%T").split()

    assert ["Resources", "Priority"] == reasons[:2]
    assert ["CANCELLED", "COMPLETED", "COMPLETED", "COMPLETED"] == states


def test_ended_jobs_are_forgotten(tmp_path: Path) -> None:
    """After MinJobAge an id is unknown."""
    with fake("slurm", tmp_path / "s", pace=1000) as slurm:
        job = slurm.out("sbatch", "--parsable", "--wrap", "true", cwd=tmp_path)
        until(lambda: slurm.run("squeue", "-j", job).returncode)

        assert (
            "slurm_load_jobs error: Invalid job id specified\n"
            == slurm.run("scontrol", "show", "job", job).stderr
        )


@pytest.mark.parametrize(
    "words",
    [
        ["squeue", "--json"],
        ["squeue", "-o", "%Z"],
        ["sinfo", "-s"],
        ["scontrol", "reboot"],
        ["scancel", "--full", "1"],
        ["sbatch", "--het-group=1"],
        ["fakectl", "frob"],
    ],
)
def test_slurm_refuses_what_it_does_not_know(tmp_path: Path, words: list[str]) -> None:
    """A fake that guesses would let wrong commands pass."""
    with fake("slurm", tmp_path / "s") as slurm:
        done = slurm.run(*words, stdin="#!/bin/sh\n")

    assert 0 != done.returncode
    assert "" != done.stderr
    assert "" == done.stdout


def test_commands_fail_without_a_controller(tmp_path: Path) -> None:
    """Without one the commands fail as those of a batch system that is down."""
    env = {**os.environ, "FAKE_BATCH": str(tmp_path)}
    codes = {}
    for system, name in (("slurm", "squeue"), ("slurm", "scancel"), ("pbs", "qstat")):
        write_command(tmp_path / name, HERE / "fake_batch/client.py", system)
    # One that has patience still has it when the others have ended.
    squeue = str(tmp_path / "squeue")
    with subprocess.Popen([squeue], env={**env, "FAKE_BATCH_DEAF": "600"}) as patient:
        for name in ("squeue", "scancel", "qstat"):
            done = subprocess.run(
                [str(tmp_path / name)],
                env={**env, "FAKE_BATCH_DEAF": "0"},
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            codes[name] = (
                done.returncode,
                "nable to contact" in done.stderr or "cannot" in done.stderr,
            )
        waits = patient.poll() is None
        patient.kill()

    assert {"squeue": (1, True), "scancel": (8, True), "qstat": (255, True)} == codes
    assert waits


def test_a_command_prints_what_the_controller_answers(tmp_path: Path) -> None:
    """With its standard input, its arguments, its directory, its environment and its exit code."""
    script = "#!/bin/sh\necho $GREETING; pwd; exit 3\n"
    home = tmp_path / "a home"
    home.mkdir()
    with fake("slurm", tmp_path / "a fake") as slurm:

        def typed(*words: str, stdin: str = "") -> tuple[int, str, str]:
            path = shutil.which(words[0], path=slurm.env["PATH"])
            done = subprocess.run(
                [str(path), *words[1:]],
                cwd=home,
                env={**slurm.env, "GREETING": "hello"},
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout, done.stderr

        code, job, complaints = typed("sbatch", "--parsable", "-o", "an out", stdin=script)
        job = job.strip()
        until(lambda: slurm.out("squeue", "-h", "-t", "all", "-o", "%T", "-j", job) == "FAILED")
        refused = typed("squeue", "-j", "99999")
        same = slurm.run("squeue", "-j", "99999")

    assert (0, "") == (code, complaints)
    assert f"hello\n{home}\n" == (home / "an out").read_text()
    assert (same.returncode, same.stdout, same.stderr) == refused
    assert (1, "slurm_load_jobs error: Invalid job id specified\n") == (refused[0], refused[2])
