"""OAR 2.5.9: oarsub, oarstat, oardel."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from fake_small.jobs import NODE, Job, Refused, everything, order, read, submit

DEAF = "[IOlib] Cannot connect to database (type=Pg, host=localhost, user=oar, base=oar)"
STATES = {
    "waiting": "Waiting", "held": "Hold", "running": "Running", "ending": "Finishing",
    "ended": "Error",
}  # fmt: skip
RULE = "[ADMISSION RULE] Modify resource description with type constraints\n"


def oarsub(argv: list[str]) -> tuple[str, int]:
    """Submit a file, whose directives are one to a line, and not quoted."""
    if len(argv) != 2 or argv[0] != "-S":
        raise Refused(f"Unknown option: {argv[0]}")
    given: dict[str, str] = {}
    for line in Path(argv[1]).read_text().splitlines():
        if line.startswith("#OAR "):
            match = re.fullmatch(r"#OAR\s+(-[lqpntOE]|--checkpoint|--signal)\s+(.+)", line)
            if not match:
                raise Refused(f"/!\\ Not able to scan file line: {line}.", 255)
            given[match[1]] = match[2]
    if given.get("-q", "default") != "default":
        raise Refused(f"{RULE}ERROR : The queue {given['-q']} does not exist", 248)
    cores = re.search(r"core=(\d+)", given["-l"])
    if cores and int(cores[1]) > 4:
        text = "There are not enough resources for your request\nOAR_JOB_ID=-5"
        raise Refused(f"{RULE}{text}\n[ERROR] Oarsub failed, please verify your request syntax.", 8)
    env = {
        "HOME": os.environ["HOME"], "PATH": "/usr/local/bin:/usr/bin:/bin",
        "OAR_JOB_ID": "{number}",
    }  # fmt: skip
    ends = [(0.0, "KILL", True)]
    argv, cwd = [argv[1]], str(Path.cwd())
    job = Job("oar", given["-n"], argv, given["-O"], cwd, env, ends, ("USR1", False))
    return f"{RULE}OAR_JOB_ID={submit(job)}\n", 0


def oarstat(argv: list[str]) -> tuple[str, int]:
    """List jobs as JSON; nothing for unknown ones."""
    if not argv:
        return "", 0
    if argv[:2] == ["-J", "-u"]:
        alive = [(n, job) for n, (job, state) in everything().items() if state != "ended"]
        return json.dumps({number: {"name": job.name} for number, job in alive}), 0
    if argv[0] != "-J" or argv[1::2] != ["-j"] * (len(argv) // 2):
        raise Refused(f"Unknown option: {argv}")
    listed = {}
    for number in argv[2::2]:
        if job := read(number):
            state = STATES.get(job[1], "Error")
            listed[number] = {"state": state, "assigned_network_address": [NODE]}
    return (json.dumps(listed) if listed else ""), 0


def oardel(argv: list[str]) -> tuple[str, int]:
    """Delete jobs."""
    out, code = "", 0
    for number in argv:
        job = read(number)
        start = f"Deleting the job = {number} ..."
        if job is None:
            why = f"Cannot frag {number} ; You are not the right user."
            out, code = out + f"{start}ERROR.\n{why}\n", 1
        elif job[1] == "ended":
            why = f"Cannot frag {number} ; This job was already killed."
            out, code = out + f"{start}ERROR.\n{why}\n", 6
        else:
            order(number, "cancel")
            out += f"{start}REGISTERED.\n"
    return out, code


COMMANDS = {"oarsub": oarsub, "oarstat": oarstat, "oardel": oardel}
