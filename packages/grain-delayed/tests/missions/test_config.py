"""The configuration that a mission uses, and what it prints of that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from grain.config import ConfigError
from grain.delayed import run

if TYPE_CHECKING:
    from pathlib import Path


async def main() -> None: ...


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    return tmp_path


def lines_of(capsys: pytest.CaptureFixture[str], config_file: Any) -> list[str]:
    run(main, config_file=config_file, name="me")
    captured = capsys.readouterr()
    assert "" == captured.out
    # Where a mission takes ten seconds, it names its report.
    return [line for line in captured.err.splitlines() if "grain report" not in line]


def test_without_configuration_the_lines_are_those_of_the_tutorial(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "grain.toml").write_text("not toml")

    *lines, last = lines_of(capsys, False)

    assert [
        "Config file is disabled, using default settings.",
        "worker me(local) starts cleaning up",
        "worker me(local) clear",
    ] == lines
    assert re.fullmatch(r"Time elapsed for all jobs: \d+\.\d{3}s", last)


def test_without_a_file_the_defaults_apply(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No config file found, using default settings." == lines_of(capsys, None)[0]


def test_a_file_in_the_current_directory_is_found(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "grain.toml").write_text("")

    assert f"Using config file {here}/grain.toml." == lines_of(capsys, None)[0]


def test_the_variable_goes_before_the_file_here_and_an_argument_before_both(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grain.toml", "variable.toml", "argument.toml"):
        (here / name).write_text("")
    monkeypatch.setenv("GRAIN_CONFIG", "variable.toml")

    assert f"Using config file {here}/variable.toml." == lines_of(capsys, None)[0]
    assert f"Using config file {here}/argument.toml." == lines_of(capsys, "argument.toml")[0]


def test_a_named_file_must_be_there_before_anything_begins(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"mine\.toml: no such file"):
        run(main, config_file="mine.toml")
    assert "" == capsys.readouterr().err


def test_a_mistake_in_a_file_is_refused_with_its_name_and_key(here: Path) -> None:
    (here / "grain.toml").write_text("[script]\ncores = -1\n")

    with pytest.raises(ConfigError, match=r"(?s)grain\.toml.*script\.cores"):
        run(main)
