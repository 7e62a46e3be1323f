"""The remedy that is named for a refusal fits what the batch system printed.

The texts are those of slurm_errno.c of Slurm 22.05, pbs_err of OpenPBS 23.06 and Torque 6, and what
Grid Engine 8.1.9, LSF 10.1 and OAR 2.5 print. Those of HTCondor 25.13 are in submit.cpp and
submit_utils.cpp. Those of Flux are in flux-core 0.88 (job-manager's queue.c, queues.c, and its
plug-ins limit-duration.c and limit-job-size.c; the frobnicator; Rv1Pool.py of the schedulers), and
in mf_priority.cpp and accounting.hpp of flux-accounting 0.60.
"""

from __future__ import annotations

import pytest

from grain.cli.batch.command import CommandResult, Commands
from grain.cli.batch.systems import flux, htcondor, lsf, oar, pbs, sge, slurm

POLICY = (
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
    "limit, user's size and/or time limits)"
)
FEWER = "Start fewer workers"


def failed(text: str) -> str:
    return f"sbatch: error: Batch job submission failed: {text}"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (POLICY, FEWER),
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}", FEWER),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}", FEWER),
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}", "Lower script.walltime"),
        (f"sbatch: error: AssocMaxWallDurationPerJobLimit\n{POLICY}", "Lower script.walltime"),
        (f"sbatch: error: QOSMaxCpuPerJobLimit\n{POLICY}", "Lower script.cores"),
        (f"sbatch: error: QOSMaxMemoryPerJob\n{POLICY}", "Lower script.memory"),
        (f"sbatch: error: QOSMaxGRESPerUser\n{POLICY}", "Ask for fewer GPUs"),
        (f"sbatch: error: QOSMaxNodePerUserLimit\n{POLICY}", FEWER),
        (f"sbatch: error: AssocMaxNodePerJobLimit\n{POLICY}", "Lower script.nodes"),
        (f"sbatch: error: AssocMaxCpuMinutesPerJobLimit\n{POLICY}", "Lower script.walltime or"),
        (f"sbatch: error: AssocGrpCPUMinutesLimit\n{POLICY}", "Lower script.walltime or"),
        (f"sbatch: error: QOSMinCpuNotSatisfied\n{POLICY}", "Ask for more"),
        (
            failed("Requested time limit is invalid (missing or exceeds some limit)"),
            "Lower script.walltime",
        ),
        (failed("Invalid partition name specified"), "Set script.queue"),
        (failed("No partition specified or system default partition"), "Set script.queue"),
        (failed("User's group not permitted to use this partition"), "Choose another script.queue"),
        (failed("Required partition not available (inactive or drain)"), "Choose another script."),
        (
            failed("Invalid account or account/partition combination specified"),
            "Name your account",
        ),
        (failed("Invalid qos specification"), "Change the --qos"),
        (failed("Invalid feature specification"), "Change the --constraint"),
        (failed("Requested reservation is invalid"), "Change the --reservation"),
        (failed("Invalid license specification"), "Change the --licenses"),
        (failed("Invalid generic resource (gres) specification"), "Change the --gres"),
        (failed("Memory specification can not be satisfied"), "Lower script.memory"),
        (failed("Requested node configuration is not available"), "Lower script.cores or"),
        (failed("More processors requested than permitted"), "Lower script.cores"),
        (failed("Node count specification invalid"), "Change script.nodes"),
        (
            "sbatch: error: You must specify an account (--account)\n"
            + failed("Unspecified error"),
            "Name your account",
        ),
        (failed("Access/permission denied"), "Choose another script.queue"),
        (failed("Protocol authentication error"), "Slurm does not know you"),
        (failed("I/O error writing script/environment to file"), "The disk of Slurm's controller"),
        (
            failed("Pathname of a file, directory or other parameter too long"),
            "Run this in a directory with a shorter path",
        ),
        (failed("Unable to contact slurm controller (connect failure)"), "Slurm's controller"),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", "Slurm's controller"),
        ("squeue: error: Socket timed out on send/recv operation", "Slurm's controller"),
        ("slurm_load_jobs error: Unexpected message received", "Slurm's controller"),
        (failed("Slurm temporarily unable to accept job, sleeping and retrying"), "Slurm takes"),
        # What a user has named says nothing of the fault.
        ("sbatch: error: Unable to open file /work/reservation/w.sh", ""),
    ],
)
def test_the_remedy_for_a_refusal_of_slurm(text: str, remedy: str) -> None:
    assert_fits(slurm.COMMANDS, text, remedy)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("qsub: Job violates queue and/or server resource limits", "Lower script.cores, script."),
        (
            (
                "qsub: Job exceeds queue resource limits MSG=cannot satisfy queue max walltime "
                "requirement"
            ),
            "Lower script.cores, script.memory or script.walltime",
        ),
        (
            (
                "qsub: submit error (Maximum number of jobs already in queue MSG=total number of "
                "current user's jobs exceeds the queue limit: user me@login, queue batch)"
            ),
            FEWER,
        ),
        ("qsub: would exceed queue generic's per-user limit of jobs in 'Q' state", FEWER),
        ("qsub: would exceed complex's per-user limit", FEWER),
        (
            "qsub: would exceed queue workq's per-user limit on resource mem",
            "Start fewer workers at a time, or ask for less",
        ),
        ("qsub: Array job exceeds server or queue size limit", FEWER),
        ("qsub: Maximum number of jobs for user already in queue workq", FEWER),
        ("qsub: Unknown queue", "Set script.queue"),
        ("qsub: Unauthorized Request ", "Choose another script.queue"),
        ("qsub: Queue is not enabled", "Choose another script.queue"),
        ("qsub: Unknown resource: nope", "Correct the -l"),
        ("qsub: Illegal attribute or resource value Resource_List.walltime", "Correct the -l"),
    ],
)
def test_the_remedy_for_a_refusal_of_pbs(text: str, remedy: str) -> None:
    assert_fits(pbs.COMMANDS, text, remedy)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            (
                "Unable to run job: job rejected: Only 10 jobs are allowed per user (current job "
                "count: 10)"
            ),
            FEWER,
        ),
        (
            "Unable to run job: job rejected: you tried to submit a job with more than 75000 tasks",
            FEWER,
        ),
        (
            'Unable to run job: job rejected: the requested project "nope" does not exist',
            "Name your project",
        ),
        ("Unable to read script file because of error: error opening /project/w.sh: No such", ""),
        ('Unable to run job: attribute "h_rt" is not a time value', "Correct the -l"),
        ("Unable to run job: error: no suitable queues", "Lower script.cores, script."),
        (
            'Unable to run job: job rejected: the requested parallel environment "nope" does not',
            "Set script.parallel_environment",
        ),
    ],
)
def test_the_remedy_for_a_refusal_of_grid_engine(text: str, remedy: str) -> None:
    assert_fits(sge.COMMANDS, text, remedy)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Too many processors requested. Job not submitted.", "Lower script.cores"),
        ("RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.", "Lower script.wall"),
        ("MEMLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.", "Lower script.mem"),
        ("Pending job threshold reached. Retrying in 60 seconds...", FEWER),
        ("normal: User permission denied. Job not submitted.", "Choose another script.queue"),
    ],
)
def test_the_remedy_for_a_refusal_of_lsf(text: str, remedy: str) -> None:
    assert_fits(lsf.COMMANDS, text, remedy)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("There are not enough resources for your request\nOAR_JOB_ID=-5", "Lower script.cores"),
        ("ERROR : The queue nope does not exist", "Set script.queue"),
    ],
)
def test_the_remedy_for_a_refusal_of_oar(text: str, remedy: str) -> None:
    assert_fits(oar.COMMANDS, text, remedy)


