"""The end of a process below a subreaper, as the subreaper reports it."""

from __future__ import annotations

import marshal
import signal
import socket
import tempfile

import pytest
import trio
import trio.testing

from grain.worker.processes.subreaper_client import Figures, ProcessEnd, SubreaperProcess
from grain.worker.processes.sweep import Sweep


async def process_with_subreaper(
    *reports: bytes,
) -> tuple[SubreaperProcess, trio.Process, socket.socket]:
    """A process whose subreaper has sent reports; the subreaper, and its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    for report in reports:
        theirs.send(report)
    subreaper = await trio.lowlevel.open_process(["true"])
    return SubreaperProcess(subreaper, ours, ours, Sweep(0.0)), subreaper, theirs


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_report_is_read_although_the_subreaper_has_left(ordered: bool) -> None:
    """Also if it left an order unread: then the kernel resets the connection."""
    report = marshal.dumps(("ended", int(signal.SIGKILL), 1.0, 0.5, 0.25, 1000, 2e9, True))
    process, _, theirs = await process_with_subreaper(report)

    if ordered:
        process.end()
    theirs.close()

    expected = ProcessEnd(-signal.SIGKILL, 1000 * 1024 / 1e9, 0.5, 0.25, Figures(2.0, True))
    assert expected == await process.wait()


@pytest.mark.parametrize("ordered", [False, True])
async def test_the_end_is_unknown_if_the_subreaper_was_killed(ordered: bool) -> None:
    process, _, theirs = await process_with_subreaper()

    if ordered:
        process.end()
    theirs.close()

    assert ProcessEnd(None) == await process.wait()


async def test_figures_come_before_the_end_and_none_after_it() -> None:
    figures = marshal.dumps(("measured", 3e9, False))
    process, _, theirs = await process_with_subreaper()
    received = []

    async def ask() -> None:
        received.append(await process.measured())
        theirs.close()
        received.append(await process.measured())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        theirs.send(figures)
        end = await process.wait()

    assert ([Figures(3.0), Figures()], ProcessEnd(None)) == (received, end)


async def test_a_process_below_a_subreaper_has_no_blocked_signals() -> None:
    """Although its subreaper blocks one, to wait for it by a descriptor."""
    with tempfile.TemporaryFile() as output:
        argv = ["/bin/grep", "SigBlk", "/proc/self/status"]
        process = await SubreaperProcess.start(argv, 0.0, stdout=output.fileno())
        process.socket.close()
        end = await process.wait()
        output.seek(0)

        assert (0, b"SigBlk:\t0000000000000000\n") == (end.returncode, output.read())


async def test_processes_that_survive_sigkill_are_named() -> None:
    report = marshal.dumps(("stuck", [17, 18]))
    process, subreaper, theirs = await process_with_subreaper(report)
    with theirs:
        end = await process.wait()
    await subreaper.wait()

    assert ProcessEnd(None, left=(17, 18)) == end
    assert end.describe().endswith("; processes survive SIGKILL: 17, 18")


@pytest.mark.parametrize(
    ("end", "blocked", "expected"),
    [
        (ProcessEnd(None), 0.0, "ended in an unknown way (peak memory 0.00 GB)"),
        (ProcessEnd(3, 0.5), 0.0, "exited with code 3 (peak memory 0.50 GB)"),
        (
            ProcessEnd(-9, 1.0, out_of_memory=True),
            7.2,
            "was ended by SIGKILL, out of memory, blocked for 7 s (peak memory 1.00 GB)",
        ),
    ],
)
def test_an_end_is_described_in_words(end: ProcessEnd, blocked: float, expected: str) -> None:
    assert expected == end.describe(blocked)
