"""Fixtures: a queue, and as much of Snakemake as an executor sees of it."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

# On a Python that Snakemake does not support, there is nothing to test.
collect_ignore_glob = (
    [] if importlib.util.find_spec("snakemake_interface_executor_plugins") else ["test_*.py"]
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grain_testkit.fake_snakemake import FakeSnakemake
    from grain_testkit.job_commands import JobCommands


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    """A queue with a dispatcher that does nothing, in an own home."""
    from grain_testkit.job_commands import JobCommands

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.delenv("GRAIN_QUEUE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grain.toml").write_text("")
    (tmp_path / "Snakefile").write_text("rule one: output: 'out'\n")
    (tmp_path / ".snakemake").mkdir()
    jobs = JobCommands(tmp_path)
    # A file where a mission that is started would make its folder: none starts.
    (tmp_path / "state/grain/started").write_text("no directory\n")
    jobs.dispatch()
    return jobs


@pytest.fixture
def snakemake(jobs: JobCommands) -> Iterator[FakeSnakemake]:
    from grain_testkit.fake_snakemake import FakeSnakemake

    fake = FakeSnakemake(jobs.home)
    yield fake
    fake.shutdown()
