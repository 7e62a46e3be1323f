"""The state of each task of a job, from files that say what happened and what was asked.

Nothing here reads a file: the same files give the same state, whoever reads them, in any order.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec

from grain.eventlog.soft_stops import SOFT_STOPS, Interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grain.queue.records import Begun, Dependency, Ended, Job, Until, Wish
    from grain.resource import Memory

State = Literal[
    "PENDING",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "OUT_OF_MEMORY",
    "CANCELLED",
    "LOST",
]
"""``"LOST"`` is the end of a job that may not run again, and whose worker died."""

Reason = Literal["", "held", "cancel", "dependency", "never", "begin time", "array limit"]
"""The reason for which a task waits; or ``"cancel"``, also of one that runs.

``"cancel"``: its cancellation is asked for, and not made yet; ``"never"``: a dependency can never
be met; ``""``: it may begin.
"""

DependencyState = Literal["met", "waits", "never"]
"""The state of a dependency on one job."""

FINAL: frozenset[State] = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "LOST"}
)


MOST_LOST = 5
"""Attempts of a task whose workers died, until it is taken for the cause, and ends as lost."""

MOST_RETURNED = 20
"""Attempts in a row that workers hand back at once, until the task ends as lost."""

AT_ONCE = 1.0
"""Seconds within which an attempt is handed back at once.

One that has run for longer was ended as the time of its worker was over, for instance. That may
happen any number of times.
"""


class Run(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """One attempt, as far as lists show it; its receipts have more.

    Attributes:
        attempt: from 1.
        began: Unix seconds.
        host: where.
        worker: its name.
        how: as of `records.Ended`; "" while it runs.
        ended: Unix seconds; 0 while it runs.
        status: the exit status.
        signal: that ended it; 0 for none.
        elapsed: seconds.
        by: who has cancelled it.
        message: as of `records.Ended`.
        memory: the peak in GB; 0 if it is not known.
        cpu: CPU seconds.
        others: the hosts of the other workers of a job on several.
        cpus: the number of CPUs that it has there; 0 if it asked for none.
        amount, last, interruption, line: as of `records.Ended`.
    """

    attempt: int
    began: float
    host: str = ""
    worker: str = ""
    how: str = ""
    ended: float = 0.0
    status: int = 0
    signal: int = 0
    elapsed: float = 0.0
    by: str = ""
    message: str = ""
    memory: float = 0.0
    cpu: float = 0.0
    others: tuple[str, ...] = ()
    cpus: int = 0
    amount: float = 0.0
    last: bool = False
    interruption: Interruption = ""
    line: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of its hosts, as often as they have a worker of it; where it was run first."""
        return (self.host, *self.others) if self.host else ()


class Standing(NamedTuple):
    """The state of a task.

    Attributes:
        state: see `State`.
        reason: the reason for which it waits.
        attempt: of a pending task, the attempt that is next; else the last one.
        run: the last attempt; None if there was none.
    """

    state: State
    reason: Reason
    attempt: int
    run: Run | None = None


class Asked(NamedTuple):
    """The sum of what was asked of a task.

    Attributes:
        held: True while it may not begin.
        cancelled: the wish that cancels it; None if there is none that holds.
        granted: the last attempt that a user has asked for; 0 for none.
        only_failed: True if that attempt is only for a task that did not succeed.
        timeout: its time limit in seconds, 0 for none; None for that with which it was submitted.
    """

    held: bool = False
    cancelled: Wish | None = None
    granted: int = 0
    only_failed: bool = False
    timeout: float | None = None


def run_of(attempt: int, begun: Begun, ended: Ended | None) -> Run:
    """Return an attempt from its receipts."""
    if begun.cancelled:
        return Run(
            attempt, begun.at, how="cancelled", ended=begun.at, by=begun.cancelled,
            message=begun.why,
        )  # fmt: skip
    if ended is None:
        return Run(
            attempt, begun.at, begun.host, begun.worker, others=begun.others, cpus=begun.cpus
        )
    usage = ended.usage
    return Run(
        attempt=attempt,
        began=begun.at,
        host=begun.host,
        worker=begun.worker,
        how=ended.how,
        ended=ended.at,
        status=ended.status,
        signal=ended.signal,
        elapsed=ended.elapsed,
        by=ended.by,
        message=ended.message,
        memory=usage.peak_memory if usage else 0.0,
        cpu=usage.cpu if usage else 0.0,
        others=begun.others,
        cpus=begun.cpus,
        amount=ended.amount,
        last=ended.last,
        interruption=ended.interruption,
        line=ended.line,
    )


