"""Flux, after its manual: flux batch, jobs, cancel. Ids are numbers below 58, one digit each."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from fake_small.jobs import NODE, Job, Refused, everything, order, read, submit

DEAF = "flux: ERROR: Unable to connect to Flux: broker socket /run/flux/local was not found"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
STATES = {
    "waiting": "SCHED", "held": "SCHED", "running": "RUN", "ending": "CLEANUP", "ended": "INACTIVE",
}  # fmt: skip


def flux(argv: list[str]) -> tuple[str, int]:
    """Run one of its commands."""
    match argv:
        case ["batch"]:
            return batch()
        case ["jobs"]:
            return "", 0
        case ["jobs", "-a", "--no-header", "--format={id.f58} {name}"]:
            listed = everything().items()
            return "".join(f"ƒ{BASE58[int(n)]} {job.name}\n" for n, (job, _) in listed), 0
        case ["jobs", "-a", "--json", *ids]:
            return jobs(ids)
        case ["cancel", *ids]:
            return cancel(ids)
    raise Refused(f"flux: error: unrecognized arguments: {argv}", 2)


def batch() -> tuple[str, int]:
    """Submit what standard input has."""
    script = sys.stdin.read()
    given: dict[str, str] = {}
    lines = [line for line in script.splitlines() if line.startswith("# flux: ")]
    for word in (word for line in lines for word in shlex.split(line[8:])):
        name, _, value = word.partition("=")
        if name not in {"--job-name", "--output", "-N1", "-n1", "--exclusive", "--time-limit",
                        "--queue", "--signal"} and not name.startswith("-c"):  # fmt: skip
            raise Refused(f"flux-batch: error: unrecognized arguments: {word}", 2)
        given[name] = value
    if given.get("--queue", "batch") != "batch":
        raise Refused(f"flux-batch: ERROR: [Errno 22] Invalid queue {given['--queue']} specified")
    ends = [(0.0, "TERM", True), (20.0, "KILL", True)]
    env = {**os.environ, "FLUX_JOB_ID": "{number}"}
    first = script.splitlines()[0].removeprefix("#!").split()
    name, cwd = given["--job-name"], str(Path.cwd())
    job = Job("flux", name, first, given["--output"], cwd, env, ends, ("USR1", False))
    return f"ƒ{BASE58[submit(job, script)]}\n", 0


def jobs(ids: list[str]) -> tuple[str, int]:
    """List jobs: one by itself, several in an object."""
    listed = []
    for one in ids:
        number = BASE58.index(one[-1]) if len(one) == 2 else 10**9
        job = read(number)
        if job is None:
            print(f"flux-jobs: ERROR: JobID {one} unknown", file=sys.stderr)
            continue
        state = STATES.get(job[1], "INACTIVE")
        urgency = 0 if job[1] == "held" else 16
        fields = {"state": state, "urgency": urgency, "result": "FAILED", "nodelist": NODE}
        listed.append({"id": number, **fields})
    if len(ids) == 1:
        return (json.dumps(listed[0]) if listed else ""), 0 if listed else 1
    return json.dumps({"jobs": listed}), 0 if len(listed) == len(ids) else 1


def cancel(ids: list[str]) -> tuple[str, int]:
    """Cancel jobs."""
    code = 0
    for one in ids:
        number = BASE58.index(one[-1]) if len(one) == 2 else 10**9
        job = read(number)
        if job is None or job[1] == "ended":
            why = "unknown job id" if job is None else "job is inactive"
            print(f"flux-cancel: {one}: {why}", file=sys.stderr)
            code = 1
        else:
            order(number, "cancel")
    return "", code


COMMANDS = {"flux": flux}
