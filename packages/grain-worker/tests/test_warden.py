"""How a process below a warden ended, as its warden tells."""

from __future__ import annotations

import marshal
import signal
import socket

import pytest
import trio

from grain.worker.processes.subreaper_client import End, Warded


async def warded(*said: bytes) -> tuple[Warded, socket.socket]:
    """A warden that has said something, and the socket at which it hears."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    for one in said:
        theirs.send(one)
    return Warded(await trio.lowlevel.open_process(["true"]), ours, ours), theirs


@pytest.mark.parametrize("told", [False, True])
async def test_a_report_is_read_although_the_warden_has_left(told: bool) -> None:
    """Also if it left before it heard that it should: then the kernel resets the connection."""
    report = marshal.dumps(("ended", int(signal.SIGKILL), 1.0, 0.0, 0.0, 1000))
    warden, theirs = await warded(report)

    if told:
        warden.end()
    theirs.close()

    assert End(-signal.SIGKILL, 1000 * 1024 / 1e9) == await warden.wait()


@pytest.mark.parametrize("told", [False, True])
async def test_a_warden_that_was_killed_tells_nothing(told: bool) -> None:
    """Then nobody knows how its process ended."""
    warden, theirs = await warded()

    if told:
        warden.end()
    theirs.close()

    assert End(None) == await warden.wait()
