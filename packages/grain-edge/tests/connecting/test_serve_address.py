"""Heads at TCP ports and Unix sockets of the user's choice, and where one cannot be had."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge import dial, prepare, serve
from grain.edge.connecting.serve import CHECK
from grain.edge.errors import (
    CannotServe,
    DialError,
    ExposedFile,
    MeetingError,
    MeetingTaken,
    Superseded,
)
from grain.edge.transports import unix
from grain_testkit.faulty_links import Note
from grain_testkit.head_and_diallers import dialling, echo, head, receive
from grain_testkit.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from grain.edge import Serving


@pytest.fixture
def free_port() -> Iterator[int]:
    """Yield a port of loopback at which no process listens."""
    with reserved_port() as port:
        yield port


async def test_a_tcp_address_serves_one_port_with_keys_from_the_edge_file(tmp_path: Path) -> None:
    """A fixed port, no other way; the keys come from the meeting file."""
    (tmp_path / "s").mkdir(mode=0o700)
    # Nobody else has that address, so that the port stays free until the head takes it.
    host = f"127.{os.getpid() >> 16 & 127 | 64}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    address = f"tcp://{host}:{port}?edge={tmp_path}/s/meeting"
    async with head(address) as serving:
        assert serving.targets == (f"{host} port {port}",)
        async with dialling(address, "tcp") as peer:
            await peer.channel.send([(Note("x"), None)])
            assert await receive(peer, 1) == [(Note("x"), None)]


async def test_a_unix_address_needs_no_edge_file(tmp_path: Path) -> None:
    """No meeting file at all; the directory must be private."""
    (tmp_path / "s").mkdir(mode=0o700)
    address = f"unix://{tmp_path}/s/sock"
    async with head(address):
        async with dialling(address) as peer:
            await peer.channel.send([(Note("x"), None)])
            await receive(peer, 1)
        with pytest.raises(MeetingTaken, match=f"process {os.getpid()}"):
            await serve(echo, address)
    assert not (tmp_path / "s" / "sock").exists()
    (tmp_path / "s").chmod(0o755)
    with pytest.raises(ExposedFile):
        await serve(echo, address)


async def test_unix_address_without_its_directory(tmp_path: Path) -> None:
    with pytest.raises(MeetingError, match="No such file or directory. Its directory must exist"):
        await serve(echo, f"unix://{tmp_path}/missing/sock")


async def test_a_head_without_a_unix_socket_serves_by_other_transports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room for a Unix socket the head serves in the other ways."""

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(unix, "socket_path", full)
    (tmp_path / "shared").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/shared/meeting"
    async with head(address) as serving, dialling(address, "tcp") as peer:
        assert peer.transport == "tcp"
        assert not any("/grain-" in target for target in serving.targets)


async def test_socket_of_a_dead_head_is_replaced(tmp_path: Path) -> None:
    """A socket file that no process listens on is not a living head."""
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s" / "sock"))
    async with head(f"unix://{tmp_path}/s/sock"), dialling(f"unix://{tmp_path}/s/sock") as peer:
        await peer.channel.send([(Note("x"), None)])
        await receive(peer, 1)


async def test_a_head_whose_socket_another_has_replaced_steps_down(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """At its next look, which is due when it goes on; it leaves the socket to its successor."""
    (tmp_path / "s").mkdir(mode=0o700)
    path = f"{tmp_path}/s/sock"

    async def silent(_: int) -> str:
        return ""

    async def run(task_status: trio.TaskStatus[Serving]) -> None:
        with pytest.raises(Superseded, match="this head steps down, as another one has put"):
            await serve(echo, f"unix://{path}", task_status=task_status)

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            successor = await unix.listen(path, silent)
            await wait_all_tasks_blocked()
            mock_clock.jump(CHECK)

    assert os.getpid() == unix.listening_process(path)
    successor.close()


async def test_a_port_in_use_is_reported_in_words(tmp_path: Path) -> None:
    """The error is a sentence, not a group of errors."""
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(MeetingError, match="Address already in use. Choose another port"):
            await serve(echo, f"tcp://127.0.0.1:{port}?edge={tmp_path}/s/meeting")


async def test_a_wrong_port_does_not_lead_to_the_head_of_the_edge_file(
    tmp_path: Path, free_port: int
) -> None:
    """That head lends its keys alone: neither files nor TCP in reverse lead to it."""
    (tmp_path / "s").mkdir(mode=0o700)
    wrong = f"tcp://127.0.0.1:{free_port}?edge={tmp_path}/s/meeting"
    async with head(f"edge://{tmp_path}/s/meeting"):
        with pytest.raises(DialError) as failed:
            async with dial(wrong, role="cli", patience=5.0):
                pass

    assert {"tcp"} == {attempt.transport for attempt in failed.value.tried}


async def test_a_port_at_which_the_head_of_the_edge_file_does_not_listen_cannot_be_served(
    tmp_path: Path, free_port: int
) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    wrong = f"tcp://127.0.0.1:{free_port}?edge={tmp_path}/s/meeting"
    async with head(f"edge://{tmp_path}/s/meeting"):
        with pytest.raises(CannotServe) as failed:
            await prepare(wrong)

    assert str(failed.value) == (
        f"no scheduler answers at tcp://127.0.0.1:{free_port}: process {os.getpid()} on "
        f"{socket.gethostname()} serves with the same keys, {tmp_path}/s/meeting, and does not "
        "listen there. Correct the address, or give it keys of its own: "
        f"tcp://127.0.0.1:{free_port}?edge=/ABSOLUTE/PATH"
    )
    await prepare(wrong)  # that head has ended


async def test_a_port_of_another_host_cannot_be_served(tmp_path: Path) -> None:
    """192.0.2.1 has no host: it is reserved for documentation."""
    (tmp_path / "s").mkdir(mode=0o700)

    with pytest.raises(CannotServe, match="none can be started there from this host, .*: Cannot"):
        await prepare(f"tcp://192.0.2.1:4000?edge={tmp_path}/s/meeting")


async def test_a_port_in_use_may_be_that_of_a_head_that_begins(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        await prepare(f"tcp://127.0.0.1:{other.getsockname()[1]}?edge={tmp_path}/s/meeting")
