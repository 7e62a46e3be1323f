"""`RunLog`: what happens to the tasks of one mission, as lines of its event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from grain.eventlog import schema
from grain.head.errors import TaskCrashed
from grain.head.events import RunOver
from grain.head.messages import Started, WorkerEnded, WorkerFacts
from grain.resource import Resource, to_data

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.eventlog.schema import AnyLine

Outcome = Literal["value", "error", "cancelled", "crashed", "lost", "returned"]

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


class RunRecord:
    """The present run of a task that is not over, or its last one.

    Attributes:
        attempt: its number, from 1; 0 if none has begun.
        worker: the id of the worker; empty while the task waits.
        began: when the task was given to the worker.
        crash: the crash of the run, until it is clear whether the task is given up by it.
    """

    __slots__ = ("attempt", "began", "crash", "worker")

    def __init__(self) -> None:
        self.attempt = 0
        self.worker = ""
        self.began = 0.0
        self.crash: RunOver | None = None


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
        self._runs: dict[int, RunRecord] = {}

    # ---- what the mission does

    def submitted(
        self,
        task: int,
        function: str,
        request: Resource,
        after: tuple[int, ...] = (),
        retry_of: int = 0,
    ) -> None:
        """Note a task that the executor has taken.

        Args:
            task: its number.
            function: the name of its function.
            request: what it asks for.
            after: the tasks whose ends its branch had last waited for.
            retry_of: the number of its first attempt; 0 if it is that.
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
            run = self._runs[task] = RunRecord()
        elif run.worker == worker and run.crash is None:
            return
        if run.crash is not None:
            crash, run.crash = run.crash, None
            self._write_end(crash, run)
        elif run.worker:  # its end was not reported: the connection was lost meanwhile
            self.on_run_over(RunOver(task, "returned", final=False))
        run.worker = worker
        if worker:
            log = self._log
            run.attempt += 1
            run.began = now = log.now()
            log.write(schema.TaskStarted(time=now, task=task, worker=self._name(worker)))

    def on_run_over(self, over: RunOver) -> None:
        """Note the end of a run, or of a task without one."""
        run = self._runs.get(over.task) or _NONE
        if over.outcome == "crashed" and run.crash is None and run is not _NONE:
            run.crash = over  # `started` or the end of the task follows
            return
        if run.crash is not None and not isinstance(over.error, TaskCrashed):
            crash, run.crash = run.crash, None
            self._write_end(crash, run)
        self._write_end(over, run)

    def _write_end(self, over: RunOver, run: RunRecord) -> None:
        task, report, error = over.task, over.report, over.error
        now = self._log.now()
        outcome: Outcome = over.outcome
        if outcome == "returned" and run.worker in self._left:
            outcome = "lost"
        kind, text = "", over.detail
        if error is not None and outcome != "cancelled":
            kind, text = type(error).__name__, _text(error)
            if isinstance(error, TaskCrashed):
                outcome = "crashed"
        cpus: tuple[int, ...] = ()
        usage = None
        if report is None:
            began = bool(run.worker)
            started, ended = (run.began, now) if began else (None, None)
            worker, host = self._name(run.worker), self._host(run.worker)
        else:
            started, ended = report.started, report.ended
            worker, host = self._name(run.worker) or report.worker, report.host
            cpus, usage = report.cpus, report.usage
        self._log.write(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=worker,
                host=host,
                attempt=run.attempt,
                started=started,
                ended=ended,
                cpus=cpus,
                error=kind,
                message=one_line(text) if text else "",
                final=over.final,
                usage=usage,
            )
        )
        if over.final:
            self._runs.pop(task, None)
        elif run is not _NONE:
            run.worker = ""

    def _name(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return worker if facts is None else facts.name

    def _host(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return "" if facts is None else facts.host


_NONE = RunRecord()
"""That of a task which never began."""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a class of the user may raise anything
        return ""
