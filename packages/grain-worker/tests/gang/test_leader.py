"""The tasklet of the root beside a process that only speaks, and the calls of its programs."""

from __future__ import annotations

import base64
import math
import os
import pickle
import signal
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain import GVAR
from grain.eventlog.usage import Usage
from grain.resource import ZERO, Cores
from grain.worker.errors import (
    ExternalError,
    ExternalMemoryError,
    ExternalTimeoutError,
    Failure,
    MemberLost,
)
from grain.worker.external import Completed, run_external, run_on_members
from grain.worker.gang.control import JsonLines
from grain.worker.gang.members import GangMembers
from grain.worker.gang.messages import JOIN, ProgramOrder
from grain.worker.gang.session import GangLeader, Seat, lead
from grain.worker.processes.account import RunAccount, WorkerEnd
from grain.worker.processes.mpi import members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

SILENCE = 2.0
PLACE = {"job": "", "node": "", "door": ""}
DONE = Completed(("prog",), 0, b"said", b"", 1.0, 0.5, 0.5, 0.1, "n1")


def used_by(amount: float) -> Usage:
    """Return the use of a program with so many GB and seconds."""
    return Usage(user=amount, peak_memory=amount, measured_by="polling", programs=1)


def used_in(used: dict[int, Usage], exceeded: ExternalError | None = None) -> str:
    """Return what a line says of the programs of a call."""
    return base64.b85encode(pickle.dumps((used, exceeded))).decode()


USED = used_in({})


def lines_of() -> tuple[JsonLines, JsonLines]:
    """Return the two ends of a connection."""
    ends = [trio.SocketStream(trio.socket.from_stdlib_socket(one)) for one in socket.socketpair()]
    return JsonLines(ends[0]), JsonLines(ends[1])


class Led:
    """A leader with two seats, and the end of its process's lines."""

    def __init__(self, process: JsonLines, account: RunAccount | None) -> None:
        self.process = process
        self.account = account
        seats = [Seat(f"w{k}", f"n{k}", Cores([0]), b"invitation") for k in (1, 2)]
        self.leader = GangLeader(seats, SILENCE)
        self.results: list[Any] = []
        self.scope = trio.CancelScope()

    async def serve(self, lines: JsonLines, body: Callable[[], Awaitable[object]]) -> None:
        if self.account is not None:
            GVAR.enter(Cores([0]), "root", None, self.account)
        with GVAR.scope(Cores([0])):
            self.results.append(await self.leader.serve(lines, body))

    async def joins(self, *seats: int) -> None:
        """Have members join, as the process says that was asked to have them join."""
        for seat in seats:
            await self.process.send(
                join=seat, address=f"10.0.0.{seat}", own="10.0.0.9", place=PLACE
            )


@asynccontextmanager
async def led(
    folder: Path, body: Callable[[], Awaitable[object]], account: RunAccount | None = None
) -> AsyncIterator[Led]:
    tasklet, process = lines_of()
    async with tasklet, process:
        run = Led(process, account)
        with trio.fail_after(10 * JOIN * SILENCE):
            async with trio.open_nursery() as nursery:
                run.scope = nursery.cancel_scope
                nursery.start_soon(run.serve, tasklet, body)
                await process.send(rsh=str(folder / "grain-rsh"), place=PLACE)
                assert [1, 2] == [(await process.receive())["join"] for _ in "ab"]
                yield run


class Body:
    """A function that begins, and goes on."""

    def __init__(self) -> None:
        self.began = trio.Event()

    async def __call__(self) -> None:
        self.began.set()
        await trio.sleep_forever()


async def test_the_function_begins_when_all_have_joined_and_finds_them(tmp_path: Path) -> None:
    async def body() -> list[tuple[str, str]]:
        return [(node.host, node.address) for node in GVAR.res.nodes]

    async with led(tmp_path, body) as run:
        await run.joins(2)
        await wait_all_tasks_blocked(0.01)
        assert not run.results
        await run.joins(1)

    [[nodes]] = run.results
    assert [(socket.gethostname(), "10.0.0.9"), ("n1", "10.0.0.1"), ("n2", "10.0.0.2")] == nodes


