"""The fields of ``sacct``, and the sentences of ``seff``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.cli.columns import Column
from grain.cli.slurm_words.facts import SlurmStep, SlurmTask, derived_code, hosts_text
from grain.cli.slurm_words.formats import by_words, same
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.values import long_span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Line = SlurmTask | SlurmStep
"""A line of ``sacct``."""

DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxRSS,AveRSS,Elapsed,CPUTime,AllocCPUS,State,"
    "ExitCode,ReqMem,ReqTRES,AllocTRES"
)

_ALL = """\
Account             AdminComment        AllocCPUS           AllocNodes
AllocTRES           AssocID             AveCPU              AveCPUFreq
AveDiskRead         AveDiskWrite        AvePages            AveRSS
AveVMSize           BlockID             Cluster             Comment
Constraints         ConsumedEnergy      ConsumedEnergyRaw   Container
CPUTime             CPUTimeRAW          DBIndex             DerivedExitCode
Elapsed             ElapsedRaw          Eligible            End
ExitCode            Flags               GID                 Group
JobID               JobIDRaw            JobName             Layout
MaxDiskRead         MaxDiskReadNode     MaxDiskReadTask     MaxDiskWrite
MaxDiskWriteNode    MaxDiskWriteTask    MaxPages            MaxPagesNode
MaxPagesTask        MaxRSS              MaxRSSNode          MaxRSSTask
MaxVMSize           MaxVMSizeNode       MaxVMSizeTask       McsLabel
MinCPU              MinCPUNode          MinCPUTask          NCPUS
NNodes              NodeList            NTasks              Partition
Planned             PlannedCPU          PlannedCPURAW       Priority
QOS                 QOSRAW              Reason              ReqCPUFreq
ReqCPUFreqGov       ReqCPUFreqMax       ReqCPUFreqMin       ReqCPUS
ReqMem              ReqNodes            ReqTRES             Reservation
ReservationId       Reserved            ResvCPU             ResvCPURAW
Start               State               Submit              SubmitLine
Suspended           SystemComment       SystemCPU           Timelimit
TimelimitRaw        TotalCPU            TRESUsageInAve      TRESUsageInMax
TRESUsageInMaxNode  TRESUsageInMaxTask  TRESUsageInMin      TRESUsageInMinNode
TRESUsageInMinTask  TRESUsageInTot      TRESUsageOutAve     TRESUsageOutMax
TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin     TRESUsageOutMinNode
TRESUsageOutMinTask TRESUsageOutTot     UID                 User
UserCPU             WCKey               WCKeyID             WorkDir
"""
"""The names of all fields, as ``sacct --helpformat`` prints them."""

NAMES = tuple(_ALL.split())
"""The names of all fields of ``sacct``."""

OF_STEPS = tuple(
    name
    for name in NAMES
    if name.startswith(("Ave", "Consumed", "Max", "Min", "ReqCPUFreq", "TRESUsage"))
    or name in ("JobID", "NodeList", "NTasks")
)
"""The names of all fields of ``sstat``."""

USED = "JobID,MaxRSS,MaxRSSNode,AveRSS,AveCPU,NTasks"
"""The fields that ``sstat`` shows: what Grain measures while a step runs."""

_WIDTHS = {
    "JobID": -12, "JobIDRaw": -12, "ExitCode": 8, "DerivedExitCode": 15, "NodeList": 15,
    "Start": 19, "End": 19, "Submit": 19, "Eligible": 19, "AllocNodes": 10, "Reason": 22,
    "WorkDir": 20, "User": 9, "Group": 9, "UID": 6, "GID": 6, "NNodes": 8, "NTasks": 8,
    "Comment": 14,
}  # fmt: skip


def help_text(known: Sequence[str] = NAMES) -> str:
    """Return the names of all fields, as ``sacct --helpformat`` does."""
    lines = [known[at : at + 4] for at in range(0, len(known), 4)]
    text = "".join(" ".join(f"{name:<19}" for name in line).rstrip() + "\n" for line in lines)
    return text + "\n"


def columns(
    form: str, *, separator: str = "", units: str = "", known: Sequence[str] = NAMES
) -> list[Column[Line]]:
    """Return the columns of a format, as ``JobID,State%20``.

    Args:
        separator: between fields that have no width; "" for a table.
        units: a letter, of sizes of memory; ``B`` for bytes.
        known: the names that there are.

    Raises:
        BadUse: a name means no field.
    """
    found: list[Column[Line]] = []
    for part in form.split(","):
        if not part.strip():
            continue
        name, _, width = part.strip().partition("%")
        if name.upper() == "ALL":
            found += [_column(one, _width(one), units) for one in known]
            continue
        begun = [one for one in known if one.lower().startswith(name.lower())]
        exact = [one for one in begun if one.lower() == name.lower()] or begun
        if not exact or not re.fullmatch(r"-?\d{0,5}", width):
            raise BadUse(f'Invalid field requested: "{name}"')
        given = int(width) if width.strip("-") else _width(exact[0])
        found.append(_column(exact[0], given, units))
    if not separator:
        return found
    return [replace(one, width=None, after=separator) for one in found]


def _width(name: str) -> int:
    return _WIDTHS.get(name, 10)


def _column(name: str, width: int, units: str) -> Column[Line]:
    def value(line: Line) -> object:
        if isinstance(line, SlurmTask):
            return _OF_TASK[name](line) if name in _OF_TASK else ""
        if name in ("MaxRSS", "AveRSS"):
            return _memory(line.noted.memory, units)
        return _OF_STEP[name](line) if name in _OF_STEP else ""

    return Column(name, value, width=width, cut="+", after=" ")


def _memory(gigabytes: float, units: str) -> str:
    """Return the peak of memory, in KB if not said otherwise."""
    peak = gigabytes * 1e9
    if not peak or units == "B":
        return f"{peak:.0f}"
    unit = units.upper() or "K"
    size = peak / 1024 ** ("KMGTP".index(unit) + 1) if unit in "KMGTP" else peak / 1024
    return f"{size:.0f}{unit}" if size >= 100 or unit == "K" else f"{size:.2f}{unit}"


def _state(facts: SlurmTask) -> str:
    return f"CANCELLED by {facts.uid}" if facts.state == "CANCELLED" else facts.accounted_state


def _step_state(step: SlurmStep) -> str:
    """Return the state of a step, with the user if one has ended it, and not its whole job."""
    run = step.task.run
    goes_on = run is not None and run.how in ("", "exit")
    by_user = goes_on and step.state == step.noted.state == "CANCELLED"
    return f"CANCELLED by {step.task.uid}" if by_user else step.state


def _planned(facts: SlurmTask) -> float:
    until = facts.began or facts.ended or facts.now
    return max(until - facts.eligible, 0.0)


def _minutes(facts: SlurmTask) -> str:
    return str(int(facts.job.timeout // 60)) if facts.job.timeout else "UNLIMITED"


_OF_TASK: dict[str, Callable[[SlurmTask], object]] = by_words({
    "Account": lambda one: one.option("account", ""),
    "AllocCPUS": lambda one: one.cores if one.run else 0,
    "AllocNodes": lambda one: one.nodes if one.run else 0,
    "AllocTRES": lambda one: one.tres if one.run else "",
    "Cluster": same("grain"),
    "Comment": lambda one: one.option("comment", ""),
    "CPUTime": lambda one: long_span(one.elapsed * one.cores),
    "CPUTimeRAW": lambda one: int(one.elapsed * one.cores),
    "DerivedExitCode": lambda one: derived_code(one.steps),
    "Elapsed": lambda one: long_span(one.elapsed),
    "ElapsedRaw": lambda one: int(one.elapsed),
    "Eligible": lambda one: one.time(one.eligible),
    "End": lambda one: one.time(one.ended),
    "ExitCode": lambda one: one.exit_code,
    "Flags": same("SchedMain"),
    "GID UID": lambda one: one.uid,
    "Group User": lambda one: one.job.user,
    # Slurm has plain numbers for the raw ones, the last task that of the array. A tool that knows a
    # task as 6_2 finds in it the state of another one then, and here it would find none.
    "JobID JobIDRaw": lambda one: one.name,
    "JobName": lambda one: one.job.name,
    "NCPUS ReqCPUS": lambda one: one.cores,
    "NNodes ReqNodes": lambda one: one.nodes,
    "NodeList": lambda one: one.nodelist or "None assigned",
    "Partition": lambda one: one.partition,
    "Planned Reserved": lambda one: long_span(_planned(one)),
    "PlannedCPU": lambda one: long_span(_planned(one) * one.cores),
    "PlannedCPURAW": lambda one: int(_planned(one) * one.cores),
    "Priority": lambda one: one.job.priority,
    "QOS": lambda one: one.option("qos", ""),
    "Reason": lambda one: one.reason,
    "ReqMem": lambda one: one.memory,
    "ReqTRES": lambda one: one.tres,
    "Start": lambda one: one.time(one.began),
    "State": _state,
    "Submit": lambda one: one.time(one.job.at),
    "Suspended": same("00:00:00"),
    "Timelimit": lambda one: long_span(one.job.timeout) if one.job.timeout else "UNLIMITED",
    "TimelimitRaw": _minutes,
    "TotalCPU": lambda one: long_span(one.run.cpu if one.run else 0.0),
    "WCKey": lambda one: one.option("wckey", ""),
    "WorkDir": lambda one: one.job.directory,
})  # fmt: skip
_OF_STEP: dict[str, Callable[[SlurmStep], object]] = by_words({
    "Account": lambda one: one.task.option("account", ""),
    "AllocCPUS NCPUS ReqCPUS": lambda one: one.noted.cpus,
    "AllocNodes NNodes ReqNodes": lambda one: len(one.noted.hosts),
    "AllocTRES": lambda one: f"cpu={one.noted.cpus},node={len(one.noted.hosts)}",
    "AveCPU": lambda one: long_span(one.noted.cpu / max(one.noted.tasks, 1)),
    "Cluster": same("grain"),
    "CPUTime": lambda one: long_span(one.elapsed * one.noted.cpus),
    "CPUTimeRAW": lambda one: int(one.elapsed * one.noted.cpus),
    "Elapsed": lambda one: long_span(one.elapsed),
    "ElapsedRaw": lambda one: int(one.elapsed),
    "Eligible Start Submit": lambda one: one.task.time(one.noted.began),
    "End": lambda one: one.task.time(one.ended),
    "ExitCode": lambda one: one.exit_code,
    "JobID JobIDRaw": lambda one: one.full_name,
    "JobName": lambda one: one.noted.name,
    "MaxRSSNode": lambda one: one.noted.hosts[0] if one.noted.memory else "",
    "NodeList": lambda one: hosts_text(one.noted.hosts),
    "NTasks": lambda one: one.noted.tasks,
    "State": _step_state,
    "Suspended": same("00:00:00"),
    "TotalCPU": lambda one: long_span(one.noted.cpu),
})  # fmt: skip


def efficiency(facts: SlurmTask) -> str:
    """Return what ``seff`` says of a task: which part of its cores and memory it has used."""
    name = f"{facts.number}" if facts.task is None else f"{facts.plain}"
    lines = [f"Job ID: {name}"]
    lines += [f"Array Job ID: {facts.name}"] * (facts.task is not None)
    status = facts.exit_code.partition(":")[0]
    state = f"{facts.state} (exit code {status})" if facts.ended else facts.state
    lines += ["Cluster: grain", f"User/Group: {facts.job.user}/{facts.job.user}", f"State: {state}"]
    if facts.cores == 1:
        lines.append("Cores: 1")
    else:
        lines += [f"Nodes: {facts.nodes}", f"Cores per node: {facts.cores_each}"]
    if facts.run is None:
        lines.append(f"Efficiency not available for jobs in the {facts.state} state.")
        return "".join(f"{line}\n" for line in lines)
    walltime = facts.elapsed * facts.cores
    span = long_span(walltime)
    lines += [
        f"CPU Utilized: {long_span(facts.run.cpu)}",
        f"CPU Efficiency: {_percent(facts.run.cpu, walltime)} of {span} core-walltime",
        f"Job Wall-clock time: {long_span(facts.elapsed)}",
    ]
    size = facts.job.first_choice.get("Memory", 0)
    asked = size * 1e9 * facts.nodes if isinstance(size, int | float) else 0.0
    used = facts.run.memory * 1e9
    lines += [
        f"Memory Utilized: {_bytes(used)}",
        f"Memory Efficiency: {_percent(used, asked)} of {_bytes(asked)}",
    ]
    if not facts.ended:
        lines.append(f"WARNING: Efficiency statistics may be misleading for {facts.state} jobs.")
    return "".join(f"{line}\n" for line in lines)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}%"


def _bytes(size: float) -> str:
    power = min(max(int(math.log(size, 1024)), 2), 4) if size >= 1 else 2
    return f"{size / 1024**power:.2f} {'KMGT'[power - 1]}B"
