"""`grain scale`, with commands in place of a batch system, and with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.batch import JobRecords, name_of
from grain.cli.workers.loop import PoolLoop, serving_jobs
from grain.config import load
from grain_testkit import states
from grain_testkit.scale_command import line, scaling, slurm

if TYPE_CHECKING:
    from grain.config import Config

Put = Callable[[str, str], Path]


@pytest.mark.parametrize("ignored", [True, False])
def test_a_terminal_that_is_closed_ends_it_unless_nohup_says_otherwise(
    alone: Path, command: Put, ignored: bool
) -> None:
    slurm(alone, command)
    how = "SIG_IGN" if ignored else "SIG_DFL"
    code = f"import signal; signal.signal(signal.SIGHUP, signal.{how}); "
    code += "from grain.cli import main; main(prog_name='grain')"
    with subprocess.Popen(
        [sys.executable, "-c", code, "scale", "--json", "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert (0, 1, "beginning") == line(process.stdout)
            process.send_signal(signal.SIGHUP)
            if ignored:
                line(process.stdout)  # it has submitted one
                assert process.poll() is None
                assert int(field(process.pid, "SigIgn"), 16) & 1
                process.terminate()
            assert 0 == process.wait(120)
        finally:
            process.kill()


def field(pid: int, name: str) -> str:
    """Return a field of a process's status, see proc(5)."""
    with Path(f"/proc/{pid}/status").open(encoding="ascii") as status:
        return next(text for key, _, text in (row.partition(":") for row in status) if key == name)


def test_submits_what_is_missing_and_counts_its_own(alone: Path, command: Put) -> None:
    """Jobs of `grain up` are not counted; those of a `grain scale` before are."""
    slurm(alone, command)
    assert 0 == CliRunner().invoke(main, ["up"]).exit_code
    with scaling("2") as output:
        assert (0, 2, "beginning") == line(output)
        assert (1, 2, "w-0 is job 2_0, output in ") == line(output)
        assert (2, 2, "w-1 is job 2_1, output in ") == line(output)
    (alone / "listed").write_text("1|RUNNING|None|n1\n2_0|RUNNING|None|n1\n2_1|PENDING|Priority|\n")
    with scaling("3") as output:
        assert (2, 3, "2 jobs are left from before") == line(output)
        assert (3, 3, "w is job 3, output in ") == line(output)


def test_the_successor_of_a_worker_that_leaves_is_submitted_before_its_end(
    alone: Path, command: Put, answering: Any
) -> None:
    slurm(alone, command)
    (alone / "s").mkdir(mode=0o700)
    address = f"unix://{alone}/s/s"
    with (alone / "grain.toml").open("a") as config:
        config.write(f'dial = "{address}"\n')
    with scaling("2") as output:
        assert ["beginning", "w-0 is job 1_0", "w-1 is job 1_1"] == [
            line(output)[2].partition(",")[0] for _ in range(3)
        ]
    (alone / "listed").write_text("1_0|RUNNING|None|n1\n1_1|RUNNING|None|n1\n")
    workers = [states.worker("w-0"), states.worker("w-1", state="draining")]
    with answering(address, state=states.state(workers)), scaling("2") as output:
        assert (2, 2, "2 jobs are left from before") == line(output)
        assert (2, 2, "w is job 2, output in ") == line(output)


def test_a_job_of_several_nodes_counts_until_the_last_of_its_workers_leaves() -> None:
    jobs = serving_jobs(
        [("w.0", True), ("w.1", False), ("x-r1.0", False), ("x-r1.1", False), ("y", True)]
    )

    assert {"w": True, "x": False, "y": True} == {name: jobs[name] for name in "wxy"}
    assert not jobs["w.1"]
    assert "z" not in jobs


def test_a_refusal_is_told_and_does_not_end_it(alone: Path, command: Put) -> None:
    """In the batch system's words."""
    slurm(alone, command)
    command("sbatch", "cat > /dev/null; echo 'sbatch: error: invalid partition' >&2; exit 1")
    with scaling("1") as output:
        line(output)
        alive, _, what = line(output)

    assert 0 == alive
    assert "sbatch: error: invalid partition" in what


def test_a_job_whose_submission_has_no_answer_counts_and_is_adopted(
    alone: Path, command: Put
) -> None:
    """Also when it is left from before; the next one shows it under its own id."""
    slurm(alone, command)
    command("sbatch", f"cat > /dev/null; echo 1 >> '{alone}/submitted'; echo Bitte warten")
    with scaling("1") as output:
        assert (0, 1, "beginning") == line(output)
        alive, _, what = line(output)
    listed = 'case "$*" in *%i\\|%j*) echo "7|w" ;; *) echo "7|RUNNING|None|n1" ;; esac'
    command("squeue", listed)
    with scaling("1") as output:
        assert (1, 1, "1 jobs are left from before") == line(output)
    done = CliRunner().invoke(main, ["scale", "1", "--withdraw"])

    assert 1 == alive
    assert what.startswith("sbatch accepted the job, but printed no job id that Grain can read")
    assert "It is unknown whether the batch system has w now." in what
    assert "1\n" == (alone / "submitted").read_text()
    assert 0 == done.exit_code
    [record] = JobRecords(alone / "state/grain/jobs").read()
    assert ("7", "w") == (record.id, name_of(record.mark))


