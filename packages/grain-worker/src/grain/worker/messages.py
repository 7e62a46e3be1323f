"""The messages between a head, a worker's agent and the agent's runner.

Three ends exchange them:

- A mission's executor and its local worker, or an agent and its runner: `StartRun`, `Cancel`,
  `Ended`; and, where these are two processes, `Ready`, `DefineFunction` and `ForgetFunctions`.
- A mission and a runner, in a lane: the same, with `LaneOpen` in place of `Ready`, and `AckRuns`.
- Head and agent: all others. docs/protocol.md has the rules.

The identity of a run is its *attempt*: the epoch of the head that began it, and a number that this
head gave to no other run. Agent and runner have no numbers of their own.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from grain.edge.channel import Heartbeat
from grain.edge.messages import Codec, Message
from grain.edge.version import Versions
from grain.eventlog.causes import RunFailure
from grain.eventlog.soft_stops import Interruption
from grain.eventlog.usage import ProgramState, Report

_GIB = 1024**3

FUNCTIONS = 32768
"""The most digests of functions in one message: they take two thirds of what a message may have."""

PRINTED = 16384
"""The most characters in one `TasksPrinted`."""

Attempt = tuple[int, int]
"""The identity of a run: the epoch of the head that began it, and a number of that head."""

Raised = RunFailure | None
"""Why a run failed that has raised an exception."""

Status = Literal["value", "error", "cancelled", "crashed", "returned"]
"""The status of a run that has ended: see `RunEnded`."""


LANE = b"lane"
"""The digest of no function: it marks a *lane*, a run that takes brief calls straight from its
mission, one after the other (`grain.worker.lanes`)."""

UNBEGUN = "unbegun"
"""The status of the end of a call that has not begun, and does not in its lane."""

TIME_OVER = "its worker's time was over"
"""The detail, as text, of a run that its worker has handed back for that reason."""


class Outlived(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The seconds of a run that was not over when the time of its worker was.

    Attributes:
        ran: for which it had run.
        life: those of its worker, from its start to its end.
    """

    ran: float
    life: float


