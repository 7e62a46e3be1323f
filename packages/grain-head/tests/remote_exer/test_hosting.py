"""An executor with a scheduler within: the whole way of a task in one trio program."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain import GVAR
from grain.edge import dial
from grain.edge.channel import memory_channels
from grain.edge.errors import MeetingError, NotAdmitted
from grain.edge.questions import ClusterState, OverviewAnswer, StateAnswer, unpack
from grain.eventlog.schema import RunEnded
from grain.eventlog.usage import BRIEF, Usage
from grain.head import TaskCancelled
from grain.head.errors import ExecutorClosed, Unreachable
from grain.head.events import HostingFailed, NeverStarts, Remark, RunsLeft, TaskFailed
from grain.head.gnaw.main import make_parser, run_gnaw
from grain.head.messages import Ask, Outlook, RegisterMission, Request, Started, Submit, Synced
from grain.head.run_log import RunLog
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, HostingExecutor, RemoteExecutor, Resolution
from grain.remote_exer.local import LocalWorker
from grain.resource import ZERO, Cores
from grain.worker import Call
from grain.worker.errors import PayloadError
from grain.worker.external import run_external
from grain.worker.messages import DefineFunction, InventoryEnd, Lease, Leaving, RegisterWorker
from grain.worker.payload import Payloads
from grain_testkit.kept_lines import KeptLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from trio.testing import MockClock

    from grain.edge.channel import WireChannel
    from grain.edge.messages import Message
    from grain.head.events import Event


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix://{tmp_path}/socket"


async def double(x: int) -> int:
    return 2 * x


async def fail(x: int) -> int:
    raise ValueError(x)


async def length(data: bytes) -> int:
    return len(data)


async def where() -> str:
    return str(GVAR.instance)


async def refuse() -> Any:
    return "a tuple with", (i for i in range(3))


async def test_jobs_come_out_with_their_results(address: str) -> None:
    """As with the executor that has no other workers."""
    async with HostingExecutor(Cores(2), address=address) as executor:
        ids = [executor.submit(Cores(1), double, i) for i in range(100)]
        executor.close()
        outcomes = {job: ended.unwrap() async for job, ended in executor.results}

    assert {job: 2 * i for i, job in enumerate(ids)} == outcomes
    assert 100 == executor.statistics().done


async def test_large_arguments_and_results_arrive_in_one_piece(address: str) -> None:
    """So no other object keeps the parts of a result alive."""
    data = b"a" * 5_000_000
    arrived: list[Any] = []
    async with HostingExecutor(Cores(1), address=address) as executor:
        resolve = executor._resolve

        def resolving(resolutions: Iterable[Resolution]) -> None:
            some = list(resolutions)
            arrived.extend(resolution.payload for resolution in some)
            resolve(some)

        executor._resolve = resolving  # type: ignore[method-assign]
        executor.submit(Cores(1), echo, data)
        ended = (await executor.results.receive()).outcome

    assert data == ended.unwrap()
    assert [memoryview] == [type(payload) for payload in arrived]


async def test_an_exception_arrives_with_its_type_and_arguments(address: str) -> None:
    async with HostingExecutor(Cores(1), address=address) as executor:
        executor.submit(Cores(1), fail, 7)
        ended = (await executor.results.receive()).outcome

    assert isinstance(ended, outcome.Error)
    assert isinstance(ended.error, ValueError)
    assert (7,) == ended.error.args


async def test_a_payload_that_cannot_travel_fails_only_its_task(address: str) -> None:
    """An argument at the call, a result as the task's exception."""
    async with HostingExecutor(Cores(1), address=address) as executor:
        with pytest.raises(PayloadError, match="argument 0"):
            executor.submit(Cores(1), double, (i for i in range(3)))
        bad = executor.submit(Cores(1), refuse)
        good = executor.submit(Cores(1), double, 4)
        executor.close()
        outcomes = {job: ended async for job, ended in executor.results}

    refused = outcomes[bad]
    assert isinstance(refused, outcome.Error)
    assert isinstance(refused.error, PayloadError)
    assert outcome.Value(8) == outcomes[good]


