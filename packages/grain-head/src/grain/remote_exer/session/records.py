"""The tasks of a mission, their outcomes, and what else a `MissionSession` hands over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from grain.head.base import SubmittedTask

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from grain.eventlog.usage import Report
    from grain.head.messages import Crash, FailedOn

T = TypeVar("T")


def taken(arrived: list[T]) -> list[T]:
    """Return what has arrived, and empty the list."""
    items = arrived.copy()
    arrived.clear()
    return items


class Resolution(NamedTuple):
    """The outcome of a task.

    Attributes:
        ending: as in `Resolved`, or ``"cancelled"``.
        payload: what it returned or raised.
        crashes: those for which it was given up.
        by: who has cancelled it from outside, for display; empty if it was not cancelled so.
        report: of its worker on the run; empty if there is none.
        began: when the mission learned that it had started; 0 if it never did.
        failed_on: where its run has failed; None if it has not, or did not run.
    """

    task: int
    ending: Literal["value", "error", "crashed", "cancelled"]
    payload: Payload
    crashes: tuple[Crash, ...]
    by: str = ""
    report: Report = b""
    began: float = 0.0
    failed_on: FailedOn | None = None


class LostWorker(NamedTuple):
    """A worker that is lost.

    Attributes:
        silent: the seconds since there was the last sign of it.
        tasks: the tasks that were on it.
        why: how its job has ended, as its batch system says; empty if that is not known.
    """

    name: str
    silent: float
    tasks: list[int]
    why: str = ""


class LastingMission(NamedTuple):
    """A mission that outlives its processes: their runs go on while none of them lives.

    Its runs end by themselves, by `grain cancel`, when
    a process of it cancels them, or with their worker; no process waits for them when it leaves.

    Attributes:
        id: one for all of its processes, as `grain.worker.messages.lasting_id` returns it.
        generation: the number of this process among those of the mission, from 1. If two live at a
            time, a scheduler serves the one with the larger number; the other ends with
            `grain.head.errors.MissionReplaced`. No two may have the same.
        first: the number from which its new tasks count: larger than all that other processes of
            the mission have used or will use. A task of one of these, whose run may be under way,
            is submitted again with its own number, before all new ones.
    """

    id: str
    generation: int
    first: int = 1


class StoppedWorker(NamedTuple):
    """A worker that has left in good order, and has handed back runs that it had begun.

    Attributes:
        tasks: how many of this mission.
        why: why it was to leave, as text.
    """

    name: str
    tasks: int
    why: str


class RemoteTask(SubmittedTask, eq=False, kw_only=True, gc=False):
    """A task of a mission, with all that is needed to submit it again.

    The garbage collector does not look at it, which saves it time and 16 bytes of each task: the
    session refers to it until it is resolved, and its executor leaves none unresolved.

    Attributes:
        function: the digest of its function.
        arguments: None once it is retracted.
        asked: the number of its request.
        worker: the id of the worker that it runs on, as the head last reported; empty while it
            waits.
        crashes: those of its runs so far.
    """

    # A million of these may wait. Python allocates 16 bytes at a time, of which these fields and
    # those of all tasks leave none: one more takes 16 MB.
    arguments: Payload
    asked: int
    worker: str = ""
    crashes: tuple[Crash, ...] = ()

    @property
    def retracted(self) -> bool:
        """True from the call of `MissionSession.cancel` on."""
        return self.arguments is None


class LaneOver(NamedTuple):
    """The end of a lane, as its scheduler reports it.

    Attributes:
        lane: its number.
        ending, payload, crashes: as in `Resolution`.
        report: of its worker on the run that crashed; empty if there is none.
        worker: the id of its worker; empty if it had none.
    """

    lane: int
    ending: Literal["value", "error", "crashed", "cancelled"]
    payload: Payload
    crashes: tuple[Crash, ...]
    report: Report = b""
    worker: str = ""
