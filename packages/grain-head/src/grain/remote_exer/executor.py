"""`RemoteExecutor`: a mission's tasks on the workers of a scheduler that missions share."""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import outcome
import trio
from msgspec import structs

from grain.edge import DEFAULT
from grain.edge.address import BridgeAddress, parse_address
from grain.edge.version import own_versions
from grain.eventlog.soft_stops import SOFT_STOPS
from grain.eventlog.usage import decode_report
from grain.head import Explanation, Statistics
from grain.head.base import ExecutorBase, ExecutorPhase
from grain.head.collapse import collapsing
from grain.head.errors import TaskCancelled, TaskCrashed, TaskOutlivesWorkers
from grain.head.events import (
    CancelRequested,
    CanStart,
    Event,
    MembersApart,
    NeverStarts,
    NoWorkers,
    OtherSoftware,
    Remark,
    RunsEnded,
    RunsLeft,
    TaskBlocks,
    TaskFailed,
    TaskOutlived,
    WorkersLost,
    WorkersStopped,
)
from grain.head.functions import function_rows
from grain.head.messages import FUNCTIONS, LastAway, OtherVersions, SeveralMaxima, Submit, Trouble
from grain.head.scheduler.outlived import had_most, lasts_too_long, unreached
from grain.remote_exer.connector import GnawConnector
from grain.remote_exer.functions import FunctionCache
from grain.remote_exer.lanes import MOST_WAITING, MissionLanes, is_plain
from grain.remote_exer.lanes.door import LaneDoor
from grain.remote_exer.link import AT_ONCE, SchedulerLink
from grain.remote_exer.session import MissionSession, RemoteTask, Resolution, taken
from grain.resource import from_data, to_data
from grain.resource.figures import several_maxima, size_text
from grain.worker.call import call_text
from grain.worker.errors import PayloadError
from grain.worker.messages import DefineFunction
from grain.worker.payload import Function, Payloads, failure_in, interpreter_of
from grain.worker.session import mission_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

    from grain.edge.channel import WireBatch
    from grain.edge.version import Versions
    from grain.head.base import CallKindNow, Deliver
    from grain.head.messages import Crash, FailedOn, Outlook, Unschedulable
    from grain.head.run_log import RunLog
    from grain.remote_exer.lanes import CallTraffic
    from grain.remote_exer.link import Connect
    from grain.remote_exer.session import LastingMission
    from grain.resource import Resource
    from grain.worker import Call
    from grain.worker.call import Outcome
    from grain.worker.messages import PastAttempts

_WAIT = 2  # calls that wait where more of them are held
_MANY = 256  # outcomes that are confirmed without waiting for other messages
_LOAD = 2.0  # seconds between two questions about the load, where a user looks at it
_ANSWER = 5.0  # seconds after which a question is sent again
_STOPPED = 10.0  # seconds without a turn of the event loop that explain a loss
_FAREWELL = 10.0  # seconds for which leaving waits for a scheduler that is away


LARGE = 1_000_000
"""Bytes of a function from which a remark names what makes it large."""


def too_large(what: str, size: int, most: int) -> PayloadError:
    """Return the error of a payload that is too large to travel."""
    return PayloadError(
        f"{what}: {size} bytes are too many to travel, {most} at most; write large data to a "
        "file, and pass the path"
    )


def differences(worker: str, host: str, theirs: Versions) -> list[OtherSoftware]:
    """Return the events that report a worker of other versions than those of this process."""
    ours = own_versions()
    events: list[OtherSoftware] = []
    if not ours.runs_code_of(theirs):
        events.append(OtherSoftware(worker, host, theirs.interpreter, ours.interpreter))
    if not ours.loads_arrays_of(theirs):
        both = f"NumPy {theirs.numpy}", f"NumPy {ours.numpy}"
        events.append(OtherSoftware(worker, host, *both, numpy=True))
    return events


