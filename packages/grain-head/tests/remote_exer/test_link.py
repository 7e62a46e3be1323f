"""The link of a mission while it submits: over a real socket, to a head that only listens."""

from __future__ import annotations

import math
import signal
import socket
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge import SEEK_FIRST, DirectWaySeeker
from grain.edge.channel import FramedChannel, MemoryChannel, MemoryDirection
from grain.edge.errors import ChannelBroken, NotServed, RemoteProtocolError
from grain.edge.messages import MAX_MESSAGE, Payload
from grain.edge.questions import LoadAnswer, pack
from grain.eventlog.schema import BriefTasks, RunEnded, TaskSubmitted
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.head.errors import TaskCrashed, TaskOutlivesWorkers
from grain.head.events import (
    CancelRequested,
    CanStart,
    MembersApart,
    NeverStarts,
    RunsEnded,
    SchedulerAway,
    SchedulerBack,
    TaskOutlived,
    WorkersLost,
    WorkersStopped,
)
from grain.head.messages import (
    AckTasks,
    Answer,
    CancelMission,
    CancelTask,
    Crash,
    Crashed,
    Depart,
    MissionRegistered,
    Outlook,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
    Trouble,
    Unschedulable,
    WorkerEnded,
    WorkerFacts,
)
from grain.head.run_log import RunLog
from grain.head.service import CODEC
from grain.remote_exer import MissionSession, RemoteExecutor
from grain.remote_exer.session import taken
from grain.resource import Cores, WTime
from grain.worker import Call
from grain.worker.messages import LANE, TIME_OVER, Disconnect, Outlived
from grain.worker.payload import Payloads
from grain_testkit.kept_lines import KeptLines
from grain_testkit.submitted_tasks import remote_task

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from trio.testing import MockClock

    from grain.edge.channel import WireBatch, WireChannel
    from grain.head.events import Event

LIMITED = Cores(1) & WTime(T="01:00:00")  # calls with a time limit have no lanes


async def nothing() -> None:
    """A tasklet."""


async def keep(_: bytes) -> None:
    """A tasklet with an argument."""


def channel_over(end: socket.socket) -> FramedChannel:
    return FramedChannel(trio.SocketStream(trio.socket.from_stdlib_socket(end)), CODEC)


@asynccontextmanager
async def listened_to(
    on_event: Callable[[Event], object] | None = None,
    run_log: RunLog | None = None,
) -> AsyncGenerator[tuple[RemoteExecutor, FramedChannel, socket.socket]]:
    """Yield a mission that is connected, its head's channel, and the socket of that."""
    ours, theirs = socket.socketpair()

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        async with channel_over(ours) as channel:
            yield channel

    async with (
        channel_over(theirs) as head,
        RemoteExecutor(connect=connect, on_event=on_event, run_log=run_log) as executor,
    ):
        executor.submit(Cores(1), nothing)
        synced = False
        while not synced:
            synced = any(isinstance(message, Synced) for message, _ in await head.receive())
        await wait_all_tasks_blocked()
        yield executor, head, theirs


async def take(head: FramedChannel, last: int, sent: Sequence[int] = ()) -> list[int]:
    """Receive tasks up to a number, and retract all of them; return which came, in order.

    Args:
        sent: those that `sent_so_far` took out of the socket before: they come to no channel.
    """
    received = [*sent]
    while last not in received:
        received += [m.task for m, _ in await head.receive() if isinstance(m, Submit)]
    head.post([(Retracted(task), None) for task in range(1, last + 1)])
    return received


def sent_so_far(head: FramedChannel, end: socket.socket) -> list[int]:
    """Return the tasks whose bytes are there, without a turn for the mission."""
    sent: list[int] = []
    with suppress(BlockingIOError):
        while wire := end.recv(1 << 20, socket.MSG_DONTWAIT):
            sent += [m.task for m, _ in head._decoder.feed(wire) if isinstance(m, Submit)]
    return sent


async def test_lanes_that_end_with_a_connection_are_asked_for_again_at_the_next_one() -> None:
    """Before the scheduler has said anything on it, and so before any look at the lanes."""
    heads_send, heads = trio.open_memory_channel[FramedChannel](9)

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        ours, theirs = socket.socketpair()
        heads_send.send_nowait(channel_over(theirs))
        async with channel_over(ours) as channel:
            yield channel

    async def lanes_until_synced(head: FramedChannel) -> list[int]:
        numbers: list[int] = []
        while True:
            for message, _ in await head.receive():
                if isinstance(message, Submit) and message.function == LANE:
                    numbers.append(message.task)
                    if message.waits:
                        return numbers

    with trio.fail_after(60):
        async with RemoteExecutor(connect=connect) as executor:
            executor.submit(Cores(1), nothing)
            lanes = executor._lanes
            lanes.invitation = lambda: b"the way"
            lanes.traffic[0].on_ended(0.001, 10)
            async with await heads.receive() as head:
                held = lanes.hold(lanes.traffic[0], remote_task(0, b"f", b""), 0.0)
                executor._link.wake()
                [lane] = await lanes_until_synced(head)
            async with await heads.receive() as head:
                [another] = await lanes_until_synced(head)
                lanes.look(trio.current_time())
                assert [another] == list(lanes.traffic[0].lanes)
                head.post([(Retracted(task), None) for task in (1, another)])
                assert lanes.cancel(held)
                executor._on_lanes()

    assert another > lane


