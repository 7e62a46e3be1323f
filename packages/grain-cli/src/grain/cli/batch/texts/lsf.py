"""The scripts and answers of LSF, as text. Pure; after the manual of LSF 10.1, not tried."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import unreadable
from grain.cli.batch.scripts.directives import amount, options, plain_name, word
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

FORMAT = "jobid stat exec_host pend_reason"
SILENT = ("LSF is down", "Failed in an LSF library call", "batch daemon not responding")
REMEDIES = (
    *((text, "LSF does not answer; try again later.") for text in SILENT),
    ("No such queue", "Set script.queue to a queue that there is; `bqueues` lists them."),
    ("cannot be used", "Choose another script.queue; `bqueues -l` shows who may use which."),
    ("RUNLIMIT", "Lower script.walltime; `bqueues -l` shows the limits."),
    ("MEMLIMIT", "Lower script.memory; `bqueues -l` shows the limits."),
    ("slot limit", "Lower script.cores; `bqueues -l` shows the limits."),
    ("Bad resource requirement", "Correct the -R in script.extra_args."),
    ("ending job threshold", "Start fewer workers at a time: your site limits waiting jobs."),
    ("project", "Name your project in script.extra_args, as in '-P chem'."),
    ("llegal option", "Correct script.extra_args, or what you wrote after `--`."),
)

_PHASES = {
    **dict.fromkeys(("PEND", "WAIT", "PROV", "FWD_PEND"), JobPhase.PENDING),
    "PSUSP": JobPhase.STUCK,
    **dict.fromkeys(("RUN", "USUSP", "SSUSP", "UNKWN"), JobPhase.RUNNING),
    **dict.fromkeys(("DONE", "EXIT", "ZOMBI"), JobPhase.GONE),
}


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    lines = [job.script.shebang]
    lines += [f"#BSUB {line}" for line in (*_directives(job), *options(job))]
    return "\n".join(lines) + "\n\n" + body(job)


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
    try:
        records = json.loads(output)["RECORDS"] if output.strip() else []
        return [(str(one["JOBID"]), str(one["JOB_NAME"])) for one in records if "JOB_NAME" in one]
    except (ValueError, LookupError, TypeError):
        raise unreadable("bjobs -json", output) from None


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``bjobs -json``; a job with an error, and one that is not listed, has ended."""
    try:
        records = json.loads(output)["RECORDS"]
        by_id = {
            str(one["JOBID"]): _state(
                one["STAT"], one.get("PEND_REASON") or "", one.get("EXEC_HOST") or ""
            )
            for one in records
            if "STAT" in one
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable("bjobs -json", output) from None
    return {one: by_id.get(one, JobState(JobPhase.GONE)) for one in ids}


def _state(word: str, reason: str, hosts: str) -> JobState:
    phase = _PHASES.get(word, JobPhase.UNKNOWN)
    # `16*n1`, or `n1:n1`.
    node = hosts.split(":")[0].rpartition("*")[2]
    if phase is JobPhase.PENDING:
        return JobState(phase, reason)
    usual = {"RUN", "DONE"}
    return JobState(phase, "" if word in usual else f"{word} {reason}".strip(), node)


def only_ended(output: str) -> bool:
    """Return True if ``bkill`` complains only of jobs that have ended."""
    lines = [line for line in output.splitlines() if line.strip()]
    return all(
        re.search(r"already (been )?finished|No matching job|is being|is not found", line)
        for line in lines
    )
