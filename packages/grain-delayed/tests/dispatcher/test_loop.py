"""The loop between the files of a queue and an executor."""

from __future__ import annotations

import errno
import time
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import outcome
import pytest
import trio
import trio.testing

from grain.dispatcher.desk import Desk
from grain.dispatcher.mission import MOST_PRIORITY, DispatchLoop, request_of
from grain.eventlog.causes import RunFailure
from grain.files.batch_jobs import WorkerJob, jobs_over
from grain.files.processes import this_process
from grain.head.messages import Crash, FailedOn, Unschedulable
from grain.queue.dispatchers import Dispatchers
from grain.queue.folder import Queue
from grain.queue.records import (
    ArraySpec,
    Begun,
    Dependency,
    Ended,
    Job,
    JobUpdate,
    UnmetRequest,
    Wish,
)
from grain.resource import Cores, WTime, learned, to_data
from grain.worker.errors import note_memory
from grain.worker.jobs.run import AttemptCall, AttemptEnd
from grain_testkit.blocking import call_in_place
from grain_testkit.queue_disk import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from grain.dispatcher.plan import TaskAttempt
    from grain.resource import Resource
    from grain.worker import Call

JOB = Job(name="opt", at=0.0, host="h", user="ann", directory="/", command=("true",))
FAILED = RunFailure("", "opt: exit code 3")
MOST = 32.0  # GB of the largest worker


class Executor:
    """An executor whose workers answer each call by a function; None is no answer.

    Attributes:
        failed_on: where each call fails that raises.
    """

    def __init__(self, answer: Callable[[AttemptCall], AttemptEnd | None]) -> None:
        self._answer = answer
        self.calls: list[AttemptCall] = []
        self.requests: list[Resource] = []
        self.cancelled: list[int] = []
        self.on_crash: Callable[[int, Crash], object] | None = None
        self.priorities: list[int] = []
        self.outcomes: dict[int, str] = {}
        self.retried: set[int] = set()
        self.further: dict[int, int] = {}
        self.avoided: list[tuple[FailedOn, ...]] = []
        self.failed_on: FailedOn | None = None
        self.stuck: dict[int, Unschedulable] = {}

    def unmet(self) -> dict[int, Unschedulable]:
        return self.stuck

    def cancel(self, task: int) -> None:
        self.cancelled.append(task)

    def statistics(self) -> Any:
        return SimpleNamespace(running=0)

    def submit_call(
        self, request: Resource, call: Call, deliver: Callable[[Any], None], *, priority: int,
        number: int, avoid: tuple[FailedOn, ...], **_more: object,
    ) -> None:  # fmt: skip
        [what] = call.args
        self.calls.append(what)
        self.requests.append(request)
        self.priorities.append(priority)
        self.avoided.append(avoid)
        answer = self._answer(what)
        if answer is not None:
            trio.lowlevel.current_trio_token().run_sync_soon(self._end, answer, deliver, number)

    def _end(self, answer: AttemptEnd, deliver: Callable[[Any], None], number: int) -> None:
        self._last = number
        ended = outcome.capture(answer.check)
        if isinstance(ended, outcome.Error):
            # As the runner does.
            note_memory(ended.error, answer.amount, last=answer.amount == MOST)
        deliver(ended)
        self.outcomes[number] = "done" if isinstance(ended, outcome.Value) else "failed"
        if number in self.retried:
            self.outcomes[number] = "retried"

    def note_retry(self, task: int) -> None:
        assert task == self._last  # not before it has ended, nor after its receiver has returned
        self.retried.add(task)

    def note_further(self, task: int, first: int) -> None:
        self.further[task] = first


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queue", make=True)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trio.to_thread, "run_sync", call_in_place)


async def run_until(
    queue: Queue, executor: Executor, done: Callable[[], bool], desk: Desk | None = None
) -> None:
    """Run a loop until something is so, for 1,000 seconds of the clock at most."""
    loop = DispatchLoop(queue, desk or Desk(queue), executor)  # type: ignore[arg-type]
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop.run)
            while not done():
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()