async def test_a_mission_that_is_cancelled_while_it_is_entered_ends() -> None:
    """The task that keeps the connection is shielded, and would wait forever for the first call."""

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        raise NotServed("so that this test ends in any case")
        yield

    executor, left = RemoteExecutor(connect=connect), trio.Event()

    async def enter() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with executor:
                await trio.sleep_forever()
        left.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(enter)
        await wait_all_tasks_blocked()
        executor._link.wanted.set()
        assert left.is_set()


async def test_a_job_by_itself_leaves_at_once_and_those_right_behind_it_together(
    mock_clock: MockClock,
) -> None:
    """A caller that waits for each result would wait for the sender's turn, too."""
    async with listened_to() as (executor, head, end):
        mock_clock.jump(1.0)
        for _ in range(3):
            executor.submit(Cores(1), nothing)
        by_itself = sent_so_far(head, end)
        mock_clock.jump(1.0)
        executor.submit(Cores(1), nothing)
        overtaking = sent_so_far(head, end)  # those that wait for the sender
        await wait_all_tasks_blocked()
        together = sent_so_far(head, end)
        head.post([(Retracted(task), None) for task in range(1, 6)])

    assert ([2], [], [3, 4, 5]) == (by_itself, overtaking, together)


async def test_a_job_takes_along_the_confirmation_of_the_one_before() -> None:
    """A call after the other costs one message less."""
    async with listened_to() as (executor, head, end):
        head.post([(Resolved(1, "error"), b"")])
        await wait_all_tasks_blocked()
        executor.submit(Cores(1), nothing)

        wire = end.recv(1 << 20, socket.MSG_DONTWAIT)
        sent = [type(message) for message, _ in head._decoder.feed(wire)]
        head.post([(Retracted(2), None)])

    assert [Submit, AckTasks] == sent


async def test_jobs_leave_while_others_are_submitted() -> None:
    """A loop that never waits leaves others in its process no turn; its scheduler has one."""
    async with listened_to() as (executor, head, end):
        for _ in range(1000):
            executor.submit(LIMITED, nothing)

        sent = sent_so_far(head, end)
        assert 700 < len(sent) <= 1000
        assert [*range(2, 1002)] == await take(head, 1001, sent)


async def test_a_scheduler_has_64_calls_until_the_mission_knows_if_they_are_brief() -> None:
    """If they are, each of the others need not wait for a lease. If not, the scheduler has all."""

    async def next_ones(head: FramedChannel, count: int) -> list[int]:
        sent: list[int] = []
        while len(sent) < count:
            sent += [m.task for m, _ in await head.receive() if isinstance(m, Submit)]
        return sent

    async with listened_to() as (executor, head, _):
        for _ in range(200):
            executor.submit(Cores(1), nothing)
        assert [*range(2, 65)] == await next_ones(head, 63)  # and the first of all
        head.post([(WorkerFacts("id-w", "w", "host", {}), None)])
        head.post([(Started("id-w", (2, 3, 4)), None)])
        assert [65, 66, 67] == await next_ones(head, 3)
        executor._traffic[0].on_ended(10.0)
        executor._lanes.look(0.0)
        executor._link.wake()
        assert [*range(68, 202)] == await take(head, 201)


