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


# `runpy` makes of scripts and modules what Python itself does, so one process can run several.
RUNS = """
import runpy, sys
sys.path.insert(0, "")
for path in "./some/my scan:2.py", "some":
    runpy.run_path(path, run_name="__main__")
for module in "opt", "some":
    runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["opt.py"], ["opt"]),
        (["-m", "some.part"], ["some.part"]),
        (["-c", SHOWN], ["python-c"]),
        (["-c", RUNS], ["my_scan_2", "some", "opt", "some"]),
    ],
    ids=["a script", "a module", "a command", "others, one after another"],
)
def test_a_mission_is_called_after_its_script(
    words: list[str], names: list[str], tmp_path: Path
) -> None:
    """So that one can type it: without spaces and colons."""
    (tmp_path / "some").mkdir()
    for path in ("opt.py", "some/my scan:2.py", "some/__main__.py", "some/part.py"):
        (tmp_path / path).write_text(SHOWN)

    assert names == shown(tmp_path, *words).splitlines()


def test_a_session_without_a_script_has_the_name_of_its_kind(tmp_path: Path) -> None:
    text = SHOWN + MAP + IPYTHON + NOTEBOOK  # each is more than those before it
    names = ["python-stdin", "map", "ipython", "notebook"]

    assert names == shown(tmp_path, "-", stdin=text).splitlines()


def test_a_notebook_that_has_a_file_gives_its_name(tmp_path: Path) -> None:
    """A script that is started from there has its own."""
    (tmp_path / "opt.py").write_text(SHOWN)

    assert "sweep" == shown(tmp_path, "-", stdin=NOTEBOOK, JPY_SESSION_NAME="/home/me/sweep.ipynb")
    assert "opt" == shown(tmp_path, "opt.py", JPY_SESSION_NAME="/home/me/sweep.ipynb")
