"""The output of Grain's commands becomes what AiiDA has for jobs and their ends. No I/O."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from aiida.engine.processes.exit_code import ExitCode
from aiida.schedulers import SchedulerParsingError
from aiida.schedulers.datastructures import JobInfo, JobState, MachineInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES = {
    "waiting": JobState.QUEUED,
    "impossible": JobState.QUEUED_HELD,
    "running": JobState.RUNNING,
    "done": JobState.DONE,
    "failed": JobState.DONE,
    "timed out": JobState.DONE,
    "out of memory": JobState.DONE,
    "cancelled": JobState.DONE,
    "lost": JobState.DONE,
}
"""The states of ``grain jobs``."""

# Reasons for which a job waits though there may be a worker for it.
_HELD = {
    "on hold",
    "for other jobs",
    "for its begin time",
}

_EXIT_CODES = {
    "out of memory": "ERROR_SCHEDULER_OUT_OF_MEMORY",
    "timed out": "ERROR_SCHEDULER_OUT_OF_WALLTIME",
    "lost": "ERROR_SCHEDULER_NODE_FAILURE",
}

NOT_FINISHED = 199
"""The exit status of a calculation whose job was cancelled or killed, or could not be started.

AiiDA has none for these. Its own are below, and those of calculations begin with 200.
"""

# Ends of an attempt at which the script did not come to its end.
_UNFINISHED = {"cancelled": "cancelled", "signal": "killed", "start": "not started"}


def job_id(stdout: str) -> str:
    """Return the id of a job that was submitted, as ``queue:12``.

    Args:
        stdout: what ``grain submit --json`` has printed.

    Raises:
        SchedulerParsingError: it is not that.
    """
    for one in _objects(stdout):
        if isinstance(one, dict) and isinstance(one.get("job"), int) and "queue" in one:
            return f"{one['queue']}:{one['job']}"
    raise SchedulerParsingError(f"this does not say which job was submitted: {stdout!r}")


def job_infos(stdout: str) -> list[JobInfo]:
    """Return the jobs in a list, which may be several lists one after the other.

    Args:
        stdout: what ``grain jobs --json`` has printed.

    Raises:
        SchedulerParsingError: it is not that, or not all of it.
    """
    return [_job_info(one) for one in _jobs(stdout)]


def exit_code(stdout: str) -> ExitCode | None:
    """Return how the job of a calculation ended; None if its script came to its end.

    The exit status of the script says nothing about the calculation, so it is left to the parser.

    Args:
        stdout: what ``grain jobs --json`` has printed of the job.

    Raises:
        SchedulerParsingError: it is not that.
    """
    from aiida.engine import CalcJob

    for one in _jobs(stdout):
        if name := _EXIT_CODES.get(one["state"]):
            found: ExitCode = getattr(CalcJob.exit_codes, name)
            return found
        last = _last_attempt(one)
        if last is not None and last["how"] in _UNFINISHED:
            why = f": {last['message']}" if last["message"] else ""
            signal = f" by signal {last['signal']}" if last["how"] == "signal" else ""
            message = f"The job was {_UNFINISHED[last['how']]}{signal}{why}."
            return ExitCode(NOT_FINISHED, message, invalidates_cache=True)
    return None


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON values in a text, one after the other."""
    decoder = json.JSONDecoder()
    text = text.strip()
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            raise SchedulerParsingError(f"this is not JSON, or not all of it: {text!r}") from None
        yield value
        text = text[end:].lstrip()


def _jobs(stdout: str) -> Iterator[dict[str, Any]]:
    lists = list(_objects(stdout))
    if not lists:
        raise SchedulerParsingError("the command has printed nothing")
    for one in lists:
        if not isinstance(one, list):
            raise SchedulerParsingError(f"this is not a list of jobs: {one!r}")
        for job in one:
            if not isinstance(job, dict) or not {"job", "queue", "state"} <= job.keys():
                raise SchedulerParsingError(f"this is not a job: {job!r}")
            yield job


def _last_attempt(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the last attempt of a job that is not an array; None if it has not begun."""
    attempts = job["attempts"].get(str(job["job"]), ())
    return attempts[-1] if attempts else None


def _job_info(job: dict[str, Any]) -> JobInfo:
    info = JobInfo()
    info.job_id = f"{job['queue']}:{job['job']}"
    state = STATES.get(job["state"], JobState.UNDETERMINED)
    info.job_state = JobState.QUEUED_HELD if job["reason"] in _HELD else state
    info.annotation = job["reason"] or job["state"]
    info.title = job["name"]
    info.job_owner = job["user"]
    info.queue_name = job["queue"]
    gang = job["request"].get("Gang", {"count": 1, "of": job["request"]})
    info.num_machines = gang["count"]
    cores = gang["of"].get("Cores", 0)
    if isinstance(cores, int):  # and not all of a worker, or a part of one, by a line of the user
        info.num_cpus = cores * gang["count"]
    info.submission_time = _time(job["submitted"])
    if job["time_limit"]:
        info.requested_wallclock_time_seconds = round(job["time_limit"])
    last = _last_attempt(job)
    # One that has ended without a worker was cancelled before it began.
    if last is not None and state not in (JobState.QUEUED, JobState.QUEUED_HELD):
        info.dispatch_time = _time(last["began"])
        info.allocated_machines = []
        # A Grain on the computer that is older has no list.
        for host in last.get("hosts") or [last["host"]]:
            machine = MachineInfo()
            machine.name = host
            info.allocated_machines.append(machine)
        if last["ended"]:
            info.finish_time = _time(last["ended"])
            info.wallclock_time_seconds = round(last["seconds"])
            info.cpu_time = round(last["cpu_seconds"])
        if last["exit_status"] is not None:
            info.exit_status = last["exit_status"]
        if last["signal"]:
            info.terminating_signal = last["signal"]
    return info


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
