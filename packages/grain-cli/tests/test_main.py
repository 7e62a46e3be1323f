from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from grain.cli import main, plugins
from grain.cli.app import OWN
from grain.cli.plugins import named_version

if TYPE_CHECKING:
    from pathlib import Path


def test_version_is_that_of_the_package() -> None:
    """``grain --version`` prints the name of the command and the installed version."""
    result = CliRunner().invoke(main, ["--version"])

    assert result.output == f"grain {version('grain-cli')}\n"
    assert result.exit_code == 0


def test_version_is_found_without_reading_metadata(tmp_path: Path) -> None:
    """It is in the name of a directory; where that is not clear, the metadata are read."""
    assert version("grain-cli") == named_version(sys.path)
    code = "from grain.cli import main; main(['--version'], standalone_mode=False); import sys; "
    code += "print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"grain {version('grain-cli')}\nFalse\n" == done.stdout
    for name in ("grain_cli-1.2.3.dist-info", "grain_client-9.dist-info"):
        (tmp_path / name).mkdir()
    assert "1.2.3" == named_version([str(tmp_path / "nothing"), str(tmp_path), *sys.path])
    (tmp_path / "grain_cli-1.2.4rc1.dist-info").mkdir()
    assert "" == named_version([str(tmp_path), *sys.path])


@pytest.mark.parametrize("command", ["ls", "up", "doctor", "init"])
def test_a_directory_that_was_removed_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = CliRunner().invoke(main, [command])

    assert "Error: this directory was removed; change to another one\n" == result.output
    assert result.exit_code == 1


def test_help_says_what_grain_is() -> None:
    """``grain -h`` begins with the usage and says what this is."""
    result = CliRunner().invoke(main, ["-h"])

    assert result.output.startswith("Usage:")
    assert "scheduler" in result.output
    assert result.exit_code == 0


def test_help_lists_the_commands() -> None:
    """Each is listed without being imported, by the first line of its own help."""
    result = CliRunner().invoke(main, ["-h"])
    for name, own in OWN.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.get_short_help_str(80) == own.help
        assert re.search(rf"^  {name} +{re.escape(own.help)}$", result.output, re.MULTILINE)


def commands() -> list[str]:
    """Every command that is installed, with those of groups, as typed."""

    def below(command: click.Command, words: list[str]) -> list[str]:
        found = [" ".join(words)]
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                try:
                    inner = command.get_command(context, name)
                except click.ClickException:  # of a package that is not installed
                    continue
                assert inner is not None
                found += below(inner, [*words, name])
        return found

    return below(main, ["grain"])


@pytest.mark.parametrize("command", commands())
def test_every_help_has_an_example(command: str) -> None:
    """An example is a line of its own that begins with the command."""
    help_text = CliRunner().invoke(main, [*command.split()[1:], "--help"]).output

    examples = [line for line in help_text.splitlines() if line.startswith(f"    {command} ")]
    assert examples or re.search(rf"^ +{command}( |$)", help_text, re.MULTILINE)
    assert all(len(line) <= 80 for line in help_text.splitlines())


def test_help_says_what_commands_of_other_packages_are_for() -> None:
    """Without importing them; each line is the first one of the command's own help."""
    listed = CliRunner().invoke(main, ["-h"]).output
    for name, known in plugins.ELSEWHERE.items():
        assert re.search(rf"^  {name} +{re.escape(known.help[:30])}", listed, re.MULTILINE)
        try:
            command = main.get_command(click.Context(main), name)
        except click.ClickException:  # its package is not installed
            continue
        assert command is not None
        assert command.get_short_help_str(80) == known.help


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lss", "did you mean 'ls'?"),
        ("docter", "did you mean 'doctor'?"),
        ("UP", "did you mean 'up'?"),
        ("status", "did you mean 'ls'?"),
        ("stop", "did you mean 'drain'?"),
        ("quit", "did you mean 'drain'?"),
        ("nonsense", "there are attach, bridge, cache, "),
    ],
)
def test_an_unknown_command_suggests_the_nearest(typed: str, meant: str) -> None:
    done = CliRunner().invoke(main, [typed])

    assert f"No such command {typed!r}; {meant}" in done.output
    assert 2 == done.exit_code


@pytest.mark.parametrize("words", [["--verson"], ["ls", "--jso"], ["up", "--cnfig", "x"]])
def test_an_unknown_option_suggests_the_nearest(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)

    nearest = {"--verson": "--version", "--jso": "--json", "--cnfig": "--config"}
    [option] = [word for word in words if word in nearest]
    assert re.search(rf"No such option:? '?{option}'?.*{nearest[option]}", done.output)
    assert 2 == done.exit_code


HEAVY = {
    *(
        "asyncio",
        "importlib.metadata",
        "json",
        "logging",
        "socket",
        "subprocess",
        "typing_extensions",
    ),
    *("cryptography", "dill", "msgspec", "rich", "trio"),
    *("grain.cli.batch", "grain.config", "grain.edge", "grain.resource"),
}
if sys.version_info < (3, 11):
    HEAVY.remove("subprocess")  # click imports uuid, which imports it there


def test_every_command_stands_in_one_section_of_the_help() -> None:
    listed = CliRunner().invoke(main, ["--help"]).output.partition("\nRun:\n")[2]
    sections = re.split(r"\n\n[\w ]+:\n", listed)
    # A help text that is folded goes on at a larger indentation.
    names = re.findall(r"^  (\S+)", listed, re.MULTILINE)

    assert 5 == len(sections)
    assert sorted([*OWN, *plugins.ELSEWHERE]) == sorted(names)


@pytest.mark.parametrize("words", [["--version"], ["up", "-h"], ["ls", "--help"]])
def test_a_command_imports_nothing_before_it_does_something(words: list[str]) -> None:
    """A command starts with click and this package; `tools/bench/imports.py` measures how long."""
    code = (
        "import sys; before = set(sys.modules); "
        "from grain.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "print(sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    run = [sys.executable, "-c", code, *words]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    imported = set(ast.literal_eval(done.stderr))

    assert "click" in imported
    assert not imported & HEAVY
