"""The order in which a queue has files on the disk, in single cases; the laws try all of them.

Times are those of ``docs/queue-files.md``.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from grain.eventlog import files as log_files
from grain.queue import files as queue_files
from grain.queue.arrays import parse_array
from grain.queue.book import Book
from grain.queue.errors import CannotWrite, NotSynced, Settled
from grain.queue.files import INCOMING, LocalDisk, WholeFiles
from grain.queue.folder import Queue, make_format, read_format
from grain.queue.packing import keep_house, sweep_blobs
from grain.queue.records import Begun, Dependency, Ended, TaskInput, Wish
from grain.queue.sequence import read_pack
from grain_testkit.queue_disk import Faults, Host, Killed, Server
from grain_testkit.queue_world import make_job

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86400.0
BEGUN = Begun(at=1.0, host="h", worker="w")
CANCELLED = Begun(at=1.0, host="h", cancelled="me")
FAILED = Ended(how="exit", at=2.0, status=1)


# ---- the real disk


class Recorded:
    """`os` for a module, which notes calls, with the names of descriptors in their place."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._names: dict[int, str] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("open", "write", "fsync", "close", "link", "symlink", "unlink", "rename"):
            return real

        def call(*args: Any, **more: Any) -> Any:
            result = real(*args, **more)
            args = args[1:] if name == "symlink" else args  # without its text
            named = [self._name(one) for one in args[: 2 if name in ("link", "rename") else 1]]
            if name == "open":
                self._names[result] = named[0]
                kind = "create" if args[1] & os.O_CREAT else "open"
            else:
                kind = name
            self.calls.append(" ".join([kind, *named]))
            return result

        return call

    def _name(self, word: int | str | bytes) -> str:
        text = self._names[word] if isinstance(word, int) else os.fsdecode(word)
        text = os.path.relpath(text, self._root) if text.startswith("/") else text
        return "incoming/X" if text.startswith(INCOMING) else text


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue.open(tmp_path / "queue", make=True)
    queue.submit(make_job("first"))
    recorded = Recorded(tmp_path / "queue")
    monkeypatch.setattr(queue_files, "os", recorded)
    assert 2 == queue.submit(make_job("x"))

    assert [
        "create incoming/X", "write incoming/X", "fsync incoming/X", "close incoming/X",
        "link incoming/X jobs/0/2", "open jobs/0", "fsync jobs/0", "close jobs/0",
        "unlink incoming/X",
    ] == recorded.calls  # fmt: skip


def test_a_receipt_comes_whole_with_its_name_which_is_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue.open(tmp_path / "queue", make=True)
    queue.submit(make_job("x"))
    recorded = Recorded(tmp_path / "queue")
    monkeypatch.setattr(queue_files, "os", recorded)
    synced = ["open attempts/0", "fsync attempts/0", "close attempts/0"]
    assert queue.begin(1, None, 1, BEGUN, settled=True)
    assert ["symlink attempts/0/1.1.begun", *synced] == recorded.calls
    recorded.calls.clear()
    assert queue.end(1, None, 1, FAILED)
    assert ["symlink attempts/0/1.1.ended", *synced] == recorded.calls


@pytest.mark.parametrize("message", ["x" * 901, "\u00e4" * 451])
def test_a_receipt_that_is_too_long_for_a_link_is_a_file(tmp_path: Path, message: str) -> None:
    queue = Queue.open(tmp_path / "queue", make=True)
    queue.submit(make_job("x"))
    queue.begin(1, None, 1, BEGUN)
    ended = replace(FAILED, message=message)
    assert queue.end(1, None, 1, ended)

    assert not (tmp_path / "queue/attempts/0/1.1.ended").is_symlink()
    assert ended == queue.ended(1, None, 1)
    assert not queue.end(1, None, 1, FAILED)
    assert [] == os.listdir(tmp_path / "queue/incoming")


def test_a_receipt_is_a_file_where_the_disk_has_no_links_of_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(disk: LocalDisk, text: bytes, name: str) -> None:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    monkeypatch.setattr(LocalDisk, "note", too_long)
    queue = Queue.open(tmp_path / "queue", make=True)
    queue.submit(make_job("x"))
    assert queue.begin(1, None, 1, BEGUN)
    assert not queue.begin(1, None, 1, BEGUN)
    assert BEGUN == queue.begun(1, None, 1)


