"""One task of a log, for `grain why`: its fate, and all its runs."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.history.logs import lines_of, state_of
from grain.cli.mission_names import find_log
from grain.edge.questions import WhyAnswer
from grain.eventlog.reader import LogReader
from grain.eventlog.schema import BriefTasks, LogStarted, TaskSubmitted
from grain.facts.fold import Fold
from grain.facts.rows import FAILURES
from grain.resource.figures import amount, counted, hostlist, minute, moment, signal_name, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.config import Config
    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import MemberUsage, Usage
    from grain.facts.rows import Run, Task

_LISTED = 5  # runs that are described one by one
_MEMBERS = 8  # workers of one run, likewise


class PastTask:
    """A task, by the lines of a log.

    Attributes:
        runs: its runs that have ended, and those of earlier attempts at the same.
        last: the largest number of a task that was submitted; 0 if none was.
        later: the number of the attempt that followed its failure; 0 if none did.
        brief: the tasks without lines, by function, see `grain.eventlog.schema.BriefTasks`.
        now: the time of the last line, by the clock with which the log began; the time of the
            question if the mission runs.
        clock_change: seconds to be added for the clock on the wall.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.runs: list[Run] = []
        self.open: Task | None = None
        self.last = 0
        self.later = 0
        self.listed = 0
        self.brief: Counter[str] = Counter()
        self.now = 0.0
        self.clock_change = 0.0
        self.header: LogStarted | None = None

    @property
    def seen(self) -> bool:
        """True if the log has the task."""
        return bool(self.runs) or self.open is not None

    @property
    def call(self) -> str:
        """The call, which the log has of a run that failed; "" if it has it not."""
        return next((run.call for run in reversed(self.runs) if run.call), "")

    @property
    def was_brief(self) -> bool:
        """True if the log has no lines of the task, as it was one of many brief ones."""
        # The tasks of a mission are numbered from 1, and each of the others has a line.
        return not self.seen and 0 < self.number <= self.listed + self.brief.total()


def past_task(lines: Iterable[AnyLine], number: int) -> PastTask:
    """Return what the log of a mission says of a task.

    Of other tasks only the runs that failed are remembered, as this may be a further attempt.
    """
    fold = Fold()
    past = PastTask(number)
    own: list[Run] = []
    failed: dict[int, list[Run]] = {}  # by the first attempt at each task
    first = number
    for line in lines:
        run = fold.feed(line)
        if isinstance(line, LogStarted):
            past.header = past.header or line
        elif isinstance(line, BriefTasks):
            past.brief[line.function] += line.tasks
        elif isinstance(line, TaskSubmitted):
            past.listed += 1
            past.last = max(past.last, line.task)
            if own and line.retry_of == first:
                past.later = past.later or line.task
        elif run is not None:
            root = run.retry_of or run.task
            if run.task == number:
                first = root
                own.append(run)
            elif run.state in FAILURES:
                failed.setdefault(root, []).append(run)
    for task in fold.open_tasks():
        if task.number == number:
            past.open = task
            first = task.retry_of or number
    past.runs = [run for run in failed.get(first, ()) if run.task < number] + own
    past.now, past.clock_change = fold.now, fold.clock_change
    return past


class Logged(NamedTuple):
    """The explanation of a task by the event log of its mission."""

    explanation: WhyAnswer
    mission_runs: bool


def past_in_log(config: Config, mission: str, number: int) -> Logged | None:
    """Return what the log of a mission says of a task; None if that is nothing.

    If several missions have the name, it is the last one with a log.

    Raises:
        LogError: there is no log of the mission, or none that can be understood.
        OSError: it cannot be read.
    """
    log = find_log(config, mission)
    past = past_task(lines_of(LogReader(log.folder), log.size()), number)
    if past.header is None:
        return None
    logged = past.seen or past.was_brief
    if not logged and 0 < number <= past.last:
        return None  # what was lost of the log may have had it
    end = log.end()
    state = state_of(log, "" if end is None else end.status)
    if state == "running":  # a log in which nothing begins or ends has no new line
        past.now = max(past.now, time.time() - past.clock_change)
    answer = explanation_of(past, state) if logged else _never(past, state)
    began = minute(past.header.time)
    source = f"{past.header.name} ({past.header.id[:8]}) of {began}, which is {state}"
    if state in _PAST:
        source = f"{past.header.name} ({past.header.id[:8]}) of {began}, which {_PAST[state]}"
    answer.reasons.append(f"by the event log of mission {source}")
    return Logged(answer, state == "running")


