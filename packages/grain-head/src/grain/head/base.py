"""The base of executors: tasks go in, results come out, and leaving waits for the last of them."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections import deque
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
import outcome
import trio

from grain import GVAR
from grain.edge.machine.copies import ending_copies
from grain.facts.rows import Function
from grain.head.errors import ExecutorClosed
from grain.head.events import Statistics
from grain.head.output_writers import OutputWriters
from grain.head.scheduler.numbered import Numbered
from grain.resource import ZERO, Cores, Gang, Memory, Resource
from grain.worker import Call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from typing_extensions import Self

    from grain.eventlog.usage import Usage
    from grain.head.messages import FailedOn, Outlook
    from grain.worker.call import Outcome
    from grain.worker.messages import PastAttempts

    Deliver = Callable[[Outcome], object]


class Result(NamedTuple):
    """An entry of the result queue."""

    id: int
    outcome: Outcome


class SubmittedTask(msgspec.Struct, eq=False):
    """A task from its submission until its outcome is handed over, as its executor keeps it.

    Attributes:
        function: the same object for all tasks of a function: it, or its digest.
        request: what it asks for: of equal requests always the same object.
        kind: the tasks with which it is counted.
        deliver: the receiver of its outcome; None for the result queue.
        urgency: larger goes first among those that ask for the same.
        after: the task for whose end its caller had last waited, for the log only; 0 for none.
        alternative: by which of the alternatives of its request it ran last, counted from 0.
        submitted: when it was submitted, as long as the event log has no line about it; None from
            then on, and where there is no log.
    """

    function: Any
    request: Resource
    kind: CallKind
    deliver: Deliver | None = None
    urgency: float = 0.0
    after: int = 0
    submitted: float | None = None
    alternative: int = 0

    @property
    def asked_by(self) -> Resource:
        """The alternative of its request by which it ran last; the request if it has but one."""
        alternatives = self.request.alternatives()
        return alternatives[max(0, min(self.alternative, len(alternatives) - 1))]

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.kind.name


# ---- the count of tasks by function and cores
#
# The record of each task has its `CallKind`, so that its end counts without a look-up. Tasks that
# follow each other are most often of one kind, which an executor sees by two references: a call for
# each task would cost as much as a dozen of such comparisons.


class CallKindNow(NamedTuple):
    """The tasks of one function that ask for as many cores, at one moment.

    Attributes:
        cores: for which each of them asks.
        waiting: how many wait for room, without tasks that fit no worker.
        blocked: how many wait that fit no worker.
        ahead: how many of those that wait do so on a worker, for the end of another run there.
        elapsed: the seconds for which each running task has run.
        timed: how many runs have ended whose times are known.
        seconds: the times of these, added up.
        longest: the longest of them.
        of: the count that goes on; None where there is only this moment.
    """

    function: str
    cores: float
    waiting: int
    blocked: int
    elapsed: tuple[float, ...]
    timed: int
    seconds: float
    longest: float
    of: CallKind | None = None
    ahead: int = 0


_LAST = 101
"""Runs of a kind whose times are kept, for medians."""


class CallKind(Function, eq=False):
    """The tasks of one function that ask for as many cores.

    Of the lengths of all runs it keeps the number, the sum and the longest: a look for the bin of
    each takes longer than all the rest.

    Attributes:
        cores: for which each of them asks.
        left: how many have no outcome.
        last: the times of the last runs.
        first: what the first of them asked for.
        alike: False if another one has asked for something else.
        memory_asked: the most memory that one has asked for, in GB.
    """

    name: str
    cores: float
    left: int = 0
    last: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=_LAST))
    first: Resource | None = None
    alike: bool = True
    memory_asked: float = 0.0

    def asks(self, request: Resource) -> None:
        """Record what one of them asks for; of equal requests always the same object."""
        if self.first is None:
            self.first = request
        elif request is self.first:
            return
        else:
            self.alike = False
        for one in request.alternatives():
            self.memory_asked = max(self.memory_asked, _memory_of(one))

    def ended(self, seconds: float | None) -> None:
        """Count the end of a task.

        Args:
            seconds: for which it ran; None if that is not known, or says nothing of others.
        """
        self.left -= 1
        if seconds is not None:
            times = self.seconds
            times.count += 1
            times.total += seconds
            self.last.append(seconds)
            if seconds > times.most:
                times.most = seconds

    def used(self, usage: Usage, seconds: float, request: Resource) -> None:
        """Count what the programs of a run have used.

        Args:
            seconds: for which it ran.
            request: the alternative of its request by which it ran.
        """
        workers = request.count if isinstance(request, Gang) else 1
        self.use(usage, seconds, workers, _memory_of(request))


NOTHING: Mapping[CallKind, int] = MappingProxyType({})
"""No tasks of any kind."""


class Kinds:
    """The kinds of an executor's tasks.

    Attributes:
        function: the name of that of the last task. The function itself may hold what the user
            expects to be freed, as a bound method holds its object.
        request: of the last task.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, float], CallKind] = {}
        self.function = ""
        self.request: object = None
        self.last = CallKind("", 0)

    def of(self, function: str, request: Resource) -> CallKind:
        """Return the kind of a task, which is `last` from then on."""
        key = function, cores_of(request)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = CallKind(*key)
        kind.asks(request)
        self.function, self.request, self.last = function, request, kind
        return kind

    def now(
        self,
        running: Iterable[tuple[CallKind, float]],
        blocked: Mapping[CallKind, int],
        at: float,
        ahead: Mapping[CallKind, int] = NOTHING,
    ) -> list[CallKindNow]:
        """Return the kinds at one moment.

        Args:
            running: of each task that runs its kind, and when it began.
            ahead: how many tasks of each wait on a worker.
        """
        elapsed: dict[CallKind, list[float]] = {}
        for kind, began in running:
            elapsed.setdefault(kind, []).append(max(at - began, 0.0))
        kinds = []
        for kind in self._kinds.values():
            ran = tuple(elapsed.get(kind, ()))
            stuck = min(blocked.get(kind, 0), max(kind.left - len(ran), 0))
            waiting = max(kind.left - len(ran) - stuck, 0)
            kinds.append(
                CallKindNow(
                    kind.name,
                    kind.cores,
                    waiting,
                    stuck,
                    ran,
                    kind.seconds.count,
                    kind.seconds.total,
                    kind.seconds.most,
                    kind,
                    min(ahead.get(kind, 0), waiting),
                )
            )
        return kinds