async def test_a_failure_is_reported_with_its_call_and_its_worker(address: str) -> None:
    events: list[Event] = []
    async with HostingExecutor(
        Cores(1), address=address, name="me", on_event=events.append
    ) as executor:
        executor.submit(Cores(1), double, 1)
        executor.submit(Cores(1), fail, 7)
        executor.submit(Cores(1), refuse)

    failed = [event for event in events if isinstance(event, TaskFailed)]
    assert [(2, "fail(7)", "me(local)"), (3, "refuse()", "me(local)")] == [
        (event.task, event.call(), event.worker) for event in failed
    ]
    assert [ValueError, PayloadError] == [type(event.error) for event in failed]


async def test_a_log_has_the_times_the_cpus_and_the_use_of_each_run(address: str) -> None:
    log = KeptLines()
    run_log = RunLog(log, "id")
    async with HostingExecutor(Cores([3]), address=address, run_log=run_log) as executor:
        executor.submit(Cores(1), double, 2)
        executor.submit(Cores(1), fail, 7)
        running = executor.submit(Cores(1), trio.sleep_forever)
        while (executor.statistics().failed, executor.statistics().running) != (1, 1):
            await trio.sleep(0.01)
        executor.cancel(running)

    run_log.close()
    ended = log.of(RunEnded)
    expected = [(1, "value"), (2, "error"), (3, "cancelled")]
    assert expected == [(one.task, one.outcome) for one in ended]
    first = ended[0]
    assert first.started is not None
    assert first.ended is not None
    # Of one that was brief there is no more than the time that it took.
    brief = first.ended - first.started <= BRIEF
    assert [() if brief else (3,), (3,), (3,)] == [one.cpus for one in ended]
    assert [Usage()] * 3 == [one.usage for one in ended]
    assert all(one.started <= one.ended for one in ended if one.started and one.ended)


async def test_cancelled_jobs_that_never_ran_are_counted(address: str) -> None:
    executor = HostingExecutor(Cores(2), address=address)
    with pytest.raises(KeyError):
        async with executor:
            for _ in range(5):
                executor.submit(Cores(1), trio.sleep_forever)
            while executor.statistics().running < 2:
                await trio.sleep(0.01)
            raise KeyError

    assert (5, 3) == (executor.statistics().cancelled, executor.statistics().not_begun)


async def test_statistics_have_the_cores_of_the_workers_when_the_scheduler_has_answered(
    address: str,
) -> None:
    async with HostingExecutor(Cores(3), address=address) as executor:
        job = executor.submit(Cores(2), trio.sleep_forever)
        assert 0 == executor.statistics().cores
        while (executor.statistics().given, executor.statistics().cores) != (2, 3):
            await trio.sleep(0.01)
        executor.cancel(job)


async def test_an_argument_too_large_to_travel_is_refused_at_the_call(address: str) -> None:
    """And no other task suffers from it."""
    async with HostingExecutor(Cores(1), address=address) as executor:
        with pytest.raises(PayloadError, match="the arguments of echo: 2.* write large data"):
            executor.submit(Cores(1), echo, bytes(Submit.max_payload))
        executor.submit(Cores(1), double, 4)
        _, ended = await executor.results.receive()

    assert outcome.Value(8) == ended


async def test_tasklets_see_the_name_of_the_local_worker(address: str) -> None:
    async with HostingExecutor(Cores(1), address=address, name="here") as executor:
        executor.submit(Cores(1), where)
        _, ended = await executor.results.receive()

    assert outcome.Value("here(local)") == ended


async def test_a_cancelled_job_resolves_as_cancelled_whether_it_waits_or_runs(address: str) -> None:
    got: dict[int, Any] = {}
    async with HostingExecutor(Cores(1), address=address) as executor:
        call = Call(trio.sleep, (1000.0,), {})
        jobs = [
            executor.submit_call(Cores(1), call, lambda ended, i=i: got.update({i: ended}))  # type: ignore[misc]
            for i in range(2)
        ]
        while executor.statistics().running < 1:
            await trio.sleep(0.001)
        for job in jobs:
            executor.cancel(job)
        await executor.join()

    assert [0, 1] == sorted(got)
    assert all(isinstance(ended.error, TaskCancelled) for ended in got.values())
    assert 2 == executor.statistics().cancelled


