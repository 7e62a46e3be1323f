"""The meeting on a real directory: claims, and every bad state of its files."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain.edge.errors import (
    ExposedFile,
    FilesystemFailed,
    FilesystemFull,
    FilesystemHung,
    FilesystemReadOnly,
    ForeignFile,
    LinkedFile,
    MeetingError,
    MeetingTaken,
    NoEdgeFile,
    NotAnEdgeFile,
    Superseded,
    TornEdgeFile,
)
from grain.edge.meeting import files
from grain.edge.meeting.block import SIZE, MeetingRecord, encode_block
from grain.edge.meeting.disk import Disk, check_writable
from grain.edge.meeting.meeting import Meeting
from grain.files.processes import start_time, this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock


@pytest.fixture
def edge_file(tmp_path: Path) -> Path:
    directory = tmp_path / "shared"
    directory.mkdir(mode=0o700)
    return directory / "meeting"


@pytest.fixture
def meeting(edge_file: Path) -> Meeting:
    return Meeting(str(edge_file), Disk(), unpublished=0.3)


@pytest.fixture
def sticky() -> Iterator[Path]:
    """A directory where everybody may make names, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.fixture
def dead() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def record(**changes: object) -> MeetingRecord:
    me = this_process()
    mine = MeetingRecord("line", 1, True, me.host, me.boot, me.space, me.pid, me.start)
    return msgspec.structs.replace(mine, **changes)


async def nobody(_: MeetingRecord) -> str:
    return ""


async def somebody(_: MeetingRecord) -> str:
    return "it answers"


async def test_first_claim_makes_everything_private(meeting: Meeting, edge_file: Path) -> None:
    """Even under the most permissive umask."""
    old = os.umask(0)
    try:
        meeting_id, epoch = await meeting.claim(nobody)
        await meeting.publish(record(meeting_id=meeting_id, epoch=epoch))
    finally:
        os.umask(old)

    assert epoch == 1
    assert len(meeting_id) == 32
    assert edge_file.stat().st_mode & 0o777 == 0o600
    assert edge_file.stat().st_size == SIZE
    assert Path(f"{edge_file}.d").stat().st_mode & 0o777 == 0o700
    assert (await meeting.read()).epoch == 1


async def test_hostile_umask_does_not_lock_us_out(meeting: Meeting, edge_file: Path) -> None:
    """umask 777 would make a directory that its owner cannot enter.

    Tried: Lock the user out by an umask.
    Result: modes are set, not inherited.
    """
    old = os.umask(0o777)
    try:
        await meeting.claim(nobody)
    finally:
        os.umask(old)

    assert Path(f"{edge_file}.d").stat().st_mode & 0o777 == 0o700


async def test_default_directory_is_made(tmp_path: Path) -> None:
    """~/.local/share need not exist."""
    meeting = Meeting(str(tmp_path / ".local" / "share" / "edge-file-default"), Disk())
    _, epoch = await meeting.claim(nobody)

    assert epoch == 1


async def test_claim_against_a_living_process_names_it(meeting: Meeting) -> None:
    """Host and pid are in the error and in its text."""
    await meeting.claim(nobody)
    await meeting.publish(record())
    with pytest.raises(MeetingTaken, match=f"process {os.getpid()} on ") as caught:
        await meeting.claim(somebody)

    assert caught.value.pid == os.getpid()
    assert caught.value.host == socket.gethostname()


async def test_claim_after_a_dead_process_whose_pid_is_ours_now(meeting: Meeting) -> None:
    """In a container that starts again, the head has the pid of its predecessor."""
    await meeting.claim(nobody)
    await meeting.publish(record(start=this_process().start - 1))
    _, epoch = await meeting.claim(nobody)

    assert epoch == 2


async def test_claim_after_a_dead_process_takes_over(meeting: Meeting, dead: int) -> None:
    """With a higher epoch of the same meeting_id; the old claim is removed."""
    await meeting.claim(nobody)
    await meeting.publish(record(pid=dead, start=5))
    meeting_id, epoch = await meeting.claim(somebody)
    await meeting.publish(record(epoch=epoch))

    assert (meeting_id, epoch) == ("line", 2)
    assert os.listdir(meeting.directory) == ["claim.2"]


async def test_reused_pid_is_not_the_old_process(meeting: Meeting) -> None:
    """A living process of that number that started at another time is another one."""
    parent = os.getppid()
    started = start_time(parent)
    await meeting.claim(nobody)
    await meeting.publish(record(pid=parent, start=started))
    with pytest.raises(MeetingTaken):
        await meeting.claim(somebody)
    await meeting.publish(record(pid=parent, start=(started or 0) - 1))

    assert (await meeting.claim(somebody))[1] == 2


async def test_a_process_that_is_there_and_does_not_answer_is_superseded(meeting: Meeting) -> None:
    """It may be stopped; how long it has for an answer is the caller's affair."""
    await meeting.claim(nobody)
    await meeting.publish(record())

    assert (await meeting.claim(nobody))[1] == 2


