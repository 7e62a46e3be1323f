"""LSF 10.1, after its manual: bsub, bjobs, bkill, bqueues."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from fake_small.jobs import NODE, Job, Refused, everything, order, read, submit

DEAF = "LSF is down. Please wait ..."
VALUES = {"-J", "-o", "-n", "-R", "-M", "-W", "-q", "-wa", "-wt", "-P"}
STATES = {"waiting": "PEND", "held": "PSUSP", "running": "RUN", "ending": "RUN", "ended": "EXIT"}


def bsub(argv: list[str]) -> tuple[str, int]:
    """Submit what standard input has."""
    script = sys.stdin.read()
    words = [
        word
        for line in script.splitlines()
        if line.startswith("#BSUB ")
        for word in shlex.split(line[6:])
    ]
    given: dict[str, str] = {}
    rest = [*words, *argv]
    while rest:
        if rest[0] not in VALUES:
            raise Refused(f"{rest[0]}: Illegal option. Job not submitted.", 255)
        given[rest[0]] = rest[1]
        rest = rest[2:]
    queue = given.get("-q", "normal")
    if queue not in {"normal", "short"}:
        raise Refused(f"{queue}: No such queue. Job not submitted.", 255)
    env = {**os.environ, "LSB_JOBID": "{number}", "LSB_DJOB_NUMPROC": given.get("-n", "1")}
    ends = [(0.0, "INT", True), (1.0, "TERM", True), (20.0, "KILL", True)]
    first = script.splitlines()[0].removeprefix("#!").split()
    name, cwd = given.get("-J", "x"), str(Path.cwd())
    job = Job("lsf", name, first, given["-o"], cwd, env, ends, ("USR1", True))
    return f"Job <{submit(job, script)}> is submitted to queue <{queue}>.\n", 0


def bjobs(argv: list[str]) -> tuple[str, int]:
    """List jobs as JSON."""
    if argv == ["-a", "-o", "jobid job_name", "-json"]:
        records = [{"JOBID": n, "JOB_NAME": job.name} for n, (job, _) in everything().items()]
        answer = {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}
        if not records:
            print("No job found", file=sys.stderr)
        return json.dumps(answer), 0 if records else 255
    if argv[:4] != ["-a", "-o", "jobid stat exec_host pend_reason", "-json"]:
        raise Refused(f"{argv}: Illegal option.", 255)
    records = []
    for number in argv[4:]:
        job = read(number)
        if job is None:
            records.append({"JOBID": number, "ERROR": f"Job <{number}> is not found"})
        else:
            state = STATES.get(job[1], "EXIT")
            host = NODE if state == "RUN" else ""
            reason = "The job was suspended by its owner" if state == "PSUSP" else ""
            fields = {"STAT": state, "EXEC_HOST": host, "PEND_REASON": reason}
            records.append({"JOBID": number, **fields})
    code = 255 if any("ERROR" in one for one in records) else 0
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}), code


def bkill(argv: list[str]) -> tuple[str, int]:
    """Kill jobs."""
    out, code = "", 0
    for number in argv:
        job = read(number)
        if job is None:
            out, code = out + f"Job <{number}>: No matching job found\n", 255
        elif job[1] == "ended":
            out, code = out + f"Job <{number}>: Job has already finished\n", 255
        else:
            order(number, "cancel")
            out += f"Job <{number}> is being terminated\n"
    return out, code


COMMANDS = {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "bqueues": lambda _: ("", 0)}
