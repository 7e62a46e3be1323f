"""The file transport's stream under faults: a real directory, a disk that takes orders.

The disk calls its functions without threads, so trio's mock clock holds.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.edge.connecting.mailbox import Mailbox
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import WATCH, Meeting
from grain.edge.transports.file_folder import Folder
from grain.edge.transports.file_stream import LOST, FileStream
from grain.edge.transports.segments import FIRST_SEGMENT

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock


class ScriptedDisk(Disk):
    """A disk that fails and hangs as a test demands."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, int] = {}
        self.slow: set[str] = set()
        self.hung = False
        self.calls = 0

    async def run(self, path: str, function: Any, *args: Any) -> Any:  # type: ignore[override]
        return await self.patiently(path, function, *args)

    async def patiently(  # type: ignore[override]
        self, path: str, function: Any, *args: Any
    ) -> Any:
        del path
        await trio.lowlevel.checkpoint()
        self.calls += 1
        if function.__name__ in self.slow:
            await trio.sleep(1.0)
        while self.hung:
            await trio.sleep(0.5)
        number = self.errors.get(function.__name__)
        if number:
            raise OSError(number, os.strerror(number))
        return function(*args)


class Pair:
    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        for name in ("up.0", "down.0"):
            (path / name).write_bytes(bytes(FIRST_SEGMENT))
            (path / name).chmod(0o600)
        self.path = path
        self.disk_a, self.disk_b = ScriptedDisk(), ScriptedDisk()
        self.a = FileStream(Folder(str(path)), "up", "down", self.disk_a)
        self.b = FileStream(Folder(str(path)), "down", "up", self.disk_b)


@pytest.fixture
async def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "peer")


async def receive(stream: FileStream, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = await stream.receive_some(100_000)
        assert piece
        got += piece
    return got


async def test_both_ways_and_a_clean_end(pair: Pair, autojump_clock: MockClock) -> None:
    """Small, large, and what remains of the directory afterwards: nothing."""
    large = os.urandom(5_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.a.send_all, b"small" + large)
        nursery.start_soon(pair.b.send_all, b"back")
        assert await receive(pair.b, len(large) + 5) == b"small" + large
        assert await receive(pair.a, 4) == b"back"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.a.aclose)
        assert await pair.b.receive_some(1) == b""
        await pair.b.aclose()

    assert not pair.path.exists()


async def test_a_directory_holds_few_files_however_much_is_sent(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """Acknowledged files are removed; the sender waits rather than fill the directory."""
    most = 0
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for n in range(60):
                await pair.a.send_all(bytes([n]) * 1_000_000)
                await pair.a.send_all(b"y" * 200_000)

        nursery.start_soon(send)
        left = 60 * 1_200_000
        while left:
            left -= len(await pair.b.receive_some())
            most = max(most, len(os.listdir(pair.path)))

    assert most <= 64


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE])
async def test_a_full_disk_delays_and_loses_nothing(
    pair: Pair, autojump_clock: MockClock, number: int
) -> None:
    """Nothing counts as sent that is not stored; when the disk is well, everything arrives."""
    pair.disk_a.errors["store"] = number
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def send() -> None:
            await pair.a.send_all(b"x" * 1000)
            done.set()

        nursery.start_soon(send)
        await trio.sleep(60)
        assert not done.is_set()
        del pair.disk_a.errors["store"]

        assert await receive(pair.b, 1000) == b"x" * 1000
        await done.wait()


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
async def test_stale_handles_delay_and_lose_nothing(
    pair: Pair, autojump_clock: MockClock, number: int
) -> None:
    """For a minute every look fails; then it goes on where it was."""
    pair.disk_b.errors["read"] = number
    await pair.a.send_all(b"hello")
    async with trio.open_nursery() as nursery:

        async def heal() -> None:
            await trio.sleep(60)
            pair.disk_b.errors.clear()

        nursery.start_soon(heal)
        assert await receive(pair.b, 5) == b"hello"


async def test_a_blob_that_is_late_is_waited_for(pair: Pair, autojump_clock: MockClock) -> None:
    """Nothing after it is taken before it, and it is taken once."""
    pair.disk_b.errors["read_blob"] = errno.ENOENT
    await pair.a.send_all(b"z" * 400_000)
    await pair.a.send_all(b"after")
    with trio.move_on_after(30):
        await pair.b.receive_some()
    pair.disk_b.errors.clear()

    assert await receive(pair.b, 400_005) == b"z" * 400_000 + b"after"


