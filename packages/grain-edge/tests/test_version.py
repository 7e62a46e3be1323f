"""The versions of this process, and a change of the code that is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grain.edge import version
from grain.edge.version import CodeFiles, code_at_start, replaced_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def other_size(file: Path) -> None:
    file.write_text("more code")


def other_time(file: Path) -> None:
    os.utime(file, ns=(1, 1))


def moved(file: Path) -> None:
    file.rename(file.with_name("gone.py"))


def removed(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("no directory")


@pytest.mark.parametrize("change", [other_size, other_time, moved, removed])
def test_code_is_replaced_if_a_file_is_another_one_or_gone(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    first, second = tmp_path / "a.py", tmp_path / "package" / "b.py"
    second.parent.mkdir()
    for file in (first, second):
        file.write_text("code")
    code = CodeFiles([str(first), str(second)])
    assert not code.are_replaced()

    change(second)

    assert code.are_replaced()


def test_code_that_cannot_be_read_at_the_moment_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("code")
    code = CodeFiles([str(file)])
    file.unlink()
    file.symlink_to(file)  # as without descriptors, or a file system that does not answer

    assert not code.are_replaced()


def test_a_process_knows_the_files_of_the_modules_that_it_has_loaded() -> None:
    assert version.__file__ in code_at_start().files
    assert code_at_start() is code_at_start()
    assert "" == replaced_code()