async def test_programs_are_warned_of_the_first_end_of_any_members_worker(tmp_path: Path) -> None:
    """Only if it is that of the root itself, its worker takes no more tasks."""
    warned: list[str] = []
    own = WorkerEnd(lambda: warned.append("root"))
    own.announce(trio.current_time() + 1000.0, now=False)
    account = RunAccount(Cores([0]), end=own)
    ends: list[float] = []

    async def body() -> None:
        end = account.end
        assert end is not None
        while not end.now:
            ends.append(round(end.at - trio.current_time(), -2))
            await end.changed.park()
            end.on_warned()

    async with led(tmp_path, body, account) as run:
        await run.joins(1, 2)
        while not ends:
            await trio.sleep(0.001)
        await run.process.send(member=2, left=300.0, now=False)
        await run.process.send(member=1, left=600.0, now=False)
        while len(ends) < 3:
            await trio.sleep(0.001)
        assert [300.0, 300.0] == ends[-2:]
        assert [] == warned
        await run.process.send(member=2, left=None, now=False)
        while ends[-1] != 600.0:
            await trio.sleep(0.001)
        own.announce(math.inf, now=True)

    assert ["root"] == warned


async def test_the_report_of_the_run_names_the_members(tmp_path: Path) -> None:
    account = RunAccount(Cores([0]))

    async def body() -> None:
        pass

    async with led(tmp_path, body, account) as run:
        await run.joins(1, 2)

    account.close()
    names = [(one.worker, one.host) for one in account.report("h", "root").members]
    assert [("w1", "n1"), ("w2", "n2")] == names[1:]


async def test_the_run_has_what_its_programs_have_used_on_each_member(tmp_path: Path) -> None:
    account = RunAccount(Cores([0]))
    seen: list[Any] = []

    async def body() -> None:
        gang = members.get()
        assert gang is not None
        for _ in range(2):
            async with gang.call():
                pass
        seen.append(GVAR.usage)

    async with led(tmp_path, body, account) as run:
        await run.joins(1, 2)
        for call, used in (1, {0: used_by(1.0), 2: used_by(3.0)}), (2, {2: used_by(2.0)}):
            assert "settle" in await run.process.receive()
            await run.process.send(settled=True, call=call, used=used_in(used))

    account.close()
    usage = account.report("h", "root").usage
    assert [usage] == seen
    assert [1.0, 0.0, 3.0] == [one.peak_memory for one in usage.members]
    assert [1.0, 0.0, 5.0] == [one.user for one in usage.members]
    assert (6.0, 3.0, 3) == (usage.user, usage.peak_memory, usage.programs)


async def test_the_process_of_the_root_is_none_of_the_programs_of_the_run() -> None:
    account = RunAccount(Cores([0]))

    async def body() -> int:
        return (await run_external(["true"])).usage.programs

    with trio.fail_after(120):
        GVAR.enter(Cores([0]), "root", None, account)
        assert 1 == await lead([], body)

    assert (1, ()) == (account.usage.programs, account.usage.members)


async def test_the_error_of_the_function_is_that_of_the_run(tmp_path: Path) -> None:
    async def body() -> None:
        raise KeyError("its own")

    async with led(tmp_path, body) as run:
        await run.joins(1, 2)

    [error] = run.results
    assert isinstance(error, KeyError)


async def test_a_member_that_is_lost_ends_the_function_and_is_named(tmp_path: Path) -> None:
    body = Body()
    async with led(tmp_path, body) as run:
        await run.joins(1, 2)
        await body.began.wait()
        await run.process.send(lost=2, why="silent")

    lost = run.leader.lost
    assert isinstance(lost, MemberLost)
    assert (2, True, "w2") == (lost.index, lost.joined, lost.worker)
    assert "w2 is lost: silent" == str(lost)


async def test_a_program_that_fails_as_a_member_is_being_ended_does_not_end_the_function(
    tmp_path: Path,
) -> None:
    """The function does not see the failure: it is cancelled at the end of the call."""
    seen: list[str] = []

    async def body() -> None:
        gang = members.get()
        assert gang is not None
        async with gang.call() as call:
            call.failed = True
        seen.append("the failure")

    async with led(tmp_path, body) as run:
        await run.joins(1, 2)
        assert (await run.process.receive())["failed"]
        await run.process.send(lost=2, why="it leaves", ends=True)

    lost = run.leader.lost
    assert lost is not None
    assert (2, True, True) == (lost.index, lost.joined, lost.ends)
    assert not seen


