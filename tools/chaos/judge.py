"""The judge: compares the books of a run with what Grain promises. Pure functions.

What is promised, and what breaks it:

- *lost*: a mission ended by itself, and one of its tasks was not resolved.
- *doubled*: a task was resolved twice.
- *wrong*: a task was resolved with something else than its result, or with a result of a run that
  had not ended, or with an error that was none of its own. A task may be given up after five
  crashes, so `TaskCrashed` is right if faults ended five of its runs. So may be a gang whose
  workers did not reach each other: some hosts refuse connections. The report counts these.
- *failed*: a mission ended with an error, and no fault had hit it.
- *hung*: a mission did not end, long after the last fault.
- *restarted*: a task began again though nothing had ended its run: at-least-once is not a licence.
- *overlapped*: a run of a task began while another one, or something that it had left behind, was
  alive. That may happen only if the worker of the first was away for longer than the grace period:
  then it cannot be known.
- *shared*: a run began on a core that another run, or something that it had left behind, still had.
- *job*: the number of a job of the queue was printed, and the job is not listed afterwards, or is
  not final; one of its attempts began twice, or beside another; it is done without having come to
  its end; or it began long after its cancellation was accepted.
- *outlived*: a run of a mission began, or came to its own end, although the mission had been killed
  or terminated before; or a run of a worker, although the worker had left as its time was over.
- *twice*: a detached mission was started again while its last start lived; or it was killed, and
  `grain resume`, typed on both login hosts at once, started it on none, or on each.
- *orphans*, *files*: processes and files that are left when everything has ended.
- *memory*: Gnaw or an agent took more than it may.
- *vacuous*: too little has happened to prove anything.

If the fork server is killed, then the supervisor of a program that began before, only the subreaper
can end that program (`docs/external.md`): the runner ends itself, with all its runs. A local worker
without a process of its own has no subreaper, so `ExternalLostError` is right there. The report
counts such programs as *unwatched*.

Which faults end a run, or keep a worker away, is stated here once, in `Causes`, and nowhere taken
from what Grain itself says.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from grain.worker.gang.messages import SILENCE
from tools.chaos.books import BEGINS, ENDS, MEMBER, QUEUE, expected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tools.chaos.schedule import MissionPlan

EARLY = 2.0
"""Seconds by which a fault may precede the start of the run that it ends, which is on its way."""

RECOVERY = {"unix": 5.0, "tcp": 8.0, "reverse": 15.0, "files": 25.0, "relay": 20.0}
"""Seconds in which a worker comes back when the fault is over, by its transport.

Less than the grace period of a run, or one death of Gnaw's would excuse everything."""

TAKEOVER = 20.0
"""Seconds until a Gnaw takes the place of one that was killed on the other login host."""

CRASHES = 5
"""Crashes after which a task is given up."""

PROMPT = {"kill": 10.0, "terminate": 20.0}
"""Seconds after which nothing of a mission runs any more that was killed, or asked to end."""

GONE = 10.0
"""Seconds after the end of a worker by which nothing of it runs any more."""

CANCELLED = 30.0
"""Seconds after which no attempt of a job begins any more whose cancellation was accepted."""

OVER = frozenset({"done", "failed", "timed out", "out of memory", "cancelled", "lost"})
"""The states of a job that is final, as `grain jobs --json` has them."""

GANGS = 5
"""Gangs of which a member did not join, after which a task is given up."""

ENDING = frozenset({"agent", "runner", "subreaper", "fork server", "supervisor"})
"""The processes of a worker whose end may end its runs."""


@dataclass(frozen=True)
class Event:
    """A fault as it happened.

    Attributes:
        kind: as in `schedule.Strike`; or "time over" of an agent, which may end its runs from
            ``at`` on and has ended at ``until``.
        target: as in `schedule.Strike`.
        owner: the worker or mission of the victim, or "".
        task: the task whose run the victim watched over, if it was a supervisor of one.
        at: when it began.
        until: when it was over; the same for one that cannot be undone.
    """

    kind: str
    target: str
    owner: str
    task: tuple[str, int] | None
    at: float
    until: float


