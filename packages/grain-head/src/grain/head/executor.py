"""`GrainExecutor`: a scheduler with a local worker, for one mission."""

from __future__ import annotations

import math
import socket
import time
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
import outcome
import trio

from grain import GVAR
from grain.edge.channel import memory_channels
from grain.eventlog.usage import BRIEF
from grain.head.base import ExecutorBase, ExecutorPhase, SubmittedTask
from grain.head.collapse import collapsing
from grain.head.errors import TaskCancelled, TaskCrashed
from grain.head.events import (
    Event,
    Remark,
    SchedulerTrouble,
    Statistics,
    TaskFailed,
    WorkerCleaning,
    WorkerJoined,
    WorkerLeft,
)
from grain.head.needs.groups import MemoryUse
from grain.head.scheduler.explain import Explanation, explain, why_never
from grain.head.scheduler.outlived import CRASHES, wants_worker
from grain.head.scheduler.places import RunPlace, gpus_of, set_aside_texts
from grain.head.scheduler.scheduler import Scheduler
from grain.head.scheduler.state import split_time
from grain.resource import ZERO, Cores, GPUs, Infeasible, Resource, Supply, to_data
from grain.worker import (
    Call,
    Computing,
    MemoryTranslation,
    Runner,
    RunSettings,
    directory_at_start,
    local_offer,
)
from grain.worker.call import call_text, name_of
from grain.worker.errors import exceeded_memory
from grain.worker.messages import Cancel, Ended, PastAttempts, StartRun

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from grain.edge.channel import Batch, Channel, MemoryChannel
    from grain.eventlog.usage import RunReport
    from grain.head.base import CallKindNow, Deliver
    from grain.head.messages import Crash, FailedOn, WorkerFacts
    from grain.head.run_log import RunLog
    from grain.head.scheduler.state import Task, TaskQueue
    from grain.worker import RunAccount
    from grain.worker.call import Outcome

    WorkerChannel = Channel[Call | None, Outcome | None]
    """The messages to the local worker, and its answers."""

_LOCAL = 0  # the local worker's id
_EPOCH = 0  # no head succeeds this one; a task has one run at a time, which goes by the task's id


class LocalTask(SubmittedTask, eq=False, kw_only=True):
    """A task of the local worker."""

    call: Call
    cancelled: bool = False
    past: PastAttempts | None = None
    priority: int = 0


class CrashedTask(msgspec.Struct, eq=False):
    """The crashes of a task that is not resolved.

    Attributes:
        request: what it asks for.
        crashes: those so far.
        alone: True if it is given the whole worker; it may use what it asked for.
    """

    request: Resource
    crashes: tuple[Crash, ...] = ()
    alone: bool = False

    def part_of(self, allocation: Resource) -> Resource:
        """Return what its next run may use of what it is given."""
        if not self.alone:
            return allocation
        wtime, space = split_time(allocation)
        part = Supply(space).alloc(split_time(self.request)[1])
        return part if wtime is None else part & wtime


def infeasible(request: Resource, why: str, local: Resource) -> Infeasible:
    """Return the error for a request that the only worker can never meet.

    Args:
        why: what the worker lacks.
        local: its resources as the user has stated them.
    """
    # What the worker has enough of stays: other tasks may need it.
    needed = {**local.parts()}
    for kind, part in request.alternatives()[0].parts().items():
        if kind not in needed or not needed[kind].request(part):
            needed[kind] = part.whole() if isinstance(part, Cores | GPUs) else part
    enough = " & ".join(part.ask() for part in needed.values())
    return Infeasible(
        f"a task that asks for {request.ask()} can never run here ({why}), and no other worker can "
        "join: ask for less, or give the local worker what it needs: "
        f"run(..., local={enough})"
    )


def local_facts(name: str, resources: Resource) -> WorkerFacts:
    """Return a local worker as it stands in a log; its name is its id."""
    from grain.head.messages import WorkerFacts  # few missions with a local worker have a log

    return WorkerFacts(name, name, socket.gethostname(), to_data(resources))


