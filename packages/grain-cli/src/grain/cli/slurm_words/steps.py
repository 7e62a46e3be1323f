"""A step of ``srun``: its options become processes, with their variables and output files."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.cli.slurm_words import values
from grain.cli.slurm_words.grammar import BadUse
from grain.queue import patterns

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN_MPI = ("none", "openmpi")
_REFUSED = {
    "multi-prog": "--multi-prog is not supported: write a script that looks at SLURM_PROCID",
    "het-group": "there are no heterogeneous jobs",
    "no-allocate": "--no-allocate is not supported",
    "container": "containers are not started here: do so in the command",
    "bcast": "--bcast is not supported: use a directory that all nodes share",
}


class StepRefused(Exception):
    """A step that cannot be started; the text is for the user."""


@dataclass(frozen=True)
class SrunStep:
    """A step.

    Attributes:
        tasks: the number of its processes.
        directory: where they run; "" for that of the command.
        stdin: a file; "" for that of the command.
        stdout: the pattern of a file; "" for that of the command.
        stderr: the same; "" for stdout if that is a file, else that of the command.
        append: True to append to these files.
        label: True for the number of the process before each line.
        limit: seconds after which it is ended; 0 for none.
    """

    tasks: int
    directory: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    append: bool = False
    label: bool = False
    limit: float = 0.0

    @property
    def is_plain(self) -> bool:
        """True if its one process may take the place of ``srun`` itself."""
        return self.tasks == 1 and not self.label and not self.limit


def make_step(given: Mapping[str, str], environment: Mapping[str, str]) -> SrunStep:
    """Return the step that options ask for, in a job.

    Args:
        given: options by their long names.
        environment: the variables of the job.

    Raises:
        BadUse: a value is not written as it should be.
        StepRefused: there is no such step here; the text is what srun prints.
    """
    job = environment.get("SLURM_JOB_ID", "")
    for name, reason in _REFUSED.items():
        if name in given:
            raise StepRefused(f"srun: error: (Grain) {reason}")
    if given.get("jobid", job) != job:
        raise StepRefused(
            f"srun: error: Unable to confirm allocation for job {given['jobid']}: Invalid job id "
            "specified\nsrun: (Grain) a step begins in its own job only"
        )
    mpi = given.get("mpi", "none")
    if mpi not in _PLAIN_MPI:
        raise StepRefused(
            f"srun: error: (Grain) --mpi={mpi} is not supported, and without it each process would "
            "be a run of its own: start the program by mpirun, or by mpiexec"
        )
    tasks = _count(given, "ntasks") or _count(given, "ntasks-per-node")
    tasks = tasks or _count({"ntasks": environment.get("SLURM_NTASKS", "1")}, "ntasks")
    nodes = given.get("nodes", "1").partition("-")[0]
    if not nodes.isdecimal():
        raise BadUse(f'srun: error: "{given["nodes"]}" is not a valid node count')
    if int(nodes) != 1:
        raise StepRefused(f"srun: error: Only allocated 1 nodes asked for {nodes}")
    cores = environment.get("SLURM_CPUS_ON_NODE", "")
    wanted = tasks * (_count(given, "cpus-per-task") or 1)
    if cores.isdecimal() and wanted > int(cores) and "overcommit" not in given:
        raise StepRefused(
            f"srun: error: Unable to create step for job {job}: More processors requested than "
            "permitted"
        )
    try:
        limit = values.time_limit(given.get("time", "0"))
    except ValueError:
        raise BadUse("srun: error: Invalid --time specification") from None
    stdin = given.get("input", "")
    return SrunStep(
        tasks=tasks,
        directory=given.get("chdir", ""),
        stdin="/dev/null" if stdin.lower() == "none" else "" if stdin == "all" else stdin,
        stdout=_file(given.get("output", "")),
        stderr=_file(given.get("error", "")),
        append=given.get("open-mode", "t").lower().startswith("a"),
        label="label" in given,
        limit=limit,
    )


def _file(pattern: str) -> str:
    return {"none": "/dev/null", "all": ""}.get(pattern.lower(), pattern)


def _count(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "")
    if not text:
        return 0
    if not text.isdecimal() or not text.isascii() or not int(text):
        raise BadUse(f'srun: error: Invalid numeric value "{text}" for --{name}.', 1)
    return int(text)


def variables(
    step: SrunStep, rank: int, environment: Mapping[str, str], export: str = "ALL"
) -> dict[str, str]:
    """Return the environment of a process of a step.

    Args:
        step: the step.
        rank: the number of the process.
        environment: that of ``srun``.
        export: the argument of ``--export``.
    """
    parts = [part.strip() for part in export.split(",")]
    kept = {part.upper() for part in parts} & {"ALL", "NONE", "NIL"}
    found = {
        name: value
        for name, value in environment.items()
        if "ALL" in kept or name.startswith(("SLURM_", "GRAIN_")) or name in parts or name == "PATH"
    }
    found |= dict(part.split("=", 1) for part in parts if "=" in part)
    node = environment.get("SLURM_JOB_NODELIST", "")
    return found | {
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_NPROCS": str(step.tasks),
        "SLURM_NTASKS": str(step.tasks),
        "SLURM_PROCID": str(rank),
        "SLURM_STEPID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": node,
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NUM_TASKS": str(step.tasks),
        "SLURM_STEP_TASKS_PER_NODE": str(step.tasks),
    }


def path(pattern: str, rank: int, environment: Mapping[str, str], directory: str) -> str:
    """Return the path of an output file of a process.

    Args:
        pattern: as sbatch(1) has it, with ``%t`` for the number of the process.
        rank: the number of the process.
        environment: of the job.
        directory: to which a relative path belongs.
    """
    job, task = environment.get("SLURM_JOB_ID", "0"), environment.get("SLURM_ARRAY_TASK_ID")
    array = environment.get("SLURM_ARRAY_JOB_ID", job)
    # %A is the number of the array, and %j that of the task, which differ here.
    shown = pattern if "\\" in pattern else pattern.replace("%j", job).replace("%J", f"{job}.0")
    facts = patterns.Facts(
        number=int(array) if array.isdecimal() else 0,
        task=int(task) if task is not None and task.isdecimal() else None,
        name=environment.get("SLURM_JOB_NAME", ""),
        user=environment.get("SLURM_JOB_USER", ""),
        host=environment.get("SLURM_JOB_NODELIST", ""),
        rank=rank,
        step=0,
    )
    return posixpath.normpath(str(patterns.path(shown, facts, directory)))