@dataclass(frozen=True)
class Ending:
    """The end of a mission.

    Attributes:
        plan: what it had to do.
        code: its exit code; None if it had to be killed at the end of everything.
    """

    plan: MissionPlan
    code: int | None


@dataclass(frozen=True)
class QueuedJob:
    """A job of the queue whose number was printed.

    Attributes:
        number: that.
        cancelled: when its cancellation was accepted; None if it was not cancelled.
        state: as it was listed last; "" if it was not.
    """

    number: int
    cancelled: float | None
    state: str


@dataclass(frozen=True)
class Evidence:
    """All that a run has left to judge.

    Attributes:
        grace: seconds for which Gnaw waited for absent peers.
        lines: the books.
        events: the faults.
        endings: the missions that began; each start of a detached one by itself.
        transports: the transport of each worker, by its name.
        orphans: the processes that were left.
        files: the files that were left.
        scratch: the scratch directories that were left.
        megabytes: the largest resident memory seen, by role.
        most_megabytes: what each of them may take.
        elsewhere: the sockets that were left on hosts where the last Gnaw was not.
        jobs: those of the queue.
        resumed: for each detached mission that was killed, on how many hosts it was started again.
    """

    grace: float
    lines: Sequence[Mapping[str, Any]]
    events: Sequence[Event]
    endings: Sequence[Ending]
    transports: Mapping[str, str] = field(default_factory=dict)
    orphans: Sequence[str] = ()
    files: Sequence[str] = ()
    scratch: Sequence[str] = ()
    megabytes: Mapping[str, float] = field(default_factory=dict)
    most_megabytes: float = 250.0
    resumed: Sequence[tuple[str, int]] = ()
    elsewhere: Sequence[str] = ()
    jobs: Sequence[QueuedJob] = ()


Law = Literal[
    "lost",
    "doubled",
    "wrong",
    "failed",
    "hung",
    "restarted",
    "overlapped",
    "shared",
    "job",
    "outlived",
    "twice",
    "orphans",
    "files",
    "memory",
    "vacuous",
]

LAWS: tuple[Law, ...] = Law.__args__  # type: ignore[attr-defined]
"""The names of all promises, by what breaks them."""


@dataclass(frozen=True)
class Violation:
    """A promise that was broken.

    Attributes:
        law: one of `LAWS`.
        detail: where and how, as text.
    """

    law: Law
    detail: str


