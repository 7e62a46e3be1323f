"""Grid Engine 8.1.9: qsub, qstat, qdel, qconf."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from fake_small.jobs import CORES, NODE, Job, Refused, everything, order, read, root, submit

DEAF = (
    "error: commlib error: got select error (Connection refused)\n"
    'error: unable to send message to qmaster using port 16444 on host "head": got send error'
)
QUEUES = {"main.q": None, "short.q": 60}
RULES = {"mpi": "$fill_up", "smp": "$pe_slots", "two": "1"}  # of parallel environments
# Seconds from SIGUSR2 to SIGKILL: long enough for a script on a busy machine.
NOTIFY = 20.0
VALUES = {"-N", "-S", "-j", "-o", "-w", "-binding", "-l", "-q", "-P", "-r"}
STATES = {"waiting": "qw", "held": "hqw", "error": "Eqw", "running": "r", "ending": "dr"}
COMPLEXES = """\
#name               shortcut   type      relop requestable consumable default  urgency
#--------------------------------------------------------------------------------------
h_vmem              h_vmem     MEMORY    <=    YES         YES        1G       0
mem_free            mf         MEMORY    <=    YES         NO         0        0
slots               s          INT       <=    YES         YES        1        1000
"""


def refused(text: str) -> Refused:
    """Return the refusal of a submission."""
    return Refused(f"Unable to run job: {text}\nExiting.")


def parsed(rest: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options, of -pe the slots, and what -l requests.

    Raises:
        Refused: One is unknown.
    """
    given, requests = {"-o": "", "-S": "/bin/sh"}, {}
    while rest:
        match rest:
            case [("-cwd" | "-notify") as option, *rest]:
                given[option] = ""
            case ["-pe", environment, slots, *rest]:
                if environment not in RULES:
                    raise refused(
                        f'job rejected: the requested parallel environment "{environment}" does '
                        "not exist"
                    )
                given["-pe"], given["pe"] = slots, environment
            case ["-l", request, *rest]:
                name, _, value = request.partition("=")
                if name not in {"h_vmem", "mem_free", "h_rt"}:
                    raise refused(f'unknown resource "{name}"')
                requests[name] = value
            case [option, value, *rest] if option in VALUES:
                given[option] = value
            case [option, *_]:
                raise Refused(f'qsub: invalid option argument "{option}"', 2)
    return given, requests


def qsub(argv: list[str]) -> tuple[str, int]:
    """Submit what standard input has."""
    script = sys.stdin.read()
    words = [
        word.strip('"')
        for line in script.splitlines()
        if line.startswith("#$ ")
        for word in re.findall(r'"[^"]*"|[^\s"]+', line[3:])
    ]
    given, requests = parsed([*words, *(word for word in argv if word != "-terse")])
    slots = int(given.get("-pe", "1"))
    name = given.get("-N", "STDIN")
    if not re.fullmatch(r"[^\d\s/@*?:\\][^\s/@*?:\\]*", name):
        raise refused(f'denied: "{name}" is not a valid object name')
    queue = given.get("-q", "main.q")
    if queue not in QUEUES:
        raise refused(f'Job was rejected because job requests unknown queue "{queue}"')
    limit = QUEUES[queue]
    memory = float(requests.get("h_vmem", "1024M").removesuffix("M")) * slots
    if given.get("-w") == "e" and (
        slots > CORES or memory > 4000 or (limit and int(requests.get("h_rt", 0)) > limit)
    ):
        raise refused("error: no suitable queues")
    ends = [(NOTIFY, "KILL", True)]
    if "-notify" in given:
        ends.insert(0, (0.0, "USR2", True))
    else:
        ends = [(0.0, "KILL", True)]
    home = os.environ.get("HOME", "/")
    env = {
        "HOME": home,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "JOB_ID": "{number}",
        "NSLOTS": str(slots),
        "SGE_O_HOST": "head",
        "SGE_JOB_SPOOL_DIR": home,
    }
    if given.get("pe") == "two":
        hosts = [f"{host} 1 main.q@{host} UNDEFINED\n" for host in ("n1", "n2")]
        env["PE_HOSTFILE"] = str(root() / "hosts")
        Path(env["PE_HOSTFILE"]).write_text("".join(hosts))
    job = Job(
        "sge", name, [given["-S"]], given["-o"].removeprefix(":"), str(Path.cwd()), env, ends,
        warning=("USR2", True), requeues=99, errs=100,
    )  # fmt: skip
    number = submit(job, script)
    return (
        f"{number}\n" if "-terse" in argv else f'Your job {number} ("{name}") has been submitted\n'
    ), 0


def qstat(argv: list[str]) -> tuple[str, int]:
    """List jobs as XML, or the reasons of errors."""
    match argv:
        case []:
            return "", 0
        case ["-xml", "-g", "d", "-u", _]:
            pass
        case ["-j", numbers]:
            return "".join(
                f"job_number:                 {one}\n"
                f"error reason          1:      11/22/2026 04:30:36 [0:5188]: it is the test's\n"
                for one in numbers.split(",")
            ), 0
        case _:
            raise Refused(f"error: ERROR! invalid option argument {argv}")
    entries = [
        f"<job_list><JB_job_number>{number}</JB_job_number>"
        f"<JB_name>{job.name}</JB_name><state>{STATES[state]}</state>"
        f"<queue_name>{f'main.q@{NODE}' if state in ('running', 'ending') else ''}</queue_name>"
        "</job_list>"
        for number, (job, state) in everything().items()
        if state in STATES
    ]
    listed = f"<queue_info>{''.join(entries)}</queue_info><job_info></job_info>"
    return f"<?xml version='1.0'?>\n<job_info>{listed}</job_info>\n", 0


def qdel(argv: list[str]) -> tuple[str, int]:
    """Delete jobs; the others are deleted where one is unknown."""
    out, code = "", 0
    for number in argv:
        job = read(number)
        if job is None or job[1] == "ended":
            out, code = out + f'denied: job "{number}" does not exist\n', 1
        else:
            order(number, "cancel")
            out += f"root has registered the job {number} for deletion\n"
    return out, code


def qconf(argv: list[str]) -> tuple[str, int]:
    """Show the configuration."""
    match argv:
        case ["-spl"]:
            return "".join(f"{name}\n" for name in RULES), 0
        case ["-sp", name]:
            return (
                f"pe_name            {name}\nallocation_rule    {RULES[name]}\n"
                "control_slaves     TRUE\n"
            ), 0
        case ["-sc"]:
            return COMPLEXES, 0
        case ["-sql"]:
            return "".join(f"{name}\n" for name in QUEUES), 0
    raise Refused(f'error: invalid option argument "{argv}"')


COMMANDS = {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qconf": qconf}
