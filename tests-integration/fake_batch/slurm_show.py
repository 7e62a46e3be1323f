"""Slurm's tables: squeue and sinfo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fake_batch.model import OVER
from fake_batch.slurm import PARTITIONS, user
from fake_batch.words import Answer, Asked, Options, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_batch.model import Job, Node
    from fake_batch.slurm import Slurm

SQUEUE = {
    "-h": "plain!", "--noheader": "plain!", "-r": "array!", "--array": "array!", "-t": "states",
    "--states": "states", "-o": "format", "--format": "format", "-j": "jobs", "--jobs": "jobs",
    "-u": "user", "--user": "user", "--me": "user!",
}  # fmt: skip
SINFO = {
    "-h": "plain!", "--noheader": "plain!", "-o": "format", "--format": "format",
    "-p": "partition", "--partition": "partition", "-t": "states", "--states": "states",
}  # fmt: skip
USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
USUAL_SINFO = "%9P %5a %10l %5D %6t %N"
HEADS = {
    "i": "JOBID", "P": "PARTITION", "j": "NAME", "u": "USER", "t": "ST", "T": "STATE",
    "M": "TIME", "D": "NODES", "R": "NODELIST(REASON)", "r": "REASON", "N": "NODELIST",
}  # fmt: skip
SINFO_HEADS = {
    "P": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "D": "NODES", "t": "STATE",
    "N": "NODELIST", "c": "CPUS", "m": "MEMORY",
}  # fmt: skip
SHORT = {
    "PENDING": "PD", "RUNNING": "R", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F",
    "CANCELLED": "CA", "TIMEOUT": "TO", "NODE_FAIL": "NF",
}  # fmt: skip


def squeue(slurm: Slurm, asked: Asked) -> Answer:
    """The table of jobs; by default those that have not ended."""
    given = Options(SQUEUE, "squeue").read(asked.argv)
    if given.rest:
        raise Refused(f"this is a fake: squeue does not know {given.rest}")
    jobs = _chosen(slurm, given)
    lines = [_cells(given.get("format", USUAL), HEADS)] if not given.has("plain") else []
    lines += [
        _cells(given.get("format", USUAL), _of_job(slurm, group))
        for group in _groups(jobs, each=given.has("array"))
    ]
    return Answer("".join(f"{line}\n" for line in lines))


def _chosen(slurm: Slurm, given: Options) -> list[Job]:
    jobs = list(slurm.cluster.jobs)
    if given.has("jobs"):
        words = given.get("jobs").split(",")
        for word in words:
            if not re.fullmatch(r"\d+(_\d+)?", word):
                raise Refused(f"squeue: error: Invalid job id: {word}")
        # An unknown id is an error only where it is the only one, and an index never is.
        base = words[0].split("_")[0]
        if len(words) == 1 and not slurm.find(base):
            raise Refused("slurm_load_jobs error: Invalid job id specified")
        wanted = [id(job) for word in words for job in slurm.find(word)]
        jobs = [job for job in jobs if id(job) in wanted]
    states = given.get("states").upper().split(",")
    if states == ["ALL"]:
        return jobs
    if states != [""]:
        return [job for job in jobs if {_state(job), SHORT[_state(job)]} & set(states)]
    return [job for job in jobs if job.state not in OVER]


def _groups(jobs: list[Job], *, each: bool) -> Iterator[list[Job]]:
    """Tasks of an array that were never started are one line, unless each is asked for."""
    waiting: dict[int, list[Job]] = {}
    for job in jobs:
        if each or job.array is None or job.state != "PENDING" or job.restarts:
            yield [job]
        else:
            waiting.setdefault(job.array[0], []).append(job)
    yield from waiting.values()


def _state(job: Job) -> str:
    return "COMPLETING" if job.finals else job.state


def _of_job(slurm: Slurm, group: list[Job]) -> dict[str, str]:
    job = group[0]
    state = _state(job)
    reason = job.reason or "None"
    spent = (job.ended or slurm.cluster.now) - job.started if job.node else 0
    return {
        "i": _number(group),
        "P": job.queue,
        "j": job.name,
        "u": user(),
        "t": SHORT[state],
        "T": state,
        "M": f"{int(spent // 60)}:{int(spent % 60):02}",
        "D": "1",
        "R": f"({reason})" if state == "PENDING" else job.node,
        "r": reason,
        "N": job.node,
    }


def _number(group: list[Job]) -> str:
    job = group[0]
    if job.array is None:
        return str(job.number)
    base, index = job.array
    if len(group) == 1:
        return f"{base}_{index}"
    last = (group[-1].array or job.array)[1]
    return f"{base}_[{index}-{last}{f'%{job.throttle}' if job.throttle else ''}]"


def sinfo(slurm: Slurm, asked: Asked) -> Answer:
    """The table of partitions, one line for each state of their nodes."""
    given = Options(SINFO, "sinfo").read(asked.argv)
    form = given.get("format", USUAL_SINFO)
    lines = [] if given.has("plain") else [_cells(form, SINFO_HEADS)]
    for name, (members, limit) in PARTITIONS.items():
        if given.get("partition", name) != name:
            continue
        there = [n for n in slurm.cluster.nodes.values() if not members or n.name in members]
        by_state: dict[str, list[Node]] = {}
        for node in there:
            by_state.setdefault(_node_state(slurm, node), []).append(node)
        for state, nodes in by_state.items():
            if given.get("states", state) != state:
                continue
            cells = {
                "P": name + ("*" if name == "main" else ""),
                "a": "up",
                "l": "infinite" if limit is None else f"{int(limit // 60)}:00",
                "D": str(len(nodes)),
                "t": state,
                "N": ",".join(node.name for node in nodes),
                "c": str(nodes[0].cores),
                "m": str(nodes[0].memory),
            }
            lines.append(_cells(form, cells))
    return Answer("".join(f"{line}\n" for line in lines))


def _node_state(slurm: Slurm, node: Node) -> str:
    if node.state == "down":
        return "down*" if node.strays or node.since else "down"
    cores = slurm.cluster.used(node)[0]
    state = "idle" if not cores else "alloc" if cores >= node.cores else "mix"
    return state + ("*" if node.state == "lost" else "")


def _cells(form: str, values: dict[str, str]) -> str:
    """Fill in a format: ``%i``, ``%.8j`` (to the right, cut), ``%9P`` (to the left, cut)."""

    def cell(match: re.Match[str]) -> str:
        if match[3] not in values:
            raise Refused(f"this is a fake, which knows %{' %'.join(values)}")
        text, width = values[match[3]], int(match[2] or 0)
        if not width:
            return text
        return text[:width].rjust(width) if match[1] else text[:width].ljust(width)

    return re.sub(r"%(\.?)(\d*)([A-Za-z])", cell, form)
