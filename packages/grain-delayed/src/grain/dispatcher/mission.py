"""The dispatcher: a mission whose calls are the attempts of jobs."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING

import outcome
import trio

from grain.dispatcher.desk import Desk, next_pause
from grain.dispatcher.unmet import UnmetRequests
from grain.files.batch_jobs import jobs_over
from grain.head import collapsing
from grain.head.messages import AVOIDED
from grain.head.needs.again import replaced
from grain.queue.dispatchers import ROUSE
from grain.queue.errors import QueueError
from grain.queue.states import FINAL, next_memory
from grain.resource import Cores, ResourceError, WTime, from_data
from grain.worker import Call
from grain.worker.errors import noted_last
from grain.worker.jobs.run import GRACE, AttemptCall, JobError, JobFunction, JobMemoryError, NotRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from grain.dispatcher.plan import TaskAttempt
    from grain.files.batch_jobs import WorkerJob
    from grain.head.messages import Crash, FailedOn
    from grain.queue.folder import Queue
    from grain.queue.records import Job
    from grain.remote_exer import RemoteExecutor
    from grain.resource import Memory, Resource

_log = logging.getLogger("grain.dispatcher")

WAITING = 2000
"""The most attempts of one kind of request that are handed to the scheduler and have not ended,
beside those that run."""

MOST_PRIORITY = 1_000_000_000
"""The largest number that counts as a priority."""

TICKETS = 1_000_000_000
"""Each dispatcher counts its calls from its own number times this, so that none counts as another
one did."""

_LOOK = 0.25  # seconds between two looks for new jobs and wishes
_TOGETHER = 0.05  # seconds in which ends are gathered, while workers have enough to do
_LOOK_UNMET = 1.0  # seconds between two looks for requests that no worker can meet
_LOOK_AWAY = 5.0  # seconds between two looks for the end of a run that no executor knows
# Seconds between two questions to batch systems about the same runs, and at least until one about
# further runs. Slurm lists a job for 300 s after its end, unless the site says otherwise
# (MinJobAge in slurm.conf(5)), and a run is in doubt some minutes after that.
_ASK = 240.0
_ASK_FURTHER = 60.0
_NAMES = 200  # of jobs, by which the scheduler tells functions apart
_PAUSE = 5.0  # seconds until an attempt is tried again that has not begun
_UNREAD = 1.0  # seconds until receipts are tried again that cannot be read
# Tries of an attempt that ends before it has begun, until it counts as failed: for longer than
# names on a worker's host are old, which may not see the job.
_REFUSED = 20
_FAILED = 10_000  # jobs whose attempts have failed, of which it is known where


class DispatchLoop:
    """The jobs of a queue and an executor, until another dispatcher takes over.

    Args:
        executor: of a lasting mission with the id of the queue; its calls survive this process.
        ask: asks batch systems, see `jobs_over`.
        remembered: the number of tasks of which the first call is remembered, until those that have
            ended are looked for.

    Attributes:
        busy_at: the last time at which there were jobs, by the clock of trio.
        first: the tickets of the first calls of tasks of which another call follows.
    """

    def __init__(
        self,
        queue: Queue,
        desk: Desk,
        executor: RemoteExecutor,
        ask: Callable[[Sequence[WorkerJob]], Awaitable[list[str | None]]] = jobs_over,
        remembered: int = 1000,
    ) -> None:
        self._queue = queue
        self._desk = desk
        self._executor = executor
        self._jobs_over = ask
        # Commands find there which task of the mission an attempt is.
        self._tickets = desk.book.tickets
        self._tickets.clear()
        self._starts: dict[int, TaskAttempt] = {}  # by ticket
        self._ticket = desk.number * TICKETS
        self._functions: dict[str, JobFunction] = {}
        self._kinds: dict[TaskAttempt, str] = {}
        self._handed: defaultdict[str, int] = defaultdict(int)
        self._tries: dict[TaskAttempt, int] = {}
        self._recalled: set[TaskAttempt] = set()
        # The attempts under way after which another one follows if they fail. All that is shown of
        # the mission counts a further call as one at the same thing as the first.
        self._followed: set[TaskAttempt] = set()
        # What they ask for, where their group learns it.
        self._memory: dict[TaskAttempt, Memory] = {}
        self.first: dict[tuple[int, int | None], int] = {}
        self._remembered = self._most_first = remembered
        self._later: deque[tuple[float, TaskAttempt]] = deque()
        self._crashes: list[tuple[int, Crash]] = []
        executor.on_crash = self._on_crash
        self._ends: list[tuple[TaskAttempt, outcome.Outcome[None]]] = []
        # Where attempts at jobs have failed, which go elsewhere first; of the last ones.
        self._failed_on: dict[tuple[int, int | None], tuple[FailedOn, ...]] = {}
        self._unmet = UnmetRequests()
        self._woken = trio.Event()
        self._one_thread = trio.CapacityLimiter(1)
        self.busy_at = trio.current_time()

    async def run(self) -> None:
        """Dispatch jobs until another dispatcher is in charge.

        Cancelling it ends no run, and forgets what has not begun: the next dispatcher
        hands it over again.

        Raises:
            OSError, QueueError: the receipts of what runs cannot be read at the begin.
        """
        with collapsing():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask_batch_systems)
                await nursery.start(self._heed_commands)
                await self._dispatch()
                nursery.cancel_scope.cancel()

    async def _heed_commands(self, task_status: trio.TaskStatus[None]) -> None:
        """Look at once when a command says so, see `LiveDispatcher.rouse`."""
        with trio.open_signal_receiver(ROUSE) as signals:
            task_status.started()
            async for _ in signals:
                self._woken.set()

    async def _dispatch(self) -> None:
        for adopted in await self._blocking(self._desk.adopted):
            if adopted.ticket:
                self._submit(adopted.start, adopted.ticket)
        look_away = look_unmet = trio.current_time()
        while True:
            try:
                news = await self._blocking(self._desk.look)
                if not news.in_charge:
                    return
                if news.busy:
                    self.busy_at = trio.current_time()
                self._recalled |= self._tickets.keys() & news.recalls
                for stop in (*news.stops, *news.recalls):
                    if stop in self._tickets:
                        self._executor.cancel(self._tickets[stop])
                await self._take_crashes()
                await self._take_ends()
                self._give_back()
                self._forget_first()
                if trio.current_time() >= look_away:
                    look_away = trio.current_time() + _LOOK_AWAY
                    await self._look_away()
                if trio.current_time() >= look_unmet:
                    look_unmet = trio.current_time() + _LOOK_UNMET
                    await self._tell_unmet()
            except (OSError, QueueError) as error:
                # Nothing is lost: the same is read again.
                _log.warning("%s; trying again", error)
                await trio.sleep(1.0)
            for start in self._desk.plan.starts(time.time(), self._room):
                self._ticket += 1
                self._submit(start, self._ticket)
            await self._wait()

    async def _wait(self) -> None:
        """Wait for something to do."""
        with trio.move_on_after(next_pause(self._desk.plan, _LOOK)):
            await self._woken.wait()
            if len(self._tickets) - len(self._ends) > self._executor.statistics().running:
                await trio.sleep(_TOGETHER)
        self._woken = trio.Event()

    def _room(self, kind: str) -> int:
        """Return how many more attempts of a kind of request may be handed over.

        Those of one kind that no worker can meet do not keep others from workers.
        """
        return WAITING + self._executor.statistics().running - self._handed[kind]

    def _submit(self, start: TaskAttempt, ticket: int) -> None:
        entry = self._desk.book.entries[start.number]
        job = entry.job_of(start.task)
        what = AttemptCall(
            str(self._queue.folder), start.number, start.task, start.attempt, ticket,
            self._desk.book.next_wish, self._queue.mission, entry.asked(start.task).timeout,
        )  # fmt: skip
        self._tickets[start] = ticket
        self._starts[ticket] = start
        kind = self._kinds[start] = self._desk.plan.kind(start.number)
        self._handed[kind] += 1
        if self._desk.plan.goes_on(start):
            self._followed.add(start)
        self._desk.note_tickets()
        try:
            self._executor.submit_call(
                self._request(start, job),
                Call(self._function(job.name), (what,), {}),
                partial(self._deliver, start),
                # One job with a number that no message can have would end every dispatcher.
                priority=max(-MOST_PRIORITY, min(job.priority, MOST_PRIORITY)),
                avoid=self._failed_on.get((start.number, start.task), ()),
                number=ticket,
            )
            if first := self.first.get((start.number, start.task), 0):
                self._executor.note_further(ticket, first)
        except (ResourceError, ValueError) as error:
            self._tries[start] = _REFUSED  # it does not pass
            self._ends.append((start, outcome.Error(error)))

    def _request(self, start: TaskAttempt, job: Job) -> Resource:
        """Return what an attempt asks for: more memory after one that had too little."""
        request, entry = request_of(job), self._desk.book.entries[start.number]
        runs = [run for run in entry.runs.get(start.task, ()) if run.attempt < start.attempt]
        memory = next_memory(job, runs, entry.asked(start.task))
        if memory is None:
            return request
        self._memory[start] = memory
        return replaced(request, memory)

    def _climbs(self, start: TaskAttempt, error: JobError) -> bool:
        """Return True if another attempt follows one that needed more memory than it had."""
        memory = self._memory.get(start)
        amount = getattr(error, "memory_request", 0.0)
        return bool(memory and amount and memory.after(amount, last=noted_last(error)))

    def _function(self, name: str) -> JobFunction:
        """Return the function that runs jobs of a name; the last ones of many have one name."""
        if name not in self._functions and len(self._functions) >= _NAMES:
            name = "other jobs"
        return self._functions.setdefault(name, JobFunction(name))

    def _deliver(self, start: TaskAttempt, ended: outcome.Outcome[None]) -> None:
        task, ticket = (start.number, start.task), self._tickets.get(start)
        error = ended.error if isinstance(ended, outcome.Error) else None
        followed = start in self._followed
        if isinstance(error, JobMemoryError):
            followed = self._climbs(start, error)
        over = error is None or (isinstance(error, JobError) and not followed)
        if over or ticket is None:
            self.first.pop(task, None)
        else:
            self.first.setdefault(task, ticket)
            self._executor.note_retry(ticket)
        self._followed.discard(start)
        self._memory.pop(start, None)
        known = self._failed_on.pop(task, ())
        failed_on = None
        if not over and not isinstance(error, JobMemoryError):  # that says nothing of its place
            failed_on = self._executor.failed_on
        if failed_on is not None and failed_on not in known:
            known = (*known, failed_on)[-AVOIDED:]
        if known and not over:
            self._failed_on[task] = known
            if len(self._failed_on) > _FAILED:
                del self._failed_on[next(iter(self._failed_on))]
        self._ends.append((start, ended))
        self._woken.set()

    def _on_crash(self, ticket: int, crash: Crash) -> None:
        if crash.known:
            self._crashes.append((ticket, crash))
            self._woken.set()

    async def _take_crashes(self) -> None:
        """End the attempts of runs that have crashed, and what has come of their calls since.

        The scheduler runs such a call again, which finds its attempt taken, perhaps after hours.
        """
        while self._crashes:
            ticket, crash = self._crashes[0]
            await self._blocking(partial(self._desk.note_crash, ticket, crash.attempt, crash.how))
            start = self._starts.get(ticket)
            if (
                start is not None
                and await self._blocking(partial(self._desk.has_crashed, start))
                and await self._blocking(partial(self._desk.end_lost, [start]))
            ):
                self._executor.cancel(ticket)
            del self._crashes[0]

    async def _take_ends(self) -> None:
        if not self._ends:
            return
        ends, self._ends = self._ends, []
        unread = []
        try:
            over = await self._blocking(partial(self._desk.read_all, [one for one, _ in ends]))
            while ends:
                start, ended = ends[-1]
                if start not in over:
                    unread.append(ends.pop())
                    continue
                if not over[start]:
                    await self._go_on(start, ended)
                ends.pop()
                self._recalled.discard(start)
                if (ticket := self._tickets.pop(start, None)) is not None:
                    del self._starts[ticket]
                    self._handed[self._kinds.pop(start)] -= 1
        finally:
            self._ends += ends + unread
        if unread:
            await trio.sleep(_UNREAD)

    async def _go_on(self, start: TaskAttempt, ended: outcome.Outcome[None]) -> None:
        """Decide about an attempt whose call has ended, and which has no end."""
        if await self._blocking(partial(self._desk.has_begun, start)):
            return  # its worker is lost to the scheduler; only files or a death end it
        if start in self._recalled:
            self._later.appendleft((trio.current_time(), start))  # at once
            return
        error = ended.error if isinstance(ended, outcome.Error) else NotRun("taken")
        why, passing = str(error), False
        if isinstance(error, NotRun):
            passing = error.passing
            # Another one has begun it, and names here are old; or its worker's are, which did not
            # see the end of the attempt before.
            if error.what == "taken":
                why, passing = "another worker has it, or its last end is not seen yet", True
        tries = self._tries[start] = self._tries.get(start, 0) + (not passing)
        if tries < _REFUSED:
            _log.warning("job %d has not begun: %s; trying again", start.number, why)
            self._later.append((trio.current_time() + _PAUSE, start))
            return
        self._tries.pop(start, None)
        await self._blocking(partial(self._desk.refuse, start, f"no worker can run it: {why}"))

    def _give_back(self) -> None:
        """Let attempts be tried again that have waited long enough."""
        now = trio.current_time()
        while self._later and self._later[0][0] <= now:
            self._desk.give_back(self._later.popleft()[1])

    def _forget_first(self) -> None:
        """Forget the first calls of tasks that have ended before another one, as if cancelled."""
        if len(self.first) <= self._most_first:
            return
        entries, now = self._desk.book.entries, time.time()
        self.first = {
            (number, task): ticket
            for (number, task), ticket in self.first.items()
            if number in entries and entries[number].standing(task, now).state not in FINAL
        }
        self._most_first = max(self._remembered, 2 * len(self.first))

    async def _look_away(self) -> None:
        """Look at the attempts that are under way without a call."""
        away = [start for start in self._desk.plan.active() if start not in self._tickets]
        if away:
            await self._blocking(partial(self._desk.end_lost, away))

    async def _tell_unmet(self) -> None:
        """Tell commands which requests no worker can meet that is here, nor could for a while."""
        entries, starts = self._desk.book.entries, self._starts
        waiting = [
            (entries[starts[ticket].number].job, message)
            for ticket, message in self._executor.unmet().items()
            if ticket in starts
        ]
        if self._unmet.look(waiting, trio.current_time()):
            await self._blocking(partial(self._desk.note_unmet, self._unmet.known))

    async def _ask_batch_systems(self) -> None:
        """Ask them now and then whether the jobs of workers are over of which nothing is heard."""
        asked: set[TaskAttempt] = set()
        last = -math.inf
        while True:
            await trio.sleep(_LOOK_AWAY)
            doubts = await self._blocking(self._desk.in_doubt)
            pause = _ASK if doubts.keys() <= asked else _ASK_FURTHER
            if not doubts or trio.current_time() < last + pause:
                continue
            last, asked = trio.current_time(), set(doubts)
            found = await self._jobs_over(list(doubts.values()))
            for (start, job), how in zip(doubts.items(), found, strict=True):
                if how is not None:
                    why = f"the batch job of its worker on {job.host} is over"
                    why += how and f": {how}"
                    await self._blocking(partial(self._desk.note_death, start, why))

    async def _blocking(self, call: Any) -> Any:
        # A queue is for one thread at a time; what was begun is finished, as it may have written.
        return await trio.to_thread.run_sync(call, limiter=self._one_thread)


def request_of(job: Job) -> Resource:
    """Return what an attempt of a job asks for.

    Raises:
        ResourceError, ValueError: its kinds are not known here.
    """
    request = from_data(job.request) if job.request else Cores(1)
    if job.timeout and not math.isinf(job.timeout):
        # The job is ended at its own limit; the worker's limit is behind that.
        request = request & WTime(T=job.timeout + 2 * GRACE, softT=job.timeout)
    return request
