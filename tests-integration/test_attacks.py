"""Attempts against a scheduler and a worker that run as processes; none works."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import dial
from grain.edge.framing.frames import greeting_frame
from grain.edge.meeting.block import decode_block
from grain.edge.messages import PROTOCOL, Hello, encode_greeting
from grain.edge.questions import Ask, LoadAnswer, StateAnswer, unpack
from grain.edge.transports import tcp
from grain.edge.transports.identity import HEAD, Credential, dialling_context
from grain.edge.version import Versions, package_version
from grain.eventlog.usage import ProgramState
from grain.head.messages import Describe, Described, RegisterMission, Request, Submit, Synced
from grain.head.service import CODEC
from grain.worker.messages import (
    BlockingCode,
    DefineFunction,
    Inspect,
    Inspected,
    InventoryEnd,
    Lease,
    LoopBlocked,
    RegisterWorker,
)
from grain_testkit.local_processes import descendants_of
from grain_testkit.other_user import as_other, command_of_other, needs_other_user
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from grain.edge import Peer
    from grain.edge.messages import Message


@pytest.fixture
def home() -> Iterator[Path]:
    """A home directory that other users may enter."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@contextmanager
def cluster(home: Path, *, workers: int = 0, cores: int = 1) -> Iterator[list[int]]:
    """Run a scheduler and workers, with the laxest umask there is; yields their process ids."""
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": f"{home}/.local/state"}
    address = f"edge://{home}/.local/share/grain/edge"
    log = f"{home}/gnaw.log"
    res = f'{{"Cores": {cores}}}'
    with ExitStack() as stack:

        def start(*words: str) -> int:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                env=env,
                cwd=home,
                umask=0,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process.pid

        pids = [start("grain.head", "--address", address, "--log-file", log)]
        pids += [
            start("grain.worker", "--url", address, "--res", res, "--name", f"w{number}")
            for number in range(workers)
        ]
        yield pids


@asynccontextmanager
async def joined(home: Path, role: str, name: str) -> AsyncIterator[Peer]:
    """Join as a member, which finds the scheduler when that serves."""
    address = f"edge://{home}/.local/share/grain/edge"
    async with dial(address, role=role, name=name, codec=CODEC, patience=60) as peer:
        yield peer


async def until_workers_are_here(home: Path, count: int) -> None:
    async with joined(home, "cli", "test") as peer:
        while True:
            await peer.channel.send([(Ask("load"), None)])
            [(_, payload)] = await peer.channel.receive()
            if unpack(payload, LoadAnswer).cores == count:
                return
            await trio.sleep(0.1)


async def until_tasks_are_here(home: Path, count: int) -> None:
    """Wait until the scheduler has a worker that serves, and so many tasks."""
    async with joined(home, "cli", "test") as peer:
        while True:
            await peer.channel.send([(Ask("state"), None)])
            [(_, payload)] = await peer.channel.receive()
            state = unpack(payload, StateAnswer)
            tasks = state.tasks.waiting + state.tasks.running
            serving = [one for one in state.workers if one.state == "serving"]
            if (1, count) == (len(serving), tasks):
                return
            await trio.sleep(0.1)


@needs_other_user
def test_no_file_and_no_process_is_open_to_another_user_whatever_the_umask(home: Path) -> None:
    """Of a scheduler and a worker, started with umask 0000 in an empty home.

    Tried: Open any file, directory, environment or memory of a scheduler and a worker that were
    started with umask 0000.
    Result: nothing is open.
    """
    code = """
import os, sys
home, *pids = sys.argv[1:]
seen = 0
for folder, folders, files in os.walk(home):
    for path in [os.path.join(folder, name) for name in files + folders]:
        seen += 1
        if os.access(path, os.R_OK) or os.access(path, os.W_OK):
            print("open:", path)
for pid in pids:
    for name in ("environ", "maps", "mem"):
        try:
            open(f"/proc/{pid}/{name}", "rb").read(1)
            print("open:", pid, name)
        except PermissionError:
            pass
    try:
        print("open:", os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        pass
print("looked at", seen > 0)
"""
    with cluster(home, workers=1) as pids:
        trio.run(until_workers_are_here, home, 1)
        assert (home / ".local/share/grain/edge").exists()
        assert "looked at True\n" == as_other(code, str(home), *map(str, pids))


