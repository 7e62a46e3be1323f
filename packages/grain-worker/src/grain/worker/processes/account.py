"""The account of a run: when it began and ended, and what its external programs have used."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import trio

from grain import GVAR
from grain.eventlog.usage import OUTPUTS, LearnedAmount, RunMember, RunReport, Usage
from grain.resource import RootAllocation, learned
from grain.worker.processes.environment import allocated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextvars import Context

    from grain.eventlog.usage import MeasuredBy, MemberUsage
    from grain.resource import Resource
    from grain.worker.messages import Attempt, PastAttempts

_NOTHING = Usage()
_MOST = 64  # programs that are kept one by one, because another that ran beside them still runs
_STATUSES = 400  # more than there are: 256 exit codes, 64 signals
# Seconds for which the end of a program waits for a signal: at most, for each second that it ran,
# and so few that it does not wait.
_LONGEST, _FOR_EACH, _TOO_FEW = 0.1, 0.01, 0.001


class ProgramPeak(NamedTuple):
    """The peak of one program, and when it ran."""

    began: float
    ended: float
    peak: float


@runtime_checkable
class HeldTree(Protocol):
    """A process and all below it, which a run has: its memory can be looked at, and it be ended."""

    @property
    def context(self) -> Context:
        """The context of the run."""

    @property
    def top(self) -> int | None:
        """The pid of the helper process above it; None if it is not known."""

    def kill(self) -> None:
        """Have it ended, without waiting for that."""


class RunnersPrograms:
    """The programs that the runs of a runner have.

    Args:
        on_first: called when one begins, and there is no other.

    Attributes:
        running: any objects; a function in a process is a `HeldTree`.
    """

    def __init__(self, on_first: Callable[[], object]) -> None:
        self.running: set[object] = set()
        self._on_first = on_first

    def begin(self, program: object) -> None:
        """Note a program that is about to begin."""
        self.running.add(program)
        if len(self.running) == 1:
            self._on_first()


class Programs:
    """The programs of a run.

    The run's own peak is the largest sum of the peaks of programs that ran at the same time: what
    each had at which moment is not known. So only programs that ran beside one that still runs
    are kept one by one.

    Args:
        of_runner: those of all runs; None where they are of no interest.

    Attributes:
        total: what those on this worker have used, of all that have ended.
        others: those on the other workers of a gang, in their order.
    """

    def __init__(self, of_runner: RunnersPrograms | None = None) -> None:
        self.total = _NOTHING
        self.others: tuple[Programs, ...] = ()
        self._of_runner = of_runner
        self.last_end = -math.inf
        self._running: dict[object, float] = {}
        self._ended: list[ProgramPeak] = []

    @property
    def usage(self) -> Usage:
        """The use of those on all workers that have ended."""
        if not self.others:
            return self.total
        return of_members([self.total, *(one.total for one in self.others)])

    @property
    def on_each(self) -> tuple[Programs, ...]:
        """Those on each worker, this one first."""
        return self, *self.others

    def begin(self, program: object, now: float) -> None:
        """Note the start of a program, which is any object of its own."""
        self._running[program] = now
        if self._of_runner is not None:
            self._of_runner.begin(program)

    def end(self, program: object, now: float, usage: Usage | None) -> None:
        """Add what a program has used.

        Args:
            usage: what it has used; None if it never ran.
        """
        began = self._running.pop(program)
        if self._of_runner is not None:
            self._of_runner.running.discard(program)
        self.last_end = now
        if usage is not None and self.total is _NOTHING and not self._running:
            self.total = usage  # most runs have one program
            return
        total, peak, measured_by = self.total, 0.0, self.total.measured_by
        if usage is not None:
            self._ended.append(ProgramPeak(began, now, usage.peak_memory))
            peak = largest_sum(self._ended)
            if peak > total.peak_memory or measured_by == "none":
                measured_by = usage.measured_by
            self.total = _added(total, usage, max(total.peak_memory, peak), measured_by)
        oldest = min(self._running.values(), default=now)
        self._ended = [share for share in self._ended if share.ended > oldest]
        if len(self._ended) > _MOST:
            half = self._ended[: _MOST // 2]
            one = ProgramPeak(min(s.began for s in half), half[-1].ended, largest_sum(half))
            self._ended = [one, *self._ended[_MOST // 2 :]]


def _added(
    one: MemberUsage,
    other: MemberUsage,
    peak: float,
    measured_by: MeasuredBy,
    members: tuple[MemberUsage, ...] = (),
) -> Usage:
    """Return the sum of two, with a peak of memory that is known."""
    by_rusage = one.programs > 0 and one.cpu_measured_by == "rusage"
    statuses = dict(one.exit_statuses)
    for status, count in other.exit_statuses.items():
        if status in statuses or len(statuses) < _STATUSES:
            statuses[status] = statuses.get(status, 0) + count
    return Usage(
        user=one.user + other.user,
        system=one.system + other.system,
        peak_memory=peak,
        measured_by=measured_by,
        # As that of the worst.
        cpu_measured_by="rusage" if by_rusage else other.cpu_measured_by,
        read=one.read + other.read,
        written=one.written + other.written,
        programs=one.programs + other.programs,
        exit_statuses=statuses,
        outputs=tuple(dict.fromkeys((*one.outputs, *other.outputs)))[-OUTPUTS:],
        members=members,
    )


def of_members(each: Sequence[MemberUsage]) -> Usage:
    """Return the use of several workers together, of which each has its own."""
    largest = max(each, key=lambda one: one.peak_memory)
    total = _NOTHING
    for one in each:
        if one.programs:  # so that how others were measured counts
            total = _added(total, one, largest.peak_memory, largest.measured_by, tuple(each))
    return total


def of_call(own: Usage, used: Mapping[int, Usage], count: int) -> Usage:
    """Return the use of a program that has had others run, on so many workers.

    Args:
        own: that of the program itself, which ran on the first one.
        used: that of the others, by the number of the worker.
    """
    first = used.get(0)
    if first is not None:
        own = _added(own, first, own.peak_memory + first.peak_memory, own.measured_by)
    return of_members([own, *(used.get(number, _NOTHING) for number in range(1, count))])


def largest_sum(shares: list[ProgramPeak]) -> float:
    """Return the largest sum of the peaks of programs that ran at the same time."""
    if len(shares) == 1:
        return shares[0].peak
    # Of one moment the ends come first: what begins then began when those were gone.
    changes = sorted(
        change for one in shares for change in ((one.began, one.peak), (one.ended, -one.peak))
    )
    now = most = 0.0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def never_told() -> float:
    """Return that no batch system has told this process to end."""
    return math.inf


class WorkerEnd:
    """The end of a worker, as its agent has announced it last; one for all runs of a runner.

    Attributes:
        told_at: returns when a batch system has told all processes of the worker to end, by
            `time.monotonic`; inf if it has not, or this process cannot know.
        at: when runs are cancelled, by trio's clock; inf if that is open.
        now: True if programs are to be warned now.
        changed: parks the tasks that wait for news.
        on_warned: called when a program was warned of it.
    """

    def __init__(
        self, on_warned: Callable[[], object], told_at: Callable[[], float] = never_told
    ) -> None:
        self.told_at = told_at
        self.at = math.inf
        self.now = False
        self.changed = trio.lowlevel.ParkingLot()
        self.on_warned = on_warned

    def announce(self, at: float, *, now: bool) -> None:
        """Take what the agent announces."""
        self.at, self.now = at, now
        self.changed.unpark_all()

    async def after_signals(self, elapsed: float) -> None:
        """Return when `told_at` knows of a signal that was on its way when a program ended.

        A batch system that ends a job signals, or kills, one process of it after the other. A
        script whose child it has ended goes on, and may itself end well before it is its turn, and
        this process's. So this takes a hundredth of the time of the program, 0.1 s at most; and
        nothing if that was short, as of such programs there are many.

        Args:
            elapsed: seconds that the program ran.
        """
        pause = min(_LONGEST, elapsed * _FOR_EACH)
        if pause < _TOO_FEW or self.told_at is never_told or time.monotonic() >= self.told_at():
            return
        with trio.CancelScope(shield=True):  # what has ended is not cancelled any more
            await trio.sleep(pause)


class RunAccount:
    """The account of one run, which its tasklet sees as ``GVAR.usage``.

    One is made for every run, so it has nothing to do before the first program.

    Attributes:
        attempt: which run it is; None for a job that no head ordered.
        past: the attempts before it; None if it is the first.
        limit: its hard time limit in seconds; infinite without one.
        deadline: when that is over, by trio's clock.
        end: of its worker; None where that is of no interest.
        of_runner: as of `Programs`.
        ran: its programs; None before the first.
        stopped: True if a program of it has ended that was warned of the end of its worker.
        short: why it was ended for the memory of its node; empty if it was not.
        ended: when it ended; 0 before.
    """

    __slots__ = (
        "attempt", "deadline", "end", "ended", "limit", "of_runner", "past", "ran", "res", "short",
        "started", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        res: Resource,
        attempt: Attempt | None = None,
        past: PastAttempts | None = None,
        end: WorkerEnd | None = None,
        of_runner: RunnersPrograms | None = None,
    ) -> None:
        self.res = res
        self.attempt = attempt
        self.past = past
        self.end = end
        self.of_runner = of_runner
        self.limit = self.deadline = math.inf
        self.ran: Programs | None = None
        self.stopped = False
        self.short = ""
        self.started = time.time()
        self.ended = 0.0

    @property
    def usage(self) -> Usage:
        """The usage of the programs that have ended."""
        return _NOTHING if self.ran is None else self.ran.usage

    @property
    def programs(self) -> Programs:
        """The programs of the run."""
        if self.ran is None:
            self.ran = Programs(self.of_runner)
        return self.ran

    def close(self) -> None:
        """Note that the run has ended, and nothing of it is left."""
        self.ended = time.time()

    def report(
        self,
        host: str,
        worker: str,
        cpus: tuple[int, ...] | None = None,
        *,
        exceeded: bool = False,
    ) -> RunReport:
        """Return the report on a run that has ended.

        Args:
            cpus: the result of `cpus_of` for its resources, where that is at hand.
            exceeded: True if it failed as it needed more memory than it had.
        """
        return RunReport(
            started=self.started,
            # The clock may have been set back meanwhile.
            ended=max(self.started, self.ended),
            host=host,
            worker=worker,
            cpus=cpus_of(self.res) if cpus is None else cpus,
            usage=self.usage,
            members=members_of(self.res),
            exceeded=exceeded,
            learned=learned_amount(self.res),
        )


def attempt_of(context: Context) -> Attempt | None:
    """Return the run that a context belongs to; None if it belongs to none.

    A trio task belongs to the run in whose context it was started, also in a nursery of other code.
    """
    account = GVAR.account_in(context)
    return account.attempt if isinstance(account, RunAccount) else None


def learned_amount(res: Resource) -> LearnedAmount | None:
    """Return the memory of an allocation whose group learns it; None for any other."""
    memory = learned(res)
    if memory is None or memory.group is None:
        return None
    attempt, after = memory.tried
    return LearnedAmount(
        group=memory.group, amount=memory.M, attempt=attempt, size=memory.size or 0.0, after=after
    )


def members_of(res: Resource) -> tuple[RunMember, ...]:
    """Return the workers of a gang with their CPUs, the root first; none for any other task."""
    if not isinstance(res, RootAllocation) or len(res.nodes) == 1:
        return ()
    return tuple(
        RunMember(worker=node.name, host=node.host, cpus=cpus_of(node.res)) for node in res.nodes
    )


def cpus_of(res: Resource) -> tuple[int, ...]:
    """Return the numbers of the CPUs that an allocation has; empty if it has none."""
    return tuple(allocated(res))