async def test_what_was_removed_is_made_again_unless_another_one_leads(
    meeting: Meeting, edge_file: Path
) -> None:
    """The directory with the claim, and the file; a superseded head makes nothing."""
    await meeting.claim(nobody)
    await meeting.publish(record(epoch=1))
    shutil.rmtree(edge_file.parent)
    assert not await meeting.restore(1)
    assert ["claim.1"] == os.listdir(meeting.directory)
    await meeting.watch(record(epoch=1))
    assert await meeting.restore(1)
    assert edge_file.parent.stat().st_mode & 0o777 == 0o700
    Path(meeting.directory, "claim.1").rename(Path(meeting.directory, "claim.2"))
    with pytest.raises(Superseded):
        await meeting.restore(1)

    assert ["claim.2"] == os.listdir(meeting.directory)


async def test_a_directory_that_takes_nothing_is_seen_by_writing(meeting: Meeting) -> None:
    await meeting.claim(nobody)
    await check_writable(meeting.directory)
    assert ["claim.1"] == os.listdir(meeting.directory)
    shutil.rmtree(meeting.directory)
    with pytest.raises(FilesystemFailed, match="No such file"):
        await check_writable(meeting.directory)


async def test_claim_against_another_host_asks_it(meeting: Meeting) -> None:
    """Its process cannot be looked at, so its answer decides."""
    await meeting.claim(nobody)
    await meeting.publish(record(boot="other", host="node7", pid=1234))
    with pytest.raises(MeetingTaken, match=r"1234 on node7 .*it answers"):
        await meeting.claim(somebody)

    assert (await meeting.claim(nobody))[1] == 2


async def test_an_ended_meeting_can_be_claimed(meeting: Meeting) -> None:
    """A clean end says so in the file, so no head is asked."""
    await meeting.claim(nobody)
    await meeting.publish(record(open=False))

    assert (await meeting.claim(somebody))[1] == 2


async def test_of_many_claimants_at_once_one_wins(meeting: Meeting) -> None:
    """Twenty claimants at the same moment: one epoch, and the others learn who has it."""
    outcomes: list[object] = []

    async def claimant() -> None:
        # Who is slow to publish is not passed over.
        mine = Meeting(meeting.path, Disk(), unpublished=600.0)
        try:
            meeting_id, epoch = await mine.claim(somebody)
        except MeetingTaken as e:
            outcomes.append(e.epoch)
        else:
            await mine.publish(record(meeting_id=meeting_id, epoch=epoch))
            outcomes.append("won")

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(claimant)

    assert sorted(map(str, outcomes)) == ["1"] * 19 + ["won"]


async def test_an_incumbent_steps_down_for_a_higher_claim(meeting: Meeting) -> None:
    """Before it writes and whenever it looks, a higher claim counts."""
    await meeting.claim(nobody)
    await meeting.publish(record())
    await meeting.watch(record())
    Path(meeting.directory, "claim.7").touch(mode=0o600)
    with pytest.raises(Superseded, match="epoch 1 steps down, as epoch 7"):
        await meeting.watch(record())
    with pytest.raises(Superseded):
        await meeting.publish(record())


async def test_holder_repairs_what_a_slower_one_overwrote(
    meeting: Meeting, edge_file: Path
) -> None:
    """Also a file that was removed or torn."""
    await meeting.claim(nobody)
    await meeting.publish(record(epoch=5))
    for damage in (encode_block(record(epoch=4), "1"), b"GRAINEDG", None):
        if damage is None:
            edge_file.unlink()
        else:
            edge_file.write_bytes(damage)
        await meeting.watch(record(epoch=5))

        assert (await meeting.read()).epoch == 5


async def test_claim_of_one_that_died_is_passed_over(meeting: Meeting) -> None:
    """Claimed but never published: after a while the next number is taken."""
    await meeting.claim(nobody)

    assert (await meeting.claim(nobody))[1] == 2


async def test_torn_file_is_taken_over(meeting: Meeting, edge_file: Path) -> None:
    """A head that died amid its write does not block the meeting."""
    await meeting.claim(nobody)
    await meeting.publish(record())
    edge_file.write_bytes(edge_file.read_bytes()[:100])
    with pytest.raises(TornEdgeFile):
        await meeting.read()

    assert (await meeting.claim(nobody))[1] == 2


# Each bad state its own error


async def test_a_missing_edge_file_is_named(meeting: Meeting) -> None:
    with pytest.raises(NoEdgeFile, match="Start a head"):
        await meeting.read()


async def test_foreign_content_is_neither_read_nor_overwritten(
    meeting: Meeting, edge_file: Path
) -> None:
    edge_file.write_text("my thesis " * 1000)
    edge_file.chmod(0o600)
    with pytest.raises(NotAnEdgeFile):
        await meeting.read()
    with pytest.raises(NotAnEdgeFile):
        await meeting.claim(nobody)

    assert edge_file.read_text().startswith("my thesis")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606])
async def test_a_file_that_others_may_read_is_refused(
    meeting: Meeting, edge_file: Path, mode: int
) -> None:
    edge_file.write_bytes(encode_block(record(), "1"))
    edge_file.chmod(mode)
    with pytest.raises(ExposedFile, match="chmod 600"):
        await meeting.read()