async def until_logged(home: Path, text: bytes) -> None:
    with trio.fail_after(120):
        while text not in (home / "gnaw.log").read_bytes():
            await trio.sleep(0.1)


def sockets_of(pids: list[int]) -> list[str]:
    """Return the inodes of the sockets of these processes and of their descendants."""
    inodes = []
    for pid in {*pids, *chain.from_iterable(map(descendants_of, pids))}:
        with suppress(OSError):  # it has ended
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # it was closed
                    target = str(entry.readlink())
                    if target.startswith("socket:["):
                        inodes.append(target[len("socket:[") : -1])
    return inodes


@needs_other_user
def test_another_user_finds_no_socket_that_lets_it_in(home: Path) -> None:
    """Neither with a name in the file system nor with one outside of it (abstract).

    Tried: Connect to any socket of a scheduler and a worker, also to abstract ones.
    Result: denied; they make no abstract socket.
    """
    code = """
import socket, sys
for line in open("/proc/net/unix", encoding="utf-8", errors="replace").read().splitlines()[1:]:
    name = line.split(maxsplit=7)[7] if len(line.split(maxsplit=7)) == 8 else ""
    if not name or line.split()[6] not in sys.argv:
        continue
    print("abstract" if name.startswith("@") else "named")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.connect(name.replace("@", chr(0), 1))
        print("connected", name)
    except PermissionError:
        pass
    except (ConnectionRefusedError, FileNotFoundError):
        pass
"""
    with cluster(home, workers=1) as pids:
        trio.run(until_workers_are_here, home, 1)
        output = as_other(code, *sockets_of(pids)).split()
    assert {"named"} == set(output)


LANES = """
import sys, trio
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores

async def nothing():
    pass

async def main(address):
    connect = GnawConnector(address, start=False).connect
    one = Cores(1)
    async with RemoteExecutor(address, connect=connect) as executor:
        while True:
            task = executor.submit(one, nothing)
            if task in executor._session.aboard:
                print("in lane", flush=True)
            await executor.results.receive()

trio.run(main, sys.argv[1])
"""


def abstract_names(pid: int) -> list[str]:
    """Return the names of the abstract sockets at which a process listens, without the zero."""
    rows = Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    found = [row.split() for row in rows if " @grain-" in row]
    own = set(sockets_of([pid]))
    return [name[1:] for *_, inode, name in found if inode in own]


@needs_other_user
def test_another_user_who_connects_to_a_mission_with_lanes_is_turned_away(home: Path) -> None:
    """At its abstract socket, where any user may connect: it is closed, and the lanes go on.

    Tried: Connect to the abstract socket by which runners come to a mission, with a right
    greeting, with nonsense, with silence.
    Result: refused, because the kernel says who it is; the lanes go on.
    """
    code = """
import socket, sys
for name in sys.argv[2:]:
    for data in (bytes.fromhex(sys.argv[1]), b"", b"GET / HTTP/1.0", bytes(100000)):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(60)
        s.connect(chr(0) + name)
        try:
            s.sendall(data)
            print("received", s.recv(1))
        except (BrokenPipeError, ConnectionResetError):
            print("received b''")
"""
    (home / "lanes.py").write_text(LANES)
    address = f"edge://{home}/.local/share/grain/edge"
    with cluster(home, cores=2, workers=1):
        trio.run(until_workers_are_here, home, 2)
        words = (home / "lanes.py", address)
        with start(*words, stdout=subprocess.PIPE, text=True) as mission:
            assert mission.stdout is not None
            try:
                assert "in lane\n" == mission.stdout.readline()
                hello = Hello(PROTOCOL, package_version(), "guest", "guest", "host", 1)
                greeting = greeting_frame(encode_greeting(hello))
                told = as_other(code, greeting.hex(), *abstract_names(mission.pid)).splitlines()
                # More than the pipe may have held before.
                for _ in range(10_000):
                    assert "in lane\n" == mission.stdout.readline()
            finally:
                mission.kill()
    assert {"received b''"} == set(told)


