"""Fixtures: configurations from their text, and the address of a meeting file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

import pytest

from grain.config import Config, ConfigError, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOME = {"HOME": "/home/me"}


class Load(Protocol):
    def __call__(self, text: str, env: Mapping[str, str] = HOME) -> Config: ...


class Refused(Protocol):
    def __call__(self, text: str, env: Mapping[str, str] = HOME) -> str: ...


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    """Load the text of a ./grain.toml, in an environment of its own."""

    def loaded(text: str, env: Mapping[str, str] = HOME) -> Config:
        (tmp_path / "grain.toml").write_text(text, encoding="utf-8")
        return load(env=env, cwd=tmp_path)

    return loaded


@pytest.fixture
def refused(loaded: Load) -> Refused:
    """Load a text that is wrong, for the message."""

    def refused(text: str, env: Mapping[str, str] = HOME) -> str:
        with pytest.raises(ConfigError) as info:
            loaded(text, env)
        return str(info.value)

    return refused


@pytest.fixture
def home_of_pwd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the password database name a home directory."""
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_dir="/home/of-pwd"))


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no home directory: a user whom the password database does not know."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)


@pytest.fixture
def address(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir(mode=0o700)
    return f"edge://{tmp_path}/shared/meeting"
