"""The context that is around all runs of the runner's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.worker.errors import RunnerUnusable
from grain_testkit.runner_station import station

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = """
import contextlib, os, pathlib
entered = 0
@contextlib.asynccontextmanager
async def grain_context():
    global entered
    entered += 1
    log = pathlib.Path({log!r})
    log.write_text("entered")
    yield
    log.write_text("left")
"""


async def test_the_context_surrounds_all_runs(tmp_path: Path) -> None:
    """A tasklet sees the module that was entered; it is left when the worker leaves."""
    log = tmp_path / "log"
    module = tmp_path / "context_of_runs.py"
    module.write_text(CONTEXT.format(log=str(log)))

    async def entered() -> int:
        import importlib

        return importlib.import_module("context_of_runs").entered  # type: ignore[no-any-return]

    async with station(str(module)) as s:
        assert 1 == await s.result(entered)
        assert 1 == await s.result(entered)
        assert "entered" == log.read_text()

    assert "left" == log.read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is not a file"),
        ("x = 1", "defines no grain_context"),
        ("def grain_context(): return 3", "asynccontextmanager"),
        ("1/0", "ZeroDivisionError"),
        ("import no_such_module", "no_such_module"),
        ("import os; os._exit(9)", "exited with code 9"),
    ],
)
async def test_a_worker_does_not_begin_with_a_context_that_fails(
    tmp_path: Path, text: str | None, why: str
) -> None:
    module = tmp_path / "ctx.py"
    if text is not None:
        module.write_text(text)

    with pytest.raises(RunnerUnusable, match=why):
        async with station(str(module)):
            raise AssertionError


async def test_a_context_may_be_the_name_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "by_its_name.py").write_text(CONTEXT.format(log=str(tmp_path / "log")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async with station("by_its_name"):
        assert "entered" == (tmp_path / "log").read_text()
    with pytest.raises(RunnerUnusable, match=r"no_such_thing is not found; give the path"):
        async with station("no_such_thing"):
            raise AssertionError
