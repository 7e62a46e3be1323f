"""The processes that Gnaw and missions start import nothing from their working directory."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from grain.files.trust import python_command
from grain.head.gnaw.pool import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "words",
    [
        [*command(1, "", 1)[: command(1, "", 1).index("scale")], "--version"],
        [*python_command("grain.head"), "--help"],
        [*python_command("grain.worker"), "--help"],
    ],
)
def test_a_module_in_the_working_directory_is_not_imported_in_place_of_the_library(
    tmp_path: Path, words: list[str]
) -> None:
    """The pool's child runs in the directory of its configuration, which others may share.

    Tried: Plant modules (`socket.py`, `trio.py` ...) where processes of Grain start.
    Result: not imported.
    """
    for name in ("socket.py", "enum.py", "click.py", "msgspec.py", "trio.py"):
        (tmp_path / name).write_text("import os; os._exit(9)")

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
