"""What a mission and a head say to each other; docs/protocol.md has the rules of delivery.

A task is known by its number in its mission. Numbers only ever grow, so that a head can tell a
task that it has not heard of yet from one that is over.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from grain.edge.messages import Codec, Message
from grain.edge.questions import Answer as Answer
from grain.edge.questions import Ask as Ask
from grain.worker.messages import Attempt, DefineFunction

_GIB = 1024**3

Ending = Literal["value", "error", "crashed"]
"""How a task was resolved: see `Resolved`."""


class Crash(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run of a task ended with the process or the worker that it was in.

    Attributes:
        attempt: which run.
        worker: what people call the worker.
        how: what is known of it, such as the signal.
        at: seconds since the epoch of Unix, by the head's clock, for people.
    """

    attempt: Attempt
    worker: str
    how: str
    at: float


# ---- mission to head


class RegisterMission(Message, frozen=True):
    """First on every connection. Then come the unresolved tasks, ascending, and `Synced`.

    Attributes:
        mission: random name of this mission.
        name: what people call it.
        host: where it is.
        pid: its process there.
        connection: counts its connections: of two, the one with the larger number is in use,
            whichever is heard of first.
    """

    mission: str
    name: str
    host: str = ""
    pid: int = 0
    connection: int = 1


class Request(Message, frozen=True):
    """What tasks may ask for, stated once a connection.

    Attributes:
        number: by which `Submit` refers to it.
        resources: as plain data.
        priority: larger goes first.
    """

    number: int
    resources: dict[str, Any]
    priority: int = 0


class Submit(Message, frozen=True):
    """A task is to be run. The payload is its arguments.

    Attributes:
        task: its number, larger than all before on this connection.
        request: the number of its `Request`.
        function: the digest of its function, which was sent before.
        worker: where it ran when the mission was last told, empty if it did not.
        crashes: what is known of its crashes.
    """

    max_payload = 256 * 1024**2

    task: int
    request: int
    function: bytes
    worker: str = ""
    crashes: tuple[Crash, ...] = ()


class Synced(Message, frozen=True):
    """The mission has told of all its unresolved tasks: no other task of it is wanted."""


class Retract(Message, frozen=True):
    """Tasks are not wanted any more; `Retracted` tells when nothing of them is left."""

    tasks: tuple[int, ...]


class AckTasks(Message, frozen=True):
    """The outcomes of these tasks have arrived: forget them."""

    tasks: tuple[int, ...]


class Depart(Message, frozen=True):
    """The mission is over: nothing of it is wanted any more."""


# ---- head to mission


class MissionRegistered(Message, frozen=True):
    """The head knows all that the mission told.

    Attributes:
        epoch: the head's.
    """

    epoch: int


class Started(Message, frozen=True):
    """Tasks run on a worker, or wait again if its id is empty."""

    worker: str
    tasks: tuple[int, ...]


class Crashed(Message, frozen=True):
    """A run of a task crashed; the task goes on."""

    task: int
    crash: Crash


class Resolved(Message, frozen=True):
    """What became of a task; repeated on every connection until `AckTasks`.

    Attributes:
        task: which task.
        ending: ``"value"`` or ``"error"``: the payload is what it returned or raised.
            ``"crashed"``: it was given up after too many crashes.
        crashes: all of them, in the last case.
    """

    max_payload = _GIB

    task: int
    ending: Ending
    crashes: tuple[Crash, ...] = ()


class Retracted(Message, frozen=True):
    """Nothing is left of a task that was retracted."""

    task: int


class Notice(Message, frozen=True):
    """Tasks with a request cannot start on any worker that is here, and wait for another.

    Attributes:
        request: the number of the request.
        why: a sentence.
        workers: whether there is any worker at all.
    """

    request: int
    why: str
    workers: bool = True


MISSION = (RegisterMission, DefineFunction, Request, Submit, Synced, Retract, AckTasks, Depart, Ask)
"""What a mission says; `DefineFunction` is of grain.worker.messages, `Ask` of grain.edge.questions."""

HEAD = (MissionRegistered, Started, Crashed, Resolved, Retracted, Notice, Answer)
"""What a head says to a mission."""

CODEC = Codec(*MISSION, *HEAD)
"""Mission and head."""
