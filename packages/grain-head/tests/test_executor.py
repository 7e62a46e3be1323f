"""`GrainExecutor`: two queues around a scheduler and a local worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain import GVAR
from grain.eventlog.schema import RunEnded, TaskStarted, TaskSubmitted
from grain.eventlog.usage import Usage
from grain.head import ExecutorClosed, GrainExecutor, TaskCancelled
from grain.head.errors import TaskCrashed
from grain.head.events import (
    Event,
    TaskFailed,
    WorkerCleaning,
    WorkerJoined,
    WorkerLeft,
)
from grain.head.run_log import RunLog
from grain.head.scheduler.numbered import Numbered
from grain.head.scheduler.state import Task
from grain.resource import Capacity, Cores, Either, GPUs, Infeasible, Memory, WTime
from grain.worker import Call
from grain.worker.errors import ExternalLostError, Failure
from grain_testkit.kept_lines import KeptLines

if TYPE_CHECKING:
    from trio.testing import MockClock

    from grain.resource import Resource


async def nap(seconds: float) -> float:
    await trio.sleep(seconds)
    return seconds


async def test_results_come_in_the_order_of_ending_and_end_after_close(
    autojump_clock: MockClock,
) -> None:
    async with GrainExecutor(Cores(2)) as executor:
        ids = [executor.submit(Cores(1), nap, seconds) for seconds in (3, 1, 1)]
        executor.close()
        ended_jobs = [(job, ended.unwrap()) async for job, ended in executor.results]

    assert ended_jobs == [(ids[1], 1), (ids[2], 1), (ids[0], 3)]
    assert ids == [1, 2, 3]


async def test_a_decision_does_not_count_the_tasks() -> None:
    """That takes a millisecond where a hundred thousand wait."""

    class CountedTasks(Numbered[Task]):
        looks = 0

        def __len__(self) -> int:
            CountedTasks.looks += 1
            return super().__len__()

    executor = GrainExecutor(Cores(1))
    executor._scheduler.tasks = CountedTasks()
    async with executor:
        for _ in range(20):
            executor.submit(Cores(1), nap, 0)
    assert CountedTasks.looks == 0


async def test_unread_results_outlast_the_executor() -> None:
    """Results that were not taken are there after the executor has ended."""
    async with GrainExecutor(Cores(1)) as executor:
        for _ in range(50):
            executor.submit(Cores(1), nap, 0)
    assert executor.statistics().results_waiting == 50

    assert len([job async for job, _ in executor.results]) == 50


async def test_a_cancelled_job_frees_its_resources_when_it_has_ended(
    autojump_clock: MockClock,
) -> None:
    times: list[float] = []

    async def stubborn() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

    async def note() -> None:
        times.append(trio.current_time())

    async with GrainExecutor(Cores(1)) as executor:
        running = executor.submit(Cores(1), stubborn)
        waiting = executor.submit(Cores(1), nap, 1)
        executor.submit(Cores(1), note)
        await wait_all_tasks_blocked()
        for job in (waiting, running, running, 99):
            executor.cancel(job)
        assert executor.statistics().cancelled == 1
        began = trio.current_time()
        executor.close()
        ended = {job: result async for job, result in executor.results}

    assert times == [pytest.approx(began + 5)]
    for job in (running, waiting):
        result = ended[job]
        assert isinstance(result, outcome.Error)
        assert isinstance(result.error, TaskCancelled)


async def test_leaving_by_exception_cancels() -> None:
    """The exception passes unwrapped, after nothing is left of the jobs."""
    ended = []

    async def tasklet() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    delivered: list[Any] = []
    with pytest.raises(ValueError, match=r"^mine$"):
        async with GrainExecutor(Cores(1)) as executor:
            executor.submit_call(Cores(1), Call(tasklet, (), {}), delivered.append)
            executor.submit(Cores(1), tasklet)
            await wait_all_tasks_blocked()
            raise ValueError("mine")

    assert ended == [1]
    assert isinstance(delivered[0].error, TaskCancelled)
    assert executor.statistics().cancelled == 2


async def test_an_executor_that_was_closed_early_cannot_be_entered() -> None:
    executor = GrainExecutor(Cores(1))
    executor.close()
    with pytest.raises(ExecutorClosed, match="used once"):
        async with executor:
            pass


async def test_jobs_are_refused_outside_of_the_block_which_is_entered_once() -> None:
    executor = GrainExecutor(Cores(1))
    with pytest.raises(ExecutorClosed, match="takes no tasks"):
        executor.submit(Cores(1), nap, 1)
    async with executor:
        executor.close()
        with pytest.raises(ExecutorClosed):
            executor.submit(Cores(1), nap, 1)
    with pytest.raises(ExecutorClosed, match="used once"):
        await executor.__aenter__()


@pytest.mark.parametrize(
    ("request_", "local"),
    [
        (Cores(3), "Cores(3)"),
        (Memory(0.5), "Cores(2) & Memory(0.5)"),
        (Cores(2) & Memory(0.5), "Cores(2) & Memory(0.5)"),
        (Cores(1) & GPUs(1), "Cores(2) & GPUs(1)"),
    ],
)
async def test_the_error_of_a_job_that_can_never_run_has_the_local_worker_that_it_needs(
    request_: Resource, local: str
) -> None:
    async with GrainExecutor(Cores(2)) as executor:
        with pytest.raises(Infeasible) as caught:
            executor.submit(request_, nap, 1)

    assert str(caught.value).endswith(f"run(..., local={local})")


async def test_a_job_that_can_never_run_is_an_error_where_no_worker_can_join() -> None:
    async with GrainExecutor(Cores(2)) as executor:
        with pytest.raises(Infeasible, match=r"asks for Cores\(3\) can never run here .*it has"):
            executor.submit(Cores(3), nap, 1)
        assert executor.statistics().queued == 0


async def test_events_come_in_order_and_a_task_that_waits_is_explained() -> None:
    events: list[Event] = []
    with pytest.raises(KeyError):
        async with GrainExecutor(Cores(2), on_event=events.append) as executor:
            executor.submit(Cores(2), nap, 1)
            executor.submit(Cores(2), nap, 1)
            await wait_all_tasks_blocked()
            assert "not now, free is" in str(executor.why(2))
            raise KeyError

    assert [WorkerJoined, WorkerCleaning, WorkerLeft] == [type(event) for event in events]


async def test_a_job_that_exceeds_its_hard_limit_fails_with_too_slow_error(
    autojump_clock: MockClock,
) -> None:
    async with GrainExecutor(Cores(1)) as executor:
        executor.submit(Cores(1) & WTime(T=5), nap, 10)
        _, ended = await executor.results.receive()

    with pytest.raises(trio.TooSlowError, match="hard time limit of 5 s"):
        ended.unwrap()


async def test_worker_runs_out_of_time(autojump_clock: MockClock) -> None:
    """A job ends with its worker's time, also one that has no limit of its own."""
    async with GrainExecutor(Cores(2) & WTime(T=3)) as executor:
        limits = {executor.submit(Cores(1), nap, 10): "3 s"}
        await trio.sleep(1)
        limits[executor.submit(Cores(1) & WTime(T=10, softT=1), nap, 10)] = "2 s"
        executor.close()
        ended = {job: result async for job, result in executor.results}

    for job, limit in limits.items():
        with pytest.raises(trio.TooSlowError, match=f"hard time limit of {limit}"):
            ended[job].unwrap()