def test_a_job_that_never_starts_is_named_and_cancelled(alone: Path, command: Put) -> None:
    slurm(alone, command)
    command("scancel", f"echo $@ >> '{alone}/cancelled'")
    (alone / "listed").write_text("1|PENDING|PartitionTimeLimit|\n")
    (alone / "n").write_text("0")
    assert 0 == CliRunner().invoke(main, ["up"]).exit_code
    [file] = (alone / "state/grain/jobs").iterdir()
    file.write_text(file.read_text().replace('"by": ""', '"by": "scale"'))
    with scaling("1") as output:
        assert (1, 1, "1 jobs are left from before") == line(output)
        alive, _, what = line(output)
        deadline = time.monotonic() + 60
        while not (alone / "cancelled").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    assert 1 == alive
    assert what.startswith("1 would never start (PartitionTimeLimit) and is cancelled; nothing is")
    assert "1\n" == (alone / "cancelled").read_text()


def test_only_one_for_an_address(alone: Path, command: Put) -> None:
    """Two would submit twice as many."""
    slurm(alone, command)
    with scaling("1") as output:
        line(output)
        second = CliRunner().invoke(main, ["scale", "1"])

    assert 1 == second.exit_code
    assert "keeps workers for edge:///" in second.output
    assert "already; end it first" in second.output


def test_custom_systems_cannot_be_asked(alone: Path) -> None:
    """It says so."""
    (alone / "grain.toml").write_text(
        'system = "custom"\n[custom_system]\nsubmit_cmd = "x"\ndirectory = "/tmp"\n'
        'template = "{{body}}"'
    )
    done = CliRunner().invoke(main, ["scale", "2"])

    assert 1 == done.exit_code
    assert "without custom_system.status_cmd, Grain cannot count workers" in done.output


def test_jobs_of_a_scheduler_are_withdrawn(alone: Path, command: Put) -> None:
    """Those that wait and that it submitted; not while another scheduler counts on them."""
    slurm(alone, command)
    command("scancel", f"echo $@ > '{alone}/cancelled'")
    with scaling("1") as output:
        assert [line(output)[0] for _ in range(2)] == [0, 1]
    (alone / "listed").write_text("1|PENDING|Priority|\n")
    with scaling("3", "--parent", str(os.getpid())) as output:
        assert (1, 3, "1 jobs are left from before") == line(output)
        assert [line(output)[0] for _ in range(2)] == [2, 3]
        refused = CliRunner().invoke(main, ["scale", "3", "--withdraw"])
    (alone / "listed").write_text("1|PENDING|x|\n2_0|RUNNING|None|n1\n2_1|PENDING|x|\n")
    done = CliRunner().invoke(main, ["scale", "3", "--withdraw"])

    assert 1 == refused.exit_code
    assert "already; end it first" in refused.output
    assert (0, "w-1: job 2_1 waited and is cancelled\n") == (done.exit_code, done.output)
    assert "2_1\n" == (alone / "cancelled").read_text()


@pytest.mark.parametrize("words", [[], ["0"], ["x"], ["1", "2"]])
def test_scale_takes_one_number_of_at_least_one(alone: Path, words: list[str]) -> None:
    """A number, at least one."""
    assert 2 == CliRunner().invoke(main, ["scale", *words]).exit_code


def test_trouble_is_reported_once_for_as_long_as_it_stays_the_same(
    configure: Callable[[str], Config],
) -> None:
    reports: list[str] = []
    loop = PoolLoop(
        configure('system = "local"'), (), lambda text, *_: reports.append(text), None, count=1
    )

    for text in ("down", "down", "full", "down"):
        loop.complain("squeue", text)
    assert ["down", "full", "down"] == reports
    loop.forget_trouble("squeue")
    loop.complain("squeue", "down")
    assert 4 == len(reports)


def test_the_scheduler_learns_that_grain_scale_runs_while_its_jobs_wait(
    address: str, answering: Any
) -> None:
    """So it says to no mission that a worker has gone which is replaced."""
    with answering(address, state=0) as head:
        loop = PoolLoop(load(), (), lambda *_: None, None, count=1)
        loop._look_at_workers()
        assert [] == head.asked  # it has no job, and needs no scheduler
        loop._pool.submitted(["1"], 0.0)
        loop._look_at_workers()

    assert [("state", True)] == [(ask.about, ask.scales) for ask in head.asked]
