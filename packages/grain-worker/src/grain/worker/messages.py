"""What a head, a worker's agent and its runner say to each other.

Agent and runner (also the head and its local worker): `Run`, `Cancel`, `Ended`, and where they are
two processes `Ready`, `DefineFunction` and `ForgetFunctions`. Head and agent: everything below;
docs/protocol.md has every field and the rules of delivery. A run is known by its *attempt*: (epoch of the
head that started it, a number of that head's), which no other run ever has.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from grain.edge.messages import Codec, Message

_GIB = 1024**3

FUNCTIONS = 32768
"""How many digests of functions one message names at most: two thirds of what fits it."""

Attempt = tuple[int, int]
"""Epoch of the head that began a run, and that head's count."""

Status = Literal["value", "error", "cancelled", "crashed", "returned"]
"""How a run ended: see `RunEnded`."""


# ---- agent and runner


class Run(Message, frozen=True):
    """Run a task. The payload is the call.

    Attributes:
        task: which task; an agent numbers its runs itself.
        attempt: which of its runs; no two runs have the same.
        res: the resources that the run may use: a `grain.resource.Resource` in memory, its plain
            data on a wire.
        limit: the hard time limit in seconds, None without one.
        function: the digest of the function, where the payload is not the call itself: within the
            agent ``(function, arguments)``, to the runner the arguments alone, as it got the
            `DefineFunction` before.
        chain: 0, or the task that began the chain in which this one waits: it begins when all of
            its predecessors in that chain have ended.
    """

    max_payload = 256 * 1024**2

    task: int
    attempt: int
    res: Any
    limit: float | None = None
    function: bytes = b""
    chain: int = 0


class Cancel(Message, frozen=True):
    """End a run; `Ended` tells when it has ended.

    Attributes:
        task: which task.
        attempt: which of its runs.
        waiting: only if it still waits in a chain: it is then ``"returned"``.
    """

    task: int
    attempt: int
    waiting: bool = False


class Ended(Message, frozen=True):
    """A run has ended, nothing of it is left. The payload is its outcome.

    Attributes:
        task: which task.
        attempt: which of its runs.
        status: ``"done"``: the payload tells how; ``"cancelled"``: because the head said so;
            ``"returned"``: it failed while the batch system was ending the job, and not by itself;
            or it has not begun.
        failed: whether the payload is an exception.
    """

    max_payload = _GIB

    task: int
    attempt: int
    status: str = "done"
    failed: bool = False


class Ready(Message, frozen=True):
    """The runner has entered its context and takes runs; or it cannot.

    Attributes:
        error: why not; empty if all is well.
    """

    error: str = ""


# ---- agent to head


class RegisterWorker(Message, frozen=True):
    """First on every connection: a worker is here. Then come `Inventory`s and `InventoryEnd`.

    Attributes:
        worker: random name of this agent process.
        name: what people call it.
        host: where it is.
        total: its resources as plain data, of which the time left counts from now.
        functions: digests of the functions that it has, `FUNCTIONS` at most.
        draining: whether it takes no more runs.
        connection: counts its connections: of two, the one with the larger number is in use,
            whichever is heard of first.
    """

    worker: str
    name: str
    host: str
    total: dict[str, Any]
    functions: tuple[bytes, ...] = ()
    draining: bool = False
    connection: int = 1


class HeldRun(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run that a worker has, or had and keeps the outcome of.

    Attributes:
        mission: whose task.
        task: its number there.
        attempt: which run.
        res: what the run may use, as plain data.
        elapsed: seconds since it was started.
        left: seconds until its hard limit, None without one.
        alone: whether the whole worker was given to it.
        ended: whether it has ended; its `RunEnded` follows.
        chain: as in its `Lease`. Of those in a chain that have not ended, the first is under way.
    """

    mission: str
    task: int
    attempt: Attempt
    res: dict[str, Any]
    elapsed: float
    left: float | None = None
    alone: bool = False
    ended: bool = False
    chain: int = 0


class Inventory(Message, frozen=True):
    """Part of what a worker that registers has already."""

    runs: tuple[HeldRun, ...]


class InventoryEnd(Message, frozen=True):
    """The worker has told all that it has: what was sent to it and is not among it was lost."""


class BegunCount(Message, frozen=True):
    """The number of `Lease`s of this connection begun so far, without those that wait in a chain."""

    count: int


class RunEnded(Message, frozen=True):
    """A run is over and nothing of it is left; repeated on every connection until `AckRuns`.

    Attributes:
        mission: whose task.
        task: its number there.
        attempt: which run.
        status: ``"value"`` or ``"error"``: the payload is what it returned or raised.
            ``"cancelled"``: because of `Revoke`. ``"crashed"``: its process died.
            ``"returned"``: the worker is to leave, and hands it back.
        detail: of a crash, how the process died.
    """

    max_payload = _GIB

    mission: str
    task: int
    attempt: Attempt
    status: Status
    detail: str = ""


class Draining(Message, frozen=True):
    """The worker takes no more runs."""


class Leaving(Message, frozen=True):
    """Nothing runs on the worker any more, and it is about to end."""


# ---- head to agent


class WorkerRegistered(Message, frozen=True):
    """The head has taken in what the worker reported.

    Attributes:
        epoch: the head's.
    """

    epoch: int


class DefineFunction(Message, frozen=True):
    """A function, before the first call of it. The payload is the function.

    Attributes:
        digest: by which calls refer to it.
    """

    max_payload = 256 * 1024**2

    digest: bytes


class ForgetFunctions(Message, frozen=True):
    """Functions that nobody will call again, `FUNCTIONS` at most."""

    digests: tuple[bytes, ...]


class Lease(Message, frozen=True):
    """Run a task. The payload is the arguments.

    Attributes:
        mission: whose task.
        task: its number there.
        attempt: which run.
        function: digest of the function.
        res: what the run may use, as plain data.
        limit: the hard time limit in seconds, None without one.
        alone: whether the whole worker is given to it.
        chain: 0, or the number of the attempt that began the chain in which it waits: runs of a
            chain take place one after the other, in the order in which their leases came, with the
            same resources.
    """

    max_payload = 256 * 1024**2

    mission: str
    task: int
    attempt: Attempt
    function: bytes
    res: dict[str, Any]
    limit: float | None = None
    alone: bool = False
    chain: int = 0


class Revoke(Message, frozen=True):
    """End a run; its `RunEnded` tells when that has happened."""

    attempt: Attempt


class AckRuns(Message, frozen=True):
    """The outcomes of these runs arrived where they belong, or are not wanted: forget them."""

    attempts: tuple[Attempt, ...]


class Retire(Message, frozen=True):
    """The worker is to leave.

    Attributes:
        at_once: hand runs back instead of waiting for their end.
    """

    at_once: bool = False


AGENT = (RegisterWorker, Inventory, InventoryEnd, BegunCount, RunEnded, Draining, Leaving)
"""What an agent says."""

HEAD = (WorkerRegistered, DefineFunction, ForgetFunctions, Lease, Revoke, AckRuns, Retire)
"""What a head says to an agent."""

CODEC = Codec(*AGENT, *HEAD)
"""Head and agent."""