@pytest.mark.parametrize("hears", [True, False])
async def test_a_failed_call_waits_to_hear_why_the_process_of_the_root_has_ended(
    tmp_path: Path, hears: bool
) -> None:
    """Else the run would end by the failure, which may come of that."""
    seen: list[str] = []
    goes_on = trio.Event()

    async def body() -> None:
        gang = members.get()
        assert gang is not None
        async with gang.call() as call:
            call.failed = True
            await goes_on.wait()
        seen.append("the failure")

    async with led(tmp_path, body) as run:
        await run.joins(1, 2)
        await wait_all_tasks_blocked(0.01)
        if hears:
            goes_on.set()
            assert (await run.process.receive())["failed"]
        await run.process.__aexit__()
        goes_on.set()
        await wait_all_tasks_blocked(0.01)
        run.scope.cancel()

    assert not seen


async def test_the_first_loss_counts_and_not_what_follows_from_it(tmp_path: Path) -> None:
    body = Body()
    async with led(tmp_path, body) as run:
        await run.joins(1, 2)
        await body.began.wait()
        await run.process.send(lost=2, why="silent")
        await run.process.send(lost=1, why="its root has gone")
    run.leader.lose(0, "the process has ended")

    assert run.leader.lost is not None
    assert "w2 is lost: silent" == str(run.leader.lost)


async def test_a_member_that_cannot_be_reached_is_named_before_the_time_is_over(
    tmp_path: Path,
) -> None:
    body = Body()
    async with led(tmp_path, body) as run:
        await run.joins(1)
        await run.process.send(lost=2, why="refused")

    lost = run.leader.lost
    assert lost is not None
    assert (2, False, "refused") == (lost.index, lost.joined, lost.why)


async def test_a_call_of_a_run_that_is_cancelled_waits_for_no_answer(tmp_path: Path) -> None:
    """The process ends with the run, and all programs end with it."""
    began = trio.Event()

    async def body() -> None:
        gang = members.get()
        assert gang is not None
        async with gang.call():
            began.set()
            await trio.sleep_forever()

    async with led(tmp_path, body) as run:
        await run.joins(1, 2)
        await began.wait()
        run.scope.cancel()

    assert [] == run.results