class BlockingCode(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The code that keeps an event loop from running other tasks.

    Attributes:
        function: the name of the tasklet or branch.
        where: the file and line.
        line: the text of the line; empty if it is not known.
        seconds: for which it has blocked the loop by now.
        instead: what to write instead, as a clause.
        over: True if that was all: the loop goes on.
    """

    function: str
    where: str
    line: str
    seconds: float
    instead: str
    over: bool = False


class MissionSettings(msgspec.Struct, frozen=True, array_like=True):
    """The settings of a mission that its runs take along, as bytes that only the runner reads.

    Attributes:
        cwd: the paths of the mission's working directory: as the shell names it, and without links.
        inode: the number of that directory in its file system, by which a worker recognises it.
        env: changes to the environment of external programs; None as a value removes a variable.
        echo: True if the mission wants the lines that its tasks print.
        id: the beginning of the mission's id, which tells its lines from those of others of its
            name; empty for none.
    """

    name: str = ""
    cwd: tuple[bytes, ...] = ()
    inode: int = 0
    env: tuple[tuple[bytes, bytes | None], ...] = ()
    echo: bool = False
    id: str = ""


HowEnded = Literal["failed", "memory", "time", "crashed", "returned", "stopped"]
"""The way in which an attempt at a task ended: see `PastAttempts`."""


class PastAttempts(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The attempts at a task before a run, as that sees them: ``GVAR.attempt``, ``GVAR.last``.

    Attributes:
        count: the number of them.
        end: how the last one ended. ``"failed"``: by an exception; ``"memory"``, ``"time"``: of
            these it had too little; ``"crashed"``: its process or its worker died;
            ``"returned"``: its worker handed it back; ``"stopped"``: a program of it has stopped
            softly, after a warning.
        text: that in words, shortened.
    """

    count: int
    end: HowEnded
    text: str = ""

    @property
    def stopped_softly(self) -> bool:
        """True if a program of the last attempt has stopped softly, after a warning."""
        return self.end == "stopped"


_PAST_TEXT = 200  # characters


def one_more(past: PastAttempts | None, end: HowEnded, text: str = "") -> PastAttempts:
    """Return the attempts before the next run, after one that ended in some way."""
    return PastAttempts(1 + (0 if past is None else past.count), end, text[:_PAST_TEXT])


class GangPart(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The part of a run in a gang: a task on several workers at once (`grain.worker.gang`).

    Attributes:
        root: the run of the root, which all parts of the gang name.
        index: 0 for the root, which runs the task; others keep a seat.
        size: the number of members.
    """

    root: Attempt
    index: int
    size: int


# ---- agent and runner


class StartRun(Message, frozen=True):
    """Run a task. The payload is the call in memory, and its arguments on a wire.

    Attributes:
        res: the resources that the run may use: a `grain.resource.Resource` in memory, its plain
            data on a wire.
        limit: the hard time limit in seconds, None without one.
        function: on a wire, the digest of the function, whose `DefineFunction` came before.
        settings: on a wire, the mission's `MissionSettings` as bytes; empty for none.
        gang: its part in a gang; None for a run on one worker. A seat has no function, and no
            payload.
        past: the attempts before it; None if it is the first.
    """

    max_payload = 256 * 1024**2

    attempt: Attempt
    res: Any
    limit: float | None = None
    function: bytes = b""
    task: int = 0
    settings: bytes = b""
    gang: GangPart | None = None
    past: PastAttempts | None = None


class Cancel(Message, frozen=True):
    """End a run; `Ended` reports its end.

    Attributes:
        waiting: end it only if it has yet to begin; the status of a call that waits in a lane is
            then ``"unbegun"``. A lane itself ends when the call that it has is over.
    """

    attempt: Attempt
    waiting: bool = False


class Ended(Message, frozen=True):
    """A run has ended, and nothing of it is left. The payload is its outcome.

    Attributes:
        status: ``"done"``: the payload is the outcome. ``"cancelled"``: `Cancel` ended it.
            ``"returned"``: it never began, or it failed as its worker was being ended.
            ``"unbegun"``: it is a call of a lane, and does not begin there.
        failed: True if the payload is an exception.
        crash: why the run counts as crashed, though it has an outcome; empty if it does not.
        failure: the exception that it raised; or, as a message, why it is ``absent``.
        report: its times, and what it has used: a `RunAccount` in memory, a
            `grain.eventlog.usage.Report` on a wire; empty if it never began.
        lost, absent, interruption: as of `RunEnded`.
    """

    max_payload = _GIB

    attempt: Attempt
    status: str = "done"
    failed: bool = False
    crash: str = ""
    report: Any = b""
    failure: Raised = None
    lost: str = ""
    absent: int = -1
    interruption: Interruption = ""


class AskEnding(Message, frozen=True):
    """A run has failed, and asks if its worker is being ended, by which it may have failed.

    Attributes:
        signal: the number of the signal that has ended its program, if batch systems send it; 0 for
            any other failure.
        replaced: as `grain.edge.version.replaced_code`, if it may have failed for that.
    """

    attempt: Attempt
    signal: int
    replaced: str = ""


class EndingTold(Message, frozen=True):
    """The answer to `AskEnding`.

    Attributes:
        ends: True if the worker is being ended: the failure is not the run's own.
    """

    attempt: Attempt
    ends: bool


class JobBegins(Message, frozen=True):
    """A run is about to begin an attempt of a job; if its process dies, the agent notes the loss.

    Attributes:
        queue: the folder of the queue.
        number, task: the job, and its task; None if it is not an array.
        job_attempt: the number of the attempt, from 1.
    """

    attempt: Attempt
    queue: str
    number: int
    task: int | None
    job_attempt: int


class EndOfWorker(Message, frozen=True):
    """The time that is left to the runs of a worker; repeated when that changes.

    Programs that take warnings are warned so long before as their calls state.

    Attributes:
        left: seconds until runs are cancelled; None if that is open.
        now: True if all are to be warned now: the worker is to leave when its runs have ended.
    """

    left: float | None
    now: bool = False


class ProgramWarned(Message, frozen=True):
    """A program was warned of the end of the worker: what begins now would be warned at once."""


class Ready(Message, frozen=True):
    """The runner has entered its context and takes runs; or it cannot.

    Attributes:
        error: why it cannot; empty if it can.
    """

    error: str = ""


# ---- agent to head


class RegisterWorker(Message, frozen=True):
    """The first message on every connection; `Inventory`s and an `InventoryEnd` follow.

    Attributes:
        worker: the random name of this agent process.
        total: its resources as plain data, of which the time left counts from now.
        functions: the digests of the functions that it has, `FUNCTIONS` at most.
        draining: True if it takes no more runs.
        connection: the number of this connection. If a worker has two connections, the one with the
            larger number is in use, whichever registers first.
        versions: of its Python, and of what else matters to missions.
        job: its job, as the batch system calls it; empty if it has none.
        cluster: the name of its cluster; empty if it was not stated.
        system: the name of its batch system; empty if it is in no job.
        listed: its job, as that lists it once it has ended; empty if it does not.
    """

    worker: str
    name: str
    host: str
    total: dict[str, Any]
    functions: tuple[bytes, ...] = ()
    draining: bool = False
    connection: int = 1
    versions: Versions = Versions()
    job: str = ""
    cluster: str = ""
    system: str = ""
    listed: str = ""


class InventoryRun(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run that a worker has, or whose outcome it keeps.

    Attributes:
        res: the resources that the run may use, as plain data.
        elapsed: seconds since it began.
        left: seconds until its hard limit, None without one.
        alone: True if the run was given the whole worker.
        ended: True if it has ended; its `RunEnded` follows.
        gang: as in its `Lease`.
        lane: True if it is a lane's, as its head is to know before the mission has come back.
        over: True if it uses these resources no more, see `RunOver`.
    """

    mission: str
    task: int
    attempt: Attempt
    res: dict[str, Any]
    elapsed: float
    left: float | None = None
    alone: bool = False
    ended: bool = False
    gang: GangPart | None = None
    lane: bool = False
    over: bool = False


class Inventory(Message, frozen=True):
    """Some of the runs that a worker has when it registers."""

    runs: tuple[InventoryRun, ...]


class InventoryEnd(Message, frozen=True):
    """The inventory is complete: a lease that was sent to this worker and is not in it was lost."""


class ArrivedCount(Message, frozen=True):
    """The number of `Lease`s of this connection that have arrived.

    So a head knows what had begun if the worker is lost.
    """

    count: int


class RunEnded(Message, frozen=True):
    """A run has ended, and nothing of it is left; repeated on every connection until `AckRuns`.

    Attributes:
        status: ``"value"`` or ``"error"``: the payload is what the task returned or raised.
            ``"cancelled"``: `Revoke` ended it. ``"crashed"``: its process died, or the supervisor
            of its program was killed.
            ``"returned"``: the worker hands it back, because it leaves.
        detail: text for display; for a crash, how the process died.
        report: its times, and what it has used: a `grain.eventlog.usage.RunReport` as bytes, which
            only writers of logs read; for a brief run without a program and with a value, its
            seconds; empty if it never began.
        outlived: for a run that had begun and is handed back as the worker's time is over, how long
            it had run; None for all others.
        lost: for a crash of a gang, the name of the worker of the member that was lost; empty if
            none was, and for all others.
        absent: for a part of a gang that is ``"returned"`` as a member has not joined, the index
            of that: nothing of the gang has begun, and ``detail`` has the reason; 0, from a seat,
            if the root has not connected; 0, from the root, if it has ended by itself or was to end
            before the function began. -1 for all others.
        failure: the exception that it raised; None if it raised none.
        interruption: for what its worker has ended it; ``"short"`` counts as a crash, after which
            its task runs by itself.
        call: for a crash of a lane, the call that it had begun last; 0 if that is not known, and
            for all others.
    """

    max_payload = _GIB

    mission: str
    task: int
    attempt: Attempt
    status: Status
    detail: str = ""
    report: Report = b""
    outlived: Outlived | None = None
    lost: str = ""
    absent: int = -1
    failure: Raised = None
    interruption: Interruption = ""
    call: int = 0


class LaneOpen(Message, frozen=True):
    """The first message of a runner to a mission: it takes the calls of a lane.

    Attributes:
        task: the number of the lane among the tasks of the mission.
    """

    task: int


class LoopBlocked(Message, frozen=True):
    """A run blocks the event loop of its runner, and the other runs; nothing depends on it."""

    mission: str
    task: int
    code: BlockingCode


class TasksPrinted(Message, frozen=True):
    """Lines that tasks of a mission have printed, if it asks for them; nothing depends on them.

    Five times a second at most, and lost if there is no connection.

    Attributes:
        text: whole lines, each with the task at its beginning; `PRINTED` characters at most.
        lost: the number of lines that were left out before these, as there were too many.
    """

    mission: str
    text: str
    lost: int = 0


class Inspected(Message, frozen=True):
    """The external programs of a run, for display: the answer to an `Inspect`.

    Attributes:
        programs: the oldest first.
    """

    question: int
    programs: tuple[ProgramState, ...]


class Backlog(Message, frozen=True):
    """The worker takes no more runs while missions leave so much unconfirmed; or does again.

    It comes before `InventoryEnd`, if that is so on a new connection.

    Attributes:
        outcomes: how many wait to be confirmed; 0 if the worker takes runs again.
        size: how many bytes they have.
    """

    outcomes: int = 0
    size: int = 0


class CoresComputed(Message, frozen=True):
    """The number of cores that the processes of the worker compute on, only for display.

    Every five seconds at most, when it has changed, and after `InventoryEnd`.

    Attributes:
        cores: in the mean of the last seconds; None if that is not known, or nothing runs there.
    """

    cores: float | None


class Draining(Message, frozen=True):
    """The worker takes no more runs.

    Attributes:
        why: as of `Leaving`.
    """

    why: str = ""


class Leaving(Message, frozen=True):
    """Nothing runs on the worker any more, and it is about to end.

    Attributes:
        why: the reason, as text, such as the name of a signal.
    """

    why: str = ""


# ---- head to agent


class WorkerRegistered(Message, frozen=True):
    """The head has recorded the worker, its runs and their outcomes.

    Attributes:
        versions: the head's, for the worker's log.
    """

    epoch: int
    versions: Versions = Versions()


class DefineFunction(Message, frozen=True):
    """A function, before the first call of it. The payload is the function.

    Attributes:
        digest: the name by which calls refer to it.
        name: its display name; empty on its way to a worker.
    """

    max_payload = 256 * 1024**2

    digest: bytes
    name: str = ""


class ForgetFunctions(Message, frozen=True):
    """The digests of functions that will not be called again, `FUNCTIONS` at most."""

    digests: tuple[bytes, ...]


class Lease(Message, frozen=True):
    """Run a task. The payload is the arguments.

    Attributes:
        res: the resources that the run may use, as plain data.
        limit: the hard time limit in seconds, None without one.
        alone: True if the run is given the whole worker.
        settings: the mission's `MissionSettings` as bytes; empty for none.
        gang: its part in a gang; None for a run on one worker. A seat has no function, and no
            payload.
        past: the attempts before it; None if it is the first.
    """

    max_payload = 256 * 1024**2

    mission: str
    task: int
    attempt: Attempt
    function: bytes
    res: dict[str, Any]
    limit: float | None = None
    alone: bool = False
    settings: bytes = b""
    gang: GangPart | None = None
    past: PastAttempts | None = None


class SeatOpen(Message, frozen=True):
    """A seat of a gang awaits its root: from a runner to the head, again on each connection.

    Attributes:
        attempt: the run that keeps the seat.
        invitation: the address and the key for the root, see `grain.edge.invitation`.
    """

    attempt: Attempt
    invitation: bytes


class GangBegun(Message, frozen=True):
    """The function of a gang's task begins, as all members have joined; sent as `SeatOpen` is.

    Attributes:
        attempt: the run of the root.
    """

    attempt: Attempt


class RunOver(Message, frozen=True):
    """A run uses its resources no more, and is about to return a value; sent as `SeatOpen` is.

    So they are free while the run notes, on a disk, how its program has ended. That is not told
    where the head learns more from the end of the run.

    Attributes:
        attempt: the run, which is on one worker.
    """

    attempt: Attempt


GangNews = SeatOpen | GangBegun
"""A message that the part of a gang sends while it runs, once at most."""

RunMessage = SeatOpen | GangBegun | RunOver
"""A message that a run sends while it runs, once at most."""


class MemberOpen(Message, frozen=True):
    """A seat that awaits its root: from the head to the runner of the root; may come twice.

    Attributes:
        attempt: the run of the root.
        index: of the member.
        name, host: of its worker.
        res: what it has for the gang, as plain data.
        invitation: as of `SeatOpen`.
    """

    attempt: Attempt
    index: int
    name: str
    host: str
    res: dict[str, Any]
    invitation: bytes


class Revoke(Message, frozen=True):
    """End a run; its `RunEnded` reports its end."""

    attempt: Attempt


class Recall(Message, frozen=True):
    """End a lane when the call that it has is over; its `RunEnded` reports its end.

    No effect on other runs. From a runner to the mission it says that no call begins any more.
    """

    attempt: Attempt


class AckRuns(Message, frozen=True):
    """The outcomes of these runs have reached their missions, or are not wanted: forget them."""

    attempts: tuple[Attempt, ...]


class Inspect(Message, frozen=True):
    """A question for the external programs of a run; `Inspected` follows if the runner is free.

    Attributes:
        question: a number that no other question of this head has.
    """

    question: int
    attempt: Attempt


class Disconnect(Message, frozen=True):
    """The end of a connection, to an agent or a mission; the head closes it.

    Attributes:
        because: ``"refused"``: something that the peer sent makes no sense. ``"failed"``: the head
            failed to serve it; it may come again. ``"replaced"``: a peer has registered under the
            same id on another connection.
    """

    why: str
    because: Literal["refused", "failed", "replaced"]


class Drain(Message, frozen=True):
    """The worker is to leave.

    Attributes:
        at_once: hand runs back instead of waiting for their end.
    """

    at_once: bool = False


AGENT = (
    RegisterWorker,
    Inventory,
    InventoryEnd,
    ArrivedCount,
    RunEnded,
    LoopBlocked,
    TasksPrinted,
    Inspected,
    SeatOpen,
    GangBegun,
    RunOver,
    Backlog,
    CoresComputed,
    Draining,
    Leaving,
)
"""The messages that an agent sends to a head."""

HEAD = (
    WorkerRegistered,
    DefineFunction,
    ForgetFunctions,
    Lease,
    MemberOpen,
    Revoke,
    Recall,
    AckRuns,
    Inspect,
    Drain,
    Disconnect,
)
"""The messages that a head sends to an agent."""

CODEC = Codec(*AGENT, *HEAD)
"""The codec of the connection between head and agent."""

LANE_CODEC = Codec(DefineFunction, StartRun, Cancel, AckRuns, LaneOpen, Ended, Recall)
"""The codec between mission and runner in a lane."""

LANE_HEARTBEAT = Heartbeat(interval=4.0, suspect=12.0, lost=20.0)
"""Its pace. A lane that is taken for lost too early costs little: its call goes on, and the outcome
comes by the scheduler."""


class LaneOutcome(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The outcome of a lane's own run, as bytes.

    Attributes:
        unreachable: True if the runner could not connect to the mission.
        ends: the ends of calls that the mission may not have, each with its outcome.
    """

    unreachable: bool = False
    ends: tuple[tuple[Ended, bytes | None], ...] = ()
