"""Head and diallers in one process, over each transport: the same guarantees on each."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from grain.edge import Peer, examine, make_key, serve_bridge
from grain.edge.errors import ChannelBroken, NotAdmitted
from grain_testkit.faulty_links import Cargo, Note
from grain_testkit.head_and_diallers import TRANSPORTS, dialling, echo, head, receive

EVERYWHERE = [*TRANSPORTS, "relay"]


@pytest.fixture
def slow_clock() -> trio.abc.Clock:
    """A second of the ways takes five, so that none is given up where the machine is busy."""
    return MockClock(rate=0.2)


@pytest.fixture
async def place(address: str, transport: str, nursery: trio.Nursery) -> str:
    """An address at which a transport works: a bridge's, with its server, for a relay."""
    if transport != "relay":
        return address
    [(host, port)] = await nursery.start(partial(serve_bridge, "127.0.0.1", 0))
    return f"bridge://{make_key()}@{host}:{port}"


@pytest.mark.parametrize("transport", EVERYWHERE)
async def test_small_and_large_messages_travel_until_the_goodbye(
    place: str, transport: str, slow_clock: trio.abc.Clock
) -> None:
    """Small and large, and the goodbye at the end."""
    joined: list[Peer] = []
    left: list[str] = []

    async def handler(peer: Peer) -> None:
        joined.append(peer)
        try:
            await echo(peer)
        except trio.EndOfChannel:
            left.append("goodbye")

    async with head(place, handler):
        async with dialling(place, transport, name="w1") as peer:
            sent = [(Note("a", n), bytes([n]) * n) for n in range(10)]
            sent += [(Note("large"), os.urandom(9_000_000))]
            await peer.channel.send(sent)

            assert await receive(peer, len(sent)) == sent
            assert peer.transport == transport
            assert [a.ok for a in peer.tried] == [True]
        with trio.fail_after(60):
            while not left:
                await trio.sleep(0.01)

        assert [(p.transport, getattr(p.greeting, "name", "")) for p in joined] == [
            (transport, "w1")
        ]


@pytest.mark.parametrize("transport", EVERYWHERE)
async def test_a_head_whose_handler_returns_says_goodbye(place: str, transport: str) -> None:
    """The channel ends for the dialler after the last message, when the handler has returned."""

    async def handler(peer: Peer) -> None:
        await peer.channel.send([(Cargo("c"), bytes(900_000)), (Note("last"), None)])

    async with head(place, handler), dialling(place, transport) as peer:
        assert len(await receive(peer, 2)) == 2
        with trio.fail_after(60), pytest.raises(trio.EndOfChannel):
            await peer.channel.receive()


@pytest.mark.parametrize("transport", EVERYWHERE)
async def test_peers_of_a_cancelled_head_lose_the_connection(place: str, transport: str) -> None:
    """A head that is cancelled: its peers learn that the connection is lost."""
    async with trio.open_nursery() as nursery:
        ready = trio.Event()

        async def run(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
            with trio.CancelScope() as scope:
                async with head(place):
                    task_status.started(scope)
                    await trio.sleep_forever()

        scope = await nursery.start(run)
        ready.set()
        async with dialling(place, transport) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)
            scope.cancel()
            with trio.fail_after(60), pytest.raises(ChannelBroken):
                await peer.channel.receive()


@pytest.mark.parametrize("transport", EVERYWHERE)
async def test_the_heads_refusal_reaches_the_dialler_with_its_reason(
    place: str, transport: str
) -> None:
    """The head's own reason reaches the dialler at once: whether to come again is its business."""
    async with head(place, admit=lambda hello: f"no {hello.role}s today"):
        with trio.fail_after(60), pytest.raises(NotAdmitted, match="no workers today"):
            async with dialling(place, transport, patience=60.0):
                raise AssertionError


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_clean_end_leaves_only_the_edge_file_and_its_claim(
    address: str, transport: str
) -> None:
    """After a clean end only the meeting file, without keys, and its last claim remain."""
    async with head(address) as serving:
        async with dialling(address, transport) as peer:
            await peer.channel.send([(Note("x"), bytes(3_000_000))])
            await receive(peer, 1)
        if transport == "files":
            for _ in range(1200):
                slots = [p for p in Path(address[7:] + ".d").glob("1/*/*") if p.name != "bell"]
                if not slots:
                    break
                await trio.sleep(0.05)
            assert not slots
        path = Path(address[7:])
        assert b"PRIVATE KEY" in path.read_bytes()
    left = sorted(str(p.relative_to(path.parent)) for p in path.parent.rglob("*"))

    assert left == ["meeting", "meeting.d", "meeting.d/claim.1"]
    assert b"PRIVATE KEY" not in path.read_bytes()
    assert not Path(serving.targets[0]).exists()


async def test_examine_tries_every_route_to_its_end(
    address: str, slow_clock: trio.abc.Clock
) -> None:
    joined: list[Peer] = []

    async def handler(peer: Peer) -> None:
        joined.append(peer)

    async with head(address, handler):
        tried = await examine(address)

    assert {a.transport for a in tried} == set(TRANSPORTS)
    assert all(a.ok for a in tried)
    assert joined == []
    (after,) = await examine(address)
    assert "has ended" in after.outcome
