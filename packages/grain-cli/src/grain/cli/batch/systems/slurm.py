"""Slurm, by sbatch, squeue and scancel; the texts are those of Slurm 22.05."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.batch.answers import by_name, last_line, or_gone
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import IN_DOUBT, Commands
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import amount, gpus_of, options, whole, word
from grain.cli.batch.scripts.shell import body
from grain.config import format_walltime
from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob

_FORMAT = "%i|%T|%r|%N"
_FEW = 50  # tasks, which every site allows an array to have
_SILENT = ("Unable to contact slurm controller", "Connection refused", *IN_DOUBT)

_REMEDIES = (
    ("nvalid partition", "Set script.queue to a partition that there is; `sinfo -s` lists them."),
    ("Memory specification", "Lower script.memory; `sinfo -o '%P %c %m'` shows cores and MB."),
    (
        "Requested node configuration",
        "Lower script.cores or script.memory; `sinfo -o '%P %c %m'` shows what nodes have.",
    ),
    ("More processors requested", "Lower script.cores; `sinfo -o '%P %c'` shows what nodes have."),
    ("ode count specification", "Change script.nodes; `sinfo -o '%P %s'` shows the limits."),
    ("nvalid account", "Name your account in script.extra_args, as in '--account=chem'."),
    ("specify an account", "Name your account in script.extra_args, as in '--account=chem'."),
    ("nvalid qos", "Change the --qos in script.extra_args."),
    # Limits of an account or a QOS. sbatch prints the name of the limit in a line of its own, so
    # the names come first. The sentence that it prints for all of them speaks of time limits, too.
    ("SubmitJob", "Start fewer workers at a time: your site limits the number of jobs."),
    ("MaxJobs", "Start fewer workers at a time: your site limits the number of jobs."),
    (
        "Minutes",
        "Lower script.walltime or script.cores, or name another account: yours limits CPU time.",
    ),
    ("QOSMin", "Ask for more: your QOS has a least amount; `sacctmgr show qos` lists it."),
    ("MaxWall", "Lower script.walltime: your account or QOS limits it."),
    ("MaxCpu", "Lower script.cores, or start fewer workers: your account or QOS limits both."),
    ("MaxMem", "Lower script.memory, or start fewer workers: your account or QOS limits both."),
    ("MaxGRES", "Ask for fewer GPUs, or start fewer workers: your account or QOS limits both."),
    ("MaxNodePerJob", "Lower script.nodes: your account or QOS limits it."),
    ("MaxNode", "Start fewer workers at a time: your account or QOS limits the nodes."),
    ("QOSMax", "Start fewer workers at a time, or ask for less; your site limits both."),
    (
        "accounting/QOS policy",
        (
            "Start fewer workers at a time, or ask for less; your site limits both. "
            "`sacctmgr show assoc user=$USER` and `sacctmgr show qos` list the limits."
        ),
    ),
    ("time limit is invalid", "Lower script.walltime; `sinfo -o '%P %l'` shows what there is."),
    ("No partition specified", "Set script.queue to a partition; `sinfo -s` lists them."),
    ("not permitted to use this partition", "Choose another script.queue; `sinfo -s` lists them."),
    ("feature specification", "Change the --constraint in script.extra_args."),
    ("reservation", "Change the --reservation in script.extra_args."),
    ("license specification", "Change the --licenses in script.extra_args."),
    ("inactive or drain", "Choose another script.queue, or try again later; see `sinfo -s`."),
    (
        "Access/permission denied",
        "Choose another script.queue, or run this on a login node: your site refuses it here.",
    ),
    (
        "Protocol authentication error",
        "Slurm does not know you here: munge may be down, or a clock wrong; tell your site.",
    ),
    ("I/O error writing script", "The disk of Slurm's controller may be full; tell your site."),
    (
        "Pathname of a file",
        "Run this in a directory with a shorter path, or write less in script.extra_args.",
    ),
    ("temporarily unable to accept job", "Slurm takes no more jobs now; try again later."),
    ("presently disabled", "Slurm takes no jobs now; try again later."),
    ("generic resource", "Change the --gres or --gpus in script.extra_args, or gpus of the shape."),
    ("unrecognized option", "Correct script.extra_args, or what you wrote after `--`."),
    ("nrecognized", "Correct script.extra_args, or what you wrote after `--`."),
    (
        "Could not establish a configuration source",
        "Slurm is installed but not configured here; run this on a login node of the cluster.",
    ),
    *((text, "Slurm's controller does not answer; try again later.") for text in _SILENT),
)
COMMANDS = Commands(
    "slurm",
    ("sbatch", "squeue", "scancel"),
    ("squeue", "--noheader", "--user", "{user}"),
    _REMEDIES,
    _SILENT,
    tried="Slurm 22.05",
)

_PHASES = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED"), JobPhase.PENDING),
    **dict.fromkeys(("REQUEUE_HOLD", "SPECIAL_EXIT"), JobPhase.STUCK),
    **dict.fromkeys(
        ("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"), JobPhase.RUNNING
    ),
    "COMPLETING": JobPhase.ENDING,
    **dict.fromkeys(
        (
            "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED",
            "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
        ),
        JobPhase.GONE,
    ),
}  # fmt: skip
# squeue(1), "Job reason codes": those upon which Slurm leaves a job in the queue.
_NEVER = re.compile(
    "Partition(TimeLimit|NodeLimit|Config)|JobHeld(User|Admin)|BadConstraints|InvalidAccount"
    "|InvalidQOS|DependencyNeverSatisfied|AccountNotAllowed|QOSNotAllowed"
    "|(QOS|Assoc)Max.*Per(Job|Node)Limit|launch failed requeued held"
)


def script(job: BatchJob, n: int = 1) -> str:
    """Return the script of one job, or of an array of ``n`` tasks numbered from 0."""
    array = n > 1
    marked = job.member("%a") if array else job
    shell = body(job, "SLURM_ARRAY_TASK_ID" if array else "", restarts="SLURM_RESTART_COUNT")
    return whole(job, "#SBATCH", (*_directives(job, marked.log_file, n), *options(job)), shell)


def _directives(job: BatchJob, log_file: str, n: int) -> Iterator[str]:
    asked = job.script
    yield f"--job-name={word(job.name)}"
    if log_file:
        yield f"--output={word(log_file)}"
        # Without it, a requeue empties the output of before.
        yield "--open-mode=append"
    if n > 1:
        yield f"--array=0-{n - 1}"
    yield f"--nodes={asked.nodes}"
    yield f"--ntasks={asked.nodes}"
    if asked.nodes > 1:
        yield "--ntasks-per-node=1"
    if asked.cores is not None:
        yield f"--cpus-per-task={asked.cores}"
    if asked.memory is not None:
        yield f"--mem={amount(asked.memory, 'G', 'M')}"
    if gpus := gpus_of(job):
        yield f"--gres=gpu:{gpus}"
    if asked.walltime is not None:
        yield f"--time={format_walltime(asked.walltime)}"
    if asked.queue:
        yield f"--partition={word(asked.queue)}"
    if job.warning is not None:
        # B: to the shell, which forwards it. Without the B, Slurm signals only srun's steps.
        yield f"--signal=B:USR1@{job.warning}"


def largest_array(n: int) -> int:
    """Return the most tasks of an array, for as many jobs; ``n`` where the site does not say.

    Source: slurm.conf(5), "MaxArraySize": one more than the largest number of a task.
    """
    if n <= _FEW:
        return n
    try:
        out = COMMANDS.run(["scontrol", "show", "config"]).out
    except BatchError:
        return n
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", out, re.MULTILINE)
    return min(n, int(found[1])) if found and int(found[1]) > 1 else n


def submitted_id(output: str) -> str:
    """Read the job's number from the output of ``sbatch --parsable``: ``6``, or ``6;cluster``."""
    number = last_line(output).split(";")[0].strip()
    return number if number.isdecimal() else ""