async def test_a_symbolic_link_is_refused(meeting: Meeting, edge_file: Path) -> None:
    (edge_file.parent / "real").write_bytes(encode_block(record(), "1"))
    edge_file.symlink_to("real")
    with pytest.raises(LinkedFile, match="symbolic link"):
        await meeting.read()


async def test_a_hard_link_is_refused(meeting: Meeting, edge_file: Path) -> None:
    """Tried: Hard link to the meeting file.
    Result: refused.
    """
    edge_file.write_bytes(encode_block(record(), "1"))
    edge_file.chmod(0o600)
    (edge_file.parent / "second").hardlink_to(edge_file)
    with pytest.raises(LinkedFile):
        await meeting.read()


async def test_named_pipe_does_not_hang(meeting: Meeting, edge_file: Path) -> None:
    """Tried: Named pipe in place of the meeting file.
    Result: refused at once.
    """
    os.mkfifo(edge_file, 0o600)
    with trio.fail_after(60), pytest.raises(LinkedFile):
        await meeting.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_another_users_file_is_refused(meeting: Meeting, edge_file: Path) -> None:
    edge_file.write_bytes(encode_block(record(), "1"))
    edge_file.chmod(0o600)
    os.chown(edge_file, 65534, 65534)
    with pytest.raises(ForeignFile, match="belongs to user 65534"):
        await meeting.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
async def test_foreign_file_that_its_owner_keeps_private(sticky: Path) -> None:
    """The kernel already refuses to open it; the reason is the owner, not a read-only disk."""
    path, directory = sticky / "meeting", sticky / "meeting.d"
    path.write_bytes(encode_block(record(), "1"))
    path.chmod(0o600)
    directory.mkdir(mode=0o700)
    os.seteuid(65534)
    try:
        for attempt in (
            lambda: files.read_block(str(path), SIZE),
            lambda: files.write_block(str(path), b"x" * SIZE),
            lambda: files.make_private(str(directory)),
        ):
            with pytest.raises(ForeignFile, match="belongs to user 0, not to you"):
                attempt()
    finally:
        os.seteuid(0)


async def test_a_directory_where_others_write_is_refused(meeting: Meeting, edge_file: Path) -> None:
    """Tried: Exchange the meeting file in a directory where others write.
    Result: refused.
    """
    edge_file.parent.chmod(0o770)
    with pytest.raises(ExposedFile, match="chmod go-w"):
        await meeting.claim(nobody)


async def test_a_planted_private_directory_is_refused(meeting: Meeting, edge_file: Path) -> None:
    """Tried: Plant `P.d` that all users may enter.
    Result: refused.
    """
    Path(meeting.directory).mkdir(mode=0o755)
    with pytest.raises(ExposedFile, match="chmod 700"):
        await meeting.claim(nobody)


async def test_a_private_directory_that_is_a_link_is_refused(
    meeting: Meeting, edge_file: Path
) -> None:
    elsewhere = edge_file.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    Path(meeting.directory).symlink_to(elsewhere)
    with pytest.raises(LinkedFile):
        await meeting.claim(nobody)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, FilesystemFull),
        (errno.EDQUOT, FilesystemFull),
        (errno.EROFS, FilesystemReadOnly),
        (errno.EACCES, FilesystemReadOnly),
        (errno.ELOOP, LinkedFile),
        (errno.EIO, FilesystemFailed),
        (errno.ESTALE, FilesystemFailed),
    ],
)
async def test_errors_of_the_filesystem_have_the_path_and_the_systems_words(
    number: int, kind: type[MeetingError]
) -> None:
    """Each with the path and the system's words."""

    def fails() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(kind, match="/the/path: "):
        await Disk().run("/the/path", fails)


async def test_hung_filesystem_stalls_nothing_else(tmp_path: Path) -> None:
    """The call is reported after its deadline, and the rest of the program goes on meanwhile."""
    release = trio.Event()
    disk = Disk(deadline=0.2)
    ticks = 0

    def hangs() -> None:
        trio.from_thread.run(release.wait)

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.001)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        nursery.start_soon(Disk(deadline=600.0).run, "/net/slow", hangs)
        while ticks <= 20:
            await trio.sleep(0.001)
        for _ in range(6):  # more than there are threads
            with pytest.raises(FilesystemHung, match="has not answered"):
                await disk.run("/net/gone", hangs)
        release.set()
        assert await Disk().run("/net/fine", files.names, str(tmp_path)) == []
        nursery.cancel_scope.cancel()


async def test_a_filesystem_does_not_hang_because_this_process_was_stopped(
    mock_clock: MockClock,
) -> None:
    """When it goes on, the deadline is over before the answer is seen."""
    mock_clock.rate = 1.0
    go = threading.Event()

    def answers() -> str:
        assert go.wait(60)
        return "the answer"

    got: list[str] = []

    async def ask() -> None:
        got.append(await Disk().run("/net/fine", answers))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        mock_clock.jump(100.0)
        go.set()

    assert ["the answer"] == got
