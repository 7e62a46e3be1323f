"""The name at which a job's ``srun`` asks for a step, where another user has taken it."""

from __future__ import annotations

import os

from grain_testkit.other_user import needs_other_user, other_listens_at
from grain_testkit.programs import run

# As the command in the directory of `grain slurm` does it, whose process changes its signals.
_SRUN = "import sys; from grain.cli.slurm.in_job.step import main; sys.exit(main(sys.argv[1:]))"


@needs_other_user
def test_srun_tells_nothing_to_a_user_who_has_taken_the_name_of_its_jobs_desk() -> None:
    """Tried: Listen at the name at which the steps of a job are asked for, when the worker of
    that job has died.
    Result: is sent nothing, and no command of its choice runs.
    """
    with other_listens_at("grain-taken-desk") as other:
        env = {**os.environ, "GRAIN_STEPS": "grain-taken-desk", "SLURM_JOB_ID": "12"}
        done = run("-c", _SRUN, "true", env=env)
        received, _ = other.communicate(timeout=60)

    assert "\n" == received
    assert 1 == done.returncode
    assert "another user has taken its name" in done.stderr
