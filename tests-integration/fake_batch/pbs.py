"""OpenPBS 23.06: qsub, qdel, qrerun, qsig, and what PBS does when jobs start and end."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fake_batch.model import OVER, Job
from fake_batch.pbs_words import Id, array_of, id_of, resources_of
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
    "-q": "queue", "-A": "account", "-V": "all!", "-r": "rerun", "-J": "array",
    "--version": "version!",
}  # fmt: skip
QSIG = {"-s": "signal"}
# In an output's name: the index of an array's subjob.
INDEX = "^array_index^"
FINISHED = "Job has finished, use -x or -H to obtain historical job information"


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
        own = self.spool / f"tmp.{_stem(job)}"
        own.mkdir(exist_ok=True)
        nodes = self.spool / f"{_stem(job)}.nodes"
        # A job of several nodes takes room on the first only, and all are this machine.
        others = [node for node in self.cluster.nodes if node != job.node][: job.nodes - 1]
        nodes.write_text("".join(f"{node}\n" for node in (job.node, *others)))
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
            "PBS_JOBID": str(name_of(job)),
            "PBS_JOBNAME": job.name,
            "PBS_QUEUE": job.queue,
            "PBS_NODEFILE": str(nodes),
            "PBS_O_WORKDIR": job.cwd,
            "PBS_O_HOME": home,
            "PBS_O_PATH": job.env.get("PATH", ""),
            "NCPUS": str(job.cores),
            "TMPDIR": str(own),
        }
        if job.array:
            env["PBS_ARRAY_ID"] = str(Id(job.array[0], True, None))
            env["PBS_ARRAY_INDEX"] = str(job.array[1])
        return env, home, self.spool / f"{_stem(job)}.OU"

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
        index = str(job.array[1]) if job.array else INDEX
        spooled = self.spool / f"{_stem(job)}.OU"
        wanted = Path(job.cwd, job.output.replace(INDEX, index))
        if wanted.parent.is_dir() and spooled.exists():
            # It is there as a whole or not at all, so that tests can wait for it.
            part = wanted.with_name(f".{wanted.name}.part")
            part.write_bytes(spooled.read_bytes())
            part.replace(wanted)

    def task_number(self, job: Job) -> int:
        """Subjobs have the array's."""
        return job.number

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
        jobs = self._jobs(asked, given, script, number)
        self.cluster.jobs += jobs
        return Answer(f"{Id(number, jobs[0].array is not None, None)}\n")

    def _jobs(self, asked: Asked, given: Options, script: str, number: int) -> list[Job]:
        queue = given.get("queue", "workq")
        if queue not in QUEUES:
            raise Refused("qsub: Unknown queue", 170)
        wanted = resources_of(given.values.get("resources", []))
        limit, longest = wanted.get("walltime"), QUEUES[queue]
        if longest is not None and limit is not None and limit > longest:
            raise Refused("qsub: Job violates queue and/or server resource limits", 188)
        cores, memory = int(wanted.get("ncpus", 1)), int(wanted.get("mem", 0))
        most = max(node.cores for node in self.cluster.nodes.values())
        room = max(node.memory for node in self.cluster.nodes.values())
        never = _never("ncpus", cores, most) if cores > most else ""
        never = never or (_never("mem", memory, room) if memory > room else "")
        nodes = int(wanted.get("nodes", 1))
        if nodes > len(self.cluster.nodes):
            never = never or "Can Never Run: not enough total nodes available"
        name = given.get("name", Path(given.rest[0]).name if given.rest else "STDIN")
        shell = given.get("shell", "/bin/bash")
        rerun = given.get("rerun", "y") == "y"
        indices, throttle = array_of(given.get("array")) if given.has("array") else ([-1], 0)
        if given.has("array") and not rerun:
            raise Refused("qsub: cannot submit non-rerunable Array Job", 2)
        default = f"{name}.o{number}.{INDEX}" if given.has("array") else f"{name}.o{number}"
        output = given.get("output", default)
        if given.has("array") and INDEX not in output:
            raise Refused(f"qsub: this is a fake, where the -o of an array has an {INDEX}", 2)
        one = Job(
            number=number,
            name=name,
            # The shell of -S reads it, or the login shell; never that of its first line.
            script=f"#!{shell}\n" + script.split("\n", 1)[-1],
            cores=cores,
            memory=memory,
            nodes=nodes,
            limit=limit,
            queue=queue,
            output=output,
            cwd=asked.cwd,
            env={**asked.env, **({ALL: "1"} if given.has("all") else {})},
            submitted=time.time(),
            throttle=throttle,
            append=True,  # the spool is kept when a job is queued again
            requeues=rerun,
            never=never,
        )
        if not given.has("array"):
            return [one]
        return [replace(one, array=(number, index)) for index in indices]

    def find(
        self, words: list[str], command: str, *, history: bool
    ) -> tuple[list[Matches], str, int]:
        """Return the jobs that ids mean, the errors about ids that mean none, and the exit code.

        Args:
            words: The ids as they were typed.
            command: Whose they are.
            history: Whether those that have ended count.
        """
        matches: list[Matches] = []
        errors, code = [], 0
        for word in words:
            name = id_of(word)
            if name is None:
                raise Refused(f"{command}: this is a fake, which knows no id {word}", 1)
            jobs = [job for job in self.cluster.jobs if belongs(job, name)]
            array = [job for job in self.cluster.jobs if job.number == name.number]
            if not jobs:
                errors.append(f"{command}: Unknown Job Id {name}\n")
                code = 153
            elif history or not over(jobs):
                matches.append(Matches(name, jobs))
            elif name.task is not None and not over(array):
                if command == "qstat":
                    matches.append(Matches(name, jobs))  # in state X
                else:
                    errors.append(f"{command}: Request invalid for finished array subjob {name}\n")
                    code = 55
            else:
                errors.append(f"{command}: {name} {FINISHED}\n")
                code = 35
        return matches, "".join(errors), code

    def qselect(self, asked: Asked) -> Answer:
        """List the ids of jobs of a name that have not ended."""
        given = Options({"-u": "user", "-N": "name"}, "qselect", 2).read(asked.argv)
        jobs = [job for job in self.cluster.jobs if job.state not in OVER]
        named = [job for job in jobs if job.name == given.get("name")]
        return Answer("".join(f"{name_of(job)}\n" for job in named))

    def qdel(self, asked: Asked) -> Answer:
        """End jobs."""
        jobs, err, code = self._running("qdel", Options({}, "qdel", 2).read(asked.argv).rest)
        for job in jobs:
            self.cluster.end(job, self.cluster.now, "CANCELLED", grace=GRACE)
        return Answer("", err, code)

    def qrerun(self, asked: Asked) -> Answer:
        """End running jobs and queue them again, under their ids."""
        rest = Options({}, "qrerun", 2).read(asked.argv).rest
        matches, err, code = self.find(rest, "qrerun", history=False)
        for name, jobs in matches:
            running = [job for job in jobs if job.pid and not job.finals]
            if not running:
                err, code = err + f"qrerun: Request invalid for state of job {name}\n", 168
            elif not running[0].requeues:
                err, code = err + f"qrerun: job is not rerunnable {name}\n", 190
            else:
                for job in running:
                    self.cluster.end(job, self.cluster.now, "PENDING", grace=GRACE)
        return Answer("", err, code)

    def qsig(self, asked: Asked) -> Answer:
        """Send a signal to all processes of jobs, the shell too."""
        given = Options(QSIG, "qsig", 2).read(asked.argv)
        jobs, err, code = self._running("qsig", given.rest)
        name = given.get("signal", "TERM").upper().removeprefix("SIG")
        if f"SIG{name}" not in signal.Signals.__members__:
            raise Refused(f"qsig: Unknown signal {name}")
        for job in jobs:
            self.cluster.signal(job, signal.Signals[f"SIG{name}"], shell_only=False)
        return Answer("", err, code)

    def _running(self, command: str, words: list[str]) -> tuple[list[Job], str, int]:
        matches, err, code = self.find(words, command, history=False)
        return [job for _, jobs in matches for job in jobs if job.state not in OVER], err, code


class Matches(NamedTuple):
    """The jobs that an id means: a job, a subjob, or all subjobs of an array."""

    name: Id
    jobs: list[Job]


def name_of(job: Job) -> Id:
    """Return the id of a job or a subjob."""
    return Id(job.number, job.array is not None, job.array[1] if job.array else None)


def belongs(job: Job, name: Id) -> bool:
    """Return True if a job is the one that an id means, or a part of it."""
    own = name_of(job)
    return own[:2] == name[:2] and name.task in {None, own.task}


def over(jobs: list[Job]) -> bool:
    """Return True if all of them have ended."""
    return all(job.state in OVER for job in jobs)


def _stem(job: Job) -> str:
    return str(name_of(job)).removesuffix(".pbs")


def _never(what: str, asked: int, most: int) -> str:
    return (
        f"Can Never Run: Insufficient amount of resource: {what} (R: {asked} A: {most} T: {most})"
    )
