"""Changes of a file that the kernel reports, with real files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge.connecting.dial import Dialler
from grain.edge.meeting import files, meeting
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import Meeting
from grain.edge.meeting.notify import file_changes
from grain.edge.messages import CORE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from grain.edge.meeting.notify import FileChanges


async def test_a_file_has_changed_when_a_process_has_written_it(tmp_path: Path) -> None:
    """It alone, and not one beside it; made and written over; reading it does not count."""
    path = tmp_path / "m"
    seen: list[None] = []

    async def watch(changes: FileChanges) -> None:
        while True:
            await changes.next()
            seen.append(None)

    with file_changes(str(path)) as changes:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, changes)
            (tmp_path / "m.d").write_text("other")
            (tmp_path / ("n" * 100)).write_text("other")
            await wait_all_tasks_blocked(0.01)
            assert [] == seen
            for times in (1, 2):
                files.write_block(str(path), b"block")
                while len(seen) < times:
                    await trio.sleep(0.001)
            path.read_text()
            await wait_all_tasks_blocked(0.01)
            assert 2 == len(seen)
            nursery.cancel_scope.cancel()


def test_a_directory_that_is_not_there_has_no_changes(tmp_path: Path) -> None:
    """And no descriptor stays open."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError), file_changes(str(tmp_path / "gone" / "m")):
        pass
    assert before == os.listdir("/proc/self/fd")


async def test_who_waits_for_a_head_looks_as_soon_as_one_has_published(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still, so that no pause ever ends."""
    path = str(tmp_path / "m")
    waiting = trio.Event()

    def watched(path: str) -> AbstractContextManager[FileChanges]:
        trio.from_thread.run_sync(waiting.set)
        return file_changes(path)

    monkeypatch.setattr(meeting, "file_changes", watched)
    looks = trio.Event()

    class Looking(Dialler):
        async def once(self, *_: object, **__: object) -> None:
            if waiting.is_set():
                looks.set()  # and not the first one, before any pause
            await trio.lowlevel.checkpoint()

    dialler = Looking(f"edge://{path}", "worker", "w", CORE, frozenset())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dialler.patiently, None)
        await waiting.wait()
        while not looks.is_set():
            files.write_block(path, b"block")  # until the watch is there, which begins in a thread
            await wait_all_tasks_blocked(0.001)
        nursery.cancel_scope.cancel()


async def test_where_the_kernel_cannot_tell_nothing_ever_changes(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises nothing, so the caller goes on looking after each pause."""
    refusals: list[str] = []

    @contextmanager
    def refused(path: str) -> Iterator[FileChanges]:
        refusals.append(path)
        raise OSError(24, "Too many open files")
        yield

    monkeypatch.setattr(meeting, "file_changes", refused)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Meeting(f"{tmp_path}/m", Disk()).changed)
        while not refusals:
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked(0.01)
        assert 1 == len(nursery.child_tasks)
        nursery.cancel_scope.cancel()