_PAST = {"failed": "has failed", "killed": "was killed", "interrupted": "was interrupted"}


def explanation_of(past: PastTask, state: str) -> WhyAnswer:
    """Return what became of a task."""
    if past.was_brief:
        return _brief(past)
    if past.open is not None:
        return _open(past, past.open, state)
    last = past.runs[-1]
    return WhyAnswer(
        past.number,
        "ended",
        [_verdict(past), *_facts(past, last)],
        last.function,
        ended=last.state,
        call=past.call or None,
        runs=[_run(run) for run in past.runs],
    )


def _never(past: PastTask, state: str) -> WhyAnswer:
    """Return the answer for a number that no task of the mission has, as far as its log goes."""
    last = max(past.last, past.listed + past.brief.total())
    tasks = f"the last one is {last}" if last else "it has none"
    why = f"the mission has submitted no task of this number: {tasks}"
    if state == "running":
        why += ", as its event log has it, which is a few seconds behind"
    return WhyAnswer(past.number, "unknown", [why])


def _brief(past: PastTask) -> WhyAnswer:
    """Return the answer for a task that was counted with others."""
    count = past.brief.total()
    names = ", ".join(name for name, _ in past.brief.most_common(_LISTED))
    why = (
        f"it was one of {count:,} brief tasks ({names}), which the log counts and does not list: "
        "each ended with a value after a single run, within seconds of its submission"
    )
    function = names if len(past.brief) == 1 else ""
    return WhyAnswer(past.number, "ended", [why], function, ended="value", runs=[])


def _open(past: PastTask, task: Task, state: str) -> WhyAnswer:
    """Return the answer for a task that has not ended, or had not when its mission did."""
    over = state != "running"
    ran = task.started is not None
    since = task.queued if task.started is None else task.started
    began, length = moment(since + past.clock_change), span(past.now - since)
    where = _on_workers(task.members)
    verb = ("ran" if over else "runs") if ran else ("waited" if over else "waits")
    until = " by the last line of the log" if over else ""
    reasons = [f"it {verb}{where} since {began}, for {length}{until}"]
    if task.asked:
        reasons.append(f"it asks for {task.asked}")
    return WhyAnswer(
        past.number,
        "ended" if over else "running" if ran else "waiting",
        [*reasons, *_earlier(past.runs, past)],
        task.function,
        ended="unfinished" if over else None,
        call=past.call or None,
        runs=[_run(run) for run in past.runs],
    )


def _verdict(past: PastTask) -> str:
    """Return how the task ended, in a sentence."""
    last = past.runs[-1]
    host = f" on {last.host or last.worker}" if last.host or last.worker else ""
    count = sum(run.started is not None for run in past.runs)
    after = f" after {count} attempts" if count > 1 else ""
    how = {
        "value": "it returned a value",
        "cancelled": "it was cancelled",
        "crashed": "its process died",
        "lost": "it was lost with its worker",
        "returned": "its worker handed it back",
    }.get(last.state, "failed")
    return f"{how}{host}{after}{f': {last.why}' if last.why else ''}"


def _taken(last: Run) -> str:
    """Return a clause with the alternative that a run had, or the memory that was learned."""
    if last.learned is not None and last.alternative is None:
        learned = last.learned
        got = f", and got {amount(learned.amount)} GB of memory"
        if not learned.after:
            return f"{got}, as its group {learned.group} asked for then"
        return (
            f"{got} in attempt {learned.attempt} of its group {learned.group}, as "
            f"{amount(learned.after)} GB were too little"
        )
    if last.alternative is None or last.started is None:
        return ""
    amounts = " & ".join(f"{kind}({number:g})" for kind, number in last.request.items())
    return f", and had alternative {last.alternative + 1}, {amounts}"


