"""Commands of other packages."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.cli import main, plugins
from grain.cli.plugin import chosen_config, report_errors
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with four commands, of which two cannot be loaded."""
    info = tmp_path / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[grain.commands]\n"
        "hello = greetings:hello\n"
        "broken = greetings_broken:command\n"
        "wrong = greetings:NUMBER\n"
        "up = greetings:hello\n"
    )
    (tmp_path / "greetings.py").write_text(
        "import click\n"
        "from grain.cli.plugin import chosen_config, report_errors\n"
        "NUMBER = 3\n"
        "@click.command()\n"
        "@click.pass_context\n"
        "def hello(ctx):\n"
        "    with report_errors():\n"
        "        click.echo(f'hello {chosen_config(ctx)}')\n"
        "        open('/nowhere/at/all')\n"
    )
    (tmp_path / "greetings_broken.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("greetings", "greetings_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.usefixtures("installed")
def test_an_entry_point_is_a_command() -> None:
    """It gets the configuration that was chosen, and its errors are sentences."""
    done = grain("-c", "some.toml", "hello")

    assert "hello some.toml\nError: /nowhere/at/all: No such file or directory\n" == done.output
    assert 1 == done.exit_code


@pytest.mark.usefixtures("installed")
def test_the_list_imports_nothing() -> None:
    """Names are listed, with whose they are; the broken one, too. Own commands go first."""
    done = grain("--help")

    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "hello (of greetings)" in lines
    assert "broken (of greetings)" in lines
    assert "up Submit workers, one per node." in lines
    assert "greetings" not in sys.modules


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "(greetings_broken:command): ModuleNotFoundError: No module named 'a_module"),
        ("wrong", "greetings:NUMBER is not a click.Command but int"),
    ],
)
def test_what_cannot_be_loaded_is_a_sentence(name: str, why: str) -> None:
    """It says which package, and what is wrong with it."""
    done = grain(name)

    assert done.output.startswith(f"Error: `grain {name}` cannot be loaded from greetings")
    assert why in done.output
    assert 1 == done.exit_code


@pytest.mark.parametrize("name", ["map", "cache"])
def test_known_commands_that_are_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are listed, and say what to install."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    known = plugins.Elsewhere("grain-not-here", plugins.ELSEWHERE[name].help)
    monkeypatch.setitem(plugins.ELSEWHERE, name, known)
    done = grain(name, "--help")

    assert (
        f"Error: `grain {name}` is part of grain-not-here, which is not installed here: "
        "pip install grain-not-here\n"
    ) == done.output
    assert 1 == done.exit_code
    listed = " ".join(grain("-h").output.split())
    assert f" {name} {known.help} (pip install " in listed


def test_known_commands_of_a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that lacks the command is too old."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    monkeypatch.setitem(plugins.ELSEWHERE, "map", plugins.Elsewhere("grain-edge", "Run."))

    assert "is part of a later grain-edge than " in grain("map").output


def test_an_entry_point_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such ones are named by their module."""
    points = [EntryPoint("odd", "nowhere_to_be_found:x", "grain.commands")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: points)

    assert "cannot be loaded from nowhere_to_be_found (" in grain("odd").output


@pytest.mark.usefixtures("installed")
def test_completion_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is listed, nor what is broken."""
    monkeypatch.setenv("_GRAIN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "grain ")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = CliRunner().invoke(main, [], prog_name="grain")

    assert {"plain,up", "plain,hello", "plain,broken"} <= set(done.output.split())
    assert "greetings" not in sys.modules


def test_the_functions_for_plugins_are_public() -> None:
    assert callable(chosen_config)
    assert callable(report_errors)
