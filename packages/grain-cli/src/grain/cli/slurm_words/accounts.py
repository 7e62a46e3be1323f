"""The fields of ``sacct``, and its lines."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import one_line
from grain.cli.slurm_words import values
from grain.cli.slurm_words.facts import hosts_text
from grain.cli.slurm_words.formats import tres
from grain.cli.slurm_words.grammar import BadUse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.cli.slurm_words.facts import SlurmTask
    from grain.queue.notes.steps import StepRecord

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

_NAMES = tuple(_ALL.split())
_WIDTHS = {
    "JobID": -12, "JobIDRaw": -12, "ExitCode": 8, "DerivedExitCode": 15, "NodeList": 15,
    "Start": 19, "End": 19, "Submit": 19, "Eligible": 19, "AllocNodes": 10, "Reason": 22,
    "WorkDir": 20, "User": 9, "Group": 9, "UID": 6, "GID": 6, "NNodes": 8, "NTasks": 8,
    "Comment": 14,
}  # fmt: skip


class AccountLine(NamedTuple):
    """A line of ``sacct``: a task, or a step of it.

    Attributes:
        facts: the task.
        batch: True for the step that is the script itself.
        step: a step that srun has started; None for another line.
    """

    facts: SlurmTask
    batch: bool = False
    step: StepRecord | None = None

    @property
    def step_name(self) -> str:
        """The name of the step, as ``batch`` or ``0``; "" for the task."""
        return "batch" if self.batch else "" if self.step is None else str(self.step.step)


class AccountColumn(NamedTuple):
    """A field in a format, with its width; negative for a field at the left."""

    name: str
    width: int

    def text(self, value: str) -> str:
        """Return a value in this column; one that is cut ends with ``+``."""
        width = abs(self.width)
        if len(value) > width:
            value = value[: max(width - 1, 0)] + "+" * (width > 0)
        return value.ljust(width) if self.width < 0 else value.rjust(width)


def help_text() -> str:
    """Return the names of all fields, as ``sacct --helpformat`` does."""
    lines = [_NAMES[at : at + 4] for at in range(0, len(_NAMES), 4)]
    text = "".join(" ".join(f"{name:<19}" for name in line).rstrip() + "\n" for line in lines)
    return text + "\n"


def columns(form: str) -> list[AccountColumn]:
    """Return the columns of a format, as ``JobID,State%20``.

    Raises:
        BadUse: a name means no field.
    """
    found = []
    for part in form.split(","):
        if not part.strip():
            continue
        name, _, width = part.strip().partition("%")
        if name.upper() == "ALL":
            found += [AccountColumn(one, _width(one)) for one in _NAMES]
            continue
        known = [one for one in _NAMES if one.lower().startswith(name.lower())]
        exact = [one for one in known if one.lower() == name.lower()] or known
        if not exact or not re.fullmatch(r"-?\d{0,5}", width):
            raise BadUse(f'Invalid field requested: "{name}"')
        found.append(AccountColumn(exact[0], int(width) if width.strip("-") else _width(exact[0])))
    return found


def _width(name: str) -> int:
    return _WIDTHS.get(name, 10)


def table(
    form: Sequence[AccountColumn],
    lines: Sequence[AccountLine],
    *,
    head: bool,
    separator: str = "",
    trailing: bool = False,
    units: str = "",
) -> str:
    """Return the whole answer.

    Args:
        form: its columns.
        lines: its lines.
        head: True for a line of names.
        separator: between fields that have no width; "" for a table.
        trailing: True for a separator after the last field.
        units: a letter, of sizes of memory.
    """
    rows = [[one_line(_value(column.name, line, units)) for column in form] for line in lines]
    names = [[column.name for column in form]] * head
    if separator:
        end = separator * trailing + "\n"
        return "".join(separator.join(row) + end for row in [*names, *rows])
    dashes = [["-" * abs(column.width) for column in form]] * head
    return "".join(
        "".join(f"{column.text(value)} " for column, value in zip(form, row, strict=True)) + "\n"
        for row in [*names, *dashes, *rows]
    )


def _value(name: str, line: AccountLine, units: str) -> str:
    field = _FIELDS.get(name)
    if field is None:
        return ""
    if line.step_name and name in _OF_JOB_ONLY:
        return ""
    if not line.step_name and name in _OF_STEP_ONLY:
        return ""
    run = line.facts.run
    if name in ("MaxRSS", "AveRSS"):
        return _memory(line.step.memory if line.step else run.memory if run else 0.0, units)
    if line.step is not None and name in _OF_SRUN:
        return _OF_SRUN[name](line, line.step)
    return field(line)


def _memory(gigabytes: float, units: str) -> str:
    """Return the peak of memory, in KB if not said otherwise."""
    peak = gigabytes * 1e9
    if not peak:
        return "0"
    unit = units.upper() or "K"
    size = peak / 1024 ** ("KMGTP".index(unit) + 1) if unit in "KMGTP" else peak / 1024
    return f"{size:.0f}{unit}" if size >= 100 or unit == "K" else f"{size:.2f}{unit}"


def _state(line: AccountLine) -> str:
    facts = line.facts
    if facts.state == "CANCELLED" and not line.batch:
        return f"CANCELLED by {facts.uid}"
    return "RUNNING" if facts.state == "COMPLETING" else facts.state


def _name(line: AccountLine, number: str) -> str:
    return f"{number}.{line.step_name}" if line.step_name else number


def _step_state(line: AccountLine, step: StepRecord) -> str:
    """Return the state of a step; one whose end was not noted has ended with its job."""
    if step.state:
        return step.state
    if step.ended:
        return "FAILED" if any(step.statuses) else "COMPLETED"
    return "CANCELLED" if line.facts.ended else "RUNNING"


def _step_exit(step: StepRecord) -> str:
    """Return the status and the signal of a step: the highest one of its processes."""
    worst = max(step.statuses, key=lambda one: 128 - one if one < 0 else one, default=0)
    return f"0:{-worst}" if worst < 0 else f"{worst}:0"


def _step_end(line: AccountLine, step: StepRecord) -> float:
    return step.ended or line.facts.ended


def _step_span(line: AccountLine, step: StepRecord) -> float:
    return max((_step_end(line, step) or line.facts.now) - step.began, 0.0)


def _cpu(line: AccountLine) -> str:
    run = line.facts.run
    return values.long_span(run.cpu if run else 0.0)


def _exit(line: AccountLine) -> str:
    if line.batch and line.facts.run is not None and line.facts.run.how in ("cancelled", "timeout"):
        return "0:15"
    return line.facts.exit_code


def _planned(facts: SlurmTask) -> float:
    until = facts.began or facts.ended or facts.now
    return max(until - max(facts.job.at, facts.job.not_before), 0.0)


def _nodes(line: AccountLine) -> str:
    return "1" if line.batch else str(line.facts.nodes)  # a script runs on the first one


def _node_list(line: AccountLine) -> str:
    return (line.facts.node if line.batch else line.facts.nodelist) or "None assigned"


def _cores(line: AccountLine) -> int:
    return line.facts.cores_each if line.batch else line.facts.cores


def _same(text: str) -> Callable[[AccountLine], str]:
    return lambda _: text


_FIELDS: dict[str, Callable[[AccountLine], str]] = {
    "Account": lambda line: line.facts.option("account", ""),
    "AllocCPUS": lambda line: str(_cores(line) if line.facts.run else 0),
    "AllocNodes": lambda line: _nodes(line) if line.facts.run else "0",
    "AllocTRES": lambda line: tres(line.facts) if line.facts.run else "",
    "AveCPU": _cpu,
    "AveRSS": _same(""),
    "Cluster": _same("grain"),
    "Comment": lambda line: line.facts.option("comment", ""),
    "CPUTime": lambda line: values.long_span(line.facts.elapsed * line.facts.cores),
    "CPUTimeRAW": lambda line: str(int(line.facts.elapsed * line.facts.cores)),
    "DerivedExitCode": _same("0:0"),
    "Elapsed": lambda line: values.long_span(line.facts.elapsed),
    "ElapsedRaw": lambda line: str(int(line.facts.elapsed)),
    "Eligible": lambda line: line.facts.time(max(line.facts.job.at, line.facts.job.not_before)),
    "End": lambda line: line.facts.time(line.facts.ended),
    "ExitCode": _exit,
    "Flags": _same("SchedMain"),
    "GID": lambda line: str(line.facts.uid),
    "Group": lambda line: line.facts.job.user,
    "JobID": lambda line: _name(line, line.facts.name),
    # Slurm has plain numbers here, the last task that of the array. A tool that knows a task as 6_2
    # finds in it the state of another one then, and here it would find none.
    "JobIDRaw": lambda line: _name(line, line.facts.name),
    "JobName": lambda line: "batch" if line.batch else line.facts.job.name,
    "MaxRSS": _same(""),
    "NCPUS": lambda line: str(_cores(line)),
    "NNodes": _nodes,
    "NodeList": _node_list,
    "NTasks": _same("1"),
    "Partition": lambda line: line.facts.partition,
    "Planned": lambda line: values.long_span(_planned(line.facts)),
    "PlannedCPU": lambda line: values.long_span(_planned(line.facts) * line.facts.cores),
    "PlannedCPURAW": lambda line: str(int(_planned(line.facts) * line.facts.cores)),
    "Priority": lambda line: str(line.facts.job.priority),
    "QOS": lambda line: line.facts.option("qos", ""),
    "Reason": lambda line: line.facts.reason,
    "ReqCPUS": lambda line: str(line.facts.cores),
    "ReqMem": lambda line: line.facts.memory,
    "ReqNodes": lambda line: str(line.facts.nodes),
    "ReqTRES": lambda line: tres(line.facts),
    "Reserved": lambda line: values.long_span(_planned(line.facts)),
    "Start": lambda line: line.facts.time(line.facts.began),
    "State": _state,
    "Submit": lambda line: line.facts.time(line.facts.job.at),
    "Suspended": _same("00:00:00"),
    "Timelimit": lambda line: (
        values.long_span(line.facts.job.timeout) if line.facts.job.timeout else "UNLIMITED"
    ),
    "TimelimitRaw": lambda line: (
        str(int(line.facts.job.timeout // 60)) if line.facts.job.timeout else "UNLIMITED"
    ),
    "TotalCPU": _cpu,
    "UID": lambda line: str(line.facts.uid),
    "User": lambda line: line.facts.job.user,
    "WCKey": lambda line: line.facts.option("wckey", ""),
    "WorkDir": lambda line: line.facts.job.directory,
}
_OF_SRUN: dict[str, Callable[[AccountLine, StepRecord], str]] = {
    "AllocCPUS": lambda _, step: str(step.cpus),
    "AllocNodes": lambda _, step: str(len(step.hosts)),
    "AllocTRES": lambda _, step: f"cpu={step.cpus},node={len(step.hosts)}",
    "AveCPU": lambda _, step: values.long_span(step.cpu / max(step.tasks, 1)),
    "CPUTime": lambda line, step: values.long_span(_step_span(line, step) * step.cpus),
    "CPUTimeRAW": lambda line, step: str(int(_step_span(line, step) * step.cpus)),
    "Elapsed": lambda line, step: values.long_span(_step_span(line, step)),
    "ElapsedRaw": lambda line, step: str(int(_step_span(line, step))),
    "Eligible": lambda line, step: line.facts.time(step.began),
    "End": lambda line, step: line.facts.time(_step_end(line, step)),
    "ExitCode": lambda _, step: _step_exit(step),
    "JobName": lambda _, step: step.name,
    "NCPUS": lambda _, step: str(step.cpus),
    "NNodes": lambda _, step: str(len(step.hosts)),
    "NodeList": lambda _, step: hosts_text(step.hosts),
    "NTasks": lambda _, step: str(step.tasks),
    "ReqCPUS": lambda _, step: str(step.cpus),
    "ReqNodes": lambda _, step: str(len(step.hosts)),
    "Start": lambda line, step: line.facts.time(step.began),
    "State": lambda line, step: _step_state(line, step),
    "Submit": lambda line, step: line.facts.time(step.began),
    "TotalCPU": lambda _, step: values.long_span(step.cpu),
}
_OF_JOB_ONLY = {
    "GID", "Group", "Partition", "Priority", "QOS", "Reason", "ReqTRES", "Timelimit",
    "TimelimitRaw", "UID", "User", "WCKey", "WorkDir", "ReqMem", "Comment", "Planned",
    "PlannedCPU", "PlannedCPURAW", "Reserved", "Flags", "DerivedExitCode",
}  # fmt: skip
_OF_STEP_ONLY = {"AveCPU", "AveRSS", "MaxRSS", "NTasks"}


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
    span = values.long_span(walltime)
    lines += [
        f"CPU Utilized: {values.long_span(facts.run.cpu)}",
        f"CPU Efficiency: {_percent(facts.run.cpu, walltime)} of {span} core-walltime",
        f"Job Wall-clock time: {values.long_span(facts.elapsed)}",
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
