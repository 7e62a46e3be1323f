"""Configurations and the jobs that come of them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import Job, worker_job
from grain.config import Config, load

if TYPE_CHECKING:
    from pathlib import Path

Configure = Callable[[str], Config]
NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Load a configuration from its text, at home in /home/me."""

    def loaded(text: str) -> Config:
        path = tmp_path / "config" / "grain.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return load(path, env={"HOME": "/home/me", "USER": "me"})

    return loaded


@pytest.fixture
def job_of(configure: Configure) -> Callable[..., Job]:
    """The worker's job of a configuration's text, submitted at 09:30:15 in /home/me/run."""

    def made(text: str, *extra_args: str, path: str = "") -> Job:
        return worker_job(
            configure(text), now=NOW, folder="/home/me/run", extra_args=extra_args, path=path
        )

    return made


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, a state directory, and a PATH without batch systems."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(alone: Path) -> Callable[[str, str], Path]:
    """Put a shell script on PATH; ``$0.in`` is a place for what it reads."""

    def put(name: str, script: str) -> Path:
        path = alone / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return put
