"""The places from which processes take code."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain.edge import trust

if TYPE_CHECKING:
    from pathlib import Path

# Modules that every start of Grain's processes imports.
PLANTED = ("socket.py", "enum.py", "msgspec.py", "runpy.py", "trio.py")


def test_no_module_of_the_working_directory_is_imported_at_a_start(tmp_path: Path) -> None:
    """Also in Python 3.10, which has no option for that; arguments arrive as they are."""
    for name in PLANTED:
        (tmp_path / name).write_text("import os; os.write(1, b'planted'); os._exit(9)")
    code = "import enum, socket, sys; print(__name__, sys.argv[1:], sys.path[0])"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "asked.py").write_text(code)

    done = subprocess.run(
        [*trust.python_command("asked"), "-x", "y z"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )

    expected = f"__main__ ['-x', 'y z'] {tmp_path / 'site'}\n"
    assert (expected, "") == (done.stdout, done.stderr)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    monkeypatch.setattr(sys, "path", ["/first", "/last"])
    monkeypatch.chdir(tmp_path)
    return sys.path


def test_a_working_directory_of_ours_is_searched_last(path: list[str], tmp_path: Path) -> None:
    assert "" == trust.search_working_directory()
    assert ["/first", "/last", str(tmp_path)] == path


@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o1777, "everybody")])
def test_a_working_directory_of_others_is_not_searched_and_the_reason_has_the_remedy(
    path: list[str], tmp_path: Path, mode: int, who: str
) -> None:
    tmp_path.chmod(mode)

    assert (
        f"The working directory is not searched, as {who} may write to {tmp_path}. If that is as "
        f"it should be, set PYTHONPATH={tmp_path} where the worker is started"
    ) == trust.search_working_directory()
    assert ["/first", "/last"] == path


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_a_working_directory_of_another_user_is_not_searched(
    path: list[str], tmp_path: Path
) -> None:
    os.chown(tmp_path, 54321, 54321)

    assert f"as {tmp_path} belongs to user 54321" in trust.search_working_directory()
    assert ["/first", "/last"] == path


def test_a_working_directory_that_the_user_names_is_searched_where_it_was_named(
    path: list[str], tmp_path: Path
) -> None:
    """It may be open to others: PYTHONPATH is the user's word."""
    tmp_path.chmod(0o777)
    path.insert(0, str(tmp_path))

    assert "" == trust.search_working_directory()
    assert [str(tmp_path), "/first", "/last"] == path


def test_a_working_directory_that_was_removed_is_not_searched(
    path: list[str], tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert "No such file or directory" in trust.search_working_directory()
    assert ["/first", "/last"] == path
    os.chdir(tmp_path)
