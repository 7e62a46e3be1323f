"""The removal of directories of the file transport."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from grain.edge.transports.file_folder import remove_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_a_tree_is_removed_and_targets_of_links_in_it_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "7" / "0").mkdir(parents=True)
    (tmp_path / "7" / "file").touch()
    (tmp_path / "7" / "0" / "link").symlink_to(tmp_path / "kept")

    remove_tree(str(tmp_path / "7"))

    assert ["kept"] == os.listdir(tmp_path)
    assert ["file"] == os.listdir(tmp_path / "kept")


def test_a_link_in_place_of_a_directory_is_removed_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "7").symlink_to(tmp_path / "kept")

    remove_tree(str(tmp_path / "7"))

    assert ["kept"] == os.listdir(tmp_path)
    assert ["file"] == os.listdir(tmp_path / "kept")


def test_directories_are_removed_by_descriptors() -> None:
    """So that one which is exchanged for a link meanwhile is not followed."""
    assert shutil.rmtree.avoids_symlink_attacks


def test_a_missing_directory_and_a_file_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "8").touch()

    for name in ("7", "8", "8/9"):
        remove_tree(str(tmp_path / name))

    assert ["8"] == os.listdir(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENOTEMPTY, errno.EACCES])
def test_a_removal_beside_others_goes_on_and_reports_what_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Others remove files there, and make some, meanwhile; a refusal is an error."""
    (tmp_path / "7").mkdir()
    calls: list[Any] = []
    original = shutil.rmtree

    def rmtree(path: str) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise OSError(code, "somebody else")
        original(path)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    if code == errno.EACCES:
        with pytest.raises(PermissionError):
            remove_tree(str(tmp_path / "7"))
    else:
        remove_tree(str(tmp_path / "7"))

    assert (code == errno.EACCES) == (tmp_path / "7").exists()
