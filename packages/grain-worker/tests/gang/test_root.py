"""The process of the root in the process of the test, with members that only speak."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from msgspec.structs import replace as replace_usage

from grain.edge.invitation import invite
from grain.eventlog.usage import Usage
from grain.worker.errors import (
    ExternalError,
    ExternalMemoryError,
    ExternalStartError,
    Failure,
)
from grain.worker.external import Completed
from grain.worker.gang import rsh
from grain.worker.gang.control import ControlError, JsonLines, connect, listen
from grain.worker.gang.messages import (
    CODEC,
    CallEnded,
    CallUsed,
    EndCall,
    EndProgram,
    MemberPlace,
    OutputTaken,
    ProgramExited,
    ProgramInput,
    ProgramOrder,
    ProgramOutput,
    SpawnProgram,
    WarnProgram,
    heartbeat,
)
from grain.worker.gang.root import lead
from grain.worker.processes.mpi import EDGE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.channel import FramedChannel
    from grain.edge.messages import Message

SILENCE = 600.0
WORDS = (b"prog", b"one")
DONE = Completed(("prog",), 0, b"said", b"", 1.0, 0.5, 0.5, 0.1, "n1")


class FakeMember:
    """A member of a root: what it gets is looked at, and what it sends is told to it."""

    def __init__(self, channel: FramedChannel) -> None:
        self._channel = channel
        self._read: list[tuple[Message, Any]] = []

    async def next(self) -> Message:
        """Return the next message of the root."""
        while not self._read:
            self._read += await self._channel.receive()
        self.payload = self._read[0][1]
        return self._read.pop(0)[0]

    async def spawned(self) -> int:
        """Return the number of the program that is to start next."""
        message = await self.next()
        assert isinstance(message, SpawnProgram)
        self.order = msgspec.msgpack.decode(self.payload, type=ProgramOrder)
        return message.number

    def post(self, message: Message, payload: bytes | None = None) -> None:
        self._channel.post([(message, payload)])

    async def leave(self) -> None:
        await self._channel.aclose()

    def exits(self, number: int, outcome: Completed | ExternalError = DONE) -> None:
        """Report the end of a program."""
        self.post(ProgramExited(number), pickle.dumps(outcome))


class ServedRoot:
    """A root, its tasklet, which is the test, and its members."""

    def __init__(self, tasklet: JsonLines, rsh: Path) -> None:
        self.tasklet = tasklet
        # The name at which it listens, before the words of the caller.
        self.rsh_name = rsh.read_text().split()[-2]
        self.members: list[FakeMember] = []
        self.lines: list[dict[str, Any]] = []

    async def line(self, *kinds: str) -> dict[str, Any]:
        """Return the next line to the tasklet with one of these; note all that come before."""
        while True:
            line = await self.tasklet.receive()
            self.lines.append(line)
            if kinds[0] in line:
                return line

    async def run(self, number: int, on: int, call: int) -> None:
        """Have a program run on a member."""
        order = msgspec.msgpack.encode(ProgramOrder(WORDS, (), b"/"))
        content = base64.b85encode(order).decode()
        await self.tasklet.send(run=number, call=call, on=on, order=content)

    async def settle(self, *, doors: bool = False, failed: bool = False) -> None:
        """Have the first call end."""
        await self.tasklet.send(settle=True, call=1, doors=doors, failed=failed)

    async def passed(self, call: int = 99) -> None:
        """Wait until the root has done all that it was told so far, by a program on each member."""
        for index, member in enumerate(self.members, 1):
            await self.run(1000, index, call)
            number = await member.spawned()
            member.exits(number)
            await self.line("run")

    async def rsh(self, host: str = "m1", call: int = 1, **more: Any) -> JsonLines:
        """Ask as a launcher does that starts its daemon on a member."""
        lines = await connect(self.rsh_name)
        order = {"host": host, "words": ["orted", "-x"], "environment": {"A": "b"}, "cwd": "/"}
        await lines.send(**{**order, "call": str(call), **more})
        return lines


async def answered(lines: JsonLines) -> tuple[list[bytes], int, str]:
    """Return what a call of rsh gets: the output, the status, and the reason."""
    output: list[bytes] = []
    async with lines:
        while True:
            line = await lines.receive()
            if "status" in line:
                return output, line["status"], line["output"]
            output.append(base64.b85decode(line["data"]))


@asynccontextmanager
async def root_of(members: int) -> AsyncIterator[ServedRoot]:
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(lead, name, SILENCE)
        async with JsonLines(await listener.accept()) as tasklet:
            first = await tasklet.receive()
            root = ServedRoot(tasklet, Path(first["rsh"]))
            for index in range(1, 1 + members):
                await nursery.start(_join, root, index)
            with trio.fail_after(60):
                yield root
        nursery.cancel_scope.cancel()


async def _join(
    root: ServedRoot, index: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with invite(CODEC, heartbeat(SILENCE)) as door:
        invitation = base64.b85encode(door.invitation).decode()
        await root.tasklet.send(join=index, invitation=invitation)
        async with door.guest() as channel:
            member = FakeMember(channel)
            root.members.append(member)
            member.post(MemberPlace("7", f"n{index}", f"door{index}"))
            joined = await root.line("join")
            assert (index, f"n{index}") == (joined["join"], joined["place"]["node"])
            task_status.started()
            await trio.sleep_forever()


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


async def test_an_order_goes_to_its_member_and_its_outcome_to_the_tasklet() -> None:
    async with root_of(2) as root:
        await root.run(5, on=2, call=1)
        number = await root.members[1].spawned()
        assert WORDS == root.members[1].order.argv

        root.members[1].exits(number)

        line = await root.line("run")
        assert (5, 1) == (line["run"], line["call"])
        assert DONE == pickle.loads(base64.b85decode(line["outcome"]))


async def test_a_call_has_settled_when_the_last_program_on_any_member_has_gone() -> None:
    async with root_of(2) as root:
        first, second = root.members
        await root.run(1, on=1, call=1)
        await root.run(2, on=2, call=1)
        one, other = await first.spawned(), await second.spawned()

        await root.settle()

        assert EndProgram(one) == await first.next()
        assert EndProgram(other) == await second.next()
        first.exits(one)
        await root.passed()
        assert not any("settled" in line for line in root.lines)
        second.exits(other)
        assert 1 == (await root.line("settled"))["call"]


async def test_a_call_has_what_its_programs_have_used_on_each_member() -> None:
    """Those that it has started there, and ranks that came by the doors."""
    async with root_of(2) as root:
        first, second = root.members
        used = Usage(user=1.0, peak_memory=2.0, programs=1)
        failure = Failure(("prog",), "n1", "/", reason="too much", usage=used)
        await root.run(7, 1, 1)
        first.exits(await first.spawned(), replace(DONE, usage=used))
        await root.run(8, 1, 1)
        first.exits(await first.spawned(), ExternalMemoryError(failure))
        await root.line("run")
        await root.line("run")

        await root.settle(doors=True)
        for member in root.members:
            assert isinstance(await member.next(), EndCall)
        second.post(CallUsed(1), pickle.dumps((replace_usage(used, programs=4), None)))
        for member in root.members:
            member.post(CallEnded(1))
        settled = await root.line("settled")

    by_member, exceeded = pickle.loads(base64.b85decode(settled["used"]))
    assert {1: (2.0, 2), 2: (1.0, 4)} == {
        index: (one.user, one.programs) for index, one in by_member.items()
    }
    assert isinstance(exceeded, ExternalMemoryError)
    assert ("too much", 1) == (exceeded.failure.reason, exceeded.failure.member)


async def test_a_call_leaves_the_programs_of_others_alone() -> None:
    async with root_of(1) as root:
        [member] = root.members
        await root.run(1, on=1, call=1)
        await root.run(2, on=1, call=2)
        one, _ = await member.spawned(), await member.spawned()

        await root.settle()
        assert EndProgram(one) == await member.next()
        member.exits(one)
        await root.line("settled")

        await root.passed()  # and no other order has come before that


async def test_nothing_starts_for_a_call_that_has_ended() -> None:
    async with root_of(1) as root:
        await root.settle()
        await root.line("settled")

        await root.run(1, on=1, call=1)
        _, status, why = await answered(await root.rsh(call=1))

        assert (255, "grain-rsh: the program that asked for this has ended\n") == (status, why)
        await root.passed()  # the first program that its member gets


async def test_nothing_starts_for_a_call_that_is_about_to_end() -> None:
    """Its programs are told to end, and one of them goes on for a while."""
    async with root_of(1) as root:
        [member] = root.members
        await root.run(1, on=1, call=1)
        one = await member.spawned()
        await root.settle()
        assert EndProgram(one) == await member.next()

        _, status, _ = await answered(await root.rsh(call=1))

        assert 255 == status
        member.exits(one)
        await root.line("settled")
        await root.passed()


async def test_a_call_waits_for_the_ranks_that_came_by_the_doors_of_all_members() -> None:
    async with root_of(2) as root:
        await root.settle(doors=True)
        for member in root.members:
            assert EndCall(1) == await member.next()

        root.members[1].post(CallEnded(1))
        await root.passed()
        assert not any("settled" in line for line in root.lines)

        root.members[0].post(CallEnded(1))
        await root.line("settled")


async def test_a_call_that_has_failed_waits_until_all_members_have_said_that_they_stay() -> None:
    async with root_of(2) as root:
        await root.settle(failed=True)
        for member in root.members:
            assert EndCall(1, failed=True) == await member.next()

        root.members[1].post(CallEnded(1))
        await root.passed()
        assert not any("settled" in line for line in root.lines)

        root.members[0].post(CallEnded(1))
        await root.line("settled")
        assert not any("lost" in line for line in root.lines)


async def test_a_call_that_has_failed_as_a_member_is_being_ended_is_lost_with_it() -> None:
    async with root_of(2) as root:
        await root.settle(failed=True)
        for member in root.members:
            assert EndCall(1, failed=True) == await member.next()
        root.members[1].post(CallEnded(1, ends=True))
        root.members[0].post(CallEnded(1))

        expected = {"lost": 2, "why": "its worker is being ended", "ends": True}
        assert expected == await root.line("lost")
        assert not any("settled" in line for line in root.lines)


async def test_a_call_that_two_members_left_is_lost_with_the_one_that_said_so_first() -> None:
    """That one may have made the call fail, and what the other says may follow from it."""
    async with root_of(2) as root:
        await root.settle(failed=True)
        for member in root.members:
            assert EndCall(1, failed=True) == await member.next()
        root.members[1].post(CallEnded(1, ends=True))
        await root.passed()
        root.members[0].post(CallEnded(1, ends=True))

        assert 2 == (await root.line("lost"))["lost"]


async def test_a_call_that_has_failed_is_lost_with_a_member_that_does_not_answer_any_more() -> None:
    async with root_of(2) as root:
        await root.settle(failed=True)
        for member in root.members:
            assert EndCall(1, failed=True) == await member.next()
        root.members[0].post(CallEnded(1))
        await root.members[1].leave()

        assert 2 == (await root.line("lost"))["lost"]
        assert not any("settled" in line for line in root.lines)


async def test_a_member_that_has_gone_is_named_to_the_tasklet() -> None:
    async with root_of(2) as root:
        await root.members[1].leave()

        assert 2 == (await root.line("lost"))["lost"]


async def test_a_member_that_reports_what_is_no_outcome_is_lost_with_the_reason() -> None:
    async with root_of(2) as root:
        await root.run(5, on=2, call=1)
        number = await root.members[1].spawned()
        root.members[1].post(ProgramExited(number), pickle.dumps({"status": 0}))

        lost = await root.line("lost")
        assert 2 == lost["lost"]
        assert lost["why"].endswith("does not fit: TypeError: an outcome of type dict")
        assert [] == [line for line in root.lines if "run" in line]


async def test_a_member_that_cannot_be_reached_is_named_to_the_tasklet() -> None:
    async with root_of(0) as root:
        async with invite(CODEC, heartbeat(SILENCE)) as door:
            invitation = base64.b85encode(door.invitation).decode()
        await root.tasklet.send(join=1, invitation=invitation)

        lost = await root.line("lost")
        assert 1 == lost["lost"]
        assert lost["why"].startswith("the other host cannot be reached")


async def test_rsh_passes_on_output_as_it_is_taken_and_ends_as_the_program_does() -> None:
    async with root_of(1) as root:
        [member] = root.members
        lines = await root.rsh()
        number = await member.spawned()
        assert (b"/bin/sh", b"-c", b"orted -x") == member.order.argv
        assert member.order.streams

        member.post(ProgramOutput(number, 1), b"some")
        assert OutputTaken(number, 1) == await member.next()
        member.exits(number, replace(DONE, returncode=3, stdout=None))

        assert ([b"some"], 3, "") == await answered(lines)


async def test_all_programs_of_a_call_are_warned_and_no_others() -> None:
    async with root_of(2) as root:
        numbers = []
        for number, (index, call) in enumerate([(1, 1), (2, 1), (2, 2)]):
            await root.run(number, index, call)
            numbers.append(await root.members[index - 1].spawned())
        await root.tasklet.send(warn=1, worker=True)
        for member, number in zip(root.members, numbers[:2], strict=True):
            assert WarnProgram(number, worker=True) == await member.next()
        await root.passed()  # and nothing else was sent


@pytest.mark.parametrize(("stated", "enforce"), [("1", True), ("0", False), ("", None)])
async def test_what_a_launcher_starts_is_held_to_its_memory_as_its_call_says(
    stated: str, enforce: bool | None
) -> None:
    async with root_of(1) as root:
        [member] = root.members
        lines = await root.rsh(environment={"GRAIN_GANG_ENFORCE": stated})
        member.exits(await member.spawned())
        await answered(lines)
        assert enforce is member.order.enforce


async def test_a_program_of_the_user_reads_what_rsh_reads_one_piece_after_the_other() -> None:
    async with root_of(1) as root:
        [member] = root.members
        words = [sys.executable, "-SE", rsh.__file__, EDGE, root.rsh_name, "--program", "--input"]
        process = await trio.lowlevel.open_process(
            [*words, "m1", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, rsh.CALL: "1"},
        )
        try:
            number = await member.spawned()
            assert member.order.reads
            assert process.stdin is not None
            for data in (b"one\n", b"two\n"):
                await process.stdin.send_all(data)
                assert ProgramInput(number) == await member.next()
                assert data == bytes(member.payload)
                member.post(ProgramOutput(number, 0), b"1")

            await process.stdin.send_all(b"three\n")
            assert ProgramInput(number) == await member.next()
            member.post(ProgramOutput(number, 0))  # it reads no more
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await process.stdin.send_all(b"more\n")
            member.exits(number)
            assert 0 == await process.wait()
        finally:
            process.kill()


async def test_what_a_program_reads_ends_with_the_input_of_rsh() -> None:
    async with root_of(1) as root:
        [member] = root.members
        lines = await root.rsh(daemon=False, reads=True)
        number = await member.spawned()
        await lines.send(input="")
        assert ProgramInput(number) == await member.next()
        assert b"" == bytes(member.payload or b"")
        member.post(ProgramOutput(number, 0))
        assert {"taken": False} == await lines.receive()
        member.exits(number)
        assert ([], 0, "said") == await answered(lines)


async def test_a_launcher_that_has_gone_ends_its_daemon() -> None:
    async with root_of(1) as root:
        [member] = root.members
        lines = await root.rsh()
        number = await member.spawned()

        async with lines:
            pass

        assert EndProgram(number) == await member.next()


@pytest.mark.parametrize("daemon", [True, False])
async def test_a_member_without_the_daemon_of_a_launcher_refuses_the_call(daemon: bool) -> None:
    async with root_of(1) as root:
        [member] = root.members
        lines = await root.rsh(daemon=daemon)
        number = await member.spawned()
        gone = Failure(("orted",), "n1", "/", reason="orted: not found")

        member.exits(number, ExternalStartError(gone))

        _, status, why = await answered(lines)
        assert 127 == status
        assert "not found" in why
        await root.passed()
        refused = [line["refused"] for line in root.lines if "refused" in line]
        assert daemon == bool(refused)
        assert all("member 1 (host n1) cannot take part" in one for one in refused)


@pytest.mark.parametrize("host", ["m2", "m", "n1", "m-1"])
async def test_rsh_names_the_members_that_there_are(host: str) -> None:
    async with root_of(1) as root:
        _, status, why = await answered(await root.rsh(host))

        assert (255, True) == (status, f"there is no member {host}" in why)
        await root.passed()


@pytest.mark.parametrize("said", [b"{}\n", b"[]\n", b"no\n", b'{"host": "m1", "words": []}\n', b""])
async def test_what_is_no_order_at_the_door_of_rsh_is_answered_and_ends_nothing(
    said: bytes,
) -> None:
    async with root_of(1) as root:
        sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        await sock.connect("\0" + root.rsh_name)
        async with trio.SocketStream(sock) as stream:
            await stream.send_all(said)
            await stream.send_eof()
            answer = json.loads(await stream.receive_some())

        assert 255 == answer["status"]
        await root.passed()


async def test_the_root_ends_with_its_tasklet() -> None:
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(lead, name, SILENCE)
        async with JsonLines(await listener.accept()) as tasklet:
            await tasklet.receive()
        # Its tasks end, and so the nursery does.


async def test_a_root_needs_its_tasklet() -> None:
    with pytest.raises(ControlError, match="nothing listens at"):
        await lead("grain-no-such-name", SILENCE)