EVIL = "e\x1b]0;title\x07\x1b[2J\n2026-11-22 INFO forged\r\u202e"


async def answer(peer: Peer) -> None:
    """Answer as a member of an evil name would."""
    while True:
        for message, _ in await peer.channel.receive():
            reply: Message
            match message:
                case Describe():
                    reply = Described(message.question, EVIL)
                case Inspect():
                    reply = Inspected(message.question, (ProgramState(EVIL, 1.0),))
                case Lease():
                    code = BlockingCode(EVIL, EVIL, EVIL, 3.0, EVIL)
                    reply = LoopBlocked(message.mission, message.task, code)
                case _:
                    continue
            peer.channel.post([(reply, None)])


async def with_evil_names(home: Path, commands: list[list[str]]) -> dict[str, bytes]:
    """Join a mission and a worker of evil names; return what commands print meanwhile."""
    functions = [(DefineFunction(b"f" * 16, EVIL), b"function")]
    tasks = [(Submit(1, 0, b"f" * 16), b""), (Submit(2, 0, b"f" * 16), b"")]
    tasks += [(Submit(3, 1, b"f" * 16), b"")]
    requests = [(Request(0, {"Cores": 1}), None), (Request(1, {EVIL: 5}), None)]
    versions = Versions(EVIL, EVIL, EVIL, EVIL)
    worker_end = [
        (RegisterWorker("w", EVIL, EVIL, {"Cores": [0], EVIL: 1}, versions=versions), None),
        (InventoryEnd(), None),
    ]
    printed = {}
    async with (
        joined(home, "mission", EVIL) as mission,
        joined(home, "worker", EVIL) as worker,
        trio.open_nursery() as nursery,
    ):
        await worker.channel.send(worker_end)
        registration = RegisterMission("m", EVIL, EVIL, 1, versions=versions)
        await mission.channel.send(
            [(registration, None), *requests, *functions, *tasks, (Synced(), None)]
        )
        nursery.start_soon(answer, mission)
        nursery.start_soon(answer, worker)
        with trio.fail_after(120):
            await until_tasks_are_here(home, len(tasks))
        for words in commands:
            # Of a scheduler that gets no processor for 5 s they would say that there is none.
            command = ("-m", "grain.cli", *words, "--patience", "60")
            pipe, environ = subprocess.PIPE, {**os.environ, "HOME": str(home)}
            typed = start(*command, env=environ, cwd=home, stdout=pipe, stderr=pipe)
            printed[" ".join(words)] = b"".join(await trio.to_thread.run_sync(typed.communicate))
        nursery.cancel_scope.cancel()
    return printed


def test_no_name_of_a_member_controls_the_terminal_or_forges_a_line(home: Path) -> None:
    """Names, hosts, kinds, calls and lines of code, in commands and in the scheduler's log.

    Tried: Names with escapes and line breaks, for `grain ls`, `grain why` and the log.
    Result: question marks, no forged line.
    """
    (home / "grain.toml").write_text(f'address = "edge://{home}/.local/share/grain/edge"\n')
    commands = [["ls"], ["ls", "--json"], ["why", "m:1"], ["why", "m:3"], ["drain"], ["cancel"]]
    with cluster(home):
        printed = trio.run(with_evil_names, home, commands)
    printed["log"] = (home / "gnaw.log").read_bytes()
    assert b"e?]0;title?" in printed["ls"]
    for where, raw in printed.items():
        text = raw.decode()
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text), where
        assert not [line for line in text.split("\n") if line.startswith("2026-11-22 INFO f")], (
            where
        )


def credential_of(home: Path) -> tuple[Credential, int]:
    """Return a member's credential, and the port on the loopback network."""
    path = home / ".local/share/grain/edge"
    record = decode_block(path.read_bytes(), str(path))
    port = next(port for host, port in record.tcp if host == "127.0.0.1")
    return Credential(record.authority, record.certificate, record.key), port


