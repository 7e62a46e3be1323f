"""The scripts and answers of OAR, as text. Pure; the texts are those of OAR 2.5.9.

OAR reads a directive to the end of its line: nothing is quoted, and an option and its value stand
on a line of their own.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchError, unreadable
from grain.cli.batch.scripts.directives import check, options, plain_name
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

SILENT = ("Cannot connect to database", "DB connection", "Connection refused")
REMEDIES = (
    *((text, "OAR's server does not answer; try again later.") for text in SILENT),
    ("The queue", "Set script.queue to a queue that there is; `oarstat -q` lists them."),
    (
        "not enough resources",
        "Lower script.cores, or change script.memory_resource; `oarnodes` shows what there is.",
    ),
    ("Bad resource request", "Correct script.memory_resource, or the -l in script.extra_args."),
    ("Not able to scan", "Write script.extra_args as '-t TYPE': the option, a space, its value."),
    ("project", "Name your project in script.extra_args, as in '--project chem'."),
    ("Unknown option", "Correct what you wrote after `--`."),
    ("Maximum number", "Start fewer workers at a time: your site limits the number of jobs."),
)

_PHASES = {
    **dict.fromkeys(("Waiting", "toLaunch", "Launching", "toAckReservation"), JobPhase.PENDING),
    "Hold": JobPhase.STUCK,
    **dict.fromkeys(("Running", "Suspended", "Resuming"), JobPhase.RUNNING),
    "Finishing": JobPhase.ENDING,
    **dict.fromkeys(("Terminated", "Error", "toError"), JobPhase.GONE),
}
_SIGUSR1 = 10


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    lines = [job.script.shebang]
    lines += [f"#OAR {line}" for line in (*_directives(job), *_extra(job))]
    return "\n".join(lines) + "\n\n" + body(job)


def _directives(job: BatchJob) -> Iterator[str]:
    asked = job.script
    yield f"-n {plain_name(job.name)}"
    if job.log_file:
        check(job.log_file)
        yield f"-O {job.log_file}"
        yield f"-E {job.log_file}"
    shape = "/nodes=1" + (f"/core={asked.cores}" if asked.cores is not None else "")
    if asked.walltime is not None:
        seconds = asked.walltime
        shape += f",walltime={seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"
    yield f"-l {shape}"
    if asked.memory is not None and asked.memory_resource:
        yield f"-p {asked.memory_resource}>={math.ceil(asked.memory)}"
    if asked.queue:
        check(asked.queue)
        yield f"-q {asked.queue}"
    if job.warning is not None:
        yield f"--checkpoint {job.warning}"
        yield f"--signal {_SIGUSR1}"


def _extra(job: BatchJob) -> Iterator[str]:
    """Yield the configuration's options; those of the command line are none of the script's."""
    yield from options(job, typed=False)


def submitted_id(output: str) -> str:
    """Read the job's number from the output of ``oarsub``: ``OAR_JOB_ID=5``; it may be negative."""
    match = re.search(r"^OAR_JOB_ID=(\d+)\s*$", output, re.MULTILINE)
    return match[1] if match else ""


def named(output: str) -> list[tuple[str, str]]:
    """Read ``oarstat -J``: ids and names of jobs."""
    try:
        jobs = json.loads(output) if output.strip() else {}
        return [(str(number), str(one.get("name") or "")) for number, one in jobs.items()]
    except (ValueError, AttributeError):
        raise unreadable("oarstat -J", output) from None


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``oarstat -J``, which prints nothing for unknown jobs: these have ended."""
    try:
        jobs = json.loads(output) if output.strip() else {}
        by_id = {str(number): _state(one) for number, one in jobs.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable("oarstat -J", output) from None
    return {one: by_id.get(one, JobState(JobPhase.GONE)) for one in ids}


def _state(job: dict[str, Any]) -> JobState:
    word = str(job["state"])
    phase = _PHASES.get(word, JobPhase.UNKNOWN)
    nodes = job.get("assigned_network_address") or [""]
    waits = phase in {JobPhase.PENDING, JobPhase.STUCK}
    usual = {"Waiting", "Running", "Terminated", "Finishing"}
    return JobState(phase, "" if word in usual else word, "" if waits else str(nodes[0]))


def only_ended(output: str) -> bool:
    """Return True if ``oardel`` complains only of jobs that have ended.

    Of a job that it does not know, it says that another user has it.
    """
    lines = [line for line in output.splitlines() if line.startswith("Cannot")]
    words = ("already killed", "finished", "not the right user")
    return bool(lines) and all(any(word in line for word in words) for line in lines)


def check_path(path: str) -> None:
    """Refuse a script's path that OAR would cut at a space.

    Raises:
        BatchError: there is a space in it.
    """
    if re.search(r"\s", path):
        raise BatchError(
            f"OAR takes no path with a space in it for a script: {path!r}",
            remedy="Set XDG_STATE_HOME to another directory.",
        )