@pytest.mark.parametrize("waits", [WTime(T=2), WTime(T=2) & Cores(1), Cores(1)])
async def test_a_job_that_waited_until_no_time_is_left_fails(
    autojump_clock: MockClock, waits: Resource
) -> None:
    async with GrainExecutor(Cores(1) & Capacity(1) & WTime(T=3)) as executor:
        executor.submit(Cores(1), nap, 4 if waits == Cores(1) else 2)
        late = executor.submit(waits, nap, 1)
        executor.close()
        ended = {job: result async for job, result in executor.results}

    with pytest.raises(Infeasible, match=r"can never run here any more \(.*(left|over).*more time"):
        ended[late].unwrap()
    failed = 2 if waits == Cores(1) else 1  # the first ends with the worker's time
    assert failed == executor.statistics().failed


@pytest.mark.parametrize("wrong", [2, None])
async def test_a_request_that_is_no_resource_is_refused(wrong: Any) -> None:
    async with GrainExecutor(Cores(1)) as executor:
        with pytest.raises(TypeError, match=rf"submit\({wrong}, ...\): first come the resources"):
            executor.submit(wrong, nap, 1)


async def test_larger_priorities_go_first() -> None:
    order: list[int] = []

    async def note(k: int) -> None:
        order.append(k)

    async with GrainExecutor(Cores(1)) as executor:
        for k in (0, 2, 1):
            executor.submit_call(Cores(1), Call(note, (k,), {}), priority=k)

    assert order == [2, 1, 0]


