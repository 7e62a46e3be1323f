"""The dispatcher as a job of a batch system, of which scripts play the commands."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from grain.queue.dispatchers import Dispatchers
from grain.queue.records import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain_testkit.job_commands import JobCommands

CONFIG = """
system = "slurm"
[script]
cores = 64
memory = 200
[head.script]
walltime = "8:00:00"
queue = "long"
"""


class Slurm:
    """The commands of Slurm: submitted scripts are kept, and jobs have the states of a file."""

    def __init__(self, home: Path, command: Callable[[str, str], Path]) -> None:
        self.home = home
        self.states: dict[int, str] = {}
        number = f"n=$(($(cat '{home}/last' 2>/dev/null || echo 5) + 1)); echo $n > '{home}/last'"
        command("sbatch", f"{number}; cat > '{home}/script'-$n; echo $n")
        command("squeue", f"cat '{home}/squeue'")
        command("scancel", f"echo \"$@\" > '{home}/scancel'; : > '{home}/squeue'")
        self.have()

    def have(self, **states: str) -> None:
        """Have jobs in states, as ``j6="RUNNING|None|n17"``."""
        lines = [f"{name[1:]}|{state}\n" for name, state in states.items()]
        (self.home / "squeue").write_text("".join(lines))

    def scripts(self) -> list[str]:
        return [one.read_text() for one in sorted(self.home.glob("script-*"))]


@pytest.fixture
def slurm(idle: JobCommands, command: Callable[[str, str], Path]) -> Slurm:
    (idle.home / "grain.toml").write_text(CONFIG)
    return Slurm(idle.home, command)


def take_charge(jobs: JobCommands, host: str = "n17") -> None:
    """Have a dispatcher on another host."""
    dispatcher = Dispatcher(host=host, boot="b", pid=1, pid_began=1, at=0.0)
    Dispatchers(jobs.queue.files).take_charge(dispatcher)


def status(jobs: JobCommands) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(jobs.done("queue", "status", "--json"))
    return found


def test_the_job_asks_for_little_and_knows_its_successor(idle: JobCommands, slurm: Slurm) -> None:
    dry = idle.done("queue", "start", "--as-job", "--dry", "--", "--qos=long")
    assert [] == slurm.scripts()
    done = idle.done("queue", "start", "--as-job", "--", "--qos=long")

    [script] = slurm.scripts()
    lines = script.splitlines()
    assert {
        "#SBATCH --cpus-per-task=1", "#SBATCH --mem=2G", "#SBATCH --time=08:00:00",
        "#SBATCH --partition=long", "#SBATCH --qos=long",
    } <= set(lines)  # fmt: skip
    assert "grain_left=$((28740 + grain_began - `date +%s`))" in lines
    [main] = [line for line in lines if "grain.dispatcher" in line]
    words = shlex.split(main.removeprefix("(").removesuffix(") &"))
    assert f"XDG_STATE_HOME={idle.home}/state" in words
    assert f"GRAIN_CONFIG={idle.home}/grain.toml" in words
    folder = words.index(str(idle.queue.folder))
    assert "$grain_left" == words[folder + 1]
    assert ["queue", "start", "--as-job", "--successor", "--queue", "queue"] == words[-6:]
    assert _without_time(dry).splitlines() == _without_time(script).splitlines()
    log = f"{idle.home}/state/grain/dispatchers/queue-"
    assert done.startswith(f"the dispatcher is job 6 of slurm, output in {log}")


def _without_time(script: str) -> str:
    """Return a script without the time of day that its name has."""
    return re.sub(r"\bqueue-\d{6}\b", "queue-HHMMSS", script)


def test_a_job_that_waits_or_runs_is_not_submitted_twice_by_any_command(
    idle: JobCommands, slurm: Slurm
) -> None:
    idle.done("queue", "start", "--as-job")
    slurm.have(j6="PENDING|Priority|")

    assert "is job 6 of slurm already" in idle.done("queue", "start", "--as-job")
    assert "job 1\n" == idle.done("submit", "true")
    assert "no dispatcher runs: job 6 of slurm waits for a node (Priority)" in idle.done("jobs")
    assert "no dispatcher runs: job 6 of slurm waits" in idle.done("queue", "status")
    assert ["6", "pending"] == [status(idle)["jobs"][0][key] for key in ("id", "state")]
    slurm.have(j6="RUNNING|None|n17")
    assert "no dispatcher runs: job 6 of slurm begins with it" in idle.done("queue", "status")
    take_charge(idle)
    shown = idle.done("queue", "status").splitlines()
    assert ["the dispatcher runs on n17", "job 6 of slurm runs on n17, output in"] == [
        shown[1], shown[2].rpartition(" ")[0],
    ]  # fmt: skip
    assert 1 == len(slurm.scripts())


def test_the_next_command_submits_another_job_when_the_last_one_has_ended(
    idle: JobCommands, slurm: Slurm
) -> None:
    idle.done("queue", "start", "--as-job", "--", "--qos=long")
    idle.done("submit", "-H", "true")

    assert 2 == len(slurm.scripts())
    assert "#SBATCH --qos=long" in slurm.scripts()[1]
    slurm.have()
    assert "the next job is submitted by `grain queue start`" in idle.done("queue", "status")
    assert "the dispatcher is submitted as a job\n" == idle.done("queue", "start")
    assert 3 == len(slurm.scripts())


def test_records_of_jobs_that_ended_weeks_ago_are_removed(idle: JobCommands, slurm: Slurm) -> None:
    idle.done("queue", "start", "--as-job")
    [old] = (idle.home / "state/grain/jobs").glob("*.jsonl")
    lines = [json.loads(line) for line in old.read_text().splitlines()]
    text = "".join(json.dumps({**line, "submitted": 1.0}) + "\n" for line in lines)
    old.write_text(text)
    log = idle.home / "state/grain/dispatchers/queue-000000.log"
    log.touch()
    os.utime(log, (1.0, 1.0))
    idle.done("queue", "start", "--as-job")

    assert not log.exists()
    [new] = (idle.home / "state/grain/jobs").glob("*.jsonl")
    assert old != new


def test_a_dispatcher_submits_one_successor(idle: JobCommands, slurm: Slurm) -> None:
    idle.done("queue", "start", "--as-job")
    take_charge(idle)
    slurm.have(j6="RUNNING|None|n17")
    successor = ("queue", "start", "--as-job", "--successor")

    assert "is job 7 of slurm" in idle.done(*successor)
    slurm.have(j6="RUNNING|None|n17", j7="PENDING|None|")
    assert "is job 7 of slurm already" in idle.done(*successor)
    assert "job 7 of slurm waits, and takes over when it begins" in idle.done("queue", "status")
    idle.done("queue", "stop")
    assert "not to be a job any more" in idle.done(*successor)
    assert 2 == len(slurm.scripts())


def test_stopping_cancels_the_job_and_the_next_dispatcher_is_a_process_again(
    idle: JobCommands, slurm: Slurm
) -> None:
    idle.done("queue", "start", "--as-job")
    take_charge(idle)
    slurm.have(j6="RUNNING|None|n17")

    assert "the dispatcher has stopped; jobs that run go on\n" == idle.done("queue", "stop")
    assert "6\n" == (idle.home / "scancel").read_text()
    assert status(idle)["dispatcher"] is None
    idle.grain("submit", "true")
    assert 1 == len(slurm.scripts())


def test_a_batch_system_that_does_not_answer_is_named(
    idle: JobCommands, slurm: Slurm, command: Callable[[str, str], Path]
) -> None:
    idle.done("queue", "start", "--as-job")
    command("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")

    done = idle.grain("submit", "true")
    assert (0, "job 1\n") == (done.exit_code, done.stdout)
    assert "job 1 waits: no dispatcher could be started" in done.stderr
    assert "Unable to contact slurm controller" in done.stderr
    assert "cannot be looked for" in idle.done("queue", "status")
    take_charge(idle)
    assert "its batch job cannot be looked for" in idle.done("queue", "status")


def test_a_refused_job_leaves_all_as_it_was(
    idle: JobCommands, slurm: Slurm, command: Callable[[str, str], Path]
) -> None:
    command("sbatch", "echo 'Invalid partition name specified' >&2; exit 1")

    assert "Invalid partition" in idle.refused("queue", "start", "--as-job")
    assert [] == status(idle)["jobs"]
    assert not (idle.queue.folder / "as-job").exists()


def test_what_makes_no_sense_is_refused(idle: JobCommands, slurm: Slurm) -> None:
    assert "go with --as-job" in idle.refused("queue", "start", "--dry")
    (idle.home / "grain.toml").write_text("")
    assert "there is no batch system" in idle.refused("queue", "start", "--as-job")


def test_programs_get_the_state_of_the_queue_as_json(idle: JobCommands, slurm: Slurm) -> None:
    started = json.loads(idle.done("queue", "start", "--as-job", "--json"))
    slurm.have(j6="PENDING|None|")

    assert ("queue", None) == (started["queue"], started["dispatcher"])
    assert ["6"] == [one["id"] for one in status(idle)["jobs"]]
    assert [] == json.loads(idle.done("queue", "stop", "--json"))["jobs"]