async def test_leaving_by_cancellation_cancels_the_jobs_and_waits_for_their_ends(
    address: str,
) -> None:
    got: list[Any] = []
    with trio.CancelScope() as scope:
        async with HostingExecutor(Cores(2), address=address) as executor:
            for _ in range(3):
                executor.submit_call(Cores(1), Call(trio.sleep, (1000.0,), {}), got.append)
            while executor.statistics().running < 2:
                await trio.sleep(0.001)
            scope.cancel()
            await trio.sleep_forever()

    assert 3 == len(got)
    assert all(isinstance(one.error, TaskCancelled) for one in got)


async def test_workers_elsewhere_stay_connected_until_cancelled_jobs_have_ended(
    address: str,
) -> None:
    """Otherwise the executor waits a minute for a worker that it has cut off itself."""
    events: list[str] = []

    async def work() -> None:
        async with dial(address, role="worker", codec=CODEC, patience=30) as peer:
            try:
                # The end of its scheduler is an error to it.
                await outcome.acapture(LocalWorker("elsewhere", Cores(1), peer.channel).serve)
            finally:
                events.append("worker left")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        with trio.CancelScope() as scope:
            async with HostingExecutor(ZERO, address=address) as executor:
                call = Call(trio.sleep, (1000.0,), {})
                executor.submit_call(Cores(1), call, lambda _: events.append("job ended"))
                while not executor.statistics().running:
                    await trio.sleep(0.001)
                scope.cancel()
        nursery.cancel_scope.cancel()

    assert ["job ended", "worker left"] == events


async def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("watched", [False, True])
async def test_ctrl_c_in_a_tasklet_ends_the_mission(address: str, watched: bool) -> None:
    """The other jobs are cancelled, and the executor does not wait for the worker, which has ended
    with the interrupt."""
    got: list[Any] = []
    with pytest.raises(KeyboardInterrupt), trio.fail_after(100):
        async with HostingExecutor(Cores(2), address=address) as executor:
            for fn in (partial(trio.sleep, 1000.0), interrupt, interrupt):
                executor.submit_call(Cores(1), Call(fn, (), {}), got.append)
            if watched:
                with pytest.raises(trio.Cancelled):
                    await trio.sleep_forever()

    assert 3 == len(got)
    assert all(isinstance(one.error, TaskCancelled) for one in got)


async def test_a_request_that_no_worker_can_meet_is_reported_once_as_an_event(address: str) -> None:
    """Its jobs wait for another worker."""
    events: list[Event] = []
    async with HostingExecutor(Cores(1), address=address, on_event=events.append) as executor:
        request = Cores(4)
        jobs = [executor.submit(request, double, 1) for _ in range(2)]
        while not any(isinstance(event, NeverStarts) for event in events):
            await trio.sleep(0.001)
        explained = await executor.ask_why(jobs[0])
        for job in jobs:
            executor.cancel(job)

    assert [Cores(4)] == [event.request for event in events if isinstance(event, NeverStarts)]
    assert "waiting" == explained.state


async def test_an_executor_that_is_closed_or_not_entered_takes_no_jobs(address: str) -> None:
    executor = HostingExecutor(Cores(1), address=address)
    with pytest.raises(ExecutorClosed):
        executor.submit(Cores(1), double, 1)
    async with executor:
        executor.close()
        with pytest.raises(ExecutorClosed):
            executor.submit(Cores(1), double, 1)


async def test_a_mission_too_many_is_refused_with_the_setting_to_change(address: str) -> None:
    """At once; a mission that ends makes room."""
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_gnaw, address, max_conn=1))
        gnaw = GnawConnector(address, start=False)
        with trio.fail_after(60):
            async with RemoteExecutor(connect=gnaw.connect) as first:
                await first.ask_why(0)  # it connects when it is needed
                with pytest.raises(NotAdmitted, match=r"1 mission is .*head\.gnaw\.max_conn"):
                    async with RemoteExecutor(connect=gnaw.connect) as second:
                        second.submit(Cores(1), double, 1)
                        await trio.sleep_forever()
            async with RemoteExecutor(connect=gnaw.connect) as third:
                await third.ask_why(0)
        nursery.cancel_scope.cancel()


