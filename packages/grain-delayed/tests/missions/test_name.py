"""The name of a mission whose program gives none."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = """
from grain.delayed.missions.executor import mission_name
print(mission_name())
"""
NOTEBOOK = "import sys; sys.modules['ipykernel'] = sys\n" + SHOWN
IPYTHON = "import sys; sys.modules['IPython'] = sys; sys.argv = ['ipython']\n" + SHOWN


MAP = SHOWN.replace("mission_name()", "mission_name('map')")


def shown(folder: Path, *words: str, stdin: str = "", **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["opt.py"], "opt"),
        (["./some/my scan:2.py"], "my_scan_2"),
        (["some"], "some"),
        (["-m", "opt"], "opt"),
        (["-m", "some"], "some"),
        (["-m", "some.part"], "some.part"),
        (["-c", SHOWN], "python-c"),
    ],
)
def test_a_mission_is_called_after_its_script(words: list[str], name: str, tmp_path: Path) -> None:
    """So that one can type it: without spaces and colons."""
    (tmp_path / "some").mkdir()
    for path in ("opt.py", "some/my scan:2.py", "some/__main__.py", "some/part.py"):
        (tmp_path / path).write_text(SHOWN)

    assert name == shown(tmp_path, *words)


@pytest.mark.parametrize(
    ("text", "name"),
    [(SHOWN, "python-stdin"), (NOTEBOOK, "notebook"), (IPYTHON, "ipython"), (MAP, "map")],
)
def test_a_session_without_a_script_has_the_name_of_its_kind(
    text: str, name: str, tmp_path: Path
) -> None:
    assert name == shown(tmp_path, "-", stdin=text)


def test_a_notebook_that_has_a_file_gives_its_name(tmp_path: Path) -> None:
    """A script that is started from there has its own."""
    (tmp_path / "opt.py").write_text(SHOWN)

    assert "sweep" == shown(tmp_path, "-", stdin=NOTEBOOK, JPY_SESSION_NAME="/home/me/sweep.ipynb")
    assert "opt" == shown(tmp_path, "opt.py", JPY_SESSION_NAME="/home/me/sweep.ipynb")