class GrainExecutor(ExecutorBase[LocalTask]):
    """An executor that runs tasks on the local worker, in this process.

    Tasks go into one queue with `submit`, and come out of one queue, `results`::

        async with GrainExecutor(Cores(2)) as executor:
            ids = [executor.submit(Cores(1), tasklet, i) for i in range(4)]
            executor.close()
            async for id, outcome in executor.results:
                print(id, outcome.unwrap())

    Leaving the ``async with`` block waits until every task has ended. Leaving it by an exception,
    cancellation or Ctrl-C cancels the tasks, and returns when nothing of them is left.

    Args:
        local: the resources of the local worker. A number of cores takes so many CPUs of those
            that this process may use and no other worker of this machine has.
        name: the local worker's name; by default that of the host.
        on_event: called with each `grain.head.events.Event`, in order.
        env: changes to the environment of the external programs of all tasks; None as a value
            removes a variable.
        max_overtakes: how often a task may be overtaken before a worker is reserved for it, see
            `grain.head.Scheduler`.
        run_log: records what happens to the tasks.

    Raises:
        TypeError: ``local`` is not a resource.
    """

    def __init__(
        self,
        local: Resource = ZERO,
        *,
        name: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        env: Mapping[str, str | None] | None = None,
        max_overtakes: int | None = None,
        run_log: RunLog | None = None,
    ) -> None:
        if not isinstance(local, Resource):
            raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
        local.parts()  # raises it for alternatives
        super().__init__()
        self.local = local
        self.name = f"{name or socket.gethostname()}(local)"
        self._on_event = on_event or (lambda _: None)
        self._run_log = run_log
        self._on_further = None if run_log is None else run_log.retried
        self._host = socket.gethostname()
        self._env = dict(env or {})
        self._scheduler = Scheduler(max_overtakes=max_overtakes)
        self._cpu = Computing(with_self=True)
        self._last_id = 0
        self._outbox: list[tuple[StartRun | Cancel, Call | None]] = []
        # Of tasks that are not resolved, the crashes of earlier runs.
        self._crashes: dict[int, CrashedTask] = {}
        self._wake = trio.Event()
        # Ends the wait for `_wake` when the scheduler is to be asked again.
        self._timer = trio.CancelScope()
        # True if `_wake` was set for a task that was submitted, and nothing was dispatched since.
        self._awake = False
        if run_log is not None:
            priority_of = attrgetter("priority")
            run_log.follow(self._tasks, self._note_starts, self._label_of, self.kinds, priority_of)

    # ---- the queue of tasks

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
        """Queue a task and hand its outcome to a function instead of the result queue.

        Args:
            res: the resources it needs.
            call: what to run.
            deliver: called once with the task's outcome, in the executor's own trio task or in
                `cancel`: it must return soon and raise nothing. The outcome of a cancelled task is
                `grain.head.errors.TaskCancelled`. If None, the outcome goes to `results`.
            priority: larger goes first.
            urgency: larger goes first among those that ask for the same at the same priority.
            after: the task for whose end the caller had last waited, for the event log; 0 for none.
            avoid: where earlier attempts at it have failed (`failed_on`): it goes elsewhere first.
            past: these attempts, which it sees by ``GVAR.last``; None if there were none.

        Returns:
            The task's id.

        Raises:
            ExecutorClosed: the executor is not running, or was closed.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join. If
                time runs out for the task while it waits, this is its outcome.
        """
        self._check_open()
        queue = self._scheduler.queue(res, priority)
        if avoid:
            places = {RunPlace(_LOCAL, gpu) for one in avoid for gpu in one.gpus}
            queue = self._scheduler.queue(res, priority, avoid=tuple(sorted(places)))
        if not queue.serving_shapes or queue.only is None or queue.only.need:
            self._check_served(queue)
        self._last_id = task = self._last_id + 1
        self._scheduler.on_submitted(task, queue, urgency=urgency)
        run_log = self._run_log
        if not self._awake:
            self._awake = True
            self._wake.set()
            if run_log is not None:
                # Once for tasks that are dispatched together; and every end has the clock read, so
                # none of them precedes what it waited for.
                run_log.tick()
        submitted = None if run_log is None else run_log.now
        kinds = self._kinds
        kind, name = kinds.last, name_of(call.fn)
        if name != kinds.function or queue.request is not kinds.request:
            kind = kinds.of(name, queue.request)
        kind.left += 1
        self._tasks[task] = LocalTask(
            call.fn, queue.request, kind, deliver, urgency, after, submitted, call=call, past=past,
            priority=priority,
        )  # fmt: skip
        return task

    def cancel(self, task: int) -> None:
        """Cancel a task; without effect on one that has ended or is unknown.

        Its outcome is `grain.head.errors.TaskCancelled`: at once if it waits, and if it runs, when
        it has ended with all its processes.
        """
        unwanted = self._tasks.get(task)
        if unwanted is None or unwanted.cancelled:
            return
        unwanted.cancelled = True
        running = self._scheduler.on_cancelled(task)
        if running is None:
            self._resolve(task, None, begun=False)
        else:
            self._outbox.append((Cancel((_EPOCH, task)), None))
        self._wake.set()

    # ---- questions

    def statistics(self) -> Statistics:
        """Return the counts of tasks by their state."""
        scheduler = self._scheduler
        return self._counted(
            scheduler.waiting, scheduler.running, scheduler.cores(), self._computing()
        )

    def _computing(self) -> float | None:
        """Return on how many cores this process and those below it compute, by the last look.

        A look takes a millisecond or so, and there is none unless a display watches the tasks.
        """
        computing = self._cpu
        if not self._scheduler.running:
            computing.begin()
        elif trio.lowlevel.in_trio_run() and (now := trio.current_time()) >= computing.due:
            computing.look(now)
        return computing.cores

    def kinds(self) -> list[CallKindNow]:
        """Return the tasks by function and cores."""
        records, worker = self._tasks, self._scheduler.workers.get(_LOCAL)
        tasks = () if worker is None else worker.tasks.values()
        running = [(records[one.id].kind, one.started) for one in tasks if one.id in records]
        return self._kinds.now(running, {}, trio.current_time())

    def why(self, task: int) -> Explanation:
        """Explain why a task is not running."""
        return explain(self._scheduler, task, trio.current_time())

    # ---- lifecycle

    def _settings(self, *, bind: bool) -> RunSettings:
        """Return the settings of all runs; within a run of another mission, over those."""
        outer = GVAR.surroundings
        cwd = outer.cwd or directory_at_start()
        if self._env or not bind:
            return RunSettings(cwd, self._env, bind)
        if isinstance(outer, RunSettings):
            return outer._replace(cwd=cwd)
        return RunSettings(cwd, outer.env)

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        ours: MemoryChannel[Call | None, Outcome | None]
        theirs: MemoryChannel[Outcome | None, Call | None]
        ours, theirs = memory_channels()
        try:
            # From the second on, what the block raised is the user's exception.
            with local_offer(self.local) as offer, collapsing():
                if offer.remark:
                    self._on_event(Remark(offer.remark))
                settings = self._settings(bind=offer.bind)
                runner = Runner(self.name, theirs, MemoryTranslation(settings))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(runner.serve)
                    nursery.start_soon(self._receive, ours)
                    nursery.start_soon(self._serve_submissions, ours)
                    self._scheduler.on_worker_joined(
                        _LOCAL, self.name, offer.resources, trio.current_time()
                    )
                    self._on_event(WorkerJoined(self.name, offer.resources))
                    if self._run_log is not None:
                        self._run_log.worker_joined(local_facts(self.name, offer.resources))
                    self._phase = ExecutorPhase.OPEN
                    try:
                        yield
                        await self.join()
                    finally:
                        self._phase = ExecutorPhase.CLOSED
                        self._on_event(WorkerCleaning(self.name))
                        nursery.cancel_scope.cancel()
        finally:
            if self._run_log is not None:
                self._note_starts()
            for task in list(self._tasks):
                scheduled = self._scheduler.tasks.get(task)
                begun = scheduled is not None and scheduled.worker is not None
                self._resolve(task, None, begun=begun)
            self._put_result.close()
            if self._run_log is not None:
                self._run_log.worker_left(self.name)
            self._on_event(WorkerLeft(self.name))

    async def _serve_submissions(self, channel: WorkerChannel) -> None:
        """Dispatch whenever tasks were submitted or cancelled, or may take other alternatives."""
        while True:
            with trio.CancelScope(deadline=self._scheduler.next_time) as self._timer:
                await self._wake.wait()
            self._wake = trio.Event()
            self._awake = False
            self._dispatch(channel)

    async def _receive(self, channel: WorkerChannel) -> None:
        """Dispatch whenever runs have ended."""
        while True:
            self._take(await channel.receive())
            self._dispatch(channel)

    def _dispatch(self, channel: WorkerChannel) -> None:
        """Send the worker the runs that start, at most as many as its resources allow."""
        now = trio.current_time()
        taken = self._scheduler.taken
        for start in self._scheduler.dispatch(now):
            if taken and start.task in taken:
                self._tasks[start.task].alternative = taken[start.task].index
            # When the worker runs out of its time, it quits.
            limit: float | None = min(start.limit, self._scheduler.workers[_LOCAL].end - now)
            if limit == math.inf:
                limit = None
            allocation = start.allocation
            if self._crashes and start.task in self._crashes:
                allocation = self._crashes[start.task].part_of(allocation)
            record = self._tasks[start.task]
            run = StartRun((_EPOCH, start.task), allocation, limit, past=record.past)
            self._outbox.append((run, record.call))
        if self._outbox:
            batch, self._outbox = self._outbox, []
            channel.post(batch)
        self._timer.deadline = self._scheduler.next_time
        if (
            self._scheduler.waiting
            and not self._scheduler.workers[_LOCAL].tasks
            and self._timer.deadline == math.inf
        ):
            self._give_up(now)

    def _give_up(self, now: float) -> None:
        """End all waiting tasks: nothing runs and yet nothing starts, as time has run out."""
        for task in list(self._tasks):
            scheduled = self._scheduler.tasks.get(task)
            if scheduled is None:
                continue  # the receiver of another outcome has just cancelled it
            request = scheduled.queue.request
            why = why_never(self._scheduler, request, now)
            self._scheduler.on_cancelled(task)
            error = Infeasible(
                f"a task that asks for {request.ask()} can never run here any more ({why}), and no "
                "other worker can join: give the local worker more time, or run fewer tasks"
            )
            self._resolve(task, outcome.Error(error))

    def _take(self, batch: Batch[Outcome | None]) -> None:
        now = trio.current_time()
        if self._run_log is not None:
            self._run_log.now = now
        for message, payload in batch:
            assert isinstance(message, Ended)
            task = message.attempt[1]
            if message.crash and not self._tasks[task].cancelled:
                self._on_crash(task, message, now)
                continue
            ran = self._scheduler.tasks[task]
            began = ran.started
            failed = type(payload) is outcome.Error
            use = self._use(message.report, payload) if ran.queue.learns else None
            # One that needed more memory than it had says nothing of its place.
            if (failed or self._scheduler.places.watches) and not (use and use.exceeded):
                self._note_outcome(ran, task, now, failed=failed)
            measured = message.status == "done"
            self._scheduler.on_finished(task, now, measured=measured, use=use)
            self._resolve(task, payload, report=message.report, ran=now - began)

    def _note_outcome(self, ran: Task, task: int, now: float, *, failed: bool) -> None:
        """Note where a run has ended, and whether GPUs are set aside for that."""
        from grain.head.messages import FailedOn  # failures are rare

        record = self._tasks[task]
        gpus = gpus_of(ran.held)
        self.failed_on = FailedOn("", gpus) if gpus else None
        if record.cancelled or not gpus:
            return
        self._scheduler.on_outcome(task, record.name, now, failed=failed)
        places = self._scheduler.places
        news, places.news = places.news, []
        for one in news:
            self._on_event(
                SchedulerTrouble(*set_aside_texts(one, "", str(one.function)), aside=True)
            )

    def _use(self, account: RunAccount, ended: Outcome | None) -> MemoryUse | None:
        """Return the memory that a run has used, if that says something to its group."""
        exceeded = type(ended) is outcome.Error and exceeded_memory(ended.error)
        usage = account.usage
        if exceeded or (type(ended) is outcome.Value and usage.measured_by != "none"):
            return MemoryUse(usage.peak_memory, exceeded)
        return None

    def _on_crash(self, task: int, message: Ended, now: float) -> None:
        """Let a task wait again whose run has crashed; or give it up.

        The rules are those of the hub: after some crashes it runs by itself, after more it fails.
        """
        from grain.head.messages import Crash, after_crash  # seldom needed

        ended = self._scheduler.tasks[task]
        self._scheduler.on_finished(task, now, measured=False)
        crashed = self._crashes.get(task)
        if crashed is None:
            crashed = self._crashes[task] = CrashedTask(ended.queue.request)
        count = len(crashed.crashes) + 1
        how, why = message.crash, message.interruption
        crash = Crash((_EPOCH, task), self.name, how, time.time(), interruption=why)
        if self._run_log is not None:
            self._run_log.started((task,), self.name, ended.started)
            self._run_log.crashed(task, crash, self._report_of(message.report))
        crashed.crashes = (*crashed.crashes, crash)
        self._tasks[task].past = after_crash(self._tasks[task].past, crash)
        if count >= CRASHES:
            name = self._tasks[task].name
            text = f"{name} was given up: what it ran in died {count} times"
            error = TaskCrashed(text, crashed.crashes)
            self._resolve(task, outcome.Error(error), report=message.report)
            return
        if self._run_log is not None:
            self._run_log.started((task,), "", now)
        request = crashed.request
        if wants_worker(crashed.crashes):
            crashed.alone = True
            total = self._scheduler.workers[_LOCAL].supply.total
            record = self._tasks[task]
            for index, one in enumerate(request.alternatives()):
                if total.request(split_time(one)[1]):
                    crashed.request, record.alternative = one, index
                    break
            wtime = split_time(crashed.request)[0]
            request = total if wtime is None else total & wtime
        queue = self._scheduler.queue(request, ended.queue.priority)
        self._scheduler.on_submitted(task, queue, ended.age, ended.urgency)

    def _resolve(
        self,
        task: int,
        ended: Outcome | None,
        *,
        begun: bool = True,
        report: RunAccount | None = None,
        ran: float | None = None,
    ) -> None:
        """Hand over the outcome of a task; None if it was cancelled."""
        record = self._tasks.pop(task)
        if self._crashes:
            self._crashes.pop(task, None)
        error: BaseException | None = None
        cancelled = ended is None or record.cancelled
        if ended is None or cancelled:
            error = TaskCancelled(f"{record.name} was cancelled (task {task})")
            ended = outcome.Error(error)
        elif type(ended) is outcome.Error:
            error = ended.error
            _, args, kwargs = record.call
            text = partial(call_text, record.name, args, kwargs)
            self._on_event(TaskFailed(task, error, "", text))
        if report is not None and report.ran is not None:
            shared = self._writers.note(task, record.name, self._report_of(report))
            if shared:
                self._on_event(Remark(shared))
        run_log = self._run_log
        if run_log is None:
            pass
        elif (
            error is None
            and report is not None
            and report.ran is None
            and record.submitted is not None
            and not run_log.room
            and 0.0 <= (seconds := report.ended - report.started) <= BRIEF
        ):
            # As `run_log.count` does, whose call would cost as much again.
            last = run_log.last
            if record.call.fn is not last.key or record.request is not last.request:
                last = run_log.count_for(record, run_log.now - seconds)
            last.tasks += 1
            last.seconds += seconds
            last.taken += run_log.now - record.submitted
        else:
            crashed = type(error) is TaskCrashed
            run_log.ended(
                task,
                error,
                record=record,
                cancelled=cancelled,
                crashed=crashed,
                report=b"" if report is None else self._report_of(report, error),
                worker="" if report is None else self.name,
                call=partial(self._label, record),
            )
        self._hand_over(task, record, ended, cancelled=cancelled, begun=begun, seconds=ran)

    def _note_starts(self) -> None:
        """Note the starts of the tasks that run, for the event log, when that looks for them."""
        worker = self._scheduler.workers.get(_LOCAL)
        if worker is not None and self._run_log is not None:
            for task in worker.tasks.values():
                by = self._scheduler.taken.get(task.id)
                alternative = 0 if by is None else by.index
                self._run_log.started((task.id,), self.name, task.started, alternative)

    def _label_of(self, task: int) -> str:
        """Return the call of a task that is not resolved, for the event log."""
        unresolved = self._tasks.get(task)
        return "" if unresolved is None else self._label(unresolved)

    def _label(self, record: LocalTask) -> str:
        _, args, kwargs = record.call
        return "" if self._run_log is None else self._run_log.labels.of(record.name, args, kwargs)

    def _report_of(self, account: RunAccount, error: BaseException | None = None) -> RunReport:
        exceeded = error is not None and exceeded_memory(error)
        return account.report(self._host, self.name, exceeded=exceeded)

    def _check_served(self, queue: TaskQueue) -> None:
        """Refuse a request that the worker could never meet."""
        why = why_never(self._scheduler, queue.request, trio.current_time())
        if why is not None:
            raise infeasible(queue.request, why, self.local)
