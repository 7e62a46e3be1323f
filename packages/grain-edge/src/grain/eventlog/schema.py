"""Every kind of line of an event log, with its fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.usage import Amount, Count, LearnedAmount, RunMember, Usage

VERSION = 2
"""The version of the format. It grows when readers of the old one would misread a line."""


LEFT_OUT = "…"
"""The character that stands in `RunEnded.call` for what is left out of the call."""

# A log may come from anywhere. What no writer writes is not a line: readers need not fear it.
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""Unix seconds, until the year 5138."""

Change = Annotated[float, msgspec.Meta(ge=-1e11, le=1e11)]
"""Seconds by which a clock is set."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of `decode` for bytes that are not a line of this version."""


class Line(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False
):
    """The base of all lines.

    Attributes:
        time: when it happened: Unix seconds, by the clock of the process that writes the log.
    """

    time: Moment


class LogStarted(Line, frozen=True, kw_only=True, tag="log"):
    """The first line of every file of a log.

    Attributes:
        version: the version of the format.
        grain: the version of Grain that writes it.
        python: the version of Python that runs it.
        id: the id of the mission.
        name: its name, for display.
        label: the name and a number that no other mission of that name has, as ``opt@2``; empty if
            it has none.
        command: the command line of its process.
        directory: the working directory.
        host: its host.
        pid: its process id.
        address: where its mission and its workers meet; empty if no other process can join.
        lasting: the id of the lasting mission that its process served, as the dispatchers of a
            queue do one after the other; empty for any other mission.
        generation: the number of that process among those of the lasting mission, from 1.
        part: the number of the file, from 0; a log that grows too large goes on in a new file.
    """

    version: Count
    grain: str
    python: str = ""
    id: str
    name: str
    label: str = ""
    command: tuple[str, ...] = ()
    directory: str = ""
    host: str = ""
    pid: Count = 0
    address: str = ""
    lasting: str = ""
    generation: Count = 0
    part: Count = 0


class WorkerJoined(Line, frozen=True, kw_only=True, tag="worker joined"):
    """A worker offers its resources; once more if it comes back.

    In the log of a mission that shares its workers, the line is there when the worker first takes a
    task of the mission.

    Attributes:
        worker: its name.
        host: its host.
        job: its job, as the batch system calls it; empty if it has none.
        resources: amounts by kind: ``{"Cores": 16, "Memory": 60.0}``.
        ends: when its job ends, in Unix seconds; None if it has no end.
    """

    worker: str
    host: str = ""
    job: str = ""
    resources: dict[str, Amount] = {}
    ends: Moment | None = None


class WorkerLeft(Line, frozen=True, kw_only=True, tag="worker left"):
    """A worker is gone.

    Attributes:
        worker: its name.
        why: the reason, for display; empty if it was to leave.
        heard: of one that is lost, when there was the last sign of it; None if that is not known.
    """

    worker: str
    why: str = ""
    heard: Moment | None = None


class TaskSubmitted(Line, frozen=True, kw_only=True, tag="submitted"):
    """A task waits for room.

    Attributes:
        task: its number in its mission.
        function: the name of its function.
        request: amounts by kind: ``{"Cores": 4, "Memory": 8.0}``; a time limit is ``"WTime"``, in
            seconds. Of alternatives, those of the first one; of a task on several workers, those of
            each worker.
        request_text: the request as it was written: ``Cores(4) & Memory(8)``.
        others: the further alternatives, each as amounts by kind.
        members: the number of workers that it takes at once, by each alternative; empty if that is
            always one.
        prefer: for how many seconds it waits for the first alternative before it takes another.
        after: the task whose end the branch that submits this one had last waited for, so that this
            one could not come earlier; empty if it had waited for none.
        retry_of: the first attempt, where this task is a further one of the same call; else 0.
        urgency: larger goes first among the tasks of its mission that ask for the same.
        priority: larger goes first.
    """

    task: Count
    function: str
    request: dict[str, Amount] = {}
    request_text: str = ""
    others: tuple[dict[str, Amount], ...] = ()
    members: tuple[Count, ...] = ()
    prefer: Amount = 0.0
    after: tuple[Count, ...] = ()
    retry_of: Count = 0
    urgency: float = 0.0
    priority: int = 0


class TaskStarted(Line, frozen=True, kw_only=True, tag="started"):
    """A task has been given to a worker.

    It comes again, with the same time, if its members have changed while the mission was away.

    Attributes:
        task: its number.
        worker: the name of the worker.
        alternative: by which of the alternatives of its request; 0 is the first one.
        members: where it has several workers, the names of all of them, that one first.
    """

    task: Count
    worker: str
    alternative: Count = 0
    members: tuple[str, ...] = ()


