from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.app import OWN
from grain.cli.version import named_version

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


def test_help_says_what_grain_is() -> None:
    """``grain -h`` begins with the usage and says what this is."""
    result = CliRunner().invoke(main, ["-h"])

    assert result.output.startswith("Usage:")
    assert "scheduler" in result.output
    assert result.exit_code == 0


def test_help_lists_the_commands() -> None:
    """Each is listed without being imported, by the first line of its own help."""
    result = CliRunner().invoke(main, ["-h"])
    listed = dict(line.split(None, 1) for line in result.output.splitlines() if line[:2] == "  ")

    for name, own in OWN.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.get_short_help_str(80) == own.help == listed[name]


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