def large_words(function: Function, parts: list[tuple[str, int]]) -> str:
    """Return the sentence on a function that is large, and on what makes it large."""
    named = [
        f"{part[:-1]}, {size_text(count)})" if part[-1] == ")" else f"{part} ({size_text(count)})"
        for part, count in parts
    ]
    what = " and ".join(named) or f"{function.name} ({size_text(len(function.payload))})"
    travel = "travels" if len(named) < 2 else "travel"
    it = "it" if len(named) < 2 else "them"
    along = f" with {function.name}" if named else ""
    return (
        f"{what} {travel}{along} to every worker, and every new runner loads {it}: load {it} "
        "inside of the function, or pass a path"
    )


def cut_off_words(worker: str) -> str:
    """Return the sentence on a worker whose runner cannot connect to the mission."""
    return (
        f"{worker or 'a worker'} cannot connect to this process, so brief calls and large values "
        "take a slower way there; nothing is lost. Look for a firewall that refuses TCP "
        "connections to this host, by any port (GRAIN_INTERFACES, if it is set, has to name a "
        "network of both)"
    )


def _outlives(name: str, crashes: tuple[Crash, ...]) -> TaskOutlivesWorkers:
    """Return the error of a task that has outlived too many workers."""
    soft = tuple(crash for crash in crashes if crash.stopped_softly)
    if soft:
        return TaskOutlivesWorkers(
            f"{name} was given up: {SOFT_STOPS} times in a row, its program stopped softly as its "
            "worker ended. See that it goes on from what it has stored, and does not begin from "
            "the start; if it does, give workers more time (script.walltime in grain.toml)",
            soft,
        )
    runs = tuple(crash for crash in crashes if crash.outlived is not None)
    return TaskOutlivesWorkers(
        f"{name} was given up: it still ran when the time of its worker was over, {len(runs)} "
        "times. Give workers more time (script.walltime in grain.toml), or have it go on from what "
        "an earlier run has stored; with a WTime in its request, it starts only where it fits",
        runs,
    )