def asked_of(job: Job, number: int, task: int | None, wishes: Iterable[Wish]) -> Asked:
    """Return the sum of wishes for a task of a job.

    Args:
        job: the job.
        number: its number.
        task: that of the task; None if the job is not an array.
        wishes: all, or at least those for the job, in the order of their numbers.
    """
    held, cancelled, granted, only_failed = job.held, None, 0, False
    timeout: float | None = None
    for wish in wishes:
        if not wish.concerns(number, task):
            continue
        match wish.what:
            case "hold":
                held = True
            case "release":
                held = False
            case "cancel":
                cancelled = wish
            case "again":
                # A wish names its attempt, so that one that comes late does not start another run.
                cancelled = None
                if wish.attempt > granted:
                    granted, only_failed = wish.attempt, wish.only_failed
            case "update" if wish.update is not None and wish.update.timeout is not None:
                timeout = wish.update.timeout
            case _:
                pass
    return Asked(held, cancelled, granted, only_failed, timeout)


def outcome(run: Run) -> State:
    """Return the state that an attempt which has ended leaves, if no other one follows."""
    match run.how:
        case "exit":
            return "FAILED" if run.status else "COMPLETED"
        case "timeout":
            return "TIMEOUT"
        case "memory":
            return "OUT_OF_MEMORY"
        case "cancelled":
            return "CANCELLED"
        case "returned" | "lost":
            return "LOST"
        case _:
            return "FAILED"


def next_attempt(job: Job, runs: Sequence[Run], asked: Asked) -> int:
    """Return the attempt that may be made next, be it held or not; 0 if there is none.

    Args:
        job: the job.
        runs: all attempts of the task so far, from 1 without gaps.
        asked: what was asked of it.
    """
    if not runs:
        return 1
    last = runs[-1]
    # It runs, and two attempts of a task never run at the same time.
    if not last.how:
        return 0
    following = last.attempt + 1
    # Only if it is for the very next one: any other wish has been met, or came late.
    if asked.granted == following and not (asked.only_failed and outcome(last) == "COMPLETED"):
        return following
    # That says nothing of the task, so it costs no retry. But where it happens again and again, the
    # task is the likely cause. A user who asks for another run has the count begin again.
    if last.how in ("returned", "lost"):
        lost = sum(run.how == "lost" and run.attempt >= asked.granted for run in runs)
        at_once = takewhile(
            lambda run: (
                run.how == "returned" and run.elapsed < AT_ONCE and run.attempt >= asked.granted
            ),
            reversed(runs),
        )
        soft = takewhile(
            lambda run: run.interruption == "stopped" and run.attempt >= asked.granted,
            reversed(runs),
        )
        stays = (
            lost >= MOST_LOST
            or sum(1 for _ in at_once) >= MOST_RETURNED
            or sum(1 for _ in soft) >= SOFT_STOPS
        )
        # Before its program began, as it was held or updated: that is not a second run.
        never_ran = last.how == "returned" and not last.elapsed
        return following if (job.requeue or never_ran) and not stays else 0
    # Nothing to retry: a user has ended it, or it is done.
    if outcome(last) in ("COMPLETED", "CANCELLED"):
        return 0
    if last.amount:  # of a group that learns, whose attempts are apart from retries
        return following if next_memory(job, runs, asked) is not None else 0
    # Retries are counted from the attempt that a user has asked for.
    failed = sum(
        run.how not in ("returned", "lost") and not run.amount and run.attempt >= asked.granted
        for run in runs
    )
    return following if failed <= job.retries else 0


def next_memory(job: Job, runs: Iterable[Run], asked: Asked) -> Memory | None:
    """Return the memory that the next attempt of a task asks for, where its group learns that.

    Returns:
        None for a job without such a group or with alternatives, or which may not run a second
        time; and after an attempt that had the most, and needed more.
    """
    # Most have no group, and kinds may be unknown here.
    if not job.requeue or "'group'" not in repr(job.request):
        return None
    from grain.resource import from_data, learned

    request = from_data(job.request)
    memory = learned(request)
    for run in runs:
        # From the attempt on that a user has asked for: the ladder begins again there.
        if memory is not None and run.amount and run.attempt >= asked.granted:
            memory = memory.after(run.amount, last=run.last)
    return memory


def task_state(
    job: Job,
    runs: Sequence[Run],
    asked: Asked,
    *,
    now: float,
    dependency: DependencyState = "met",
    running: int = 0,
) -> Standing:
    """Return the state of a task.

    Args:
        job: the job.
        runs: all attempts of the task so far, from 1 without gaps.
        asked: what was asked of it.
        now: Unix seconds.
        dependency: see `dependency_state`; "met" for a job without.
        running: the number of tasks of the job that run.
    """
    last = runs[-1] if runs else None
    if last is not None and not last.how:
        return Standing("RUNNING", "cancel" if asked.cancelled else "", last.attempt, last)
    following = next_attempt(job, runs, asked)
    if not following:
        assert last is not None
        return Standing(outcome(last), "", last.attempt, last)
    # Several may hold. First comes what a user has asked for, then what only other jobs can change,
    # then what passes by itself.
    reason: Reason = ""
    if asked.cancelled is not None:
        reason = "cancel"
    elif asked.held:
        reason = "held"
    elif dependency != "met":
        reason = "never" if dependency == "never" else "dependency"
    elif now < job.not_before:
        reason = "begin time"
    elif job.array is not None and 0 < job.array.at_once <= running:
        reason = "array limit"
    return Standing("PENDING", reason, following, last)


