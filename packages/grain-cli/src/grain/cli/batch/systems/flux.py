"""Flux, by the command `flux`: its bindings for Python need the site's own interpreter.

After flux-core's manual, not tried. Flux cannot be asked for memory: a job that needs some of it
takes the whole node.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grain.cli.batch.answers import by_name, complains_only, last_line, reading
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands
from grain.cli.batch.scripts.directives import gpus_of, options, whole, word
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob
    from grain.cli.batch.command import CommandResult

_SILENT = ("Unable to connect to Flux", "ERROR: Unable to connect", "connection refused")
_REMEDIES = (
    *((text, "Flux does not answer; try again later.") for text in _SILENT),
    *(
        (text, "Set script.queue to a queue that there is; `flux queue list` lists them.")
        for text in ("nvalid queue", "not a valid queue", "is unknown to", "no queue")
    ),
    ("valid queues for user", "Choose another script.queue: that one is not open to you."),
    ("job submission", "Choose another script.queue: that one takes no jobs at present."),
    (
        "unsatisfiable",
        "Lower script.cores, or change script.queue; `flux resource list` shows what there is.",
    ),
    ("requested duration", "Lower script.walltime, or set it; your site limits it."),
    ("requested ngpus", "Change gpus of the shape, or the GPUs in script.extra_args."),
    ("is under policy limit", "Raise script.cores: your site has a least number."),
    *(
        (text, "Lower script.cores; your site limits them.")
        for text in ("exceeds policy limit", "greater than max resources limit")
    ),
    ("max active jobs", "Start fewer workers at a time: your site limits the number of jobs."),
    ("valid projects for user", "Change the --setattr=project in script.extra_args."),
    ("bank", "Name your bank in script.extra_args, as in '--setattr=bank=chem'."),
    ("unrecognized arguments", "Correct script.extra_args, or what you wrote after `--`."),
)
COMMANDS = Commands("flux", ("flux",), ("flux", "jobs"), _REMEDIES, _SILENT)

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
    return whole(job, "# flux:", (*_directives(job), *options(job)), body(job))


def _directives(job: BatchJob) -> Iterator[str]:
    asked = job.script
    yield f"--job-name={word(job.name)}"
    if job.log_file:
        yield f"--output={word(job.log_file)}"
    yield "-N1 -n1" + (f" -c{asked.cores}" if asked.cores is not None else "")
    if gpus := gpus_of(job):
        yield f"-g{gpus}"
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
    last = last_line(output)
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
    with reading("flux jobs --json", output):
        data = json.loads(output) if output.strip() else {}
        listed = data.get("jobs", [data] if data else [])
        by_number = {int(one["id"]): _state(one) for one in listed}
    return {one: by_number.get(number(one), JobState(JobPhase.GONE)) for one in ids}


def _state(job: dict[str, Any]) -> JobState:
    phase = _PHASES.get(job["state"], JobPhase.UNKNOWN)
    node = str(job.get("nodelist") or "")
    if phase is JobPhase.PENDING and job.get("urgency") == 0:
        return JobState(JobPhase.STUCK, "held (urgency 0)")
    if phase is JobPhase.GONE:
        return JobState(phase, str(job.get("result") or ""), node)
    return JobState(phase, "" if phase in _PHASES.values() else str(job["state"]), node)


class System(BatchSystem):
    """Flux, of a whole cluster or within an allocation."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, as Flux has no arrays."""
        for member in job.members(n):
            command, text = ["flux", "batch"], script(member)
            number = COMMANDS.accepted(
                command, [member], submitted_id, title="flux batch", stdin=text
            )
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query flux jobs; it fails for an unknown job, and answers for the others."""
        own = [one for one in ids if is_id(one)]
        command = ["flux", "jobs", "-a", "--json", *own]
        out = COMMANDS.answer(command, _only_ended, title="flux jobs") if own else ""
        return {**dict.fromkeys(ids, JobState(JobPhase.UNKNOWN)), **states(out, own)}

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query flux jobs for all jobs of this user, also those that have ended."""
        command = ["flux", "jobs", "-a", "--no-header", "--format={id.f58} {name}"]
        return by_name(named(COMMANDS.answer(command, title="flux jobs")), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGTERM, and SIGKILL 5 s later."""
        if asked := [one for one in ids if is_id(one)]:
            COMMANDS.answer(["flux", "cancel", *asked], _only_ended, title="flux cancel")


def _only_ended(done: CommandResult) -> bool:
    return complains_only(r"job is inactive|JobID \S+ unknown|unknown job", done.err)
