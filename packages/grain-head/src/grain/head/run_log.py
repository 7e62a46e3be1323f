"""`RunLog`: what happens to the tasks of one mission, as lines of its event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from grain.eventlog import schema
from grain.eventlog.usage import decode_report
from grain.head.messages import Crashed, Started, WorkerEnded, WorkerFacts
from grain.resource import Resource, to_data

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import RunReport
    from grain.head.messages import Crash

Outcome = Literal["value", "error", "cancelled", "crashed"]

_NO_CPUS: tuple[int, ...] = ()
_MESSAGE = 500  # characters of an exception's text


class Lines(Protocol):
    """The log as a writer of lines needs it: see `grain.eventlog.writer.LogWriter`."""

    def now(self) -> float:
        """Return the time for a line."""

    def write(self, line: AnyLine) -> None:
        """Take a line."""


class RequestWords:
    """Requests as they stand in a log; most tasks bring the same object as the one before."""

    def __init__(self) -> None:
        self._last: Resource | None = None
        self._words: tuple[dict[str, float], str] = ({}, "")
        self._all: dict[Resource, tuple[dict[str, float], str]] = {}

    def of(self, request: Resource) -> tuple[dict[str, float], str]:
        """Return the amounts of a request by kind, and its text."""
        if request is not self._last:
            words = self._all.get(request)
            if words is None:
                words = self._all[request] = (amounts(to_data(request)), request.ask())
            self._last, self._words = request, words
        return self._words


def amounts(data: dict[str, Any]) -> dict[str, float]:
    """Return resources as numbers by kind, from plain data: GB, seconds, or how many there are.

    A kind that is no quantity, as a token, counts as 1; a time without a limit is left out.
    """
    numbers: dict[str, float] = {}
    for kind, part in data.items():
        match part:
            case bool() | str() | None:
                numbers[kind] = 1
            case int() | float():
                numbers[kind] = part
            case list():
                numbers[kind] = len(part)
            case {"T": float() | int() as seconds}:
                numbers[kind] = seconds
            case dict() if kind == "WTime":
                pass
            case _:
                numbers[kind] = 1
    return numbers


def one_line(text: str) -> str:
    """Return a text in one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE else f"{line[: _MESSAGE - 3]}..."


class Run:
    """The present run of a task that is not over, or its last one.

    Attributes:
        attempt: its number, from 1; 0 if none has begun.
        worker: the id of the worker; empty while the task waits.
        began: when the task was given to the worker.
        crash: how the run ended, if it has crashed.
        report: of its worker on it, likewise.
    """

    __slots__ = ("attempt", "began", "crash", "report", "worker")

    def __init__(self) -> None:
        self.attempt = 0
        self.worker = ""
        self.began = 0.0
        self.crash: Crash | None = None
        self.report: RunReport | None = None


