"""The parsing of what Slurm and PBS print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import BatchJob, JobPhase, JobState
from grain.cli.batch.answers import complains_only
from grain.cli.batch.systems import pbs, slurm

if TYPE_CHECKING:
    from collections.abc import Callable

SQUEUE = """\
6_0|RUNNING|None|n1
6_1|PENDING|Resources|
7|PENDING|PartitionTimeLimit|
8|COMPLETING|None|n2
9|FAILED|JobLaunchFailure|n3
10|COMPLETED|None|n3
11|CONFIGURING|None|n4
12|A_NEW_STATE|None|
"""
QSTAT = """\
Job Id: 0.pbs
    Job_Name = w093015
    job_state = R
    exec_host = pbs/0*2
    Variable_List = PBS_O_HOME=/root,PBS_O_LANG=en_US.UTF-8,
\tPBS_O_LOGNAME=root,job_state = Q

Job Id: 1.pbs
    job_state = Q
    comment = Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4
\t T: 4)

Job Id: 2.pbs
    job_state = F
    exec_host = pbs/0*2
    comment = Job run at Sat and finished

Job Id: 3.pbs
    job_state = E
    exec_host = n3/0*2+n3/1*2+n4/0*2

Job Id: 4.pbs
    job_state = ?
    exec_host = n3/1

"""


def test_squeue_lines_become_states_and_unlisted_jobs_have_ended() -> None:
    """Each line is a job; what is not listed has ended; a state that is not known tells nothing."""
    expected = {
        "6_0": JobState(JobPhase.RUNNING, "", "n1"),
        "6_1": JobState(JobPhase.PENDING, "Resources"),
        "7": JobState(JobPhase.STUCK, "PartitionTimeLimit"),
        "8": JobState(JobPhase.ENDING, "", "n2"),
        "9": JobState(JobPhase.GONE, "FAILED (JobLaunchFailure)", "n3"),
        "10": JobState(JobPhase.GONE, "COMPLETED", "n3"),
        "11": JobState(JobPhase.PENDING, "", "n4"),
        "12": JobState(JobPhase.UNKNOWN, "A_NEW_STATE"),
        "99": JobState(JobPhase.GONE),
    }

    assert expected == slurm.states(SQUEUE, expected)


def test_qstat_joins_folded_lines_and_reports_node_and_comment() -> None:
    """Folded lines are joined; a finished job's node and comment are read."""
    never = "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4 T: 4)"
    expected = {
        "0.pbs": JobState(JobPhase.RUNNING, "", "pbs"),
        "1.pbs": JobState(JobPhase.STUCK, never),
        "2.pbs": JobState(JobPhase.GONE, "Job run at Sat and finished", "pbs"),
        "3.pbs": JobState(JobPhase.ENDING, "", "n3,n4"),
        "4.pbs": JobState(JobPhase.UNKNOWN, "", "n3"),
        "99.pbs": JobState(JobPhase.GONE),
    }

    assert expected == pbs.states(QSTAT, expected)


@pytest.mark.parametrize(
    ("printed", "job"),
    [("6\n", "6"), ("6;cluster\n", "6"), ("a banner\n7\n", "7"), ("", ""), ("error\n", "")],
)
def test_the_id_of_sbatch_is_the_number_in_its_last_line(printed: str, job: str) -> None:
    """The id is the number in the last line."""
    assert job == slurm.submitted_id(printed)


@pytest.mark.parametrize(
    ("printed", "job"),
    [("0.pbs\n", "0.pbs"), ("12\n", "12"), ("1[].pbs\n", "1[].pbs"), ("", ""), ("oops\n", "")],
)
def test_the_id_of_qsub_is_its_last_line_with_or_without_server(printed: str, job: str) -> None:
    """The id is the last line: with the server's name, or bare."""
    assert job == pbs.submitted_id(printed)


@pytest.mark.parametrize(
    ("printed", "dialect"),
    [
        ("pbs_version = 23.06.06\n", "openpbs"),
        ("pbs_version = 2021.1.3.20220217134230\n", "openpbs"),
        ("Version: 6.1.2\nCommit: 661e092552de\n", "torque"),
        ("version: 4.2.10\n", "torque"),
        ("", "openpbs"),
    ],
)
def test_torque_is_recognised_by_its_version_line(printed: str, dialect: str) -> None:
    """Torque prints its version in other words than OpenPBS."""
    assert dialect == pbs.dialect(printed)


@pytest.mark.parametrize(
    ("message", "harmless"),
    [
        ("qdel: Unknown Job Id 999.pbs\n", True),
        ("qstat: Unknown Job Id 9.pbs\nqstat: 0.pbs Job has finished, use -x or -H\n", True),
        ("qdel: Unknown Job Id 999.pbs\nqdel: Unauthorized Request 3.pbs\n", False),
    ],
)
def test_complaints_about_ended_jobs_are_no_error(message: str, harmless: bool) -> None:
    """A job that has ended is nothing to complain of; anything else is."""
    assert harmless == complains_only(pbs.ENDED, message)


def test_a_shape_in_the_users_options_replaces_ours(job_of: Callable[..., BatchJob]) -> None:
    """A shape with GPUs in the user's options replaces ours: PBS takes one only."""
    job = job_of('[script]\ncores = 4\nextra_args = ["-l select=1:ncpus=4:ngpus=1"]')

    lines = [line for line in pbs.script(job).splitlines() if "-l" in line]
    assert ["#PBS -l select=1:ncpus=4:ngpus=1"] == [line for line in lines if "#PBS" in line]