async def test_a_mission_that_comes_back_is_not_one_too_many(address: str) -> None:
    """Its old connection is lost, which the scheduler notices only in a minute."""
    gnaw = GnawConnector(address, start=False)
    cut = trio.CancelScope()
    connections = 0

    async def hold(
        mission: str, task_status: trio.TaskStatus[WireChannel] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with gnaw.connect(mission) as channel:
            task_status.started(channel)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:

        @asynccontextmanager
        async def connect(mission: str) -> AsyncGenerator[WireChannel]:
            nonlocal connections, cut
            connections += 1
            channel = await nursery.start(hold, mission)
            with trio.CancelScope() as cut:
                yield channel
                await channel.aclose()

        await nursery.start(partial(run_gnaw, address, max_conn=1))
        with trio.fail_after(60):
            async with RemoteExecutor(connect=connect) as first:
                await first.ask_why(0)
                cut.cancel()
                while connections < 2:
                    await trio.sleep(0.01)
                await first.ask_why(0)
                with pytest.raises(NotAdmitted, match="1 mission is connected"):
                    async with RemoteExecutor(connect=gnaw.connect) as second:
                        second.submit(Cores(1), double, 1)
                        await trio.sleep_forever()
                cut.cancel()
                while connections < 3:
                    await trio.sleep(0.01)
                await first.ask_why(0)
            # On the third connection it departed.
            async with RemoteExecutor(connect=gnaw.connect) as third:
                await third.ask_why(0)
        nursery.cancel_scope.cancel()


async def test_a_meeting_that_cannot_be_written_ends_the_mission_with_the_reason(
    tmp_path: Path,
) -> None:
    """A scheduler that is started there would leave, and say why in nothing but its log."""
    (tmp_path / "file").touch(mode=0o400)
    with trio.fail_after(60):
        for where in ("/proc/nowhere", f"{tmp_path}/file"):
            with pytest.raises(MeetingError, match=where):
                async with RemoteExecutor(
                    connect=GnawConnector(f"edge://{where}/meeting").connect
                ) as one:
                    one.submit(Cores(1), double, 1)
                    await trio.sleep_forever()


async def test_workers_and_questions_are_not_counted_as_missions(address: str) -> None:
    """The limit is for missions alone."""
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_gnaw, address, max_conn=1))
        with trio.fail_after(60):
            async with RemoteExecutor(connect=GnawConnector(address, start=False).connect) as first:
                await first.ask_why(0)
                for role in ("worker", "cli"):
                    async with dial(address, role=role, codec=CODEC, patience=30) as peer:
                        await peer.channel.send([(Ask("state"), None)])
                        await peer.channel.receive()
        nursery.cancel_scope.cancel()


async def echo(data: bytes) -> bytes:
    return data


async def test_peers_that_read_nothing_hold_back_no_other_peer(address: str) -> None:
    """Messages for a stuck worker and a stuck mission wait, all others go on."""

    async def work() -> None:
        async with dial(address, role="worker", codec=CODEC) as peer:
            await LocalWorker("works", Cores(2), peer.channel).serve()

    payloads = Payloads()
    function = payloads.dump_function(echo)
    arguments = payloads.dump_arguments((bytes(1_000_000),), {})
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_gnaw, address))
        nursery.start_soon(work)
        connect = partial(dial, address, codec=CODEC, patience=30)
        with trio.fail_after(60):
            async with connect(role="worker") as worker, connect(role="mission") as mission:
                await worker.channel.send(
                    [
                        (RegisterWorker("stuck", "stuck", "", {"Cores": 2}), None),
                        (InventoryEnd(), None),
                    ]
                )
                mission.channel.post(
                    [
                        (RegisterMission("stuck", "stuck"), None),
                        (DefineFunction(function.digest), function.payload),
                        (Request(0, {"Cores": 1}), None),
                        *((Submit(i, 0, function.digest), arguments) for i in range(40)),
                        (Synced(), None),
                    ]
                )
                async with RemoteExecutor(
                    connect=GnawConnector(address, start=False).connect
                ) as executor:
                    jobs = {executor.submit(Cores(1), double, i): 2 * i for i in range(50)}
                    got: dict[int, int] = {}
                    while len(got) < 48:  # two may be where nobody reads
                        job, ended = await executor.results.receive()
                        got[job] = ended.unwrap()
                    await worker.channel.send([(Leaving(), None)])
                    while len(got) < 50:
                        job, ended = await executor.results.receive()
                        got[job] = ended.unwrap()
                assert jobs == got
        nursery.cancel_scope.cancel()


