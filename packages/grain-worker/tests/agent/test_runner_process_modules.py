"""The modules that a runner and its pool import: none that another user may have planted."""

from __future__ import annotations

import importlib
import shlex
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from grain.subproc import subprocify
from grain.worker.errors import PayloadError, RunnerUnusable
from grain_testkit.pool_scope import pool
from grain_testkit.runner_station import station

if TYPE_CHECKING:
    from pathlib import Path

PLANTED = ("socket.py", "enum.py", "trio.py", "msgspec.py", "outcome.py", "heapq.py")
TRAP = "import pathlib; pathlib.Path(__file__).with_name('sprung').touch()\n1/0"

STEPS = """
import heapq
async def name_in_runner():
    return __name__, hasattr(heapq, "heappush")
def name_in_pool():
    return __name__, hasattr(heapq, "heappush")
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with traps, and with a module that this process has imported."""
    for name in PLANTED:
        (tmp_path / name).write_text(TRAP)
    (tmp_path / "steps_of_this_test.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    # Last here, too: this process has imported the library, but not all of it.
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    module = importlib.import_module("steps_of_this_test")
    monkeypatch.setitem(sys.modules, "steps_of_this_test", module)
    return tmp_path


async def test_modules_of_the_working_directory_hide_none_of_the_library(directory: Path) -> None:
    """A function of a module there is found by its name, in a runner and in a pool."""
    steps = importlib.import_module("steps_of_this_test")

    async with station() as s:
        assert ("steps_of_this_test", True) == await s.result(steps.name_in_runner)
    async with pool():
        assert ("steps_of_this_test", True) == await subprocify(steps.name_in_pool)()

    assert not (directory / "sprung").exists()


async def test_a_working_directory_in_which_others_may_write_is_not_searched(
    directory: Path,
) -> None:
    """The error of a function that is not found says why, and what to do."""
    directory.chmod(0o777)
    steps = importlib.import_module("steps_of_this_test")

    async with station() as s:
        with pytest.raises(
            PayloadError, match=f"set PYTHONPATH={shlex.quote(str(directory))} where the"
        ):
            await s.result(steps.name_in_runner)
    with pytest.raises(RunnerUnusable, match=f"every user may write to {directory}"):
        async with station("steps_of_this_test"):
            await trio.lowlevel.checkpoint()

    assert not (directory / "sprung").exists()
