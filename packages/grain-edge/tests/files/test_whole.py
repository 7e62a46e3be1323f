"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from grain.files.whole import whole_file, whole_name, write_whole

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("umask", [0o000, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o700])
def test_a_file_has_its_mode_whatever_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "state", "text", mode=mode)
    finally:
        os.umask(before)
    assert mode == stat.S_IMODE((tmp_path / "state").stat().st_mode)


def test_a_file_of_a_user_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "report.html", mode=None):
            pass
    finally:
        os.umask(before)
    assert 0o640 == stat.S_IMODE((tmp_path / "report.html").stat().st_mode)


def test_a_file_stays_as_it_was_until_the_new_one_is_full(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"old")
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        assert b"old" == path.read_bytes()
    assert b"new" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "state"
    write_whole(path, "old")
    with pytest.raises(type(error)) as caught, whole_file(path) as file:
        file.write(b"new")
        raise error
    assert "old" == path.read_text()
    assert [path] == list(tmp_path.iterdir())
    if isinstance(caught.value, OSError):
        assert str(path) == caught.value.filename


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "state"
    with pytest.raises(FileNotFoundError, match=f"directory: '{path}'$"):
        write_whole(path, "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=f"directory: '{tmp_path}/folder'$"):
        write_whole(tmp_path / "folder", "")


def test_a_file_that_came_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "grain.toml"
    with pytest.raises(FileExistsError), whole_file(path, replaces=False) as file:
        path.write_text("another's")
        file.write(b"ours")
    assert "another's" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    own, path = tmp_path / ".bashrc", tmp_path / "state"
    own.write_text("own")
    path.symlink_to(own)
    write_whole(path, "new")
    assert ("own", "new", False) == (own.read_text(), path.read_text(), path.is_symlink())


def test_a_planted_link_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    """Another user may have put it into a directory to which all may write."""
    aside = tmp_path / "aside"
    aside.symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError), whole_file(tmp_path / "page", aside=aside):
        pass
    assert ["aside"] == [path.name for path in tmp_path.iterdir()]


def test_the_name_beside_a_file_leads_back_to_it(tmp_path: Path) -> None:
    with whole_file(tmp_path / "log.json"):
        (aside,) = tmp_path.iterdir()
    assert "log.json" == whole_name(aside.name)
    assert ".gitignore" == whole_name(".gitignore")


@pytest.mark.parametrize(("sync", "synced"), [(True, [(5, False)]), (False, [])])
def test_a_file_that_is_to_outlive_a_crash_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool, synced: list[tuple[int, bool]]
) -> None:
    path, seen = tmp_path / "x", list[tuple[int, bool]]()
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append((os.fstat(fd).st_size, path.exists())))
    with whole_file(path, sync=sync) as file:
        file.write(b"01234")
    assert synced == seen
