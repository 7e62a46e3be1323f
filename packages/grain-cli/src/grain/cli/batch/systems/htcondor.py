"""HTCondor, by condor_submit, condor_q and condor_rm; after its manual, not tried.

A job's script is a file, which /bin/sh replaces itself by: so its first line holds. Walltimes are
the script's own affair, as HTCondor has no such limit.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.cli.batch.answers import by_name, complains_only, or_gone, reading
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands, keep_script, scripts_folder
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import check, gpus_of
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob

_ATTRIBUTES = "ClusterId,ProcId,JobStatus,HoldReason,RemoteHost"
_SILENT = ("Failed to connect to", "Can't connect to", "Failed to fetch ads", "Can't find address")
_REMEDIES = (
    (
        "to authenticate",
        "HTCondor does not know you: renew your ticket or token, or ask your site.",
    ),
    *((text, "HTCondor's schedd does not answer; try again later.") for text in _SILENT),
    ("User is disabled", "Ask your site: its HTCondor takes no jobs of yours."),
    ("not allowed to own jobs", "Ask your site: its HTCondor takes no jobs of yours."),
    ("MAX_JOBS", "Start fewer workers at a time: your site limits the number of jobs."),
    ("accounting", "Name your group in script.extra_args, as in 'accounting_group = chem'."),
    *(
        (text, "Correct script.extra_args: each is a line of a submit description.")
        for text in ("Failed to parse", "Parse error in", "ERROR: on Line")
    ),
    ("with flags", "Make the directory of worker.log_file, where you may write."),
    (
        "Failed to commit",
        "Your site refuses such jobs; its own words follow. Change what they name.",
    ),
)
COMMANDS = Commands(
    "htcondor",
    ("condor_submit", "condor_q", "condor_rm"),
    ("condor_q", "-totals"),
    _REMEDIES,
    _SILENT,
)

_ENDED = "not found|marked for removal|already"  # of a job, by condor_rm
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
    if gpus := gpus_of(job):
        yield f"request_gpus = {gpus}"
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
    with reading("condor_q -json", output):
        jobs = json.loads(output) if output.strip() else []
        return [
            (f"{one['ClusterId']}.{one['ProcId']}", str(one.get("JobBatchName", "")))
            for one in jobs
        ]


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``condor_q -json``, which prints nothing for no jobs; what is not listed has ended."""
    with reading("condor_q -json", output):
        jobs = json.loads(output) if output.strip() else []
        by_id = {f"{one['ClusterId']}.{one['ProcId']}": _state(one) for one in jobs}
    return or_gone(by_id, ids)


def _state(job: dict[str, Any]) -> JobState:
    phase = _PHASES.get(job["JobStatus"], JobPhase.UNKNOWN)
    reason = str(job.get("HoldReason") or "") if phase is JobPhase.STUCK else ""
    running = phase in {JobPhase.RUNNING, JobPhase.ENDING}
    # `slot1_2@n1.example.org`
    node = str(job.get("RemoteHost") or "").rpartition("@")[2] if running else ""
    return JobState(phase, reason, node)


class System(BatchSystem):
    """HTCondor."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the submit description of the first job, and its script."""
        first = job.members(n)[0]
        path = str(scripts_folder() / f"{first.name}.sh")
        text = description(first, path, os.fspath(Path.cwd()))
        return f"{text}\n# {path}:\n{script(first)}"

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one, each with a script of its own."""
        for member in job.members(n):
            path = keep_script(scripts_folder(), member.name, script(member))
            text = description(member, str(path), os.fspath(Path.cwd()))
            words = ["condor_submit", "-terse", *member.extra_args]
            number = COMMANDS.accepted(words, [member], submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query condor_q, which lists no job that has ended."""
        words = ["condor_q", *ids, "-json", "-attributes", _ATTRIBUTES]
        return states(COMMANDS.answer(words), ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query condor_q for all jobs of this user, which lists none that has ended."""
        words = ["condor_q", "-json", "-attributes", "ClusterId,ProcId,JobBatchName"]
        return by_name(named(COMMANDS.answer(words)), names)

    def cancel(self, ids: Iterable[str]) -> None:
        """Remove jobs: SIGTERM to the script, SIGKILL to all after ``job_max_vacate_time``."""
        # A bare number would be a whole cluster of jobs, a name all jobs of a user.
        if asked := [one for one in ids if re.fullmatch(r"\d+\.\d+", one)]:
            command = ["condor_rm", *asked]
            COMMANDS.answer(command, lambda done: complains_only(_ENDED, done.out + done.err))
