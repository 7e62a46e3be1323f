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
keep them on this node and away from the batch system, as a task has cores on one node. On several
members, srun starts stand-ins for ranks, which are then the members' (`grain.worker.gang.door`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from grain import GVAR
from grain.edge.invitation import interface_of
from grain.edge.machine import peer_user
from grain.resource import Cores
from grain.worker.processes.environment import BATCH, NOT_BATCH, allocated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.eventlog.usage import Usage
    from grain.resource import Resource
    from grain.worker.errors import ExternalMemoryError
    from grain.worker.processes.warning import Cause, EarlyWarning

Flavour = Literal["openmpi", "mpich", "intel", "srun"]


class SlurmPlace(NamedTuple):
    """The place of a member in Slurm.

    Attributes:
        job, node: as Slurm calls them; empty if it is in no job of Slurm.
        door: the name at which it accepts ranks.
    """

    job: str
    node: str
    door: str


class Members(Protocol):
    """The members of the gang on which a run's programs may start others (`grain.worker.gang`).

    Attributes:
        cpus: the number of CPUs that each member has, the root first.
        rsh: the path of the command that launchers call in place of ssh.
        address: of the root, in the network by which the members are connected.
        places: in Slurm, by the number of each member.
        uses_doors: True from when a call may have ranks that came by the doors of the members.
    """

    cpus: Sequence[int]
    rsh: str
    address: str
    places: dict[int, SlurmPlace]
    uses_doors: bool

    def call(
        self,
        enforce: bool | None = None,
        memory_signs: Sequence[str] = (),
        warning: EarlyWarning | None = None,
    ) -> AbstractAsyncContextManager[MembersCall]:
        """Have members run programs for the block; at its end nothing of them is left on any.

        The block is cancelled, and execution goes on behind it, when a member refuses: then
        `MembersCall.refused` says why.

        Args:
            enforce: as of `grain.worker.external.run_external`, for all programs of the call.
            memory_signs: likewise, for those of `MembersCall.run`. What ranks write is the output
                of their launcher.
            warning: of those programs.
        """

    def allow(self, ranks: Sequence[int]) -> None:
        """Say for how many ranks each member has room; by default for one on each CPU."""


class MembersCall(Protocol):
    """A call of a tasklet whose programs may be on all members.

    If it has failed and the worker of a member is being ended, or is lost, the run ends with it,
    and is cancelled when the block ends.

    Attributes:
        variables: by which its programs are known, and find the members.
        refused: why a member cannot run what a launcher wants; "" if none has refused.
        failed: True if one of its programs has failed.
        used: what the programs have used that members ran for it, by the number of the member;
            None until the block has ended, and where that is not known.
        exceeded: the error of such a program that ended for want of memory; None if none has.
    """

    variables: Mapping[str, str]
    refused: str
    failed: bool
    used: Mapping[int, Usage] | None
    exceeded: ExternalMemoryError | None

    async def run(
        self,
        index: int,
        *,
        argv: Sequence[bytes],
        cwd: bytes,
        changes: Mapping[str, str | None],
        stdout: bytes | None,
        timeout: float | None,
        grace: float,
        threads: int | None,
    ) -> Any:  # which `external` defines, above this room
        """Run a program on a member to its end; return a `grain.worker.external.Completed`.

        It goes on until the block ends, also if this is cancelled.

        Args:
            index: of the member.
            changes: to the environment of this process; they win over what is the member's own.
            stdout: a file for all output; None to have the end of it in the result.
            argv, cwd, timeout, grace, threads: those of `grain.worker.external.run_external`.

        Raises:
            ExternalError: it has failed.
        """

    async def warn(self, cause: Cause) -> None:
        """Warn all programs of `run`, in the way that `Members.call` was told."""


members: ContextVar[Members | None] = ContextVar("grain.worker members", default=None)
"""The members of the running tasklet's gang; None if it has its own worker only."""


RSH = "GRAIN_RSH"
"""The variable with the path of the command that launchers call in place of ssh."""

_GANG = Path(__file__).parents[1] / "gang"
_RANK, _SRUN = str(_GANG / "rank.py"), str(_GANG / "srun.py")

EDGE = str(Path(peer_user.__file__).parent)
"""The folder where programs that start without Grain on their search path find `peer_user`."""


