"""The scripts and answers of Flux, as text. Pure; after flux-core's manual, not tried.

Flux cannot be asked for memory: a job that needs some of it takes the whole node.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import unreadable
from grain.cli.batch.scripts.directives import options, word
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

SILENT = ("Unable to connect to Flux", "ERROR: Unable to connect", "connection refused")
REMEDIES = (
    *((text, "Flux does not answer; try again later.") for text in SILENT),
    ("nvalid queue", "Set script.queue to a queue that there is; `flux queue list` lists them."),
    ("no queue", "Set script.queue to a queue that there is; `flux queue list` lists them."),
    (
        "unsatisfiable",
        "Lower script.cores, or change script.queue; `flux resource list` shows what there is.",
    ),
    ("exceeds policy limit", "Lower script.walltime or script.cores; your site limits both."),
    ("max jobs limit", "Start fewer workers at a time: your site limits the number of jobs."),
    ("bank", "Name your bank in script.extra_args, as in '--setattr=bank=chem'."),
    ("unrecognized arguments", "Correct script.extra_args, or what you wrote after `--`."),
)

_PHASES = {
    **dict.fromkeys(("NEW", "DEPEND", "PRIORITY", "SCHED"), JobPhase.PENDING),
    "RUN": JobPhase.RUNNING,
    "CLEANUP": JobPhase.ENDING,
    "INACTIVE": JobPhase.GONE,
}
_ID = re.compile(r"[ƒf][1-9A-HJ-NP-Za-km-z]+")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    lines = [job.script.shebang]
    lines += [f"# flux: {line}" for line in (*_directives(job), *options(job))]
    return "\n".join(lines) + "\n\n" + body(job)


def _directives(job: BatchJob) -> Iterator[str]:
    asked = job.script
    yield f"--job-name={word(job.name)}"
    if job.log_file:
        yield f"--output={word(job.log_file)}"
    yield "-N1 -n1" + (f" -c{asked.cores}" if asked.cores is not None else "")
    if asked.memory is not None:
        yield "--exclusive"
    if asked.walltime is not None:
        # A bare number would be minutes.
        yield f"--time-limit={asked.walltime}s"
    if asked.queue:
        yield f"--queue={word(asked.queue)}"
    if job.warning is not None:
        yield f"--signal=USR1@{job.warning}s"


def submitted_id(output: str) -> str:
    """Read the job's id from the output of ``flux batch``: ``ƒM7Zq9``, or ``fM7Zq9`` in ASCII."""
    lines = output.strip().splitlines() or [""]
    last = lines[-1].strip()
    return last if _ID.fullmatch(last) else ""


def is_id(text: str) -> bool:
    """Return True for an id as `submitted_id` returns it."""
    return bool(_ID.fullmatch(text))


def number(job: str) -> int:
    """Return the number behind an id in base 58, in which the answers have it.

    >>> number("ƒ1"), number("f2i")
    (0, 99)
    """
    value = 0
    for digit in job[1:]:
        value = value * 58 + _BASE58.index(digit)
    return value


def named(output: str) -> list[tuple[str, str]]:
    """Read lines of ``flux jobs`` with an id in base 58 and a name."""
    pairs = (line.strip().partition(" ") for line in output.splitlines())
    return [(one, name) for one, _, name in pairs if is_id(one)]


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``flux jobs --json``: one job, or several in ``jobs``; what is not listed has ended."""
    try:
        data = json.loads(output) if output.strip() else {}
        listed = data.get("jobs", [data] if data else [])
        by_number = {int(one["id"]): _state(one) for one in listed}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise unreadable("flux jobs --json", output) from None
    return {one: by_number.get(number(one), JobState(JobPhase.GONE)) for one in ids}


def _state(job: dict[str, Any]) -> JobState:
    phase = _PHASES.get(job["state"], JobPhase.UNKNOWN)
    node = str(job.get("nodelist") or "")
    if phase is JobPhase.PENDING and job.get("urgency") == 0:
        return JobState(JobPhase.STUCK, "held (urgency 0)")
    if phase is JobPhase.GONE:
        return JobState(phase, str(job.get("result") or ""), node)
    return JobState(phase, "" if phase in _PHASES.values() else str(job["state"]), node)


def only_ended(output: str) -> bool:
    """Return True if Flux complains only of jobs that have ended."""
    lines = [line for line in output.splitlines() if line.strip()]
    return all(re.search(r"job is inactive|JobID \S+ unknown|unknown job", line) for line in lines)
