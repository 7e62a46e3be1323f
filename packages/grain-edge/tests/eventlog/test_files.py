"""Files that Grain or a job has written, as they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grain.eventlog.files import LARGEST, read_end, read_plain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("content", [b"", b"a", b"a" * 3_000_000])
def test_a_plain_file_is_read_whole(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert content == read_plain(tmp_path / "a")


def test_a_file_that_was_blown_up_is_refused_and_its_end_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"ab")
    assert b"ab" == read_end(tmp_path / "a", 5)
    with (tmp_path / "a").open("r+b") as file:
        file.truncate(LARGEST)  # takes no room on the disk
        file.seek(LARGEST)
        file.write(b"the end")
    with pytest.raises(OSError, match="File too large"):
        read_plain(tmp_path / "a")
    assert b"\0\0the end" == read_end(tmp_path / "a", 9)


def test_a_file_of_the_kernel_is_read_though_it_has_no_size() -> None:
    assert read_plain("/proc/self/stat").startswith(b"%d (" % os.getpid())
