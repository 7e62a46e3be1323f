"""The first steps of a process of Grain's own: name, signals, its end with its subreaper."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import trio

from grain.worker.processes.subreaper_client import SubreaperProcess
from grain_testkit.local_processes import alive, descendants_of

# Sends its pid when it is set up and has sent itself a signal that it is to survive; then it waits
# for the end of file.
CHILD = """
import os, signal
from grain.worker.processes.child_setup import set_up_child
sock = set_up_child(b"grain-test", [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
ignored = signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
sock.send(f"{os.getpid()} {ignored} {os.get_inheritable(3)}".encode())
sock.recv(1)
"""


async def start() -> tuple[SubreaperProcess, int, list[bytes]]:
    """Start the child; return it, its pid and the other words that it sends."""
    process = await SubreaperProcess.start([sys.executable, "-c", CHILD], 10.0)
    process.socket.setblocking(False)
    with trio.fail_after(60):
        await trio.lowlevel.wait_readable(process.socket)
    pid, *words = process.socket.recv(100).split()
    return process, int(pid), words


async def test_a_child_has_its_name_and_catches_signals_and_keeps_its_socket() -> None:
    process, pid, words = await start()

    assert [b"False", b"False"] == words
    assert "grain-test\n" == Path(f"/proc/{pid}/comm").read_text()
    process.socket.close()
    assert 0 == (await process.wait()).returncode


async def test_a_child_ends_with_its_subreaper() -> None:
    process, pid, _ = await start()
    (subreaper,) = [p for p in descendants_of(os.getpid()) if pid in descendants_of(p)[1:]][-1:]
    assert "grain-subreaper\n" == Path(f"/proc/{subreaper}/comm").read_text()

    os.kill(subreaper, signal.SIGKILL)

    assert (await process.wait()).returncode is None
    with trio.fail_after(60):
        while alive(pid):
            await trio.sleep(0.01)
    process.socket.close()
