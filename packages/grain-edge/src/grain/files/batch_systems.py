"""The table of batch systems: what Grain knows of each, apart from how to speak to it.

The configuration accepts the names of this table, `grain init` looks for them, and a worker reads
off it what its job is and has. The module of that name in `grain.cli.batch.systems` speaks to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class SystemFacts(NamedTuple):
    """A batch system. What is empty, it does not have, or does not tell.

    Attributes:
        title: its name in messages.
        mark: the variable by which its jobs are known.
        commands: those by which `grain init` recognises it; all must be there.
        aliases: other names that users may try, without spaces and dashes.
        number: the variable with a number that differs between the jobs of a node.
        listed: the variable with the job as its commands name it, if they list ended jobs.
        cluster: the variable with the name of the cluster.
        cpus: variables with the number of CPUs on this node; the first that has one counts.
        node_file: the variable that names a file with a line for each CPU, or part, of a node.
        end: the variable with the end of the job, in seconds since 1970.
        seconds: the variable with the seconds from the begin of the job to its end.
        variables: beginnings of the names of its jobs' variables.
        grace: seconds from SIGTERM to SIGKILL that a worker can rely on.
        launchers: commands for workers on several nodes (`grain.worker.launch`); none if that
            is not possible.
        account: the option for an account.
        unproven: words for the end of a job whose node does not answer: its processes may live.
        away: returns options by which jobs stay away from nodes, one at least: see `avoiding`.
    """

    title: str
    mark: str
    commands: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    number: str = ""
    listed: str = ""
    cluster: str = ""
    cpus: tuple[str, ...] = ()
    node_file: str = ""
    end: str = ""
    seconds: str = ""
    variables: tuple[str, ...] = ()
    grace: float = 10.0
    launchers: tuple[str, ...] = ()
    account: str = ""
    unproven: tuple[str, ...] = ()
    away: Callable[[Sequence[str]], tuple[str, ...]] = lambda _: ()

    def avoiding(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return options for jobs to stay away from nodes; none where there is no such option."""
        return self.away(nodes) if nodes else ()


# A job cannot ask for its grace. OpenPBS was seen to leave 2 s. Slurm's KillWait is 30 s by default
# and less at some sites, and a preemption leaves GraceTime, if that. Flux documents 5 s, LSF 10 s.
# Grid Engine's `notify`, HTCondor's job_max_vacate_time and Grain's own order leave more.
BATCH_SYSTEMS = {
    "slurm": SystemFacts(
        "Slurm", "SLURM_JOB_ID", ("sbatch", "sinfo"),
        number="SLURM_JOB_ID", listed="SLURM_JOB_ID", cluster="SLURM_CLUSTER_NAME",
        end="SLURM_JOB_END_TIME", variables=("SLURM_", "SLURMD_", "SBATCH_", "SRUN_"),
        grace=4.5, launchers=("srun",), account="--account={}",
        unproven=("NODE_FAIL", "BOOT_FAIL"), away=lambda nodes: (f"--exclude={','.join(nodes)}",),
    ),
    "pbs": SystemFacts(
        "PBS", "PBS_JOBID", ("qsub", "pbsnodes"), ("openpbs", "pbspro", "torque"),
        number="PBS_JOBID", listed="PBS_JOBID", cpus=("NCPUS", "PBS_NUM_PPN"),
        node_file="PBS_NODEFILE", seconds="PBS_WALLTIME", variables=("PBS_",),
        grace=1.8, launchers=("pbs_tmrsh", "pbsdsh"), account="-A {}",
    ),
    "sge": SystemFacts(
        "Grid Engine", "SGE_JOB_SPOOL_DIR", ("qsub", "qconf"),
        ("gridengine", "uge", "age", "oge", "ge"),
        number="JOB_ID", cluster="SGE_CLUSTER_NAME", cpus=("NSLOTS",), variables=("SGE_",),
        launchers=("qrsh",), account="-A {}", away=lambda nodes: ("-l", f"h=!({'|'.join(nodes)})"),
    ),
    "lsf": SystemFacts(
        "LSF", "LSB_JOBID", ("bsub", "bjobs"), ("openlava",),
        number="LSB_JOBID", listed="LSB_JOBID", cpus=("LSB_DJOB_NUMPROC",), variables=("LSB_",),
        grace=9.0, unproven=("ZOMBI",),
        away=lambda nodes: (
            "-R", "select[" + " && ".join(f"hname!='{node}'" for node in nodes) + "]",
        ),
    ),
    "htcondor": SystemFacts(
        "HTCondor", "_CONDOR_MACHINE_AD", ("condor_submit", "condor_q"), ("condor",),
        number="_CONDOR_SLOT",
    ),
    "flux": SystemFacts(
        "Flux", "FLUX_JOB_ID", ("flux",), listed="FLUX_JOB_ID", variables=("FLUX_",), grace=4.5,
        away=lambda nodes: (f"--requires=-host:{','.join(nodes)}",),
    ),
    "oar": SystemFacts(
        "OAR", "OAR_JOB_ID", ("oarsub", "oarstat"), number="OAR_JOB_ID", listed="OAR_JOB_ID",
        node_file="OAR_NODEFILE", seconds="OAR_JOB_WALLTIME_SECONDS", variables=("OAR_",),
        unproven=("Error", "toError"),
    ),
}  # fmt: skip
"""The batch systems, by their names in the configuration."""


def facts_of(system: str) -> SystemFacts:
    """Return what is known of a batch system: nothing of one that is not in the table."""
    return BATCH_SYSTEMS.get(system) or SystemFacts("", "")


def several_nodes(last: str) -> str:
    """Return the names of those with workers on several nodes of a job, `last` before the last.

    >>> several_nodes(" and ")
    'Slurm, PBS and Grid Engine'
    """
    *most, end = (one.title for one in BATCH_SYSTEMS.values() if one.launchers)
    return f"{', '.join(most)}{last}{end}"
