"""A step of ``srun``: its options become processes, with their variables and output files."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.slurm_words import values
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.records import hosts
from grain.queue import patterns
from grain.resource.figures import hostlist, repeated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CPUS = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?")
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
        places: its workers, by their places among those of the job, and the processes on each.
    """

    tasks: int
    directory: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    append: bool = False
    label: bool = False
    limit: float = 0.0
    places: tuple[tuple[int, int], ...] = ((0, 1),)

    @property
    def is_plain(self) -> bool:
        """True if its one process may take the place of ``srun`` itself."""
        return self.places == ((0, 1),) and not self.label and not self.limit

    @cached_property
    def processes(self) -> list[StepProcess]:
        """Its processes, by their numbers."""
        return [
            StepProcess(place, node, local)
            for node, (place, count) in enumerate(self.places)
            for local in range(count)
        ]


class StepProcess(NamedTuple):
    """A process of a step.

    Attributes:
        place: of its worker among those of the job; 0 is where ``srun`` runs.
        node: the same among those of the step.
        local: its number on that worker.
    """

    place: int
    node: int
    local: int


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
    refuse(given, job)
    mpi = given.get("mpi", "none")
    if mpi not in _PLAIN_MPI:
        raise StepRefused(
            f"srun: error: (Grain) --mpi={mpi} is not supported, and without it each process would "
            "be a run of its own: start the program by mpirun, or by mpiexec"
        )
    places = _places(given, environment)
    if "overcommit" not in given and not _have_cpus(given, environment, places):
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
        tasks=sum(count for _, count in places),
        places=places,
        directory=given.get("chdir", ""),
        stdin="/dev/null" if stdin.lower() == "none" else "" if stdin == "all" else stdin,
        stdout=_file(given.get("output", "")),
        stderr=_file(given.get("error", "")),
        append=given.get("open-mode", "t").lower().startswith("a"),
        label="label" in given,
        limit=limit,
    )


def _places(
    given: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[tuple[int, int], ...]:
    """Return the workers of a step, by their places in the job, and the processes on each."""
    names = [host.partition(".")[0] for host in _hosts(environment)]
    chosen = list(range(len(names)))
    if "nodelist" in given:
        wanted = [host.partition(".")[0] for host in hosts(given["nodelist"])]
        chosen = [place for place in chosen if names[place] in wanted]
        if not set(wanted) <= set(names):
            raise StepRefused(
                f"srun: error: Unable to create step for job {environment.get('SLURM_JOB_ID')}: "
                "Requested node configuration is not available"
            )
    elif "relative" in given:
        first = given["relative"]
        chosen = chosen[int(first) if first.isdecimal() else 0 :]
    text = given.get("nodes", str(len(chosen))).partition("-")[0]
    if not text.isdecimal():
        raise BadUse(f'srun: error: "{given["nodes"]}" is not a valid node count')
    nodes = int(text)
    if not 0 < nodes <= len(chosen):
        raise StepRefused(f"srun: error: Only allocated {len(chosen)} nodes asked for {nodes}")
    tasks = _count(given, "ntasks") or _count(given, "ntasks-per-node") * nodes
    tasks = tasks or _count({"ntasks": environment.get("SLURM_NTASKS", "")}, "ntasks") or nodes
    nodes = min(nodes, tasks)
    each, more = divmod(tasks, nodes)
    return tuple((place, each + (at < more)) for at, place in enumerate(chosen[:nodes]))


def _hosts(environment: Mapping[str, str]) -> list[str]:
    """Return the hosts of the workers of a job."""
    return (environment.get("GRAIN_NODES") or environment.get("SLURM_JOB_NODELIST", "")).split(",")


def _have_cpus(
    given: Mapping[str, str],
    environment: Mapping[str, str],
    places: tuple[tuple[int, int], ...],
) -> bool:
    """Return True if each worker has a CPU for each of its processes, and so many as they ask."""
    text = environment.get("SLURM_JOB_CPUS_PER_NODE") or environment.get("SLURM_CPUS_ON_NODE", "")
    cpus: list[int] = []
    for count, times in _CPUS.findall(text):
        cpus += [int(count)] * int(times or 1)
    each = _count(given, "cpus-per-task") or 1
    return all(place >= len(cpus) or count * each <= cpus[place] for place, count in places)


def refuse(given: Mapping[str, str], job: str) -> None:
    """Refuse options of a step that there are not here.

    Args:
        given: options by their long names.
        job: the number of the job in which ``srun`` runs; "" for none.

    Raises:
        StepRefused: the text is what srun prints.
    """
    for name, reason in _REFUSED.items():
        if name in given:
            raise StepRefused(f"srun: error: (Grain) {reason}")
    if given.get("jobid", job) != job:
        raise StepRefused(
            f"srun: error: Unable to confirm allocation for job {given['jobid']}: Invalid job id "
            "specified\nsrun: (Grain) a step begins in its own job only"
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
    names = _hosts(environment)
    process = step.processes[rank]
    return found | {
        "SLURM_LOCALID": str(process.local),
        "SLURM_NODEID": str(process.node),
        "SLURM_NPROCS": str(step.tasks),
        "SLURM_NTASKS": str(step.tasks),
        "SLURM_PROCID": str(rank),
        "SLURM_STEPID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": hostlist(names[place] for place, _ in step.places),
        "SLURM_STEP_NUM_NODES": str(len(step.places)),
        "SLURM_STEP_NUM_TASKS": str(step.tasks),
        "SLURM_STEP_TASKS_PER_NODE": repeated(count for _, count in step.places),
    }


def elsewhere(
    place: int, command: Sequence[str], variables: Mapping[str, str], rsh: str
) -> list[str]:
    """Return the words that run a command on another worker of the job.

    Args:
        place: of the worker.
        command: the command.
        variables: its own, of which those of batch systems do not travel by themselves.
        rsh: what starts programs there, in place of ssh.
    """
    own = [f"{name}={value}" for name, value in variables.items() if name.startswith("SLURM_")]
    return [rsh, "--program", f"m{place}", shlex.join(["exec", "env", *own, *command])]


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
