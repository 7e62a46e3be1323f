"""The submit descriptions and answers of HTCondor, as text. Pure; after its manual, not tried.

A job's script is a file, which /bin/sh replaces itself by: so its first line holds. Walltimes are
the script's own affair, as HTCondor has no such limit.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchError, unreadable
from grain.cli.batch.scripts.directives import check
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

ATTRIBUTES = "ClusterId,ProcId,JobStatus,HoldReason,RemoteHost"
SILENT = ("Failed to connect to", "Can't connect to", "Failed to fetch ads", "Can't find address")
REMEDIES = (
    *((text, "HTCondor's schedd does not answer; try again later.") for text in SILENT),
    ("MAX_JOBS", "Start fewer workers at a time: your site limits the number of jobs."),
    ("accounting", "Name your group in script.extra_args, as in 'accounting_group = chem'."),
    ("Failed to parse", "Correct script.extra_args: each is a line of a submit description."),
)

_PHASES = {
    1: JobPhase.PENDING, 2: JobPhase.RUNNING, 3: JobPhase.ENDING, 4: JobPhase.GONE,
    5: JobPhase.STUCK, 6: JobPhase.RUNNING, 7: JobPhase.RUNNING,
}  # fmt: skip


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    return f"{job.script.shebang}\n\n{body(job)}"


def description(job: BatchJob, path: str, folder: str) -> str:
    """Return the submit description of one job.

    Args:
        path: the file of its script, which the nodes can read.

    Raises:
        BatchError: the job asks for what HTCondor does not have.
    """
    return "".join(f"{line}\n" for line in (*_lines(job, path, folder), "queue"))


def _lines(job: BatchJob, path: str, folder: str) -> Iterator[str]:
    asked = job.script
    if asked.queue:
        raise BatchError(
            f"script.queue: HTCondor has no queues, so it cannot be {asked.queue!r}",
            remedy="Leave it unset; script.extra_args takes lines of a submit description, as in "
            "'requirements = (OpSysMajorVer == 9)'.",
        )
    yield f"batch_name = {_value(job.name)}"
    yield "executable = /bin/sh"
    yield "transfer_executable = False"
    yield "arguments = " + _arguments("-c", 'exec "$0"', path)
    yield f"initialdir = {_value(folder)}"
    yield "getenv = False"
    yield "should_transfer_files = IF_NEEDED"
    if job.log_file:
        yield f"output = {_value(job.log_file)}"
        yield f"error = {_value(job.log_file)}"
        # Otherwise it appears when the job has ended.
        yield "stream_output = True"
        yield "stream_error = True"
    yield "want_graceful_removal = True"
    if job.grace is not None:
        yield f"job_max_vacate_time = {job.grace}"
    if asked.cores is not None:
        yield f"request_cpus = {asked.cores}"
    if asked.memory is not None:
        yield f"request_memory = {max(1, math.ceil(asked.memory * 1024))}"
    for line in asked.extra_args:
        if not line:
            continue
        check(line)
        if not re.match(r"\+?\w+\s*=", line):
            raise BatchError(
                f"script.extra_args: found {line!r}, expected a line of a submit description",
                remedy="Such a line is as in 'accounting_group = chem'.",
            )
        yield line


def _value(text: str) -> str:
    check(text)
    return text


def _arguments(*words: str) -> str:
    """Quote arguments: the whole in double quotes, each in single ones, both doubled within."""
    quoted = [f"'{_value(word).replace(chr(39), chr(39) * 2)}'" for word in words]
    return '"' + " ".join(quoted).replace('"', '""') + '"'


def submitted_id(output: str) -> str:
    """Read the job's id from the output of ``condor_submit -terse``: ``1.0 - 1.0``."""
    match = re.search(r"^(\d+\.\d+) - \d+\.\d+\s*$", output, re.MULTILINE)
    return match[1] if match else ""


def named(output: str) -> list[tuple[str, str]]:
    """Read ``condor_q -json``: ids and names of jobs; nothing for none."""
    try:
        jobs = json.loads(output) if output.strip() else []
        return [
            (f"{one['ClusterId']}.{one['ProcId']}", str(one.get("JobBatchName", "")))
            for one in jobs
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable("condor_q -json", output) from None


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``condor_q -json``, which prints nothing for no jobs; what is not listed has ended."""
    try:
        jobs = json.loads(output) if output.strip() else []
        by_id = {f"{one['ClusterId']}.{one['ProcId']}": _state(one) for one in jobs}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable("condor_q -json", output) from None
    return {one: by_id.get(one, JobState(JobPhase.GONE)) for one in ids}


def _state(job: dict[str, Any]) -> JobState:
    phase = _PHASES.get(job["JobStatus"], JobPhase.UNKNOWN)
    reason = str(job.get("HoldReason") or "") if phase is JobPhase.STUCK else ""
    running = phase in {JobPhase.RUNNING, JobPhase.ENDING}
    # `slot1_2@n1.example.org`
    node = str(job.get("RemoteHost") or "").rpartition("@")[2] if running else ""
    return JobState(phase, reason, node)


def only_ended(output: str) -> bool:
    """Return True if ``condor_rm`` complains only of jobs that have ended."""
    lines = [line for line in output.splitlines() if line.strip()]
    return all(re.search(r"not found|marked for removal|already", line) for line in lines)