async def test_two_wait_for_the_end(autojump_clock: MockClock) -> None:
    """Any number of tasks may wait until no job is left."""
    async with GrainExecutor(Cores(1)) as executor, trio.open_nursery() as nursery:
        executor.submit(Cores(1), nap, 1)
        nursery.start_soon(executor.join)
        nursery.start_soon(executor.join)

    assert executor.statistics().done == 1


async def test_a_sync_function_or_a_base_exception_fails_its_job_only() -> None:
    """A sync function and a BaseException fail their job and nothing else."""

    async def leaves() -> None:
        raise SystemExit(1)

    async with GrainExecutor(Cores(1)) as executor:
        executor.submit(Cores(1), len, "abc")  # type: ignore[arg-type]
        executor.submit(Cores(1), leaves)
        executor.submit(Cores(1), nap, 0)

    assert (executor.statistics().failed, executor.statistics().done) == (2, 1)


async def fail(x: int, name: str = "") -> None:
    raise ValueError(x)


async def test_a_failure_is_reported_with_its_call_before_its_outcome_is_handed_over() -> None:
    events: list[Event] = []
    async with GrainExecutor(Cores(1), on_event=events.append) as executor:
        executor.submit(Cores(1), nap, 0)
        executor.submit(Cores(1), fail, 7, name="n")
        executor.submit_call(
            Cores(1), Call(fail, (8,), {}), lambda _: events.append(WorkerLeft(""))
        )

    failed = [event for event in events if isinstance(event, TaskFailed)]
    assert [(2, "fail(7, name='n')"), (3, "fail(8)")] == [(e.task, e.call()) for e in failed]
    assert [ValueError] * 2 == [type(event.error) for event in failed]
    assert events.index(WorkerLeft("")) > events.index(failed[1])


async def test_a_log_has_the_times_the_cpus_and_the_use_of_each_run() -> None:
    before = time.time()
    log = KeptLines(before - time.monotonic())
    run_log = RunLog(log, "id")
    executor = GrainExecutor(Cores([3]), name="here", run_log=run_log)
    with pytest.raises(KeyError):
        async with executor:
            executor.submit(Cores(1), nap, 0)
            executor.submit(Cores(1), fail, 7)
            while len(log.of(RunEnded)) < 2:
                await trio.lowlevel.checkpoint()
                run_log.close()
            executor.submit(Cores(1), trio.sleep_forever)
            await wait_all_tasks_blocked()
            executor.cancel(executor.submit(Cores(1), nap, 0))
            raise KeyError

    run_log.close()
    ended = log.of(RunEnded)
    expected = [(1, "value"), (2, "error"), (4, "cancelled"), (3, "cancelled")]
    assert expected == [(one.task, one.outcome) for one in ended]
    assert [((3,), Usage())] * 2 == [(one.cpus, one.usage) for one in ended[:2]]
    assert [(), None] == [ended[2].cpus, ended[2].usage]
    for one in ended[:2]:
        assert one.started is not None
        assert one.ended is not None
        assert before <= one.started <= one.ended <= time.time()


async def test_the_log_has_the_calls_that_failed_and_no_others() -> None:
    log = KeptLines()
    run_log = RunLog(log, "id")
    async with GrainExecutor(Cores(1), run_log=run_log) as executor:
        executor.submit(Cores(1), nap, 0)
        executor.submit(Cores(1), fail, 7, name="n")
    run_log.close()

    assert ["", "fail(7, name='n')"] == [line.call for line in log.of(RunEnded)]


async def test_in_the_log_a_job_is_submitted_after_the_end_of_the_one_that_it_follows(
    autojump_clock: MockClock,
) -> None:
    """Also if others were submitted before that end, and all are dispatched together."""
    log = KeptLines()
    run_log = RunLog(log, "id")
    async with GrainExecutor(Cores(1), run_log=run_log) as executor:
        first = executor.submit(Cores(1), nap, 0)
        autojump_clock.jump(1.0)
        executor.cancel(first)
        executor.submit_call(Cores(1), Call(nap, (0,), {}), after=first, priority=2)
    run_log.close()

    assert [0, 2] == [line.priority for line in log.of(TaskSubmitted)]
    lines = [line for line in log.lines if isinstance(line, (TaskSubmitted, RunEnded))]
    expected = [(TaskSubmitted, 1), (RunEnded, 1), (TaskSubmitted, 2), (RunEnded, 2)]
    assert expected == [(type(line), line.task) for line in lines]


