"""OpenPBS 23.06: qsub, qstat, qdel, qsig, and what PBS does when jobs start and end."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_batch.model import OVER, Job
from fake_batch.words import Answer, Asked, Options, Refused, directives, script_of

if TYPE_CHECKING:
    from fake_batch.cluster import Cluster

# Queue: the longest walltime in seconds.
QUEUES: dict[str, float | None] = {"workq": None, "short": 120.0}
GRACE = 2.0
# Remembers -V, in the environment itself.
ALL = "FAKE_BATCH_ALL"

QSUB = {
    "-N": "name", "-S": "shell", "-j": "join", "-o": "output", "-e": "error", "-l": "resources",
    "-q": "queue", "-A": "account", "-V": "all!", "-r": "rerun", "--version": "version!",
}  # fmt: skip
QSTAT = {"-f": "full!", "-x": "history!", "-F": "format"}
QSIG = {"-s": "signal"}
STATES = {"PENDING": "Q", "RUNNING": "R"}


class Pbs:
    """The side of PBS of a cluster.

    Args:
        cluster: What it manages.
        folder: The controller's; job outputs are spooled there.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.cluster.next_number = 0
        self.spool = folder / "spool"
        self.spool.mkdir(exist_ok=True)

    # What the cluster asks.

    def place(self, job: Job) -> tuple[dict[str, str], str, Path]:
        """The environment of a login, the home directory, the spool."""
        home = job.env.get("HOME", "/")
        own = self.spool / f"tmp.{job.number}"
        own.mkdir(exist_ok=True)
        nodes = self.spool / f"{job.number}.nodes"
        nodes.write_text(f"{job.node}\n")
        login = {
            "HOME": home,
            "USER": job.env.get("USER", "root"),
            "LOGNAME": job.env.get("USER", "root"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SHELL": "/bin/bash",
        }
        env = {
            **login,
            **(job.env if job.env.get(ALL) else {}),
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "PBS_JOBID": self.number(job),
            "PBS_JOBNAME": job.name,
            "PBS_QUEUE": job.queue,
            "PBS_NODEFILE": str(nodes),
            "PBS_O_WORKDIR": job.cwd,
            "PBS_O_HOME": home,
            "PBS_O_PATH": job.env.get("PATH", ""),
            "NCPUS": str(job.cores),
            "TMPDIR": str(own),
        }
        return env, home, self.spool / f"{job.number}.OU"

    def notice(self, job: Job, why: str) -> str:
        """The line in the output of a job that is ended for its walltime."""
        if why != "TIMEOUT" or job.limit is None:
            return ""
        spent = int(self.cluster.now - job.started)
        return f"=>> PBS: job killed: walltime {spent} exceeded limit {int(job.limit)}"

    def warn_now(self, job: Job, now: float) -> bool:  # noqa: ARG002 - as Slurm has them
        """PBS gives no warning."""
        return False

    def over(self, job: Job) -> None:
        """The output goes to where it was asked for, now that the job has ended."""
        spooled, wanted = self.spool / f"{job.number}.OU", Path(job.cwd, job.output)
        if wanted.parent.is_dir() and spooled.exists():
            # It is there as a whole or not at all, so that tests can wait for it.
            part = wanted.with_name(f".{wanted.name}.part")
            part.write_bytes(spooled.read_bytes())
            part.replace(wanted)

    def number(self, job: Job) -> str:
        """Its id."""
        return f"{job.number}.pbs"

    # The commands.

    def qsub(self, asked: Asked) -> Answer:
        """Submit a job."""
        usage = "usage: qsub [-A account_string] ... (this is a fake)"
        typed = Options(QSUB, "qsub", 2).read(asked.argv)
        if typed.has("version"):
            return Answer(err="pbs_version = 23.06.06\n")
        script = script_of(asked, typed.rest, "qsub: script file {name} cannot be loaded")
        words = directives(script, "#PBS", comments=False)
        try:
            given = Options(QSUB, "qsub", 2).read([*words, *asked.argv])
        except Refused as refused:
            raise Refused(f"{refused}\n{usage}", 2) from None
        # Refused submissions use up numbers, too.
        number = self.cluster.number()
        job = self._job(asked, given, script, number)
        self.cluster.jobs.append(job)
        return Answer(f"{self.number(job)}\n")

    def _job(self, asked: Asked, given: Options, script: str, number: int) -> Job:
        queue = given.get("queue", "workq")
        if queue not in QUEUES:
            raise Refused("qsub: Unknown queue", 170)
        wanted = _resources(given.values.get("resources", []))
        limit, longest = wanted.get("walltime"), QUEUES[queue]
        if longest is not None and limit is not None and limit > longest:
            raise Refused("qsub: Job violates queue and/or server resource limits", 188)
        cores, memory = int(wanted.get("ncpus", 1)), int(wanted.get("mem", 0))
        most = max(node.cores for node in self.cluster.nodes.values())
        room = max(node.memory for node in self.cluster.nodes.values())
        never = _never("ncpus", cores, most) if cores > most else ""
        never = never or (_never("mem", memory, room) if memory > room else "")
        name = given.get("name", Path(given.rest[0]).name if given.rest else "STDIN")
        shell = given.get("shell", "/bin/bash")
        return Job(
            number=number,
            name=name,
            # The shell of -S reads it, or the login shell; never that of its first line.
            script=f"#!{shell}\n" + script.split("\n", 1)[-1],
            cores=cores,
            memory=memory,
            limit=limit,
            queue=queue,
            output=given.get("output", f"{name}.o{number}"),
            cwd=asked.cwd,
            env={**asked.env, **({ALL: "1"} if given.has("all") else {})},
            submitted=time.time(),
            requeues=given.get("rerun", "y") == "y",
            never=never,
        )

    def qstat(self, asked: Asked) -> Answer:
        """Jobs, as a table, in full, or as JSON."""
        given = Options(QSTAT, "qstat", 2).read(asked.argv)
        jobs, err, code = self._find(given.rest, "qstat", history=given.has("history"))
        if not given.rest:
            jobs = [job for job in self.cluster.jobs if given.has("history") or not _over(job)]
        if given.get("format") == "json":
            whole = {
                "timestamp": int(time.time()),
                "pbs_version": "23.06.06",
                "pbs_server": "pbs",
                "Jobs": {self.number(job): self._fields(job) for job in jobs},
            }
            return Answer(json.dumps(whole, indent=4) + "\n", err, code)
        shown = self._full if given.has("full") else self._row
        return Answer("".join(map(shown, jobs)), err, code)

    def _find(self, words: list[str], command: str, *, history: bool) -> tuple[list[Job], str, int]:
        found, errors, code = [], [], 0
        for word in words:
            jobs = [job for job in self.cluster.jobs if word in {self.number(job), str(job.number)}]
            if not jobs:
                errors.append(f"{command}: Unknown Job Id {word.split('.')[0]}.pbs\n")
                code = 153
            elif _over(jobs[0]) and not history:
                errors.append(
                    f"{command}: {self.number(jobs[0])} Job has finished, use -x or -H to obtain "
                    "historical job information\n"
                )
                code = 35
            else:
                found += jobs
        return found, "".join(errors), code

    def _fields(self, job: Job) -> dict[str, Any]:
        asked: dict[str, Any] = {"ncpus": job.cores, "nodect": 1}
        if job.memory:
            asked["mem"] = f"{job.memory}mb"
        if job.limit is not None:
            minutes, seconds = divmod(int(job.limit), 60)
            asked["walltime"] = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
        fields: dict[str, Any] = {
            "Job_Name": job.name,
            "job_state": _letter(job),
            "queue": job.queue,
            "Resource_List": asked,
        }
        if job.node:
            fields["exec_host"] = f"{job.node}/0*{job.cores}"
        if job.never or (job.state == "PENDING" and job.reason):
            fields["comment"] = job.never or "Not Running: Insufficient amount of resource: ncpus"
        if _over(job):
            fields["Exit_status"] = _exit_status(job)
        fields["Variable_List"] = {"PBS_O_WORKDIR": job.cwd, "PBS_O_HOME": job.env.get("HOME", "")}
        return fields

    def _full(self, job: Job) -> str:
        lines = [f"Job Id: {self.number(job)}"]
        for key, value in self._fields(job).items():
            if key == "Resource_List":
                lines += [f"    {key}.{name} = {one}" for name, one in value.items()]
            elif isinstance(value, dict):
                whole = ",".join(f"{name}={one}" for name, one in value.items())
                lines.append(_folded(f"    {key} = {whole}"))
            else:
                lines.append(_folded(f"    {key} = {value}"))
        return "\n".join(lines) + "\n\n"

    def _row(self, job: Job) -> str:
        return f"{self.number(job):<18}{job.name:<17}{_letter(job)} {job.queue}\n"

    def qdel(self, asked: Asked) -> Answer:
        """End jobs."""
        given = Options({}, "qdel", 2).read(asked.argv)
        jobs, err, code = self._find(given.rest, "qdel", history=False)
        for job in jobs:
            self.cluster.end(job, self.cluster.now, "CANCELLED", grace=GRACE)
        return Answer("", err, code)

    def qsig(self, asked: Asked) -> Answer:
        """Send a signal to all processes of jobs, the shell too."""
        given = Options(QSIG, "qsig", 2).read(asked.argv)
        jobs, err, code = self._find(given.rest, "qsig", history=False)
        name = given.get("signal", "TERM").upper().removeprefix("SIG")
        if f"SIG{name}" not in signal.Signals.__members__:
            raise Refused(f"qsig: Unknown signal {name}")
        for job in jobs:
            self.cluster.signal(job, signal.Signals[f"SIG{name}"], shell_only=False)
        return Answer("", err, code)


def _over(job: Job) -> bool:
    return job.state in OVER


def _letter(job: Job) -> str:
    return "E" if job.finals else STATES.get(job.state, "F")


def _exit_status(job: Job) -> int:
    if job.state == "TIMEOUT":
        return -29
    return job.code[0] or (256 + job.code[1] if job.code[1] else 0)


def _never(what: str, asked: int, most: int) -> str:
    return (
        f"Can Never Run: Insufficient amount of resource: {what} (R: {asked} A: {most} T: {most})"
    )


def _folded(line: str) -> str:
    """Long values go on in the next line, after a tab."""
    parts = [line[:78], *(line[i : i + 70] for i in range(78, len(line), 70))]
    return "\n\t".join(parts)


def _resources(given: list[str]) -> dict[str, float]:
    """What -l asks for: seconds, MiB, cores.

    Raises:
        Refused: An item is not known.
    """
    found: dict[str, float] = {}
    items = [item for text in given for item in re.split(r"[,:]", re.sub(_CLOCK, _seconds, text))]
    for item in items:
        name, _, value = item.partition("=")
        if name in {"select", "nodes"}:
            if value != "1":
                raise Refused("qsub: this is a fake, which knows jobs of one node only", 2)
        elif name in {"ncpus", "ppn"}:
            found["ncpus"] = int(value)
        elif name == "mem":
            found["mem"] = _megabytes(value)
        elif name == "walltime":
            found["walltime"] = float(value)
        else:
            raise Refused(f"qsub: Unknown resource: Resource_List.{name}", 170)
    return found


_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)")


def _seconds(found: re.Match[str]) -> str:
    return str(int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]))


def _megabytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)(kb|mb|gb)", text)
    if not found:
        raise Refused(f"qsub: Illegal attribute or resource value: Resource_List.mem {text}", 2)
    return max(1, int(int(found[1]) * {"kb": 1 / 1024, "mb": 1, "gb": 1024}[found[2]]))
