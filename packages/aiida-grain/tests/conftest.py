"""Fixtures: a queue, with the commands for it, which this process runs or a shell does."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain_testkit.job_commands import JobCommands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    """A queue in an own home, with a dispatcher that does nothing: none is started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GRAIN_QUEUE", raising=False)
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grain.toml").write_text("")
    jobs = JobCommands(tmp_path)
    # A file where a mission that is started would make its folder.
    (tmp_path / "state/grain/started").write_text("no directory\n")
    jobs.dispatch()
    return jobs


@pytest.fixture
def typed(jobs: JobCommands) -> Callable[[str], tuple[int, str, str]]:
    """Type a command line as AiiDA does: in a login shell, with ``grain`` in ``~/.local/bin``."""
    commands = jobs.home / ".local/bin"
    commands.mkdir(parents=True)
    program = commands / "grain"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m grain.cli "$@"\n')
    program.chmod(0o755)

    def type_it(line: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["/bin/bash", "-l", "-c", line], capture_output=True, text=True, check=False,
            cwd=jobs.home, env={**os.environ, "PATH": "/usr/bin:/bin"}, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return type_it