async def test_cancelled_jobs_that_never_ran_are_counted() -> None:
    events: list[Event] = []
    executor = GrainExecutor(Cores(2), on_event=events.append)
    with pytest.raises(KeyError):
        async with executor:
            jobs = [executor.submit(Cores(1), trio.sleep_forever) for _ in range(6)]
            await wait_all_tasks_blocked()
            executor.cancel(jobs[0])
            executor.cancel(jobs[5])
            await wait_all_tasks_blocked()
            raise KeyError

    now = executor.statistics()
    assert (6, 3, 0, 0) == (now.cancelled, now.not_begun, now.failed, now.done)
    assert not any(isinstance(event, TaskFailed) for event in events)


async def test_statistics_have_the_cores_in_use() -> None:
    async with GrainExecutor(Cores([1, 3, 5]) & GPUs(1)) as executor:
        assert (0, 3) == (executor.statistics().given, executor.statistics().cores)
        release = trio.Event()
        executor.submit(Cores(2), release.wait)
        executor.submit(GPUs(1), release.wait)
        await wait_all_tasks_blocked()
        assert (2, 3) == (executor.statistics().given, executor.statistics().cores)
        release.set()
        await executor.join()
        assert (0, 3) == (executor.statistics().given, executor.statistics().cores)


def test_local_of_a_wrong_type() -> None:
    """The resources of the local worker are resources."""
    with pytest.raises(TypeError, match=r"local=2: give the resources"):
        GrainExecutor(2)  # type: ignore[arg-type]


class Crashing:
    """A tasklet whose runs lose the supervisor of their program, as many as the test says.

    Attributes:
        seen: the resources of each run, and how many others ran at its end.
    """

    def __init__(self, crashes: int) -> None:
        self.crashes = crashes
        self.seen: list[tuple[str, int]] = []
        self.others = 0

    async def run(self) -> str:
        await trio.sleep(1)
        self.seen.append((repr(GVAR.res), self.others))
        if len(self.seen) > self.crashes:
            return "done"
        raise ExternalLostError(Failure(("xtb", "a.xyz"), "n17", unwatched=True))

    async def other(self) -> None:
        self.others += 1
        await trio.sleep(1.3)
        self.others -= 1


async def test_a_job_whose_supervisor_was_killed_runs_again_and_by_itself_after_two_crashes(
    autojump_clock: MockClock,
) -> None:
    """As on any other worker; it is served by its age, and gets what it asked for."""
    crashing = Crashing(3)
    events: list[Event] = []
    async with GrainExecutor(Cores(2) & Memory(8), on_event=events.append) as executor:
        job = executor.submit(Cores(1) & WTime(T=100), crashing.run)
        others = [executor.submit(Cores(1), crashing.other) for _ in range(6)]
        executor.close()
        ended = {job: result async for job, result in executor.results}

    assert "done" == ended[job].unwrap()
    assert {job, *others} == ended.keys()
    assert 4 == len(crashing.seen)
    assert all("Memory" not in res and "Cores" in res for res, _ in crashing.seen)
    assert [True, True, False, False] == [others > 0 for _, others in crashing.seen]
    assert [] == [event for event in events if isinstance(event, TaskFailed)]


async def test_a_job_whose_supervisor_is_killed_again_and_again_fails_with_all_crashes(
    autojump_clock: MockClock,
) -> None:
    crashing = Crashing(99)
    async with GrainExecutor(Cores(2), name="here") as executor:
        executor.submit(Cores(1), crashing.run)
        executor.close()
        [(_, ended)] = [result async for result in executor.results]

    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, TaskCrashed)
    assert 5 == len(ended.error.crashes) == len(crashing.seen)
    assert 5 == str(ended.error).count("on here(local): the process that watched over xtb a.xyz")


async def test_a_job_that_waits_after_a_crash_can_be_cancelled(autojump_clock: MockClock) -> None:
    crashing = Crashing(99)
    async with GrainExecutor(Cores(2)) as executor:
        job = executor.submit(Cores(1), crashing.run)
        executor.submit(Cores(1), nap, 50)  # it keeps the other from being alone
        await trio.sleep(10)
        assert 2 == len(crashing.seen)
        assert "waiting" == executor.why(job).state
        executor.cancel(job)
        executor.close()
        [cancelled] = [result async for id_, result in executor.results if id_ == job]

    assert isinstance(cancelled, outcome.Error)
    assert isinstance(cancelled.error, TaskCancelled)


