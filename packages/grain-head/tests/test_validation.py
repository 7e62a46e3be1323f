"""Nonsense from one peer: it is dropped with the reason, and everybody else is served."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pytest
import trio
from msgspec import Struct
from msgspec.structs import fields, replace
from outcome import Value

from grain.edge.channel import memory_channels
from grain.edge.errors import ChannelError
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import ProgramState
from grain.facts.rows import Function
from grain.head.errors import BadMessage
from grain.head.messages import (
    Crash,
    LaneCall,
    LaneCount,
    LaneFailure,
    LaneReport,
    Outlook,
    RegisterMission,
    Request,
    Resolved,
    Submit,
    Synced,
)
from grain.head.service import HubService
from grain.head.validation import check_message, request_of, resources_of
from grain.remote_exer import RemoteExecutor
from grain.remote_exer.session.registration import Registration
from grain.resource import Cores, Memory
from grain.worker.messages import (
    BlockingCode,
    CoresComputed,
    DefineFunction,
    Disconnect,
    Inspected,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Lease,
    LoopBlocked,
    Outlived,
    RegisterWorker,
    RunEnded,
    TasksPrinted,
)
from grain.worker.payload import Payloads
from grain_testkit.hub_harness import F, HubHarness

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock

    from grain.edge.channel import WireChannel
    from grain.edge.messages import Message, Payload

deep: list[Any] = []
for _ in range(20):
    deep = [deep]

NONSENSE: list[dict[str, Any]] = [
    {"Memory": -5},
    {"Memory": math.nan},
    {"Memory": math.inf},
    {"Memory": "much"},
    {"Memory": None},
    {"Cores": [1, 1]},
    {"Cores": -1},
    {"Cores": 1 << 30},
    {"Cores": [[1]]},
    {"Capacity": 1.5},
    {"WTime": {"T": 5, "softT": 6}},
    {"WTime": {"T": math.nan}},
    {"WTime": {"T": 5, "clock": 1}},
    {"WTime": {"nothing": 5}},
    {"Token": ""},
    {"Token": 5},
    {"Unknown": math.nan},
    {"Unknown": deep},
    {"Unknown": b"bytes"},
    {"Unknown": {1: 2}},
    {"Unknown": "x" * 100_000},
    {f"Unknown{k}": 1 for k in range(10_000)},
]


@pytest.mark.parametrize("data", NONSENSE, ids=lambda data: repr(data)[:40])
def test_resources_that_make_no_sense_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(BadMessage, match="resources that make no sense"):
        resources_of(data)


def test_resources_that_make_sense_pass() -> None:
    assert Cores([0, 2]) & Memory(4) == resources_of({"Cores": [0, 2], "Memory": 4})
    assert {"Streams": {"orca": [1, 2.5, None]}} == {
        kind: part._data()
        for kind, part in resources_of({"Streams": {"orca": [1, 2.5, None]}}).parts().items()
    }


def test_a_request_whose_time_counts_down_is_refused() -> None:
    """It would equal nothing a moment later, not even itself."""
    with pytest.raises(BadMessage, match="counts down"):
        request_of({"WTime": {"T": 5.0, "countdown": True}})


def row(**more: Any) -> Function:
    """Return the tasks of a function, with some of their numbers replaced."""
    known = Function(name="f", done=5, failed=1, running=2, waiting=3, core_seconds=45.0)
    known.ask("", {"Cores": 2.0})
    for amount in (1e-9, 0.5, 300.0):
        known.seconds.add(amount)
    return replace(known, **more)


def test_tasks_by_function_that_make_sense_pass() -> None:
    check_message(Outlook(1, functions=(row(), Function(name="f"))))


def spoiled(annotation: Any) -> list[Any]:
    """Return values of a field's type that cannot be, one for each place that may have one."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [
            annotation(**{one.name: value})
            for one in fields(annotation)
            for value in spoiled(one.type)
        ]
    if get_origin(annotation) is dict:
        key, value = get_args(annotation)
        return [
            {key(number): value() for number in range(17)},
            *({key(1): wrong} for wrong in spoiled(value)),
            *([{"k" * 1000: value()}] if key is str else []),
        ]
    if get_origin(annotation) is list:
        return [[(0.0,)] * 17, *([(wrong,)] for wrong in (-1.0, math.inf, math.nan))]
    return ["f" * 1000] if annotation is str else [-1, math.inf, math.nan]