def has_ended(queue: Queue, number: int) -> Callable[[], bool]:
    return lambda: queue.ended(number, None, 1) is not None


def has_calls(executor: Executor, count: int) -> bool:
    return len(executor.calls) == count


async def test_a_loop_that_is_roused_looks_at_once(
    queue: Queue, mock_clock: trio.testing.MockClock
) -> None:
    """Its clock stands still."""
    executor = Executor(lambda _: None)
    desk = Desk(queue)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(DispatchLoop(queue, desk, executor).run)  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        queue.submit(JOB)
        await trio.testing.wait_all_tasks_blocked()
        assert [] == executor.calls
        alive = Dispatchers(queue.files).alive()
        assert alive is not None
        alive.rouse()
        guard = time.monotonic() + 60  # the kernel may deliver a signal a moment later
        while not executor.calls and time.monotonic() < guard:
            await trio.lowlevel.checkpoint()
        assert 1 == len(executor.calls)
        nursery.cancel_scope.cancel()


async def test_no_call_of_a_dispatcher_counts_as_one_of_the_one_before(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    firsts = []
    for _ in range(2):
        executor = Executor(lambda _: None)
        queue.submit(JOB)
        jobs = queue.jobs.end() - 1  # each dispatcher hands over all that have not ended
        await run_until(queue, executor, partial(has_calls, executor, jobs))
        firsts.append(min(call.ticket for call in executor.calls))
    assert firsts[0] + 1_000_000_000 <= firsts[1]


async def test_an_attempt_that_is_taken_and_not_seen_is_tried_again_until_it_is(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    def answer(what: AttemptCall) -> AttemptEnd:
        if len(executor.calls) < 50:  # names are old
            return AttemptEnd("taken")
        queue.begin(1, None, 1, Begun(at=0.0, host="h"))
        queue.end(1, None, 1, Ended(how="exit", at=1.0))
        return AttemptEnd("ended")

    executor = Executor(answer)
    queue.submit(JOB)
    await run_until(queue, executor, has_ended(queue, 1))
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert ended.how == "exit"
    assert len(executor.calls) == 50


async def test_attempts_of_a_job_count_as_one_call_that_is_tried_again(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    """The first attempt fails, the worker of the second is lost, and the third one succeeds."""

    def answer(what: AttemptCall) -> AttemptEnd:
        if what.attempt == 2 and queue.begin(1, None, 2, Begun(at=0.0, host="h")):
            return AttemptEnd("returned")
        if what.attempt == 2:
            queue.end(1, None, 2, Ended(how="lost", at=1.0))
            return AttemptEnd("taken")
        status = 3 if what.attempt == 1 else 0
        queue.begin(1, None, what.attempt, Begun(at=0.0, host="h"))
        queue.end(1, None, what.attempt, Ended(how="exit", at=1.0, status=status))
        return AttemptEnd("ended", failure=FAILED if status else None)

    executor = Executor(answer)
    queue.submit(msgspec.structs.replace(JOB, retries=1))

    def over() -> bool:
        if queue.ended(1, None, 2) is None and len(executor.calls) == 2:
            queue.end(1, None, 2, Ended(how="lost", at=1.0))
        return queue.ended(1, None, 3) is not None

    await run_until(queue, executor, over)
    first, *others = executor.outcomes
    assert [1, 2, 3] == [call.attempt for call in executor.calls]
    assert ["retried", "retried", "done"] == list(executor.outcomes.values())
    assert dict.fromkeys(others, first) == executor.further


@pytest.mark.parametrize("stated", [{"M": MOST}, {}])
async def test_a_job_of_a_group_runs_again_with_more_memory_until_it_has_the_most(
    queue: Queue, autojump_clock: trio.testing.MockClock, stated: dict[str, float]
) -> None:
    """The amounts are those of the scheduler; the last attempt is a failure for good."""
    amounts = [3.0, 8.0, MOST]

    def answer(what: AttemptCall) -> AttemptEnd:
        amount = amounts[what.attempt - 1]
        queue.begin(1, None, what.attempt, Begun(at=0.0, host="h"))
        ended = Ended(how="memory", at=1.0, amount=amount, last=amount == MOST)
        queue.end(1, None, what.attempt, ended)
        return AttemptEnd("ended", failure=FAILED, amount=amount)

    executor = Executor(answer)
    request = {"Cores": 1, "Memory": {**stated, "group": "opt"}}
    queue.submit(msgspec.structs.replace(JOB, request=request))
    await run_until(queue, executor, lambda: queue.ended(1, None, 3) is not None)
    asked = [learned(one) for one in executor.requests]
    assert [(1, 0.0), (2, 3.0), (3, 8.0)] == [one.tried for one in asked if one is not None]
    assert ["retried", "retried", "failed"] == list(executor.outcomes.values())


class Scheduler(Executor):
    """An executor whose calls wait, and end when they are cancelled."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self._waiting: dict[int, Callable[[Any], None]] = {}

    def submit_call(
        self, request: Resource, call: Call, deliver: Callable[[Any], None], **more: Any
    ) -> None:
        super().submit_call(request, call, deliver, **more)
        self._waiting[more["number"]] = deliver

    def cancel(self, task: int) -> None:
        super().cancel(task)
        trio.lowlevel.current_trio_token().run_sync_soon(self._end_cancelled, task)

    def _end_cancelled(self, task: int) -> None:
        self._last = task
        self._waiting.pop(task)(outcome.Error(RuntimeError("cancelled")))


async def test_a_job_that_is_updated_is_called_back_and_handed_over_as_it_is_then(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    """Also more often than an attempt is tried that cannot begin."""
    executor = Scheduler()
    queue.submit(JOB)
    times = range(1, 30)

    async def ask() -> None:
        for priority in times:
            while len(executor.calls) < priority:
                await trio.sleep(0.1)
            update = JobUpdate(priority=priority, timeout=60.0 * priority)
            queue.wish(Wish(what="update", jobs=((1, 1),), update=update))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await run_until(queue, executor, lambda: len(executor.calls) == times.stop)
    assert [0, *times] == executor.priorities
    assert [None, *(60.0 * one for one in times)] == [call.timeout for call in executor.calls]
    assert request_of(msgspec.structs.replace(JOB, timeout=60.0 * 29)) == executor.requests[-1]
    assert {1} == {call.attempt for call in executor.calls}
    assert queue.begun(1, None, 1) is None


def dead(**fields: Any) -> Begun:
    """Return the receipt of a run on this host before it was started again."""
    me = this_process()
    return Begun(
        at=0.0, host=me.host, machine=me.machine, boot="before", pid=1, pid_began=1, worker="w",
        **fields,
    )  # fmt: skip


async def test_a_cancelled_job_ends_without_workers_if_its_worker_and_dispatcher_died(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    executor = Scheduler()
    queue.submit(msgspec.structs.replace(JOB, retries=3))
    queue.begin(1, None, 1, dead(ticket=7))
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    desk = Desk(queue, trio.current_time)

    await run_until(queue, executor, lambda: not desk.plan.has_jobs, desk)

    assert executor.cancelled == [7]
    second = queue.begun(1, None, 2)
    assert second is not None
    assert second.cancelled == "ann"


async def test_a_run_ends_that_has_begun_unseen_before_the_dispatcher_could_cancel_it(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    """It has no call, so only its files tell of it."""
    executor = Scheduler()
    queue.submit(msgspec.structs.replace(JOB, retries=3))
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by="ann"))
    desk = Desk(queue, trio.current_time)
    queue.begin(1, None, 1, dead())

    await run_until(queue, executor, lambda: not desk.plan.has_jobs, desk)

    assert not executor.calls
    assert desk.book.entries[1].counts.cancelled == 1


async def test_the_first_calls_of_tasks_that_are_cancelled_before_the_next_one_are_forgotten(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    """All but the last one of the first jobs, which is held and comes again."""

    def answer(what: AttemptCall) -> AttemptEnd:
        jobs = ((what.number, what.number),)
        queue.begin(what.number, None, what.attempt, Begun(at=0.0, host="h"))
        queue.end(what.number, None, what.attempt, Ended(how="exit", at=1.0, status=3))
        queue.wish(Wish(what="hold" if what.number == 10 else "cancel", jobs=jobs))
        return AttemptEnd("ended", failure=FAILED)

    executor = Executor(answer)
    user = Queue.open(queue.folder)  # another process
    loop = DispatchLoop(queue, Desk(queue), executor, remembered=3)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        for last in (10, 30):
            for _ in range(last - user.jobs.end() + 1):
                user.submit(msgspec.structs.replace(JOB, retries=1))
            while len(executor.outcomes) < last or user.begun(last - 1, None, 2) is None:
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()

    assert 30 == len(executor.outcomes)
    assert (10, None) in loop.first
    assert len(loop.first) <= 21  # as many as had not ended when they were looked for


async def test_the_last_attempt_of_a_job_that_fails_has_failed_for_good(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    def answer(what: AttemptCall) -> AttemptEnd:
        queue.begin(1, None, what.attempt, Begun(at=0.0, host="h"))
        queue.end(1, None, what.attempt, Ended(how="exit", at=1.0, status=3))
        return AttemptEnd("ended", failure=FAILED)

    executor = Executor(answer)
    queue.submit(msgspec.structs.replace(JOB, retries=2))
    await run_until(queue, executor, lambda: len(executor.outcomes) == 3)

    assert ["retried", "retried", "failed"] == list(executor.outcomes.values())


async def test_a_job_that_no_worker_sees_fails_when_names_cannot_be_old_any_more(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    executor = Executor(lambda _: AttemptEnd("not begun", "there is no job 1"))
    queue.submit(JOB)
    await run_until(queue, executor, has_ended(queue, 1))
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert ended.message == "no worker can run it: there is no job 1"
    assert len(executor.calls) > 12  # five seconds between two


async def test_the_next_attempt_at_a_job_goes_elsewhere_first(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    def answer(what: AttemptCall) -> AttemptEnd:
        executor.failed_on = FailedOn(f"w{what.attempt}", (what.attempt,))
        queue.begin(what.number, None, what.attempt, Begun(at=0.0, host="h"))
        failed = what.attempt < 3 and what.number == 1
        end = Ended(how="exit", at=1.0, status=int(failed))
        queue.end(what.number, None, what.attempt, end)
        return AttemptEnd("ended", failure=FAILED if failed else None)

    executor = Executor(answer)
    queue.submit(msgspec.structs.replace(JOB, retries=2))
    await run_until(queue, executor, lambda: queue.ended(1, None, 3) is not None)
    queue.submit(JOB)
    await run_until(queue, executor, has_ended(queue, 2))

    first, second = FailedOn("w1", (1,)), FailedOn("w2", (2,))
    assert [(), (first,), (first, second), ()] == executor.avoided


async def test_a_priority_that_no_message_can_have_ends_no_dispatcher(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    executor = Executor(lambda _: None)
    for priority in (10**30, 7, -(10**30)):
        queue.submit(msgspec.structs.replace(JOB, priority=priority))
    await run_until(queue, executor, lambda: len(executor.calls) == 3)
    assert executor.priorities == [MOST_PRIORITY, 7, -MOST_PRIORITY]


async def test_a_request_of_an_unknown_kind_fails_at_once(
    queue: Queue, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Executor(lambda _: None)
    queue.submit(msgspec.structs.replace(JOB, request={"Flux": 3}))
    queue.submit(msgspec.structs.replace(JOB, request={"Cores": "x"}))
    await run_until(queue, executor, has_ended(queue, 2))
    await run_until(queue, executor, has_ended(queue, 1))
    assert not executor.calls
    assert "trying again" not in caplog.text
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert "Flux" in ended.message


async def test_requests_that_no_worker_can_meet_leave_room_for_others(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    executor = Executor(lambda _: None)
    many = ArraySpec(ranges=((1, 2001, 1),))
    queue.submit(msgspec.structs.replace(JOB, array=many, request={"Cores": 1000}))

    def has_come() -> bool:
        if len(executor.calls) == 2000 and not queue.jobs.has(2):
            queue.submit(JOB)
        return any(call.number == 2 for call in executor.calls)

    await run_until(queue, executor, has_come)
    assert len(executor.calls) == 2001


async def test_an_end_that_cannot_be_read_does_not_hide_others(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    def answer(what: AttemptCall) -> AttemptEnd:
        queue.begin(what.number, None, 1, Begun(at=0.0, host="h"))
        queue.end(what.number, None, 1, Ended(how="exit", at=1.0))
        return AttemptEnd("ended")

    queue.submit(JOB)
    queue.submit(JOB)
    desk = Desk(queue, lambda: 0.0)  # it does not look at all receipts by itself

    disk = ExitStack()
    disk.enter_context(unreadable("attempts/0/1.1.begun"))

    def have_ended() -> bool:
        if desk.book.entries[2].is_final:
            disk.close()
        return desk.book.entries[1].is_final

    await run_until(queue, Executor(answer), have_ended, desk)


@pytest.fixture
def rare_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a loop look for jobs each five seconds only, as minutes of it pass."""
    monkeypatch.setattr("grain.dispatcher.mission._LOOK", 5.0)


async def test_a_run_of_which_nothing_is_heard_ends_when_its_batch_job_is_over(
    queue: Queue, autojump_clock: trio.testing.MockClock, rare_looks: None
) -> None:
    queue.submit(msgspec.structs.replace(JOB, requeue=False))
    there = Begun(
        at=0.0, host="n17", boot="b", pid=1, pid_began=1, batch_system="slurm",
        batch_job="7",
    )  # fmt: skip
    queue.begin(1, None, 1, there)
    asked: list[float] = []
    began = trio.current_time()

    async def ask(jobs: Sequence[WorkerJob]) -> list[str | None]:
        asked.append(trio.current_time() - began)
        assert [WorkerJob("slurm", "7", "n17")] == list(jobs)
        return [None if len(asked) < 3 else "TIMEOUT"]

    desk = Desk(queue, autojump_clock.current_time)
    executor = Executor(lambda _: None)
    loop = DispatchLoop(queue, desk, executor, ask)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        while not has_ended(queue, 1)():
            await trio.sleep(5.0)
        nursery.cancel_scope.cancel()
    ended = queue.ended(1, None, 1)
    assert ended is not None
    assert (ended.how, ended.message) == (
        "lost",
        "the batch job of its worker on n17 is over: TIMEOUT",
    )
    # Slurm lists a job for five minutes after its end.
    assert [pytest.approx(at, abs=10.0) for at in (120.0, 360.0, 600.0)] == asked
    assert 660.0 == pytest.approx(trio.current_time() - began, abs=20.0)  # gone for a minute


async def test_a_batch_system_is_asked_soon_about_a_further_run_and_once_a_minute_at_most(
    queue: Queue, autojump_clock: trio.testing.MockClock, rare_looks: None
) -> None:
    asked: list[tuple[float, list[str]]] = []
    began = trio.current_time()
    there = Begun(
        at=0.0, host="n17", boot="b", pid=1, pid_began=1, batch_system="slurm",
    )  # fmt: skip

    async def ask(jobs: Sequence[WorkerJob]) -> list[str | None]:
        asked.append((trio.current_time() - began, [one.job for one in jobs]))
        return [None] * len(jobs)

    def answer(what: AttemptCall) -> AttemptEnd:
        job = msgspec.structs.replace(there, batch_job=str(what.number))
        queue.begin(what.number, None, 1, job)
        return AttemptEnd("returned")  # without a receipt, as of a worker that has died

    desk = Desk(queue, autojump_clock.current_time)
    loop = DispatchLoop(queue, desk, Executor(answer), ask)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        for pause in (0.0, 20.0, 20.0, 320.0):
            await trio.sleep(pause)
            queue.submit(JOB)
        await trio.sleep(200.0)
        nursery.cancel_scope.cancel()

    assert [pytest.approx(at, abs=10.0) for at in (120.0, 180.0, 420.0, 480.0)] == [
        at for at, _ in asked
    ]
    few, many = ["1"], ["1", "2", "3"]
    assert [few, many, many, [*many, "4"]] == [jobs for _, jobs in asked]


@pytest.mark.parametrize("known", [True, False], ids=["reported", "silent"])
async def test_a_job_whose_worker_reports_the_crash_of_its_run_runs_again(
    queue: Queue, autojump_clock: trio.testing.MockClock, known: bool
) -> None:
    def answer(what: AttemptCall) -> AttemptEnd | None:
        run = (1, what.attempt)
        there = Begun(at=0.0, host="n17", boot="b", pid=1, pid_began=1, ticket=what.ticket, run=run)
        queue.begin(what.number, None, what.attempt, there)
        return None

    executor = Executor(answer)
    queue.submit(JOB)

    def crash() -> None:
        [first] = executor.calls
        assert executor.on_crash is not None
        executor.on_crash(first.ticket, Crash((1, 1), "w", "SIGSEGV", 0.0, known=known))

    async def soon() -> None:
        while not executor.calls:
            await trio.sleep(0.1)
        crash()
        await trio.sleep(600)
        over.append(True)

    over: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(soon)
        await run_until(queue, executor, lambda: len(executor.calls) == 2 or bool(over))
        nursery.cancel_scope.cancel()
    ended = queue.ended(1, None, 1)
    if known:
        assert ended is not None
        assert (ended.how, ended.message) == ("lost", "SIGSEGV")
        assert executor.cancelled == [executor.calls[0].ticket]
        assert executor.calls[1].attempt == 2
    else:
        assert ended is None


async def test_whoever_asks_batch_systems_ends_with_the_loop(
    queue: Queue, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(queue)
    loop = DispatchLoop(queue, desk, Executor(lambda _: None))  # type: ignore[arg-type]
    Desk(queue)
    await loop.run()


async def test_without_the_commands_of_grain_no_batch_system_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("trio.run_process", None)
    assert await jobs_over([WorkerJob("slurm", "1", "n1")]) == [None]


async def test_what_hinders_the_begin_is_raised_as_it_is(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adopted() -> list[Any]:
        raise OSError(errno.EIO, "Input/output error")

    desk = Desk(queue)
    monkeypatch.setattr(desk, "adopted", adopted)
    loop = DispatchLoop(queue, desk, Executor(lambda _: None))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output error"):
        await loop.run()


async def test_jobs_that_have_ended_make_room_for_others_of_their_kind(
    queue: Queue, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.dispatcher.mission.WAITING", 3)
    ended: set[int | None] = set()
    waiting: list[int] = []

    def answer(what: AttemptCall) -> AttemptEnd:
        waiting.append(len(executor.calls) - len(ended))
        queue.begin(*key(what), Begun(at=0.0, host="h"))
        queue.end(*key(what), Ended(how="exit", at=1.0))
        ended.add(what.task)
        return AttemptEnd("ended")

    executor = Executor(answer)
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 20, 1),))))
    await run_until(queue, executor, lambda: len(ended) == 20)
    assert max(waiting) <= 3


def key(what: AttemptCall) -> tuple[int, int | None, int]:
    return what.number, what.task, what.attempt


async def test_ends_are_read_together_while_workers_have_enough_to_do(
    queue: Queue, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array on one worker, whose runs take 10 ms, and then a job that waits for it."""
    free, rounds = trio.Lock(), list[int]()

    class Brief(Executor):
        def statistics(self) -> Any:
            return SimpleNamespace(running=1)

        def submit_call(self, _: Resource, call: Call, deliver: Any, **_more: Any) -> None:  # type: ignore[override]
            self.calls += call.args
            nursery.start_soon(self._run, call.args[0], deliver)

        async def _run(self, what: AttemptCall, deliver: Callable[[Any], None]) -> None:
            async with free:
                await trio.sleep(0.01)
            queue.begin(what.number, what.task, 1, Begun(at=0.0, host="h"))
            queue.end(what.number, what.task, 1, Ended(how="exit", at=1.0))
            deliver(outcome.Value(None))

    read_all = Desk.read_all

    def noted(desk: Desk, ends: list[TaskAttempt]) -> dict[TaskAttempt, bool]:
        rounds.append(len(ends))
        return read_all(desk, ends)

    monkeypatch.setattr(Desk, "read_all", noted)
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 40, 1),))))
    queue.submit(msgspec.structs.replace(JOB, after=(Dependency(jobs=(1,)),)))
    async with trio.open_nursery() as nursery:
        await run_until(queue, Brief(lambda _: None), has_ended(queue, 2))
    assert 40 <= sum(rounds)
    assert len(rounds) <= 12


async def test_those_that_wait_do_not_become_more_than_the_scheduler_is_to_have(
    queue: Queue, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grain.dispatcher.mission.WAITING", 3)
    executor = Executor(lambda _: None)
    # Those that run do not wait.
    monkeypatch.setattr(executor, "statistics", lambda: SimpleNamespace(running=2))
    queue.submit(msgspec.structs.replace(JOB, array=ArraySpec(ranges=((1, 20, 1),))))
    queue.submit(msgspec.structs.replace(JOB, request={"Cores": 2}))
    await run_until(queue, executor, lambda: any(what.number == 2 for what in executor.calls))
    assert [*((1, task) for task in range(1, 6)), (2, None)] == [
        (what.number, what.task) for what in executor.calls
    ]


@pytest.mark.parametrize("timeout", [0.0, 90.0, float("inf")])
def test_a_worker_ends_a_job_only_long_after_its_own_limit(timeout: float) -> None:
    request = request_of(msgspec.structs.replace(JOB, request={"Cores": 2}, timeout=timeout))
    limit = Cores(2) if timeout in (0.0, float("inf")) else Cores(2) & WTime(T=150.0, softT=90.0)
    # SIGTERM comes at the limit, and SIGKILL 30 s later; what is left has as long once more.
    assert to_data(limit) == to_data(request)


@pytest.mark.parametrize(("workers", "seconds"), [(True, 10), (False, 60)])
async def test_commands_are_told_what_no_worker_could_meet_for_a_while(
    queue: Queue, autojump_clock: trio.testing.MockClock, workers: bool, seconds: float
) -> None:
    executor = Executor(lambda _: None)
    large = msgspec.structs.replace(JOB, request={"Cores": 1000}, timeout=60.0)
    queue.submit(large)
    told = Dispatchers(queue.files).unmet
    loop = DispatchLoop(queue, Desk(queue), executor)  # type: ignore[arg-type]

    async def until(done: Callable[[], bool]) -> None:
        while not done():
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        await until(lambda: bool(executor.calls))
        [call] = executor.calls
        why = Unschedulable(0, "w1: too small", workers)
        executor.stuck = {call.ticket: why}
        began = trio.current_time()
        await until(lambda: bool(told()))
        assert trio.current_time() >= began + seconds, "a worker may come back"
        assert [UnmetRequest(request={"Cores": 1000}, timeout=60.0)] == told()
        executor.stuck = {}
        await until(lambda: not told())
        executor.stuck = {call.ticket: msgspec.structs.replace(why, cluster=True)}
        await until(lambda: bool(told()))
        assert "w1: too small" == told()[0].why, "no worker changes that"
        nursery.cancel_scope.cancel()
