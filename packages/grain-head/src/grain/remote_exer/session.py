"""What a mission remembers and says to a head, whatever becomes of the connection. No I/O.

1.  A mission keeps each task with all that is needed to run it until it is resolved.
2.  A connection begins with all unresolved tasks, ascending, so that a head which knows nothing
    can take over. What was retracted is not submitted again, only retracted again.
3.  The first resolution of a task counts; each that arrives is confirmed, so that its worker need
    not keep it, and those after the first are dropped.
4.  A task that was retracted is resolved as cancelled, whatever the head says of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from grain.edge.questions import unpack
from grain.head.messages import (
    AckTasks,
    Answer,
    Crash,
    Crashed,
    Depart,
    MissionRegistered,
    Notice,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.worker.messages import DefineFunction

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload

_AT_ONCE = 65536  # tasks in one `Retract` or `AckTasks`; at nine bytes each they fit a message


class Resolution(NamedTuple):
    """What became of a task.

    Attributes:
        task: its number.
        ending: as in `Resolved`, or ``"cancelled"``.
        payload: what it returned or raised.
        crashes: those that it was given up for.
    """

    task: int
    ending: Literal["value", "error", "crashed", "cancelled"]
    payload: Payload
    crashes: tuple[Crash, ...]


class Pending:
    """A task that is not resolved."""

    __slots__ = ("arguments", "crashes", "function", "request", "retracted", "worker")

    def __init__(self, request: int, function: bytes, arguments: Payload) -> None:
        self.request = request
        self.function = function
        self.arguments = arguments
        self.worker = ""
        self.crashes: tuple[Crash, ...] = ()
        self.retracted = False


class MissionSession:
    """One mission, from its start to its end.

    Args:
        id: random, no other mission has it.
        name: what people call it.
        host: where it is.
        pid: its process there.

    Attributes:
        to_head: messages for the head; dropped while there is no connection.
        resolved: what became of tasks, to be taken away by the shell around.
        notices: requests that cannot start, by number, with the reason; likewise.
        answers: answers to questions; likewise.
        pending: the unresolved tasks, by number.
        running: how many of them run.
        epoch: the head's number.
    """

    def __init__(self, id: str, name: str, host: str = "", pid: int = 0) -> None:  # noqa: A002
        self.id = id
        self.name = name
        self._hello = RegisterMission(id, name, host, pid)
        self.to_head: list[tuple[Message, Payload]] = []
        self.resolved: list[Resolution] = []
        self.notices: list[Notice] = []
        self.answers: list[tuple[str, Any]] = []
        self.pending: dict[int, Pending] = {}
        self.running = 0
        self.epoch = 0
        self.connected = False
        self._connections = 0
        self._requests: list[Request] = []
        self._functions: dict[bytes, Payload] = {}
        self._last_task = 0
        self._confirm: list[int] = []

    @property
    def unconfirmed(self) -> int:
        """How many outcomes have arrived and are not confirmed."""
        return len(self._confirm)

    # ---- tasks

    def request(self, resources: dict[str, Any], priority: int = 0) -> int:
        """State what tasks may ask for; returns its number."""
        message = Request(len(self._requests), resources, priority)
        self._requests.append(message)
        self._send(message)
        return message.number

    def request_of(self, number: int) -> Request:
        """What was stated under a number."""
        return self._requests[number]

    def function(self, digest: bytes, function: Payload) -> None:
        """State a function that tasks may call."""
        if digest not in self._functions:
            self._send(DefineFunction(digest), function)
            self._functions[digest] = function

    def submit(self, request: int, function: bytes, arguments: Payload) -> int:
        """A task is to be run; returns its number."""
        self._last_task = task = self._last_task + 1
        self.pending[task] = Pending(request, function, arguments)
        if self.connected:
            self.to_head.append((Submit(task, request, function), arguments))
        return task

    def cancel(self, task: int) -> None:
        """A task is not wanted any more; its resolution tells when nothing of it is left."""
        known = self.pending.get(task)
        if known is not None and not known.retracted:
            known.retracted = True
            known.arguments = None
            self._send(Retract((task,)))

    def depart(self) -> None:
        """The mission is over; what is still unresolved is not wanted any more."""
        self._send(Depart())

    # ---- the connection

    def on_connected(self) -> None:
        """A head was reached."""
        self.connected = True
        self.to_head.clear()
        self._connections += 1
        self._send(msgspec.structs.replace(self._hello, connection=self._connections))
        for request in self._requests:
            self._send(request)
        for digest, function in self._functions.items():
            self._send(DefineFunction(digest), function)
        for task, p in self.pending.items():
            if not p.retracted:
                message = Submit(task, p.request, p.function, p.worker, p.crashes)
                self._send(message, p.arguments)
        self._send_of(Retract, [task for task, p in self.pending.items() if p.retracted])
        self._send(Synced())

    def on_disconnected(self) -> None:
        """The head is away; what was under way to it may be lost."""
        self.connected = False
        self.to_head.clear()
        self._confirm.clear()

    def on_message(self, message: Message, payload: Payload) -> None:
        """The head says something."""
        match message:
            case Resolved():
                self._confirm.append(message.task)
                self._resolve(message.task, message.ending, payload, message.crashes)
            case Retracted():
                self._resolve(message.task, "cancelled", None, ())
            case Started():
                self._started(message)
            case Crashed():
                known = self.pending.get(message.task)
                if known is not None and message.crash not in known.crashes:
                    known.crashes = (*known.crashes, message.crash)
            case Notice():
                self.notices.append(message)
            case Answer():
                self.answers.append((message.about, unpack(payload)))
            case MissionRegistered():
                self.epoch = message.epoch
            case _:
                pass

    def confirm(self) -> None:
        """Confirm what has arrived: soon, and best together with what is sent anyway."""
        if self._confirm:
            confirm, self._confirm = self._confirm, []
            self._send_of(AckTasks, confirm)

    def _started(self, message: Started) -> None:
        for task in message.tasks:
            known = self.pending.get(task)
            if known is not None:
                self.running += bool(message.worker) - bool(known.worker)
                known.worker = message.worker

    def _resolve(
        self,
        task: int,
        ending: Literal["value", "error", "crashed", "cancelled"],
        payload: Payload,
        crashes: tuple[Crash, ...],
    ) -> None:
        known = self.pending.pop(task, None)
        if known is None:
            return
        self.running -= bool(known.worker)
        if known.retracted:
            ending, payload = "cancelled", None
        self.resolved.append(Resolution(task, ending, payload, crashes))

    def _send_of(self, kind: type[Retract | AckTasks], tasks: list[int]) -> None:
        for at in range(0, len(tasks), _AT_ONCE):
            self._send(kind(tuple(tasks[at : at + _AT_ONCE])))

    def _send(self, message: Message, payload: Payload = None) -> None:
        if self.connected:
            self.to_head.append((message, payload))
