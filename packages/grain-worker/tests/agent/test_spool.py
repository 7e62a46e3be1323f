"""Outcomes that wait for their missions: on the disk of the node, beyond a part of its memory."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import dial, serve
from grain.edge.buffers import Pieces
from grain.resource import Cores
from grain.worker.agent.agent import Agent
from grain.worker.agent.lifecycle import Lifecycle, Times
from grain.worker.agent.session import WorkerSession
from grain.worker.agent.spool import Spool, SpooledOutcome
from grain.worker.messages import CODEC, AckRuns, DefineFunction, Lease, RunEnded
from grain.worker.payload import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from grain.edge import Peer

MB = 1_000_000


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(120):
        while not condition():
            await trio.sleep(0.01)


def open_files(directory: Path) -> list[str]:
    """Return the open files of this process below a directory, with those that were removed."""
    targets = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(fd.readlink()))
        except FileNotFoundError:  # the one that lists them
            continue
    return [target for target in targets if target.startswith(str(directory))]


async def test_what_was_written_is_read_back_and_no_other_process_finds_it(tmp_path: Path) -> None:
    """Also in pieces; the files have no names, and are closed when nothing of them is wanted."""
    pieces = Pieces([b"abc", b"", b"defgh"])
    first = os.urandom(3000)
    outcomes = [SpooledOutcome(data) for data in (first, pieces, bytearray(b"x" * 99))]
    contents = [first, b"abcdefgh", b"x" * 99]
    async with trio.open_nursery() as nursery:
        spool = Spool(str(tmp_path), segment=3000)
        nursery.start_soon(spool.run)
        spool.put(outcomes)
        await until(lambda: all(outcome.place for outcome in outcomes))
        assert [b""] * 3 == [outcome.data for outcome in outcomes]
        assert contents == [await spool.load(outcome) for outcome in outcomes]
        assert [] == os.listdir(tmp_path)
        assert 2 == len(open_files(tmp_path))
        assert all(name.endswith(" (deleted)") for name in open_files(tmp_path))
        outcomes[0].release()
        assert 1 == len(open_files(tmp_path))
        assert contents[1:] == [await spool.load(one) for one in outcomes[1:]]
        outcomes[2].release()
        outcomes[1].release()
        nursery.cancel_scope.cancel()

    assert [] == open_files(tmp_path)


async def test_a_disk_that_takes_nothing_leaves_outcomes_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And they are acknowledged, or sent, as ever."""
    outcome, other = SpooledOutcome(b"abc"), SpooledOutcome(b"def")
    async with trio.open_nursery() as nursery:
        spool = Spool(str(tmp_path / "missing"))
        nursery.start_soon(spool.run)
        spool.put([outcome, other])
        await until(lambda: caplog.messages)
        assert b"abc" == await spool.load(outcome)
        outcome.release()
        assert b"def" == await spool.load(other)
        nursery.cancel_scope.cancel()

    assert caplog.messages[0].startswith("outcomes stay in memory: ")


async def test_an_outcome_that_is_acknowledged_while_it_is_written_keeps_no_file_open(
    tmp_path: Path,
) -> None:
    """Its place in the file is free for the next one."""
    first, acknowledged, last = (SpooledOutcome(data) for data in (b"abc", b"defgh", b"ij"))
    limiter = trio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = 1
    async with trio.open_nursery() as nursery:
        spool = Spool(str(tmp_path))
        nursery.start_soon(spool.run)
        spool.put([first])
        await until(lambda: first.place)
        async with limiter:  # the thread that writes has to wait
            spool.put([acknowledged])
            await until(lambda: limiter.statistics().tasks_waiting)
            acknowledged.release()
        spool.put([last])
        await until(lambda: last.place)
        assert b"ij" == await spool.load(last)
        assert first.place is not None
        assert last.place == (first.place[0], 3)
        nursery.cancel_scope.cancel()
    assert 1 == len(open_files(tmp_path))
    first.release()
    last.release()

    assert [] == open_files(tmp_path)


async def test_a_file_of_which_nothing_is_wanted_is_closed_when_the_next_outcome_comes(
    tmp_path: Path,
) -> None:
    """Else a worker of weeks would keep the room of what was acknowledged long ago."""
    first, second = SpooledOutcome(b"abc"), SpooledOutcome(b"de")
    async with trio.open_nursery() as nursery:
        spool = Spool(str(tmp_path))
        nursery.start_soon(spool.run)
        spool.put([first])
        await until(lambda: first.place)
        first.release()
        spool.put([second])
        await until(lambda: second.place)
        assert second.place is not None
        assert 0 == second.place[1]
        assert 1 == len(open_files(tmp_path))
        second.release()
        nursery.cancel_scope.cancel()


async def make(number: int) -> bytes:
    """Return 2 MB that no other number has."""
    return bytes([number]) * 2_000_000


class DeafHead:
    """A head that reads nothing until it is told so, and then acknowledges all."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.reads = trio.Event()
        self.ended: list[tuple[RunEnded, Any]] = []

    async def handle(self, peer: Peer) -> None:
        payloads = Payloads("mission")
        function = payloads.dump_function(make)
        batch: list[Any] = [(DefineFunction(function.digest), function.payload)]
        for number in range(1, self.tasks + 1):
            lease = Lease("m", number, (1, number), function.digest, {"Cores": [0]})
            batch.append((lease, payloads.dump_arguments((number,), {})))
        await peer.channel.send(batch)
        await self.reads.wait()
        while True:
            for message, payload in await peer.channel.receive():
                if isinstance(message, RunEnded):
                    assert payload is not None
                    outcome = payloads.load_outcome(payload)
                    self.ended.append((message, outcome.unwrap()[:1]))
                    await peer.channel.send([(AckRuns((message.attempt,)), None)])


async def test_an_agent_whose_head_does_not_read_keeps_outcomes_out_of_its_memory(
    tmp_path: Path,
) -> None:
    """All of them arrive, in their order and whole, once it reads again; nothing is left then."""
    head, address = DeafHead(60), f"unix://{tmp_path}/socket"
    now = trio.current_time()
    session = WorkerSession("id", "w", "h", Cores(1), now, in_memory=MB)
    lifecycle = Lifecycle(Times(1.0), math.inf, now)
    connect = partial(dial, address, role="worker", codec=CODEC)
    agent = Agent(session, lifecycle, connect)

    def in_memory() -> int:
        """The bytes of outcomes that are not on the disk."""
        outcomes = [outcome for _, outcome, _ in session.kept.by_attempt.values()]
        return sum(
            len(one.data) if isinstance(one, SpooledOutcome) else len(one or b"")
            for one in outcomes
        )

    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, head.handle, address, codec=CODEC))
        nursery.start_soon(agent.run)
        await until(lambda: len(session.kept.by_attempt) == 60 and not in_memory())
        order = list(session.kept.by_attempt)
        assert 60 == session.kept.spooled
        assert 60 * 2 * MB < session.kept.bytes
        # What was handed to the connection, and is not spooled, is bounded, too.
        assert 55 <= len(agent._outbox)
        head.reads.set()
        await until(lambda: not session.kept.by_attempt)
        nursery.cancel_scope.cancel()

    assert order == [message.attempt for message, _ in head.ended]
    assert all(bytes([message.task]) == content for message, content in head.ended)
    assert (0, 0) == (session.kept.bytes, session.kept.spooled)