async def record_handshake(home: Path) -> tuple[list[bytes], int]:
    """Join by TCP through a process in the middle; return what the member sent, and the port."""
    await until_workers_are_here(home, 0)
    credential, port = credential_of(home)
    sent: list[bytes] = []

    async def pump(source: trio.SocketStream, sink: trio.SocketStream, log: list[bytes]) -> None:
        async for data in source:
            log.append(bytes(data))
            await sink.send_all(data)

    async def relay(member: trio.SocketStream) -> None:
        head = await trio.open_tcp_stream("127.0.0.1", port)
        async with member, head, trio.open_nursery() as nursery:
            nursery.start_soon(pump, member, head, sent)
            nursery.start_soon(pump, head, member, [])

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, relay, [listener])
        stream = await tcp.connect("127.0.0.1", listener.socket.getsockname()[1])
        secure = await tcp.secure_dialled(stream, dialling_context(credential), HEAD)
        async with secure:
            await secure.send_all(b"some bytes")
            await trio.sleep(0.2)
            assert "TLSv1.3" == secure.version()
        nursery.cancel_scope.cancel()
        await listener.aclose()
    return sent, port


def test_a_recorded_handshake_is_of_no_use_when_sent_again(home: Path) -> None:
    """Who relays it sees no word of it, either.

    Tried: Relay and record a handshake, and send it again.
    Result: reads nothing; refused.
    """
    with cluster(home):
        sent, port = trio.run(record_handshake, home)
        assert sent
        assert not [data for data in sent if b"grain-member" in data or b"some bytes" in data]
        with socket.create_connection(("127.0.0.1", port), timeout=120) as thief:
            received = b""
            # The head may end the connection before all of it was sent.
            with suppress(ConnectionError):
                for data in sent:
                    thief.sendall(data)
            with suppress(ConnectionError):
                while data := thief.recv(65536):
                    received += data
        # The connection is closed before the log has its line.
        trio.run(until_logged, home, b"turned away")
    # A ServerHello and what it has encrypted for somebody else, then an alert and the end; or
    # the end alone, where it came before anything was read.
    assert received[:1] in (b"\x16", b"\x15", b"")


@needs_other_user
def test_a_stranger_who_floods_the_port_with_nonsense_neither_delays_nor_fills_anything(
    home: Path,
) -> None:
    """Silence, halves of TLS records, noise, as fast as a process can, while members are served.

    Tried: Noise, halves of records and silence, as fast as a process can.
    Result: members join meanwhile; no memory, no descriptors, no log is filled.
    """
    code = """
import os, random, socket, sys, threading
kinds = [b"", b"\\x16\\x03\\x01", os.urandom(300), b"GET / HTTP/1.0\\r\\n\\r\\n",
         b"\\x16\\x03\\x01\\xff\\xff" + b"x" * 70000, bytes(100000)]
held, count = [], 0
enough = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), enough.set())).start()
while not enough.is_set():
    try:
        one = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2)
        one.setblocking(False)
        held.append(one)
        one.send(random.choice(kinds))
    except OSError:
        enough.wait(0.001)
    count += 1
    if count == 1000:
        print("under way", flush=True)
    if len(held) > 400:
        held.pop(0).close()
"""

    async def ask(transport: str) -> None:
        address = f"edge://{home}/.local/share/grain/edge"
        ways = frozenset({transport})
        async with dial(address, role="cli", codec=CODEC, patience=120, transports=ways) as peer:
            await peer.channel.send([(Ask("load"), None)])
            await peer.channel.receive()

    async def flooded(pid: int) -> None:
        await until_workers_are_here(home, 0)
        _, port = credential_of(home)
        async with trio.open_nursery() as nursery:
            pipe = subprocess.PIPE
            words = command_of_other(code, str(port))
            flood = await nursery.start(partial(trio.run_process, words, stdin=pipe, stdout=pipe))
            with trio.fail_after(300):
                assert b"u" == await flood.stdout.receive_some(1)
                await ask("tcp")
                await ask("unix")
            assert len(os.listdir(f"/proc/{pid}/fd")) < 200
            assert flood.poll() is None
            await flood.stdin.aclose()
        await ask("tcp")

    with cluster(home) as [pid]:
        trio.run(flooded, pid)
        memory = int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])
    assert memory < 200_000  # kB
    assert (home / "gnaw.log").stat().st_size < 200_000
