"""The launcher of an MPI program, for the CPUs of one allocation on this node.

Sources, by flavour:

- Open MPI: mpirun(1), sections "Mapping, Ranking, and Binding" and "Rankfiles". Its ``--cpu-set``
  and ``--cpu-list`` take hwloc's logical core numbers, which are not the kernel's CPU ids, and
  its default binding starts at core 0 whatever mpirun itself is bound to. So Grain switches it
  off: the ranks inherit mpirun's own affinity, which `run_external` sets, and share
  the allocated CPUs.
- MPICH: mpiexec(1), "Using the Hydra Process Manager", ``-bind-to user:`` with one entry per rank
  and ``+`` between the CPUs of one rank, in the kernel's numbering.
- Intel MPI: Developer Reference for Linux, "Environment Variables for Process Pinning":
  I_MPI_PIN_PROCESSOR_LIST (one CPU per rank) and I_MPI_PIN_DOMAIN with explicit masks (several),
  in the kernel's numbering ("Processor Identification").
- Slurm: srun(1), ``--cpu-bind=map_cpu:`` and ``mask_cpu:``, in the kernel's numbering; the manual
  says that both need the whole node allocated to the job.

All but srun start their ranks as their own children, so that `run_external` ends them too. Options
keep them on this node and away from the batch system, as a task has cores on one node.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from grain import GVAR
from grain.resource import Cores
from grain.worker.processes.environment import allocated

if TYPE_CHECKING:
    from grain.resource import Resource

Flavour = Literal["openmpi", "mpich", "intel", "srun"]

# By these Open MPI recognises Slurm, PBS, LSF and Grid Engine, and then counts their slots, of
# which there may be fewer than CPUs: a job with one task of 64 CPUs has one slot.
_BATCH = ("SLURM_JOBID", "SLURM_JOB_ID", "SLURM_NODELIST", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")


def mpi_prefix(
    flavour: Flavour = "openmpi",
    res: Resource | None = None,
    *,
    threads: int = 1,
    launcher: str | None = None,
) -> list[str]:
    """Return the words to write before an MPI program and its arguments, to use an allocation.

    ::

        await run_external([*mpi_prefix("mpich"), "pw.x", "-in", "si.in"], threads=1)

    Args:
        flavour: the MPI library that the program is linked with, or ``srun``.
        res: the allocation; that of the running task by default.
        threads: CPUs, and OMP_NUM_THREADS, of each rank. There are as many ranks as that
            divides the allocated CPUs into.
        launcher: the name or path of the launcher, if it is not ``mpirun`` (Open MPI),
            ``mpiexec`` (MPICH), ``mpiexec.hydra`` (Intel) or ``srun``.

    Raises:
        ValueError: no CPUs are allocated, or a part of one, `threads` does not divide their number,
            or the flavour is unknown.
    """
    res = GVAR.res if res is None else res
    cores = res.get(Cores)
    if isinstance(cores, Cores) and cores.share < 1:
        raise ValueError(
            f"{cores.ask()} is a part of one core, and each rank of an MPI program needs a whole "
            "one: ask for Cores(1) or more"
        )
    cpus = allocated(res, "c")
    if threads < 1 or not cpus or len(cpus) % threads:
        raise ValueError(f"{len(cpus)} allocated CPUs cannot be shared by ranks of {threads} each")
    domains = [cpus[first : first + threads] for first in range(0, len(cpus), threads)]
    ranks = str(len(domains))
    omp = f"OMP_NUM_THREADS={threads}"
    if flavour == "openmpi":
        forget = [word for name in _BATCH for word in ("-u", name)]
        host = ["--host", f"localhost:{ranks}"]
        command = [launcher or "mpirun", "-n", ranks, *host, "--bind-to", "none", "-x", omp]
        return ["env", *forget, *command]
    if flavour == "mpich":
        bind = "user:" + ",".join("+".join(map(str, domain)) for domain in domains)
        local = ["-launcher", "fork", "-rmk", "user", "-hosts", "localhost"]
        count = ["-n", ranks, "-bind-to", bind]
        return [launcher or "mpiexec", *local, "-genv", *omp.split("="), *count]
    if flavour == "intel":
        pin = ["I_MPI_PIN_DOMAIN", "[" + ",".join(f"{_mask(p):x}" for p in domains) + "]"]
        if threads == 1:
            pin = ["I_MPI_PIN_PROCESSOR_LIST", ",".join(map(str, cpus))]
        local = ["-bootstrap", "fork", "-hosts", "localhost"]
        command = [launcher or "mpiexec.hydra", *local, "-genv", *omp.split("=")]
        return [*command, "-genv", *pin, "-n", ranks]
    if flavour == "srun":
        bind = "map_cpu:" + ",".join(map(str, cpus))
        if threads > 1:
            bind = "mask_cpu:" + ",".join(f"{_mask(domain):#x}" for domain in domains)
        # --overlap: the step that Grain's worker runs in holds the same CPUs already.
        step = ["--nodes=1", f"--ntasks={ranks}", f"--cpus-per-task={threads}", "--overlap"]
        if node := os.environ.get("SLURMD_NODENAME"):
            step.append(f"--nodelist={node}")
        return [launcher or "srun", *step, f"--cpu-bind={bind}", f"--export=ALL,{omp}"]
    raise ValueError(f"flavour must be openmpi, mpich, intel or srun, not {flavour!r}")


def _mask(cpus: list[int]) -> int:
    return sum(1 << cpu for cpu in cpus)
