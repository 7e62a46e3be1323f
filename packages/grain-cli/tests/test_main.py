from importlib.metadata import version

from click.testing import CliRunner

from grain.cli import main


def test_version_is_that_of_the_package() -> None:
    """``grain --version`` prints the name of the command and the installed version."""
    result = CliRunner().invoke(main, ["--version"])

    assert result.output == f"grain {version('grain-cli')}\n"
    assert result.exit_code == 0


def test_help_says_what_grain_is() -> None:
    """``grain -h`` begins with the usage and says what this is."""
    result = CliRunner().invoke(main, ["-h"])

    assert result.output.startswith("Usage:")
    assert "scheduler" in result.output
    assert result.exit_code == 0