def _facts(past: PastTask, last: Run) -> list[str]:
    """Return what is known of the last run, a line each."""
    facts = []
    if last.asked:
        facts.append(f"it asked for {last.asked}{_taken(last)}")
    waited = f"it waited for {span(last.waited)}"
    if last.started is None:
        facts.append(waited)
    else:
        began = moment(last.started + past.clock_change)
        where = _on_workers([member.worker for member in last.members])
        facts.append(f"{waited}, and ran{where} from {began}, for {span(last.seconds)}")
    usage = last.usage
    if usage is not None and (usage.programs or usage.cpu):
        on_one = " on one worker" if usage.members else ""
        facts.append(f"it used {_used(usage, on_one)}, in {counted(usage.programs, 'program')}")
        facts += _on_each(last, usage)
        bad = {status: n for status, n in usage.exit_statuses.items() if status}
        if bad:
            listed = ", ".join(f"{n} {_exit(status)}" for status, n in sorted(bad.items()))
            facts.append(f"of its programs ended {listed}")
    facts += _earlier(past.runs[:-1], past)
    if past.later:
        facts.append(f"it was tried again, as task {past.later}")
    return facts


def _used(usage: MemberUsage, where: str = "") -> str:
    """Return what programs have used, in words."""
    text = f"{span(usage.cpu)} of CPU time"
    if usage.measured_by == "none":
        return text
    return f"{text} and at most {usage.peak_memory:.3g} GB of memory{where}"


def _on_each(run: Run, usage: Usage) -> list[str]:
    """Return a line for each of several workers; of many, for those with the most memory."""
    each = list(zip(run.members, usage.members, strict=False))
    if len(each) > _MEMBERS:
        each.sort(key=lambda one: -one[1].peak_memory)
    lines = []
    for member, used in each[:_MEMBERS]:
        cpus = f", CPUs {hostlist(map(str, member.cpus)).strip('[]')}" if member.cpus else ""
        lines.append(f"on {member.worker} (host {member.host}{cpus}) it used {_used(used)}")
    if len(each) > _MEMBERS:
        lines.append(f"on {len(each) - _MEMBERS} other workers it used less memory")
    return lines


def _on_workers(names: Sequence[str]) -> str:
    """Return the clause with the workers of a run; empty if none is known."""
    known = [name for name in names if name]
    if not known:
        return ""
    return f" on {'worker' if len(known) == 1 else 'workers'} {hostlist(known)}"


def _exit(status: int) -> str:
    """Return how a program ended.

    >>> _exit(2), _exit(-9)
    ('with exit code 2', 'by SIGKILL')
    """
    return f"with exit code {status}" if status > 0 else f"by {signal_name(-status)}"


def _earlier(runs: list[Run], past: PastTask) -> list[str]:
    """Return a line for each earlier run; there may be too many."""
    lines = []
    for run in runs[-_LISTED:]:
        other = f", as task {run.task}" if run.task != past.number else ""
        host = run.host or run.worker
        lines.append(
            f"before that it {_DID.get(run.state, run.state)} on {host or 'a worker'} after "
            f"{span(run.seconds)}{other}{f': {run.why}' if run.why else ''}"
        )
    if len(runs) > _LISTED:
        lines.insert(0, f"{len(runs) - _LISTED} runs before these were in vain, too")
    return lines


_DID = {
    "error": "failed",
    "crashed": "crashed",
    "lost": "was lost",
    "returned": "was handed back",
    "cancelled": "was cancelled",
    "value": "returned a value",
}


def _run(run: Run) -> dict[str, Any]:
    """Return what `grain why --json` has of a run."""
    return {
        "task": run.task,
        "outcome": run.state,
        **{name: getattr(run, name) for name in _RUN},
        "error": run.failure.error,
        "message": run.failure.message,
    }


_RUN = ("worker", "host", "attempt", "started", "ended", "seconds")