async def test_a_blob_is_acknowledged_when_it_is_read(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """And not while it is: what is acknowledged is removed, and could not be read any more."""
    large = os.urandom(1_000_000)
    got = b""

    async def take() -> None:
        nonlocal got
        got = await receive(pair.b, len(large))

    async with trio.open_nursery() as nursery:
        await pair.a.send_all(large)
        pair.disk_b.slow.add("read_blob")
        nursery.start_soon(take)
        await trio.sleep(0.5)  # it has seen the record, and waits for the blob
        await pair.b.send_all(b"meanwhile")
        assert b"meanwhile" == await receive(pair.a, 9)
        with trio.fail_after(60):
            while not got:
                await trio.sleep(1)
    assert got == large


async def test_a_server_that_hangs_for_a_minute_is_survived(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """Both sides wait and go on."""
    await pair.a.send_all(b"1")
    pair.disk_a.hung = pair.disk_b.hung = True
    async with trio.open_nursery() as nursery:

        async def heal() -> None:
            await trio.sleep(60)
            pair.disk_a.hung = pair.disk_b.hung = False

        nursery.start_soon(heal)
        nursery.start_soon(pair.a.send_all, b"2")
        assert await receive(pair.b, 2) == b"12"


async def test_a_killed_peer_is_noticed_and_its_files_removed(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """No beat for five minutes: broken; and closing removes what the peer left."""
    begin = trio.current_time()
    with pytest.raises(trio.BrokenResourceError, match="nothing in .* for"):
        await pair.b.receive_some()
    assert LOST <= trio.current_time() - begin <= LOST + 60
    await pair.b.aclose()

    assert not pair.path.exists()


async def test_idle_peers_show_that_they_live(pair: Pair, autojump_clock: MockClock) -> None:
    """An hour without a word: both beat, neither is lost, and it costs little."""
    with trio.move_on_after(3600):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.a.receive_some)
            nursery.start_soon(pair.b.receive_some)
    await pair.a.send_all(b"still")

    assert await receive(pair.b, 5) == b"still"


async def test_an_idle_peer_costs_a_tenth_of_an_operation_per_second(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Metadata operations per second, the head's share included: at most 0.1 after a while."""
    pair = Pair(tmp_path / "peer")
    folders = [Folder(str(pair.path)), Folder(str(pair.path))]
    worker = FileStream(folders[0], "up", "down", pair.disk_a)
    head = FileStream(folders[1], "down", "up", pair.disk_b, rung=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.receive_some)
        nursery.start_soon(head.receive_some)
        await trio.sleep(600)
        before = sum(folder.operations for folder in folders)
        await trio.sleep(3600)
        cost = (sum(folder.operations for folder in folders) - before) / 3600
        nursery.cancel_scope.cancel()

    assert 0 < cost <= 0.1


async def test_a_removed_directory_breaks_the_stream_soon(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """A new head removes it: the peer need not wait for five minutes of silence."""
    await pair.a.send_all(b"x")
    await receive(pair.b, 1)
    for file in pair.path.iterdir():
        file.unlink()
    pair.path.rmdir()
    with trio.fail_after(10), pytest.raises(trio.BrokenResourceError, match="was removed"):
        await pair.b.receive_some()


async def test_a_damaged_record_breaks_the_stream(pair: Pair, autojump_clock: MockClock) -> None:
    """A record that stays wrong breaks the stream; nothing of it is delivered."""
    await pair.a.send_all(b"good")
    assert await receive(pair.b, 4) == b"good"
    await pair.a.send_all(b"evil")
    file = pair.path / "up.0"
    data = bytearray(file.read_bytes())
    data[data.index(b"evil")] ^= 1
    file.write_bytes(data)
    with pytest.raises(trio.BrokenResourceError, match="stays damaged"):
        await pair.b.receive_some()


async def test_a_log_that_others_may_write_is_not_read(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """A log that others may write is not read.

    Tried: Write to a log of the file transport.
    Result: not read.
    """
    (pair.path / "up.0").chmod(0o666)
    with pytest.raises(trio.BrokenResourceError, match="other users may open it"):
        await pair.b.receive_some()


async def test_a_cancelled_receive_over_files_loses_nothing(
    pair: Pair, autojump_clock: MockClock
) -> None:
    """Whenever it is cancelled."""
    sent, got = b"", b""
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            nonlocal sent
            for n in range(50):
                await pair.a.send_all(bytes([n]) * 50_000)
                sent += bytes([n]) * 50_000
                await trio.sleep(0.01)

        nursery.start_soon(send)
        while len(got) < 50 * 50_000:
            with trio.move_on_after(0.003):
                got += await pair.b.receive_some(70_000)

    assert got == sent


async def test_an_idle_head_costs_five_operations_per_second(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Looking for bells and at the meeting: 5 metadata operations per second in all."""
    (tmp_path / "m.d").mkdir(mode=0o700)
    disk = ScriptedDisk()
    nobody: Any = None
    mailbox = Mailbox(Meeting(str(tmp_path / "m"), disk), 1, nobody, nobody)
    await mailbox.prepare()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.run)
        await trio.sleep(60)
        before = mailbox.operations
        await trio.sleep(600)
        cost = (mailbox.operations - before) / 600
        nursery.cancel_scope.cancel()

    watching = 3 / WATCH  # it lists the claims, and opens and closes the meeting file
    assert 0 < cost + watching <= 5
