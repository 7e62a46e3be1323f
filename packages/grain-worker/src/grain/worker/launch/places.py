"""The nodes of a batch job, and the command that starts a worker on each. Pure.

Sources: srun(1); pbs_tmrsh(8B) of OpenPBS; pbsdsh(1) of Torque; qrsh(1) and sge_pe(5), with the
file that PE_HOSTFILE names, of Grid Engine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from grain.files.batch_systems import facts_of, several_nodes
from grain.resource import GPU_LISTS
from grain.worker.auto import batch_system
from grain.worker.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class JobPlace(NamedTuple):
    """A node of a job.

    Attributes:
        slots: its CPUs of the job, where the batch system states them node by node.
    """

    host: str
    slots: int = 0


def places(system: str, lines: Iterable[str]) -> list[JobPlace]:
    """Return the nodes of a job in the order of its list, the node of its script first.

    Args:
        lines: of the file that PBS_NODEFILE, or PE_HOSTFILE of Grid Engine, names.

    >>> places("pbs", ["n1", "n1", "n2"])
    [JobPlace(host='n1', slots=0), JobPlace(host='n2', slots=0)]
    >>> places("sge", ["n1 4 main.q@n1 UNDEFINED", "n2 4 main.q@n2 UNDEFINED"])
    [JobPlace(host='n1', slots=4), JobPlace(host='n2', slots=4)]
    """
    slots: dict[str, int] = {}
    for line in lines:
        host, *rest = line.split() or [""]
        if host:
            counted = system == "sge" and rest and rest[0].isdecimal()
            # A host may stand there once for each queue.
            slots[host] = slots.get(host, 0) + (int(rest[0]) if counted else 0)
    return [JobPlace(host, count) for host, count in slots.items()]


def srun(nodes: int, worker: Sequence[str]) -> list[str]:
    """Return the command that starts a worker on each node of a job of Slurm.

    Each option that says how goes before the variables of sbatch, which srun reads, too.
    """
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        # A worker binds its programs, and has all CPUs of the job on its node: `--exact` and
        # `--cpus-per-task` might leave it fewer.
        "--cpu-bind=none",
        "--mpi=none",
        # Programs of tasks may start steps, too.
        "--overlap",
        # The end of a worker, even by a signal, is not the end of the others.
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--export=ALL",
        *worker,
    ]


def remote(
    system: str, host: str, starter: Sequence[str], commands: Mapping[str, str]
) -> list[str]:
    """Return the command that runs a starter on another node of a job of PBS or Grid Engine.

    Args:
        commands: the paths of the launchers that there are, by name.

    Raises:
        UsageError: none is there; or a word does not get there as it is.
    """
    if system == "sge":
        # They travel as one line, in which 0xff is between them.
        if odd := next((w for w in starter if {*b"\n\xff"} & {*os.fsencode(w)}), ""):
            raise UsageError(f"Grid Engine passes no path with such characters to nodes: {odd!r}")
        if "qrsh" in commands:
            # The user's shell there would take the words apart: csh even what is quoted.
            return [commands["qrsh"], "-inherit", "-nostdin", "-noshell", host, *starter]
        raise UsageError("this job of Grid Engine has no qrsh, by which workers are started")
    if "pbs_tmrsh" in commands:
        return [commands["pbs_tmrsh"], host, *starter]
    if "pbsdsh" in commands:
        return [commands["pbsdsh"], "-h", host, *starter]
    raise UsageError(
        "this job of PBS has neither pbs_tmrsh nor pbsdsh, by which workers are started"
    )


def system_of(environ: Mapping[str, str]) -> str:
    """Return the batch system of this job.

    Raises:
        UsageError: there is none, or one in whose jobs no workers are started on several nodes.
    """
    system = batch_system(environ)
    if facts_of(system).launchers:
        return system
    raise UsageError(
        f"--nodes starts workers in a job of {several_nodes(' or ')}, and this is "
        + (f"a job of {system}" if system else "none")
    )


# Variables of a node that the launching process has for its own node: that would lead astray.
_LOCAL = GPU_LISTS.union(("TMPDIR", "HOST", "HOSTNAME", "NCPUS", "NSLOTS"))
_OWN = ("PBS_", "SGE_", "OMP_NUM_THREADS")


def environment(launching: Mapping[str, str], own: Mapping[str, str], slots: int) -> dict[str, str]:
    """Return the environment of a worker on a node.

    Args:
        launching: that of the job's script, after its set-up.
        own: that which the batch system gives to a program there.
        slots: CPUs of the job there; 0 if only the batch system's variables say.
    """
    variables = {name: text for name, text in launching.items() if name and name not in _LOCAL}
    variables |= {
        name: text for name, text in own.items() if name in _LOCAL or name.startswith(_OWN)
    }
    if slots:
        variables["NSLOTS"] = str(slots)
    return variables
