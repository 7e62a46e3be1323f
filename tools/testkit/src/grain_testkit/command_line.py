"""The command `grain` in the process of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from grain.cli import main

if TYPE_CHECKING:
    from click.testing import Result


def grain(*words: str, typed: str | None = None) -> Result:
    """Run the command; an exception is the test's."""
    return CliRunner().invoke(main, [*words], input=typed, catch_exceptions=False)
