"""qstat of PBS: jobs as a table, in full, or as JSON."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from fake_batch.model import OVER
from fake_batch.pbs import Matches, name_of, over
from fake_batch.pbs_words import Id
from fake_batch.words import Answer, Asked, Options

if TYPE_CHECKING:
    from fake_batch.model import Job
    from fake_batch.pbs import Pbs

QSTAT = {"-f": "full!", "-x": "history!", "-t": "subjobs!", "-F": "format"}
STATES = {"PENDING": "Q", "RUNNING": "R"}


def qstat(pbs: Pbs, asked: Asked) -> Answer:
    """The jobs that are asked for; by default those that have not ended."""
    given = Options(QSTAT, "qstat", 2).read(asked.argv)
    history = given.has("history")
    matches, err, code = pbs.find(given.rest, "qstat", history=history)
    if not given.rest:
        matches = [one for one in everything(pbs.cluster.jobs) if history or not over(one.jobs)]
    if given.has("subjobs"):
        matches = [part for one in matches for part in _with_parts(one)]
    shown = {str(one.name): _fields(pbs, one) for one in matches}
    if given.get("format") == "json":
        whole = {
            "timestamp": int(time.time()),
            "pbs_version": "23.06.06",
            "pbs_server": "pbs",
            "Jobs": shown,
        }
        return Answer(json.dumps(whole, indent=4) + "\n", err, code)
    form = _full if given.has("full") else _row
    return Answer("".join(form(name, fields) for name, fields in shown.items()), err, code)


def everything(jobs: list[Job]) -> list[Matches]:
    """All jobs and arrays, in the order of their submission."""
    matches: dict[Id, list[Job]] = {}
    for job in jobs:
        matches.setdefault(Id(job.number, job.array is not None, None), []).append(job)
    return [Matches(name, parts) for name, parts in matches.items()]


def _with_parts(one: Matches) -> list[Matches]:
    if not one.name.array or one.name.task is not None:
        return [one]
    return [one, *(Matches(name_of(job), [job]) for job in one.jobs)]


def _letter(pbs: Pbs, one: Matches) -> str:
    """F, or B of an array that has begun; X of a subjob that ended before its array did."""
    if one.name.array and one.name.task is None:
        if over(one.jobs):
            return "F"
        return "B" if any(job.started or job.state in OVER for job in one.jobs) else "Q"
    job = one.jobs[0]
    if job.state in OVER:
        siblings = [other for other in pbs.cluster.jobs if other.number == job.number]
        return "F" if over(siblings) else "X"
    return "E" if job.finals else STATES[job.state]


def _fields(pbs: Pbs, one: Matches) -> dict[str, Any]:
    job = one.jobs[0]
    asked: dict[str, Any] = {"ncpus": job.cores, "nodect": 1}
    if job.memory:
        asked["mem"] = f"{job.memory}mb"
    if job.limit is not None:
        minutes, seconds = divmod(int(job.limit), 60)
        asked["walltime"] = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    fields: dict[str, Any] = {
        "Job_Name": job.name,
        "job_state": _letter(pbs, one),
        "queue": job.queue,
        "Rerunable": str(job.requeues),
        "Resource_List": asked,
    }
    fields |= _of_array(one) if one.name.array and one.name.task is None else _of_job(job)
    fields["Variable_List"] = {"PBS_O_WORKDIR": job.cwd, "PBS_O_HOME": job.env.get("HOME", "")}
    return fields


def _of_job(job: Job) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if job.node:
        fields["exec_host"] = f"{job.node}/0*{job.cores}"
    if job.never or (job.state == "PENDING" and job.reason):
        fields["comment"] = job.never or "Not Running: Insufficient amount of resource: ncpus"
    if job.started:
        fields["run_count"] = job.restarts + 1
    if job.state in OVER and job.state != "NODE_FAIL":
        fields["Exit_status"] = _exit_status(job)
    return fields


def _of_array(one: Matches) -> dict[str, Any]:
    states = [job.state for job in one.jobs]
    indices = [job.array[1] for job in one.jobs if job.array]
    step = indices[1] - indices[0]
    counts = {
        "Queued": states.count("PENDING"),
        "Running": sum(job.state == "RUNNING" and not job.finals for job in one.jobs),
        "Exiting": sum(bool(job.finals) for job in one.jobs),
        "Expired": sum(state in OVER for state in states),
    }
    return {
        "array": "True",
        "array_state_count": " ".join(f"{name}:{count}" for name, count in counts.items()),
        "array_indices_submitted": f"{indices[0]}-{indices[-1]}" + (f":{step}" * (step > 1)),
    }


def _exit_status(job: Job) -> int:
    if job.state == "TIMEOUT":
        return -29
    return job.code[0] or (256 + job.code[1] if job.code[1] else 0)


def _full(name: str, fields: dict[str, Any]) -> str:
    lines = [f"Job Id: {name}"]
    for key, value in fields.items():
        if key == "Resource_List":
            lines += [f"    {key}.{one} = {amount}" for one, amount in value.items()]
        elif isinstance(value, dict):
            whole = ",".join(f"{one}={text}" for one, text in value.items())
            lines.append(_folded(f"    {key} = {whole}"))
        else:
            lines.append(_folded(f"    {key} = {value}"))
    return "\n".join(lines) + "\n\n"


def _folded(line: str) -> str:
    """Long values go on in the next line, after a tab."""
    parts = [line[:78], *(line[i : i + 70] for i in range(78, len(line), 70))]
    return "\n\t".join(parts)


def _row(name: str, fields: dict[str, Any]) -> str:
    return f"{name:<18}{fields['Job_Name']:<17}{fields['job_state']} {fields['queue']}\n"
