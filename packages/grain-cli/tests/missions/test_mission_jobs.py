"""The missions that `grain start` has submitted."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from click.testing import CliRunner

from grain.cli import main
from grain.cli.batch import JobPhase, JobRecord, mark_of
from grain.cli.missions.jobs import find_job, mission_jobs
from grain.cli.workers.jobs import records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain.config import Config


def test_a_mission_whose_command_was_killed_before_it_started_is_looked_for(
    alone: Path, configure: Callable[[str], Config]
) -> None:
    """Also where processes of this machine stand for jobs."""
    config = configure('system = "slurm"')
    left = JobRecord(
        mark_of("night"), "local", "night", "", "edge:///x", "", time.time(), kind="mission"
    )
    records().add(records().new_file(), left)

    [job] = mission_jobs(config)

    assert ("night", JobPhase.UNKNOWN) == (job.record.name, job.state.phase)
    assert job == find_job(config, "night")


def test_attach_begins_with_as_many_lines_of_a_job_as_are_asked_for(alone: Path) -> None:
    output, config = alone / "night.log", alone / "grain.toml"
    output.write_text("".join(f"line {number}\n" for number in range(50)))
    config.write_text('system = "local"')
    ended = JobRecord(
        f"{socket.gethostname()}:{2**22 + 1}:1", "local", "night", str(output), "edge:///x", "",
        time.time(), kind="mission",
    )  # fmt: skip
    records().add(records().new_file(), ended)

    done = CliRunner().invoke(main, ["attach", "-n", "2", "-c", str(config), "night"])

    assert 0 == done.exit_code
    assert done.output.endswith("night.log\nline 48\nline 49\n")


def test_a_mission_whose_job_is_held_waits(
    alone: Path, command: Callable[[str, str], Path]
) -> None:
    config = alone / "grain.toml"
    config.write_text('system = "slurm"')
    command("squeue", "echo '6|PENDING|JobHeldUser|'")
    held = JobRecord("6", "slurm", "night", "", "edge:///x", "", time.time(), kind="mission")
    records().add(records().new_file(), held)

    done = CliRunner().invoke(main, ["missions", "-c", str(config)])

    assert 0 == done.exit_code
    row = done.output.splitlines()[2].split()
    assert ("night", "waiting") == (row[0], row[-2])
    assert "job 6: JobHeldUser; output in nowhere" in done.output