class RemoteExecutor(ExecutorBase[RemoteTask]):
    """An executor whose tasks go to a scheduler that missions share.

    It has the same face as `grain.GrainExecutor`. The scheduler may be killed and replaced at any
    time: tasks go on, and none is lost. It is looked for, and started if there is none, when the
    first task is submitted.

    Leaving the ``async with`` block waits until every task has ended. Leaving it by an exception,
    cancellation or Ctrl-C cancels the tasks, and returns when nothing of them is left, or at the
    latest ten seconds later if the scheduler is away, which then ends them by itself.

    With ``lasting``, leaving it in that way ends no run, and returns at once. Tasks that wait are
    forgotten. Neither are resolved: their receivers are not called.

    Args:
        address: where the scheduler is met; one is started there if there is none. Runners that
            cannot connect to the mission come by its directory or its bridge.
        name: what to call this mission.
        on_event: called, in order, with each `grain.head.events.Event`.
        connect: opens a channel to the scheduler for the mission of an id, instead of the address.
        until_direct: as `GnawConnector.until_direct`, of the same connector as ``connect``.
        env: changes to the environment of the external programs of all tasks; None as a value
            removes a variable. They travel with every task, so 64 KiB at most.
        run_log: records what happens to the tasks; the mission has its id, but for a lasting
            one.
        echo: True for events of what tasks print on workers, `grain.head.events.TasksPrinted`.
        number: that of the mission's label; 0 if it has none.
        lasting: the mission that this is a process of, if it outlives its processes.

    Attributes:
        on_crash: called with each task of which a run has crashed, and the crash.

    Raises:
        ValueError: ``env`` is too large.
        grain.head.errors.MissionReplaced: while it is open, in its block: a later process of the
            same lasting mission is connected to the scheduler.
    """

    def __init__(
        self,
        address: str = DEFAULT,
        *,
        name: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        connect: Connect | None = None,
        until_direct: Callable[[], Awaitable[object]] | None = None,
        env: Mapping[str, str | None] | None = None,
        run_log: RunLog | None = None,
        echo: bool = False,
        number: int = 0,
        lasting: LastingMission | None = None,
    ) -> None:
        super().__init__()
        self._run_log = run_log
        self._on_further = None if run_log is None else run_log.retried
        self.name = name or socket.gethostname()
        self._on_event = on_event or (lambda _: None)
        self.on_crash: Callable[[int, Crash], object] | None = None
        mission = secrets.token_hex(8) if run_log is None else run_log.id
        own, generation, first = mission, 0, 1
        if lasting is not None:
            # The log is that of this process only. All ids of lasting missions begin alike.
            mission, generation, first = lasting
            own = mission.rpartition("-")[2]
        self._session = MissionSession(
            mission,
            self.name,
            socket.gethostname(),
            os.getpid(),
            own_versions(),
            mission_settings(self.name, env or {}, echo=echo, id=own),
            number,
            generation,
            first,
        )
        if connect is None:
            finder = GnawConnector(address, name=self.name)
            connect, until_direct = finder.connect, finder.until_direct
        self._link = SchedulerLink(self._session, connect, self._take, self._on_event, until_direct)
        self._lanes = MissionLanes(self._session)
        self._traffic = self._lanes.traffic
        # An isolated worker has no address.
        self._at_bridge = address != "" and isinstance(parse_address(address), BridgeAddress)
        self._lane_door = LaneDoor(self._lanes, self._link.wake, self._on_lanes, address)
        self._payloads = Payloads(f"mission {self.name}")
        self._functions = FunctionCache(self._define)
        self._large: set[str] = set()  # functions that were reported as large
        self._requests: dict[tuple[Resource, int, str], int] = {}
        # By the identity of objects that `_requests` keeps: most tasks bring the same object again,
        # and to hash a resource costs more than all else here.
        self._by_identity: dict[tuple[int, int, str], int] = {}
        # The requests that `_requests` keeps, by number.
        self._numbered: list[Resource] = []
        # Workers that are of no concern while nothing of this mission travels by value.
        self._other_interpreters: list[OtherSoftware] = []
        self._answered = trio.Event()
        self._cancel_reported = False
        # The functions of tasks that have outlived a worker, and whether they had most of its time:
        # one task of each is reported.
        self._outlived: set[tuple[str, bool]] = set()
        self._apart: set[str] = set()
        self._load_asked = -math.inf
        if run_log is not None:
            run_log.follow(
                self._tasks, self._note_starts, self._label, self.kinds, self._priority_of
            )
            self._session.reports = []

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
        number: int = 0,
        worker: str = "",
    ) -> int:
        """Queue a task whose outcome is handed to a function; as `GrainExecutor.submit_call`.

        Args:
            number: its own, if it is that of an earlier process of a lasting mission: its run, if
                it has one, goes on, and no other begins while a scheduler knows of that.
            worker: the id of the worker on which it was last said to run: a new scheduler starts it
                elsewhere only if that worker has reported without it, or does not come.

        Raises:
            ValueError: ``number`` is not larger than the numbers of all tasks so far.
            ExecutorClosed: the executor is not running, or was closed.
            grain.worker.errors.PayloadError: the function or an argument cannot be serialised, or
                is too large to travel.
        """
        self._check_open()
        function = self._functions.find(call.fn)
        arguments = self._payloads.dump_arguments(call.args, call.kwargs)
        size = len(arguments)
        if size > Submit.max_payload:
            raise too_large(f"the arguments of {function.name}", size, Submit.max_payload)
        interpreter = function.interpreter or interpreter_of(arguments)
        request = self._by_identity.get((id(res), priority, interpreter))
        if request is None:
            request = self._request_of(res, priority, interpreter)
        asked, kinds = self._numbered[request], self._kinds
        kind = kinds.last
        if function.name != kinds.function or asked is not kinds.request:
            kind = kinds.of(function.name, asked)
        record = RemoteTask(
            function.digest,
            asked,
            kind,
            deliver,
            urgency,
            after,
            arguments=arguments,
            asked=request,
            worker=worker,
        )
        first, run_log = not self._link.awake, self._run_log
        traffic = self._traffic[request]
        if (traffic.idle or first or traffic.may_be_brief) and not (
            number or worker or avoid or past
        ):
            task = self._board(traffic, record, first=first)
            if task:
                return task
        task = self._session.submit(record, number, avoid, past)
        if run_log is not None:
            if first:
                # Of the tasks that leave together, the first has the clock read; as has every end.
                run_log.tick()
            record.submitted = run_log.now
        kind.left += 1
        self._tasks[task] = record
        if worker:
            # A scheduler says where a task runs only if that differs from what it was told.
            self._session.running[task] = trio.current_time()
            if run_log is not None:
                run_log.started((task,), worker, run_log.now)
        if first:
            self._link.on_task()
        elif not task % AT_ONCE:
            self._link.flush()
        return task

    def _board(self, traffic: CallTraffic, record: RemoteTask, *, first: bool) -> int:
        """Send a task into a lane, or hold it for one; return its number, 0 if it is not for one.

        Args:
            first: True if it leaves by itself.
        """
        session, run_log, lanes = self._session, self._run_log, self._lanes
        now = trio.current_time()
        if traffic.idle and not traffic.held:
            task = lanes.board(traffic, record, now)
        elif session.lasts:
            return 0
        elif traffic.holding or (
            session.waiting_of(record.asked) >= (_WAIT if traffic.known else MOST_WAITING)
            and traffic.may_hold(now)
        ):
            task = lanes.hold(traffic, record, now)
            self._lane_door.start()
            if session.to_head and not self._link.flush():
                self._link.wake()
        elif not first or not (task := self._lane_door.on_submitting(record)):
            return 0
        record.kind.left += 1
        self._tasks[task] = record
        if run_log is not None:
            if first or record.worker:
                run_log.tick()
            record.submitted = run_log.now
            if record.worker:
                run_log.started((task,), record.worker, run_log.now)
        return task

    def _priority_of(self, record: RemoteTask) -> int:
        return self._session.requests.stated[record.asked].priority

    def _request_of(self, res: Resource, priority: int, interpreter: str) -> int:
        """Return the number of a request, which is stated to the scheduler once."""
        request = self._requests.get((res, priority, interpreter))
        if request is not None:
            return request
        request = self._session.request(to_data(res), priority, interpreter)
        self._numbered.append(res)
        self._lanes.add_request(plain=is_plain(res) and not self._session.lasts)
        self._requests[res, priority, interpreter] = request
        self._by_identity[id(res), priority, interpreter] = request
        if interpreter:
            for event in self._other_interpreters:
                self._on_event(event)
            self._other_interpreters.clear()
        return request

    def _define(self, fn: Callable[..., Any]) -> Function:
        function = self._payloads.dump_function(fn)
        size = len(function.payload)
        if size > DefineFunction.max_payload:
            what = f"the function {function.name}, with the data in it"
            raise too_large(what, size, DefineFunction.max_payload)
        if size >= LARGE and function.name not in self._large:
            self._large.add(function.name)
            self._on_event(Remark(large_words(function, self._payloads.large_parts(fn, LARGE))))
        return self._session.define(function)

    def cancel(self, task: int) -> None:
        """Cancel a task, as `GrainExecutor.cancel` does; but it is always resolved later.

        Of a lasting mission the task may be that of another process, or one that has an outcome and
        still runs somewhere: then this is tried once, if there is a connection.
        """
        self._cancel(task)
        self._link.wake()

    def _cancel(self, task: int) -> None:
        if not self._lanes.cancel(task):
            self._session.cancel(task)
        elif self._session.resolved:  # it was held; and is resolved later, as all are
            trio.lowlevel.current_trio_token().run_sync_soon(self._on_lanes, idempotent=True)

    def note_retry(self, task: int) -> None:
        """Have the scheduler count no failure of a task that is going to be submitted again."""
        super().note_retry(task)
        self._session.retry(task)

    # ---- questions

    def statistics(self) -> Statistics:
        """Return the counts of tasks, as far as the scheduler has reported."""
        self._ask_load()
        running, load = len(self._session.running), self._session.inquiries.load
        counted = self._counted(
            len(self._tasks) - running, running, (load.given, load.cores), load.computing
        )
        counted = replace(counted, others=self._session.inquiries.others)
        notices = self._session.notices.stuck
        if not notices:
            return counted
        stuck, task = self._session.requests.count_stuck()
        name = f"{self._session.registration.label}:{task}" if task else ""
        absent = stuck > 0 and not any(one.workers for one in notices.values())
        return replace(counted, stuck=stuck, stuck_task=name, absent=absent)

    def unmet(self) -> dict[int, Unschedulable]:
        """Return a waiting task for each request that no worker here can meet, with the message.

        It costs a look at all tasks, if there are such requests.
        """
        return self._session.requests.unmet()

    def kinds(self) -> list[CallKindNow]:
        """Return the tasks by function and cores, as far as the scheduler has reported."""
        records, session = self._tasks, self._session
        running = [(records[one].kind, at) for one, at in session.running.items() if one in records]
        blocked = Counter(
            records[one].kind for one in session.requests.stuck_tasks() if one in records
        )
        ahead = Counter(records[one].kind for one in session.ahead.behind if one in records)
        return self._kinds.now(running, blocked, trio.current_time(), ahead)

    def note_outlook(self, outlook: Outlook) -> None:
        """Tell the scheduler how far the mission is, for users who watch it there."""
        functions, more = function_rows(self.kinds(), FUNCTIONS)
        self._session.inquiries.note_outlook(
            structs.replace(outlook, functions=functions, more_functions=more)
        )
        self._link.wake()

    def _ask_load(self) -> None:
        """Ask for the load of the workers, for the next look at the statistics."""
        if self._session.connected and self._tasks and trio.lowlevel.in_trio_run():
            now = trio.current_time()
            if now >= self._load_asked + _LOAD:
                self._load_asked = now
                self._session.inquiries.ask_load()
                self._link.wake()

    def why(self, task: int) -> Explanation:
        """Explain why a task is not running, from the state here only; `ask_why` explains more."""
        record = self._session.pending.get(task)
        if record is None:
            return Explanation(task, "unknown", ("it has ended, or was never submitted",))
        if self._session.aboard.get(task) == 0:
            why = "it is brief, so its mission holds it: it goes with others like it"
            return Explanation(task, "waiting", (why,))
        if task in self._session.ahead.behind:
            why = f"it is among the next on worker {record.worker}, where others like it run"
            return Explanation(task, "waiting", (why,))
        if record.worker:
            return Explanation(task, "running", (f"on worker {record.worker}",))
        if not self._session.connected:
            return Explanation(task, "waiting", ("the scheduler is away",))
        return Explanation(task, "waiting", ("the scheduler has found no room for it",))

    async def ask_why(self, task: int) -> Explanation:
        """Explain why a task is not running; ask the scheduler, and wait until it answers."""
        self._link.wanted.set()
        while True:
            await self._link.joined.wait()
            self._session.inquiries.ask_why(task)
            self._link.wake()
            with trio.move_on_after(_ANSWER):
                await self._answered.wait()
            for answer in self._session.inquiries.explanations:
                if answer.task == task:
                    if answer.state == "unknown" and task in self._session.pending:
                        # The scheduler has not heard of it yet: it is held here, or has gone into
                        # a lane or to the scheduler since the question.
                        return self.why(task)
                    return Explanation(task, answer.state, tuple(answer.reasons))

    # ---- lifecycle

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        try:
            with collapsing():  # from here on, what the block raised is the user's exception
                async with trio.open_nursery() as nursery:
                    # Not by `nursery.start`: that waits for the end of what is shielded if this
                    # task is cancelled.
                    scope = trio.CancelScope(shield=True)
                    nursery.start_soon(self._link.run, scope)
                    self._phase = ExecutorPhase.OPEN
                    try:
                        async with self._lane_door.open():
                            yield
                            await self.join()
                    except BaseException:
                        if self._session.lasts:
                            raise
                        for task in list(self._tasks):
                            self._cancel(task)
                        self._link.wake()
                        raise
                    finally:
                        self._phase = ExecutorPhase.CLOSED
                        await self._leave(scope)
        finally:
            if self._session.lasts:
                self._tasks.clear()  # they go on, and have no outcome here
            elif self._tasks and self._link.has_tasks:
                self._on_event(RunsLeft(len(self._tasks)))
            for task in list(self._tasks):
                self._resolve([Resolution(task, "cancelled", None, ())])
            self._put_result.close()

    async def _leave(self, scope: trio.CancelScope) -> None:
        """Wait until nothing of a cancelled task is left, and depart; a lasting mission departs."""
        with trio.CancelScope(shield=True):
            away = _FAREWELL if self._session.lasts else 0.0
            while self._tasks and self._link.has_tasks and away < _FAREWELL:
                with trio.move_on_after(1.0) as waited:
                    await self.join()
                if waited.cancelled_caught:
                    away = 0.0 if self._session.connected else away + 1.0
            await self._link.end(scope)

    # ---- what arrives

    def _take(self, batch: WireBatch) -> None:
        session, run_log = self._session, self._run_log
        news, inquiries = session.news, session.inquiries
        session.now = trio.current_time()
        for message, payload in batch:
            session.on_message(message, payload)
        if run_log is not None:
            run_log.on_messages(taken(session.reports or []))
        if session.unconfirmed >= _MANY:
            self._link.wake()
        if news.crashed:
            self._report_crashed()  # while they are among the tasks
        if session.lanes_started or session.lanes_over or session.calls_cancelled:
            self._lanes.on_news(session.now)
            self._on_lanes()
        self._resolve(taken(session.resolved))
        if session.notices.arrived:
            self._report_notices()
        if session.registration.answer is not None:
            self._report_ended_runs()
        if session.cancelled_by and not self._cancel_reported:
            self._cancel_reported = True
            self._on_event(CancelRequested(session.cancelled_by))
        if news.blocked or news.printed or news.lost or news.stopped:
            self._report_for_people()
        if inquiries.questions or inquiries.explanations:
            self._answer()

    def _answer(self) -> None:
        """Answer the questions of the scheduler, and hand over its answers."""
        questions = taken(self._session.inquiries.questions)
        for question in questions:
            self._session.inquiries.describe(question, self._describe(question.task))
        if questions:
            self._link.wake()
        if self._session.inquiries.explanations:
            self._answered.set()
            self._answered = trio.Event()

    def _on_lanes(self) -> None:
        """Carry out what lanes have decided, and hand over the outcomes that they have brought."""
        self._session.now = trio.current_time()
        if self._run_log is not None:
            self._run_log.on_messages(taken(self._session.reports or []))
        for worker in taken(self._lanes.cut_off):
            # At a bridge that is how it is meant; and the last runners find a door that is closed.
            if self._lane_door.is_open and not self._at_bridge:
                self._on_event(Remark(cut_off_words(worker)))
        self._lane_door.close_closing()
        if self._session.to_head:
            self._link.wake()
        self._resolve(taken(self._session.resolved))

    def _describe(self, task: int) -> str:
        """Return the call of a task, as text; "" if it is not known any more."""
        call = self._session.call_of(task)
        if call is None:
            return ""
        from grain.remote_exer.description import describe_call  # asked for by few missions

        function, arguments = call
        return describe_call(function.name, arguments, self._payloads)

    def _report_for_people(self) -> None:
        """Report what workers have to say of tasks, and on which nothing depends."""
        news = self._session.news
        for blocked in taken(news.blocked):
            self._on_event(TaskBlocks(blocked.worker, blocked.code))
        for printed in taken(news.printed):
            self._on_event(printed)
        if news.lost:
            self._report_lost()
        if news.stopped:
            stopped = taken(news.stopped)
            names = tuple(worker.name for worker in stopped)
            tasks = sum(worker.tasks for worker in stopped)
            self._on_event(WorkersStopped(names, tasks, stopped[0].why))

    def _report_crashed(self) -> None:
        """Report crashes; once each pair of workers that did not reach each other.

        Of tasks that have outlived their worker, the first of each function is reported.
        """
        for task, crash in taken(self._session.news.crashed):
            record, outlived = self._tasks.get(task), crash.outlived
            if self.on_crash is not None:
                self.on_crash(task, crash)
            name, function = (
                f"{self._session.registration.label}:{task}",
                "" if record is None else record.name,
            )
            if crash.absent and crash.how not in self._apart:
                self._apart.add(crash.how)
                self._on_event(MembersApart(name, function, crash.how))
            if record is None or outlived is None:
                continue
            most = had_most(outlived)
            if (function, most) not in self._outlived:
                self._outlived.add((function, most))
                self._on_event(TaskOutlived(name, function, outlived.ran, outlived.life, most))

    def _report_lost(self) -> None:
        """Report workers that are lost, and how many tasks run again because of that."""
        lost, pending = taken(self._session.news.lost), self._session.pending
        again = {
            task
            for worker in lost
            for task in worker.tasks
            if task in pending and not pending[task].retracted
        }
        names = tuple(worker.name for worker in lost)
        why = next((worker.why for worker in lost if worker.why), "")
        self._on_event(WorkersLost(names, len(again), lost[0].silent, why))

    def _report_notices(self) -> None:
        for news in taken(self._session.notices.arrived):
            match news:
                case OtherVersions():
                    self._report_versions(news)
                case SeveralMaxima():
                    text = several_maxima(news.group, news.maxima)
                    self._on_event(Remark(f"{text}. Other missions are in it: state one maximum"))
                case Trouble() | LastAway():
                    self._on_event(news)
                case _:
                    request = from_data(self._session.requests.stated[news.request].resources)
                    if news.why:
                        never = NeverStarts if news.workers else NoWorkers
                        self._on_event(never(request, news.why, news.larger, news.cluster))
                    else:
                        self._on_event(CanStart(request))

    def _report_ended_runs(self) -> None:
        registration = self._session.registration
        registered, registration.answer = registration.answer, None
        stopped, self._link.stopped = self._link.stopped, 0.0
        if registered is not None and registered.ended:
            if stopped < _STOPPED:
                stopped = 0.0
            self._on_event(RunsEnded(registered.ended, registered.away, stopped))

    def _report_versions(self, other: OtherVersions) -> None:
        by_value = any(interpreter for _, _, interpreter in self._requests)
        for event in differences(other.worker, other.host, other.versions):
            if not (event.numpy or by_value):
                self._other_interpreters.append(event)
            else:
                self._on_event(event)

    def _resolve(self, resolutions: Iterable[Resolution]) -> None:
        """Hand over the outcomes of tasks, and note their ends.

        Brief tasks of one function that ask for the same are added up in local variables while they
        follow each other: a call of the log for each would cost as much as all else that it does.
        """
        run_log, now = self._run_log, self._session.now
        counting = run_log is not None and not run_log.room
        function = request = alike = None
        count, seconds, submitted = 0, 0.0, 0.0
        last, ran = None, None
        for resolution in resolutions:
            task, ending, _, _, _, report, began, failed_on = resolution
            record = self._tasks.pop(task, None)
            if record is None:
                continue
            ended = self._outcome(record, resolution)
            cancelled = ending == "cancelled"
            error = ended.error if type(ended) is outcome.Error else None
            if error is not None and not cancelled:
                self._report_failure(record, resolution, error)
            if (
                counting
                and error is None
                and type(report) is float
                and record.submitted is not None
            ):
                if record.function is not function or record.request is not request:
                    if run_log is not None and alike is not None:
                        run_log.count(alike, count, seconds, submitted)
                    alike, function, request = record, record.function, record.request
                    count, seconds, submitted = 0, 0.0, 0.0
                count += 1
                seconds += report
                submitted += record.submitted
            elif run_log is not None:
                run_log.ended(
                    task,
                    error,
                    record=record,
                    cancelled=cancelled,
                    crashed=type(error) is TaskCrashed,
                    report=report,
                    worker=record.worker,
                    call=partial(self._label, task, record),
                )
                counting = not run_log.room
            ran = report if type(report) is float else now - began if began else None
            if type(report) is bytes and report:
                self._note_use(task, record, report, now)
            begun = bool(record.worker)
            self.failed_on = failed_on
            self._hand_over(task, record, ended, cancelled=cancelled, begun=begun, seconds=ran)
            last = record
        if run_log is not None and alike is not None:
            run_log.count(alike, count, seconds, submitted)
        if last is not None and ran is not None:
            # The last of a batch is enough for a mean.
            traffic = self._traffic[last.asked]
            traffic.on_ended(ran)
            if traffic.holding and not traffic.lanes:
                # What is held has waited to know how long such calls take.
                self._lanes.tend(traffic, now)
                self._link.wake()

    def _note_use(self, task: int, record: RemoteTask, report: bytes, now: float) -> None:
        """Count what the programs of a run have used: it was not a brief one."""
        read = decode_report(report, now)
        if read is None:
            return
        record.kind.used(read.usage, read.ended - read.started, record.asked_by)
        # The jobs of a queue may append to one file, and who submits them is told of that.
        if not self._session.lasts and (shared := self._writers.note(task, record.name, read)):
            self._on_event(Remark(shared))

    def _note_starts(self) -> None:
        """Note the runs that no message reports, as they follow others, for the event log."""
        session, run_log = self._session, self._run_log
        if run_log is not None and session.ahead.used:
            session.ahead.used = bool(session.ahead.behind)
            for task, at in session.running.items():
                record = session.pending[task]
                run_log.started((task,), record.worker, at, record.alternative)

    def _label(self, task: int, record: RemoteTask | None = None) -> str:
        """Return the call of a task for the event log; "" if it is not known any more."""
        call = self._session.call_of(task)
        if record is not None and record.arguments is not None:
            call = self._session.functions[record.function], record.arguments
        if call is None or self._run_log is None:
            return ""
        from grain.remote_exer.description import label_of  # failures are rare

        function, arguments = call
        return label_of(function.name, arguments, self._payloads, self._run_log.labels)

    def _report_failure(
        self, record: RemoteTask, resolution: Resolution, error: BaseException
    ) -> None:
        worker = resolution.crashes[-1].worker if resolution.crashes else ""
        if resolution.ending == "error":
            with suppress(PayloadError):
                failure = failure_in(resolution.payload or b"")
                worker = failure.where if failure is not None else ""

        def call() -> str:
            arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
            if record.arguments is not None:
                try:
                    arguments = self._payloads.load_arguments(record.arguments)
                except PayloadError:
                    return f"{record.name}(...)"
            return call_text(record.name, *arguments)

        self._on_event(TaskFailed(resolution.task, error, worker, call))

    def _outcome(self, record: RemoteTask, resolution: Resolution) -> Outcome:
        if resolution.ending == "cancelled":
            by = f" by {resolution.by} with `grain cancel`" if resolution.by else ""
            return outcome.Error(
                TaskCancelled(f"{record.name} was cancelled{by} (task {resolution.task})")
            )
        if resolution.ending == "crashed":
            if lasts_too_long(resolution.crashes):
                return outcome.Error(_outlives(record.name, resolution.crashes))
            if unreached(resolution.crashes):
                text = (
                    f"{record.name} was given up: the workers that it was to run on never all "
                    "joined. If they do not reach each other: it needs TCP connections between "
                    "their hosts, by any port: look for a firewall, or name the network "
                    "(GRAIN_INTERFACES)"
                )
                pairs = tuple(crash for crash in resolution.crashes if crash.absent)
                return outcome.Error(TaskCrashed(text, pairs))
            times = sum(crash.blamed for crash in resolution.crashes)
            text = f"{record.name} was given up: what it ran in died {times} times"
            return outcome.Error(TaskCrashed(text, resolution.crashes))
        return self._payloads.load_outcome(resolution.payload or b"")