async def test_jobs_are_counted_by_function_and_cores(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with GrainExecutor(Cores([1, 3])) as executor:
        for _ in range(3):
            executor.submit(Cores(1), trio.sleep, 10)
        executor.submit(Cores(2), trio.sleep, 20)
        executor.submit(Cores(1), trio.sleep_forever)
        await trio.sleep(13)
        now = {(kind.function, kind.cores): kind for kind in executor.kinds()}
        executor.cancel(5)
        await executor.join()
        [ended] = {kind for kind in executor.kinds() if kind.cores == 2}

    one = now["sleep", 1]
    assert (0, (3.0,), 2, 20.0, 10.0) == (
        one.waiting, one.elapsed, one.timed, one.seconds, one.longest,
    )  # fmt: skip
    two, forever = now["sleep", 2], now["sleep_forever", 1]
    assert (1, (), 0) == (two.waiting, two.elapsed, two.timed)
    assert 1 == forever.waiting + len(forever.elapsed)
    assert (0, (), 1, 20.0) == (ended.waiting, ended.elapsed, ended.timed, ended.seconds)


# ---- alternatives


async def what_it_got(seconds: float = 1.0) -> str:
    await trio.sleep(seconds)
    return str(GVAR.res)


async def test_a_task_sees_which_alternative_it_has(autojump_clock: MockClock) -> None:
    async with GrainExecutor(GPUs(1) & Cores(2)) as executor:
        for _ in range(2):
            executor.submit(GPUs(1) | Cores(2), what_it_got)
        executor.close()
        results = {ended.unwrap() async for _, ended in executor.results}

    assert {"GPUs([0])", "CPU_Cores([0-1])"} == results


@pytest.mark.parametrize("busy", [20.0, 5.0])
async def test_a_task_takes_another_alternative_once_it_has_waited(
    busy: float, autojump_clock: MockClock
) -> None:
    """Also if nothing else happens meanwhile, and although nothing runs for a time."""
    began = trio.current_time()
    async with GrainExecutor(GPUs(1) & Cores(2) & WTime(T=100)) as executor:
        first = executor.submit(GPUs(1), nap, busy)
        # Too long for the worker; but only time tells.
        asked = Either(GPUs(1) & WTime(T=99), Cores(2), prefer=10)
        await trio.sleep(2.0)
        second = executor.submit(asked, what_it_got, 0.0)
        executor.close()
        results = {job: ended.unwrap() async for job, ended in executor.results}

    assert {first: busy, second: "CPU_Cores([0-1])"} == results
    assert max(12.0, busy) == trio.current_time() - began


def test_alternatives_cannot_be_what_the_local_worker_has() -> None:
    with pytest.raises(TypeError, match="which only a task can ask for"):
        GrainExecutor(GPUs(1) | Cores(2))


async def test_a_task_is_refused_only_if_all_its_alternatives_are_impossible() -> None:
    async with GrainExecutor(Cores(2)) as executor:
        executor.submit(GPUs(1) | Cores(2), nap, 0)
        with pytest.raises(Infeasible) as raised:
            executor.submit(GPUs(1) | Cores(3), nap, 0)

    assert (
        "for GPUs(1) it has no GPUs at all, and for Cores(3) it has CPU_Cores([0-1]), asked for "
        "Cores(3)"
    ) in str(raised.value)


async def test_the_log_has_the_alternatives_and_which_of_them_a_run_had(
    autojump_clock: MockClock,
) -> None:
    log = KeptLines()
    run_log = RunLog(log, "id")
    async with GrainExecutor(GPUs(1) & Cores(2), run_log=run_log) as executor:
        executor.submit(GPUs(1), nap, 9)
        executor.submit(Either(GPUs(1), Cores(2) & WTime(T=60), prefer=3), nap, 9)
    run_log.close()

    submitted = log.of(TaskSubmitted)[-1]
    assert {"GPUs": 1} == submitted.request
    assert (({"Cores": 2, "WTime": 60},), 3.0) == (submitted.others, submitted.prefer)
    assert submitted.request_text.startswith("Either(GPUs(1), Cores(2) & WTime")
    assert {1: 0, 2: 1} == {line.task: line.alternative for line in log.of(TaskStarted)}
    assert {1: 0, 2: 1} == {line.task: line.alternative for line in log.of(RunEnded)}