class RunEnded(Line, frozen=True, kw_only=True, tag="run ended"):
    """A run of a task has ended, whether or not its task runs again.

    Attributes:
        task: the number of the task.
        outcome: ``"value"``, ``"error"``: it returned or raised. ``"cancelled"``: its caller does
            not want it any more. ``"crashed"``: its process died. ``"lost"``: its worker is gone.
            ``"returned"``: its worker handed it back, unharmed, or it never arrived there.
        worker: the name of the worker; empty for a task that never began.
        host: the host of the worker.
        attempt: how many runs of this task have begun, this one included.
        alternative: by which of the alternatives of its request it ran; 0 is the first one.
        started: when its tasklet began, in Unix seconds by the clock of the worker; where the
            worker has not reported, when the task was given to it; None if it never was.
        ended: when nothing of it was left, likewise; None if that is not known.
        cpus: the numbers of the CPUs that it had; empty where its worker has not reported them, as
            after a brief run that had a value and ran no program. Of several workers, those of the
            first one.
        cores: how many cores it had on all of its workers; 0 where the request says so, as it does
            unless it asks for all that a worker has.
        failure: why it brought no value.
        final: True if the task is over with it.
        usage: what it has used; None if that is not known, as for a run that was handed back.
        members: all of its workers if it had several, each with its host and its CPUs. The first
            one is the worker that ran it.
        call: for a failed run: the function with its arguments in
            one line, 160 characters at most, with "…" for what is left out; for a program its
            command line. Empty where that is not known.
        exceeded: True if it failed as it needed more memory than it had.
        learned: its memory, if its group learns that; None where its worker has not reported it.
    """

    task: Count
    outcome: Literal["value", "error", "cancelled", "crashed", "lost", "returned"]
    worker: str = ""
    host: str = ""
    attempt: Count = 1
    alternative: Count = 0
    started: Moment | None = None
    ended: Moment | None = None
    cpus: tuple[int, ...] = ()
    cores: Amount = 0.0
    failure: RunFailure = NO_FAILURE
    final: bool = True
    usage: Usage | None = None
    members: tuple[RunMember, ...] = ()
    call: str = ""
    exceeded: bool = False
    learned: LearnedAmount | None = None


class BriefTasks(Line, frozen=True, kw_only=True, tag="brief tasks"):
    """Tasks of one function and request that are counted, as they were many and brief.

    Each had one run, of 0.2 s at most, and ended with a value and without any program. There are no
    other lines about them.

    Attributes:
        function: the name of the function.
        tasks: how many there are.
        began: the begin of the run that ended first; the last run ended before this line.
        seconds: the lengths of their runs, added up, as their workers measured them.
        waited: all other times from their submissions to their ends, added up.
        request: what each asks for, as in `TaskSubmitted`; of alternatives the first one, though
            some may have taken another.
        request_text: the request as it was written.
    """

    function: str
    tasks: Count
    began: Moment
    seconds: Amount
    waited: Amount = 0.0
    request: dict[str, Amount] = {}
    request_text: str = ""


class FunctionStanding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The tasks of one function that have no outcome, at one moment.

    Attributes:
        function: its name; empty for all functions that are not named.
        waiting: how many wait in the queue.
        ahead: how many wait on a worker, for the end of another run there.
        running: how many run.
        blocked: how many wait that no worker here has enough for.
    """

    function: str
    waiting: Count = 0
    ahead: Count = 0
    running: Count = 0
    blocked: Count = 0


class StandingTasks(Line, frozen=True, kw_only=True, tag="standing"):
    """The number of tasks without an outcome, by function, while not all tasks have lines.

    It holds until the next one, once a second: so long the lines of single tasks tell less.

    Attributes:
        functions: those that have such tasks, the most first; 200 at most. There are none where the
            lines of single tasks tell all again.
    """

    functions: tuple[FunctionStanding, ...] = ()


class CachedResults(Line, frozen=True, kw_only=True, tag="cached results"):
    """Calls of one function that were not run, as the result cache had their results.

    Attributes:
        function: the name of the function.
        results: how many there are since the last such line.
    """

    function: str
    results: Count


class ClockChanged(Line, frozen=True, kw_only=True, tag="clock"):
    """The clock of the writer was set; times before this line are by the old one.

    Attributes:
        by: seconds that were added to it.
    """

    by: Change


class Remark(Line, frozen=True, kw_only=True, tag="remark"):
    """A sentence for display: trouble of the scheduler, tasks that never start.

    Attributes:
        text: the sentence.
        place: the place that is set aside, if it says that; else empty.
        why: how, as a clause.
    """

    text: str
    place: str = ""
    why: str = ""


class LogEnded(Line, frozen=True, kw_only=True, tag="end"):
    """The last line of a log whose process ended in good order.

    Attributes:
        status: ``"done"``; ``"failed"``: it ended by an exception; ``"interrupted"``: by a signal
            or by `grain cancel`.
        message: the exception, in one line.
        lost: lines that could not be written, as the disk was full.
    """

    status: Literal["done", "failed", "interrupted"]
    message: str = ""
    lost: Count = 0


AnyLine = (
    LogStarted
    | WorkerJoined
    | WorkerLeft
    | TaskSubmitted
    | TaskStarted
    | RunEnded
    | BriefTasks
    | StandingTasks
    | CachedResults
    | ClockChanged
    | Remark
    | LogEnded
)


def decode(line: bytes) -> AnyLine:
    """Return a line of a log.

    Raises:
        UNREADABLE: it is torn, of an unknown kind, nested deeply, or has absurd numbers.
    """
    return _DECODER.decode(line)


def encode(line: AnyLine) -> bytes:
    """Return a line with its newline."""
    try:
        return _ENCODER.encode(line) + b"\n"
    except UnicodeEncodeError:
        return _ENCODER.encode(encodable(line)) + b"\n"


def encodable(value: Any) -> Any:
    """Return a record or a message as plain data, with a question mark for what is not UTF-8.

    For what could not be encoded: Python has half a character for each byte that is not text, in
    arguments, names of files and variables.
    """
    raw = (bytes, bytearray, memoryview)
    plain = msgspec.to_builtins(value, builtin_types=raw, enc_hook=repr)
    return _without_halves(plain)


def _without_halves(plain: Any) -> Any:
    if isinstance(plain, str):
        return plain.encode(errors="replace").decode()
    if isinstance(plain, dict):
        return {_without_halves(key): _without_halves(one) for key, one in plain.items()}
    if isinstance(plain, list | tuple):
        return [_without_halves(one) for one in plain]
    return plain


_DECODER: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)
_ENCODER = msgspec.json.Encoder()
