"""Slurm 22.05: sbatch, scancel, scontrol, and what Slurm does when jobs start and end."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fake_batch.model import OVER, Job
from fake_batch.slurm_words import array_of, failed, megabytes_of, minutes_of, signal_of, warning_of
from fake_batch.words import Answer, Asked, Options, Refused, directives, script_of

if TYPE_CHECKING:
    from fake_batch.cluster import Cluster

# Partition: the nodes it has (None for all) and its limit in seconds.
PARTITIONS: dict[str, tuple[tuple[str, ...] | None, float | None]] = {
    "main": (None, None),
    "short": (("n1",), 120.0),
}
MAX_ARRAY = 1001
PERIODIC = 30

SBATCH = {
    "-J": "name", "--job-name": "name", "-o": "output", "--output": "output",
    "--open-mode": "mode", "-a": "array", "--array": "array", "-N": "nodes", "--nodes": "nodes",
    "-n": "tasks", "--ntasks": "tasks", "-c": "cores", "--cpus-per-task": "cores",
    "--mem": "memory", "-t": "time", "--time": "time", "-p": "partition",
    "--partition": "partition", "--signal": "signal", "--parsable": "parsable!",
    "--wrap": "wrap", "-D": "chdir", "--chdir": "chdir", "--requeue": "requeue!",
    "--no-requeue": "norequeue!", "-A": "account", "--account": "account",
    "--exclusive": "exclusive!", "-q": "qos", "--qos": "qos", "--comment": "comment",
    "--gres": "gres",
    "--version": "version!", "-V": "version!",
}  # fmt: skip
SCANCEL = {
    "-s": "signal", "--signal": "signal", "-b": "batch!", "--batch": "batch!", "-u": "user",
    "--user": "user",
}  # fmt: skip


class Slurm:
    """Slurm's side of a cluster.

    Args:
        cluster: What it manages.
        max_array: MaxArraySize: the largest index is one less; 0 forbids arrays.
    """

    def __init__(self, cluster: Cluster, max_array: int = MAX_ARRAY) -> None:
        self.cluster = cluster
        self.max_array = max_array

    # What the cluster asks.

    def place(self, job: Job) -> tuple[dict[str, str], str, Path]:
        """Environment, directory and output file of a job that starts."""
        env = {
            **job.env,
            "SLURM_JOB_ID": str(job.number),
            "SLURM_JOBID": str(job.number),
            "SLURM_JOB_NAME": job.name,
            "SLURM_JOB_PARTITION": job.queue,
            "SLURM_JOB_NODELIST": job.node,
            "SLURM_NODELIST": job.node,
            "SLURMD_NODENAME": job.node,
            "SLURM_NODEID": "0",
            "SLURM_PROCID": "0",
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_NNODES": "1",
            "SLURM_TASKS_PER_NODE": "1",
            "SLURM_CPUS_ON_NODE": str(job.cores),
            "SLURM_JOB_CPUS_PER_NODE": str(job.cores),
            "SLURM_SUBMIT_DIR": job.cwd,
            "SLURM_CLUSTER_NAME": "fake",
        }
        if job.memory:
            env["SLURM_MEM_PER_NODE"] = str(job.memory)
        if job.restarts:
            env["SLURM_RESTART_COUNT"] = str(job.restarts)
        if job.array:
            env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"] = map(str, job.array)
        return env, job.cwd, Path(job.cwd, self._filled(job))

    def _filled(self, job: Job) -> str:
        base, index = job.array or (job.number, 4294967294)
        values = {"j": job.number, "A": base, "a": index, "x": job.name, "N": job.node, "%": "%"}
        return re.sub(r"%([jAaxN%])", lambda mark: str(values[mark[1]]), job.output)

    def notice(self, job: Job, why: str) -> str:
        """The line in a job's output when it is ended by others."""
        if why == "OUT_OF_MEMORY":
            return f"slurmstepd: error: Job {job.number} exceeded memory limit, being killed"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        due = " DUE TO TIME LIMIT" if why == "TIMEOUT" else ""
        due = " DUE TO NODE FAILURE" if why == "NODE_FAIL" else due
        return (
            f"slurmstepd: error: *** JOB {job.number} ON {job.node} CANCELLED AT {stamp}{due} ***"
        )

    def warn_now(self, job: Job, now: float) -> bool:
        """Slurm looks every 30 s, and warns if the next look would come too late."""
        if job.warning is None or job.limit is None:
            return False
        return now + job.warning[1] + PERIODIC >= job.started + job.limit

    def task_number(self, job: Job) -> int:
        """Each task of an array has a number; the last one to start has the array's own."""
        assert job.array is not None
        waiting = [one for one in self.cluster.jobs if one.state == "PENDING" and one.array]
        last = [one for one in waiting if one.array and one.array[0] == job.array[0]] == [job]
        return job.array[0] if last else self.cluster.number()

    def over(self, job: Job) -> None:
        """Nothing is left to do."""

    # The commands.

    def sbatch(self, asked: Asked) -> Answer:
        """Submit a job or an array."""
        typed = Options(SBATCH, "sbatch", 255).read(asked.argv)
        if typed.has("version"):
            return Answer("slurm-wlm 22.05.8\n")
        script = self._script(asked, typed)
        words = directives(script, "#SBATCH", comments=True) + asked.argv
        given = Options(SBATCH, "sbatch", 255).read(words)
        jobs = self._jobs(asked, given, script, typed)
        self.cluster.jobs += jobs
        number = (jobs[0].array or (jobs[0].number, 0))[0]
        text = f"{number}\n" if given.has("parsable") else f"Submitted batch job {number}\n"
        return Answer(text)

    def _script(self, asked: Asked, typed: Options) -> str:
        if typed.has("wrap"):
            return f"#!/bin/sh\n{typed.get('wrap')}\n"
        script = script_of(asked, typed.rest, "sbatch: error: Unable to open file {name}")
        if not script.startswith("#!"):
            raise Refused(
                "sbatch: error: This does not look like a batch script.  The first\n"
                "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
                "sbatch: error: For instance: #!/bin/sh"
            )
        return script

    def _jobs(self, asked: Asked, given: Options, script: str, typed: Options) -> list[Job]:
        if given.has("gres"):
            raise Refused("sbatch: error: Invalid generic resource (gres) specification")
        limit = minutes_of(given.get("time")) if given.has("time") else None
        cores = int(given.get("cores", "1")) * int(given.get("tasks", "1"))
        memory = megabytes_of(given.get("memory")) if given.has("memory") else 0
        queue = given.get("partition", "main")
        never = self._fits(queue, cores, memory, limit, int(given.get("nodes", "1")))
        indices, throttle = array_of(given.get("array")) if given.has("array") else ([-1], 0)
        if given.has("array") and (not indices or indices[-1] >= self.max_array):
            raise failed("Invalid job array specification")
        default = "slurm-%A_%a.out" if given.has("array") else "slurm-%j.out"
        name = Path(typed.rest[0]).name if typed.rest else "wrap" if typed.has("wrap") else "sbatch"
        base = self.cluster.number()
        return [
            Job(
                number=base,
                name=given.get("name", name),
                script=script,
                cores=cores,
                memory=memory,
                limit=limit or PARTITIONS[queue][1],
                queue=queue,
                output=given.get("output", default),
                cwd=given.get("chdir", asked.cwd),
                env=asked.env,
                submitted=time.time(),
                array=(base, index) if index >= 0 else None,
                throttle=throttle,
                append=given.get("mode") == "append",
                requeues=not given.has("norequeue"),
                warning=warning_of(given.get("signal")) if given.has("signal") else None,
                never=never,
            )
            for index in indices
        ]

    def _fits(self, queue: str, cores: int, memory: int, limit: float | None, nodes: int) -> str:
        """Return the reason why the job waits without end, or "", or raise if it is refused."""
        if queue not in PARTITIONS:
            raise Refused(
                f"sbatch: error: invalid partition specified: {queue}\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified"
            )
        names, longest = PARTITIONS[queue]
        there = [node for node in self.cluster.nodes.values() if not names or node.name in names]
        if memory > max(node.memory for node in there):
            raise Refused(
                "sbatch: error: Memory specification can not be satisfied\n"
                "sbatch: error: Batch job submission failed: "
                "Requested node configuration is not available"
            )
        if nodes > len(there):
            return "PartitionNodeLimit"
        if longest is not None and limit is not None and limit > longest:
            return "PartitionTimeLimit"
        return "PartitionConfig" if cores > max(node.cores for node in there) else ""

    def scancel(self, asked: Asked) -> Answer:
        """End jobs, or send them a signal. Unknown ids are passed over in silence."""
        given = Options(SCANCEL, "scancel").read(asked.argv)
        if not given.rest and not given.has("user"):
            raise Refused("scancel: error: No job identification provided")
        for word in given.rest:
            if not re.fullmatch(r"\d+(_\d+)?", word):
                raise Refused(f"scancel: error: Invalid job id {word}")
        jobs = [job for word in given.rest for job in self.find(word)]
        now = self.cluster.now
        for job in jobs if given.rest else list(self.cluster.jobs):
            if job.state in OVER:
                continue
            if not given.has("signal"):
                self.cluster.end(job, now, "CANCELLED")
            elif given.has("batch"):
                # Without --batch a signal goes to the steps of srun, of which there are none.
                self.cluster.signal(job, signal_of(given.get("signal")), shell_only=True)
        return Answer()

    def find(self, word: str) -> list[Job]:
        """The jobs that an id means: a task, all of an array, or one job."""
        base, _, index = word.partition("_")
        if index:
            return [job for job in self.cluster.jobs if job.array == (int(base), int(index))]
        number = int(base)
        return [
            job
            for job in self.cluster.jobs
            if (job.array and job.array[0] == number) or (job.number == number)
        ]

    def scontrol(self, asked: Asked) -> Answer:
        """`show job`, `requeue`, `update nodename=`, `update jobid= StartTime=now`."""
        match asked.argv:
            case ["show", "job", word]:
                return Answer("\n".join(map(self._shown, self._known(word))) + "\n")
            case ["requeue", word]:
                self._requeue(word)
            case ["update", *words]:
                self._update(dict(word.lower().split("=", 1) for word in words if "=" in word))
            case [verb, *_]:
                raise Refused(f"invalid keyword: {verb}")
            case _:
                raise Refused("this is a fake: scontrol without a verb is not known")
        return Answer()

    def _known(
        self, word: str, refusal: str = "slurm_load_jobs error: Invalid job id specified"
    ) -> list[Job]:
        jobs = self.find(word) if re.fullmatch(r"\d+(_\d+)?", word) else []
        if not jobs:
            raise Refused(refusal.format(word=word))
        return jobs

    def _requeue(self, word: str) -> None:
        now = self.cluster.now
        for job in self._known(word, "Invalid job id specified for job {word}"):
            if job.pid:
                self.cluster.end(job, now, "PENDING")
            elif job.state in OVER:
                self.cluster.queue_again(job, now)

    def _update(self, given: dict[str, str]) -> None:
        if "jobid" in given:
            for job in self._known(given["jobid"]):
                job.not_before = 0.0
            return
        node = self.cluster.nodes.get(given.get("nodename", ""))
        if node is None:
            raise Refused("slurm_update error: Invalid node name specified")
        if given.get("state") == "down":
            self.cluster.down(node, self.cluster.now)
        elif given.get("state") in {"resume", "idle"}:
            self.cluster.resume(node)
        else:
            raise Refused(f"slurm_update error: this is a fake: state={given.get('state')}")

    def _shown(self, job: Job) -> str:
        array = f" ArrayJobId={job.array[0]} ArrayTaskId={job.array[1]}" if job.array else ""
        limit = "UNLIMITED" if job.limit is None else f"{int(job.limit // 60)} minutes"
        return (
            f"JobId={job.number}{array} JobName={job.name}\n"
            f"   JobState={job.state} Reason={job.reason or 'None'} Dependency=(null)\n"
            f"   Requeue={int(job.requeues)} Restarts={job.restarts} BatchFlag=1 Reboot=0"
            f" ExitCode={job.code[0]}:{job.code[1]}\n"
            f"   TimeLimit={limit}\n"
            f"   Partition={job.queue} NodeList={job.node}\n"
            f"   WorkDir={job.cwd}\n"
            f"   StdOut={Path(job.cwd, self._filled(job))}\n"
        )


def user() -> str:
    """Return the user who owns all jobs."""
    return os.environ.get("USER", "root")