async def test_leaving_reports_the_runs_that_a_scheduler_out_of_reach_is_to_end(
    autojump_clock: MockClock,
) -> None:
    events: list[Event] = []
    begun = trio.Event()
    links: list[WireChannel] = []

    @asynccontextmanager
    async def connect(_: str) -> AsyncGenerator[WireChannel]:
        if links:
            raise Unreachable("it is gone")
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        links.append(theirs)
        try:
            yield ours
        finally:
            await ours.aclose()

    async def be_the_scheduler() -> None:
        while not links:
            await trio.sleep(1)
        while not any(isinstance(message, Submit) for message, _ in await links[0].receive()):
            pass
        await links[0].send([(Started("w", (1,)), None)])
        await trio.sleep(1)
        await links[0].aclose()
        begun.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(be_the_scheduler)
        with pytest.raises(KeyError):
            async with RemoteExecutor(connect=connect, on_event=events.append) as executor:
                executor.submit(Cores(1), double, 1)
                await begun.wait()
                raise KeyError

    assert RunsLeft(1) == events[-1]
    assert (1, 0) == (executor.statistics().cancelled, executor.statistics().not_begun)


async def test_equal_requests_are_defined_once(autojump_clock: MockClock) -> None:
    """However many objects are equal: each call of ``fn @ Cores(1)`` makes one."""
    ours: WireChannel
    theirs: WireChannel
    ours, theirs = memory_channels()
    once = [ours]

    @asynccontextmanager
    async def connect(mission: str) -> AsyncGenerator[WireChannel]:
        if not once:
            await trio.sleep_forever()
        yield once.pop()

    received: list[Message] = []
    with trio.move_on_after(5):
        async with RemoteExecutor(connect=connect) as executor:
            for i in range(50):
                executor.submit(Cores(1), double, i)
                executor.submit(Cores(2), double, i)
            while sum(isinstance(message, Submit) for message in received) < 100:
                received += [message for message, _ in await theirs.receive()]
            await theirs.aclose()
            await trio.sleep_forever()

    assert 2 == sum(isinstance(message, Request) for message in received)


async def test_resources_of_another_type_are_refused_with_an_example(address: str) -> None:
    async with HostingExecutor(Cores(1), address=address) as executor:
        with pytest.raises(TypeError, match=r"submit\(3, \.\.\.\): first come the resources"):
            executor.submit(3, double, 1)  # type: ignore[arg-type]


async def test_a_large_variable_of_a_function_is_named_once_with_its_size(address: str) -> None:
    """Also where a loop makes the function again for each call."""
    events: list[Event] = []
    table = b"a" * 3_400_000

    async def look_up(i: int) -> int:
        return table[i]

    def make() -> Any:
        async def look_up_again(i: int) -> int:
            return await look_up(i)

        return look_up_again

    async with HostingExecutor(Cores(1), address=address, on_event=events.append) as executor:
        for i in range(3):
            executor.submit(Cores(1), look_up, i)
            executor.submit(Cores(1), make(), i)
            executor.submit(Cores(1), double, i)
    remarks = [event.text for event in events if isinstance(event, Remark)]

    inner = f"{test_a_large_variable_of_a_function_is_named_once_with_its_size.__name__}.<locals>"
    variable = f"table (a variable of {inner}.look_up, 3.4 MB) travels with"
    rest = "to every worker, and every new runner loads it: load it inside of the function, or pass"
    assert [
        f"{variable} {inner}.look_up {rest} a path",
        f"{variable} {inner}.make.<locals>.look_up_again {rest} a path",
    ] == remarks


async def test_a_large_argument_of_a_partial_is_named(address: str) -> None:
    events: list[Event] = []
    async with HostingExecutor(Cores(1), address=address, on_event=events.append) as executor:
        executor.submit(Cores(1), partial(length, data=b"a" * 2_000_000))
        executor.close()
        [(_, ended)] = [result async for result in executor.results]
    [text] = [event.text for event in events if isinstance(event, Remark)]

    assert 2_000_000 == ended.unwrap()
    assert text.startswith("length.keywords (2.0 MB) travels with length to every worker")


async def kill_supervisor_once(path: str) -> str:
    mark = Path(path)
    if not mark.exists():
        mark.touch()
        await run_external(["sh", "-c", "kill -KILL $PPID; sleep 1000"])
    return (await run_external(["echo", "again"])).stdout_text


