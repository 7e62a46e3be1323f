"""OAR, by oarsub, oarstat and oardel; the texts are those of OAR 2.5.9.

OAR reads a directive to the end of its line: nothing is quoted, and an option and its value stand
on a line of their own.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from grain.cli.batch.answers import by_name, or_gone, reading
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands, keep_script, scripts_folder
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import check, options, plain_name, refuse_gpus, whole
from grain.cli.batch.scripts.shell import body
from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob

_SILENT = ("Cannot connect to database", "DB connection", "Connection refused")
_REMEDIES = (
    *((text, "OAR's server does not answer; try again later.") for text in _SILENT),
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
COMMANDS = Commands("oar", ("oarsub", "oarstat", "oardel"), ("oarstat",), _REMEDIES, _SILENT)

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
    return whole(job, "#OAR", (*_directives(job), *options(job, typed=False)), body(job))


def _directives(job: BatchJob) -> Iterator[str]:
    asked = job.script
    refuse_gpus(
        job,
        "sites of OAR name GPUs differently, so Grain cannot ask for them",
        "Ask for them in extra_args of the shape, as in '-p \"gpu_count >= 2\"'.",
    )
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


def submitted_id(output: str) -> str:
    """Read the job's number from the output of ``oarsub``: ``OAR_JOB_ID=5``; it may be negative."""
    match = re.search(r"^OAR_JOB_ID=(\d+)\s*$", output, re.MULTILINE)
    return match[1] if match else ""


def named(output: str) -> list[tuple[str, str]]:
    """Read ``oarstat -J``: ids and names of jobs."""
    with reading("oarstat -J", output):
        jobs = json.loads(output) if output.strip() else {}
        return [(str(number), str(one.get("name") or "")) for number, one in jobs.items()]


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``oarstat -J``, which prints nothing for unknown jobs: these have ended."""
    with reading("oarstat -J", output):
        jobs = json.loads(output) if output.strip() else {}
        by_id = {str(number): _state(one) for number, one in jobs.items()}
    return or_gone(by_id, ids)


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


class System(BatchSystem):
    """OAR."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, each with a script of its own."""
        folder = scripts_folder()
        if re.search(r"\s", str(folder)):
            raise BatchError(
                f"OAR takes no path with a space in it for a script: {str(folder)!r}",
                remedy="Set XDG_STATE_HOME to another directory.",
            )
        for member in job.members(n):
            path = keep_script(folder, member.name, script(member))
            command = ["oarsub", *member.extra_args, "-S", str(path)]
            number = COMMANDS.accepted(command, [member], submitted_id)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query oarstat, which knows jobs that have ended, too."""
        words = [word for one in ids for word in ("-j", one)]
        return states(COMMANDS.answer(["oarstat", "-J", *words]), ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query oarstat for all jobs of this user, which lists none that has ended."""
        listed = named(COMMANDS.answer(["oarstat", "-J", "-u", user_name()]))
        return by_name(listed, names, plain_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGKILL to all their processes, at once."""
        for one in ids:
            # One by one: an exit status stands for one job.
            if one.isdecimal():
                COMMANDS.answer(["oardel", one], lambda done: only_ended(done.out + done.err))
