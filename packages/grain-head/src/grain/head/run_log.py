"""`RunLog`: what happens to the tasks of one mission, as lines of its event log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from grain.eventlog import schema
from grain.eventlog.usage import decode_report
from grain.head.messages import Crashed, Resolved, Started, WorkerEnded, WorkerFacts
from grain.head.task_log import TaskLog, amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.edge.messages import Message
    from grain.eventlog.usage import RunReport
    from grain.head.messages import Crash
    from grain.head.task_log import Key, Lines

Outcome = Literal["value", "error", "cancelled", "crashed"]

_NO_CPUS: tuple[int, ...] = ()
_MESSAGE = 500  # characters of an exception's text


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


class RunLog(TaskLog):
    """The part of a mission's log that its executor writes, and the mission itself.

    Args:
        log: takes the lines.
        id: the mission's.
        clock: as of `TaskLog`.

    Attributes:
        id: as the argument.
    """

    def __init__(
        self,
        log: Lines,
        id: str,  # noqa: A002 - its name
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(lambda: log, clock)
        self.id = id
        # The workers by id, also those that have left: their runs end later.
        self._workers: dict[str, WorkerFacts] = {}
        self._left: set[str] = set()
        # Of the tasks that are listed.
        self._runs: dict[Key, Run] = {}

    # ---- what the mission does

    submitted = TaskLog.note

    def remark(self, text: str) -> None:
        """Note a sentence for people."""
        self._add(schema.Remark(time=self._now(), text=one_line(text)))

    # ---- what the scheduler does

    def on_batch(self, batch: Iterable[tuple[Message, object]]) -> None:
        """Note what messages of the scheduler report, with whatever came along."""
        self.tick()
        for message, _ in batch:
            if type(message) is not Resolved:  # these are many; `ended` follows
                self.on_message(message)

    def on_message(self, message: Message) -> None:
        """Note what a message of the scheduler reports; most report nothing that counts here."""
        match message:
            case Started():
                self.tick()
                if not self._begin_all(message.tasks, message.worker):
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
        self._add(
            schema.WorkerJoined(
                time=self._now(),
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
            self._add(schema.WorkerLeft(time=self._now(), worker=name, why=why))

    def started(self, task: int, worker: str) -> None:
        """Note that a task was given to a worker, by its id, or with "" that it waits again."""
        if worker and task in self._notes and task not in self._begun:
            self._begun[task] = self._reading, worker
            return
        begun = self._begun.get(task)
        if begun is not None and begun[1] == worker:
            return
        if task in self._notes:
            if begun is None:
                return
            self._list(task)
        run = self._runs.get(task)
        if run is None:
            if not worker:
                return
            run = self._runs[task] = Run()
        elif run.worker == worker:
            return
        now = self._now()
        if run.worker:
            self._write_end(task, run, now)
        run.worker = worker
        if worker:
            run.attempt += 1
            run.began = now
            self._add(schema.TaskStarted(time=now, task=task, worker=self._name(worker)))

    def crashed(self, task: int, crash: Crash, report: RunReport | None = None) -> None:
        """Note how a run has crashed, with its worker's report; `started` or `ended` follows."""
        if task in self._begun:
            self._list(task)
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
        self._add(
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
        if task in self._notes:
            self._list(task)
        run = self._runs.pop(task, None) or Run()
        now = self._now()
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
        self._add(
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

    def _list(self, key: Key) -> tuple[float, str] | None:
        begun = super()._list(key)
        if begun is not None:
            run = self._runs[key] = Run()
            run.attempt, (run.began, run.worker) = 1, begun
        return begun

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