class Causes:
    """The faults that entitle Grain to begin a task again.

    Args:
        evidence: the run.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._events = sorted(evidence.events, key=lambda one: one.at)
        self._transports = evidence.transports
        self._grace = evidence.grace
        # The deaths of supervisors that were the last process to watch over a program that began
        # before: the fork server had been killed, or was at the same time. They end the runner.
        self.unwatched: set[Event] = set()
        servers = [e for e in self._events if (e.kind, e.target) == ("kill", "fork server")]
        for one in self._events:
            if (one.kind, one.target) != ("kill", "supervisor"):
                continue
            for server in servers:
                if server.owner == one.owner and server.at <= one.at + EARLY:
                    for line in evidence.lines:
                        if (
                            line["what"] == "start"
                            and (line["mission"], line["task"]) == one.task
                            and line["worker"] == one.owner
                            and line["at"] <= server.at + EARLY
                        ):
                            self.unwatched.add(one)

    @property
    def left(self) -> set[tuple[str, int] | None]:
        """The tasks of the programs that no process could end, see `unwatched`."""
        return {one.task for one in self.unwatched}

    def ended(self, start: Mapping[str, Any], before: float) -> str:
        """Return the kind of fault that ended a run, or "" if there was none.

        Args:
            start: the line of its start.
            before: when the task began again.
        """
        task = (start["mission"], start["task"])
        for one in self._events:
            if (
                one.kind in {"kill", "terminate", "time over"}
                and one.target in ENDING
                and one.owner in workers_of(start)
                and (one.task in {None, task} or one in self.unwatched)
                and start["at"] - EARLY <= one.at <= before
            ):
                return f"{one.kind} {one.target}"
        return ""

    def away(self, start: Mapping[str, Any], before: float) -> str:
        """Return "worker" or "mission" if that was away for a grace period, or "".

        Members of a gang speak to each other, past Gnaw: a host that is cut off is lost to them
        sooner (`SILENCE`), however Gnaw is.

        Args:
            start: the line of the start of a run.
            before: when the task began again.
        """
        mission = start["mission"]
        for worker in workers_of(start):
            transport = self._transports.get(worker, "unix")
            if self._longest(worker, transport, start["at"], before) >= self._grace:
                return "worker"
            if "gang" in start and self._was_cut(transport, start["at"], before):
                return "worker"
        if self._longest(mission, "unix", start["at"], before) >= self._grace:
            return "mission"
        return ""

    def disturbed(self, start: Mapping[str, Any], since: float, until: float) -> bool:
        """Return True if an order of Gnaw's about a mission's run may have been late.

        Args:
            start: the line of its start.
            since: when the order was due.
            until: when it had not been carried out.
        """
        return any(
            one.at <= until
            and since <= one.until + RECOVERY[transport] + TAKEOVER * (one.target == "gnaw")
            for worker in workers_of(start)
            for transport in [self._transports.get(worker, "unix")]
            for one in self._events
            if self._keeps_away(one, worker, transport)
            or (one.kind == "stop" and one.owner in {worker, start["mission"]})
        )

    def _was_cut(self, transport: str, since: float, until: float) -> bool:
        """Return True if the host of a transport was cut off for long enough to lose a gang.

        A reset ends the connections of a gang as well, which are not made again.
        """
        return any(
            min(one.until, until) - max(one.at, since) >= SILENCE
            if one.kind == "cut"
            else one.kind == "reset" and since - EARLY <= one.at <= until
            for one in self._events
            if one.target == transport
        )

    def _longest(self, owner: str, transport: str, since: float, until: float) -> float:
        """Return the length of the longest absence of a peer of Gnaw's.

        Absences that follow each other too closely for a recovery are one.
        """
        recovery = RECOVERY[transport]
        longest, begin, end = 0.0, 0.0, -1e9
        for one in self._events:
            if not self._keeps_away(one, owner, transport):
                continue
            if one.at > end:
                begin = one.at
            end = max(end, one.until + recovery)
            if end >= since and begin <= until:
                longest = max(longest, min(end, until) - begin)
        return longest

    @staticmethod
    def _keeps_away(event: Event, owner: str, transport: str) -> bool:
        if event.kind in {"busy", "time over"}:
            return False
        # A peer without a connection cannot meet others without the server of the bridge.
        if event.target in {"gnaw", "bridge"}:
            return True
        if event.kind in {"fill", "purge"}:
            return transport == "files"
        if event.kind in {"cut", "reset"}:
            return event.target == transport
        # A mission or an agent that stands still is there; it cannot be told if Gnaw is killed too.
        return event.owner == owner and event.target in {"agent", "mission"}


def workers_of(start: Mapping[str, Any]) -> Sequence[str]:
    """Return the workers of a run, by the line of its start."""
    return start.get("gang") or [start["worker"]]


@dataclass
class Report:
    """What the judge has seen.

    Attributes:
        violations: broken promises.
        restarts: how many tasks began again, by what entitled them to.
        tasks: how many tasks there were.
        resolved: how many of them were resolved.
        unwatched: how many programs there were whose fork server and supervisor were killed.
        starts: how many runs began.
        by_transport: how many of them, by the transport of their worker.
        gangs: how many of them were on several workers.
        apart: how many tasks were given up, as their workers did not reach each other.
    """

    violations: list[Violation] = field(default_factory=list)
    restarts: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    resolved: int = 0
    unwatched: int = 0
    starts: int = 0
    by_transport: Counter[str] = field(default_factory=Counter)
    gangs: int = 0
    apart: int = 0

    def count(self, law: Law) -> int:
        """Return how often a promise was broken."""
        return sum(one.law == law for one in self.violations)


def judge(evidence: Evidence, *, least_resolved: int = 20, least_faults: int = 5) -> Report:
    """Return what was broken.

    Args:
        evidence: what the run has left.
        least_resolved: resolved tasks below which a run proves nothing.
        least_faults: the same for faults.
    """
    report = Report()
    causes = Causes(evidence)
    starts: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    attempts: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    members: list[Mapping[str, Any]] = []
    ends: set[str] = set()
    resolutions: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    # By time, as the lines of several processes may be a little out of order.
    for line in sorted(evidence.lines, key=lambda one: float(one["at"])):
        if line["what"] == "start" and line["mission"] == QUEUE:
            attempts[line["task"]].append(line)
        elif line["what"] == "start":
            starts[line["mission"], line["task"]].append(line)
        elif line["what"] == MEMBER:
            members.append(line)
        elif line["what"] == "end":
            ends.add(line["run"])
        elif line["what"] == "resolved":
            resolutions[line["mission"], line["task"]].append(line)
    for ending in evidence.endings:
        report.tasks += len(ending.plan.tasks)
        report.violations += _of_mission(ending, resolutions, evidence.events)
        for number, task in enumerate(ending.plan.tasks):
            key = (ending.plan.name, number)
            crashes = _runs_ended(starts[key], causes)
            # Nothing ends a program of the mission's own process then, see docs/external.md.
            left = ending.plan.interface == "local" and key in causes.left
            found = _of_task(key, task.kind, resolutions[key], ends, crashes, left=left)
            report.violations += found
    report.unwatched = len(causes.unwatched)
    for runs in starts.values():
        report.starts += len(runs)
        report.by_transport.update(evidence.transports.get(run["worker"], "?") for run in runs)
        report.violations += _of_runs(runs, causes, report.restarts)
        report.gangs += sum("gang" in run for run in runs)
    report.violations += [v for line in members for v in _of_member(line, causes)]
    report.apart = sum(one.get("apart", 0) >= GANGS for rs in resolutions.values() for one in rs)
    for job in evidence.jobs:
        report.violations += _of_job(job, attempts[job.number], ends)
    report.violations += _of_the_dead(evidence, causes)
    report.violations += _of_the_departed(evidence)
    report.violations += _of_starts(evidence)
    report.violations += _left(evidence)
    report.resolved = sum(map(bool, resolutions.values()))
    if report.resolved < least_resolved or len(evidence.events) < least_faults:
        few = f"{report.resolved} tasks were resolved, under {len(evidence.events)} faults"
        report.violations.append(Violation("vacuous", few))
    return report


def _of_mission(
    ending: Ending,
    resolutions: Mapping[tuple[str, int], Sequence[object]],
    events: Sequence[Event],
) -> Iterator[Violation]:
    name = ending.plan.name
    struck = any(
        one.target == "mission" and one.owner == name and one.kind in {"kill", "terminate"}
        for one in events
    )
    if ending.code is None:
        yield Violation("hung", f"{name} did not end")
    elif ending.code and not struck:
        yield Violation("failed", f"{name} ended with exit code {ending.code}")
    if ending.code == 0:
        missing = [n for n in range(len(ending.plan.tasks)) if not resolutions.get((name, n))]
        if missing:
            yield Violation("lost", f"{name} ended, and these tasks have no result: {missing}")


def _of_job(
    job: QueuedJob, attempts: Sequence[Mapping[str, Any]], ends: set[str]
) -> Iterator[Violation]:
    name = f"job {job.number}"
    if job.state not in OVER:
        yield Violation("job", f"{name} is {job.state or 'not listed'} at the end")
    if job.state == "done" and not any(one["run"] in ends for one in attempts):
        yield Violation("job", f"{name} is done, and has not come to its end")
    for number, count in Counter(one["attempt"] for one in attempts).items():
        if count > 1:
            yield Violation("job", f"attempt {number} of {name} began {count} times")
    for one in attempts:
        if not one["alone"]:
            yield Violation("job", f"{name} began beside an earlier attempt: {one['run']}")
        if job.cancelled is not None and one["at"] > job.cancelled + CANCELLED:
            late = one["at"] - job.cancelled
            yield Violation("job", f"{name} began {late:.0f} s after it was cancelled")


def _of_task(
    key: tuple[str, int],
    kind: str,
    resolutions: Sequence[Mapping[str, Any]],
    ends: set[str],
    crashes: int,
    *,
    left: bool = False,
) -> Iterator[Violation]:
    name = f"task {key[1]} of {key[0]}"
    if len(resolutions) > 1:
        yield Violation("doubled", f"{name} was resolved {len(resolutions)} times")
    right = {"failing": "ExternalError 3", "raising": f"ValueError ({key[1]},)"}.get(kind, "")
    for one in resolutions:
        error = one.get("error", "")
        if kind == "gang" and one.get("apart", 0) >= GANGS:
            continue
        if error.startswith("TaskCrashed") and crashes >= CRASHES:
            continue
        if left and error.startswith("ExternalLostError"):
            continue
        if error != right:
            yield Violation("wrong", f"{name}, {kind}, was resolved with {error or one['value']}")
        elif not error and (one["value"] != expected(*key) or not one["whole"]):
            yield Violation("wrong", f"{name} has the value {one['value']}, or not the whole data")
        elif not error and one["run"] not in ends:
            yield Violation("wrong", f"{name} has the result of {one['run']}, which did not end")


def _runs_ended(runs: Sequence[Mapping[str, Any]], causes: Causes) -> int:
    earlier = [*(run["at"] for run in runs[1:]), float("inf")] if runs else []
    return sum(bool(causes.ended(*one)) for one in zip(runs, earlier, strict=True))


def _of_runs(
    runs: Sequence[Mapping[str, Any]], causes: Causes, restarts: Counter[str]
) -> Iterator[Violation]:
    for earlier, later in itertools.pairwise(runs):
        name = f"task {later['task']} of {later['mission']}"
        ended = causes.ended(earlier, later["at"])
        away = causes.away(earlier, later["at"])
        restarts[ended or (f"{away} away" if away else "nothing")] += 1
        if not ended and not away:
            seconds = later["at"] - earlier["at"]
            yield Violation(
                "restarted",
                f"{name} began on {earlier['worker']} at {earlier['at']:.2f} and {seconds:.2f} s "
                f"later on {later['worker']}, and nothing had ended the first run",
            )
        if not later["alone"] and not away:
            yield Violation("overlapped", f"{name} began at {later['at']:.2f} beside itself")
    for one in runs:
        yield from _of_cores(one)


def _of_member(line: Mapping[str, Any], causes: Causes) -> Iterator[Violation]:
    """Judge the start of a program on a member of a gang."""
    if not line["alone"] and not causes.away(line, line["at"]):
        name = f"a member of task {line['task']} of {line['mission']}"
        yield Violation("overlapped", f"{name} began at {line['at']:.2f} beside another run")
    yield from _of_cores(line)


def _of_cores(one: Mapping[str, Any]) -> Iterator[Violation]:
    if one["taken"]:
        yield Violation(
            "shared",
            f"task {one['task']} of {one['mission']} began at {one['at']:.2f} on core "
            f"{one['taken']} of {one['worker']}, which another one had",
        )


def _of_the_dead(evidence: Evidence, causes: Causes) -> Iterator[Violation]:
    """Judge the runs of missions that were killed or asked to end.

    Gnaw sees the end of a mission on its host at once. Where the order to end a run, or the lease,
    is on its way when Gnaw dies or the way is cut, all that is certain is two grace periods.
    """
    late = 2 * evidence.grace + max(RECOVERY.values())
    dead: dict[str, Event] = {}
    for event in evidence.events:
        if event.target == "mission" and event.kind in PROMPT:
            dead.setdefault(event.owner, event)
    starts = _starts(evidence)
    for line in evidence.lines:
        event_of = dead.get(line["mission"])
        if event_of is None or "run" not in line or line["what"] == "resolved":
            continue
        start, seconds = starts[line["run"]], line["at"] - event_of.at
        disturbed = causes.disturbed(start, event_of.at, line["at"])
        if seconds > (late if disturbed else PROMPT[event_of.kind]):
            yield Violation(
                "outlived",
                f"task {line['task']} of {line['mission']}: {line['what']} on "
                f"{start['worker']} {seconds:.1f} s after the mission's end",
            )


def _starts(evidence: Evidence) -> dict[str, Mapping[str, Any]]:
    """Return the lines of all starts, by the names of runs."""
    return {one["run"]: one for one in evidence.lines if one["what"] in {"start", MEMBER}}


def _of_the_departed(evidence: Evidence) -> Iterator[Violation]:
    """Judge the runs of workers that have left as their time was over."""
    departed = {one.owner: one.until for one in evidence.events if one.kind == "time over"}
    starts = _starts(evidence)
    for line in evidence.lines:
        if "run" not in line or line["what"] == "resolved":
            continue
        if (worker := starts[line["run"]]["worker"]) in departed:
            seconds = line["at"] - departed[worker]
            if seconds > GONE:
                yield Violation(
                    "outlived",
                    f"task {line['task']} of {line['mission']}: {line['what']} on {worker} "
                    f"{seconds:.1f} s after the worker's end",
                )


def _of_starts(evidence: Evidence) -> Iterator[Violation]:
    """Judge the starts of detached missions, whose names are m3-1, m3-2 and so on."""
    for mission, count in evidence.resumed:
        if count != 1:
            yield Violation("twice", f"{mission} was killed, and resumed on {count} hosts")
    detached = {one.plan.name for one in evidence.endings if one.plan.login}
    begins = {one["mission"]: one["at"] for one in evidence.lines if one["what"] == BEGINS}
    ends = {one["mission"]: one["at"] for one in evidence.lines if one["what"] == ENDS}
    for event in evidence.events:
        if event.target == "mission" and event.kind == "kill":
            ends.setdefault(event.owner, event.at)
    for name in detached & begins.keys():
        mission, _, number = name.rpartition("-")
        before = f"{mission}-{int(number) - 1}"
        if before in begins and ends.get(before, math.inf) > begins[name]:
            yield Violation("twice", f"{name} began at {begins[name]:.2f} while {before} lived")


def _left(evidence: Evidence) -> Iterator[Violation]:
    for one in evidence.orphans:
        yield Violation("orphans", one)
    # A supervisor removes the scratch directory of its program, so one that was killed does not:
    # the documentation says so.
    excused = sum(
        one.kind == "kill" and one.target in {"supervisor", "fork server"}
        for one in evidence.events
    )
    scratch = evidence.scratch
    if len(scratch) > excused:
        yield Violation("files", f"{len(scratch)} scratch directories, {excused} may be: {scratch}")
    # A Gnaw that was killed leaves its socket until there is another one on that host.
    killed = sum((one.kind, one.target) == ("kill", "gnaw") for one in evidence.events)
    if len(evidence.elsewhere) > killed:
        yield Violation("files", f"{len(evidence.elsewhere)} sockets, {killed} may be")
    for one in evidence.files:
        yield Violation("files", one)
    for role, megabytes in evidence.megabytes.items():
        if megabytes > evidence.most_megabytes:
            yield Violation("memory", f"{role}: {megabytes:.0f} MB")
