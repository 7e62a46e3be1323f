"""Attempts of another local user against a head and its members, none of which works."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock

from grain.edge import Serving, dial, serve
from grain.edge.errors import DialError, ForeignFile, LinkedFile
from grain.edge.transports.unix import socket_path
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.other_user import command_of_other, needs_other_user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.edge import Peer

pytestmark = needs_other_user


def as_other(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run Python code as the other user."""
    return subprocess.Popen(
        command_of_other(code, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
    )


def outcome(code: str, *arguments: str) -> str:
    """Return the output of that code."""
    with as_other(code, *arguments) as process:
        out, _ = process.communicate(timeout=120)
    return out


def start_and_kill(command: list[str]) -> None:
    """A program that prints one line and then dies without a chance to clean up."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the other user may enter and read."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def sticky(place: Path) -> Path:
    """A directory where everybody may make names, as /tmp is."""
    (place / "project").mkdir()
    (place / "project").chmod(0o1777)
    return place / "project"


async def echo(peer: Peer) -> None:
    while True:
        await peer.channel.send(await peer.channel.receive())


async def head(address: str, task_status: trio.TaskStatus[Serving]) -> None:
    await serve(echo, address, codec=CODEC, task_status=task_status)


async def run_head(nursery: trio.Nursery, address: str) -> Serving:
    async def run(task_status: trio.TaskStatus[Serving]) -> None:
        await head(address, task_status)

    serving: Serving = await nursery.start(run)
    return serving


def member(address: str, transport: str, patience: float = 60) -> Any:
    ways = frozenset({transport})
    return dial(address, role="worker", codec=CODEC, patience=patience, transports=ways)


async def works(address: str, transport: str) -> bool:
    async with member(address, transport) as peer:
        await peer.channel.send([(Note("x"), None)])
        return len(await peer.channel.receive()) == 1


async def test_another_user_cannot_read_what_is_private(place: Path) -> None:
    """The meeting file, its directory, the socket's directory, the logs within.

    Tried: Read the meeting file, its directory, the socket.
    Result: denied.
    """
    address = f"edge://{place}/meeting"
    code = """
import os, sys
for path in sys.argv[1:]:
    try:
        print(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except PermissionError:
        print("denied")
"""
    async with trio.open_nursery() as nursery:
        serving = await run_head(nursery, address)
        paths = [f"{place}/meeting", f"{place}/meeting.d", str(Path(serving.targets[0]).parent)]
        output = await trio.to_thread.run_sync(outcome, code, *paths)
        nursery.cancel_scope.cancel()

    assert output.split() == ["denied"] * 3


async def test_another_user_cannot_connect_to_the_socket(place: Path) -> None:
    """The directory keeps others out; were it open, the kernel's word on who they are would.

    The one that is opened here is of this test alone: in that of all heads of this user, members
    of others, which other tests run meanwhile, would find it open.

    Tried: Connect to the Unix socket; also where its directory was opened.
    Result: denied; refused, because the kernel says who it is.
    """
    code = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    s.sendall(b"x" * 100)
    print("read", s.recv(100))
except PermissionError:
    print("denied")
except (ConnectionResetError, BrokenPipeError):
    print("closed")
"""
    (place / "own").mkdir(mode=0o700)
    address = f"unix://{place}/own/socket"
    async with trio.open_nursery() as nursery:
        shared = Path((await run_head(nursery, f"edge://{place}/meeting")).targets[0])
        path = Path((await run_head(nursery, address)).targets[0])
        for one in (shared, path):
            assert (await trio.to_thread.run_sync(outcome, code, str(one))).strip() == "denied"
        path.parent.chmod(0o711)
        path.chmod(0o666)
        output = await trio.to_thread.run_sync(outcome, code, str(path))
        path.parent.chmod(0o700)
        assert output.strip() in ("read b''", "closed")
        assert await works(address, "unix")
        nursery.cancel_scope.cancel()


async def test_another_user_cannot_join_through_the_port(place: Path) -> None:
    """Without a certificate of the meeting no peer gets a word out of the head.

    Tried: Join over TCP without a certificate, as another user of the host.
    Result: refused.
    """
    address = f"edge://{place}/meeting"
    code = """
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
c.check_hostname = False
c.verify_mode = ssl.CERT_NONE
try:
    s = c.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10))
    s.sendall(b"x" * 100)
    print("read", s.recv(100))
except (ssl.SSLError, OSError) as e:
    print("refused")
"""
    async with trio.open_nursery() as nursery:
        serving = await run_head(nursery, address)
        port = next(t.split()[-1] for t in serving.targets if " port " in t)
        assert (await trio.to_thread.run_sync(outcome, code, port)).strip() in (
            "refused",
            "read b''",
        )
        assert await works(address, "tcp")
        nursery.cancel_scope.cancel()


async def test_the_port_of_a_dead_head_gives_another_user_nothing(place: Path) -> None:
    """A member that finds another user's listener at the old port sends it nothing.

    Tried: Listen on the port of a scheduler that died, to be sent calls.
    Result: gets a TLS greeting and nothing else.
    """
    # Held all the time, or another process might be given it before the head or the thief.
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = holder.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}?edge={place}/meeting"
    program = Path(__file__).with_name("edge_program.py")
    await trio.to_thread.run_sync(start_and_kill, [sys.executable, str(program), "head", address])
    code = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print("listening", flush=True)
while True:
    c, _ = s.accept()
    got = c.recv(10000)
    c.sendall(got)
    c.close()
    print(got.hex(), flush=True)
"""
    with holder, as_other(code, str(port)) as thief:
        assert thief.stdout is not None
        try:
            await trio.to_thread.run_sync(thief.stdout.readline)
            with pytest.raises(DialError, match="not of this meeting"):
                async with member(address, "tcp", patience=20):
                    raise AssertionError
            got = bytes.fromhex(await trio.to_thread.run_sync(thief.stdout.readline))
        finally:
            thief.kill()

    assert got[0] == 0x16  # a TLS ClientHello, and nothing of ours
    assert b"worker" not in got
    assert b"Hello" not in got


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        ("open(p, 'w').write('x' * 4096)", ForeignFile),
        ("os.symlink('/etc/passwd', p)", LinkedFile),
        ("os.mkdir(p + '.d')", ForeignFile),
        ("os.symlink('/var/tmp', p + '.d')", LinkedFile),
    ],
)
async def test_a_planted_file_in_an_open_directory_is_refused(
    sticky: Path, plant: str, kind: type[Exception]
) -> None:
    """In a directory open to all: a planted name is refused, neither read nor written through.

    Tried: Plant the meeting file or `P.d`, as a file, a directory, a link.
    Result: refused, neither read nor written.
    """
    path = str(sticky / "meeting")
    outcome(f"import os, sys; os.umask(0o077); p = sys.argv[1]; {plant}", path)
    with pytest.raises(kind):
        await serve(echo, f"edge://{path}")

    assert "root" in Path("/etc/passwd").read_text()


async def test_a_head_serves_although_another_user_took_its_name_in_tmp(sticky: Path) -> None:
    """The head uses a directory with a name of its own.

    Tried: Take the name of the socket's directory first.
    Result: another one is used, which cannot be guessed.
    """
    outcome("import os, sys; os.mkdir(sys.argv[1])", str(sticky / f"grain-{os.geteuid()}"))
    path = Path(socket_path("/some/meeting", 1, str(sticky)))

    assert path.parent.name != f"grain-{os.geteuid()}"
    assert path.parent.stat().st_uid == os.geteuid()
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def slow_clock() -> trio.abc.Clock:
    """A second of head and members takes five: they have as much time for what they do."""
    return MockClock(rate=0.2)


async def test_a_flood_of_silent_connections_delays_no_others(
    place: Path, slow_clock: trio.abc.Clock
) -> None:
    """Five hundred of them, from the same host; a member gets in while some are held.

    Tried: 500 connections that say nothing, as another user.
    Result: a member gets in while they are held.
    """
    address = f"edge://{place}/meeting"
    code = """
import select, socket, sys
s = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(500)]
print("open", flush=True)
sys.stdin.readline()
print("still open" if len(select.select(s, [], [], 0)[0]) < len(s) else "closed", flush=True)
"""
    async with trio.open_nursery() as nursery:
        serving = await run_head(nursery, address)
        port = next(t.split()[-1] for t in serving.targets if " port " in t)
        with as_other(code, port) as flood:
            assert flood.stdout is not None
            await trio.to_thread.run_sync(flood.stdout.readline)
            assert await works(address, "tcp")
            assert "still open\n" == flood.communicate("and now?\n")[0]
        nursery.cancel_scope.cancel()
