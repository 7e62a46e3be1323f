"""OpenPBS, PBS Professional and Torque, by qsub, qstat, qselect and qdel.

The texts are those of OpenPBS 23.06. There are two dialects: OpenPBS and PBS Professional ask for
"chunks", ``select=1:ncpus=16``; Torque asks for ``nodes=1:ppn=16``. `dialect` tells them apart by
what ``qsub --version`` prints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from grain.cli.batch.answers import complains_only, last_line, or_gone
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import amount, gpus_of, options, refuse_gpus, whole, word
from grain.cli.batch.scripts.shell import body, interpreter
from grain.config import format_walltime
from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.batch.base import BatchJob

Dialect = Literal["openpbs", "torque"]

_SILENT = ("cannot connect to server", "Connection refused", "server not responding")
_REMEDIES = (
    ("Unknown queue", "Set script.queue to a queue that there is; `qstat -Q` lists them."),
    (
        "violates queue and/or server resource limits",
        "Lower script.cores, script.memory or script.walltime; `qstat -Qf` shows the limits.",
    ),
    ("limit on resource", "Start fewer workers at a time, or ask for less; your site limits both."),
    ("Array job exceeds", "Start fewer workers at a time: your site limits the size of arrays."),
    # Before what exceeds something: these say what is exceeded, a number of jobs.
    *(
        (text, "Start fewer workers at a time: your site limits the number of jobs.")
        for text in ("number of jobs", "limit of jobs", "per-user limit", "complex's per-")
    ),
    ("Unauthorized Request", "Choose another script.queue: you may not use this one."),
    ("ueue is not enabled", "Choose another script.queue; `qstat -Q` shows which are enabled."),
    ("exceeds", "Lower script.cores, script.memory or script.walltime; `qstat -Qf` shows limits."),
    ("nvalid account", "Name your account in script.extra_args, as in '-A chem'."),
    ("llegal attribute or resource value", "Correct the -l in script.extra_args."),
    ("illegal -", "Correct script.extra_args, or what you wrote after `--`."),
    ("invalid option", "Correct script.extra_args, or what you wrote after `--`."),
    ("usage: qsub", "Correct script.extra_args, or what you wrote after `--`."),
    ("Unknown resource", "Correct the -l in script.extra_args."),
    *((text, "The PBS server does not answer; try again later.") for text in _SILENT),
)
COMMANDS = Commands(
    "pbs",
    ("qsub", "qstat", "qselect", "qdel"),
    ("qstat",),
    _REMEDIES,
    _SILENT,
    tried="OpenPBS 23.06",
)

_PHASES = {
    **dict.fromkeys("QWTM", JobPhase.PENDING),
    "H": JobPhase.STUCK,
    **dict.fromkeys("RBSU", JobPhase.RUNNING),
    "E": JobPhase.ENDING,
    **dict.fromkeys("CFX", JobPhase.GONE),
}
_NEVER = "Can Never Run"
ENDED = r"Unknown Job I[dD]|Job has finished|Request invalid for state"
"""The complaint of `qstat` or `qdel` about a job that has ended."""

_SHAPE = re.compile(r"-l\s*(select|nodes)=")


def dialect(version: str) -> Dialect:
    """Return the dialect for the output of ``qsub --version``; OpenPBS if the output is unclear."""
    torque = re.search(r"^\s*version:", version, re.IGNORECASE | re.MULTILINE)
    return "torque" if torque and "pbs_version" not in version else "openpbs"


def script(job: BatchJob, spoken: Dialect = "openpbs") -> str:
    """Return the script of one job."""
    extra = list(options(job))
    shell = body(job, folder='"$PBS_O_WORKDIR"')
    return whole(job, "#PBS", (*_directives(job, spoken, extra), *extra), shell)


def _directives(job: BatchJob, spoken: Dialect, extra: list[str]) -> Iterator[str]:
    asked = job.script
    yield f"-N {word(job.name)}"
    # PBS starts the login shell, whatever the first line says.
    yield f"-S {word(interpreter(asked.shebang))}"
    yield "-j oe"
    if job.log_file:
        yield f"-o {word(job.log_file)}"
    # A shape in the user's options, for instance with GPUs, replaces ours: PBS takes one only.
    if not any(_SHAPE.search(arg) for arg in extra):
        yield from _shape(job, spoken)
    else:
        why = "the -l of script.extra_args asks for none, and PBS takes only one such line"
        refuse_gpus(job, why, "Add them there, as in ':ngpus=2', or for Torque ':gpus=2'.")
    if asked.walltime is not None:
        yield f"-l walltime={format_walltime(asked.walltime)}"
    if asked.queue:
        yield f"-q {word(asked.queue)}"


def _shape(job: BatchJob, spoken: Dialect) -> Iterator[str]:
    nodes, cores, memory = job.script.nodes, job.script.cores, job.script.memory
    gpus = gpus_of(job)
    if spoken == "torque":
        yield (
            f"-l nodes={nodes}"
            + (f":ppn={cores}" if cores is not None else "")
            + (f":gpus={gpus}" if gpus else "")
        )
        if memory is not None:
            # Of the whole job.
            yield f"-l mem={amount(memory * nodes, 'gb', 'mb')}"
    else:
        chunk = f"select={nodes}" + (f":ncpus={cores}" if cores is not None else "")
        chunk += "" if memory is None else f":mem={amount(memory, 'gb', 'mb')}"
        yield f"-l {chunk}" + (f":ngpus={gpus}" if gpus else "")
        if nodes > 1:
            yield "-l place=scatter"


def submitted_id(output: str) -> str:
    """Read the job's id from the output of ``qsub``: ``0.pbs``, or a bare number."""
    last = last_line(output)
    return last if re.fullmatch(r"\d+(\[\])?(\.\S+)?", last) else ""


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``qstat -f``, which both dialects print; a job that is not listed has ended.

    Long values go on in the next line, after a tab.
    """
    by_id: dict[str, JobState] = {}
    for block in output.replace("\n\t", "").split("Job Id:")[1:]:
        number, *lines = block.splitlines()
        fields = dict(line.strip().split(" = ", 1) for line in lines if " = " in line)
        phase = _PHASES.get(fields.get("job_state", ""), JobPhase.UNKNOWN)
        comment = fields.get("comment", "")
        if phase is JobPhase.PENDING and _NEVER in comment:
            phase = JobPhase.STUCK
        waits = phase in {JobPhase.PENDING, JobPhase.STUCK}
        parts = [] if waits else fields.get("exec_host", "").split("+")
        node = ",".join(dict.fromkeys(part.partition("/")[0] for part in parts))
        by_id[number.strip()] = JobState(phase, comment, node)
    return or_gone(by_id, ids)


class System(BatchSystem):
    """OpenPBS, PBS Professional and Torque, by qsub, qstat, qselect and qdel."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0], self._dialect())

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: arrays differ between the dialects, and their logs cannot be named."""
        spoken = self._dialect()
        for member in job.members(n):
            text = script(member, spoken)
            number = COMMANDS.accepted(["qsub"], [member], submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def _dialect(self) -> Dialect:
        try:
            done = COMMANDS.run(["qsub", "--version"])
        except BatchError:
            # A dry run away from the cluster; `submit` reports the missing command.
            return "openpbs"
        return dialect(done.out + done.err)

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query qstat."""
        out = COMMANDS.answer(["qstat", "-f", *ids], lambda done: complains_only(ENDED, done.err))
        return states(out, ids)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query qselect, which lists no job that has ended."""
        select = ["qselect", "-u", user_name(), "-N"]
        return {name: COMMANDS.answer([*select, name]).split() for name in names}

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs: PBS sends SIGTERM, and SIGKILL 2 s later."""
        COMMANDS.answer(["qdel", *ids], lambda done: complains_only(ENDED, done.err))