async def test_a_task_whose_programs_supervisor_is_killed_runs_again(
    address: str, tmp_path: Path
) -> None:
    """As after a crash of the worker's process."""
    async with HostingExecutor(Cores(1), address=address) as executor:
        executor.submit(Cores(1), kill_supervisor_once, str(tmp_path / "mark"))
        executor.close()
        ((_, ended),) = [pair async for pair in executor.results]

    assert "again\n" == ended.unwrap()


async def test_a_mission_whose_place_another_scheduler_takes_goes_on_with_its_local_worker(
    tmp_path: Path,
) -> None:
    """As after it was stopped for longer than a minute; it says so."""
    (tmp_path / "s").mkdir(mode=0o700)
    events: list[Event] = []
    edge = tmp_path / "s" / "meeting"
    async with HostingExecutor(
        Cores(2), address=f"edge://{edge}", on_event=events.append
    ) as executor:
        Path(f"{edge}.d", "claim.9").touch(mode=0o600)
        with trio.fail_after(60):
            while not (failed := [e for e in events if isinstance(e, HostingFailed)]):
                await trio.sleep(0.02)
        executor.submit(Cores(1), double, 21)
        executor.close()
        [(_, ended)] = [result async for result in executor.results]

    assert 42 == ended.unwrap()
    assert "epoch 1 steps down, as epoch 9 was claimed" in failed[0].why


async def compute(n: int) -> int:
    await run_external(["sh", "-c", f"exit {n}"])
    return n


async def test_a_scheduler_is_told_of_tasks_by_function_and_of_what_their_programs_use(
    address: str,
) -> None:
    """A failure that is followed by a further attempt is none."""
    async with HostingExecutor(Cores(1), address=address) as executor:

        def again(_: Any) -> None:
            executor.note_retry(1)

        executor.submit_call(Cores(1), Call(fail, (3,), {}), again)
        for n in (0, 0, 3):
            executor.submit(Cores(1), compute, n)
        await executor.join()
        executor.note_outlook(Outlook(4))
        async with dial(address, role="cli", codec=CODEC, patience=30) as peer:
            await peer.channel.send([(Ask("overview"), None)])
            [(_, payload)] = await peer.channel.receive()
        [mission] = unpack(payload, OverviewAnswer).missions
        executor.close()

    assert mission.outlook is not None
    assert [("fail", 0, 0, 0), ("compute", 2, 1, 3)] == [
        (row.name, row.done, row.failed, row.busy_cores.count) for row in mission.outlook.functions
    ]


async def test_gnaw_owns_what_its_command_line_states_and_waits_only_for_a_predecessor_s_workers(
    tmp_path: Path,
) -> None:
    address = f"edge://{tmp_path}/meeting"
    options = make_parser().parse_args(["--res", '{"Licences": {"vasp": 2}}'])

    async def opened() -> tuple[list[ClusterState], bool]:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(run_gnaw, address, res=options.res))
            async with dial(address, role="cli", codec=CODEC) as peer:
                await peer.channel.send([(Ask("state"), None)])
                [(_, payload)] = await peer.channel.receive()
            async with (
                dial(address, role="worker", codec=CODEC) as worker,
                dial(address, role="mission", codec=CODEC) as mission,
            ):
                function = Payloads().dump_function(echo)
                register = RegisterWorker("w", "w", "", {"Cores": 2})
                await worker.channel.send([(register, None), (InventoryEnd(), None)])
                await mission.channel.send(
                    [
                        (RegisterMission("m", "m"), None),
                        (DefineFunction(function.digest), function.payload),
                        (Request(0, {"Cores": 1, "Licences": {"vasp": 1}}), None),
                        (Request(1, {"Cores": 1}), None),
                        (Submit(1, 0, function.digest), b""),
                        (Submit(2, 1, function.digest), b""),
                        (Synced(), None),
                    ]
                )
                leased: set[int] = set()
                with trio.fail_after(60):
                    while 2 not in leased:
                        batch = await worker.channel.receive()
                        leased |= {one.task for one, _ in batch if isinstance(one, Lease)}
            nursery.cancel_scope.cancel()
        return unpack(payload, StateAnswer).cluster, 1 in leased

    assert ([ClusterState("Licences", {"vasp": (0, 2)})], True) == await opened()
    assert ([ClusterState("Licences", {"vasp": (0, 2)})], False) == await opened()
