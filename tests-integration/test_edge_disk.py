"""Filesystems that are really full or read-only: a small one, mounted for the test."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import trio

from grain.edge import Serving, dial, serve
from grain.edge.errors import FilesystemFull, FilesystemReadOnly
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.small_disk import fill, small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grain.edge import Peer


@pytest.fixture
def small() -> Iterator[Path]:
    """A filesystem of 3 MiB."""
    with small_disk("3m") as folder:
        yield folder


async def echo(peer: Peer) -> None:
    while True:
        await peer.channel.send(await peer.channel.receive())


async def test_a_head_on_a_full_disk_is_refused(small: Path) -> None:
    """A head that cannot write its meeting file says so."""
    fill(small)
    with pytest.raises(FilesystemFull, match="Make room"):
        await serve(echo, f"edge://{small}/meeting")


async def test_a_head_on_a_read_only_filesystem_is_refused(small: Path) -> None:
    """So does one on a filesystem that is not to be written."""
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)  # noqa: ASYNC221
    with pytest.raises(FilesystemReadOnly, match="Read-only file system"):
        await serve(echo, f"edge://{small}/meeting")


async def test_messages_arrive_when_a_full_disk_has_room_again(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost: what could not be stored arrives when there is room again."""
    address = f"edge://{small}/meeting"
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[Serving]) -> None:
            await serve(echo, address, codec=CODEC, task_status=task_status)

        await nursery.start(run)
        files = frozenset({"files"})
        async with dial(address, role="w", codec=CODEC, transports=files) as peer:
            filler = fill(small)
            payload = os.urandom(400_000)
            await peer.channel.send([(Note("x"), payload)])
            with trio.fail_after(300):
                while "trying again until it works" not in caplog.text:
                    await trio.sleep(0.02)
                filler.unlink()
                ((_, got),) = await peer.channel.receive()
            assert got == payload
            assert "works again" in caplog.text
        nursery.cancel_scope.cancel()