def cores_of(request: Resource) -> float:
    """Return the cores for which a request asks, on all workers; of alternatives the first's."""
    first = request.alternatives()[0]
    part = first.get(Cores)
    workers = first.count if isinstance(first, Gang) else 1
    return workers * part.amount if isinstance(part, Cores) else 0.0


def _memory_of(request: Resource) -> float:
    """Return the memory for which a request without alternatives asks on each worker, in GB."""
    part = request.get(Memory)
    return part.M if isinstance(part, Memory) else 0.0


T = TypeVar("T", bound=SubmittedTask)


class ExecutorPhase(enum.Enum):
    """The phases of an executor, which passes through them once, in this order."""

    NEW = "new"  # its block was not entered yet
    STARTING = "starting"
    OPEN = "open"  # it takes tasks
    CLOSED = "closed"  # it takes none; those that it has may go on


class ExecutorBase(ABC, Generic[T]):
    """The base of executors, which define how a task runs: `submit_call` and `_living`.

    A subclass puts a task into `_tasks`, and takes it out before it calls `_hand_over` with its
    outcome. It sets `_phase` to open and to closed.

    Attributes:
        failed_by: of the alternatives that the last failed task asked for the one that it had.
        failed_on: where that task has failed; None if no other place differs from it.
    """

    def __init__(self) -> None:
        # Takes the numbers of a further attempt and of the first one, where there is a log.
        self._on_further: Callable[[int, int], object] | None = None
        self._tasks: Numbered[T] = Numbered()
        self._kinds = Kinds()
        self._writers = OutputWriters(GVAR.cwd)
        # The last task that has failed, and its kind: it may be tried again.
        self._last_failed = 0, self._kinds.last
        self.failed_by: Resource = ZERO
        self.failed_on: FailedOn | None = None
        self._done = self._failed = self._cancelled = self._not_begun = 0
        self._phase = ExecutorPhase.NEW
        self._idle = trio.Event()
        self._put_result, self._results = trio.open_memory_channel[Result](math.inf)
        # Not begun before it is entered, when the subclass is complete.
        self._context = self._living_alone()

    def submit(
        self, res: Resource, fn: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> int:
        """Queue a task and return at once.

        Args:
            res: the resources it needs.
            fn: an async function, called with the other arguments.

        Returns:
            The task's id, which is also in its entry of `results`.

        Raises:
            TypeError: res is not a resource.
            ExecutorClosed: the executor is not running, or was closed.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join.
            grain.worker.errors.PayloadError: the function or an argument cannot travel to where
                the task is to run.
        """
        if not isinstance(res, Resource):
            raise TypeError(f"submit({res!r}, ...): first come the resources, as in Cores(2)")
        return self.submit_call(res, Call(fn, args, kwargs))

    @abstractmethod
    def submit_call(
        self,
        res: Resource,
        call: Call,
        deliver: Deliver | None = None,
        *,
        priority: int = 0,
        urgency: float = 0.0,
        after: int = 0,
        avoid: tuple[FailedOn, ...] = (),
        past: PastAttempts | None = None,
    ) -> int:
        """Queue a task and hand its outcome to a function; see `GrainExecutor.submit_call`."""

    @abstractmethod
    def kinds(self) -> list[CallKindNow]:
        """Return the tasks by function and cores, also those kinds of which none is left."""

    def note_outlook(self, outlook: Outlook) -> None:
        """Record how far the mission is, for users who watch it from elsewhere."""

    def note_further(self, task: int, first: int) -> None:
        """Record that a task, which was just submitted, is a further attempt at the same call.

        Args:
            first: the number of the first attempt.
        """
        if self._on_further is not None:
            self._on_further(task, first)

    def note_retry(self, task: int) -> None:
        """Record that the task which has failed last is going to be submitted again.

        Its receiver says so before it returns; the further attempt has another number.
        """
        last, kind = self._last_failed
        if task == last:
            kind.failed -= 1
            self._last_failed = 0, kind

    def close(self) -> None:
        """Take no more tasks; `results` ends when those that are here have ended."""
        self._phase = ExecutorPhase.CLOSED
        if not self._tasks:
            self._put_result.close()

    @property
    def results(self) -> trio.MemoryReceiveChannel[Result]:
        """The result queue: ``(id, outcome)`` of each task as it ends.

        It holds the results that were not taken yet, without a bound; `statistics` counts them.
        """
        return self._results

    async def join(self) -> None:
        """Wait until no task is left; others may be submitted meanwhile and afterwards."""
        while self._tasks:
            if self._idle.is_set():  # others may wait for the same one
                self._idle = trio.Event()
            await self._idle.wait()

    async def __aenter__(self) -> Self:
        if self._phase is not ExecutorPhase.NEW:
            raise ExecutorClosed("an executor is used once; make another one")
        self._phase = ExecutorPhase.STARTING
        await self._context.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._context.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _living_alone(self) -> AsyncGenerator[None]:
        with ending_copies():
            async with self._living():
                yield

    @abstractmethod
    def _living(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which it takes tasks; leaving it waits for them."""

    def _check_open(self) -> None:
        if self._phase is not ExecutorPhase.OPEN:
            raise ExecutorClosed(
                "this executor takes no tasks: use it inside its `async with` block, before close()"
            )

    def _counted(
        self,
        queued: int,
        running: int,
        cores: tuple[float, float] = (0, 0),
        computing: float | None = None,
    ) -> Statistics:
        return Statistics(
            queued=queued,
            running=running,
            given=cores[0],
            cores=cores[1],
            computing=computing,
            results_waiting=self._results.statistics().current_buffer_used,
            done=self._done,
            failed=self._failed,
            cancelled=self._cancelled,
            not_begun=self._not_begun,
        )

    def _hand_over(
        self,
        task: int,
        record: T,
        ended: Outcome,
        *,
        cancelled: bool = False,
        begun: bool = True,
        seconds: float | None = None,
    ) -> None:
        """Count a task's outcome and give it to its receiver; it is out of `_tasks` already."""
        kind = record.kind
        kind.ended(None if cancelled else seconds)
        if cancelled:
            self._cancelled += 1
            self._not_begun += not begun
        elif type(ended) is outcome.Error:
            self._failed += 1
            kind.failed += 1
            self._last_failed = task, kind
            self.failed_by = record.asked_by
        else:
            self._done += 1
            kind.done += 1
        if record.deliver is not None:
            record.deliver(ended)
        else:
            self._put_result.send_nowait(Result(task, ended))
        if not kind.left and not self._tasks:  # the former takes less time
            self._idle.set()
            if self._phase is ExecutorPhase.CLOSED:
                self._put_result.close()
