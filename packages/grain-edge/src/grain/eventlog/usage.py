"""The resources that a run has used, and how that was measured."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

MeasuredBy = Literal["cgroup", "polling", "rusage", "none"]
"""The way in which a peak of memory was measured, the best first.

``"cgroup"``: the control group of each program, with files in memory, without the page cache.
``"polling"``: the process tree, looked at now and then. ``"rusage"``: the largest single process,
as the kernel reports it for children that have ended. ``"none"``: not measured, as the task started
no process.
"""

CpuMeasuredBy = Literal["cgroup", "rusage"]
"""The way in which CPU time was measured, the best first.

``"cgroup"``: the control group of each program, with all that was ever in it. ``"rusage"``: the
processes for which their parents have waited, as nearly all do.
"""

BRIEF = 0.2
"""Seconds that a brief run takes at most."""

OUTPUTS = 10
"""The most files in `Usage.outputs`."""


Amount = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""An amount of a resource or of time; a difference of two measurements may be below 0."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A number of things, or the number of one."""


class MemberUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The use of programs on one worker, with all processes below them.

    Attributes:
        user: CPU seconds in user mode.
        system: CPU seconds in the kernel.
        peak_memory: the largest memory at one time, of all programs together, in GB.
        measured_by: how ``peak_memory`` was measured.
        cpu_measured_by: how ``user`` and ``system`` were measured.
        read: GB read from files and devices.
        written: GB written to them.
        programs: the number of programs that were started.
        exit_statuses: how many of them ended with which status; a signal is negative.
        outputs: the files to which they wrote what they print, the last `OUTPUTS`.
    """

    user: Amount = 0.0
    system: Amount = 0.0
    peak_memory: Amount = 0.0
    measured_by: MeasuredBy = "none"
    cpu_measured_by: CpuMeasuredBy = "rusage"
    read: Amount = 0.0
    written: Amount = 0.0
    programs: Count = 0
    exit_statuses: dict[int, int] = {}
    outputs: tuple[str, ...] = ()

    @property
    def cpu(self) -> float:
        """CPU seconds, in user mode and in the kernel."""
        return self.user + self.system


class Usage(MemberUsage, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The use of the programs of one run, or of one program, on all of its workers.

    On several workers, ``peak_memory`` is that of the worker with the largest one, as each has as
    much as the task asks for; all other figures are sums.

    Attributes:
        members: the use on each of several workers, in their order; empty for one worker, and where
            only the first one was measured.
    """

    members: tuple[MemberUsage, ...] = ()

    @property
    def of_each(self) -> tuple[MemberUsage, ...]:
        """The use on each worker that was measured."""
        return self.members or (self,)


class ProgramState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An external program that runs.

    Attributes:
        command: shortened.
        seconds: for which it has been running.
        cpu: seconds of CPU time that it has used so far, with all processes below it; None where
            they could not be looked at.
        memory: what they have now, in GB; None as well.
    """

    command: str
    seconds: float
    cpu: float | None = None
    memory: float | None = None


class RunMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A worker of a run, with what it had there.

    Attributes:
        worker: its name.
        host: its host.
        cpus: the numbers of the CPUs; empty if they are not known.
    """

    worker: str
    host: str = ""
    cpus: tuple[int, ...] = ()


class LearnedAmount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The memory of a run whose group learns how much to ask for.

    Attributes:
        group: the name of the group.
        amount: GB that the run got on each of its workers.
        attempt: its number among those of its task that had too little, and the next; 1 is the
            first.
        size: of the problem, in any unit; 0 if none was stated.
        after: GB that were too little for the attempt before; 0 for a first attempt.
    """

    group: str
    amount: Amount
    attempt: Count = 1
    size: Amount = 0.0
    after: Amount = 0.0


class RunReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A run of a task, as its worker saw it.

    Attributes:
        started: when its tasklet began, in Unix seconds by the worker's clock.
        cpus: the numbers of the CPUs that it had; empty if they are not known.
        members: of a run on several workers, all of them, the first of which is this one.
        exceeded: True if it failed as it needed more memory than it had.
        learned: its memory, if its group learns that.
    """

    started: float
    ended: float
    host: str = ""
    worker: str = ""
    cpus: tuple[int, ...] = ()
    usage: Usage = Usage()
    members: tuple[RunMember, ...] = ()
    exceeded: bool = False
    learned: LearnedAmount | None = None


Report = bytes | Annotated[float, msgspec.Meta(ge=0.0, le=BRIEF)]
"""A report as it travels: as bytes, which only its reader looks into.

For a brief run that ended with a value and started no program, it is the seconds that the run took:
such runs may be many, there is nothing else to report, and their readers need not look further.
"""


def report_of(value: object) -> Report:
    """Return a report that has come from a runner; an empty one in place of what is not one."""
    if type(value) is bytes or (type(value) is float and 0.0 <= value <= BRIEF):
        return value
    return b""


def encode_report(report: RunReport) -> bytes:
    """Return a report as it travels."""
    return _ENCODER.encode(report)


def decode_report(data: Report, now: float) -> RunReport | None:
    """Return a report that has arrived; None if there is none, or none that can be read.

    Args:
        now: when a run ended of which there are only its seconds, in Unix seconds.
    """
    if isinstance(data, float):
        return RunReport(started=now - data, ended=now)
    if not data:
        return None
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError:
        return None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[RunReport] = msgspec.msgpack.Decoder(RunReport)