class StateCounts(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """The number of tasks of a job in each state, in the order of `State`."""

    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    timeout: int = 0
    memory: int = 0
    cancelled: int = 0
    lost: int = 0

    @property
    def tasks(self) -> int:
        """All tasks."""
        return self.pending + self.running + self.ended

    @property
    def ended(self) -> int:
        """Those in a final state."""
        return self.completed + self.unsuccessful

    @property
    def unsuccessful(self) -> int:
        """Those that have ended otherwise than completed."""
        return self.failed + self.timeout + self.memory + self.cancelled + self.lost

    @property
    def is_final(self) -> bool:
        """True if all have ended."""
        return not self.pending and not self.running

    def moved(self, before: State, after: State) -> StateCounts:
        """Return the counts when one task goes from a state to another one."""
        counts = list(msgspec.structs.astuple(self))
        counts[_PLACES[before]] -= 1
        counts[_PLACES[after]] += 1
        return StateCounts(*counts)


_PLACES: dict[State, int] = {state: place for place, state in enumerate(get_args(State))}


def job_state(tally: StateCounts) -> State:
    """Return the state of a job as a whole; of one that has ended, the worst of its tasks."""
    if tally.running:
        return "RUNNING"
    if tally.pending:
        return "PENDING"
    worst: tuple[tuple[State, int], ...] = (
        ("LOST", tally.lost),
        ("OUT_OF_MEMORY", tally.memory),
        ("TIMEOUT", tally.timeout),
        ("FAILED", tally.failed),
        ("CANCELLED", tally.cancelled),
    )
    return next((state for state, number in worst if number), "COMPLETED")


def dependency_states(
    after: Iterable[Dependency],
    tally: Callable[[int], StateCounts | None],
    task_state: Callable[[int], Callable[[int | None], State | None]] | None = None,
    task: int | None = None,
    begun: Callable[[int, int | None], float | None] | None = None,
    now: float = math.inf,
) -> Iterator[tuple[Dependency, int, DependencyState]]:
    """Yield how it stands with each job that a task waits for, with its dependency and its number.

    Args:
        after: the dependencies of its job.
        tally: returns that of a job; None for one that was removed long after its end, which only
            ``"any"`` and ``"begun"`` take.
        task_state: returns, for a job, what returns the state of one of its tasks; None if it has
            no such task. Only ``"each"`` and single tasks need it.
        task: the number of the task.
        begun: returns when all tasks of a job, or the one, had begun once, or had ended without, in
            Unix seconds; None if they have not. Only ``"begun"`` needs it; without it, pending
            tasks have not begun.
        now: Unix seconds.
    """
    for dependency in after:
        one = task if dependency.until == "each" else dependency.task
        for number in dependency.jobs:
            of = tally(number)
            if dependency.until == "begun":
                at = begun(number, one) if begun else None if of is not None and of.pending else 0.0
                # One that was removed ended long ago, and so it had begun.
                met = of is None or (at is not None and at + dependency.delay <= now)
                never = False
            elif one is not None or dependency.until == "each":
                of_task = task_state(number)(one) if task_state and of is not None else None
                met, never = _of_task(of_task, dependency.until)
            elif of is None:
                met = dependency.until == "any"
                never = not met
            elif dependency.until == "ok":
                met = of.is_final and not of.unsuccessful
                # One task that has failed decides that, while others may still run.
                never = bool(of.unsuccessful)
            elif dependency.until == "fail":
                met = of.is_final and bool(of.unsuccessful)
                never = of.is_final and not met
            else:
                met, never = of.is_final, False
            yield dependency, number, "never" if never else "met" if met else "waits"


def _of_task(state: State | None, until: Until) -> tuple[bool, bool]:
    """Return whether a task has ended as wanted, and whether it never will."""
    if state is None:  # removed, or never there
        return until == "any", until != "any"
    over, good = state in FINAL, state == "COMPLETED"
    met = over and (until == "any" or good == (until != "fail"))
    return met, over and not met


def dependency_state(
    states: Iterable[tuple[Dependency, int, DependencyState]], *, enough: bool = False
) -> DependencyState:
    """Return how it stands with all that a task waits for, see `dependency_states`.

    Args:
        enough: True if one of its dependencies is enough, with all jobs that this one names.
    """
    by_one: dict[int, DependencyState] = {}
    for dependency, _, state in states:
        # Where one dependency is enough, a job that ended otherwise spoils only its own.
        place = id(dependency) if enough else 0
        if state == "never":
            if not enough:
                return state
            by_one[place] = state
        elif by_one.get(place) != "never" and (state == "waits" or place not in by_one):
            by_one[place] = state
    found = by_one.values()
    if "met" in found or not found:
        return "met"
    return "waits" if "waits" in found else "never"
