"""The scripts and answers of PBS, as text. Pure; the texts are those of OpenPBS 23.06.

There are two dialects. OpenPBS and PBS Professional ask for "chunks", ``select=1:ncpus=16``;
Torque asks for ``nodes=1:ppn=16``. `dialect` tells them apart by what ``qsub --version`` prints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.scripts.directives import amount, options, word
from grain.cli.batch.scripts.shell import body, interpreter
from grain.config import format_walltime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.batch.base import BatchJob

Dialect = Literal["openpbs", "torque"]

SILENT = ("cannot connect to server", "Connection refused", "server not responding")
REMEDIES = (
    ("Unknown queue", "Set script.queue to a queue that there is; `qstat -Q` lists them."),
    (
        "violates queue and/or server resource limits",
        "Lower script.cores, script.memory or script.walltime; `qstat -Qf` shows the limits.",
    ),
    ("exceeds", "Lower script.cores, script.memory or script.walltime; `qstat -Qf` shows limits."),
    ("nvalid account", "Name your account in script.extra_args, as in '-A chem'."),
    ("illegal -", "Correct script.extra_args, or what you wrote after `--`."),
    ("invalid option", "Correct script.extra_args, or what you wrote after `--`."),
    ("usage: qsub", "Correct script.extra_args, or what you wrote after `--`."),
    ("Unknown resource", "Correct the -l in script.extra_args."),
    *((text, "The PBS server does not answer; try again later.") for text in SILENT),
)

_PHASES = {
    **dict.fromkeys("QWTM", JobPhase.PENDING),
    "H": JobPhase.STUCK,
    **dict.fromkeys("RBSU", JobPhase.RUNNING),
    "E": JobPhase.ENDING,
}
_NEVER = "Can Never Run"
_ENDED = re.compile(r"Unknown Job I[dD]|Job has finished|Request invalid for state")
_SHAPE = re.compile(r"-l\s*(select|nodes)=")


def dialect(version: str) -> Dialect:
    """Return the dialect for the output of ``qsub --version``; OpenPBS if the output is unclear."""
    torque = re.search(r"^\s*version:", version, re.IGNORECASE | re.MULTILINE)
    return "torque" if torque and "pbs_version" not in version else "openpbs"


def script(job: BatchJob, spoken: Dialect = "openpbs") -> str:
    """Return the script of one job."""
    extra = list(options(job))
    lines = [job.script.shebang]
    lines += [f"#PBS {line}" for line in (*_directives(job, spoken, extra), *extra)]
    return "\n".join(lines) + "\n\n" + body(job, folder='"$PBS_O_WORKDIR"')


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
    if asked.walltime is not None:
        yield f"-l walltime={format_walltime(asked.walltime)}"
    if asked.queue:
        yield f"-q {word(asked.queue)}"


def _shape(job: BatchJob, spoken: Dialect) -> Iterator[str]:
    cores, memory = job.script.cores, job.script.memory
    size = amount(memory, "gb", "mb") if memory is not None else ""
    if spoken == "torque":
        yield "-l nodes=1" + (f":ppn={cores}" if cores is not None else "")
        if size:
            yield f"-l mem={size}"
    else:
        chunk = "select=1" + (f":ncpus={cores}" if cores is not None else "")
        yield f"-l {chunk}" + (f":mem={size}" if size else "")


def submitted_id(output: str) -> str:
    """Read the job's id from the output of ``qsub``: ``0.pbs``, or a bare number."""
    lines = output.strip().splitlines() or [""]
    last = lines[-1].strip()
    return last if re.fullmatch(r"\d+(\[\])?(\.\S+)?", last) else ""


def only_ended(errors: str) -> bool:
    """Return True if ``qstat`` or ``qdel`` complains only of jobs that have ended."""
    return all(_ENDED.search(line) for line in errors.splitlines() if line.strip())


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``qstat -f``, which both dialects print; a job that is not listed has ended.

    Long values go on in the next line, after a tab.
    """
    by_id: dict[str, JobState] = {}
    for block in output.replace("\n\t", "").split("Job Id:")[1:]:
        number, *lines = block.splitlines()
        fields = dict(line.strip().split(" = ", 1) for line in lines if " = " in line)
        phase = _PHASES.get(fields.get("job_state", ""), JobPhase.GONE)
        comment = fields.get("comment", "")
        if phase is JobPhase.PENDING and _NEVER in comment:
            phase = JobPhase.STUCK
        waits = phase in {JobPhase.PENDING, JobPhase.STUCK}
        node = "" if waits else fields.get("exec_host", "").split("/")[0]
        by_id[number.strip()] = JobState(phase, comment, node)
    return {one: by_id.get(one, JobState(JobPhase.GONE)) for one in ids}