async def test_the_first_member_that_has_not_joined_in_time_is_named(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    body = Body()
    async with led(tmp_path, body) as run:
        await run.joins(1)
        await wait_all_tasks_blocked(0.01)

    lost = run.leader.lost
    assert lost is not None
    assert (2, False) == (lost.index, lost.joined)
    assert f"within {JOIN * SILENCE:.0f} s" in lost.why


# ---- calls


@asynccontextmanager
async def members_of() -> AsyncIterator[tuple[GangMembers, JsonLines]]:
    """Make the members of a gang, with the end of their process's lines."""
    tasklet, process = lines_of()
    async with tasklet, process:
        members = GangMembers(tasklet, "/tmp/none/grain-rsh", [1, 1], PLACE)

        async def listen() -> None:
            while True:
                members.on_line(await tasklet.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            with trio.fail_after(60):
                yield members, process
            nursery.cancel_scope.cancel()


def outcome_of(ended: Completed | ExternalError) -> str:
    return base64.b85encode(pickle.dumps(ended)).decode()


async def run_on(call: Any, index: int) -> Completed:
    more: dict[str, Any] = {"timeout": None, "grace": 1.0, "threads": None}
    done: Completed = await call.run(
        index, argv=[b"prog"], cwd=b"/", changes={"A": "b"}, stdout=None, **more
    )
    return done


async def test_a_call_ends_when_nothing_of_it_is_left() -> None:
    ended = trio.Event()
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def call() -> None:
            async with gang.call():
                pass
            ended.set()

        nursery.start_soon(call)
        assert {
            "settle": True, "call": 1, "doors": False, "failed": False,
        } == await process.receive()  # fmt: skip
        await process.send(settled=True, call=2, used=USED)  # another one
        await wait_all_tasks_blocked(0.01)
        assert not ended.is_set()

        await process.send(settled=True, call=1, used=USED)
        await ended.wait()


async def test_a_cancelled_call_ends_only_then_too() -> None:
    ended = trio.Event()
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def call() -> None:
            try:
                async with gang.call():
                    await trio.sleep_forever()
            finally:
                ended.set()

        nursery.start_soon(call)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert "settle" in await process.receive()
            await wait_all_tasks_blocked(0.01)
            assert not ended.is_set()
            await process.send(settled=True, call=1, used=USED)
            await ended.wait()


async def test_a_call_waits_for_no_answer_once_a_member_is_lost() -> None:
    async with members_of() as (gang, _):
        gang.on_lost()
        async with gang.call():
            pass


async def test_programs_have_their_orders_and_outcomes_in_whatever_order_they_end() -> None:
    results: dict[int, str] = {}
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def run(call: Any, index: int) -> None:
            results[index] = (await run_on(call, index)).stdout_text

        async with gang.call() as call:
            async with trio.open_nursery() as programs:
                orders = {}
                for index in (0, 1):
                    programs.start_soon(run, call, index)
                    line = await process.receive()
                    assert (1, index) == (line["call"], line["on"])
                    orders[index] = line["run"]
                    order = msgspec.msgpack.decode(
                        base64.b85decode(line["order"]), type=ProgramOrder
                    )
                    assert ((b"prog",), b"/") == (order.argv, order.cwd)
                    assert {b"A": b"b", b"GRAIN_GANG_CALL": b"1"} == dict(order.changes)
                for index in (1, 0):
                    done = replace(DONE, stdout=b"m%d" % index)
                    await process.send(run=orders[index], call=1, outcome=outcome_of(done))
            nursery.start_soon(process.receive)
            await process.send(settled=True, call=1, used=USED)

    assert {0: "m0", 1: "m1"} == results


@pytest.mark.parametrize("enforce", [True, False, None])
async def test_a_call_says_to_all_members_how_its_programs_are_held_to_their_memory(
    enforce: bool | None,
) -> None:
    async with (
        members_of() as (gang, process),
        trio.open_nursery() as nursery,
        gang.call(enforce, ["no room"]) as call,
    ):
        nursery.start_soon(run_on, call, 1)
        line = await process.receive()
        order = msgspec.msgpack.decode(base64.b85decode(line["order"]), type=ProgramOrder)
        assert (enforce, ("no room",)) == (order.enforce, order.memory_signs)
        await process.send(run=line["run"], call=1, outcome=outcome_of(DONE))
        nursery.start_soon(process.receive)
        await process.send(settled=True, call=1, used=USED)

    stated = "" if enforce is None else str(int(enforce))
    assert stated == call.variables["GRAIN_GANG_ENFORCE"]


async def test_a_program_that_fails_names_its_member() -> None:
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def fail() -> None:
            line = await process.receive()
            failed = ExternalError(Failure(("prog",), "n1", "/", reason="it failed"))
            await process.send(run=line["run"], call=1, outcome=outcome_of(failed))
            assert (await process.receive())["failed"]
            await process.send(settled=True, call=1, used=USED)

        nursery.start_soon(fail)
        error: ExternalError | None = None
        async with gang.call() as call:
            try:
                await run_on(call, 1)
            except ExternalError as failed:
                error = failed

    assert error is not None
    assert 1 == error.failure.member


async def test_a_member_that_lacks_the_launchers_daemon_ends_the_call() -> None:
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def refuse() -> None:
            for why in ("m1 lacks orted", "m2 lacks orted"):
                await process.send(refused=why, call=1)
            await process.receive()
            await process.send(settled=True, call=1, used=USED)

        async with gang.call() as call:
            nursery.start_soon(refuse)
            await trio.sleep_forever()

        assert "m1 lacks orted" == call.refused


async def run_sh(
    script: str,
    settled: dict[int, Usage],
    exceeded: ExternalError | None = None,
    *,
    check: bool = True,
    enforce: bool | None = None,
) -> Completed | ExternalError:
    """Return how a program ends that a member runs others for, which have used so much."""
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def settle() -> None:
            await process.receive()
            await process.send(settled=True, call=1, used=used_in(settled, exceeded))

        nursery.start_soon(settle)
        token = members.set(gang)
        try:
            return await run_external(["/bin/sh", "-c", script], check=check, enforce=enforce)
        except ExternalError as error:
            return error
        finally:
            members.reset(token)
    raise AssertionError


async def test_a_program_has_what_it_has_used_on_each_member() -> None:
    for script in "exit 0", "exit 3":
        ended = await run_sh(script, {1: used_by(500.0)})

        assert ended.usage is not None
        own, other = ended.usage.members
        assert (1, used_by(500.0)) == (own.programs, other)
        assert (500.0, 2) == (ended.usage.peak_memory, ended.usage.programs)


def stopped(member: int) -> ExternalTimeoutError:
    """Return how a program ends that was warned of the end of a worker."""
    facts = {"reason": f"m{member} stopped", "warned": "worker", "stopped_softly": True}
    return ExternalTimeoutError(Failure(("prog",), "n1", "/", **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("warn", "way"),
    [
        (("STOP", "now"), (b"STOP", "now")),
        ("SIGTERM", int(signal.SIGTERM)),
        (trio.lowlevel.checkpoint, 0),
    ],
)
async def test_programs_on_all_members_are_warned_at_once_and_none_of_them_ends_the_others(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, warn: Any, way: object
) -> None:
    if isinstance(way, tuple):
        way = os.fsencode(tmp_path / "STOP"), way[1]
    account = RunAccount(ZERO, end=WorkerEnd(lambda: None))
    errors: list[ExternalError] = []
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def call() -> None:
            GVAR.enter(ZERO, "w1", None, account)
            members.set(gang)
            try:
                await run_on_members(["prog"], cwd=tmp_path, warn=warn, warn_before=30)
            except ExternalError as error:
                errors.append(error)

        nursery.start_soon(call)
        orders = {}
        for _ in range(2):
            line = await process.receive()
            orders[line["on"]] = line["run"]
            order = msgspec.msgpack.decode(base64.b85decode(line["order"]), type=ProgramOrder)
            assert (way, 30.0) == order.warn
        assert account.end is not None
        account.end.announce(trio.current_time() + 60.0, now=True)
        assert {"warn": 1, "worker": True} == await process.receive()
        await wait_all_tasks_blocked()
        assert [] == list(tmp_path.iterdir())  # the members make the file
        for member in (1, 0):  # the second one is waited for
            outcome = outcome_of(stopped(member))
            await process.send(run=orders[member], call=1, outcome=outcome)
        assert (await process.receive())["settle"]
        await process.send(settled=True, call=1, used=USED)

    [error] = errors
    assert "m1 stopped" in str(error)
    assert (1, True) == (error.failure.member, account.stopped)


async def test_an_error_counts_before_the_soft_stops_of_other_members() -> None:
    errors: list[ExternalError] = []
    async with members_of() as (gang, process), trio.open_nursery() as nursery:

        async def call() -> None:
            members.set(gang)
            try:
                await run_on_members(["prog"], cwd="/work", warn="EXIT")
            except ExternalError as error:
                errors.append(error)

        nursery.start_soon(call)
        runs = [(await process.receive())["run"] for _ in range(2)]
        failed = ExternalError(Failure(("prog",), "n1", "/", reason="it failed"))
        for run, outcome in zip(runs, (stopped(0), failed), strict=True):
            await process.send(run=run, call=1, outcome=outcome_of(outcome))
        await process.receive()
        await process.send(settled=True, call=1, used=USED)

    assert ["it failed"] == [error.failure.reason for error in errors]


@pytest.mark.parametrize(("enforce", "stated"), [(None, ""), (False, "0")])
async def test_a_launcher_passes_on_what_its_call_says_of_memory(
    enforce: bool | None, stated: str
) -> None:
    ended = await run_sh('echo "<$GRAIN_GANG_ENFORCE>"', {}, enforce=enforce)

    assert isinstance(ended, Completed)
    assert f"<{stated}>\n" == ended.stdout_text


async def test_a_launcher_that_fails_as_a_member_had_too_little_memory_says_so() -> None:
    error = ExternalMemoryError(Failure(("rank",), "n1", "/", reason="too much", member=1))

    failed, done = [await run_sh(script, {}, error) for script in ("exit 1", "exit 0")]

    assert isinstance(failed, ExternalMemoryError)
    assert "too much" in str(failed)
    assert isinstance(done, Completed)  # it has made do without that rank
    # Without `check`, only if it was ended for that.
    assert isinstance(await run_sh("exit 1", {}, error, check=False), Completed)
    ended = ExternalMemoryError(replace(error.failure, exceeded=True))
    assert isinstance(await run_sh("exit 1", {}, ended, check=False), ExternalMemoryError)
