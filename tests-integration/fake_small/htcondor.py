"""HTCondor, after its manual: condor_submit, condor_q, condor_rm."""

from __future__ import annotations

import json
import re
import sys

from fake_small.jobs import NODE, Job, Refused, everything, order, read, root, submit

DEAF = "ERROR: Can't find address of local schedd"
STATES = {"waiting": 1, "running": 2, "ending": 3, "held": 5}
KNOWN = {
    "batch_name", "executable", "transfer_executable", "arguments", "initialdir", "getenv",
    "should_transfer_files", "output", "error", "stream_output", "stream_error",
    "want_graceful_removal", "job_max_vacate_time", "request_cpus", "request_memory",
    "accounting_group",
}  # fmt: skip


def condor_submit(argv: list[str]) -> tuple[str, int]:
    """Submit one job, described on standard input."""
    if argv != ["-terse"]:
        raise Refused(f"Unrecognised option {argv}")
    given: dict[str, str] = {}
    *lines, last = sys.stdin.read().splitlines()
    for line in lines:
        name, equals, value = line.partition(" = ")
        if name not in KNOWN or not equals:
            raise Refused(f"ERROR: Failed to parse command file: {line}")
        given[name] = value
    assert "queue" == last
    whole = re.fullmatch(r'"(.*)"', given["arguments"])
    assert whole
    quoted = re.findall(r"'((?:[^']|'')*)'", whole[1].replace('""', '"'))
    argv = [given["executable"], *(word.replace("''", "'") for word in quoted)]
    ends = [(0.0, "TERM", False), (20.0, "KILL", True)]
    env = {
        "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": given.get("request_cpus", "1"),
        "_CONDOR_MACHINE_AD": str(root() / "{number}/machine.ad"), "_CONDOR_SLOT": "slot1_{number}",
    }  # fmt: skip
    cwd = given["initialdir"]
    job = Job("htcondor", given["batch_name"], argv, given["output"], cwd, env, ends, append=False)
    number = submit(job)
    return f"{number}.0 - {number}.0\n", 0


def condor_q(argv: list[str]) -> tuple[str, int]:
    """List jobs as JSON; nothing for none."""
    if argv == ["-totals"]:
        return "", 0
    if argv == ["-json", "-attributes", "ClusterId,ProcId,JobBatchName"]:
        named = [
            {"ClusterId": int(number), "ProcId": 0, "JobBatchName": job.name}
            for number, (job, state) in everything().items()
            if state in STATES
        ]
        return (json.dumps(named) if named else ""), 0
    at = argv.index("-json")
    assert ["-json", "-attributes", "ClusterId,ProcId,JobStatus,HoldReason,RemoteHost"] == argv[at:]
    jobs = []
    for number, (_, state) in everything().items():
        if f"{number}.0" in argv[:at] and state in STATES:
            one: dict[str, object] = {
                "ClusterId": int(number),
                "ProcId": 0,
                "JobStatus": STATES[state],
            }
            if state == "held":
                one["HoldReason"] = "via condor_hold (by user me)"
            if state == "running":
                one["RemoteHost"] = f"slot1_1@{NODE}"
            jobs.append(one)
    return (json.dumps(jobs) if jobs else ""), 0


def condor_rm(argv: list[str]) -> tuple[str, int]:
    """Remove jobs."""
    out, code = "", 0
    for name in argv:
        job = read(name.removesuffix(".0"))
        if job is None or job[1] == "ended":
            out, code = out + f"Job {name} not found\n", 1
        else:
            order(name.removesuffix(".0"), "cancel")
            out += f"Job {name} marked for removal\n"
    return out, code


COMMANDS = {"condor_submit": condor_submit, "condor_q": condor_q, "condor_rm": condor_rm}