async def test_calls_that_are_held_have_lanes_as_soon_as_some_have_proved_to_be_brief(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not at the next look, which does not come here."""
    monkeypatch.setattr("grain.remote_exer.lanes.door.LINGER", math.inf)
    nothing_returned = Payloads("w").dump_outcome(outcome.Value(None))
    asked = trio.Event()

    async def serve(head: FramedChannel) -> None:
        while True:
            for message, _ in await head.receive():
                if isinstance(message, Submit) and message.function == LANE:
                    asked.set()
                elif isinstance(message, Retract):
                    head.post([(Retracted(task), None) for task in message.tasks])

    async with listened_to() as (executor, head, _), trio.open_nursery() as nursery:
        nursery.start_soon(serve, head)
        for _ in range(199):
            executor.submit(Cores(1), nothing)
        head.post([(WorkerFacts("id-w", "w", "host", {}), None)])
        head.post([(Started("id-w", (1, 2, 3, 4)), None)])
        for task in range(1, 5):
            await wait_all_tasks_blocked()
            head.post([(Resolved(task, "value", (), 0.01), nothing_returned)])
        with trio.move_on_after(30):
            await asked.wait()
        for task in list(executor._tasks):
            executor.cancel(task)
        await executor.join()
        nursery.cancel_scope.cancel()

    assert asked.is_set()


async def test_jobs_with_longer_arguments_leave_while_others_are_submitted() -> None:
    """Though those that are sent together fill many frames."""
    async with listened_to() as (executor, head, end):
        sent: list[int] = []
        for _ in range(4):
            for _ in range(512):
                executor.submit(LIMITED, keep, bytes(300))
            sent += sent_so_far(head, end)
        received = await take(head, 2049, sent)

    assert [*range(2, 2050)] == received
    assert 1500 < len(sent)


async def test_tasks_that_had_all_left_before_are_not_waited_for() -> None:
    """The head of these tests has read them from the socket: none comes to its channel."""
    async with listened_to() as (executor, head, end):
        executor.submit(Cores(1), nothing)
        executor._link.flush()
        assert [2] == (sent := sent_so_far(head, end))
        with trio.fail_after(60):
            assert [2] == await take(head, 2, sent)


class Slow(MemoryChannel[Payload, Payload]):
    """A channel that takes one batch at a time, when the test lets it."""

    writes_through = True

    def __init__(self) -> None:
        mail: MemoryDirection[Payload] = MemoryDirection(0)
        super().__init__(mail, mail)  # it is its own peer
        self.tasks: list[int] = []
        self.go = trio.Event()

    async def send(self, batch: WireBatch) -> None:
        """See `Channel.send`."""
        await self.go.wait()
        self.post(batch)

    def post(self, batch: WireBatch, *, more: bool = False) -> None:
        """See `Channel.post`."""
        tasks = [message.task for message, _ in batch if isinstance(message, Submit)]
        self.tasks += tasks
        super().post([(Retracted(task), None) for task in tasks], more=more)


async def test_jobs_do_not_overtake_those_that_the_sender_has_in_hand(
    autojump_clock: object,
) -> None:
    """A head takes a task that does not ascend for a repeated one, and drops it."""
    slow = Slow()

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        yield slow

    with trio.fail_after(60):
        async with RemoteExecutor(connect=connect) as executor:
            executor.submit(Cores(1), nothing)
            await wait_all_tasks_blocked()  # the sender has it in hand, and waits
            for _ in range(1000):
                executor.submit(Cores(1), nothing)
            early = list(slow.tasks)
            slow.go.set()

    assert [] == early
    assert [*range(1, 1002)] == slow.tasks


class Interrupted(Slow):
    """A channel in which Ctrl-C comes while it takes a batch without waiting."""

    async def send(self, batch: WireBatch) -> None:
        """See `Channel.send`."""
        super().post(batch)

    def post(self, batch: WireBatch, *, more: bool = False) -> None:
        """See `Channel.post`."""
        signal.raise_signal(signal.SIGINT)
        super().post(batch, more=more)


def test_an_interrupt_waits_until_jobs_have_left() -> None:
    """A program may go on after Ctrl-C: then no frame may be torn, and no job sent twice."""
    interrupted = Interrupted()
    jobs: list[int] = []

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        yield interrupted

    async def mission() -> None:
        with trio.fail_after(60):
            async with RemoteExecutor(connect=connect) as executor:
                jobs.append(executor.submit(Cores(1), nothing))
                await wait_all_tasks_blocked()
                jobs.extend(executor.submit(Cores(1), nothing) for _ in range(256))
                with pytest.raises(KeyboardInterrupt):
                    await trio.lowlevel.checkpoint()

    # A shell starts programs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        trio.run(mission)
    finally:
        signal.signal(signal.SIGINT, before)
    assert jobs == interrupted.tasks


def test_very_many_retractions_and_confirmations_go_in_messages_that_can_travel() -> None:
    """Those of tasks cancelled while no head was there, and of outcomes that arrive at once."""
    session = MissionSession("m", "mission")
    request = session.request({})
    first = 2**32  # a number takes nine bytes from there on, so fewer are too many for a message
    tasks = [session.submit(remote_task(request), first + k) for k in range(MAX_MESSAGE // 9 + 1)]
    for task in tasks:
        session.cancel(task)
    session.on_connected()
    for task in tasks:
        session.on_message(Resolved(task, "value"), b"")
    session.confirm()

    assert tasks == [t for m, _ in session.to_head if isinstance(m, Retract) for t in m.tasks]
    assert tasks == [t for m, _ in session.to_head if isinstance(m, AckTasks) for t in m.tasks]
    assert all(len(CODEC.encode(message, None)) <= MAX_MESSAGE for message, _ in session.to_head)


def sent(session: MissionSession) -> list[int]:
    """Take all messages of a session; return the tasks that they submit, in order."""
    mail = []
    while session.to_head:
        mail += session.take_mail()
    return [message.task for message, _ in mail if isinstance(message, Submit)]


def test_of_many_tasks_few_wait_as_messages_and_none_is_submitted_after_its_retraction() -> None:
    session = MissionSession("m", "mission")
    request = session.request({})
    session.on_connected()
    session.take_mail()
    tasks = [session.submit(remote_task(request)) for _ in range(5000)]
    for task in (1, 4000, 4001):
        session.cancel(task)
    session.on_message(Retracted(4000), None)

    assert len(session.to_head) < 1100
    assert [task for task in tasks if task not in (4000, 4001)] == sent(session)
    assert 5001 == session.submit(remote_task(request))
    assert [5001] == sent(session)


def test_what_was_not_sent_is_submitted_on_the_next_connection_once() -> None:
    session = MissionSession("m", "mission")
    request = session.request({})
    session.on_connected()
    tasks = [session.submit(remote_task(request)) for _ in range(3000)]
    session.on_disconnected()
    assert [] == session.take_mail() == session.to_head

    session.on_connected()
    assert tasks == sent(session)


def test_a_mission_that_departs_submits_no_more() -> None:
    session = MissionSession("m", "mission")
    request = session.request({})
    session.on_connected()
    session.take_mail()
    for _ in range(3000):
        session.submit(remote_task(request))
    session.depart()

    assert len(sent(session)) < 1100
    assert [] == session.take_mail()


def test_a_failure_that_is_tried_again_is_confirmed_as_such_and_as_nothing_else() -> None:
    """Also if it arrives a second time, as the connection was lost before it was confirmed."""
    session = MissionSession("m", "mission")
    request = session.request({})
    for _ in range(3):
        session.submit(remote_task(request))
    session.on_connected()
    for task in (1, 2):
        session.on_message(Resolved(task, "error"), b"")
    session.retry(2)
    session.on_disconnected()
    session.on_connected()
    session.take_mail()

    for task in (1, 2, 3):
        session.on_message(Resolved(task, "error"), b"")
    session.confirm()

    acknowledged = [message for message, _ in session.take_mail() if isinstance(message, AckTasks)]
    assert [((), (2,)), ((1, 3), ())] == [(one.tasks, one.retried) for one in acknowledged]


@pytest.mark.parametrize(("stopped", "reported"), [(130.0, 130.0), (1.0, 0.0)])
async def test_a_mission_that_was_given_up_reports_how_many_runs_were_ended(
    stopped: float, reported: float
) -> None:
    """With the time for which its own event loop did not run, if that explains it; and once."""
    events: list[Event] = []
    async with listened_to(events.append) as (executor, head, _):
        executor._link.stopped = stopped
        head.post([(MissionRegistered(1, 3, 135.0), None), (Retracted(1), None)])
        await executor.join()
        executor.submit(Cores(1), nothing)
        head.post([(MissionRegistered(2), None), (Retracted(2), None)])
        await executor.join()

    assert [RunsEnded(3, 135.0, reported)] == events


async def test_the_time_without_a_turn_of_the_event_loop_is_measured(mock_clock: MockClock) -> None:
    async with listened_to() as (executor, head, _):
        assert executor._link.stopped < 100
        mock_clock.jump(0.2)
        await wait_all_tasks_blocked()

        assert executor._link.stopped > 0
        head.post([(Retracted(1), None)])


async def test_jobs_that_leave_together_have_the_time_of_the_first_in_the_log(
    mock_clock: MockClock,
) -> None:
    """And no earlier one, also if they leave with something else that was sent before them."""
    log = KeptLines()
    run_log = RunLog(log, "id")
    async with listened_to(run_log=run_log) as (executor, head, _):
        for _ in range(2):
            mock_clock.jump(1.0)
            executor.cancel(1)  # a message without a job
            for seconds in 0.0001, 0.01, 0.0:  # the first one leaves by itself
                executor.submit_call(Cores(1), Call(nothing, (), {}), priority=int(seconds > 0))
                mock_clock.jump(seconds)
            await wait_all_tasks_blocked()
        head.post([(Retracted(task), None) for task in range(1, 8)])
    run_log.close()
    submitted = [line for line in log.lines if isinstance(line, TaskSubmitted)]
    assert [0, *[1, 1, 0] * 2] == [line.priority for line in submitted]

    first, *others = (line.time for line in submitted)
    assert [1.0, 1.0, 1.0, 2.01, 2.01, 2.01] == [round(time - first, 3) for time in others]


async def test_brief_jobs_that_end_together_are_counted_for_what_each_asked() -> None:
    """As soon as enough of them are listed, though others have come with the same message."""
    log = KeptLines()
    run_log = RunLog(log, "id")
    nothing_returned = Payloads("w").dump_outcome(outcome.Value(None))
    async with listened_to(run_log=run_log) as (executor, head, _):
        for cores in 1, 1, 1, 2, 2:
            executor.submit(Cores(cores), nothing)
        await wait_all_tasks_blocked()
        run_log.room = 1
        head.post([(Resolved(task, "value", (), 0.01), nothing_returned) for task in range(1, 7)])
        await wait_all_tasks_blocked()
    run_log.close()

    assert [1] == [line.task for line in log.of(RunEnded)]
    assert [(3, {"Cores": 1}), (2, {"Cores": 2})] == [
        (line.tasks, line.request) for line in log.of(BriefTasks)
    ]


async def test_tasks_that_no_worker_can_run_are_counted_and_one_is_named() -> None:
    """By the mission's label, as `grain why` takes it; until a worker comes that can."""
    events: list[Event] = []
    async with listened_to(events.append) as (executor, head, _):
        executor.submit(Cores(64), nothing)
        executor.submit(Cores(64), nothing)
        assert (0, "") == (executor.statistics().stuck, executor.statistics().stuck_task)
        head.post(
            [
                (MissionRegistered(1, label="opt@2"), None),
                (Unschedulable(1, "too small", larger=True), None),
            ]
        )
        await wait_all_tasks_blocked()
        assert (2, "opt@2:2") == (executor.statistics().stuck, executor.statistics().stuck_task)

        head.post([(Started("w", (2,)), None)])
        await wait_all_tasks_blocked()
        assert (1, "opt@2:3") == (executor.statistics().stuck, executor.statistics().stuck_task)
        head.post([(Started("", (2,)), None), (Unschedulable(1, ""), None)])
        await wait_all_tasks_blocked()
        assert (0, "") == (executor.statistics().stuck, executor.statistics().stuck_task)
        head.post([(Retracted(task), None) for task in (1, 2, 3)])

    assert [NeverStarts(Cores(64), "too small", larger=True), CanStart(Cores(64))] == events


async def test_tasks_are_counted_by_function_and_cores(mock_clock: MockClock) -> None:
    """With those that fit no worker apart from those that wait for room."""
    nothing_returned = Payloads("w").dump_outcome(outcome.Value(None))
    mock_clock.jump(5)  # a start at 0 would be none
    async with listened_to() as (executor, head, _):
        for cores in (1, 1, 2, 64, 64):
            executor.submit(Cores(cores), nothing if cores < 64 else trio.sleep_forever)
        facts = WorkerFacts("id", "w", "host", {"Cores": 4})
        too_small = Unschedulable(2, "too small", larger=True)
        head.post([(facts, None), (Started("id", (1, 2, 4, 5)), None), (too_small, None)])
        await wait_all_tasks_blocked()
        mock_clock.jump(3)
        head.post([(Resolved(1, "value"), nothing_returned)])
        await wait_all_tasks_blocked()
        now = {kind[:2]: kind[:8] for kind in executor.kinds()}

        brief = Resolved(3, "value", (), 0.02)
        head.post([(Started("", (2, 5)), None), (Started("id", (3,)), None)])
        head.post([(brief, nothing_returned)])
        await wait_all_tasks_blocked()
        later = {kind[:2]: kind[:8] for kind in executor.kinds()}
        head.post([(Retracted(task), None) for task in (2, 4, 5, 6)])
        await wait_all_tasks_blocked()
        left = executor.kinds()

    one, two, wide = ("nothing", 1), ("nothing", 2), ("sleep_forever", 64)
    assert {
        one: (*one, 1, 0, (3.0,), 1, 3.0, 3.0),
        two: (*two, 0, 0, (3.0,), 0, 0.0, 0.0),
        wide: (*wide, 0, 1, (3.0,), 0, 0.0, 0.0),
    } == now
    assert {
        one: (*one, 1, 0, (), 2, 3.02, 3.0),
        two: (*two, 0, 0, (3.0,), 0, 0.0, 0.0),
        wide: (*wide, 0, 2, (), 0, 0.0, 0.0),
    } == later
    assert [(0, 0, ())] * 3 == [kind[2:5] for kind in left]


async def test_tasks_that_wait_for_the_first_worker_are_not_counted_as_too_large() -> None:
    seen = []
    async with listened_to() as (executor, head, _):
        executor.submit(Cores(64), nothing)
        head.post([(MissionRegistered(1, label="opt@2"), None)])
        head.post([(Unschedulable(1, "no worker is here", workers=False), None)])
        await wait_all_tasks_blocked()
        seen.append(executor.statistics())

        head.post([(Unschedulable(1, "too small", larger=True), None)])
        await wait_all_tasks_blocked()
        seen.append(executor.statistics())
        head.post([(Retracted(task), None) for task in (1, 2)])

    assert [(1, True), (1, False)] == [(one.stuck, one.absent) for one in seen]


def test_a_notice_that_another_head_does_not_repeat_is_taken_back() -> None:
    """It has workers that the last one had not."""
    session = MissionSession("id", "opt")
    for _ in range(2):
        session.submit(remote_task(session.request({"Cores": 64})))
    session.on_connected()
    for request in (0, 1):
        session.on_message(Unschedulable(request, "no worker is here", workers=False), None)
    assert (2, 1) == session.requests.count_stuck()
    taken(session.notices.arrived)
    session.on_disconnected()
    assert (0, 0) == session.requests.count_stuck()

    session.on_connected()
    session.on_message(Unschedulable(1, "no worker is here", workers=False), None)
    session.on_message(MissionRegistered(2), None)
    assert [
        Unschedulable(1, "no worker is here", workers=False),
        Unschedulable(0, ""),
    ] == taken(session.notices.arrived)
    assert (1, 2) == session.requests.count_stuck()


def test_how_far_a_mission_is_is_told_again_on_another_connection() -> None:
    session = MissionSession("id", "opt")
    session.on_connected()
    session.take_mail()
    for _ in range(2):
        session.inquiries.note_outlook(Outlook(3, 9))
    assert [(Outlook(3, 9), None)] == session.take_mail()

    session.on_disconnected()
    session.on_connected()
    assert (Outlook(3, 9), None) in session.take_mail()


async def test_a_task_that_a_user_has_cancelled_says_who() -> None:
    """And so do all, if the whole mission was cancelled."""
    events: list[Event] = []
    got: list[Any] = []
    async with listened_to(events.append) as (executor, head, _):
        executor.submit_call(Cores(1), Call(nothing, (), {}), got.append)
        executor.submit_call(Cores(1), Call(nothing, (), {}), got.append)
        head.post([(CancelTask(2, "me on n1"), None), (Retracted(2), None)])
        head.post([(CancelMission("me on n2"), None)])
        head.post([(Retracted(1), None), (Retracted(3), None)])

    texts = [str(ended.error) for ended in got]
    assert "nothing was cancelled by me on n1 with `grain cancel` (task 2)" == texts[0]
    assert "nothing was cancelled by me on n2 with `grain cancel` (task 3)" == texts[1]
    assert [CancelRequested("me on n2")] == events


async def test_a_mission_that_its_scheduler_refuses_ends_with_the_reason() -> None:
    """It would be refused again and again, and hang."""
    with pytest.raises(NotServed, match="refuses Request of mission m: no such amount"):
        async with listened_to() as (_, head, _):
            why = "the scheduler refuses Request of mission m: no such amount"
            await head.send([(Disconnect(why, "refused"), None)])
            await head.aclose()
            await trio.sleep_forever()


async def test_a_mission_survives_a_scheduler_that_makes_no_sense() -> None:
    """The connection ends; the next one begins with everything."""
    session = MissionSession("m", "m")
    session.on_connected()
    with pytest.raises(RemoteProtocolError, match="request 7"):
        session.on_message(Unschedulable(7, "why"), None)
    with pytest.raises(RemoteProtocolError, match="not valid"):
        session.on_message(Answer("load"), pack("words"))


def test_a_trouble_of_the_scheduler_before_is_taken_back_unless_its_successor_has_it() -> None:
    """And is reported once as long as it lasts."""
    session = MissionSession("id", "name")
    session.on_connected()
    for what in "ab":
        session.on_message(Trouble(what, "is full"), None)
    session.on_message(MissionRegistered(1), None)
    assert [Trouble("a", "is full"), Trouble("b", "is full")] == taken(session.notices.arrived)
    for _ in range(2):
        session.on_disconnected()
        session.on_connected()
    session.on_message(Trouble("b", "is full"), None)
    session.on_message(MissionRegistered(2), None)

    assert [Trouble("a", "")] == taken(session.notices.arrived)


class Stalling(MemoryChannel[Payload, Payload]):
    """A channel whose peer does not answer as long as the test says so."""

    why = ""

    def stalled(self) -> str:
        return self.why


async def test_a_scheduler_that_does_not_answer_is_named_within_5_s(
    autojump_clock: MockClock,
) -> None:
    """Not at the first look, as this process may have been stopped itself."""
    there: MemoryDirection[Payload] = MemoryDirection(10)
    back: MemoryDirection[Payload] = MemoryDirection(10)
    ours, head = Stalling(there, back), MemoryChannel(back, there)
    events: list[tuple[float, Event]] = []

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        yield ours

    def note(event: Event) -> None:
        events.append((trio.current_time(), event))

    async with RemoteExecutor(connect=connect, on_event=note) as executor:
        executor.submit(Cores(1), nothing)
        await trio.sleep(10)
        ours.why = "(process 7 on n1) is stopped"
        await trio.sleep(1)
        ours.why = ""
        await trio.sleep(9)
        ours.why = "(process 7 on n1) is stopped"
        begun = trio.current_time()
        await trio.sleep(5)
        assert 1 == len(events)
        ours.why = ""
        await trio.sleep(5)
        head.post([(Retracted(1), None)])

    [(at, away), (_, back_again)] = events
    assert at - begun < 5
    assert SchedulerAway("the scheduler (process 7 on n1) is stopped") == away
    assert SchedulerBack() == back_again


def submitted(head: MemoryChannel[Payload, Payload]) -> list[int]:
    """Return the tasks that a head has been sent since the last look."""
    batch = head._incoming.take()
    return [message.task for message, _ in batch if isinstance(message, Submit)]


async def test_a_mission_over_files_goes_over_to_a_direct_way(autojump_clock: MockClock) -> None:
    """After half a minute; nothing is lost, and nothing is resolved twice."""
    heads: list[MemoryChannel[Payload, Payload]] = []
    begun: list[float] = []
    resolved: list[int] = []

    async def find() -> bool:
        await trio.lowlevel.checkpoint()
        return True

    seeker = DirectWaySeeker(find)

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        there: MemoryDirection[Payload] = MemoryDirection(1000)
        back: MemoryDirection[Payload] = MemoryDirection(1000)
        heads.append(MemoryChannel(back, there))
        begun.append(trio.current_time())
        yield MemoryChannel(there, back)

    async def until_direct() -> None:
        await seeker.until_direct("files" if len(heads) == 1 else "unix")

    def note(job: int, _: object) -> None:
        resolved.append(job)

    events: list[Event] = []
    async with RemoteExecutor(
        connect=connect, until_direct=until_direct, on_event=events.append
    ) as executor:
        for job in (1, 2, 3):
            call = Call(nothing, (), {})
            executor.submit_call(Cores(1), call, partial(note, job))
        await trio.sleep(10)
        assert [1, 2, 3] == submitted(heads[0])
        heads[0].post([(Retracted(1), None)])
        await trio.sleep(10)
        assert [1] == resolved

        await trio.sleep(20)
        assert [2, 3] == submitted(heads[1])
        with suppress(ChannelBroken):
            heads[0].post([(Retracted(2), None)])  # what is still under way there
        heads[1].post([(Retracted(1), None), (Retracted(2), None)])
        await trio.sleep(1000)
        heads[1].post([(Retracted(3), None)])

    assert [1, 2, 3] == resolved
    assert 2 == len(heads)
    assert 0.74 * SEEK_FIRST < begun[1] - begun[0] < 1.26 * SEEK_FIRST + 1
    assert [] == events


class Leaving(Slow):
    """A channel that records a mission's farewell."""

    departed = False

    def post(self, batch: WireBatch, *, more: bool = False) -> None:
        """See `Channel.post`."""
        self.departed = self.departed or any(isinstance(one, Depart) for one, _ in batch)
        super().post(batch, more=more)


async def test_a_mission_that_leaves_does_not_change_its_way(autojump_clock: MockClock) -> None:
    """Else it would leave without its farewell, and its scheduler would wait for it."""
    found, channel, connections = trio.Event(), Leaving(), 0
    channel.go.set()

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        nonlocal connections
        assert not connections
        connections += 1
        yield channel

    async def find() -> None:
        await wait_all_tasks_blocked()
        assert not channel.departed
        found.set()
        await wait_all_tasks_blocked()
        channel.go.set()

    async with (
        trio.open_nursery() as nursery,
        RemoteExecutor(connect=connect, until_direct=found.wait) as executor,
    ):
        executor.submit(Cores(1), nothing)
        await executor.join()
        await wait_all_tasks_blocked()
        channel.go = trio.Event()  # the farewell will be under way for a while
        nursery.start_soon(find)

    assert channel.departed


async def test_the_error_of_a_task_counts_its_crashes_and_not_the_ends_of_its_workers() -> None:
    outlived = Crash((1, 9), "w", TIME_OVER, 0.0, Outlived(20.0, 115.0))
    crashes = (outlived, *(Crash((1, n), "w", "ended by SIGSEGV", 0.0) for n in range(5)))
    async with listened_to() as (executor, head, _):
        head.post([(Resolved(1, "crashed", crashes), None)])
        result = await executor.results.receive()

    assert isinstance(result.outcome, outcome.Error)
    error = result.outcome.error
    assert isinstance(error, TaskCrashed)
    assert "what it ran in died 5 times" in str(error)


async def test_a_task_that_outlives_its_workers_is_reported_once_and_fails() -> None:
    """Others of its function are not reported, and its log has no crash."""
    events: list[Event] = []
    lines = KeptLines()
    runs = tuple(
        Crash((1, number), "w", TIME_OVER, 0.0, Outlived(110.0, 115.0)) for number in range(3)
    )
    log = RunLog(lines, "id")
    async with listened_to(events.append, log) as (executor, head, _):
        executor.submit(Cores(1), nothing)
        late = Crash((1, 9), "w", TIME_OVER, 0.0, Outlived(20.0, 115.0))
        crashed: list[tuple[int, Crash]] = []
        executor.on_crash = lambda task, run: crashed.append((task, run))
        for task, run in ((1, late), (1, runs[0]), (2, runs[0])):
            head.post([(Started("id", (task,)), None), (Crashed(task, run), None)])
            head.post([(Started("", (task,)), None)])
        head.post([(Resolved(1, "crashed", runs), None), (Retracted(2), None)])
        result = await executor.results.receive()
    log.close()

    assert [(1, late), (1, runs[0]), (2, runs[0])] == crashed
    reported = [event for event in events if isinstance(event, TaskOutlived)]
    assert [(":1", "nothing", 20.0, 115.0, False), (":1", "nothing", 110.0, 115.0, True)] == [
        (one.task[-2:], one.function, one.ran, one.life, one.most) for one in reported
    ]
    assert isinstance(result.outcome, outcome.Error)
    error = result.outcome.error
    assert isinstance(error, TaskOutlivesWorkers)
    assert runs == error.runs
    assert "3 times" in str(error)
    assert "on w: its worker's time was over after 110 s" in str(error)
    ended = [line.outcome for line in lines.lines if isinstance(line, RunEnded) and line.task == 1]
    assert ["returned", "returned", "error"] == ended


async def test_a_task_that_has_stopped_softly_too_often_says_what_to_do() -> None:
    run = Crash((1, 1), "w", STOPPED_SOFTLY, 0.0, interruption="stopped")
    async with listened_to() as (executor, head, _):
        head.post([(Resolved(1, "crashed", (run,)), None)])
        result = await executor.results.receive()

    assert isinstance(result.outcome, outcome.Error)
    error = result.outcome.error
    assert isinstance(error, TaskOutlivesWorkers)
    assert (run,) == error.runs
    assert "100 times in a row, its program stopped softly as its worker ended" in str(error)
    assert f"on w: {STOPPED_SOFTLY}" in str(error)


async def test_workers_that_do_not_reach_each_other_are_reported_once_and_named_in_the_error() -> (
    None
):
    events: list[Event] = []
    lines = KeptLines()
    why = "w3 on host n3 did not join w1 on host n1: it cannot be reached"
    gangs = tuple(Crash((1, n), "w1", why, 0.0, absent="w3") for n in range(5))
    log = RunLog(lines, "id")
    async with listened_to(events.append, log) as (executor, head, _):
        executor.submit(2 * Cores(1), nothing)
        for task, crash in ((1, gangs[0]), (1, gangs[1]), (2, gangs[2])):
            head.post([(Started("id", (task,)), None), (Crashed(task, crash), None)])
            head.post([(Started("", (task,)), None)])
        head.post([(Resolved(1, "crashed", gangs), None), (Retracted(2), None)])
        result = await executor.results.receive()
    log.close()

    [apart] = [event for event in events if isinstance(event, MembersApart)]
    assert (":1", "nothing", why) == (apart.task[-2:], apart.function, apart.why)
    assert isinstance(result.outcome, outcome.Error)
    error = result.outcome.error
    assert isinstance(error, TaskCrashed)
    assert "never all joined" in str(error)
    assert f"on w1: {why}" in str(error)
    ended = [line.outcome for line in lines.lines if isinstance(line, RunEnded) and line.task == 1]
    assert ["returned", "returned", "crashed"] == ended


async def test_a_mission_reports_workers_that_are_lost_and_how_many_tasks_run_again() -> None:
    """Once for all that are lost at once; and not those that leave as they were to."""
    events: list[Event] = []
    done = Payloads("w").dump_outcome(outcome.Value(None))
    async with listened_to(events.append) as (executor, head, _):
        for _ in range(5):
            executor.submit(Cores(1), nothing)
        await wait_all_tasks_blocked()
        facts = [WorkerFacts(id_, f"n{id_}", "host", {}) for id_ in "abcd"]
        begun = [Started("a", (1, 2, 3)), Started("b", (4,)), Started("c", (5,))]
        head.post([(message, None) for message in (*facts, *begun, WorkerEnded("c"))])
        await wait_all_tasks_blocked()
        assert [] == events
        executor.cancel(2)
        head.post([
            (WorkerEnded("a", "it burnt", 61.0), None), (Started("", (1, 3)), None),
            (WorkerEnded("b", "it burnt", 60.0), None), (Started("", (4,)), None),
            (WorkerEnded("x", "unknown", 60.0), None), (Resolved(3, "value"), done),
        ])  # fmt: skip
        await wait_all_tasks_blocked()
        head.post(
            [(WorkerEnded("d", "its job has ended: OUT_OF_MEMORY", 5.0, by_batch=True), None)]
        )
        await wait_all_tasks_blocked()
        head.post([(Retracted(task), None) for task in (1, 2, 4, 5, 6)])

    why = "its job has ended: OUT_OF_MEMORY"
    assert [WorkersLost(("na", "nb"), 2, 61.0), WorkersLost(("nd",), 0, 5.0, why)] == events


async def test_a_mission_reports_workers_that_left_before_their_runs_had_ended() -> None:
    events: list[Event] = []
    async with listened_to(events.append) as (_, head, _):
        facts = [WorkerFacts(id_, f"n{id_}", "host", {}) for id_ in "abc"]
        gone = [
            WorkerEnded("a", handed_back=2, told="SIGTERM"), WorkerEnded("b", told="SIGTERM"),
            WorkerEnded("c", handed_back=1, told="asked to drain"),
        ]  # fmt: skip
        head.post([(message, None) for message in (*facts, *gone)])
        await wait_all_tasks_blocked()
        head.post([(Retracted(1), None)])

    assert [WorkersStopped(("na", "nc"), 3, "SIGTERM")] == events


async def test_the_log_has_the_calls_that_failed_unless_their_arguments_are_large() -> None:
    """Also of a run that was lost with its worker, whose task goes on."""
    log = KeptLines()
    run_log = RunLog(log, "id")
    failed = Payloads("w").dump_outcome(outcome.Error(ValueError()))
    done = Payloads("w").dump_outcome(outcome.Value(None))
    async with listened_to(run_log=run_log) as (executor, head, _):
        for size in 3, 200_000, 3:
            executor.submit(Cores(1), keep, bytes(size))
        await wait_all_tasks_blocked()
        lost = [
            (WorkerFacts("w", "w", "n1", {}), None), (Started("w", (1, 4)), None),
            (WorkerEnded("w", "it burnt"), None), (Started("", (1, 4)), None),
        ]  # fmt: skip
        ended = [(Resolved(task, "error"), failed) for task in (2, 3)]
        head.post([*lost, *ended, (Resolved(1, "value"), done), (Retracted(4), None)])
        await wait_all_tasks_blocked()
    run_log.close()

    calls = {(line.task, line.outcome): line.call for line in log.of(RunEnded)}
    assert "nothing()" == calls.pop((1, "lost"))
    assert "keep(b'\\x00\\x00\\x00')" == calls[2, "error"] == calls.pop((4, "lost"))
    assert "keep(…)" == calls[3, "error"]
    assert {"", calls[2, "error"], calls[3, "error"]} == set(calls.values())


def test_cores_are_those_of_others_if_no_task_of_the_mission_ran_when_they_were_counted() -> None:
    """So a worker that has just left does not seem to be busy for others."""
    session = MissionSession("m", "m")
    task = session.submit(remote_task(session.request({"Cores": 1})))
    session.on_connected()
    seen = []
    for message, given in ((Started("w", (task,)), 2), (Started("", (task,)), 2), (None, 0)):
        if message is not None:
            session.on_message(message, None)
        seen.append(session.inquiries.others)  # the answer is older
        session.on_message(Answer("load"), pack(LoadAnswer(given, 2, None)))
        seen.append(session.inquiries.others)

    assert [False, False, False, True, True, False] == seen