def named(output: str) -> Iterator[tuple[str, str]]:
    """Read lines of ``squeue`` with ``%i|%j``: ids and names of jobs.

    The tasks of an array have its name; Grain's own have the number of the task behind it.
    """
    for line in output.splitlines():
        number, _, name = line.strip().partition("|")
        task = number.partition("_")[2]
        yield number, f"{name}-{task}" if task else name


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read the lines of ``squeue`` in `_FORMAT`; a job that is not listed has ended."""
    by_id: dict[str, JobState] = {}
    for line in output.splitlines():
        number, state, reason, node, *_ = [*line.strip().split("|"), "", "", ""]
        by_id[number] = _state(state, "" if reason == "None" else reason, node)
    return or_gone(by_id, ids)


def _state(state: str, reason: str, node: str) -> JobState:
    # A state that later versions of Slurm may have says nothing of the end of the job.
    phase = _PHASES.get(state, JobPhase.UNKNOWN)
    if phase is JobPhase.PENDING and _NEVER.search(reason):
        phase = JobPhase.STUCK
    if phase in {JobPhase.GONE, JobPhase.UNKNOWN}:
        return JobState(phase, f"{state} ({reason})" if reason else state, node)
    return JobState(phase, reason, node)


class System(BatchSystem):
    """Slurm, by sbatch, squeue and scancel."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script; that of an array if there are several jobs."""
        return script(job, n)

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit an array, or single jobs where the site allows no array of that size."""
        if n > 1:
            try:
                number = self._sbatch(script(job, n), job.members(n))
            except BatchError as error:
                if "Invalid job array specification" not in error.output:
                    raise
            else:
                tasks = enumerate(job.members(n))
                yield from (SubmittedJob(f"{number}_{i}", m.name, m.log_file) for i, m in tasks)
                return
        for member in job.members(n):
            number = self._sbatch(script(member), [member])
            yield SubmittedJob(number, member.name, member.log_file)

    def _sbatch(self, text: str, jobs: list[BatchJob]) -> str:
        return COMMANDS.accepted(["sbatch", "--parsable"], jobs, submitted_id, stdin=text)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query squeue; a job that ended a while ago is gone without a reason."""
        options = ["--noheader", "--array", "--states=all", f"--format={_FORMAT}"]
        command = ["squeue", *options, f"--jobs={','.join(ids)}"]
        # squeue fails like this if it has forgotten the only job that it was asked for.
        out = COMMANDS.answer(command, lambda done: "Invalid job id specified" in done.err)
        return states(out, ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query squeue for jobs and arrays of these names, also those that ended a moment ago."""
        options = ["--noheader", "--array", "--states=all", "--format=%i|%j", "--user", user_name()]
        return by_name(named(COMMANDS.answer(["squeue", *options])), names)

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs: Slurm sends their processes SIGTERM, and SIGKILL 30 s (KillWait) later."""
        COMMANDS.answer(["scancel", *ids])
