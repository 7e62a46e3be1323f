"""The missions that `grain start` has submitted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

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
