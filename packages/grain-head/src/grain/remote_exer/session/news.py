"""`RunNews`: what happens to runs and workers, for users: no decision depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import Blocked, Crash, Printed, WorkerEnded, WorkerFacts
from grain.remote_exer.session.records import LostWorker, StoppedWorker
from grain.worker.messages import LANE

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.head.scheduler.numbered import Numbered
    from grain.remote_exer.session.records import RemoteTask


class RunNews:
    """The news of a mission's runs and workers; each list is emptied by `taken`.

    Args:
        pending: the unresolved tasks.

    Attributes:
        blocked: reports of tasks that block their worker.
        crashed: tasks of which a run has crashed, or outlived its worker, each with that run.
        printed: lines that tasks have printed.
        lost: workers that are lost.
        stopped: workers that have left with runs unfinished.
    """

    def __init__(self, pending: Numbered[RemoteTask]) -> None:
        self._pending = pending
        self.blocked: list[Blocked] = []
        self.crashed: list[tuple[int, Crash]] = []
        self.printed: list[Printed] = []
        self.lost: list[LostWorker] = []
        self.stopped: list[StoppedWorker] = []
        # The names of the workers that this connection has reported, by id.
        self._names: dict[str, str] = {}
        # The tasks on each worker, as they were when the first of `lost` was.
        self._held: dict[str, list[int]] = {}

    def worker_name(self, worker: str) -> str:
        """Return the name of a worker by its id; "" if it is not known."""
        return self._names.get(worker, "")

    def on_message(self, message: Message) -> None:
        """Handle a message that may be news."""
        match message:
            case Blocked():
                self.blocked.append(message)
            case Printed():
                self.printed.append(message)
            case WorkerFacts():
                self._names[message.worker] = message.name
            case WorkerEnded():
                self._on_worker_ended(message)

    def _on_worker_ended(self, message: WorkerEnded) -> None:
        """Note a lost worker, with its tasks, or a worker that left with runs unfinished."""
        name = self._names.pop(message.worker, "")
        if name and message.handed_back:
            self.stopped.append(StoppedWorker(name, message.handed_back, message.told))
        if not (name and message.why):
            return
        if not self.lost:
            # One look at all tasks, however many workers are lost at once. The head reports a lost
            # worker before it says that its tasks wait: later they would be on none.
            self._held = {}
            for task, record in self._pending.items():
                if record.worker and record.function is not LANE:
                    self._held.setdefault(record.worker, []).append(task)
        tasks = self._held.get(message.worker, [])
        why = message.why if message.by_batch else ""
        self.lost.append(LostWorker(name, message.silent or 0.0, tasks, why))

    def on_disconnected(self) -> None:
        """Forget the workers: the next head reports those that it has."""
        self._names.clear()
