"""The way to the scheduler that missions share, where the address is wrong."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import PeerProcess, serve
from grain.edge.errors import CannotServe, DialError
from grain.head.errors import Unreachable
from grain.remote_exer import GnawConnector, RemoteExecutor, connector
from grain.resource import Cores
from grain_testkit.faulty_links import CODEC
from grain_testkit.head_and_diallers import echo
from grain_testkit.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio.testing import MockClock


async def nothing() -> None:
    """A tasklet."""


async def test_a_port_of_another_host_ends_the_mission_with_an_error(tmp_path: Path) -> None:
    """A scheduler that a mission starts is on the host of the mission."""
    (tmp_path / "s").mkdir(mode=0o700)
    address = f"tcp://192.0.2.1:4000?edge={tmp_path}/s/meeting"

    with pytest.raises(CannotServe, match="no scheduler answers at tcp://192.0.2.1:4000, and none"):
        async with RemoteExecutor(address) as executor:
            executor.submit(Cores(1), nothing)


async def test_a_wrong_port_beside_another_scheduler_ends_the_mission_with_an_error(
    tmp_path: Path,
) -> None:
    """The scheduler of the meeting file is not joined instead, and the error names it."""
    (tmp_path / "s").mkdir(mode=0o700)
    edge = f"{tmp_path}/s/meeting"
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, echo, f"edge://{edge}", codec=CODEC))
        with reserved_port() as port, pytest.raises(CannotServe, match="serves with the same keys"):
            async with RemoteExecutor(f"tcp://127.0.0.1:{port}?edge={edge}") as executor:
                executor.submit(Cores(1), nothing)
        nursery.cancel_scope.cancel()


class Stopped(PeerProcess):
    """The process of a scheduler that is stopped."""

    alive = stopped = True


class Peer:
    """The scheduler at the other end of a connection, and that connection's channel.

    Args:
        silent: seconds for which nothing has come from it.
    """

    transport = "unix"
    suspect_after = 30.0

    def __init__(self, silent: float) -> None:
        self.channel = self
        self._silent = silent

    def silent_for(self) -> float:
        """See `grain.edge.channel.FramedChannel.silent_for`."""
        return self._silent


class Starting(GnawConnector):
    """A connector that records the schedulers that it would start."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.started: list[tuple[str, ...]] = []

    async def start(self, *more: str) -> None:
        """See `GnawConnector.start`."""
        await trio.lowlevel.checkpoint()
        self.started.append(more)


@pytest.mark.parametrize(
    ("address", "then", "started"),
    [
        ("unix:///nowhere/s", "Another one takes its place after 60 s", [("--frozen=5.0",)]),
        ("tcp://127.0.0.1:1?edge={0}/m", "and `kill -KILL 1234` ends it", []),
    ],
)
async def test_a_scheduler_that_is_stopped_is_replaced_unless_it_has_a_port(
    address: str,
    then: str,
    started: list[tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    """No other process gets the port: none is started for nothing, and the sentence says so."""

    @asynccontextmanager
    async def nobody(*_: object, patience: float, **__: object) -> AsyncIterator[None]:
        await trio.sleep(patience)
        raise DialError("nobody", ())
        yield

    async def head_here(_: str) -> tuple[str, PeerProcess]:
        await trio.lowlevel.checkpoint()
        return "n1", Stopped(1234, 1)

    monkeypatch.setattr(connector, "dial", nobody)
    monkeypatch.setattr(connector, "head_here", head_here)
    finder = Starting(address.format(tmp_path))
    whys = set()
    for _ in range(70):  # a second each
        with pytest.raises(Unreachable) as failed:
            async with finder.connect():
                pass
        if not finder.started:
            whys.add(str(failed.value))
        else:
            break

    assert started == finder.started
    [why] = whys
    assert why.startswith("the scheduler (process 1234 on n1) is stopped")
    assert "`kill -CONT 1234` there lets it go on" in why
    assert then in why


@pytest.mark.parametrize(("silent", "seconds"), [(50.0, 10), (3.0, 60)])
async def test_the_silence_of_a_connection_counts_for_when_its_scheduler_is_replaced(
    silent: float,
    seconds: int,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    """One on which something has come lately was lost for another reason."""
    peers = [Peer(silent)]

    @asynccontextmanager
    async def once(*_: object, patience: float, **__: object) -> AsyncIterator[Peer]:
        if not peers:
            await trio.sleep(patience)
            raise DialError("nobody", ())
        yield peers.pop()

    async def head_here(_: str) -> tuple[str, PeerProcess]:
        await trio.lowlevel.checkpoint()
        return "n1", Stopped(1234, 1)

    monkeypatch.setattr(connector, "dial", once)
    monkeypatch.setattr(connector, "head_here", head_here)
    finder = Starting("unix:///nowhere/s")
    async with finder.connect():
        pass
    lost = trio.current_time()
    while not finder.started:
        with pytest.raises(Unreachable):
            async with finder.connect():
                pass

    # It looks once a second. A scheduler that it has started gets half a minute.
    assert seconds <= trio.current_time() - lost - 30 <= seconds + 5


@pytest.mark.parametrize("reached", [False, True])
async def test_the_first_scheduler_is_started_without_a_look_for_another_one(
    reached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Once there was one, another process may be about to start its successor."""
    finder = Starting(f"edge://{tmp_path}/m")
    finder._reached = reached
    dialled: list[bool] = []

    @asynccontextmanager
    async def nobody(*_: object, coming: bool, **__: object) -> AsyncIterator[None]:
        await trio.lowlevel.checkpoint()
        dialled.append(coming)
        raise DialError("nobody", ())
        yield

    monkeypatch.setattr(connector, "dial", nobody)
    monkeypatch.setattr(finder, "_check_address", trio.lowlevel.checkpoint)
    with pytest.raises(Unreachable):
        async with finder.connect():
            pass

    assert [reached, True] == dialled
    assert [()] == finder.started
