"""LSF, by bsub, bjobs and bkill; after the manual of LSF 10.1, not tried."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from grain.cli.batch.answers import by_name, complains_only, or_gone, reading
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands
from grain.cli.batch.scripts.directives import amount, gpus_of, options, plain_name, whole, word
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob

_FORMAT = "jobid stat exec_host pend_reason"
_SILENT = ("LSF is down", "Failed in an LSF library call", "batch daemon not responding")
_REMEDIES = (
    *((text, "LSF does not answer; try again later.") for text in _SILENT),
    ("No such queue", "Set script.queue to a queue that there is; `bqueues` lists them."),
    ("cannot be used", "Choose another script.queue; `bqueues -l` shows who may use which."),
    ("RUNLIMIT", "Lower script.walltime; `bqueues -l` shows the limits."),
    ("MEMLIMIT", "Lower script.memory; `bqueues -l` shows the limits."),
    ("Too many processors", "Lower script.cores; `bqueues -l` shows the limits."),
    ("slot limit", "Start fewer workers at a time: your site limits the slots of a user."),
    ("Bad resource requirement", "Correct the -R in script.extra_args."),
    ("ermission denied", "Choose another script.queue; `bqueues -l` shows who may use which."),
    ("ending job threshold", "Start fewer workers at a time: your site limits waiting jobs."),
    ("project", "Name your project in script.extra_args, as in '-P chem'."),
    ("llegal option", "Correct script.extra_args, or what you wrote after `--`."),
)
COMMANDS = Commands("lsf", ("bsub", "bjobs", "bkill"), ("bqueues",), _REMEDIES, _SILENT)

_ENDED = "already (been )?finished|No matching job|is being|is not found"  # of a job, by bkill
_PHASES = {
    **dict.fromkeys(("PEND", "WAIT", "PROV", "FWD_PEND"), JobPhase.PENDING),
    "PSUSP": JobPhase.STUCK,
    **dict.fromkeys(("RUN", "USUSP", "SSUSP", "UNKWN"), JobPhase.RUNNING),
    **dict.fromkeys(("DONE", "EXIT", "ZOMBI"), JobPhase.GONE),
}


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    return whole(job, "#BSUB", (*_directives(job), *options(job)), body(job))


def _directives(job: BatchJob) -> Iterator[str]:
    asked = job.script
    yield f"-J {word(plain_name(job.name))}"
    if job.log_file:
        yield f"-o {word(job.log_file)}"
    if asked.cores is not None:
        yield f"-n {asked.cores}"
    needs = ["span[hosts=1]"]
    if asked.memory is not None:
        # With its unit: sites choose that of a bare number.
        size = amount(asked.memory, "GB", "MB")
        yield f"-M {size}"
        needs.append(f"rusage[mem={size}]")
    yield f'-R "{" ".join(needs)}"'
    if gpus := gpus_of(job):
        yield f'-gpu "num={gpus}"'
    if asked.walltime is not None:
        minutes = math.ceil(asked.walltime / 60)
        yield f"-W {minutes // 60}:{minutes % 60:02}"
    if asked.queue:
        yield f"-q {word(asked.queue)}"
    if job.warning is not None:
        yield f"-wa USR1 -wt {max(1, math.ceil(job.warning / 60))}"


def submitted_id(output: str) -> str:
    """Read the job's number from the output of ``bsub``: ``Job <1> is submitted to ...``."""
    match = re.search(r"Job <(\d+)> is submitted", output)
    return match[1] if match else ""


def named(output: str) -> list[tuple[str, str]]:
    """Read ``bjobs -json``: ids and names of jobs; nothing for none."""
    with reading("bjobs -json", output):
        records = json.loads(output)["RECORDS"] if output.strip() else []
        return [(str(one["JOBID"]), str(one["JOB_NAME"])) for one in records if "JOB_NAME" in one]


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``bjobs -json``; a job with an error, and one that is not listed, has ended."""
    with reading("bjobs -json", output):
        records = json.loads(output)["RECORDS"]
        by_id = {
            str(one["JOBID"]): _state(
                one["STAT"], one.get("PEND_REASON") or "", one.get("EXEC_HOST") or ""
            )
            for one in records
            if "STAT" in one
        }
    return or_gone(by_id, ids)


def _state(word: str, reason: str, hosts: str) -> JobState:
    phase = _PHASES.get(word, JobPhase.UNKNOWN)
    # `16*n1`, or `n1:n1`.
    node = hosts.split(":")[0].rpartition("*")[2]
    if phase is JobPhase.PENDING:
        return JobState(phase, reason)
    usual = {"RUN", "DONE"}
    return JobState(phase, "" if word in usual else f"{word} {reason}".strip(), node)


class System(BatchSystem):
    """IBM Spectrum LSF."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: sites limit arrays, and their tasks count from 1."""
        for member in job.members(n):
            # From standard input: `bsub FILE` ignores the directives.
            text = script(member)
            number = COMMANDS.accepted(["bsub"], [member], submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query bjobs; it fails for a job that LSF has forgotten, and answers all the same."""
        command = ["bjobs", "-a", "-o", _FORMAT, "-json", *ids]
        return states(COMMANDS.answer(command, lambda done: bool(done.out.strip())), ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query bjobs for all jobs of this user, also those that ended within the hour."""
        out = COMMANDS.answer(
            ["bjobs", "-a", "-o", "jobid job_name", "-json"],
            lambda done: "No job found" in done.err or bool(done.out.strip()),
        )
        return by_name(named(out), names, plain_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGINT, SIGTERM and SIGKILL to all their processes, 10 s apart."""
        # Job 0 means all jobs of this user.
        if asked := [one for one in ids if one.isdecimal() and int(one)]:
            command = ["bkill", *asked]
            COMMANDS.answer(command, lambda done: complains_only(_ENDED, done.out + done.err))