class RunLog:
    """The part of a mission's log that its executor writes, and the mission itself.

    Args:
        log: takes the lines.
        id: the mission's.

    Attributes:
        id: as the argument.
    """

    def __init__(self, log: Lines, id: str) -> None:  # noqa: A002 - its name
        self.id = id
        self._log = log
        self._requests = RequestWords()
        # The workers by id, also those that have left: their runs end later.
        self._workers: dict[str, WorkerFacts] = {}
        self._left: set[str] = set()
        self._runs: dict[int, Run] = {}

    # ---- what the mission does

    def submitted(
        self,
        task: int,
        function: str,
        request: Resource,
        after: tuple[int, ...] = (),
        retry_of: int = 0,
        urgency: float = 0.0,
    ) -> None:
        """Note a task that the executor has taken.

        Args:
            task: its number.
            function: the name of its function.
            request: what it asks for.
            after: the tasks whose ends its branch had last waited for.
            retry_of: the number of its first attempt; 0 if it is that.
            urgency: larger goes first among those that ask for the same.
        """
        log = self._log
        numbers, text = self._requests.of(request)
        log.write(
            schema.TaskSubmitted(
                time=log.now(),
                task=task,
                function=function,
                request=numbers,
                request_text=text,
                after=after,
                retry_of=retry_of,
                urgency=urgency,
            )
        )

    def remark(self, text: str) -> None:
        """Note a sentence for people."""
        self._log.write(schema.Remark(time=self._log.now(), text=one_line(text)))

    # ---- what the scheduler does

    def on_message(self, message: Message) -> None:
        """Note what a message of the scheduler reports; most report nothing that counts here."""
        match message:
            case Started():
                for task in message.tasks:
                    self.started(task, message.worker)
            case WorkerFacts():
                self.worker_joined(message)
            case WorkerEnded():
                self.worker_left(message.worker, message.why)
            case Crashed():
                self.crashed(message.task, message.crash, decode_report(message.report))

    def worker_joined(self, worker: WorkerFacts) -> None:
        """Note a worker, unless it is there: after a loss of the connection it comes again."""
        if worker.worker in self._workers and worker.worker not in self._left:
            return
        self._workers[worker.worker] = worker
        self._left.discard(worker.worker)
        self._log.write(
            schema.WorkerJoined(
                time=self._log.now(),
                worker=worker.name,
                host=worker.host,
                job=worker.job,
                resources=amounts(worker.total),
                ends=worker.ends,
            )
        )

    def worker_left(self, worker: str, why: str = "") -> None:
        """Note that a worker, by its id, has left."""
        if worker in self._workers and worker not in self._left:
            self._left.add(worker)
            name = self._workers[worker].name
            self._log.write(schema.WorkerLeft(time=self._log.now(), worker=name, why=why))

    def started(self, task: int, worker: str) -> None:
        """Note that a task was given to a worker, by its id, or with "" that it waits again."""
        run = self._runs.get(task)
        if run is None:
            if not worker:
                return
            run = self._runs[task] = Run()
        elif run.worker == worker:
            return
        log = self._log
        now = log.now()
        if run.worker:
            self._write_end(task, run, now)
        run.worker = worker
        if worker:
            run.attempt += 1
            run.began = now
            log.write(schema.TaskStarted(time=now, task=task, worker=self._name(worker)))

    def crashed(self, task: int, crash: Crash, report: RunReport | None = None) -> None:
        """Note how a run has crashed, with its worker's report; `started` or `ended` follows."""
        run = self._runs.get(task)
        # It may be that of an earlier run, which went on elsewhere.
        if run is not None and self._name(run.worker).startswith(crash.worker):
            run.crash, run.report = crash, report

    def _write_end(self, task: int, run: Run, now: float) -> None:
        """Note a run that came to nothing, after which its task waits again."""
        outcome: Literal["lost", "returned", "crashed"] = "returned"
        crash, run.crash = run.crash, None
        report, run.report = run.report, None
        if run.worker in self._left and report is None:
            # The scheduler counts it as a crash, too, as the run may have ended its worker.
            outcome = "lost"
        elif crash is not None:
            outcome = "crashed"
        self._log.write(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=self._name(run.worker),
                host=self._host(run.worker),
                attempt=run.attempt,
                started=run.began if report is None else report.started,
                ended=now if report is None else report.ended,
                cpus=_NO_CPUS if report is None else report.cpus,
                usage=None if report is None else report.usage,
                message="" if crash is None else one_line(crash.how),
                final=False,
            )
        )

    def ended(
        self,
        task: int,
        error: BaseException | None,
        *,
        cancelled: bool = False,
        crashed: bool = False,
        report: RunReport | None = None,
    ) -> None:
        """Note the end of a task.

        Args:
            task: its number.
            error: the exception with which it ended; None if it has a value.
            cancelled: True if it was cancelled.
            crashed: True if it was given up after crashes.
            report: of its run, by its worker.
        """
        run = self._runs.pop(task, None) or Run()
        now = self._log.now()
        host, cpus, usage = self._host(run.worker), _NO_CPUS, None
        started, ended = (run.began, now) if run.worker else (None, None)
        if report is not None:
            started, ended = report.started, report.ended
            host, cpus, usage = report.host or host, report.cpus, report.usage
        outcome: Outcome = "value"
        kind = text = ""
        if cancelled:
            outcome = "cancelled"
        elif error is not None:
            outcome = "crashed" if crashed else "error"
            kind, text = type(error).__name__, one_line(_text(error))
        self._log.write(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=self._name(run.worker),
                host=host,
                attempt=run.attempt,
                started=started,
                ended=ended,
                cpus=cpus,
                error=kind,
                message=text,
                usage=usage,
            )
        )

    def _name(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return worker if facts is None else facts.name

    def _host(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return "" if facts is None else facts.host


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a class of the user may raise anything
        return ""