def mpi_prefix(
    flavour: Flavour = "openmpi",
    res: Resource | None = None,
    *,
    threads: int = 1,
    launcher: str | None = None,
    pmi: str = "",
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
        pmi: for ``srun``, the plug-in by which it serves the MPI library, as ``pmi2`` for MPICH and
            Intel MPI, or ``pmix`` for Open MPI; the site's choice by default. ``srun --mpi=list``
            shows those that there are.

    Raises:
        ValueError: no CPUs are allocated, or a part of one, `threads` does not divide their number,
            or the flavour is unknown; or srun is to start ranks on members that are not in one job
            of Slurm.
    """
    if flavour not in get_args(Flavour):
        names = ", ".join(get_args(Flavour))
        raise ValueError(f"mpi_prefix({flavour!r}): flavour must be one of {names}")
    gang = members.get()
    if res is None and gang is not None and len(gang.cpus) > 1:
        return over_members(flavour, gang, threads, launcher, pmi)
    res = GVAR.res if res is None else res
    cores = res.get(Cores)
    if isinstance(cores, Cores) and cores.share < 1:
        raise ValueError(
            f"{cores.ask()} is a part of one core, and each rank of an MPI program needs a whole "
            "one: ask for Cores(1) or more"
        )
    cpus = allocated(res)
    if threads < 1 or not cpus or len(cpus) % threads:
        raise ValueError(f"{len(cpus)} allocated CPUs cannot be shared by ranks of {threads} each")
    domains = [cpus[first : first + threads] for first in range(0, len(cpus), threads)]
    ranks = str(len(domains))
    omp = f"OMP_NUM_THREADS={threads}"
    if flavour == "openmpi":
        forget = [word for name in BATCH for word in ("-u", name)]
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
    bind = "map_cpu:" + ",".join(map(str, cpus))
    if threads > 1:
        bind = "mask_cpu:" + ",".join(f"{_mask(domain):#x}" for domain in domains)
    # --overlap: the step that Grain's worker runs in holds the same CPUs already.
    step = ["--nodes=1", f"--ntasks={ranks}", f"--cpus-per-task={threads}", "--overlap"]
    if node := os.environ.get("SLURMD_NODENAME"):
        step.append(f"--nodelist={node}")
    step += [f"--mpi={pmi}"] if pmi else []
    return [launcher or "srun", *step, f"--cpu-bind={bind}", f"--export=ALL,{omp}"]


def launcher_variables(gang: Members, ranks: Sequence[int], folder: Path) -> dict[str, str]:
    """Return the variables by which ``mpirun PROGRAM`` starts ranks on all members of a gang.

    Launchers take them for a cluster with the hosts m0, m1 and so on, and with
    `grain.worker.gang.rsh` for ssh. Options of the command line go before them. They go with, and
    replace in part, those of `grain.worker.processes.environment`.

    Args:
        ranks: for how many each member has room.
        folder: where files with the names of hosts are written, which launchers read.
    """
    files = []
    for library, form in ("openmpi", "m{} slots={}\n"), ("mpich", "m{}:{}\n"):
        files.append(folder / f"hosts-{library}")
        files[-1].write_text("".join(form.format(*each) for each in enumerate(ranks)))
    openmpi, mpich = map(str, files)
    # Open MPI 4 has its launching by OMPI_MCA_, Open MPI 5 by PRTE_MCA_ (its docs, "Launching with
    # SSH"). Its daemons must not call the command in turn, nor leave its process group.
    variables = {
        **NOT_BATCH,  # a script may set variables of a batch job
        RSH: gang.rsh,
        "OMPI_MCA_plm": "rsh",
        # Its daemons on members look for the first word, and have no such file as the second.
        "OMPI_MCA_plm_rsh_agent": f"/bin/sh {gang.rsh}",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_orte_default_hostfile": openmpi,
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": f"/bin/sh {gang.rsh}",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_prte_default_hostfile": openmpi,
        # MPICH: "Using the Hydra Process Manager", "Environment Settings".
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": gang.rsh,
        "HYDRA_HOST_FILE": mpich,
        # Developer Reference for Linux, "Hydra Environment Variables".
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": gang.rsh,
        "I_MPI_HYDRA_BRANCH_COUNT": "0",
        "I_MPI_HYDRA_HOST_FILE": mpich,
        "I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0",
        "I_MPI_PERHOST": str(max(ranks)),
        "I_MPI_PIN": "0",
    }
    # mpiexec tells members the name of this host. That may mean a loopback address here, and
    # nothing elsewhere; only then the network is named, as its name may differ on members.
    if not _has_a_name() and (interface := interface_of(gang.address)):
        variables |= {"HYDRA_IFACE": interface, "I_MPI_HYDRA_IFACE": interface}
    return variables


def _has_a_name() -> bool:
    """Return True if the name of this host means an address by which others may reach it."""
    try:
        return not socket.gethostbyname(socket.gethostname()).startswith("127.")
    except OSError:
        return False


def over_members(
    flavour: Flavour, gang: Members, threads: int, launcher: str | None, pmi: str = ""
) -> list[str]:
    """Return the words for ranks on all members of a gang; arguments and errors as above.

    The launcher calls `grain.worker.gang.rsh` for each member, under the names m0, m1 and so on.
    Ranks are bound by `grain.worker.gang.rank`, as no launcher binds each member to its own CPUs.
    """
    if min(gang.cpus) != max(gang.cpus) or threads < 1 or gang.cpus[0] % threads:
        raise ValueError(
            f"members with {', '.join(map(str, gang.cpus))} CPUs cannot be shared by ranks of "
            f"{threads} each"
        )
    each = gang.cpus[0] // threads
    ranks = str(each * len(gang.cpus))
    hosts = ",".join(f"m{index}:{each}" for index in range(len(gang.cpus)))
    rank = [*rank_words(), str(each), str(threads)]
    if flavour == "openmpi":
        forget = [word for name in BATCH for word in ("-u", name)]
        command = [launcher or "mpirun", "--host", hosts, "--bind-to", "none", "-n", ranks]
        return ["env", *forget, *command, *rank]
    if flavour == "mpich":
        remote = ["-launcher", "ssh", "-launcher-exec", gang.rsh, "-rmk", "user", "-hosts", hosts]
        # The name of this host may mean nothing on others, and to itself a loopback address.
        here = ["-localhost", gang.address]
        return [launcher or "mpiexec", *remote, *here, "-bind-to", "none", "-n", ranks, *rank]
    if flavour == "intel":
        names = ",".join(f"m{index}" for index in range(len(gang.cpus)))
        command = [launcher or "mpiexec.hydra", "-hosts", names, "-ppn", str(each), "-n", ranks]
        return [*command, *rank]
    gang.uses_doors = True
    return _srun_over(gang, each, threads, launcher, pmi)


def rank_words() -> list[str]:
    """Return the beginning of the words that start a rank by `grain.worker.gang.rank`."""
    return [sys.executable, "-SEs", _RANK]


def _srun_over(gang: Members, each: int, threads: int, launcher: str | None, pmi: str) -> list[str]:
    """Return the words for ranks on all members of a gang in one job of Slurm, by srun.

    Options go before the variables that a step of sbatch has for srun.
    """
    places = [gang.places[index] for index in range(len(gang.cpus))]
    jobs = sorted({place.job for place in places})
    if len(jobs) > 1 or not jobs[0] or len({place.node for place in places}) < len(places):
        where = ", ".join(one or "none" for one in jobs)
        raise ValueError(
            f"srun starts ranks on nodes of one job of Slurm, and these members are in {where}: "
            'ask for gang(..., same="job"), and for jobs of several nodes (script.nodes); '
            "mpich, openmpi and intel need neither"
        )
    doors = json.dumps({place.node: place.door for place in places})
    step = [
        f"--jobid={jobs[0]}",
        # The worker's own step has all of the nodes.
        "--overlap",
        f"--nodes={len(places)}",
        f"--nodelist={','.join(place.node for place in places)}",
        f"--ntasks={each * len(places)}",
        f"--ntasks-per-node={each}",
        f"--cpus-per-task={threads}",
        "--distribution=block",
        "--cpu-bind=none",
        # Others would wait without end for a rank that ends early.
        "--kill-on-bad-exit=1",
        "--export=ALL",
        "--quiet",
        *([f"--mpi={pmi}"] if pmi else []),
    ]
    stand_in = [sys.executable, "-SEs", _SRUN, EDGE, str(each), str(threads)]
    return ["env", f"GRAIN_GANG_DOORS={doors}", launcher or "srun", *step, *stand_in]


def _mask(cpus: list[int]) -> int:
    return sum(1 << cpu for cpu in cpus)