def test_of_two_that_note_the_same_only_one_has_made_it(tmp_path: Path) -> None:
    queue = Queue.open(tmp_path / "queue", make=True)
    queue.submit(make_job("x"))
    assert queue.begin(1, None, 1, BEGUN)
    assert not queue.begin(1, None, 1, BEGUN)
    assert queue.end(1, None, 1, FAILED)
    assert not queue.end(1, None, 1, FAILED)
    assert (BEGUN, FAILED) == (queue.begun(1, None, 1), queue.ended(1, None, 1))


def test_a_view_is_on_the_disk_before_it_takes_the_place_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(tmp_path)
    disk.make_folder(INCOMING)
    recorded = Recorded(tmp_path)
    monkeypatch.setattr(queue_files, "os", recorded)
    WholeFiles(disk).replace("view", b"{}")

    assert [
        "create incoming/X", "write incoming/X", "fsync incoming/X", "close incoming/X",
        "rename incoming/X view", "open .", "fsync .", "close .",
    ] == recorded.calls  # fmt: skip


def test_a_write_that_takes_only_a_part_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, content: write(fd, content[:3]))
        LocalDisk(tmp_path).create("x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_a_file_beyond_the_largest_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (log_files, queue_files):
        monkeypatch.setattr(module, "LARGEST", 10)
    disk = LocalDisk(tmp_path)
    disk.make_folder(INCOMING)
    with pytest.raises(CannotWrite, match="more than 512 MiB"):
        WholeFiles(disk).link_whole("x", b"0123456789+")
    assert not os.listdir(tmp_path / INCOMING)

    disk.create("x", b"0123456789")
    assert b"0123456789" == WholeFiles(disk).read("x")
    with (tmp_path / "x").open("ab") as file:
        file.write(b"+")
    assert b"" == WholeFiles(disk).read("x")


def test_a_directory_that_is_a_link_to_itself_is_not_full_of_records(tmp_path: Path) -> None:
    """Whoever reads number after number would never come to an end."""
    files = WholeFiles(LocalDisk(tmp_path))
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(name)
    assert b"" == files.read("file")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        files.read("folder/1")


# ---- a host that crashes


class LoseAll(random.Random):
    """The worst crash: nothing is left of what was not synced."""

    def random(self) -> float:
        return 0.0


class After(Faults):
    """Does something once, after an operation on a name that begins so."""

    def __init__(self, operation: str, name: str, does: Callable[[], object]) -> None:
        self._when: tuple[str, str] | None = (operation, name)
        self._does = does

    def after(self, host: Host, operation: str, name: str) -> None:
        del host
        if self._when and operation == self._when[0] and name.startswith(self._when[1]):
            self._when = None
            self._does()


def kill() -> None:
    raise Killed


class Site:
    """A file server, and queues on it: each as another host has it."""

    def __init__(self) -> None:
        self.server = Server()
        make_format(WholeFiles(Host(self.server)), "model", 4)

    def queue(self, faults: Faults | None = None) -> Queue:
        files = WholeFiles(Host(self.server, faults))
        found = read_format(files, "model")
        assert found is not None
        return Queue(files, found, Path("model"))

    def killed_after(self, operation: str, name: str, does: Callable[[Queue], object]) -> None:
        """Have a process killed after an operation, so before its sync."""
        queue = self.queue(After(operation, name, kill))
        with pytest.raises(Killed):
            does(queue)

    def crash(self) -> Queue:
        """Lose what was not synced; return the queue as it is then."""
        self.server.crash(LoseAll())
        return self.queue()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("kind", ["jobs", "wishes"])
def test_a_new_bucket_comes_when_the_one_before_is_safe(site: Site, kind: str) -> None:
    def append(queue: Queue) -> int:
        if kind == "jobs":
            return queue.submit(make_job("x"))
        return queue.wish(Wish(what="hold", jobs=((1, 1),)))

    if kind == "wishes":
        site.queue().submit(make_job("x"))
    for _ in range(2):
        append(site.queue())
    site.killed_after("link", f"{kind}/0/3", append)
    assert 4 == append(site.queue())

    sequence = getattr(site.crash(), kind)
    assert [1, 2, 3, 4] == [number for number, _ in sequence.follow(1)]


@pytest.mark.parametrize("how", ["begin", "cancel"])
def test_an_attempt_comes_when_the_end_of_the_one_before_is_safe(site: Site, how: str) -> None:
    queue = site.queue()
    queue.submit(make_job("x", retries=1))
    queue.begin(1, None, 1, BEGUN)
    site.killed_after("link", "attempts/0/1.1.ended", lambda one: one.end(1, None, 1, FAILED))
    # The sync of its own name has the other one on the disk, too, unless it is killed before.
    if how == "begin":
        site.killed_after("link", "attempts/0/1.2.begun", lambda one: one.begin(1, None, 2, BEGUN))
    else:
        site.killed_after(
            "link", "attempts/0/1.2.begun",
            lambda one: one.cancel_waiting(1, [(None, 2)], CANCELLED),
        )  # fmt: skip
    ends = site.server.nodes[site.server.nodes[0].entries["live"]].entries["attempts-0"]
    assert "1.1.ended" in site.server.nodes[ends].durable
    assert "1.2.begun" not in site.server.nodes[ends].durable


@pytest.mark.parametrize("how", ["begin", "cancel"])
def test_a_receipt_comes_when_its_job_is_safe(site: Site, how: str) -> None:
    site.queue().submit(make_job("first"))
    site.killed_after("link", "jobs/0/2", lambda one: one.submit(make_job("x")))
    queue = site.queue()
    if how == "begin":
        queue.begin(2, None, 1, BEGUN)
    else:
        queue.cancel_waiting(2, [(None, 1)], CANCELLED)
    later = site.crash()
    assert "x" == later.job(2).name
    assert later.begun(2, None, 1) is not None


SCRIPT = "#!/bin/sh\n" + "x" * 100_000


def test_a_script_that_another_job_shares_is_safe_before_its_own_job(site: Site) -> None:
    site.killed_after("link", "blobs/", lambda one: one.submit(make_job("x", script=SCRIPT)))
    number = site.queue().submit(make_job("y", script=SCRIPT))
    later = site.crash()
    assert [later.job(number).script_blob] == later.files.disk.list("blobs")


def test_a_script_that_is_removed_while_its_submitter_sleeps_is_made_again(site: Site) -> None:
    def sweep() -> None:
        disk = site.queue().files.disk
        [blob] = disk.list("blobs")
        disk.remove(f"blobs/{blob}")

    queue = site.queue(After("sync", "blobs", sweep))
    number = queue.submit(make_job("x", script=SCRIPT))
    assert [queue.job(number).script_blob] == queue.files.disk.list("blobs")


def test_receipts_whose_sync_has_failed_are_read_with_the_next_look(site: Site) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    site.queue().submit(make_job("x"))
    book = Book(site.queue(After("sync", "attempts/0", fail)))
    book.read_new()
    other = site.queue()
    other.begin(1, None, 1, BEGUN)
    other.end(1, None, 1, FAILED)
    with pytest.raises(NotSynced):
        book.refresh(safe=True)
    assert book.entries[1].counts.pending, "nothing follows from them yet"
    book.refresh(safe=True)
    assert book.entries[1].counts.failed


# ---- the view, and times


def test_a_view_has_the_wishes_for_its_oldest_job(site: Site) -> None:
    queue = site.queue()
    for _ in range(5):
        queue.submit(make_job("x"))
    for number in range(1, 4):
        queue.begin(number, None, 1, BEGUN)
        queue.end(number, None, 1, FAILED)
    queue.wish(Wish(what="hold", jobs=((1, 3),)))
    queue.wish(Wish(what="hold", jobs=((4, 4),)))
    site.server.clock += 2 * DAY + 1.0
    keep_house(book := Book.read(queue))
    book.write_view()

    again = Book.read(queue)
    assert [4, 5] == list(again.entries)
    assert ["held", ""] == [again.standing(number, None, 0.0).reason for number in (4, 5)]
    assert 1 == len(again.wishes()), "those for packed jobs are left out"


def ended_bucket(site: Site) -> Queue:
    """Return a queue with a full bucket, whose jobs have just ended, and one job behind it."""
    queue = site.queue()
    for number in range(1, 5):
        queue.submit(make_job("x"))
        if number < 4:
            queue.begin(number, None, 1, BEGUN)
            queue.end(number, None, 1, FAILED)
    return queue


AGAIN = Wish(what="again", jobs=((1, 1),), attempt=2)


@pytest.mark.parametrize(("hours", "settled"), [(47.45, False), (47.55, True)])
def test_a_job_runs_again_until_half_an_hour_before_it_may_be_packed(
    site: Site, hours: float, settled: bool
) -> None:
    queue = ended_bucket(site)
    site.server.clock += hours * 3600.0
    keep_house(Book.read(queue))
    if settled:
        with pytest.raises(Settled, match="jobs 1 to 3 ended days ago"):
            queue.wish(AGAIN)
        assert [] == list(queue.wishes_from(1))
    else:
        queue.wish(AGAIN)


def test_whoever_sleeps_until_it_is_too_late_to_run_a_job_again_is_told_so(site: Site) -> None:
    ended_bucket(site)

    def sleep() -> None:
        site.server.clock += 3600.0

    site.server.clock += 47.0 * 3600.0
    queue = site.queue(After("link", "wishes/0/1", sleep))
    with pytest.raises(Settled):
        queue.wish(AGAIN)


def test_jobs_are_packed_cleared_and_forgotten_at_their_times(site: Site) -> None:
    queue, disk = ended_bucket(site), Host(site.server)

    def after(seconds: float) -> tuple[bool, bool, bool]:
        site.server.clock += seconds
        keep_house(Book.read(queue))
        packed = disk.is_file("jobs/0")
        removed = packed and read_pack(queue.files, "jobs/0").removed
        return packed, disk.exists("live/jobs-0"), removed

    assert (False, True, False) == after(2 * DAY - 10.0)
    assert (True, True, False) == after(20.0)
    assert (True, True, False) == after(3600.0 - 10.0)
    assert (True, False, False) == after(20.0)
    assert (True, False, False) == after(30 * DAY - 3600.0 - 20.0)
    assert (True, False, True) == after(20.0)


def test_what_a_job_waits_for_is_kept_beyond_its_time(site: Site) -> None:
    queue = ended_bucket(site)
    queue.submit(make_job("later", after=(Dependency(jobs=(1,), until="fail"),), held=True))
    for seconds in (2 * DAY + 1.0, 60 * DAY):
        site.server.clock += seconds
        keep_house(Book.read(queue))
    assert "met" == (book := Book.read(queue)).dependency(book.entries[5], None)
    queue.wish(Wish(what="release", jobs=((5, 5),)))
    queue.begin(5, None, 1, BEGUN)
    queue.end(5, None, 1, FAILED)
    keep_house(Book.read(queue))
    assert read_pack(queue.files, "jobs/0").removed


def test_what_was_asked_of_the_oldest_job_is_kept_as_long_as_it_waits(site: Site) -> None:
    queue = site.queue()
    queue.submit(make_job("x"))
    for what in ("hold", "release", "hold", "signal"):
        queue.wish(Wish(what=what, jobs=((1, 1),)))
    for seconds in (2 * DAY + 1.0, 60 * DAY):
        site.server.clock += seconds
        keep_house(Book.read(queue))
    book = Book(site.queue())
    book.refresh()
    assert "held" == book.standing(1, None, 0.0).reason


@pytest.mark.parametrize("kind", ["script", "stdin", "inputs"])
def test_what_a_job_needs_stays_however_long_it_waits(site: Site, kind: str) -> None:
    queue = site.queue()
    if kind == "script":
        queue.submit(make_job("x", script=SCRIPT, held=True))
    elif kind == "stdin":
        queue.submit(make_job("x", held=True), b"1.0")
    else:
        line = TaskInput("a", (), ("echo", "a")).line()
        queue.submit(make_job("x", array=parse_array("1-2"), held=True), b"", line * 2)
    left = "blobs/left-over"
    queue.files.link_whole(left, b"")
    for days, kept in ((39.9, 2), (0.2, 1), (60.0, 1)):
        site.server.clock += days * DAY
        keep_house(Book.read(queue))
        assert kept == len(queue.files.disk.list("blobs"))
    assert not queue.files.disk.exists(left)


def test_a_script_that_a_new_job_shares_while_old_ones_are_removed_stays(site: Site) -> None:
    queue = site.queue()
    queue.submit(make_job("x"))
    queue.files.link_whole("blobs/left-over", b"")
    site.server.clock += 41 * DAY
    sweep_blobs(
        site.queue(After("read", "jobs/0/1", lambda: queue.files.disk.touch("blobs/left-over")))
    )
    assert queue.files.disk.exists("blobs/left-over")