SUBMITTING = "Submitting job(s)\nERROR: "


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ERROR: Can't find address of local schedd", "HTCondor's schedd does not answer"),
        (
            (
                f"{SUBMITTING}Failed to connect to local queue manager\n"
                "SECMAN:2007:Failed to end classad message."
            ),
            "HTCondor's schedd does not answer",
        ),
        (
            (
                f"{SUBMITTING}Failed to connect to local queue manager\n"
                "AUTHENTICATE:1003:Failed to authenticate with any method"
            ),
            "HTCondor does not know you",
        ),
        (f"{SUBMITTING}Failed to create cluster\nUser is disabled", "Ask your site"),
        (
            (f"{SUBMITTING}Failed to create cluster\nThe given user is not allowed to own jobs"),
            "Ask your site",
        ),
        (
            (
                f"{SUBMITTING}Failed to create proc\n"
                "Number of submitted jobs would exceed MAX_JOBS_PER_OWNER"
            ),
            FEWER,
        ),
        (f"{SUBMITTING}Failed to parse command file (line 7).", "Correct script.extra_args"),
        (
            f"{SUBMITTING}Parse error in expression: \n\tRequirements = (OpSys ==\n\t",
            "Correct script.extra_args",
        ),
        (f"{SUBMITTING}on Line 7 of -: invalid queue statement.", "Correct script.extra_args"),
        (
            f'{SUBMITTING}Can\'t open "/work/w1.log"  with flags 01101 (No such file or directory)',
            "Make the directory of worker.log_file",
        ),
        (
            (
                f"{SUBMITTING}Failed to commit job submission into the queue.\n"
                "ERROR: This pool does not accept jobs without a project."
            ),
            "Your site refuses such jobs",
        ),
        (
            (
                f"{SUBMITTING}Failed to commit job submission into the queue.\n"
                "ERROR: Set accounting_group to one of yours."
            ),
            "Name your group",
        ),
    ],
)
def test_the_remedy_for_a_refusal_of_htcondor(text: str, remedy: str) -> None:
    assert_fits(htcondor.COMMANDS, text, remedy)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Unable to connect to Flux: broker socket /run/flux/local was not found", "Flux does not"),
        ("Invalid queue 'nope' specified", "Set script.queue"),
        ("'nope' is not a valid queue", "Set script.queue"),
        (
            'queue "nope" is unknown to flux-accounting and deny-unknown-queues is enabled',
            "Set script.queue",
        ),
        (
            'queue "gpu" not valid for user; valid queues for user: main',
            "Choose another script.queue",
        ),
        (
            'project "nope" not valid for user; valid projects for user: chem',
            "Change the --setattr=project",
        ),
        (
            (
                "job size (1 node(s), 64 core(s)) is greater than max resources limits configured "
                "for association (4 node(s), 16 core(s))"
            ),
            "Lower script.cores",
        ),
        ("job submission to main is disabled: down until noon", "Choose another script.queue"),
        (
            "unsatisfiable request",
            "Lower script.cores, or change script.queue",
        ),
        ("requested duration (1d) exceeds policy limit of 12h for queue main", "Lower script.wall"),
        ("requested duration (unlimited) exceeds policy limit of 12h", "Lower script.walltime"),
        ("requested ncores exceeds policy limit of 64", "Lower script.cores"),
        ("requested ncores is under policy limit of 32", "Raise script.cores"),
        ("requested ngpus exceeds policy limit of 2", "Change gpus"),
        ("user has max active jobs", FEWER),
        (
            "cannot find user/bank or user/default bank entry for uid: 1001",
            "Name your bank",
        ),
        ("error: unrecognized arguments: --nope", "Correct script.extra_args"),
    ],
)
def test_the_remedy_for_a_refusal_of_flux(text: str, remedy: str) -> None:
    assert_fits(flux.COMMANDS, f"flux-batch: ERROR: {text}", remedy)


def assert_fits(commands: Commands, text: str, remedy: str) -> None:
    error = commands.refusal("submit", CommandResult(1, "", text))
    assert error.remedy.startswith(remedy)
    assert bool(remedy) == bool(error.remedy)