@pytest.mark.parametrize("field", [one.name for one in fields(Function)])
def test_every_field_of_a_function_is_checked(field: str) -> None:
    [annotation] = [one.type for one in fields(Function) if one.name == field]
    for value in spoiled(annotation):
        with pytest.raises(BadMessage):
            check_message(Outlook(1, functions=(row(**{field: value}),)))


RUN = InventoryRun("m", 1, (1, 1), {"Cores": 1}, 0.0)
FAILED = LaneFailure(2, F, "w", 0.5, 1.0, RunFailure("ValueError", "no"))


def test_a_report_on_lanes_that_makes_sense_passes() -> None:
    counts = (LaneCount(F, 4000, 1, 0, 4.0),) * 256
    check_message(LaneReport((LaneCall(1, 2, F, 0.5),) * 256, counts, (FAILED,) * 20, 9))


@pytest.mark.parametrize(
    "message",
    [
        RegisterMission("", "name"),
        RegisterMission("m", "n" * 1000),
        RegisterMission("m", "m", connection=0),
        RegisterMission("m", "m", settings=bytes(1 << 20)),
        RegisterWorker("w", "w", "h" * 1000, {}),
        RegisterWorker("w", "w", "h", {}, (bytes(100),)),
        RegisterWorker("w", "w", "h", {}, cluster="c" * 1000),
        RegisterWorker("w", "w", "h", {}, system="s" * 1000),
        RegisterWorker("w", "w", "h", {}, listed="7" * 1000),
        Submit(0, 0, F),
        Inventory((InventoryRun("m", 1, (1, 1), {}, math.nan),)),
        Inventory((InventoryRun("m", 1, (1, 1), {}, 0.0, math.inf),)),
        Inventory((InventoryRun("", 1, (1, 1), {}, 0.0),)),
        RunEnded("m", 1, (1, 1), "crashed", "x" * 10_000),
        RunEnded("m", 1, (1, 1), "crashed", lost="x" * 1000),
        RunEnded("m", 1, (1, 1), "returned", outlived=Outlived(math.nan, 1.0)),
        Submit(1, 0, F, crashes=(Crash((1, 1), "w", "", 0.0, Outlived(math.inf, 1.0)),)),
        LoopBlocked("m", 1, BlockingCode("f", "w", "l" * 10_000, 1.0, "i")),
        TasksPrinted("m", "x" * 20_000),
        TasksPrinted("m", "x", -1),
        DefineFunction(bytes(100)),
        CoresComputed(-0.5),
        CoresComputed(math.nan),
        Inspected(1, (ProgramState("xtb", math.nan),)),
        Inspected(1, (ProgramState("xtb", 1.0, math.inf),)),
        Outlook(1, functions=(row(),) * 21),
        Outlook(1, more_functions=-1),
        LaneReport(calls=(LaneCall(1, 2, F, 0.5),) * 257),
        LaneReport(calls=(LaneCall(1, 0, F, 0.5),)),
        LaneReport(calls=(LaneCall(1, 2, bytes(100), 0.5),)),
        LaneReport(calls=(LaneCall(1, 2, F, math.nan),)),
        LaneReport(calls=(LaneCall(1, 2, F, -1.0),)),
        LaneReport(counts=(LaneCount(F, 1, 0, 0, 0.5),) * 257),
        LaneReport(counts=(LaneCount(bytes(100), 1, 0, 0, 0.5),)),
        LaneReport(counts=(LaneCount(F, -1, 0, 0, 0.5),)),
        LaneReport(counts=(LaneCount(F, 0, 2**63, 0, 0.5),)),
        LaneReport(counts=(LaneCount(F, 0, 0, 1, math.inf),)),
        LaneReport(failures=(FAILED,) * 21),
        LaneReport(failures=(replace(FAILED, task=0),)),
        LaneReport(failures=(replace(FAILED, worker="w" * 1000),)),
        LaneReport(failures=(replace(FAILED, seconds=-1.0),)),
        LaneReport(failures=(replace(FAILED, ago=math.nan),)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_values_that_make_no_sense_are_refused(message: Message) -> None:
    with pytest.raises(BadMessage):
        check_message(message)


def test_a_run_that_is_reported_with_what_another_has_is_refused(harness: HubHarness) -> None:
    """The hub's records stay consistent, and the worker may come again with the truth.

    Tried: Cores that another run has.
    Result: refused.
    """
    register = RegisterWorker("w", "w", "host", {"Cores": 2})
    first = InventoryRun("m", 1, (7, 1), {"Cores": [0]}, 0.0)
    second = InventoryRun("m", 2, (7, 2), {"Cores": [0]}, 0.0)
    harness.send("link", register)
    with pytest.raises(BadMessage, match="cannot be there"):
        harness.send("link", Inventory((first, second)))
    harness.hub.disconnect("link", "nonsense", harness.now, refused=True)
    harness.dispatch()
    assert [Disconnect("nonsense", "refused")] == harness.sent("link", Disconnect)

    harness.mission()
    harness.connections = 1
    harness.worker("w", held=(first,), link="again")
    harness.send("m", Synced())
    harness.wait(120.0)
    assert ["w"] == [*harness.hub.registry.workers]
    assert [(7, 1)] == [*harness.hub.registry.workers["w"].leases]


def test_a_run_that_this_head_has_yet_to_begin_is_refused(harness: HubHarness) -> None:
    """Its number would be given once more, and the second run take the place of the first."""
    harness.send("link", RegisterWorker("w", "w", "host", {"Cores": 2}))
    with pytest.raises(BadMessage, match="has not begun"):
        harness.send("link", Inventory((InventoryRun("m", 1, (1, 50), {"Cores": 1}, 0.0),)))


def test_a_run_that_is_reported_twice_on_a_connection_counts_once(harness: HubHarness) -> None:
    """Tried: One run reported twice, under way and ended.
    Result: counts once.
    """
    first = InventoryRun("m", 1, (7, 1), {"Cores": [0]}, 0.0)
    harness.send("link", RegisterWorker("w", "w", "host", {"Cores": 2}))
    harness.send("link", Inventory((first, replace(first, ended=True))), InventoryEnd())
    [lease] = harness.hub.registry.workers["w"].leases.values()
    assert lease.scheduler_id is not None
    harness.lose("link")
    harness.wait(120.0)
    assert {} == harness.hub.registry.workers


async def nothing() -> None:
    """A tasklet."""


class Member:
    """A peer of a service at the end of a channel in memory."""

    def __init__(self, channel: WireChannel) -> None:
        self.channel = channel
        self.received: list[tuple[Message, Payload]] = []
        self.ended = False

    async def run(self) -> None:
        try:
            while True:
                self.received += await self.channel.receive()
        except (trio.EndOfChannel, ChannelError, trio.ClosedResourceError):
            self.ended = True

    def sent(self, kind: type[Message]) -> list[Message]:
        return [message for message, _ in self.received if isinstance(message, kind)]


async def join(nursery: trio.Nursery, service: HubService, role: str, name: str) -> Member:
    ours: WireChannel
    theirs: WireChannel
    ours, theirs = memory_channels()

    async def serve() -> None:
        await service.serve(theirs, role, name, name=name)
        await theirs.aclose()

    nursery.start_soon(serve)
    member = Member(ours)
    nursery.start_soon(member.run)
    return member


@pytest.mark.parametrize(
    "nonsense",
    [
        RegisterWorker("bad", "bad", "host", {"Memory": -5}),
        RegisterWorker("bad", "bad", "host", {"Memory": math.nan}),
        RegisterWorker("bad", "bad", "host", {"Cores": [0, 0]}),
        RegisterWorker("bad", "bad", "host", {"WTime": {"T": 5, "softT": 6}}),
    ],
)
async def test_only_a_peer_that_states_nonsense_is_dropped(
    autojump_clock: MockClock, nonsense: Message, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried: Negative, endless, doubled resources.
    Result: only that member is disconnected.
    """
    service = HubService()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        worker = await join(nursery, service, "worker", "good")
        mission = await join(nursery, service, "mission", "m")
        bad = await join(nursery, service, "worker", "bad")
        worker.channel.post(
            [(RegisterWorker("good", "good", "host", {"Cores": 1}), None), (InventoryEnd(), None)]
        )
        bad.channel.post([(nonsense, None)])
        await trio.sleep(1)
        assert bad.ended
        [disconnected] = bad.sent(Disconnect)
        assert isinstance(disconnected, Disconnect)
        assert "refused" == disconnected.because
        assert "the scheduler refuses RegisterWorker of worker bad" in disconnected.why
        assert "worker bad is dropped: its RegisterWorker makes no sense" in caplog.text

        mission.channel.post(
            [
                (RegisterMission("m", "m"), None),
                (Request(0, {"Cores": 1}), None),
                (DefineFunction(F), b"f"),
                (Submit(1, 0, F), b"arguments"),
                (Synced(), None),
            ]
        )
        await trio.sleep(1)
        [lease] = worker.sent(Lease)
        assert isinstance(lease, Lease)
        worker.channel.post([(RunEnded("m", 1, lease.attempt, "value"), b"4")])
        await trio.sleep(1)
        assert [Resolved(1, "value")] == mission.sent(Resolved)
        nursery.cancel_scope.cancel()


async def test_an_error_while_a_peer_is_served_is_logged_and_drops_only_that_peer(
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tried: An error in the scheduler while it serves a member.
    Result: logged; only that member is disconnected.
    """
    service = HubService()
    real = service.hub.on_message

    def broken(link: Any, message: Message, *more: Any) -> None:
        if isinstance(message, RegisterWorker) and message.name == "bad":
            raise ZeroDivisionError("a bug")
        real(link, message, *more)

    monkeypatch.setattr(service.hub, "on_message", broken)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        good = await join(nursery, service, "worker", "good")
        bad = await join(nursery, service, "worker", "bad")
        for member, name in ((bad, "bad"), (good, "good")):
            register = partial(RegisterWorker, name, name, "host")
            member.channel.post([(register({"Cores": 1}), None), (InventoryEnd(), None)])
        await trio.sleep(1)
        assert (True, False) == (bad.ended, good.ended)
        [disconnected] = bad.sent(Disconnect)
        assert isinstance(disconnected, Disconnect)
        assert "failed" == disconnected.because
        assert ["good"] == [*service.hub.registry.workers]
        assert "Traceback" in caplog.text
        assert "ZeroDivisionError: a bug" in caplog.text
        nursery.cancel_scope.cancel()


async def test_a_mission_under_the_id_of_another_leaves_both_with_an_answer(
    autojump_clock: MockClock,
) -> None:
    """The first comes back under another id; both get their outcomes, without taking turns.

    Tried: The id of another.
    Result: both get an answer.
    """
    service = HubService()
    opened: list[str] = []
    remarks: list[str] = []

    async def mission(nursery: trio.Nursery, *, impostor: bool) -> None:
        @asynccontextmanager
        async def connect(identity: str) -> AsyncGenerator[WireChannel]:
            opened.append(identity)
            ours: WireChannel
            theirs: WireChannel
            ours, theirs = memory_channels()

            async def serve() -> None:
                await service.serve(theirs, "mission", identity, name="m")
                await theirs.aclose()

            nursery.start_soon(serve)
            yield ours
            await ours.aclose()

        executor = RemoteExecutor(
            connect=connect,
            on_event=lambda event: remarks.append(getattr(event, "text", "")),
        )
        if impostor:
            message = RegisterMission(opened[0], "copy")
            executor._session.registration = Registration(message, generation=1)
        async with executor:
            executor.submit(Cores(1), nothing)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        async with trio.open_nursery() as missions:
            missions.start_soon(partial(mission, nursery, impostor=False))
            await trio.sleep(1)
            missions.start_soon(partial(mission, nursery, impostor=True))
            await trio.sleep(20)
            worker = await join(nursery, service, "worker", "w")
            worker.channel.post(
                [(RegisterWorker("w", "w", "host", {"Cores": 2}), None), (InventoryEnd(), None)]
            )
            await trio.sleep(1)
            outcome = Payloads("w").dump_outcome(Value(None))
            for lease in worker.sent(Lease):
                assert isinstance(lease, Lease)
                ended = RunEnded(lease.mission, lease.task, lease.attempt, "value")
                worker.channel.post([(ended, outcome)])
            with trio.fail_after(60):
                while missions.child_tasks:
                    await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert 3 == len(opened)
    assert opened[0] == opened[1] != opened[2]
    assert any("another process has registered" in remark for remark in remarks)
